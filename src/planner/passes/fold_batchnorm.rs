//! Per-channel constants after a convolution or a matrix product (batch normalisation as the importer writes it, or plain
//! scales and shifts) move into its weights and bias.
//!
//! Exact but for rounding: `(sum w x + b) * s + t = sum (w s) x + (b s + t)`. The window's padding does not matter, for
//! what is folded follows the sum. Nor do views between them that leave the channels an axis of their own.

use super::rewrite::{Index, replace};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive};
use crate::tensor::{DType, Data, Shape, Tensor};
use half::f16;
use std::sync::Arc;

pub fn run(graph: &mut Graph) {
    // Folding one node makes the next one of a chain a follower of the product, so the search goes on where it stopped.
    let mut from = 0;
    loop {
        let index = Index::of(graph);
        let Some(fold) = (from..graph.nodes.len()).find_map(|node| find(graph, &index, node)) else {
            break;
        };
        from = fold.product;
        apply(graph, &fold);
    }
}

/// `product`'s result times `scale` plus `shift` is what `follower` computes.
struct Fold {
    product: usize,
    follower: usize,
    /// What the follower reads: the product's result, or a view of it.
    read: ValueId,
    scale: Option<Vec<f32>>,
    shift: Option<Vec<f32>>,
    weights: Tensor,
    bias: Option<Vec<f32>>,
}

fn find(graph: &Graph, index: &Index, follower: usize) -> Option<Fold> {
    let Op::Primitive(Primitive::Binary(kind)) = graph.nodes[follower].op else {
        return None;
    };
    if !matches!(kind, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div) {
        return None;
    }
    let (a, b) = (graph.nodes[follower].inputs[0], graph.nodes[follower].inputs[1]);
    let commutes = matches!(kind, Binary::Add | Binary::Mul);
    [(a, b), (b, a)]
        .into_iter()
        .take(if commutes { 2 } else { 1 })
        .find_map(|(read, other)| {
            let (product, primitive, seen) = product_behind(graph, index, read)?;
            let values = per_channel(graph, index, other, seen)?;
            let (scale, shift) = match kind {
                Binary::Mul => (Some(values), None),
                Binary::Div => (Some(values.iter().map(|v| 1.0 / v).collect()), None),
                Binary::Sub => (None, Some(values.iter().map(|v| -v).collect())),
                _ => (None, Some(values)),
            };
            let node = &graph.nodes[product];
            let weights = plain_weights(graph, index, node, primitive)?;
            let bias = plain_bias(graph, index, node, primitive)?;
            Some(Fold {
                product,
                follower,
                read,
                scale,
                shift,
                weights,
                bias,
            })
        })
}

/// The axis of a product's channels in its result.
fn channels(graph: &Graph, node: &Node, primitive: &Primitive) -> Option<usize> {
    match primitive {
        Primitive::Conv { .. } | Primitive::ConvTranspose { .. } => Some(1),
        Primitive::MatMul => graph.value(node.outputs[0]).shape.rank().checked_sub(1),
        _ => None,
    }
}

/// The product whose result `value` is, or looks at through views, all of them read once; and the axis of its channels in `value`.
fn product_behind<'g>(graph: &'g Graph, index: &Index, value: ValueId) -> Option<(usize, &'g Primitive, usize)> {
    if index.uses[value.index()] != 1 {
        return None;
    }
    let producer = index.producers[value.index()]?;
    let node = &graph.nodes[producer];
    let view = match &node.op {
        Op::Primitive(primitive) => return Some((producer, primitive, channels(graph, node, primitive)?)),
        Op::View(view) => view,
        Op::Concat { .. } => return None,
    };
    let (product, primitive, axis) = product_behind(graph, index, node.inputs[0])?;
    let (from, to) = (graph.value(node.inputs[0]).shape, graph.value(value).shape);
    let seen = match view {
        ViewOp::Transpose { perm } => perm.iter().position(|&a| a == axis)?,
        ViewOp::Reshape => {
            // An axis of its own has as many elements before it, and as many positions.
            let before = |shape: Shape, a: usize| shape.dims()[..a].iter().map(|&d| u64::from(d)).product::<u64>();
            (0..to.rank()).find(|&a| to.dim(a) == from.dim(axis) && before(to, a) == before(from, axis))?
        }
        _ => return None,
    };
    Some((product, primitive, seen))
}

/// The product's constant weights, elements in C order; for a matrix product the one `[K,N]` matrix all samples share.
pub(super) fn plain_weights(graph: &Graph, index: &Index, node: &Node, primitive: &Primitive) -> Option<Tensor> {
    let (tensor, at) = strided::constant(graph, &index.producers, node.inputs[1])?;
    let weights = strided::gather(&tensor, &matrix(&at, primitive)?)?;
    weights.dtype().is_float().then_some(weights)
}

/// The product's constant bias, one value a channel, if it has a bias; `None` if that is not constant.
pub(super) fn plain_bias(graph: &Graph, index: &Index, node: &Node, primitive: &Primitive) -> Option<Option<Vec<f32>>> {
    let Some(&bias) = node.inputs.get(2) else {
        return Some(None);
    };
    let axis = match primitive {
        Primitive::MatMul => channels(graph, node, primitive)?,
        _ => 0,
    };
    per_channel(graph, index, bias, axis).map(Some)
}

