//! A convolution whose windows stand side by side, as in the first layer of a vision transformer, takes the pixels of a window's
//! row as channels, and the rows of windows as samples: `[N, C, h H, w W]` is seen as `[N H, w C, h, W]` under a window of one
//! column that never moves down.
//!
//! Channels are stored side by side, so that is a view. A few channels become runs that kernels read in whole pieces, and no step
//! is too long for them. The same products are summed in another order. Where a window's row is no whole number of pieces, as of
//! windows of 14 pixels, pictures get channels of zeros. Padded ones are copied with the rows and columns of zeros that windows
//! reach into and without those that none reaches.

use super::rewrite::Index;
use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{PadMode, Primitive, Scalar, Window};
use crate::tensor::{Shape, Tensor};
use std::sync::Arc;

/// Most channels that are worth joining: fewer than a piece of 16 bytes has.
const FEW_CHANNELS: u32 = 7;
/// Elements of a piece: the new channels are a multiple of it.
const PIECE: u32 = 8;
/// Fewest columns of a window; smaller ones are first layers that have kernels of their own.
const COLUMNS: u32 = 8;

pub fn run(graph: &mut Graph) {
    let mut node = 0;
    while node < graph.nodes.len() {
        if let Some(found) = find(graph, node) {
            node += apply(graph, node, found);
        }
        node += 1;
    }
    super::drop_dead::run(graph);
}

/// A convolution of windows side by side.
struct Found {
    window: Window,
    weights: Tensor,
    /// The picture under the windows, with channels of zeros, if it is another than what is convolved; and elements before its first.
    padded: Option<(Shape, [i32; MAX_RANK])>,
    /// Of the picture: cut into windows, turned, and with their pixels as channels.
    before: [Shape; 3],
    /// Of the result: as the convolution makes it, and with its rows apart.
    after: [Shape; 2],
}

/// Of a picture cut into windows: samples and rows of windows, pixels of a window's row, rows and columns.
const TURNED: [usize; 6] = [0, 2, 5, 1, 3, 4];
/// The same of weights.
const TURNED_WEIGHTS: [usize; 4] = [0, 3, 1, 2];
/// Of the result: channels before rows.
const TURNED_BACK: [usize; 4] = [0, 2, 1, 3];

fn find(graph: &Graph, node: usize) -> Option<Found> {
    let Op::Primitive(Primitive::Conv { window, groups: 1 }) = graph.nodes[node].op else {
        return None;
    };
    let (x, weights) = (graph.nodes[node].inputs[0], graph.nodes[node].inputs[1]);
    let [samples, channels, height, width] = *graph.value(x).shape.dims() else {
        return None;
    };
    let [rows, columns, _] = window.kernel;
    let &[_, _, down, across] = graph.value(graph.nodes[node].outputs[0]).shape.dims() else {
        return None;
    };
    let beside = |a: usize| window.stride[a] == window.kernel[a] && window.dilation[a] == 1;
    let reaches_out = (0..2).any(|a| window.pad_begin[a] > 0 || window.pad_end[a] > 0);
    let whole = height.is_multiple_of(rows) && width.is_multiple_of(columns);
    if window.axes != 2 || !(beside(0) && beside(1) && (whole || reaches_out) && columns >= COLUMNS) || channels > FEW_CHANNELS {
        return None;
    }
    let under = [down.checked_mul(rows)?, across.checked_mul(columns)?];
    let mut begin = [0; MAX_RANK];
    for axis in 0..2 {
        begin[axis + 2] = i32::try_from(window.pad_begin[axis]).ok()?;
    }
    let filled = (channels..=PIECE).find(|c| (columns * c).is_multiple_of(PIECE))?;
    let (tensor, at) = strided::constant(graph, &Index::of(graph).producers, weights)?;
    let outputs = at.layout.shape.dim(0);
    let perm = TURNED_WEIGHTS.to_vec();
    let turned = at.view(&ViewOp::Transpose { perm }, Shape::new(&[outputs, columns, channels, rows])?)?;
    let weights = filled_up(&strided::gather(&tensor, &turned)?, filled)?.reshaped(Shape::new(&[outputs, columns * filled, rows, 1])?)?;
    let lines = samples.checked_mul(down)?;
    Some(Found {
        window: Window::new(&[rows, 1]),
        weights,
        padded: match Shape::new(&[samples, filled, under[0], under[1]])? {
            shape if reaches_out || filled > channels => Some((shape, begin)),
            _ => None,
        },
        before: [
            Shape::new(&[samples, filled, down, rows, across, columns])?,
            Shape::new(&[samples, down, columns, filled, rows, across])?,
            Shape::new(&[lines, columns * filled, rows, across])?,
        ],
        after: [
            Shape::new(&[lines, outputs, 1, across])?,
            Shape::new(&[samples, down, outputs, across])?,
        ],
    })
}

