//! Convolutions of channels that fill no whole pieces of 16 bytes, to a result, such as a picture's classes, or to what reads whole pixels,
//! get channels of zeros behind them, and what was made is a view of its own: each channel is computed as before, and stores are whole
//! pieces. A result's conversion turns channels into planes however far apart pixels lie, and convolutions multiply the zeros by zeros, so
//! that kernels find whole pieces where they read, too.

use super::fold_batchnorm::{plain_bias, plain_weights};
use super::rewrite::{Index, at_each_node, zeros_behind};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive, Unary};
use crate::tensor::{DType, Data, Shape, Tensor};
use half::f16;
use std::sync::Arc;

/// Channels of a piece: 16 bytes of f16.
const PIECE: u32 = 8;
/// Least channels that are worth a piece.
const FEW: u32 = 5;
/// Least elements of a tensor whose stores are worth it.
const LARGE: u64 = 1 << 16;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A convolution and the functions of its channels.
struct Found {
    first: usize,
    functions: Vec<Function>,
    weights: Tensor,
    bias: Option<Vec<f32>>,
    /// The weights' axis of output channels.
    axis: usize,
    /// Convolutions that read the channels of zeros, too: their weights, and the axis of input channels.
    readers: Vec<(usize, Tensor, usize)>,
}

/// A function behind a convolution.
struct Function {
    node: usize,
    /// Of a binary one, the place of its constant among the inputs, and what that is in each channel.
    constant: Option<(usize, Vec<f32>)>,
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
    let ragged = shape.rank() == 4 && shape.dim(1) >= FEW && !shape.dim(1).is_multiple_of(PIECE);
    if !ragged || shape.elements() < LARGE {
        return None;
    }
    let mut functions = Vec::new();
    let mut made = node.outputs[0];
    while index.uses[made.index()] == 1
        && !graph.is_result(made)
        && let Some(function) = function(graph, index, made)
    {
        made = graph.nodes[function.node].outputs[0];
        functions.push(function);
    }
    let alone = index.uses[made.index()] == 1 && graph.is_result(made);
    if !alone && (graph.is_result(made) || !is_read_as_pixels(graph, made)) {
        return None;
    }
    let readers = (0..graph.nodes.len()).filter(|&n| !alone && graph.nodes[n].inputs.contains(&made));
    Some(Found {
        readers: readers.filter_map(|n| widens(graph, index, n)).collect(),
        first,
        functions,
        weights: plain_weights(graph, index, node, primitive).filter(|w| w.dtype() == DType::F32)?,
        bias: plain_bias(graph, index, node, primitive)?,
        axis,
    })
}

/// The function of single channels that reads a value.
fn function(graph: &Graph, index: &Index, made: ValueId) -> Option<Function> {
    let node = graph.nodes.iter().position(|n| n.inputs.contains(&made))?;
    let constant = match (&graph.nodes[node].op, graph.nodes[node].inputs.as_slice()) {
        (Op::Primitive(Primitive::Unary(function)), _) if keeps_zeros_finite(*function) => None,
        (Op::Primitive(Primitive::Binary(Binary::Add | Binary::Sub | Binary::Mul)), &[a, b]) if b == made => {
            Some((0, of_channels(graph, index, a)?))
        }
        (Op::Primitive(Primitive::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::PRelu)), &[a, b]) if a == made => {
            Some((1, of_channels(graph, index, b)?))
        }
        _ => return None,
    };
    Some(Function { node, constant })
}

/// False for functions that make of zeros what times zero is no zero.
fn keeps_zeros_finite(function: Unary) -> bool {
    match function {
        Unary::Log => false,
        Unary::Clip(low, high) => 0f32.max(low.0).min(high.0).abs() <= f16::MAX.to_f32(),
        _ => true,
    }
}

/// What a constant is in each channel of a picture, if it is the same all over it.
fn of_channels(graph: &Graph, index: &Index, value: ValueId) -> Option<Vec<f32>> {
    let it = graph.value(value);
    let each = strided::along(graph, &index.producers, value, 1).filter(|_| it.shape.rank() == 4 && it.dtype == DType::F32)?;
    Some(each.into_iter().map(|x| x as f32).collect())
}

/// The weights of a convolution that may get more input channels, and the axis of these.
fn widens(graph: &Graph, index: &Index, node: usize) -> Option<(usize, Tensor, usize)> {
    let it = &graph.nodes[node];
    let Op::Primitive(primitive) = &it.op else { return None };
    let axis = match primitive {
        Primitive::Conv { groups: 1, .. } => 1,
        Primitive::ConvTranspose { groups: 1, .. } => 0,
        _ => return None,
    };
    let weights = plain_weights(graph, index, it, primitive).filter(|w| w.dtype() == DType::F32)?;
    Some((node, weights, axis))
}

