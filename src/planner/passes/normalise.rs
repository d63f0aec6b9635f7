//! `(x - mean) / sqrt(mean of (x - mean)^2 + epsilon)`, as layer normalisation is spelled, becomes [`Primitive::Normalise`], and
//! `x / sqrt(mean of x^2 + epsilon)`, root mean square normalisation, [`Primitive::RmsNormalise`]: they hold squares in f32, where f16
//! overflows from 256 on.

use super::rewrite::{Index, broadcasted};
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive, ReduceKind, Scalar, Unary};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Some(found) = found(graph, &index, node).filter(|it| it.axes.is_power_of_two()) else {
            continue;
        };
        let (axis, epsilon) = (found.axes.trailing_zeros() as u8, found.epsilon);
        graph.nodes[node].op = Op::Primitive(if found.centred {
            Primitive::Normalise { axis, epsilon }
        } else {
            Primitive::RmsNormalise { axis, epsilon }
        });
        graph.nodes[node].inputs = vec![found.x];
    }
    super::drop_dead::run(graph);
}

/// A quotient of `x`, less its mean or not, and the root of the mean of the squares of that.
struct Found {
    x: ValueId,
    centred: bool,
    axes: u8,
    epsilon: Scalar,
}

/// The input, the axes and the epsilon, if `node` is the quotient of a difference from the mean and the deviation.
pub(super) fn normalised(graph: &Graph, index: &Index, node: usize) -> Option<(ValueId, u8, Scalar)> {
    let it = found(graph, index, node)?;
    it.centred.then_some((it.x, it.axes, it.epsilon))
}

fn found(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let Op::Primitive(Primitive::Binary(kind)) = graph.nodes[node].op else {
        return None;
    };
    let &[a, b] = graph.nodes[node].inputs.as_slice() else {
        return None;
    };
    match kind {
        Binary::Div => over(graph, index, a, b),
        // By the reciprocal of the deviation, whichever comes first.
        Binary::Mul => [(a, b), (b, a)].into_iter().find_map(|(top, factor)| {
            let [one, deviation] = index.operands(graph, Binary::Div, broadcasted(graph, index, factor))?;
            (index.scalar(graph, one) == Some(1.0)).then(|| over(graph, index, top, deviation))?
        }),
        _ => None,
    }
}

/// `top` over `deviation`.
fn over(graph: &Graph, index: &Index, top: ValueId, deviation: ValueId) -> Option<Found> {
    let (Unary::Sqrt, shifted) = index.unary(graph, broadcasted(graph, index, deviation))? else {
        return None;
    };
    let [a, b] = index.operands(graph, Binary::Add, shifted)?;
    let (variance, epsilon) = match (index.scalar(graph, a), index.scalar(graph, b)) {
        (None, Some(epsilon)) => (a, epsilon),
        (Some(epsilon), None) => (b, epsilon),
        _ => return None,
    };
    let (squared, axes) = mean_of(graph, index, variance)?;
    if index.root(graph, squared) != Some(top) || !graph.value(top).dtype.is_float() || !epsilon.is_finite() {
        return None;
    }
    let centred = index.operands(graph, Binary::Sub, top).and_then(|[x, mean]| {
        let (of, along) = mean_of(graph, index, broadcasted(graph, index, mean))?;
        (of == x && along == axes).then_some(x)
    });
    Some(Found {
        x: centred.unwrap_or(top),
        centred: centred.is_some(),
        axes,
        epsilon: Scalar(epsilon),
    })
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
