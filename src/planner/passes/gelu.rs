//! `x / 2 * (1 + erf(x / sqrt(2)))`, as exporters spell it, becomes [`Unary::Gelu`].

use super::rewrite::Index;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive, Unary};
use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Some(x) = gelu(graph, &index, node) else { continue };
        graph.nodes[node].op = Op::Primitive(Primitive::Unary(Unary::Gelu));
        graph.nodes[node].inputs = vec![x];
    }
    super::drop_dead::run(graph);
}

/// The input, if `node` is the product of it, of one half, and of `1 + erf(x / sqrt(2))`, in any order.
fn gelu(graph: &Graph, index: &Index, node: usize) -> Option<ValueId> {
    let Op::Primitive(Primitive::Binary(Binary::Mul)) = graph.nodes[node].op else {
        return None;
    };
    let [a, b] = graph.nodes[node].inputs[..] else { return None };
    let inner = |value| index.operands(graph, Binary::Mul, value);
    let orders = [(inner(a), b), (inner(b), a)];
    orders.into_iter().find_map(|(pair, last)| {
        let [p, q] = pair?;
        [[p, q, last], [p, last, q], [q, p, last], [q, last, p], [last, p, q], [last, q, p]]
            .into_iter()
            .find_map(|[x, half, sum]| {
                let is_half = index.scalar(graph, half) == Some(0.5);
                (is_half && gate_of(graph, index, sum) == Some(x)).then_some(x)
            })
    })
}

/// `x`, if `value` is `1 + erf(x / sqrt(2))`.
fn gate_of(graph: &Graph, index: &Index, value: ValueId) -> Option<ValueId> {
    let [a, b] = index.operands(graph, Binary::Add, value)?;
    let erf = match () {
        () if index.scalar(graph, a) == Some(1.0) => b,
        () if index.scalar(graph, b) == Some(1.0) => a,
        () => return None,
    };
    let (Unary::Erf, scaled) = index.unary(graph, erf)? else {
        return None;
    };
    let near = |value, number: f32| index.scalar(graph, value).is_some_and(|v| (v / number - 1.0).abs() < 1e-3);
    if let Some([x, root]) = index.operands(graph, Binary::Div, scaled) {
        return near(root, SQRT_2).then_some(x);
    }
    match index.operands(graph, Binary::Mul, scaled)? {
        [x, factor] if near(factor, FRAC_1_SQRT_2) => Some(x),
        [factor, x] if near(factor, FRAC_1_SQRT_2) => Some(x),
        _ => None,
    }
}
