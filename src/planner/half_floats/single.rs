//! What stays f32 in a network of halves: values that are marked so (see [`crate::planner::graph::Value::single`]), and what is
//! computed for them alone, such as the angles of a sine.

use crate::planner::graph::{Graph, Node, Op, ValueId};
use crate::planner::strided;
use crate::primitive::Primitive;
use crate::tensor::DType;
use std::collections::{BTreeMap, BTreeSet};

/// The values that stay f32, by their position.
///
/// Beside the marked ones these are views, elementwise functions and constants that only nodes with such results read. A function
/// of a product stays a half, for it runs in one operator with the product.
pub fn values(graph: &Graph) -> BTreeSet<usize> {
    let marked = graph.values.iter().enumerate().filter(|(_, v)| v.single && v.dtype == DType::F32);
    let mut single: BTreeSet<usize> = marked.map(|(index, _)| index).collect();
    if single.is_empty() {
        return single;
    }
    let producers = strided::producers(graph);
    // What halves read of a value they read as halves; a result keeps its type by itself.
    let mut by_halves: BTreeSet<usize> = graph.outputs.iter().map(|o| o.value.index()).collect();
    let mut by_singles = BTreeSet::new();
    for node in graph.nodes.iter().rev() {
        let alone = |v: &ValueId| {
            let index = v.index();
            by_singles.contains(&index) && !by_halves.contains(&index) && graph.value(*v).dtype == DType::F32
        };
        if passes_on(graph, &producers, node) && node.outputs.iter().all(alone) {
            single.extend(node.outputs.iter().map(|v| v.index()));
        }
        let readers = if makes(&single, node) { &mut by_singles } else { &mut by_halves };
        readers.extend(node.inputs.iter().map(|v| v.index()));
    }
    let constants = graph.values.iter().enumerate();
    let constants = constants.filter(|(_, v)| v.data.is_some() && v.dtype == DType::F32);
    single.extend(
        constants
            .map(|(index, _)| index)
            .filter(|i| by_singles.contains(i) && !by_halves.contains(i)),
    );
    single
}

/// True for a node whose result stays f32.
pub fn makes(single: &BTreeSet<usize>, node: &Node) -> bool {
    node.outputs.iter().any(|v| single.contains(&v.index()))
}

/// A view, or an elementwise function that reads no product.
fn passes_on(graph: &Graph, producers: &[Option<usize>], node: &Node) -> bool {
    let elementwise = |op: &Op| matches!(op, Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Copy));
    let is_product = |v: &ValueId| {
        let producer = producers[v.index()].map(|n| &graph.nodes[n].op);
        producer.is_some_and(|op| matches!(op, Op::Primitive(_)) && !elementwise(op))
    };
    match &node.op {
        Op::View(_) => true,
        Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)) => !node.inputs.iter().any(is_product),
        _ => false,
    }
}

/// Puts conversions where nodes with f32 results read halves, and where others read what stays f32.
pub fn bridge(graph: &mut Graph, single: &BTreeSet<usize>) {
    if single.is_empty() {
        return;
    }
    let mut converted: BTreeMap<(ValueId, DType), ValueId> = BTreeMap::new();
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for mut node in std::mem::take(&mut graph.nodes) {
        // A copy reads any type.
        if node.op != Op::Primitive(Primitive::Copy) {
            let wanted = if makes(single, &node) { DType::F32 } else { DType::F16 };
            for input in &mut node.inputs {
                let is_other = match wanted {
                    DType::F32 => graph.value(*input).dtype == DType::F16,
                    _ => single.contains(&input.index()),
                };
                if is_other {
                    let from = *input;
                    *input = *converted.entry((from, wanted)).or_insert_with(|| {
                        let (copy, to) = conversion(graph, from, wanted);
                        nodes.push(copy);
                        to
                    });
                }
            }
        }
        nodes.push(node);
    }
    graph.nodes = nodes;
}

/// Makes halves of results that stay f32.
pub fn halve_results(graph: &mut Graph, single: &BTreeSet<usize>) {
    for index in 0..graph.outputs.len() {
        let from = graph.outputs[index].value;
        if single.contains(&from.index()) {
            let (copy, to) = conversion(graph, from, DType::F16);
            graph.nodes.push(copy);
            graph.outputs[index].value = to;
        }
    }
}

fn conversion(graph: &mut Graph, from: ValueId, to: DType) -> (Node, ValueId) {
    let suffix = if to == DType::F16 { "f16" } else { "f32" };
    let name = format!("{}.{suffix}", graph.value(from).name);
    let value = graph.add_value(name.clone(), to, graph.value(from).shape);
    (Node::copy(name, from, value), value)
}

