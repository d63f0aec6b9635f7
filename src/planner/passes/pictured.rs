//! Convolutions over volumes that become one convolution of pictures, where `volumes` would make one for each slice of the window and
//! sum them through memory.
//!
//! Of few channels, as where a picture's features are regarded as one volume, `[N, C, D, H, W]` is seen as pictures of `C D` channels,
//! and the window's depth is in the weights: an output slice has those of the input slices that it meets, and zeros for all others.
//! That multiplies by many zeros, and has steps along K and tiles of channels as full as other convolutions; nothing is copied, as
//! features come and go as pictures. Of very many slices there would be too many zeros: blocks of neighbouring ones are samples then,
//! which overlap and share their weights. Of windows that are one pixel wide, columns are samples: `[W N, C, D, H]`. The same products
//! are summed in another order.

use super::rewrite::{Index, at_each_node};
use super::volumes::flat;
use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{PadMode, Primitive, Scalar, Window};
use crate::tensor::{Shape, Tensor};
use std::sync::Arc;

/// Most channels of all slices that a window meets, and most output channels: with more, kernels for pictures are full without zeros.
const FEW_CHANNELS: u32 = 8;
const FEW_OUTPUTS: u32 = 16;
/// Most weights, zeros included: of 128 slices, one channel to 8 by windows of 3x3x3 have 1.2 million, of 512 slices 19.
const MOST_WEIGHTS: u64 = 1 << 23;
/// Most output slices of a block, and what they are a multiple of: a block meets so many input slices more, and not more than a step
/// along K has channels.
const BLOCK: u32 = 56;
const PIECE: u32 = 8;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A convolution over a volume as one of pictures.
struct Found {
    node: usize,
    /// What makes the picture that is convolved: the padded volume's slices if blocks of them are cut, and views.
    cut: Option<Cut>,
    before: Vec<(ViewOp, Shape)>,
    window: Window,
    weights: Tensor,
    bias: Option<Tensor>,
    made: Shape,
    /// Views of what is made, the last one of which is the volume that others read.
    after: Vec<(ViewOp, Shape)>,
}

/// Slices `[N, D, H, W]` as overlapping blocks.
struct Cut {
    slices: Shape,
    /// Slices of zeros in front.
    padding: u32,
    blocks: u32,
    /// Slices from block to block.
    step: u32,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let it = &graph.nodes[node];
    let Op::Primitive(Primitive::Conv { window, groups: 1 }) = it.op else {
        return None;
    };
    let (x, y) = (graph.value(it.inputs[0]).shape, graph.value(it.outputs[0]).shape);
    if window.axes != 3 || window.kernel[0] == 1 || x.elements() == 0 || y.elements() == 0 {
        return None;
    }
    let constant = |value: ValueId| {
        let (tensor, at) = strided::constant(graph, &index.producers, value)?;
        strided::gather(&tensor, &at)
    };
    let weights = constant(it.inputs[1])?;
    let bias = match it.inputs.get(2) {
        Some(&bias) => Some(constant(bias)?),
        None => None,
    };
    banded(node, window, (x, y), (&weights, bias.as_ref()))
        .or_else(|| blocks(node, window, (x, y), (&weights, bias.as_ref())))
        .filter(|_| !reaches_volumes(graph, it.outputs[0]))
        .or_else(|| across(node, window, (x, y), (weights, bias)))
}

/// True if a window over a volume reads the value, or what functions make of it: it takes slices as pictures.
fn reaches_volumes(graph: &Graph, value: ValueId) -> bool {
    let mut readers = graph.nodes.iter().filter(|n| n.inputs.contains(&value));
    readers.any(|n| match n.op {
        Op::Primitive(Primitive::Conv { window, .. } | Primitive::ConvTranspose { window, .. } | Primitive::Pool { window, .. }) => {
            window.axes == 3
        }
        Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)) => reaches_volumes(graph, n.outputs[0]),
        _ => false,
    })
}

/// True for few channels to few.
fn is_slender(window: Window, inputs: u32, outputs: u32) -> bool {
    u64::from(inputs) * u64::from(window.kernel[0]) <= FEW_CHANNELS.into() && outputs <= FEW_OUTPUTS
}

/// Weights of so many channels to so many.
fn count(window: &Window, from: u32, to: u32) -> Option<u64> {
    let sides = [to, from, window.kernel[1], window.kernel[2]];
    sides.iter().try_fold(1u64, |all, &n| all.checked_mul(n.into()))
}

