//! Single-precision activations and weights: every f16 value inside a network becomes f32, converted at its borders.
//!
//! A network that was exported in f16 is so computed by the kernels of the type that plans are asked for; tensor inputs and
//! results keep the type that ONNX declares. What the file rounds to f16 on its way stays as exact as f32 is.

use super::graph::{Graph, Node, ValueId};
use crate::tensor::{DType, Data, Tensor};
use std::sync::Arc;

/// Converts the network.
pub fn convert(mut graph: Graph) -> Graph {
    if graph.values.iter().all(|v| v.dtype != DType::F16) {
        return graph;
    }
    let inputs: Vec<(String, ValueId)> = graph.inputs.iter().map(|n| (n.name.clone(), n.value)).collect();
    let halves = |graph: &Graph, value: ValueId| graph.value(value).dtype == DType::F16;
    let mut conversions = Vec::new();
    let outputs: Vec<bool> = graph.outputs.iter().map(|n| halves(&graph, n.value)).collect();
    for (name, value) in inputs {
        if !halves(&graph, value) {
            continue;
        }
        let name = format!("{name}.f32");
        let inner = graph.add_value(name.clone(), DType::F32, graph.value(value).shape);
        super::passes::replace(&mut graph, value, inner);
        conversions.push(Node::copy(name, value, inner));
    }
    let border: Vec<ValueId> = graph.inputs.iter().map(|n| n.value).collect();
    for (index, value) in graph.values.iter_mut().enumerate() {
        if value.dtype == DType::F16 && !border.iter().any(|v| v.index() == index) {
            value.dtype = DType::F32;
            if let Some(data) = value.data.as_deref() {
                value.data = widened(data).map(Arc::new);
            }
        }
    }
    graph.nodes.splice(0..0, conversions);
    for (index, &half) in outputs.iter().enumerate() {
        if half {
            let (name, value) = (format!("{}.f16", graph.outputs[index].name), graph.outputs[index].value);
            let outer = graph.add_value(name.clone(), DType::F16, graph.value(value).shape);
            graph.nodes.push(Node::copy(name, value, outer));
            graph.outputs[index].value = outer;
        }
    }
    graph
}

fn widened(tensor: &Tensor) -> Option<Tensor> {
    let Data::F16(elements) = tensor.data() else {
        return None;
    };
    Tensor::new(tensor.shape(), Data::F32(elements.iter().map(|x| x.to_f32()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::graph::{Named, Op, verify};
    use crate::primitive::{Binary, Primitive};
    use crate::tensor::Shape;
    use half::f16;

    #[test]
    fn halves_inside_become_single_and_ports_stay() {
        let mut graph = Graph::default();
        let shape = Shape::new(&[2]).unwrap();
        let weights = Tensor::new(shape, Data::F16(vec![f16::from_f32(0.5), f16::from_f32(-2.0)])).unwrap();
        let (x, y) = (graph.add_value("x", DType::F16, shape), graph.add_value("y", DType::F16, shape));
        let w = graph.add_constant("w", Arc::new(weights));
        graph.add_node("mul", Op::Primitive(Primitive::Binary(Binary::Mul)), vec![x, w], vec![y]);
        let port = |name: &str, value| Named {
            name: name.into(),
            value,
            widened: false,
        };
        graph.inputs.push(port("x", x));
        // The input is a result too, and so is what the function makes.
        graph.outputs.extend([port("y", y), port("same", x)]);
        let graph = convert(graph);
        verify(&graph).unwrap();
        let types: Vec<DType> = graph
            .inputs
            .iter()
            .chain(&graph.outputs)
            .map(|n| graph.value(n.value).dtype)
            .collect();
        assert_eq!(types, [DType::F16; 3]);
        let mul = graph.nodes.iter().find(|n| n.name == "mul").unwrap();
        assert!(mul.inputs.iter().chain(&mul.outputs).all(|v| graph.value(*v).dtype == DType::F32));
        assert_eq!(graph.value(w).data.as_deref().unwrap().as_f32(), Some(&[0.5, -2.0][..]));
    }
}
