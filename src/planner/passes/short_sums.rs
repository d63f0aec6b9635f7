//! Sums of two elements become additions, with the same bits: kernels of additions read whole runs of neighbours, and functions of
//! the sum join them. The halves of split attention (Zhang et al. 2020, section 3.1) are summed so.

use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Binary, Primitive, ReduceKind};

pub fn run(graph: &mut Graph) {
    let mut node = 0;
    while node < graph.nodes.len() {
        if let Some(axis) = axis_of_two(graph, &graph.nodes[node]) {
            apply(graph, node, axis);
            node += 2;
        }
        node += 1;
    }
}

/// The one axis that the node sums over, if it has two positions that do not lie side by side.
fn axis_of_two(graph: &Graph, node: &Node) -> Option<usize> {
    let Op::Primitive(Primitive::Reduce {
        kind: ReduceKind::Sum,
        axes,
    }) = node.op
    else {
        return None;
    };
    let shape = graph.value(node.inputs[0]).shape;
    let axis = axes.trailing_zeros() as usize;
    let alone = axes.count_ones() == 1 && axis + 1 < shape.rank();
    (alone && shape.dim(axis) == 2).then_some(axis)
}

fn apply(graph: &mut Graph, node: usize, axis: usize) {
    let (x, made, name) = (
        graph.nodes[node].inputs[0],
        graph.nodes[node].outputs[0],
        graph.nodes[node].name.clone(),
    );
    let (dtype, shape) = (graph.value(x).dtype, graph.value(made).shape);
    let halves: Vec<ValueId> = (0..2).map(|k| graph.add_value(format!("{name}.{k}"), dtype, shape)).collect();
    let slices: Vec<Node> = (0i64..)
        .zip(&halves)
        .map(|(k, &half)| Node {
            name: format!("{name}.{k}"),
            op: Op::View(ViewOp::band(shape.rank(), axis, k)),
            inputs: vec![x],
            outputs: vec![half],
        })
        .collect();
    graph.nodes[node].op = Op::Primitive(Primitive::Binary(Binary::Add));
    graph.nodes[node].inputs = halves;
    graph.nodes.splice(node..node, slices);
}
