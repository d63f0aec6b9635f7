//! Half-precision activations and weights: every f32 value inside a network becomes f16, converted at its borders.
//!
//! Arithmetic stays in f32 (see [`crate::plan::format::Rounding`]). What a decoder works with stays f32, and so do tensor
//! inputs and results, which keep the type that ONNX declares, unless [`Ports::Half`] is asked for, grids of places that are
//! constants, and what formulas need of f32 (`single`). A number that keeps a divisor from zero, such as 1e-12, does not become zero.

mod single;

use super::attach::{Attached, ResultOf};
use super::graph::{Graph, Node, Op, ValueId, ViewOp};
use super::passes::rewrite::replace;
use crate::primitive::{Primitive, Scalar, Unary};
use crate::tensor::{DType, Data, Tensor};
use half::f16;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The type of tensor inputs and results that the network declares as f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// They stay f32.
    #[default]
    Declared,
    /// They become f16.
    Half,
}

/// Converts the network.
pub fn convert(mut attached: Attached, ports: Ports) -> Attached {
    let graph = &mut attached.graph;
    let mut keep = results(graph, &attached.results);
    let declared: Vec<bool> = graph.outputs.iter().map(|n| graph.value(n.value).dtype == DType::F32).collect();
    let single = single::values(graph);
    keep.extend(&single);
    // At half ports f32 inputs are read as halves by all.
    let direct = if ports == Ports::Declared {
        single.clone()
    } else {
        BTreeSet::new()
    };
    borders_in(graph, &attached.results, &direct);
    for (index, value) in graph.values.iter_mut().enumerate() {
        let border = graph.inputs.iter().any(|n| n.value.index() == index) || keep.contains(&index);
        if value.dtype != DType::F32 || border {
            continue;
        }
        value.dtype = DType::F16;
        if let Some(data) = value.data.as_deref() {
            value.data = rounded(data).map(Arc::new);
        }
    }
    for node in graph.nodes.iter_mut().filter(|n| !single::makes(&single, n)) {
        if let Op::Primitive(Primitive::Unary(Unary::Clip(low, high))) = &mut node.op {
            (*low, *high) = (Scalar(kept(low.0)), Scalar(kept(high.0)));
        }
    }
    single::bridge(graph, &single);
    borders_out(graph, &declared);
    if ports == Ports::Half {
        single::halve_results(graph, &single);
        halve_ports(graph, &attached.results);
        drop_copies(graph);
    }
    attached
}

/// Values that primitives of decoding make in f32 whatever they read, and what is picked from other tenants' results.
fn results(graph: &Graph, foreign: &BTreeMap<ValueId, ResultOf>) -> BTreeSet<usize> {
    let mut keep = BTreeSet::new();
    for node in &graph.nodes {
        let Op::Primitive(primitive) = &node.op else { continue };
        match primitive {
            Primitive::DecodeYolox { .. } | Primitive::Nms(_) => keep.extend(node.outputs.iter().map(|v| v.index())),
            // A fixed grid loses nothing: places of halves are off by some hundredths of a pixel of a large picture.
            Primitive::Sample(_) => keep.extend(fixed(graph, node.inputs[1])),
            Primitive::Gather { .. } if foreign.contains_key(&node.inputs[0]) => keep.extend(node.outputs.iter().map(|v| v.index())),
            _ => {}
        }
    }
    keep
}

/// The constant that `value` is, or looks at through views that only it is read by; nothing if others read of it, or it is computed.
fn fixed(graph: &Graph, value: ValueId) -> Vec<usize> {
    let mut looks = vec![value.index()];
    loop {
        let value = ValueId(looks[looks.len() - 1] as u32);
        let readers = graph.nodes.iter().flat_map(|n| &n.inputs).filter(|v| **v == value).count();
        if readers != 1 || graph.outputs.iter().any(|n| n.value == value) {
            return Vec::new();
        }
        if graph.value(value).data.is_some() {
            return looks;
        }
        match graph.nodes.iter().find(|n| n.outputs.contains(&value)) {
            Some(node) if matches!(node.op, Op::View(_)) => looks.push(node.inputs[0].index()),
            _ => return Vec::new(),
        }
    }
}

