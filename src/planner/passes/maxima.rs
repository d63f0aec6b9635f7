//! Maxima of very many elements are maxima of shares of them and then of these: there are as many more blocks that read. Networks of points
//! end so (Qi et al., "PointNet", 2017), in one feature each of thousands of points.
//!
//! Exact: the largest is the same in whatever order.

use super::rewrite::{Index, at_each_node};
use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Primitive, ReduceKind};
use crate::tensor::Shape;

/// Fewest elements of a maximum, and most maxima: more have blocks enough.
const MANY: u32 = 4096;
const FEW: u64 = 4096;
/// Shares of a maximum.
const SHARES: std::ops::RangeInclusive<u32> = 16..=64;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A maximum along an axis, and its shares.
struct Found {
    node: usize,
    axis: usize,
    shares: u32,
}

fn find(graph: &Graph, _: &Index, node: usize) -> Option<Found> {
    let it = &graph.nodes[node];
    let Op::Primitive(Primitive::Reduce {
        kind: ReduceKind::Max,
        axes,
    }) = it.op
    else {
        return None;
    };
    let [from, to] = [*it.inputs.first()?, *it.outputs.first()?].map(|v| graph.value(v).shape);
    let axis = (0..from.rank()).find(|&a| axes == 1 << a)?;
    let extent = from.dim(axis);
    if extent < MANY || to.elements() > FEW || from.rank() == MAX_RANK {
        return None;
    }
    let shares = SHARES.rev().find(|&shares| extent.is_multiple_of(shares))?;
    Some(Found { node, axis, shares })
}

fn apply(graph: &mut Graph, Found { node, axis, shares }: Found) {
    let Node { name, inputs, outputs, .. } = graph.nodes[node].clone();
    let (dtype, from) = graph.operand(inputs[0]);
    let with = |axes: [u32; 2]| {
        let dims = from.dims();
        Shape::new(&[&dims[..axis], &axes, &dims[axis + 1..]].concat())
    };
    let shapes = [[shares, from.dim(axis) / shares], [shares, 1], [1, 1]].map(with);
    let [Some(apart), Some(shared), Some(whole)] = shapes else { return };
    let mut value = |what: &str, shape: Shape| graph.add_value(format!("{name}.{what}"), dtype, shape);
    let (shown, largest, one) = (value("apart", apart), value("shares", shared), value("largest", whole));
    let maximum = |name: String, axis: usize, from: ValueId, to: ValueId| Node {
        name,
        op: Op::Primitive(Primitive::Reduce {
            kind: ReduceKind::Max,
            axes: 1 << axis,
        }),
        inputs: vec![from],
        outputs: vec![to],
    };
    let reshape = |name: String, from: ValueId, to: ValueId| Node {
        name,
        op: Op::View(ViewOp::Reshape),
        inputs: vec![from],
        outputs: vec![to],
    };
    let nodes = [
        reshape(format!("{name}.apart"), inputs[0], shown),
        maximum(format!("{name}.shares"), axis + 1, shown, largest),
        maximum(name.clone(), axis, largest, one),
        reshape(format!("{name}.seen"), one, outputs[0]),
    ];
    graph.nodes.splice(node..=node, nodes);
}
