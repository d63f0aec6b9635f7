//! Nodes whose inputs are all constant become constants, so that the board never computes them.

use crate::backend::cpu::eval::eval;
use crate::planner::graph::{Graph, Node, Op, ViewOp};
use crate::planner::strided::{self, Strided};
use crate::primitive::Primitive;
use crate::tensor::{Layout, Tensor};
use std::sync::Arc;

/// Elements above which a result is left to the board, unless a constant that it is made of has as many: a file of weights should
/// not grow by what one operator can make.
const LARGEST: u64 = 1 << 22;
/// The same of what looks at many elements for each of its own, as a positional encoding that is resized by cubics: reading its result
/// takes the board a fraction of what computing it does.
const LARGEST_OF_MANY: u64 = 1 << 24;

pub fn run(graph: &mut Graph) {
    let producers = strided::producers(graph);
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let given = node.inputs.iter().filter_map(|&v| strided::constant(graph, &producers, v));
        let most = given.map(|(tensor, _)| tensor.len() as u64).fold(largest(&node.op), u64::max);
        let small = node.outputs.iter().all(|v| graph.values[v.index()].shape.elements() <= most);
        // Repeating is free as strides and costs memory as data; a pool's indices are rare enough to compute.
        let repeats = matches!(node.op, Op::View(ViewOp::Broadcast));
        if !small || repeats {
            continue;
        }
        if let Some(results) = evaluate(graph, node, &producers) {
            let outputs = node.outputs.clone();
            for (value, tensor) in outputs.iter().zip(results) {
                graph.values[value.index()].data = Some(Arc::new(tensor));
            }
        }
    }
    graph
        .nodes
        .retain(|n| n.outputs.iter().any(|v| graph.values[v.index()].data.is_none()));
}

/// Elements up to which an operator's result becomes a constant.
fn largest(op: &Op) -> u64 {
    match op {
        Op::Primitive(
            Primitive::Conv { .. }
            | Primitive::ConvTranspose { .. }
            | Primitive::MatMul
            | Primitive::Pool { .. }
            | Primitive::Softmax { .. }
            | Primitive::Normalise { .. }
            | Primitive::Attention { .. }
            | Primitive::Resize(_),
        ) => LARGEST_OF_MANY,
        _ => LARGEST,
    }
}

/// The node's outputs, if its inputs are constants and it can be computed.
fn evaluate(graph: &Graph, node: &Node, producers: &[Option<usize>]) -> Option<Vec<Tensor>> {
    let known = |v: &crate::planner::graph::ValueId| {
        let (tensor, at) = strided::constant(graph, producers, *v)?;
        strided::gather(&tensor, &at)
    };
    let inputs: Vec<Tensor> = node.inputs.iter().map(known).collect::<Option<_>>()?;
    let shape = |i: usize| graph.values[node.outputs[i].index()].shape;
    match &node.op {
        Op::View(view) => {
            let whole = Strided::whole(Layout::contiguous(inputs.first()?.shape()));
            Some(vec![strided::gather(&inputs[0], &whole.view(view, shape(0))?)?])
        }
        Op::Concat { axis } => Some(vec![joined(&inputs, *axis, shape(0))?]),
        Op::Primitive(primitive) => {
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            let outputs: Vec<_> = node
                .outputs
                .iter()
                .map(|v| (graph.values[v.index()].dtype, graph.values[v.index()].shape))
                .collect();
            eval(primitive, &inputs, &outputs).ok()
        }
    }
}

/// The parts side by side along `axis`.
fn joined(parts: &[Tensor], axis: usize, shape: crate::tensor::Shape) -> Option<Tensor> {
    let outer: usize = shape.dims()[..axis].iter().map(|&d| d as usize).product();
    let mut bytes = Vec::new();
    for row in 0..outer {
        for part in parts {
            let width = part.bytes().len() / outer;
            bytes.extend_from_slice(&part.bytes()[row * width..(row + 1) * width]);
        }
    }
    Tensor::from_bytes(parts.first()?.dtype(), shape, &bytes)
}