/// A number, at least the least f16 in size if it is not zero.
fn kept(x: f32) -> f32 {
    let least = f16::from_bits(1).to_f32();
    if x != 0.0 && x.abs() < least { least.copysign(x) } else { x }
}

fn rounded(tensor: &Tensor) -> Option<Tensor> {
    let numbers = tensor.as_f32()?;
    let one = numbers.windows(2).all(|pair| pair[0] == pair[1]);
    let elements = numbers.iter().map(|&x| f16::from_f32(if one { kept(x) } else { x })).collect();
    Tensor::new(tensor.shape(), Data::F16(elements))
}

/// Lets readers of an f32 input read a conversion of it, but those whose results are `direct`; other tenants' results are read as
/// they are.
fn borders_in(graph: &mut Graph, foreign: &BTreeMap<ValueId, ResultOf>, direct: &BTreeSet<usize>) {
    let inputs: Vec<(String, ValueId)> = graph.inputs.iter().map(|n| (n.name.clone(), n.value)).collect();
    let mut conversions = Vec::new();
    for (name, value) in inputs {
        let (dtype, shape) = graph.operand(value);
        if dtype != DType::F32 || foreign.contains_key(&value) {
            continue;
        }
        let directly = readers(graph, value).filter(|n| single::makes(direct, n)).count();
        if directly > 0 && directly == readers(graph, value).count() {
            continue;
        }
        // The copy's own type follows with all others that are not at a border.
        let inner = graph.add_value(format!("{name}.f16"), DType::F32, shape);
        let halves = graph.nodes.iter_mut().filter(|n| !single::makes(direct, n));
        for input in halves.flat_map(|n| &mut n.inputs).filter(|v| **v == value) {
            *input = inner;
        }
        conversions.push(Node::copy(format!("{name}.f16"), value, inner));
    }
    graph.nodes.splice(0..0, conversions);
}

/// Converts results that were f32 back.
fn borders_out(graph: &mut Graph, declared: &[bool]) {
    for (index, &declared) in declared.iter().enumerate() {
        let value = graph.outputs[index].value;
        if graph.value(value).dtype != DType::F16 || !declared {
            continue;
        }
        let name = format!("{}.f32", graph.outputs[index].name);
        let outer = graph.add_value(name.clone(), DType::F32, graph.value(value).shape);
        graph.nodes.push(Node::copy(name, value, outer));
        graph.outputs[index].value = outer;
    }
}

/// Makes f16 of what is f32 at the borders. The conversions there stay as copies, which leave the layout inside free.
fn halve_ports(graph: &mut Graph, foreign: &BTreeMap<ValueId, ResultOf>) {
    let ports = graph.inputs.iter().chain(&graph.outputs);
    let copied: Vec<ValueId> = ports
        .map(|n| n.value)
        .filter(|value| !foreign.contains_key(value))
        .filter(|value| {
            graph
                .nodes
                .iter()
                .filter(|n| n.inputs.contains(value) || n.outputs.contains(value))
                .all(|n| matches!(n.op, Op::Primitive(Primitive::Copy)))
        })
        .collect();
    for value in copied {
        let value = &mut graph.values[value.index()];
        if value.dtype == DType::F32 {
            value.dtype = DType::F16;
        }
    }
}

