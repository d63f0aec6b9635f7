//! Branches that convolve one input and are added become one convolution, as do those that only scale and shift it, or leave it as it
//! is (Ding et al. 2021, section 3.3): networks that were trained so are often exported before their branches were joined.
//!
//! Exact but for rounding: windows are linear, and the smaller one lies within the larger one with weights of zero around it.

use super::fold_batchnorm::{floats, per_channel, plain_bias, plain_weights};
use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive, Window};
use crate::tensor::{DType, Shape};
use std::sync::Arc;

pub fn run(graph: &mut Graph) {
    let found = |graph: &Graph, index: &Index, node| Some((node, branches(graph, index, node)?));
    at_each_node(graph, found, |graph, (node, (x, joined))| apply(graph, node, x, &joined));
}

/// A convolution with constant weights.
#[derive(Clone)]
struct Branch {
    window: Window,
    groups: u32,
    dtype: DType,
    /// Output channels, and input channels of a group.
    channels: [usize; 2],
    /// `[outputs, inputs of a group, taps]`.
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
}

/// The input of the two branches that `node` adds or subtracts, and both in one.
fn branches(graph: &Graph, index: &Index, node: usize) -> Option<(ValueId, Branch)> {
    let Op::Primitive(Primitive::Binary(kind @ (Binary::Add | Binary::Sub))) = graph.nodes[node].op else {
        return None;
    };
    let [a, b] = graph.nodes[node].inputs[..] else { return None };
    let shape = graph.value(*graph.nodes[node].outputs.first()?).shape;
    if [a, b].iter().any(|&v| graph.value(v).shape != shape) {
        return None;
    }
    let signs = [1.0, if kind == Binary::Sub { -1.0 } else { 1.0 }];
    let of = |value, sign: f32| convolution(graph, index, value).map(|(x, branch)| (x, branch.times(sign)));
    let (first, second) = (of(a, signs[0]), of(b, signs[1]));
    let (x, joined) = match (first, second) {
        (Some((x, one)), Some((other, two))) if x == other => (x, one.joined(&two)?),
        (first, second) => {
            let scaled = |found: Option<(ValueId, Branch)>, value, sign| {
                let (x, branch) = found?;
                let other = affine(graph, index, value, x, &branch)?.times(sign);
                Some((x, branch.joined(&other)?))
            };
            scaled(first, b, signs[1]).or_else(|| scaled(second, a, signs[0]))?
        }
    };
    Some((x, joined))
}

/// The convolution that makes `value`, which nobody else reads, and its input.
fn convolution(graph: &Graph, index: &Index, value: ValueId) -> Option<(ValueId, Branch)> {
    let (node, &primitive) = index.primitive(graph, value)?;
    let Primitive::Conv { window, groups } = primitive else {
        return None;
    };
    let node = &graph.nodes[node];
    let weights = plain_weights(graph, index, node, &primitive).filter(|_| index.uses[value.index()] == 1)?;
    let [outputs, inputs] = [0, 1].map(|axis| weights.shape().dim(axis) as usize);
    let branch = Branch {
        window,
        groups,
        dtype: weights.dtype(),
        channels: [outputs, inputs],
        weights: (0..weights.len())
            .map(|i| Some(weights.get_f64(i)? as f32))
            .collect::<Option<_>>()?,
        bias: plain_bias(graph, index, node, &primitive)?,
    };
    // Taps that lie apart are not those of a denser window, and a window reaches its own place.
    let axes = 0..usize::from(window.axes);
    let plain = axes
        .clone()
        .all(|a| window.dilation[a] == 1 && window.pad_begin[a] < window.kernel[a]);
    plain.then_some((node.inputs[0], branch))
}

/// `value` as a convolution like `model` with a window of one tap, if it is `x` scaled and shifted by channels.
fn affine(graph: &Graph, index: &Index, value: ValueId, x: ValueId, model: &Branch) -> Option<Branch> {
    let [outputs, inputs] = model.channels;
    let same = graph.value(x).shape == graph.value(value).shape && outputs == inputs * model.groups as usize;
    let axes = usize::from(model.window.axes);
    if !same || model.window.stride[..axes].iter().any(|&s| s != 1) {
        return None;
    }
    let (mut value, mut scale, mut shift) = (value, vec![1.0f32; outputs], None::<Vec<f32>>);
    while value != x {
        let (node, &Primitive::Binary(kind)) = index.primitive(graph, value)? else {
            return None;
        };
        let [a, b] = graph.nodes[node].inputs[..] else { return None };
        let (next, by) = match (per_channel(graph, index, b, 1), kind) {
            (Some(by), Binary::Add | Binary::Sub | Binary::Mul | Binary::Div) => (a, by),
            (None, Binary::Add | Binary::Mul) => (b, per_channel(graph, index, a, 1)?),
            _ => return None,
        };
        let by = Some(by).filter(|by| by.len() == outputs)?;
        // What was found so far follows this function.
        for (channel, by) in by.into_iter().enumerate() {
            match kind {
                Binary::Mul => scale[channel] *= by,
                Binary::Div => scale[channel] /= by,
                _ => {
                    let by = if kind == Binary::Sub { -by } else { by };
                    shift.get_or_insert_with(|| vec![0.0; outputs])[channel] += scale[channel] * by;
                }
            }
        }
        value = next;
    }
    let mut weights = vec![0.0; outputs * inputs];
    for (channel, scale) in scale.into_iter().enumerate() {
        weights[channel * inputs + channel % inputs] = scale;
    }
    Some(Branch {
        window: Window::new(&[1; 3][..axes]),
        weights,
        bias: shift,
        ..model.clone()
    })
}