#[cfg(test)]
mod tests {
    use super::super::{Ports, convert};
    use super::*;
    use crate::planner::attach;
    use crate::planner::graph::{Named, verify};
    use crate::primitive::{Binary, Unary};
    use crate::tensor::{Data, Shape, Tensor};
    use std::sync::Arc;

    fn named(name: &str, value: ValueId) -> Named {
        Named {
            name: name.into(),
            value,
            widened: false,
        }
    }

    /// A function of an input times a constant, through a marked value, to a result and to another function; and a function of the
    /// input itself.
    fn network() -> Graph {
        let shape = Shape::new(&[4]).unwrap();
        let mut graph = Graph::default();
        let [x, angle, turns, y, other] = ["x", "angle", "turns", "y", "other"].map(|name| graph.add_value(name, DType::F32, shape));
        let data = Tensor::new(shape, Data::F32(vec![1e-5, 1000.25, 3.0, 4.0])).unwrap();
        let factor = graph.add_constant("factor", Arc::new(data));
        graph.values[turns.index()].single = true;
        let unary = |function| Op::Primitive(Primitive::Unary(function));
        graph.add_node("angle", Op::Primitive(Primitive::Binary(Binary::Mul)), vec![x, factor], vec![angle]);
        graph.add_node("turns", unary(Unary::Round), vec![angle], vec![turns]);
        graph.add_node("y", unary(Unary::Abs), vec![turns], vec![y]);
        graph.add_node("other", unary(Unary::Relu), vec![x], vec![other]);
        graph.inputs.push(named("x", x));
        graph.outputs = vec![named("y", y), named("other", other), named("turns", turns)];
        graph
    }

    fn dtype(graph: &Graph, name: &str) -> DType {
        graph.values.iter().find(|v| v.name == name).unwrap().dtype
    }

    #[test]
    fn what_a_marked_value_is_computed_from_stays_single_and_its_readers_are_halves() {
        let graph = convert(attach::tensors(network()), Ports::Declared).graph;
        verify(&graph).unwrap();
        for (name, wanted) in [
            ("factor", DType::F32),
            ("angle", DType::F32),
            ("turns", DType::F32),
            ("turns.f16", DType::F16),
            ("x.f16", DType::F16),
            ("y", DType::F16),
            ("other", DType::F16),
        ] {
            assert_eq!(dtype(&graph, name), wanted, "{name}");
        }
        // The input is read as it is given.
        let angle = graph.nodes.iter().find(|n| n.name == "angle").unwrap();
        assert_eq!(graph.value(angle.inputs[0]).name, "x");
        // No port was asked to be a half.
        assert!(graph.outputs.iter().all(|o| graph.value(o.value).dtype == DType::F32));
    }

    #[test]
    fn half_ports_are_halves_around_what_stays_single() {
        let graph = convert(attach::tensors(network()), Ports::Half).graph;
        verify(&graph).unwrap();
        let ports = graph.inputs.iter().chain(&graph.outputs);
        assert!(
            ports.clone().all(|p| graph.value(p.value).dtype == DType::F16),
            "{:?}",
            graph.values
        );
        assert_eq!((dtype(&graph, "turns"), dtype(&graph, "angle")), (DType::F32, DType::F32));
    }

    #[test]
    fn a_function_of_a_product_stays_with_it() {
        let shape = Shape::new(&[2, 2]).unwrap();
        let mut graph = Graph::default();
        let [x, product, shifted, angle, turns] =
            ["x", "product", "shifted", "angle", "turns"].map(|name| graph.add_value(name, DType::F32, shape));
        graph.values[turns.index()].single = true;
        let unary = |function| Op::Primitive(Primitive::Unary(function));
        graph.add_node("product", Op::Primitive(Primitive::MatMul), vec![x, x], vec![product]);
        graph.add_node("shifted", unary(Unary::Relu), vec![product], vec![shifted]);
        graph.add_node("angle", unary(Unary::Exp), vec![shifted], vec![angle]);
        graph.add_node("turns", unary(Unary::Round), vec![angle], vec![turns]);
        graph.inputs.push(named("x", x));
        graph.outputs.push(named("turns", turns));
        let graph = convert(attach::tensors(graph), Ports::Declared).graph;
        verify(&graph).unwrap();
        let types = ["product", "shifted", "angle", "turns"].map(|name| dtype(&graph, name));
        assert_eq!(types, [DType::F16, DType::F16, DType::F32, DType::F32]);
    }
}
