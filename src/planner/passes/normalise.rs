//! `(x - mean) / sqrt(mean of (x - mean)^2 + epsilon)`, as layer normalisation is spelled, becomes [`Primitive::Normalise`].

use super::rewrite::{Index, broadcasted};
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive, ReduceKind, Scalar, Unary};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Some((x, axes, epsilon)) = normalised(graph, &index, node).filter(|(_, axes, _)| axes.is_power_of_two()) else {
            continue;
        };
        graph.nodes[node].op = Op::Primitive(Primitive::Normalise {
            axis: axes.trailing_zeros() as u8,
            epsilon,
        });
        graph.nodes[node].inputs = vec![x];
    }
    super::drop_dead::run(graph);
}

/// The input, the axes and the epsilon, if `node` is the quotient of a difference from the mean and the deviation.
pub(super) fn normalised(graph: &Graph, index: &Index, node: usize) -> Option<(ValueId, u8, Scalar)> {
    let Op::Primitive(Primitive::Binary(Binary::Div)) = graph.nodes[node].op else {
        return None;
    };
    let [centred, deviation] = graph.nodes[node].inputs[..] else {
        return None;
    };
    let [x, mean] = index.operands(graph, Binary::Sub, centred)?;
    let (of, axes) = mean_of(graph, index, broadcasted(graph, index, mean))?;
    let (Unary::Sqrt, shifted) = index.unary(graph, broadcasted(graph, index, deviation))? else {
        return None;
    };
    let [a, b] = index.operands(graph, Binary::Add, shifted)?;
    let (variance, epsilon) = match (index.scalar(graph, a), index.scalar(graph, b)) {
        (None, Some(epsilon)) => (a, epsilon),
        (Some(epsilon), None) => (b, epsilon),
        _ => return None,
    };
    let (squared, along) = mean_of(graph, index, variance)?;
    let float = graph.value(x).dtype.is_float() && epsilon.is_finite();
    (of == x && along == axes && float && is_square(graph, index, squared, centred)).then_some((x, axes, Scalar(epsilon)))
}

/// What `value` is the mean of, and over which axes.
fn mean_of(graph: &Graph, index: &Index, value: ValueId) -> Option<(ValueId, u8)> {
    let (node, primitive) = index.primitive(graph, value)?;
    let Primitive::Reduce {
        kind: ReduceKind::Mean,
        axes,
    } = *primitive
    else {
        return None;
    };
    Some((graph.nodes[node].inputs[0], axes))
}

/// True if `value` is `root` times itself, or its second power.
fn is_square(graph: &Graph, index: &Index, value: ValueId, root: ValueId) -> bool {
    let product = index.operands(graph, Binary::Mul, value) == Some([root, root]);
    let power = index.operands(graph, Binary::Pow, value);
    product || power.is_some_and(|[x, exponent]| x == root && index.scalar(graph, exponent) == Some(2.0))
}