/// Drops the copies at half ports that leave nothing free: of an input that is only looked at in other ways, each of which is copied
/// or joined anew anyway, and of what a concatenation has put together, whose parts lie as the port wants them.
fn drop_copies(graph: &mut Graph) {
    let is_input = |value: ValueId| graph.inputs.iter().any(|n| n.value == value);
    let is_output = |value: ValueId| graph.outputs.iter().any(|n| n.value == value);
    let joined = |value: ValueId| {
        graph
            .nodes
            .iter()
            .any(|n| n.outputs.contains(&value) && matches!(n.op, Op::Concat { .. }))
    };
    let mut dropped = Vec::new();
    for node in &graph.nodes {
        let (Op::Primitive(Primitive::Copy), &[from], &[to]) = (&node.op, &node.inputs[..], &node.outputs[..]) else {
            continue;
        };
        if (graph.value(from).dtype, graph.value(to).dtype) != (DType::F16, DType::F16)
            || is_output(from)
            || graph.value(from).data.is_some()
        {
            continue;
        }
        let free = match (is_input(from), is_output(to)) {
            (true, false) => !is_copied_anyway(graph, to),
            (false, true) => !(joined(from) && readers(graph, from).count() == 1),
            _ => true,
        };
        if !free {
            dropped.push((to, from));
        }
    }
    graph.nodes.retain(|n| dropped.iter().all(|(to, _)| !n.outputs.contains(to)));
    dropped.into_iter().for_each(|(to, from)| replace(graph, to, from));
}

fn readers(graph: &Graph, value: ValueId) -> impl Iterator<Item = &Node> {
    graph.nodes.iter().filter(move |n| n.inputs.contains(&value))
}

