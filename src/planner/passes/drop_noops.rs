//! Drops nodes that change nothing, a relu of a relu and a sum with zeros among them, and merges views of views.

use super::rewrite::{Index, replace};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Binary, Coordinates, PadMode, Primitive, Unary};

pub fn run(graph: &mut Graph) {
    merge_views(graph);
    let index = Index::of(graph);
    for at in 0..graph.nodes.len() {
        let node = &graph.nodes[at];
        let same = if is_noop(graph, node) || is_done(graph, &index.producers, node) {
            Some(node.inputs[0])
        } else {
            neutral(graph, &index, node)
        };
        if let Some(to) = same {
            let from = node.outputs[0];
            replace(graph, from, to);
        }
    }
    super::drop_dead::run(graph);
}

/// The operand that a sum with zeros or a product with ones is equal to, such as scores under a mask that hides nothing.
fn neutral(graph: &Graph, index: &Index, node: &Node) -> Option<ValueId> {
    let Op::Primitive(Primitive::Binary(kind)) = node.op else {
        return None;
    };
    let ([left, right], [output]) = (node.inputs[..].try_into().ok()?, node.outputs[..].try_into().ok()?);
    let (element, either) = match kind {
        Binary::Add => (0.0, true),
        Binary::Mul => (1.0, true),
        Binary::Sub => (0.0, false),
        Binary::Div => (1.0, false),
        _ => return None,
    };
    let alike = |value: ValueId| {
        let (x, y) = (graph.value(value), graph.value(output));
        x.shape == y.shape && x.dtype == y.dtype
    };
    let is_neutral = |value: ValueId| index.scalar(graph, value) == Some(element);
    if alike(left) && is_neutral(right) {
        Some(left)
    } else {
        (either && alike(right) && is_neutral(left)).then_some(right)
    }
}

/// True if the node's only output equals its first input in type, shape and every element.
fn is_noop(graph: &Graph, node: &Node) -> bool {
    let ([output], Some(input)) = (node.outputs.as_slice(), node.inputs.first()) else {
        return false;
    };
    let (x, y) = (&graph.values[input.index()], &graph.values[output.index()]);
    if x.shape != y.shape || x.dtype != y.dtype {
        return false;
    }
    match &node.op {
        Op::View(ViewOp::Reshape | ViewOp::Broadcast) | Op::Primitive(Primitive::Copy) => true,
        Op::View(ViewOp::Transpose { perm }) => perm
            .iter()
            .enumerate()
            .all(|(a, &p)| a == p || y.shape.dim(a) == 1 && y.shape.dim(p) == 1),
        // With equal extents, unit steps leave only the start 0.
        Op::View(ViewOp::Slice { step, .. }) => step.iter().enumerate().all(|(a, &s)| s == 1 || y.shape.dim(a) <= 1),
        Op::Concat { .. } => node.inputs.len() == 1,
        Op::Primitive(Primitive::Pad {
            mode: PadMode::Constant(_),
            begin,
        }) => begin.iter().all(|&b| b == 0),
        // Every coordinate rule but the cropping one maps each element to itself at scale 1.
        Op::Primitive(Primitive::Resize(r)) => {
            !matches!(r.coordinates, Coordinates::CropAndResize { .. }) && r.scales.iter().all(|s| s.0 == 1.0)
        }
        _ => false,
    }
}

/// True for a relu of what has none below zero: a relu's, or of bounds above zero.
fn is_done(graph: &Graph, producers: &[Option<usize>], node: &Node) -> bool {
    let Op::Primitive(Primitive::Unary(Unary::Relu)) = node.op else {
        return false;
    };
    let before = producers[node.inputs[0].index()].map(|n| &graph.nodes[n].op);
    match before {
        Some(Op::Primitive(Primitive::Unary(Unary::Relu))) => true,
        Some(Op::Primitive(Primitive::Unary(Unary::Clip(low, _)))) => low.0 > 0.0,
        _ => false,
    }
}

/// A reshape of a reshape looks at the first input; a transpose of a transpose is one.
fn merge_views(graph: &mut Graph) {
    let index = Index::of(graph);
    for at in 0..graph.nodes.len() {
        let Op::View(outer) = &graph.nodes[at].op else { continue };
        let Some(inner) = index.producers[graph.nodes[at].inputs[0].index()] else {
            continue;
        };
        let Op::View(before) = &graph.nodes[inner].op else { continue };
        let merged = match (before, outer) {
            (ViewOp::Reshape, ViewOp::Reshape) => ViewOp::Reshape,
            (ViewOp::Transpose { perm: first }, ViewOp::Transpose { perm: second }) => ViewOp::Transpose {
                perm: second.iter().map(|&axis| first[axis]).collect(),
            },
            _ => continue,
        };
        graph.nodes[at].inputs = graph.nodes[inner].inputs.clone();
        graph.nodes[at].op = Op::View(merged);
    }
}
