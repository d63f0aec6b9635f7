//! The root of the sum of squares along axes, spelled in three functions, becomes a reduction of its own, [`ReduceKind::Norm`]: it
//! holds squares and their sum in f32, where f16 overflows from 256 on.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive, ReduceKind, Unary};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Some((x, axes)) = norm(graph, &index, node) else { continue };
        graph.nodes[node].op = Op::Primitive(Primitive::Reduce {
            kind: ReduceKind::Norm,
            axes,
        });
        graph.nodes[node].inputs = vec![x];
    }
    super::drop_dead::run(graph);
}

/// What `node` is the norm of, and along which axes.
fn norm(graph: &Graph, index: &Index, node: usize) -> Option<(ValueId, u8)> {
    if graph.nodes[node].op != Op::Primitive(Primitive::Unary(Unary::Sqrt)) {
        return None;
    }
    let (sum, primitive) = index.primitive(graph, graph.nodes[node].inputs[0])?;
    let &Primitive::Reduce {
        kind: ReduceKind::Sum,
        axes,
    } = primitive
    else {
        return None;
    };
    let squares = graph.nodes[sum].inputs[0];
    let product = index.operands(graph, Binary::Mul, squares).filter(|[a, b]| a == b);
    let power = index
        .operands(graph, Binary::Pow, squares)
        .filter(|&[_, exponent]| index.scalar(graph, exponent) == Some(2.0));
    let [x, _] = product.or(power)?;
    (graph.value(x).dtype == graph.value(squares).dtype).then_some((x, axes))
}