/// True if a value is looked at in other ways, and all that reads it or looks at it copies or joins it.
fn is_copied_anyway(graph: &Graph, value: ValueId) -> bool {
    let looks = |n: &Node| matches!(n.op, Op::View(ViewOp::Reshape | ViewOp::Transpose { .. }));
    let copies = |n: &Node| matches!(n.op, Op::Primitive(Primitive::Copy) | Op::Concat { .. });
    let mut values = vec![value];
    let mut met = 0;
    while let Some(&value) = values.get(met) {
        met += 1;
        if graph.outputs.iter().any(|n| n.value == value) || !readers(graph, value).all(|n| looks(n) || copies(n)) {
            return false;
        }
        values.extend(readers(graph, value).filter(|n| looks(n)).flat_map(|n| n.outputs.iter().copied()));
    }
    met > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::attach;
    use crate::planner::graph::{Named, verify};
    use crate::tensor::Shape;

    fn port(name: &str, value: ValueId) -> Named {
        Named {
            name: name.into(),
            value,
            widened: false,
        }
    }

    /// Floats of an input go through a function to a result; integers straight through.
    fn network() -> Graph {
        let mut graph = Graph::default();
        let shape = Shape::new(&[2, 3]).unwrap();
        let (x, y) = (graph.add_value("x", DType::F32, shape), graph.add_value("y", DType::F32, shape));
        graph.add_node("relu", Op::Primitive(Primitive::Unary(Unary::Relu)), vec![x], vec![y]);
        graph.inputs.push(port("x", x));
        graph.outputs.push(port("y", y));
        graph
    }

    #[test]
    fn what_keeps_a_divisor_from_zero_does_not_become_zero() {
        let mut graph = network();
        graph.nodes[0].op = Op::Primitive(Primitive::Unary(Unary::Clip(Scalar(1e-12), Scalar(f32::INFINITY))));
        let tensor =
            |numbers: &[f32]| Arc::new(Tensor::new(Shape::new(&[numbers.len() as u32]).unwrap(), Data::F32(numbers.to_vec())).unwrap());
        let numbers = [&[1e-12][..], &[-1e-12; 3], &[0.0], &[1e-12, 1.0]].map(|n| graph.add_constant("constant", tensor(n)));
        let graph = convert(attach::tensors(graph), Ports::Half).graph;
        let bits = |v: ValueId| {
            graph
                .value(v)
                .data
                .as_deref()
                .map(|t| (0..t.len()).filter_map(|i| t.get_f64(i)).collect::<Vec<_>>())
        };
        let least = f64::from(f16::from_bits(1).to_f32());
        assert_eq!(
            numbers.map(|v| bits(v).unwrap()),
            [vec![least], vec![-least; 3], vec![0.0], vec![0.0, 1.0]]
        );
        let clips = graph.nodes.iter().filter_map(|n| match n.op {
            Op::Primitive(Primitive::Unary(Unary::Clip(low, high))) => Some((low.0, high.0)),
            _ => None,
        });
        assert_eq!(clips.collect::<Vec<_>>(), [(least as f32, f32::INFINITY)]);
    }

    #[test]
    fn ports_keep_their_type_or_become_half_and_everything_inside_is_half() {
        for (ports, wanted) in [(Ports::Declared, DType::F32), (Ports::Half, DType::F16)] {
            let graph = convert(attach::tensors(network()), ports).graph;
            verify(&graph).unwrap();
            let ends = [graph.inputs[0].value, graph.outputs[0].value];
            assert_eq!(ends.map(|v| graph.value(v).dtype), [wanted; 2], "{ports:?}");
            let inner = graph.nodes.iter().find(|n| n.name == "relu").unwrap();
            assert!(!ends.contains(&inner.inputs[0]) && !ends.contains(&inner.outputs[0]));
            assert_eq!(graph.value(inner.outputs[0]).dtype, DType::F16);
        }
    }

    /// A picture cut into patches, which are copied side by side; and two parts that are joined and given as a result.
    fn looked_at() -> Graph {
        let mut graph = Graph::default();
        let shape = |dims: &[u32]| Shape::new(dims).unwrap();
        let copy = |name: &str, graph: &mut Graph, from, dims: &[u32]| {
            let to = graph.add_value(name, DType::F32, shape(dims));
            graph.add_node(name, Op::Primitive(Primitive::Copy), vec![from], vec![to]);
            to
        };
        let x = graph.add_value("x", DType::F32, shape(&[1, 2, 4]));
        let cut = graph.add_value("cut", DType::F32, shape(&[2, 2, 2]));
        graph.add_node("cut", Op::View(ViewOp::Reshape), vec![x], vec![cut]);
        let turned = graph.add_value("turned", DType::F32, shape(&[2, 2, 2]));
        graph.add_node(
            "turned",
            Op::View(ViewOp::Transpose { perm: vec![1, 0, 2] }),
            vec![cut],
            vec![turned],
        );
        let patches = copy("patches", &mut graph, turned, &[2, 2, 2]);
        let relu = graph.add_value("relu", DType::F32, shape(&[2, 2, 2]));
        graph.add_node("relu", Op::Primitive(Primitive::Unary(Unary::Relu)), vec![patches], vec![relu]);
        let joined = graph.add_value("joined", DType::F32, shape(&[4, 2, 2]));
        graph.add_node("joined", Op::Concat { axis: 0 }, vec![relu, patches], vec![joined]);
        graph.inputs.push(port("x", x));
        graph.outputs.push(port("joined", joined));
        graph
    }

    #[test]
    fn half_ports_are_read_and_written_without_copies_that_leave_nothing_free() {
        let names = |graph: &Graph| graph.nodes.iter().map(|n| n.name.clone()).collect::<Vec<_>>();
        let declared = convert(attach::tensors(looked_at()), Ports::Declared).graph;
        assert_eq!(
            names(&declared),
            ["x.f16", "cut", "turned", "patches", "relu", "joined", "joined.f32"]
        );
        let half = convert(attach::tensors(looked_at()), Ports::Half).graph;
        verify(&half).unwrap();
        assert_eq!(names(&half), ["cut", "turned", "patches", "relu", "joined"]);
        assert_eq!(half.value(half.inputs[0].value).dtype, DType::F16);
        // What a function reads may be wanted in another layout; and what is a result twice lies in two places.
        let mut used = looked_at();
        used.nodes[2].op = Op::Primitive(Primitive::Unary(Unary::Relu));
        assert!(names(&convert(attach::tensors(used), Ports::Half).graph).contains(&"x.f16".to_string()));
        let mut twice = looked_at();
        let again = Named {
            name: "again".into(),
            ..twice.outputs[0].clone()
        };
        twice.outputs.push(again);
        let twice = convert(attach::tensors(twice), Ports::Half).graph;
        verify(&twice).unwrap();
        assert_eq!(names(&twice).iter().filter(|n| n.ends_with(".f32")).count(), 2);
    }
}
