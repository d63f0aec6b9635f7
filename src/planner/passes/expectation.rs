//! A softmax along an axis whose shares weigh constants, one for each position, and are added is one primitive: what a distribution over
//! bins expects, as detectors find the distances of a box's edges (Li et al., "Generalized Focal Loss", 2020, equation 6) and stereo
//! networks disparities. The sums are spelled as convolutions to one channel by windows of one pixel, as products by a matrix of one
//! column, or as products with a constant and sums. The shares are never stored.
//!
//! Exact but for rounding, which is less.

use super::fold_batchnorm::{floats, per_channel, plain_bias, plain_weights};
use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Binary, Primitive, ReduceKind, Window};
use crate::tensor::{Shape, Tensor};
use std::sync::Arc;

/// Most positions of a row whatever the number of rows: a thread has a row, and keeps so many.
const KEPT: u32 = 32;
/// Fewest longer rows: fewer leave threads idle, which share a row of a softmax.
const MANY_ROWS: u64 = 1 << 13;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A node that adds weighed shares.
struct Found {
    node: usize,
    axis: u8,
    /// What the softmax is taken of.
    x: ValueId,
    values: Tensor,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let Op::Primitive(primitive) = &graph.nodes[node].op else {
        return None;
    };
    let (axis, x, values) = match primitive {
        Primitive::Conv { window, groups: 1 } if is_single(window) => by_product(graph, index, node, |_| 1)?,
        Primitive::MatMul => by_product(graph, index, node, |rank| rank - 1)?,
        Primitive::Reduce {
            kind: ReduceKind::Sum,
            axes,
        } => by_sum(graph, index, node, *axes)?,
        _ => return None,
    };
    let (dtype, shape) = graph.operand(x);
    let extent = shape.dim(usize::from(axis));
    let rows = shape.elements() / u64::from(extent.max(1));
    let fits = values.len() == extent as usize && extent > 0 && (extent <= KEPT || rows >= MANY_ROWS);
    let values = floats(dtype, Shape::new(&[extent])?, values).filter(|_| fits)?;
    Some(Found { node, axis, x, values })
}

/// One pixel, and each of them.
fn is_single(window: &Window) -> bool {
    let Window { kernel, stride, .. } = window;
    (kernel, stride) == (&[1; 3], &[1; 3]) && (window.pad_begin, window.pad_end) == ([0; 3], [0; 3])
}

/// The axis and the input of the softmax that makes `value`, which is read once.
fn softmax(graph: &Graph, index: &Index, value: ValueId) -> Option<(u8, ValueId)> {
    match index.primitive(graph, value)? {
        (node, Primitive::Softmax { axis }) if index.uses[value.index()] == 1 => Some((*axis, graph.nodes[node].inputs[0])),
        _ => None,
    }
}

/// The same of what looks at a softmax under another shape of the same elements, and the axis there: lines are pictures of one row.
fn softmax_behind(graph: &Graph, index: &Index, value: ValueId) -> Option<(u8, ValueId, usize)> {
    let node = &graph.nodes[index.producers[value.index()].filter(|_| index.uses[value.index()] == 1)?];
    if node.op != Op::View(ViewOp::Reshape) {
        return softmax(graph, index, value).map(|(axis, x)| (axis, x, usize::from(axis)));
    }
    let (axis, x) = softmax(graph, index, node.inputs[0])?;
    let (from, to) = (graph.value(x).shape, graph.value(value).shape);
    let before = |shape: Shape, a: usize| shape.dims()[..a].iter().map(|&d| u64::from(d)).product::<u64>();
    let along = usize::from(axis);
    let seen = (0..to.rank()).find(|&a| to.dim(a) == from.dim(along) && before(to, a) == before(from, along))?;
    Some((axis, x, seen))
}

/// The axis, the input and the values of a softmax whose shares are multiplied by constants of one channel, without a shift; `summed`
/// says along which axis of so many.
fn by_product(graph: &Graph, index: &Index, node: usize, summed: impl Fn(usize) -> usize) -> Option<(u8, ValueId, Vec<f32>)> {
    let it = &graph.nodes[node];
    let (Op::Primitive(primitive), Some(&shares)) = (&it.op, it.inputs.first()) else {
        return None;
    };
    let made = graph.value(it.outputs[0]).shape;
    let (axis, x, seen) = softmax_behind(graph, index, shares)?;
    let along = seen == summed(made.rank()) && made.dim(seen) == 1;
    let weights = plain_weights(graph, index, it, primitive).filter(|_| along)?;
    let shifted = plain_bias(graph, index, it, primitive)?.is_some_and(|bias| bias.iter().any(|&b| b != 0.0));
    let values = (0..weights.len()).map(|i| weights.get_f64(i).map(|v| v as f32));
    let values: Vec<f32> = values.collect::<Option<_>>()?;
    (!shifted).then_some((axis, x, values))
}

/// The same of shares that are multiplied by a constant that varies along their axis alone, and summed along `axes`.
fn by_sum(graph: &Graph, index: &Index, node: usize, axes: u8) -> Option<(u8, ValueId, Vec<f32>)> {
    let weighed = *graph.nodes[node].inputs.first()?;
    let [a, b] = index
        .operands(graph, Binary::Mul, weighed)
        .filter(|_| index.uses[weighed.index()] == 1)?;
    let of = |shares: ValueId, values: ValueId| {
        let (axis, x) = softmax(graph, index, shares).filter(|&(axis, _)| axes == 1 << axis)?;
        Some((axis, x, per_channel(graph, index, values, usize::from(axis))?))
    };
    of(a, b).or_else(|| of(b, a))
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { node, axis, x, values } = found;
    let name = graph.nodes[node].name.clone();
    let values = graph.add_constant(format!("{name}.values"), Arc::new(values));
    let (dtype, shape) = graph.operand(x);
    let result = graph.nodes[node].outputs[0];
    let mean = shape
        .with_dim(usize::from(axis), 1)
        .filter(|&kept| kept != graph.value(result).shape);
    let mean = mean.map(|kept| graph.add_value(format!("{name}.mean"), dtype, kept));
    let expects = Node {
        name: name.clone(),
        op: Op::Primitive(Primitive::Expectation { axis }),
        inputs: vec![x, values],
        outputs: vec![mean.unwrap_or(result)],
    };
    let looks = mean.map(|mean| Node {
        name: format!("{name}.reshaped"),
        op: Op::View(ViewOp::Reshape),
        inputs: vec![mean],
        outputs: vec![result],
    });
    graph.nodes.splice(node..=node, [expects].into_iter().chain(looks));
}
