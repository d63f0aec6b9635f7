//! Which pictures get channels behind theirs: regions of a graph from convolutions to convolutions, through what keeps channels apart.

use super::PIECE;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::passes::fold_batchnorm::{plain_bias, plain_weights};
use crate::planner::passes::rewrite::Index;
use crate::planner::strided;
use crate::primitive::{Binary, Primitive, Unary};
use crate::tensor::{DType, Tensor};
use half::f16;
use std::sync::Arc;

/// Least channels that are worth a piece.
const FEW: u32 = 5;
/// Least elements of a region's largest picture that whole pieces are worth it for.
const LARGE: u64 = 1 << 12;
/// The axes of a picture's rows and columns, as bits.
const PLACES: u8 = 0b1100;

/// What a node does with the channels of a picture.
pub enum Role {
    /// A convolution of all channels to others, with its weights and its bias.
    Product {
        weights: Arc<Tensor>,
        bias: Option<Vec<f32>>,
        axes: Axes,
    },
    /// A convolution of each channel on its own.
    Depthwise { weights: Arc<Tensor>, bias: Option<Vec<f32>> },
    /// A function of single elements, and of a constant.
    Function(Option<Constant>),
    /// A function of the elements of two pictures.
    Both,
    /// A pool, a resize or a reduction over places.
    Window,
    /// A repetition of each channel's number over places, or of a map over channels.
    Spread,
    /// Anything else.
    Other,
}

/// The axes of a convolution's weights.
#[derive(Clone, Copy)]
pub struct Axes {
    pub outputs: usize,
    pub inputs: usize,
}

/// A constant of a function of two operands.
pub struct Constant {
    /// Its place among the inputs.
    pub place: usize,
    /// What it is in each channel.
    pub values: Vec<f32>,
    /// What it is to be in channels behind.
    pub behind: f32,
}

/// The roles of all nodes, and the values that get channels.
pub struct Regions {
    pub roles: Vec<Role>,
    chosen: Vec<bool>,
}

impl Regions {
    pub fn of(graph: &Graph, index: &Index) -> Regions {
        let ragged: Vec<bool> = (0..graph.values.len()).map(|v| is_ragged(graph, v)).collect();
        let touches = |node: &Node| node.inputs.iter().chain(&node.outputs).any(|v| ragged[v.index()]);
        let known = |node: &Node| touches(node).then(|| role(graph, index, node)).flatten();
        let mut regions = Regions {
            roles: graph.nodes.iter().map(|node| known(node).unwrap_or(Role::Other)).collect(),
            chosen: ragged,
        };
        regions.settle(graph, index);
        regions.leave_small(graph);
        regions
    }

    pub fn is_empty(&self) -> bool {
        !self.chosen.contains(&true)
    }

    /// The values that get channels.
    pub fn values(&self) -> impl Iterator<Item = ValueId> {
        let chosen = (0u32..).zip(&self.chosen).filter(|(_, chosen)| **chosen);
        chosen.map(|(v, _)| ValueId(v))
    }

    fn has(&self, value: ValueId) -> bool {
        self.chosen[value.index()]
    }

    /// Takes values out until all that are left are made of each other or by convolutions, and read by what knows their channels.
    fn settle(&mut self, graph: &Graph, index: &Index) {
        let windowed = self.windowed(graph);
        loop {
            let mut keeps = self.chosen.clone();
            // Results that windows make are stored as planes by what makes them.
            let ends = |v: ValueId| graph.is_result(v) && (index.uses[v.index()] > 1 || windowed[v.index()]);
            for value in self.values().filter(|&v| !self.is_made(graph, index, v) || ends(v)) {
                keeps[value.index()] = false;
            }
            for (node, role) in graph.nodes.iter().zip(&self.roles) {
                for (place, value) in node.inputs.iter().enumerate().filter(|(_, v)| self.has(**v)) {
                    keeps[value.index()] &= self.knows(node, role, place);
                }
            }
            if keeps == self.chosen {
                return;
            }
            self.chosen = keeps;
        }
    }

    /// What windows make of values that get channels, and what that becomes up to the next convolution.
    fn windowed(&self, graph: &Graph) -> Vec<bool> {
        let mut windowed = vec![false; self.chosen.len()];
        for (node, role) in graph.nodes.iter().zip(&self.roles) {
            let from_window = || node.inputs.iter().any(|v| windowed[v.index()]);
            let is = matches!(role, Role::Window) || (!matches!(role, Role::Product { .. } | Role::Other) && from_window());
            node.outputs.iter().for_each(|v| windowed[v.index()] = is);
        }
        windowed
    }

    /// True if the node that makes a value can make more channels of it.
    fn is_made(&self, graph: &Graph, index: &Index, value: ValueId) -> bool {
        let Some(producer) = index.producers[value.index()] else {
            return false;
        };
        let node = &graph.nodes[producer];
        let read = |place: usize| node.inputs.get(place).is_some_and(|&v| self.has(v));
        node.outputs.len() == 1
            && match &self.roles[producer] {
                Role::Product { .. } => true,
                Role::Depthwise { .. } | Role::Window | Role::Function(None) => read(0),
                Role::Function(Some(constant)) => read(1 - constant.place),
                Role::Both => read(0) && read(1),
                Role::Spread => read(0) || graph.value(node.inputs[0]).shape.dim(1) == 1,
                Role::Other => false,
            }
    }

