//! Convolutions of one input whose output channels one convolution can compute: what makes them so, and their weights as one.

use super::fold_batchnorm::{plain_bias, plain_weights};
use super::rewrite::Index;
use crate::plan::tactic::pictures;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Primitive, Window};
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// A convolution of all channels of a picture with constant weights in f32.
pub struct Layer {
    /// Its node.
    pub node: usize,
    /// What it reads.
    pub input: ValueId,
    window: Window,
    /// `[outputs, inputs, taps]`.
    weights: Tensor,
    bias: Option<Vec<f32>>,
}

impl Layer {
    /// The convolution that `node` is. First layers, which read pictures as they come, are none.
    pub fn of(graph: &Graph, index: &Index, node: usize) -> Option<Layer> {
        let it = &graph.nodes[node];
        let Op::Primitive(primitive @ Primitive::Conv { window, groups: 1 }) = it.op else {
            return None;
        };
        let shape = graph.value(it.inputs[0]).shape;
        if shape.rank() != 4 || shape.dim(1) <= pictures::MAX_CHANNELS {
            return None;
        }
        let weights = plain_weights(graph, index, it, &primitive).filter(|w| w.dtype() == DType::F32)?;
        Some(Layer {
            node,
            input: it.inputs[0],
            window,
            weights,
            bias: plain_bias(graph, index, it, &primitive)?,
        })
    }

    /// Its output channels.
    pub fn channels(&self) -> u32 {
        self.weights.shape().dim(0)
    }

    /// True if both slide the same window over the same picture.
    pub fn beside(&self, other: &Layer) -> bool {
        self.input == other.input && self.window == other.window
    }

    /// The weights of an output channel.
    fn row(&self, channel: usize) -> Option<&[f32]> {
        let rows = self.weights.shape().dim(0) as usize;
        let length = self.weights.len().checked_div(rows)?;
        self.weights.as_f32()?.get(channel * length..(channel + 1) * length)
    }
}

/// What one convolution of all `layers`, which lie beside each other, reads: the picture, its weights and its bias, if any has one.
/// Its output channels are those of `channels`: a layer's number and its channel, or none, which is 0 everywhere.
pub fn stacked(graph: &mut Graph, name: &str, layers: &[&Layer], channels: &[Option<(usize, usize)>]) -> Option<Vec<ValueId>> {
    let first = layers.first()?;
    let shape = first.weights.shape().with_dim(0, u32::try_from(channels.len()).ok()?)?;
    let zeros = vec![0.0; first.row(0)?.len()];
    let mut weights = Vec::with_capacity(usize::try_from(shape.elements()).ok()?);
    let mut biases = Vec::with_capacity(channels.len());
    for channel in channels {
        match *channel {
            Some((layer, channel)) => {
                weights.extend_from_slice(layers[layer].row(channel)?);
                biases.push(layers[layer].bias.as_ref().map_or(0.0, |bias| bias[channel]));
            }
            None => {
                weights.extend_from_slice(&zeros);
                biases.push(0.0);
            }
        }
    }
    let weights = Tensor::new(shape, Data::F32(weights))?;
    let mut read = vec![first.input, graph.add_constant(format!("{name}.weights"), Arc::new(weights))];
    if layers.iter().any(|layer| layer.bias.is_some()) {
        let bias = Tensor::new(Shape::new(&[channels.len() as u32])?, Data::F32(biases))?;
        read.push(graph.add_constant(format!("{name}.bias"), Arc::new(bias)));
    }
    Some(read)
}
