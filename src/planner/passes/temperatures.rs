//! Factors that each head has of its own, between the product of queries and keys and the softmax, become factors of the queries:
//! attention has one scale for all heads. Attention by cosines learns them (Liu et al. 2022, section 3.2).
//!
//! Queries are fewer than scores, so they are the less to multiply; what is rounded are they in place of scores.

use super::rewrite::{self, Index};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive};
use crate::tensor::Tensor;
use std::sync::Arc;

pub fn run(graph: &mut Graph) {
    rewrite::at_each_node(graph, find, apply);
}

/// A product of scores and factors.
struct Found {
    /// The node that multiplies, and the one that makes the scores.
    node: usize,
    product: usize,
    /// One factor for each matrix.
    factors: Tensor,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let &[made] = graph.nodes[node].outputs.as_slice() else {
        return None;
    };
    let [a, b] = index.operands(graph, Binary::Mul, made)?;
    let alone = |value: ValueId| index.uses[value.index()] == 1;
    // What is added to a product is not multiplied with its queries.
    let product = |value: ValueId| match index.primitive(graph, value) {
        Some((product, Primitive::MatMul)) if alone(value) && graph.nodes[product].inputs.len() == 2 => Some(product),
        _ => None,
    };
    let found = |scores: ValueId, factors: ValueId| {
        let product = product(scores)?;
        // One factor for all is attention's scale.
        let own = factors_of(graph, index, factors).filter(|_| index.scalar(graph, factors).is_none())?;
        Some(Found {
            node,
            product,
            factors: own,
        })
    };
    (alone(made) && is_softened(graph, made)).then(|| found(a, b).or_else(|| found(b, a)))?
}

/// True if a value is what a softmax is taken of, or what a mask is added to before.
fn is_softened(graph: &Graph, value: ValueId) -> bool {
    let reader = |value: ValueId| graph.nodes.iter().find(|n| n.inputs.contains(&value));
    let softens = |node: &Node| matches!(node.op, Op::Primitive(Primitive::Softmax { .. }));
    let adds = |node: &Node| matches!(node.op, Op::Primitive(Primitive::Binary(Binary::Add)) | Op::View(ViewOp::Reshape));
    let (mut value, mut steps) = (value, 0);
    // A bias, and a mask of windows that have an axis of their own for it.
    while let Some(node) = reader(value).filter(|_| steps <= 4) {
        if softens(node) {
            return true;
        }
        if !adds(node) {
            return false;
        }
        (value, steps) = (node.outputs[0], steps + 1);
    }
    false
}

/// The factors of a constant that has one for each matrix, as matrices of one element.
fn factors_of(graph: &Graph, index: &Index, value: ValueId) -> Option<Tensor> {
    let (tensor, at) = strided::constant(graph, &index.producers, value)?;
    let shape = at.layout.shape;
    let last = shape.rank().checked_sub(2)?;
    let repeated = |axis: usize| at.layout.stride(axis) == 0 || shape.dim(axis) == 1;
    if !repeated(last) || !repeated(last + 1) || !tensor.dtype().is_float() {
        return None;
    }
    let one = shape.with_dim(last, 1)?.with_dim(last + 1, 1)?;
    let (start, step) = (vec![0; shape.rank()], vec![1; shape.rank()]);
    strided::gather(&tensor, &at.view(&ViewOp::Slice { start, step }, one)?)
}

/// Multiplies the queries, and lets who reads the scores read them as they are made.
fn apply(graph: &mut Graph, found: Found) {
    let Found { node, product, factors } = found;
    let queries = graph.nodes[product].inputs[0];
    let (dtype, shape) = graph.operand(queries);
    let name = graph.nodes[node].name.clone();
    let factors = graph.add_constant(format!("{name}.factors"), Arc::new(factors));
    let [repeated, scaled] = ["repeated", "queries"].map(|part| graph.add_value(format!("{name}.{part}"), dtype, shape));
    let scores = graph.nodes[product].outputs[0];
    rewrite::replace(graph, graph.nodes[node].outputs[0], scores);
    graph.nodes[product].inputs[0] = scaled;
    let before = [
        Node {
            name: format!("{name}.repeated"),
            op: Op::View(ViewOp::Broadcast),
            inputs: vec![factors],
            outputs: vec![repeated],
        },
        Node {
            name: format!("{name}.queries"),
            op: Op::Primitive(Primitive::Binary(Binary::Mul)),
            inputs: vec![queries, repeated],
            outputs: vec![scaled],
        },
    ];
    graph.nodes.splice(product..product, before);
}