    /// True if a node reads more channels of its input at `place` as it should.
    fn knows(&self, node: &Node, role: &Role, place: usize) -> bool {
        let made = node.outputs.first().is_some_and(|&v| self.has(v));
        match role {
            Role::Product { .. } => place == 0,
            // Its own channels alone, else: pixels are as far apart as they are.
            Role::Window => place == 0,
            Role::Depthwise { .. } | Role::Function(_) | Role::Both | Role::Spread => made,
            Role::Other => false,
        }
    }

    /// Leaves regions alone that have no large picture: values that hang together by what keeps channels apart.
    fn leave_small(&mut self, graph: &Graph) {
        let mut largest: Vec<u64> = graph.values.iter().map(|v| v.shape.elements()).collect();
        loop {
            let before = largest.clone();
            for (node, _) in graph
                .nodes
                .iter()
                .zip(&self.roles)
                .filter(|(_, role)| !matches!(role, Role::Product { .. }))
            {
                let together = || node.inputs.iter().chain(&node.outputs).filter(|&&v| self.has(v)).map(|v| v.index());
                if node.outputs.iter().any(|&v| self.has(v)) {
                    let most = together().map(|v| largest[v]).max().unwrap_or(0);
                    together().for_each(|v| largest[v] = most);
                }
            }
            if largest == before {
                break;
            }
        }
        for (chosen, largest) in self.chosen.iter_mut().zip(largest) {
            *chosen &= largest >= LARGE;
        }
    }
}

/// True for a picture whose channels fill no whole pieces.
fn is_ragged(graph: &Graph, value: usize) -> bool {
    let it = &graph.values[value];
    let picture = it.shape.rank() == 4 && it.dtype == DType::F32 && it.data.is_none();
    picture && it.shape.dim(1) >= FEW && !it.shape.dim(1).is_multiple_of(PIECE)
}

fn role(graph: &Graph, index: &Index, node: &Node) -> Option<Role> {
    let primitive = match &node.op {
        Op::Primitive(primitive) => primitive,
        Op::View(ViewOp::Broadcast) => {
            let (from, to) = (graph.value(node.inputs[0]).shape, graph.value(*node.outputs.first()?).shape);
            let spreads = from.rank() == 4 && to.rank() == 4 && (from.dim(1) == to.dim(1) || from.dim(1) == 1);
            return spreads.then_some(Role::Spread);
        }
        _ => return None,
    };
    Some(match primitive {
        Primitive::Conv { groups: 1, .. } => product(graph, index, node, primitive, Axes { outputs: 0, inputs: 1 })?,
        Primitive::ConvTranspose { groups: 1, .. } => product(graph, index, node, primitive, Axes { outputs: 1, inputs: 0 })?,
        Primitive::Conv { groups, .. } => {
            let channels = |v: ValueId| graph.value(v).shape.dim(1);
            let own = channels(node.inputs[0]) == *groups && channels(*node.outputs.first()?) == *groups;
            let (weights, bias) = own.then(|| parameters(graph, index, node, primitive)).flatten()?;
            Role::Depthwise { weights, bias }
        }
        Primitive::Unary(function) if keeps_zeros_finite(*function) => Role::Function(None),
        Primitive::Binary(function) => operands(graph, index, node, *function)?,
        Primitive::Pool { .. } | Primitive::Resize(_) => Role::Window,
        Primitive::Reduce { axes, .. } if axes & !PLACES == 0 => Role::Window,
        _ => return None,
    })
}

fn product(graph: &Graph, index: &Index, node: &Node, primitive: &Primitive, axes: Axes) -> Option<Role> {
    let (weights, bias) = parameters(graph, index, node, primitive)?;
    Some(Role::Product { weights, bias, axes })
}

/// The constant weights and biases of a convolution.
fn parameters(graph: &Graph, index: &Index, node: &Node, primitive: &Primitive) -> Option<(Arc<Tensor>, Option<Vec<f32>>)> {
    let weights = plain_weights(graph, index, node, primitive).filter(|w| w.dtype() == DType::F32)?;
    Some((Arc::new(weights), plain_bias(graph, index, node, primitive)?))
}

/// What a function of two operands does: of two pictures, or of one and a constant that each channel has.
fn operands(graph: &Graph, index: &Index, node: &Node, function: Binary) -> Option<Role> {
    let &[a, b] = node.inputs.as_slice() else { return None };
    let constant = |place: usize, value, behind| {
        let values = of_channels(graph, index, value)?;
        Some(Role::Function(Some(Constant { place, values, behind })))
    };
    let either = matches!(function, Binary::Add | Binary::Sub | Binary::Mul | Binary::Min | Binary::Max);
    match function {
        Binary::Div => constant(1, b, 1.0),
        Binary::PRelu => constant(1, b, 0.0),
        _ if !either => None,
        _ => constant(1, b, 0.0).or_else(|| constant(0, a, 0.0)).or(Some(Role::Both)),
    }
}

/// False for functions that make of zeros, or of what others make of them, what times zero is no zero.
fn keeps_zeros_finite(function: Unary) -> bool {
    match function {
        // What zeros have become may be negative.
        Unary::Log | Unary::Sqrt => false,
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
