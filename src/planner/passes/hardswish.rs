//! The spellings of hard swish become [`Unary::HardSwish`]: `x * hardsigmoid(x)` with slope 1/6 and offset 1/2,
//! `x * (clip(x + 3, 0, 6) / 6)` and `(x * clip(x + 3, 0, 6)) / 6`, the division also as a product with 1/6.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive, Unary};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        if graph.nodes[node].outputs.len() != 1 {
            continue;
        }
        if let Some(x) = matched(graph, &index, graph.nodes[node].outputs[0]) {
            graph.nodes[node].op = Op::Primitive(Primitive::Unary(Unary::HardSwish));
            graph.nodes[node].inputs = vec![x];
        }
    }
    super::drop_dead::run(graph);
}

/// The `x` of a hard swish that `value` is.
fn matched(graph: &Graph, index: &Index, value: ValueId) -> Option<ValueId> {
    if let Some((a, b)) = product(graph, index, value) {
        let gated = |x, gate| is_gate(graph, index, gate, x).then_some(x);
        if let Some(x) = gated(a, b).or_else(|| gated(b, a)) {
            return Some(x);
        }
    }
    let whole = sixth(graph, index, value)?;
    let (a, b) = product(graph, index, whole)?;
    let relu6 = |x, gate| is_relu6_of_shifted(graph, index, gate, x).then_some(x);
    relu6(a, b).or_else(|| relu6(b, a))
}

fn binary(graph: &Graph, index: &Index, value: ValueId) -> Option<(Binary, ValueId, ValueId)> {
    match index.primitive(graph, value)? {
        (node, Primitive::Binary(kind)) => Some((*kind, graph.nodes[node].inputs[0], graph.nodes[node].inputs[1])),
        _ => None,
    }
}

fn product(graph: &Graph, index: &Index, value: ValueId) -> Option<(ValueId, ValueId)> {
    match binary(graph, index, value)? {
        (Binary::Mul, a, b) => Some((a, b)),
        _ => None,
    }
}

/// The `v` of `v / 6` or `v * (1/6)`.
fn sixth(graph: &Graph, index: &Index, value: ValueId) -> Option<ValueId> {
    let near_sixth = |v| index.scalar(graph, v).is_some_and(|s| (s * 6.0 - 1.0).abs() < 1e-6);
    match binary(graph, index, value)? {
        (Binary::Div, a, b) if index.scalar(graph, b) == Some(6.0) => Some(a),
        (Binary::Mul, a, b) if near_sixth(b) => Some(a),
        (Binary::Mul, a, b) if near_sixth(a) => Some(b),
        _ => None,
    }
}

/// True if `gate` is `hardsigmoid(x)` in either spelling.
fn is_gate(graph: &Graph, index: &Index, gate: ValueId, x: ValueId) -> bool {
    if let Some((Unary::HardSigmoid(alpha, beta), of)) = index.unary(graph, gate) {
        return of == x && (alpha.0 * 6.0 - 1.0).abs() < 1e-6 && beta.0 == 0.5;
    }
    sixth(graph, index, gate).is_some_and(|v| is_relu6_of_shifted(graph, index, v, x))
}

/// True if `value` is `clip(x + 3, 0, 6)`.
fn is_relu6_of_shifted(graph: &Graph, index: &Index, value: ValueId, x: ValueId) -> bool {
    let Some((Unary::Clip(low, high), shifted)) = index.unary(graph, value) else {
        return false;
    };
    let three = |v| index.scalar(graph, v) == Some(3.0);
    let is_shifted = matches!(binary(graph, index, shifted), Some((Binary::Add, a, b)) if (a == x && three(b)) || (b == x && three(a)));
    low.0 == 0.0 && high.0 == 6.0 && is_shifted
}
