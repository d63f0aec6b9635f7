//! A convolution whose windows stand side by side along a row, as in the first layer of a vision transformer, takes the pixels of
//! a window's row as channels: `[N, C, H, W]` is seen as `[N, k C, H, W / k]`, and the window is one column wide.
//!
//! Channels are stored side by side, so that is a view. A few channels become runs that kernels read in whole pieces. The same
//! products are summed in another order.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Primitive, Window};
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
    /// Of the picture: cut into windows, turned, and with their pixels as channels.
    shapes: [Shape; 3],
}

/// Rows behind the pixels of a window and its channels.
const TURNED: [usize; 5] = [0, 4, 1, 2, 3];
/// The same of weights.
const TURNED_WEIGHTS: [usize; 4] = [0, 3, 1, 2];

fn find(graph: &Graph, node: usize) -> Option<Found> {
    let Op::Primitive(Primitive::Conv { window, groups: 1 }) = graph.nodes[node].op else {
        return None;
    };
    let (x, weights) = (graph.nodes[node].inputs[0], graph.nodes[node].inputs[1]);
    let [samples, channels, height, width] = *graph.value(x).shape.dims() else {
        return None;
    };
    let columns = window.kernel[1];
    let beside = window.stride[1] == columns && window.dilation[1] == 1 && window.pad_begin[1] == 0 && window.pad_end[1] == 0;
    let whole = columns >= COLUMNS && width.is_multiple_of(columns) && (columns * channels).is_multiple_of(PIECE);
    if window.axes != 2 || !beside || !whole || channels > FEW_CHANNELS {
        return None;
    }
    let (tensor, at) = strided::constant(graph, &Index::of(graph).producers, weights)?;
    let &[outputs, _, rows, _] = at.layout.shape.dims() else {
        return None;
    };
    let perm = TURNED_WEIGHTS.to_vec();
    let turned = at.view(&ViewOp::Transpose { perm }, Shape::new(&[outputs, columns, channels, rows])?)?;
    let turned = strided::gather(&tensor, &turned)?;
    let weights = turned.reshaped(Shape::new(&[outputs, columns * channels, rows, 1])?)?;
    let across = width / columns;
    let mut narrow = window;
    (narrow.kernel[1], narrow.stride[1]) = (1, 1);
    Some(Found {
        window: narrow,
        weights,
        shapes: [
            Shape::new(&[samples, channels, height, across, columns])?,
            Shape::new(&[samples, columns, channels, height, across])?,
            Shape::new(&[samples, columns * channels, height, across])?,
        ],
    })
}

/// Lets the convolution read the view; says how many nodes that put before it.
fn apply(graph: &mut Graph, node: usize, found: Found) -> usize {
    let (name, x) = (graph.nodes[node].name.clone(), graph.nodes[node].inputs[0]);
    let dtype = graph.value(x).dtype;
    let perm = TURNED.to_vec();
    let steps = [
        ("cut", ViewOp::Reshape),
        ("turned", ViewOp::Transpose { perm }),
        ("joined", ViewOp::Reshape),
    ];
    let mut from = x;
    let mut views = Vec::new();
    for ((step, op), shape) in steps.into_iter().zip(found.shapes) {
        let name = format!("{name}.{step}");
        let output: ValueId = graph.add_value(name.clone(), dtype, shape);
        views.push(Node {
            name,
            op: Op::View(op),
            inputs: vec![from],
            outputs: vec![output],
        });
        from = output;
    }
    let weights = graph.add_constant(format!("{name}.weights"), Arc::new(found.weights));
    let conv = &mut graph.nodes[node];
    conv.op = Op::Primitive(Primitive::Conv {
        window: found.window,
        groups: 1,
    });
    conv.inputs[..2].copy_from_slice(&[from, weights]);
    let before = views.len();
    graph.nodes.splice(node..node, views);
    before
}