/// For a matrix product, the last two axes of a look whose leading axes only repeat; for convolutions the look itself.
fn matrix(at: &strided::Strided, primitive: &Primitive) -> Option<strided::Strided> {
    if *primitive != Primitive::MatMul {
        return Some(*at);
    }
    let (shape, rank) = (at.layout.shape, at.layout.shape.rank());
    if (0..rank - 2).any(|a| shape.dim(a) > 1 && at.layout.stride(a) != 0) {
        return None;
    }
    let two = Shape::new(&shape.dims()[rank - 2..])?;
    Some(strided::Strided {
        origin: at.origin,
        layout: crate::tensor::Layout::new(two, &at.layout.strides()[rank - 2..])?,
    })
}

/// The values of a constant that varies along `axis` alone.
pub(super) fn per_channel(graph: &Graph, index: &Index, value: ValueId, axis: usize) -> Option<Vec<f32>> {
    let (tensor, _) = strided::constant(graph, &index.producers, value)?;
    let numbers = strided::along(graph, &index.producers, value, axis).filter(|_| tensor.dtype().is_float())?;
    Some(numbers.into_iter().map(|n| n as f32).collect())
}

fn apply(graph: &mut Graph, fold: &Fold) {
    let Op::Primitive(primitive) = graph.nodes[fold.product].op else {
        return;
    };
    let made = graph.nodes[fold.product].outputs[0];
    let follower = graph.nodes.remove(fold.follower);
    replace(graph, follower.outputs[0], fold.read);
    let name = graph.nodes[fold.product].name.clone();
    let mut inputs = graph.nodes[fold.product].inputs[..2].to_vec();
    // Views that repeat a new constant go right before the product.
    let mut views = Vec::new();
    if let Some(scale) = &fold.scale {
        let base = graph.add_constant(format!("{name}.weights"), Arc::new(scaled(&fold.weights, &primitive, scale)));
        let shape = graph.values[inputs[1].index()].shape;
        inputs[1] = repeated(
            graph,
            &mut views,
            base,
            if primitive == Primitive::MatMul {
                shape
            } else {
                fold.weights.shape()
            },
        );
    }
    if let Some(bias) = fold.bias() {
        let tensor = Shape::new(&[bias.len() as u32]).and_then(|s| floats(fold.weights.dtype(), s, bias));
        if let Some(tensor) = tensor {
            let channels = tensor.shape();
            let base = graph.add_constant(format!("{name}.bias"), Arc::new(tensor));
            let whole = graph.values[made.index()].shape;
            inputs.push(repeated(
                graph,
                &mut views,
                base,
                if primitive == Primitive::MatMul { whole } else { channels },
            ));
        }
    }
    graph.nodes[fold.product].inputs = inputs;
    graph.nodes.splice(fold.product..fold.product, views);
}

impl Fold {
    /// The product's bias after folding, one value a channel; `None` if it needs none.
    fn bias(&self) -> Option<Vec<f32>> {
        let mut bias = match (&self.bias, &self.shift) {
            (Some(bias), _) => bias.clone(),
            (None, Some(shift)) => vec![0.0; shift.len()],
            (None, None) => return None,
        };
        for (channel, value) in bias.iter_mut().enumerate() {
            *value *= self.scale.as_ref().map_or(1.0, |s| s[channel]);
            *value += self.shift.as_ref().map_or(0.0, |t| t[channel]);
        }
        Some(bias)
    }
}

/// `base` repeated to `shape` by a view added to `views`, or `base` itself if it has that shape.
pub(super) fn repeated(graph: &mut Graph, views: &mut Vec<Node>, base: ValueId, shape: Shape) -> ValueId {
    viewed(graph, views, base, shape, ViewOp::Broadcast, "repeated")
}

/// A value under another shape, unless it has it already: the node that views it so goes to `views`.
pub(super) fn viewed(graph: &mut Graph, views: &mut Vec<Node>, base: ValueId, shape: Shape, view: ViewOp, what: &str) -> ValueId {
    if graph.values[base.index()].shape == shape {
        return base;
    }
    let name = format!("{}.{what}", graph.value(base).name);
    let output = graph.add_value(name.clone(), graph.value(base).dtype, shape);
    views.push(Node {
        name,
        op: Op::View(view),
        inputs: vec![base],
        outputs: vec![output],
    });
    output
}

/// The weights with each output channel's elements multiplied by its scale, rounded to the weights' type.
fn scaled(weights: &Tensor, primitive: &Primitive, scale: &[f32]) -> Tensor {
    let shape = weights.shape();
    let per_first = (weights.len() / (shape.dim(0).max(1) as usize)).max(1);
    let channel = |i: usize| match primitive {
        // `[C, O/g, k..]`: the group of the input channel, then the channel inside the group.
        Primitive::ConvTranspose { groups, .. } => {
            let (inputs, outputs) = (shape.dim(0) as usize, shape.dim(1) as usize);
            let group = i / per_first / (inputs / *groups as usize).max(1);
            group * outputs + i % per_first / (per_first / outputs.max(1)).max(1)
        }
        Primitive::MatMul => i % (shape.dim(1).max(1) as usize),
        _ => i / per_first,
    };
    let elements = (0..weights.len()).map(|i| weights.get_f64(i).unwrap_or(0.0) as f32 * scale[channel(i)]);
    floats(weights.dtype(), shape, elements.collect()).unwrap_or_else(|| weights.clone())
}

/// Elements rounded to `dtype`.
pub(super) fn floats(dtype: DType, shape: Shape, elements: Vec<f32>) -> Option<Tensor> {
    let data = match dtype {
        DType::F16 => Data::F16(elements.into_iter().map(f16::from_f32).collect()),
        _ => Data::F32(elements),
    };
    Tensor::new(shape, data)
}
