//! Padding by a constant becomes concatenations, one an axis: what is padded is then made where it is read, and the edges alone are
//! written besides.
//!
//! Windows over volumes are padded by pictures, tokens by one for the class, pictures by rows and columns until windows of attention
//! fit, or before a maximum by what is no element of it. Padding under a convolution is none any more (`fold_pad`), and padding with
//! many edges beside few elements stays what it is.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ViewOp};
use crate::primitive::{PadMode, Primitive};
use crate::tensor::{DType, Data, Shape, Tensor};
use half::f16;
use std::sync::Arc;

/// Elements of a padded value from on which the edges' own launches are worth it: of two edges at the most, and of more.
const LARGE: [u64; 2] = [1 << 16, 1 << 19];
/// Most edges.
const EDGES: usize = 4;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A padding.
struct Found {
    pad: usize,
    sides: Vec<Sides>,
    value: Tensor,
}

/// What an axis gets before its elements and behind them, not both 0.
struct Sides {
    axis: usize,
    extents: [u32; 2],
}

fn find(graph: &Graph, index: &Index, pad: usize) -> Option<Found> {
    let node = &graph.nodes[pad];
    let Op::Primitive(Primitive::Pad { mode, begin }) = &node.op else {
        return None;
    };
    let PadMode::Constant(value) = mode else { return None };
    // What the network is given lies where its host writes it.
    index.producers[node.inputs[0].index()]?;
    let [inner, outer] = [node.inputs[0], node.outputs[0]].map(|v| graph.value(v).shape);
    let mut sides = Vec::new();
    for (axis, &first) in begin.iter().enumerate().take(inner.rank()) {
        let before = u32::try_from(first).ok()?;
        let behind = outer.dim(axis).checked_sub(before.checked_add(inner.dim(axis))?)?;
        if before > 0 || behind > 0 {
            let extents = [before, behind];
            sides.push(Sides { axis, extents });
        }
    }
    let value = match graph.value(node.outputs[0]).dtype {
        DType::F32 => Tensor::new(Shape::SCALAR, Data::F32(vec![value.0])),
        DType::F16 => Tensor::from_bytes(DType::F16, Shape::SCALAR, &f16::from_f32(value.0).to_le_bytes()),
        _ => None,
    }?;
    let edges = sides.iter().flat_map(|s| s.extents).filter(|&e| e > 0).count();
    let large = LARGE[usize::from(edges > 2)];
    let worth = (1..=EDGES).contains(&edges) && inner.elements() > 0 && outer.elements() >= large;
    worth.then_some(Found { pad, sides, value })
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { pad, sides, value } = found;
    let Node { name, inputs, outputs, .. } = graph.nodes[pad].clone();
    let (mut inner, padded) = (inputs[0], outputs[0]);
    let value = graph.add_constant(format!("{name}.value"), Arc::new(value));
    let mut nodes = Vec::new();
    for (at, Sides { axis, extents }) in sides.iter().enumerate() {
        let (dtype, shape) = (graph.value(inner).dtype, graph.value(inner).shape);
        let mut side = |edge: &str, extent: u32, graph: &mut Graph| {
            let shape = shape.with_dim(*axis, extent).filter(|_| extent > 0)?;
            let name = format!("{name}.{edge}{axis}");
            let output = graph.add_value(name.clone(), dtype, shape);
            nodes.push(Node {
                name,
                op: Op::View(ViewOp::Broadcast),
                inputs: vec![value],
                outputs: vec![output],
            });
            Some(output)
        };
        let [before, behind] = [side("before", extents[0], graph), side("behind", extents[1], graph)];
        let joined = match shape.with_dim(*axis, shape.dim(*axis) + extents[0] + extents[1]) {
            Some(wider) if at + 1 < sides.len() => graph.add_value(format!("{name}.{axis}"), dtype, wider),
            _ => padded,
        };
        nodes.push(Node {
            name: name.clone(),
            op: Op::Concat { axis: *axis },
            inputs: [before, Some(inner), behind].into_iter().flatten().collect(),
            outputs: vec![joined],
        });
        inner = joined;
    }
    graph.nodes.splice(pad..=pad, nodes);
}
