//! `x * sigmoid(x)` becomes [`Unary::Silu`].

use super::rewrite::Index;
use crate::planner::graph::{Graph, Op};
use crate::primitive::{Binary, Primitive, Unary};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Op::Primitive(Primitive::Binary(Binary::Mul)) = graph.nodes[node].op else {
            continue;
        };
        let (a, b) = (graph.nodes[node].inputs[0], graph.nodes[node].inputs[1]);
        let gate = |x, gated| index.unary(graph, gated) == Some((Unary::Sigmoid, x));
        let x = match () {
            () if gate(a, b) => a,
            () if gate(b, a) => b,
            () => continue,
        };
        graph.nodes[node].op = Op::Primitive(Primitive::Unary(Unary::Silu));
        graph.nodes[node].inputs = vec![x];
    }
    super::drop_dead::run(graph);
}
