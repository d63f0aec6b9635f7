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
        let [x, exponent] = graph.nodes[node].inputs[..] else { continue };
        let shape = graph.value(graph.nodes[node].outputs[0]).shape;
        if index.scalar(graph, exponent) == Some(2.0) && graph.value(x).shape == shape {
            graph.nodes[node].op = Op::Primitive(Primitive::Binary(Binary::Mul));
            graph.nodes[node].inputs = vec![x, x];
        }
    }
    super::drop_dead::run(graph);
}