/// Weights `[O, C, kd, kh, kw]` as `[O E, C D, kh, kw]` for `slices` E of `depth` D, of which `padding` are in front.
fn band(window: Window, weights: &Tensor, depth: u32, slices: u32, padding: u32) -> Option<Tensor> {
    let &[outputs, inputs, deep, down, across] = weights.shape().dims() else {
        return None;
    };
    let (from, to) = (inputs * depth, outputs * slices);
    let tap = (u64::from(down * across) * weights.dtype().bytes()) as usize;
    let mut band = vec![0; (u64::from(to) * u64::from(from)) as usize * tap];
    for (at, taps) in weights.bytes().chunks_exact(tap.max(1)).enumerate() {
        let at = at as u32;
        let (output, input, slice) = (at / deep / inputs, at / deep % inputs, at % deep * window.dilation[0]);
        for made in 0..slices {
            let met = (made * window.stride[0] + slice).checked_sub(padding).filter(|&met| met < depth);
            if let Some(met) = met {
                let [row, column] = [output * slices + made, input * depth + met].map(|n| n as usize);
                let begin = (row * from as usize + column) * tap;
                band[begin..begin + tap].copy_from_slice(taps);
            }
        }
    }
    Tensor::from_bytes(weights.dtype(), Shape::new(&[to, from, down, across])?, &band)
}

/// A bias for each of so many slices, if there is any; `None` where it fits no shape.
fn repeated(bias: Option<&Tensor>, slices: u32) -> Option<Option<Tensor>> {
    let Some(bias) = bias else { return Some(None) };
    let each = bias.bytes().chunks_exact(bias.dtype().bytes() as usize);
    let all: Vec<u8> = each.flat_map(|one| one.repeat(slices as usize)).collect();
    let shape = Shape::new(&[u32::try_from(bias.len()).ok()?.checked_mul(slices)?])?;
    Some(Some(Tensor::from_bytes(bias.dtype(), shape, &all)?))
}

/// Slices as channels.
fn banded(node: usize, window: Window, (x, y): (Shape, Shape), (weights, bias): (&Tensor, Option<&Tensor>)) -> Option<Found> {
    let (&[samples, inputs, depth, height, width], &[_, outputs, slices, rows, columns]) = (x.dims(), y.dims()) else {
        return None;
    };
    let (from, to) = (inputs.checked_mul(depth)?, outputs.checked_mul(slices)?);
    if !is_slender(window, inputs, outputs) || count(&window, from, to)? > MOST_WEIGHTS {
        return None;
    }
    Some(Found {
        node,
        cut: None,
        before: vec![(ViewOp::Reshape, Shape::new(&[samples, from, height, width])?)],
        window: flat(window),
        weights: band(window, weights, depth, slices, window.pad_begin[0])?,
        bias: repeated(bias, slices)?,
        made: Shape::new(&[samples, to, rows, columns])?,
        after: vec![(ViewOp::Reshape, y)],
    })
}

/// Blocks of slices as samples, of one channel.
fn blocks(node: usize, window: Window, (x, y): (Shape, Shape), (weights, bias): (&Tensor, Option<&Tensor>)) -> Option<Found> {
    let (&[samples, 1, _, height, width], &[_, outputs, slices, rows, columns]) = (x.dims(), y.dims()) else {
        return None;
    };
    let beside = window.stride[0] == 1 && window.reach(0)? <= PIECE + 1;
    let step = (PIECE..=BLOCK)
        .rev()
        .step_by(PIECE as usize)
        .find(|&step| slices.is_multiple_of(step))?;
    let (to, count) = (outputs.checked_mul(step)?, slices / step);
    if !beside || !is_slender(window, 1, outputs) || count < 2 {
        return None;
    }
    let all = samples.checked_mul(count)?;
    let perm = vec![0, 2, 1, 3, 4, 5];
    Some(Found {
        node,
        cut: Some(Cut {
            slices: Shape::new(&[samples, x.dim(2), height, width])?,
            padding: window.pad_begin[0],
            blocks: count,
            step,
        }),
        before: vec![(ViewOp::Reshape, Shape::new(&[all, step + PIECE, height, width])?)],
        window: flat(window),
        weights: band(window, weights, step + PIECE, step, 0)?,
        bias: repeated(bias, step)?,
        made: Shape::new(&[all, to, rows, columns])?,
        after: vec![
            (ViewOp::Reshape, Shape::new(&[samples, count, outputs, step, rows, columns])?),
            (
                ViewOp::Transpose { perm },
                Shape::new(&[samples, outputs, count, step, rows, columns])?,
            ),
            (ViewOp::Reshape, y),
        ],
    })
}

