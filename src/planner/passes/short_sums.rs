//! Sums of few elements become additions in their order: kernels of additions read whole runs of neighbours, and functions of the
//! sum join them. The halves of split attention (Zhang et al. 2020, section 3.1) are summed so, and the stacked maps of a feature
//! pyramid. Sums of floats keep their bits; halves are rounded after each addition, so what they may not hold of a sum stays one: sums of
//! squares and what is scaled or has its logarithm taken behind (half_floats).

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Binary, Primitive, ReduceKind, Unary};

/// Most elements of a sum.
const MOST: u32 = 8;

pub fn run(graph: &mut Graph) {
    let mut node = 0;
    while node < graph.nodes.len() {
        node += match short_axis(graph, &graph.nodes[node]) {
            Some((axis, count)) => apply(graph, node, axis, count),
            None => 1,
        };
    }
}

/// The one axis that the node sums over and its positions, if these are few and do not lie side by side.
fn short_axis(graph: &Graph, node: &Node) -> Option<(usize, u32)> {
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
    let count = alone.then(|| shape.dim(axis))?;
    ((2..=MOST).contains(&count) && !outgrows_halves(graph, node)).then_some((axis, count))
}

/// True for sums of which half_floats makes others.
fn outgrows_halves(graph: &Graph, node: &Node) -> bool {
    let index = Index::of(graph);
    let mut seen = vec![node.outputs[0]];
    let mut at = 0;
    while let Some(&value) = seen.get(at) {
        at += 1;
        for reader in graph.nodes.iter().filter(|n| n.inputs.contains(&value)) {
            match reader.op {
                Op::View(_) => seen.push(reader.outputs[0]),
                Op::Primitive(Primitive::Unary(Unary::Log)) => return true,
                Op::Primitive(Primitive::Binary(Binary::Mul | Binary::Div)) if scales(graph, &index, reader, value) => return true,
                _ => {}
            }
        }
    }
    let (from, _) = index.behind_views(graph, node.inputs[0]);
    index.root(graph, from).is_some()
}

/// True where a product or quotient has a number beside `value`.
fn scales(graph: &Graph, index: &Index, node: &Node, value: ValueId) -> bool {
    node.inputs.iter().any(|&v| v != value && index.scalar(graph, v).is_some())
}

/// Puts slices and additions in the place of a sum; how many nodes there are now.
fn apply(graph: &mut Graph, node: usize, axis: usize, count: u32) -> usize {
    let sum = graph.nodes[node].clone();
    let (x, name) = (sum.inputs[0], &sum.name);
    let (dtype, shape) = (graph.value(x).dtype, graph.value(sum.outputs[0]).shape);
    let slices: Vec<ValueId> = (0..count).map(|k| graph.add_value(format!("{name}.{k}"), dtype, shape)).collect();
    let mut nodes: Vec<Node> = (0i64..)
        .zip(&slices)
        .map(|(k, &slice)| Node {
            name: format!("{name}.{k}"),
            op: Op::View(ViewOp::band(shape.rank(), axis, k)),
            inputs: vec![x],
            outputs: vec![slice],
        })
        .collect();
    let mut total = slices[0];
    for (k, &slice) in slices.iter().enumerate().skip(1) {
        let (name, made) = match k + 1 == slices.len() {
            true => (name.clone(), sum.outputs[0]),
            false => {
                let name = format!("{name}.sum{k}");
                (name.clone(), graph.add_value(name, dtype, shape))
            }
        };
        nodes.push(Node {
            name,
            op: Op::Primitive(Primitive::Binary(Binary::Add)),
            inputs: vec![total, slice],
            outputs: vec![made],
        });
        total = made;
    }
    let count = nodes.len();
    graph.nodes.splice(node..=node, nodes);
    count
}