/// Weights `[outputs, columns, channels, rows]` with zeros for more channels.
fn filled_up(weights: &Tensor, filled: u32) -> Option<Tensor> {
    let [outputs, columns, channels, rows] = *weights.shape().dims() else {
        return None;
    };
    let bytes = |channels: u32| (u64::from(channels * rows) * weights.dtype().bytes()) as usize;
    let mut all = Vec::with_capacity((outputs * columns) as usize * bytes(filled));
    for pixel in weights.bytes().chunks(bytes(channels).max(1)) {
        all.extend_from_slice(pixel);
        all.resize(all.len() + bytes(filled - channels), 0);
    }
    Tensor::from_bytes(weights.dtype(), Shape::new(&[outputs, columns, filled, rows])?, &all)
}

/// Puts views around the convolution; says how many nodes that put before the last of them.
fn apply(graph: &mut Graph, node: usize, found: Found) -> usize {
    let Node { name, inputs, outputs, .. } = graph.nodes[node].clone();
    let dtype = graph.value(inputs[0]).dtype;
    let weights = graph.add_constant(format!("{name}.weights"), Arc::new(found.weights));
    let convolution = Op::Primitive(Primitive::Conv {
        window: found.window,
        groups: 1,
    });
    let turn = |perm: &[usize]| Op::View(ViewOp::Transpose { perm: perm.to_vec() });
    let [cut, turned, joined] = found.before;
    let [made, apart] = found.after;
    let first = found.padded.map(|(shape, begin)| {
        let mode = PadMode::Constant(Scalar(0.0));
        ("filled", Op::Primitive(Primitive::Pad { mode, begin }), shape)
    });
    let steps = [
        ("cut", Op::View(ViewOp::Reshape), cut),
        ("turned", turn(&TURNED), turned),
        ("joined", Op::View(ViewOp::Reshape), joined),
        ("lines", convolution, made),
        ("apart", Op::View(ViewOp::Reshape), apart),
    ];
    let mut from = inputs[0];
    let mut before = Vec::new();
    for (step, op, shape) in first.into_iter().chain(steps) {
        let output: ValueId = graph.add_value(format!("{name}.{step}"), dtype, shape);
        let (own, constants): (String, &[ValueId]) = match op {
            Op::Primitive(Primitive::Conv { .. }) => (name.clone(), &inputs[1..]),
            _ => (format!("{name}.{step}"), &[]),
        };
        let mut read = [&[from], constants].concat();
        if let Some(first) = read.get_mut(1) {
            *first = weights;
        }
        before.push(Node {
            name: own,
            op,
            inputs: read,
            outputs: vec![output],
        });
        from = output;
    }
    let count = before.len();
    graph.nodes[node] = Node {
        name: format!("{name}.turned back"),
        op: turn(&TURNED_BACK),
        inputs: vec![from],
        outputs,
    };
    graph.nodes.splice(node..node, before);
    count
}