/// Columns as samples, of windows over depth and rows.
fn across(node: usize, window: Window, (x, y): (Shape, Shape), (weights, bias): (Tensor, Option<Tensor>)) -> Option<Found> {
    let (&[samples, inputs, depth, height, width], &[_, outputs, slices, rows, columns]) = (x.dims(), y.dims()) else {
        return None;
    };
    let alone = window.kernel[2] == 1 && window.stride[2] == 1 && columns == width;
    if !alone || window.kernel[1] == 1 {
        return None;
    }
    let &[_, _, deep, down, _] = weights.shape().dims() else {
        return None;
    };
    let transpose = |perm: [usize; 5]| ViewOp::Transpose { perm: perm.to_vec() };
    let all = width.checked_mul(samples)?;
    Some(Found {
        node,
        cut: None,
        before: vec![
            (transpose([4, 0, 1, 2, 3]), Shape::new(&[width, samples, inputs, depth, height])?),
            (ViewOp::Reshape, Shape::new(&[all, inputs, depth, height])?),
        ],
        window: window.over(2, |[depth, rows, _], last| [depth, rows, last]),
        weights: weights.reshaped(Shape::new(&[outputs, inputs, deep, down])?)?,
        bias,
        made: Shape::new(&[all, outputs, slices, rows])?,
        after: vec![
            (ViewOp::Reshape, Shape::new(&[width, samples, outputs, slices, rows])?),
            (transpose([1, 2, 3, 4, 0]), y),
        ],
    })
}

fn apply(graph: &mut Graph, found: Found) {
    // Nothing reads what is written before a step that does not fit.
    let _ = rewritten(graph, found);
}

fn rewritten(graph: &mut Graph, found: Found) -> Option<()> {
    let Node { name, inputs, outputs, .. } = graph.nodes[found.node].clone();
    let mut write = Writer {
        of: outputs[0],
        graph,
        nodes: Vec::new(),
    };
    let mut value = inputs[0];
    if let Some(cut) = &found.cut {
        value = write.cut(&name, value, cut)?;
    }
    for (at, (view, shape)) in found.before.into_iter().enumerate() {
        value = write.node(&format!("{name}.seen{at}"), Op::View(view), vec![value], shape);
    }
    let weights = write.graph.add_constant(format!("{name}.weights"), Arc::new(found.weights));
    let bias = found
        .bias
        .map(|bias| write.graph.add_constant(format!("{name}.bias"), Arc::new(bias)));
    let convolution = Primitive::Conv {
        window: found.window,
        groups: 1,
    };
    let read = [value, weights].into_iter().chain(bias).collect();
    value = write.node(&name, Op::Primitive(convolution), read, found.made);
    let single = write.graph.value(outputs[0]).single;
    write.graph.values[value.index()].single = single;
    for (at, (view, shape)) in found.after.into_iter().enumerate() {
        value = write.node(&format!("{name}.volume{at}"), Op::View(view), vec![value], shape);
        write.graph.values[value.index()].single = single;
    }
    let mut nodes = write.nodes;
    nodes.last_mut()?.outputs = outputs;
    graph.nodes.splice(found.node..=found.node, nodes);
    Some(())
}

/// The nodes of one rewriting, whose values have the type of one that is there.
struct Writer<'a> {
    of: ValueId,
    graph: &'a mut Graph,
    nodes: Vec<Node>,
}

impl Writer<'_> {
    fn node(&mut self, name: &str, op: Op, inputs: Vec<ValueId>, shape: Shape) -> ValueId {
        let output = self.graph.add_value(name, self.graph.value(self.of).dtype, shape);
        self.nodes.push(Node {
            name: name.to_owned(),
            op,
            inputs,
            outputs: vec![output],
        });
        output
    }

    /// Blocks `[N, blocks, step + PIECE, H, W]`: what lies a step apart, and behind it what the next block begins with.
    fn cut(&mut self, name: &str, volume: ValueId, cut: &Cut) -> Option<ValueId> {
        let &[samples, _, height, width] = cut.slices.dims() else {
            return None;
        };
        let (all, step) = (cut.blocks * cut.step, cut.step);
        let shape = |blocks: u32, slices: u32| Shape::new(&[samples, blocks, slices, height, width]);
        let flat = self.node(&format!("{name}.slices"), Op::View(ViewOp::Reshape), vec![volume], cut.slices);
        let mut begin = [0; MAX_RANK];
        begin[1] = i32::try_from(cut.padding).ok()?;
        let mode = PadMode::Constant(Scalar(0.0));
        let pad = Op::Primitive(Primitive::Pad { mode, begin });
        let padded = self.node(&format!("{name}.padded"), pad, vec![flat], cut.slices.with_dim(1, all + step)?);
        let mut parts = Vec::new();
        for (part, start, slices) in [("own", 0, step), ("next", step, PIECE)] {
            let band = Op::View(ViewOp::band(4, 1, start.into()));
            let from = self.node(&format!("{name}.{part}"), band, vec![padded], cut.slices.with_dim(1, all)?);
            let apart = Op::View(ViewOp::Reshape);
            let apart = self.node(&format!("{name}.{part}.apart"), apart, vec![from], shape(cut.blocks, step)?);
            let first = Op::View(ViewOp::band(5, 2, 0));
            parts.push(self.node(&format!("{name}.{part}.first"), first, vec![apart], shape(cut.blocks, slices)?));
        }
        let joined = shape(cut.blocks, step + PIECE)?;
        Some(self.node(&format!("{name}.blocks"), Op::Concat { axis: 2 }, parts, joined))
    }
}
