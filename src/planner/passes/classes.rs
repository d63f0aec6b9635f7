//! Convolutions to a result, such as a picture's classes, of channels that fill no whole pieces of 16 bytes get channels of zeros behind
//! them, and the result is a view of its own: each channel is computed as before, stores are whole pieces, and the result's conversion
//! turns channels into planes however far apart pixels lie.

use super::fold_batchnorm::{plain_bias, plain_weights};
use super::rewrite::{Index, at_each_node, zeros_behind};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::Primitive;
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// Channels of a piece: 16 bytes of f16.
const PIECE: u32 = 8;
/// Least elements of a result whose stores are worth it.
const LARGE: u64 = 1 << 16;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A convolution and the functions of its channels, the last of which makes a result.
struct Found {
    chain: Vec<usize>,
    weights: Tensor,
    bias: Option<Vec<f32>>,
    /// The weights' axis of output channels.
    axis: usize,
}

fn find(graph: &Graph, index: &Index, first: usize) -> Option<Found> {
    let node = &graph.nodes[first];
    let Op::Primitive(primitive) = &node.op else { return None };
    let axis = match primitive {
        Primitive::Conv { groups: 1, .. } => 0,
        Primitive::ConvTranspose { groups: 1, .. } => 1,
        _ => return None,
    };
    let shape = graph.value(*node.outputs.first()?).shape;
    let ragged = shape.rank() == 4 && shape.dim(1) > PIECE && !shape.dim(1).is_multiple_of(PIECE);
    if !ragged || shape.elements() < LARGE {
        return None;
    }
    let mut chain = vec![first];
    let mut made = node.outputs[0];
    while index.uses[made.index()] == 1 && !graph.is_result(made) {
        let reader = graph.nodes.iter().position(|n| n.inputs.contains(&made))?;
        if !matches!(graph.nodes[reader].op, Op::Primitive(Primitive::Unary(_))) {
            return None;
        }
        chain.push(reader);
        made = graph.nodes[reader].outputs[0];
    }
    if index.uses[made.index()] != 1 {
        return None;
    }
    Some(Found {
        chain,
        weights: plain_weights(graph, index, node, primitive).filter(|w| w.dtype() == DType::F32)?,
        bias: plain_bias(graph, index, node, primitive)?,
        axis,
    })
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { chain, axis, .. } = &found;
    let (first, last) = (chain[0], chain[chain.len() - 1]);
    let result = graph.nodes[last].outputs[0];
    let name = graph.nodes[first].name.clone();
    let shape = graph.value(result).shape;
    let channels = shape.dim(1).next_multiple_of(PIECE);
    let (Some(whole), Some(weights), Some(row)) = (
        shape.with_dim(1, channels),
        widened(&found.weights, *axis, channels),
        Shape::new(&[channels]),
    ) else {
        return;
    };
    let mut inputs = vec![
        graph.nodes[first].inputs[0],
        graph.add_constant(format!("{name}.weights"), Arc::new(weights)),
    ];
    if let Some(mut bias) = found.bias.clone() {
        bias.resize(channels as usize, 0.0);
        let Some(bias) = Tensor::new(row, Data::F32(bias)) else { return };
        inputs.push(graph.add_constant(format!("{name}.bias"), Arc::new(bias)));
    }
    graph.nodes[first].inputs = inputs;
    let mut made: Option<ValueId> = None;
    for &node in chain {
        if let Some(made) = made {
            graph.nodes[node].inputs = vec![made];
        }
        let dtype = graph.value(graph.nodes[node].outputs[0]).dtype;
        let output = graph.add_value(format!("{}.whole", graph.nodes[node].name), dtype, whole);
        graph.nodes[node].outputs = vec![output];
        made = Some(output);
    }
    let view = Node {
        name: format!("{name}.own"),
        op: Op::View(ViewOp::band(4, 1, 0)),
        inputs: made.into_iter().collect(),
        outputs: vec![result],
    };
    graph.nodes.insert(last + 1, view);
}

/// The weights with zeros behind their output channels along `axis`.
fn widened(weights: &Tensor, axis: usize, channels: u32) -> Option<Tensor> {
    let (from, to) = (weights.shape(), weights.shape().with_dim(axis, channels)?);
    let inner = |shape: Shape| shape.dims()[axis..].iter().map(|&extent| extent as usize).product::<usize>();
    Tensor::new(to, Data::F32(zeros_behind(weights.as_f32()?, inner(from), inner(to))))
}