impl Branch {
    fn times(mut self, sign: f32) -> Branch {
        self.weights.iter_mut().for_each(|w| *w *= sign);
        self.bias.iter_mut().flatten().for_each(|b| *b *= sign);
        self
    }

    /// Both in one, if one's window lies within the other's.
    fn joined(&self, other: &Branch) -> Option<Branch> {
        let alike = |b: &Branch| (b.window.axes, b.window.stride, b.groups, b.dtype, b.channels);
        if alike(self) != alike(other) {
            return None;
        }
        let (a, b) = (&self.window, &other.window);
        let mut window = *a;
        for axis in 0..usize::from(a.axes) {
            let behind = |w: &Window| w.kernel[axis] - w.pad_begin[axis];
            let reach = behind(a).max(behind(b));
            window.pad_begin[axis] = a.pad_begin[axis].max(b.pad_begin[axis]);
            window.kernel[axis] = window.pad_begin[axis] + reach;
            window.pad_end[axis] = a.pad_end[axis].checked_add(reach - behind(a))?;
        }
        let taps = |w: &Window| w.kernel.iter().product::<u32>();
        if taps(&window) > taps(a).max(taps(b)) {
            return None;
        }
        let mut joined = Branch {
            window,
            weights: vec![0.0; self.channels[0] * self.channels[1] * taps(&window) as usize],
            bias: None,
            ..self.clone()
        };
        for branch in [self, other] {
            joined.add(branch);
            if let Some(bias) = &branch.bias {
                let sum = joined.bias.get_or_insert_with(|| vec![0.0; bias.len()]);
                sum.iter_mut().zip(bias).for_each(|(sum, b)| *sum += b);
            }
        }
        Some(joined)
    }

    /// Adds the weights of a branch whose window lies within this one's.
    fn add(&mut self, branch: &Branch) {
        let (outer, inner) = (self.window, branch.window);
        let [rows, columns, depth] = inner.kernel.map(|k| k as usize);
        let [_, outer_columns, outer_depth] = outer.kernel.map(|k| k as usize);
        let [top, left, front] = [0, 1, 2].map(|a| (outer.pad_begin[a] - inner.pad_begin[a]) as usize);
        let taps = outer.kernel.iter().product::<u32>() as usize;
        for (index, weight) in branch.weights.iter().enumerate() {
            let (pair, tap) = (index / (rows * columns * depth), index % (rows * columns * depth));
            let (row, column, deep) = (tap / (columns * depth), tap / depth % columns, tap % depth);
            self.weights[pair * taps + ((row + top) * outer_columns + column + left) * outer_depth + deep + front] += weight;
        }
    }
}

/// Puts the convolution in the place of `node`.
fn apply(graph: &mut Graph, node: usize, x: ValueId, branch: &Branch) {
    let [outputs, inputs] = branch.channels;
    let axes = usize::from(branch.window.axes);
    let dims: Vec<u32> = [outputs as u32, inputs as u32]
        .into_iter()
        .chain(branch.window.kernel[..axes].iter().copied())
        .collect();
    let weights = Shape::new(&dims).and_then(|shape| floats(branch.dtype, shape, branch.weights.clone()));
    let bias = branch.bias.clone().map(|bias| {
        let shape = Shape::new(&[bias.len() as u32])?;
        floats(branch.dtype, shape, bias)
    });
    let (Some(weights), false) = (weights, matches!(bias, Some(None))) else {
        return;
    };
    let name = graph.nodes[node].name.clone();
    let mut read = vec![x, graph.add_constant(format!("{name}.weights"), Arc::new(weights))];
    read.extend(
        bias.flatten()
            .map(|bias| graph.add_constant(format!("{name}.bias"), Arc::new(bias))),
    );
    graph.nodes[node].op = Op::Primitive(Primitive::Conv {
        window: branch.window,
        groups: branch.groups,
    });
    graph.nodes[node].inputs = read;
}
