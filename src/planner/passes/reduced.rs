//! A reduction of what another one of the same kind leaves becomes one reduction along the axes of both: the mean over a picture is
//! often spelled as the mean over its rows and then over these.
//!
//! Exact but for rounding, since every element of the first has as many elements behind it.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Primitive, ReduceKind};
use crate::tensor::Shape;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A reduction of a reduction.
struct Found {
    node: usize,
    x: ValueId,
    kind: ReduceKind,
    axes: u8,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let (kind, axes) = reduction(&graph.nodes[node])?;
    let read = *graph.nodes[node].inputs.first()?;
    // Between the two only extents of 1 may come or go.
    let mut from = read;
    let first = loop {
        let alone = index.uses[from.index()] == 1;
        let it = &graph.nodes[index.producers[from.index()].filter(|_| alone)?];
        match it.op {
            Op::View(ViewOp::Reshape) => from = it.inputs[0],
            _ => break it,
        }
    };
    let (own, before) = reduction(first)?;
    let [outer, inner] = [read, first.outputs[0]].map(|v| several(graph.value(v).shape));
    let extents = |axes: &[usize], v: ValueId| axes.iter().map(|&a| graph.value(v).shape.dim(a)).collect::<Vec<_>>();
    if own != kind || extents(&outer, read) != extents(&inner, first.outputs[0]) {
        return None;
    }
    let along = outer.iter().zip(&inner).filter(|(a, _)| axes & (1 << **a) != 0);
    let axes = along.fold(before, |all, (_, &a)| all | 1 << a);
    Some(Found {
        node,
        x: first.inputs[0],
        kind,
        axes,
    })
}

/// The kind and the axes of a reduction.
fn reduction(node: &Node) -> Option<(ReduceKind, u8)> {
    match node.op {
        Op::Primitive(Primitive::Reduce { kind, axes }) => Some((kind, axes)),
        _ => None,
    }
}

/// The axes of more than one position.
fn several(shape: Shape) -> Vec<usize> {
    (0..shape.rank()).filter(|&a| shape.dim(a) != 1).collect()
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { node, x, kind, axes } = found;
    let (dtype, mut shape) = graph.operand(x);
    for axis in (0..shape.rank()).filter(|a| axes & (1 << a) != 0) {
        shape = shape.with_dim(axis, 1).unwrap_or(shape);
    }
    let (name, output) = (graph.nodes[node].name.clone(), graph.nodes[node].outputs[0]);
    let made = graph.add_value(format!("{name}.whole"), dtype, shape);
    let whole = Node {
        name: name.clone(),
        op: Op::Primitive(Primitive::Reduce { kind, axes }),
        inputs: vec![x],
        outputs: vec![made],
    };
    let seen = Node {
        name: format!("{name}.seen"),
        op: Op::View(ViewOp::Reshape),
        inputs: vec![made],
        outputs: vec![output],
    };
    graph.nodes.splice(node..=node, [whole, seen]);
}
