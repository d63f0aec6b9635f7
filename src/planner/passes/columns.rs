//! A convolution of many channels to very few, by a wide window, becomes one by the window's columns, each of which makes channels of
//! its own, and one that sums these where they meet: `[O, C, kh, kw]` as `[kw O, C, kh, 1]` and `[O, kw O, 1, kw]`.
//!
//! Kernels make tiles of 8 output channels and more, of which one or two are most of nothing, and here as many are full as the window has
//! columns: the products of one column are summed, not those of all. The same products are summed in another order, and the sums of
//! each column are rounded.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op};
use crate::planner::strided;
use crate::primitive::{Primitive, Window};
use crate::tensor::{DType, Data, Shape, Tensor};
use half::f16;
use std::sync::Arc;

/// Fewest columns of a window, and fewest products of one output, below which one launch more is not worth it.
const COLUMNS: u32 = 5;
const LONG: u64 = 3072;
/// Most channels of all columns, and what they are a multiple of.
const MOST_CHANNELS: u32 = 32;
const PIECE: u32 = 8;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A convolution to few channels.
struct Found {
    node: usize,
    window: Window,
    /// Weights `[O, C, kh, kw]`.
    weights: Tensor,
    /// Channels of all columns, with those of zeros.
    channels: u32,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let it = &graph.nodes[node];
    let Op::Primitive(Primitive::Conv { window, groups: 1 }) = it.op else {
        return None;
    };
    let (x, y) = (graph.value(it.inputs[0]).shape, graph.value(it.outputs[0]).shape);
    if window.axes != 2 || window.kernel[1] < COLUMNS || x.elements() == 0 || y.elements() == 0 {
        return None;
    }
    let all = y.dim(1).checked_mul(window.kernel[1])?;
    let long = window.taps() * u64::from(x.dim(1)) >= LONG;
    if !long || all > MOST_CHANNELS {
        return None;
    }
    let (tensor, at) = strided::constant(graph, &index.producers, it.inputs[1])?;
    Some(Found {
        node,
        window,
        weights: strided::gather(&tensor, &at)?,
        channels: all.next_multiple_of(PIECE),
    })
}

impl Found {
    /// Weights `[kw O, C, kh, 1]` of the columns, and `[O, kw O, 1, kw]` of their sum, zeros behind the last channel.
    fn weights(&self) -> Option<[Tensor; 2]> {
        let &[outputs, inputs, rows, columns] = self.weights.shape().dims() else {
            return None;
        };
        let dtype = self.weights.dtype();
        let one = match dtype {
            DType::F32 => Tensor::new(Shape::SCALAR, Data::F32(vec![1.0])),
            DType::F16 => Tensor::from_bytes(dtype, Shape::SCALAR, &f16::ONE.to_le_bytes()),
            _ => None,
        }?;
        let bytes = dtype.bytes() as usize;
        let depth = (inputs * rows) as usize;
        let mut apart = vec![0; self.channels as usize * depth * bytes];
        for (at, tap) in self.weights.bytes().chunks_exact(bytes).enumerate() {
            let (row, column) = (at / columns as usize, at % columns as usize);
            let (output, k) = (row / depth, row % depth);
            let to = ((output * columns as usize + column) * depth + k) * bytes;
            apart[to..to + bytes].copy_from_slice(tap);
        }
        let mut sums = vec![0; (outputs * self.channels * columns) as usize * bytes];
        for (output, column) in (0..outputs).flat_map(|o| (0..columns).map(move |c| (o, c))) {
            let channel = output * columns + column;
            let to = ((output * self.channels + channel) * columns + column) as usize * bytes;
            sums[to..to + bytes].copy_from_slice(one.bytes());
        }
        Some([
            Tensor::from_bytes(dtype, Shape::new(&[self.channels, inputs, rows, 1])?, &apart)?,
            Tensor::from_bytes(dtype, Shape::new(&[outputs, self.channels, 1, columns])?, &sums)?,
        ])
    }
}

fn apply(graph: &mut Graph, found: Found) {
    // Nothing is written before a step that does not fit.
    let _ = rewritten(graph, &found);
}

fn rewritten(graph: &mut Graph, found: &Found) -> Option<()> {
    let Node { name, inputs, outputs, .. } = graph.nodes[found.node].clone();
    let [x, y] = [inputs[0], outputs[0]].map(|v| graph.value(v).shape);
    let made = Shape::new(&[y.dim(0), found.channels, y.dim(2), x.dim(3)])?;
    let [apart, sums] = found.weights()?;
    let dtype = graph.value(outputs[0]).dtype;
    let columns = graph.add_value(format!("{name}.columns"), dtype, made);
    let apart = graph.add_constant(format!("{name}.columns.weights"), Arc::new(apart));
    let sums = graph.add_constant(format!("{name}.ones"), Arc::new(sums));
    let convolution = |window: Window| Op::Primitive(Primitive::Conv { window, groups: 1 });
    let first = Node {
        name: format!("{name}.columns"),
        op: convolution(found.window.over(2, |[rows, _, last], none| [rows, none, last])),
        inputs: vec![inputs[0], apart],
        outputs: vec![columns],
    };
    let sum = &mut graph.nodes[found.node];
    sum.op = convolution(found.window.over(2, |[_, columns, last], none| [none, columns, last]));
    sum.inputs[..2].copy_from_slice(&[columns, sums]);
    graph.nodes.insert(found.node, first);
    Some(())
}