/// True if all that reads a value are windows over its pixels.
fn is_read_as_pixels(graph: &Graph, value: ValueId) -> bool {
    let windows = |p: &Primitive| {
        matches!(
            p,
            Primitive::Conv { groups: 1, .. } | Primitive::ConvTranspose { groups: 1, .. } | Primitive::Pool { .. } | Primitive::Resize(_)
        )
    };
    let mut readers = graph.nodes.iter().filter(|n| n.inputs.contains(&value)).peekable();
    readers.peek().is_some()
        && readers.all(|n| matches!(&n.op, Op::Primitive(p) if windows(p)) && n.inputs.iter().skip(1).all(|&v| v != value))
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { first, axis, .. } = found;
    let last = found.functions.last().map_or(first, |f| f.node);
    let result = graph.nodes[last].outputs[0];
    let name = graph.nodes[first].name.clone();
    let shape = graph.value(result).shape;
    let channels = shape.dim(1).next_multiple_of(PIECE);
    let (Some(whole), Some(weights), Some(row), Some(column)) = (
        shape.with_dim(1, channels),
        widened(&found.weights, axis, channels),
        Shape::new(&[channels]),
        Shape::new(&[1, channels, 1, 1]),
    ) else {
        return;
    };
    let zeros_behind = |mut values: Vec<f32>, shape: Shape| {
        values.resize(channels as usize, 0.0);
        Tensor::new(shape, Data::F32(values)).map(Arc::new)
    };
    let bias = found.bias.and_then(|bias| zeros_behind(bias, row));
    let operands: Vec<_> = found
        .functions
        .into_iter()
        .map(|f| {
            let constant = f.constant.and_then(|(place, values)| Some((place, zeros_behind(values, column)?)));
            (f.node, constant)
        })
        .collect();
    let mut inputs = vec![
        graph.nodes[first].inputs[0],
        graph.add_constant(format!("{name}.weights"), Arc::new(weights)),
    ];
    inputs.extend(bias.map(|bias| graph.add_constant(format!("{name}.bias"), bias)));
    graph.nodes[first].inputs = inputs;
    let mut repeated = Vec::new();
    let mut made = widen_output(graph, first, whole);
    for (node, constant) in operands {
        let mut inputs = vec![made];
        if let Some((place, constant)) = constant {
            let name = format!("{}.constant", graph.nodes[node].name);
            let (dtype, own) = (constant.dtype(), graph.add_constant(name.clone(), constant));
            let spread = graph.add_value(format!("{name}.spread"), dtype, whole);
            repeated.push((
                node,
                Node {
                    name,
                    op: Op::View(ViewOp::Broadcast),
                    inputs: vec![own],
                    outputs: vec![spread],
                },
            ));
            inputs.insert(place, spread);
        }
        graph.nodes[node].inputs = inputs;
        made = widen_output(graph, node, whole);
    }
    for (reader, weights, axis) in found.readers {
        if let Some(weights) = widened(&weights, axis, channels) {
            let weights = graph.add_constant(format!("{}.weights", graph.nodes[reader].name), Arc::new(weights));
            graph.nodes[reader].inputs[..2].copy_from_slice(&[made, weights]);
        }
    }
    let view = Node {
        name: format!("{name}.own"),
        op: Op::View(ViewOp::band(4, 1, 0)),
        inputs: vec![made],
        outputs: vec![result],
    };
    graph.nodes.insert(last + 1, view);
    for (node, view) in repeated.into_iter().rev() {
        graph.nodes.insert(node, view);
    }
}

/// Lets a node make all of a shape.
fn widen_output(graph: &mut Graph, node: usize, whole: Shape) -> ValueId {
    let dtype = graph.value(graph.nodes[node].outputs[0]).dtype;
    let output = graph.add_value(format!("{}.whole", graph.nodes[node].name), dtype, whole);
    graph.nodes[node].outputs = vec![output];
    output
}

/// The weights with zeros behind their channels along `axis`.
fn widened(weights: &Tensor, axis: usize, channels: u32) -> Option<Tensor> {
    let (from, to) = (weights.shape(), weights.shape().with_dim(axis, channels)?);
    let inner = |shape: Shape| shape.dims()[axis..].iter().map(|&extent| extent as usize).product::<usize>();
    Tensor::new(to, Data::F32(zeros_behind(weights.as_f32()?, inner(from), inner(to))))
}
