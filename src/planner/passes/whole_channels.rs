//! Channels that fill no whole pieces of 16 bytes, of pictures that convolutions make, get channels of zeros behind them: a picture's classes, or what
//! lies between convolutions, as pruned networks have it. Each channel is computed as before. Loads and stores are whole pieces then; convolutions multiply what the
//! channels behind have become by zeros. A result, and what a pool or a resize reads, is a view of its own channels, however far apart pixels lie.

mod regions;

use super::rewrite::{Index, zeros_behind};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::Primitive;
use crate::tensor::{Data, Shape, Tensor};
use regions::{Constant, Regions, Role};
use std::sync::Arc;

/// Channels of a piece: 16 bytes of f16.
const PIECE: u32 = 8;

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    let regions = Regions::of(graph, &index);
    if regions.is_empty() {
        return;
    }
    let mut widened = Widened::of(graph, &regions);
    for (node, role) in std::mem::take(&mut graph.nodes).into_iter().zip(&regions.roles) {
        widened.node(graph, node, role);
    }
    graph.nodes = widened.nodes;
    super::drop_dead::run(graph);
}

/// What a graph becomes.
struct Widened {
    /// Of each value of before the one with channels behind, if it gets some.
    whole: Vec<Option<ValueId>>,
    nodes: Vec<Node>,
}

impl Widened {
    fn of(graph: &mut Graph, regions: &Regions) -> Widened {
        let mut whole = vec![None; graph.values.len()];
        for value in regions.values() {
            let it = graph.value(value);
            let (name, dtype, single) = (format!("{}.whole", it.name), it.dtype, it.single);
            let shape = it.shape.with_dim(1, it.shape.dim(1).next_multiple_of(PIECE));
            whole[value.index()] = shape.map(|shape| {
                let made = graph.add_value(name, dtype, shape);
                graph.values[made.index()].single = single;
                made
            });
        }
        Widened {
            whole,
            nodes: Vec::with_capacity(graph.nodes.len()),
        }
    }

    /// The value with channels behind.
    fn whole(&self, value: ValueId) -> Option<ValueId> {
        *self.whole.get(value.index())?
    }

    /// Adds a node of before, with what it needs.
    fn node(&mut self, graph: &mut Graph, mut node: Node, role: &Role) {
        let made = node.outputs.first().and_then(|&v| self.whole(v)).map(|v| graph.value(v).shape);
        let channels = made.map(|shape| shape.dim(1));
        match role {
            Role::Product { weights, bias, axes } => {
                let read = self.whole(node.inputs[0]).map(|v| graph.value(v).shape.dim(1));
                if channels.is_some() || read.is_some() {
                    let mut wide = Arc::clone(weights);
                    for (axis, channels) in [(axes.outputs, channels), (axes.inputs, read)] {
                        if let Some(channels) = channels {
                            wide = along(&wide, axis, channels);
                        }
                    }
                    node.inputs[1] = graph.add_constant(format!("{}.weights", node.name), wide);
                    give_bias(graph, &mut node, bias.as_deref(), channels);
                }
            }
            Role::Depthwise { weights, bias } => {
                if let Some(channels) = channels {
                    node.inputs[1] = graph.add_constant(format!("{}.weights", node.name), along(weights, 0, channels));
                    give_bias(graph, &mut node, bias.as_deref(), Some(channels));
                    if let Op::Primitive(Primitive::Conv { groups, .. }) = &mut node.op {
                        *groups = channels;
                    }
                }
            }
            Role::Function(Some(constant)) => {
                if let Some(shape) = made {
                    node.inputs[constant.place] = self.constant(graph, &node, constant, shape);
                }
            }
            Role::Function(None) | Role::Both | Role::Window | Role::Spread | Role::Other => {}
        }
        let reads_own = matches!(role, Role::Other) || (matches!(role, Role::Window) && channels.is_none());
        for input in node.inputs.iter_mut().filter(|_| !reads_own) {
            *input = self.whole(*input).unwrap_or(*input);
        }
        let name = node.name.clone();
        let own: Vec<(ValueId, ValueId)> = node.outputs.iter().filter_map(|&v| Some((v, self.whole(v)?))).collect();
        for output in &mut node.outputs {
            *output = self.whole(*output).unwrap_or(*output);
        }
        self.nodes.push(node);
        self.nodes.extend(own.into_iter().map(|(own, whole)| Node {
            name: format!("{name}.own"),
            op: Op::View(ViewOp::band(4, 1, 0)),
            inputs: vec![whole],
            outputs: vec![own],
        }));
    }

    /// A function's constant, one for each channel, repeated over a picture of this shape.
    fn constant(&mut self, graph: &mut Graph, node: &Node, constant: &Constant, shape: Shape) -> ValueId {
        let name = format!("{}.constant", node.name);
        let Some(values) = row(&constant.values, shape.dim(1) as usize, constant.behind, |n| {
            Shape::new(&[1, n, 1, 1])
        }) else {
            return node.inputs[constant.place];
        };
        let (dtype, own) = (values.dtype(), graph.add_constant(name.clone(), values));
        let spread = graph.add_value(format!("{name}.spread"), dtype, shape);
        self.nodes.push(Node {
            name,
            op: Op::View(ViewOp::Broadcast),
            inputs: vec![own],
            outputs: vec![spread],
        });
        spread
    }
}

/// Gives a convolution its bias, with zeros behind where it makes more channels.
fn give_bias(graph: &mut Graph, node: &mut Node, bias: Option<&[f32]>, channels: Option<u32>) {
    node.inputs.truncate(2);
    let Some(bias) = bias else { return };
    let channels = channels.map_or(bias.len(), |channels| channels as usize);
    let bias = row(bias, channels, 0.0, |n| Shape::new(&[n]));
    node.inputs
        .extend(bias.map(|bias| graph.add_constant(format!("{}.bias", node.name), bias)));
}

/// Numbers of channels, and `behind` for those behind them.
fn row(values: &[f32], channels: usize, behind: f32, shape: impl Fn(u32) -> Option<Shape>) -> Option<Arc<Tensor>> {
    let mut values = values.to_vec();
    values.resize(channels, behind);
    Tensor::new(shape(channels as u32)?, Data::F32(values)).map(Arc::new)
}

/// The weights with zeros behind their channels along `axis`; themselves where that cannot be.
fn along(weights: &Arc<Tensor>, axis: usize, channels: u32) -> Arc<Tensor> {
    let wide = || {
        let (from, to) = (weights.shape(), weights.shape().with_dim(axis, channels)?);
        let inner = |shape: Shape| shape.dims()[axis..].iter().map(|&extent| extent as usize).product::<usize>();
        Tensor::new(to, Data::F32(zeros_behind(weights.as_f32()?, inner(from), inner(to)))).map(Arc::new)
    };
    wide().unwrap_or_else(|| Arc::clone(weights))
}
