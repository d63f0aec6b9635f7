//! `softmax(scale * Q K) V` along the keys, as exporters spell it, becomes [`Primitive::Attention`].

use super::rewrite::Index;
use crate::plan::tactic::MAX_ATTENTION_WIDTH;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive, Scalar};

/// Most keys. Longer rows of scores are worth storing where products are computed in blocks of queries, as they are on a CPU.
const MAX_KEYS: u32 = 512;

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Some((inputs, scale)) = attention(graph, &index, node) else {
            continue;
        };
        graph.nodes[node].op = Op::Primitive(Primitive::Attention { scale: Scalar(scale) });
        graph.nodes[node].inputs = inputs;
    }
    super::drop_dead::run(graph);
}

/// Queries, keys, values and the scale, if `node` is the product of a softmax of a product; nobody else reads the matrix.
fn attention(graph: &Graph, index: &Index, node: usize) -> Option<(Vec<ValueId>, f32)> {
    let Op::Primitive(Primitive::MatMul) = graph.nodes[node].op else {
        return None;
    };
    let [shares, values] = graph.nodes[node].inputs[..] else {
        return None;
    };
    let alone = |value: ValueId| index.uses[value.index()] == 1;
    let (softmax, Primitive::Softmax { axis }) = index.primitive(graph, shares)? else {
        return None;
    };
    let rank = graph.value(shares).shape.rank();
    if usize::from(*axis) + 1 != rank || !alone(shares) {
        return None;
    }
    let (scores, mut scale) = scaled(graph, index, graph.nodes[softmax].inputs[0], alone);
    let (product, Primitive::MatMul) = index.primitive(graph, scores)? else {
        return None;
    };
    let [queries, keys] = graph.nodes[product].inputs[..] else {
        return None;
    };
    let always = |_| true;
    let (queries, of_queries) = scaled(graph, index, queries, always);
    let (keys, of_keys) = scaled(graph, index, keys, always);
    scale *= of_queries * of_keys;
    let (last, shape) = (rank - 1, |value: ValueId| graph.value(value).shape);
    let narrow = shape(queries).dim(last).max(shape(values).dim(last)) <= MAX_ATTENTION_WIDTH;
    let keys_fit = (1..=MAX_KEYS).contains(&shape(keys).dim(last));
    (narrow && keys_fit && scale.is_finite() && alone(scores)).then(|| (vec![queries, keys, values], scale))
}

/// `value` without the constant factors that it is multiplied by, and their product. Looks through what `passes` only.
fn scaled(graph: &Graph, index: &Index, value: ValueId, passes: impl Fn(ValueId) -> bool) -> (ValueId, f32) {
    let (mut value, mut scale) = (value, 1.0);
    while passes(value) {
        let factor = |x| index.scalar(graph, x);
        let product = index.operands(graph, Binary::Mul, value).and_then(|[a, b]| match factor(b) {
            Some(f) => Some((a, f)),
            None => factor(a).map(|f| (b, f)),
        });
        let quotient = || {
            index
                .operands(graph, Binary::Div, value)
                .and_then(|[a, b]| factor(b).map(|f| (a, 1.0 / f)))
        };
        let Some((inner, factor)) = product.or_else(quotient) else { break };
        (value, scale) = (inner, scale * factor);
    }
    (value, scale)
}
