//! `x^2` becomes `x * x`: the power is the product rounded once, whose bits that is, and takes kernels many times as long.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Op};
use crate::primitive::{Binary, Primitive};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Op::Primitive(Primitive::Binary(Binary::Pow)) = graph.nodes[node].op else {
            continue;
        };
        let made = graph.nodes[node].outputs[0];
        let Some(x) = index.root(graph, made) else { continue };
        if graph.value(x).shape == graph.value(made).shape {
            graph.nodes[node].op = Op::Primitive(Primitive::Binary(Binary::Mul));
            graph.nodes[node].inputs = vec![x, x];
        }
    }
    super::drop_dead::run(graph);
}
