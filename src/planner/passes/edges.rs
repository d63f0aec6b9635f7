//! Padding by a constant along one axis becomes a concatenation: what is padded is then made where it is read, and the edges alone
//! are written besides.
//!
//! Windows over volumes are padded by pictures, tokens by one for the class; padding of pictures under windows is none any more
//! (`fold_pad`), and stays what it is along several axes, whose edges are many.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ViewOp};
use crate::primitive::{PadMode, Primitive};
use crate::tensor::{DType, Data, Shape, Tensor};
use half::f16;
use std::sync::Arc;

/// Elements of a padded value from on which the edges' own launches are worth it.
const LARGE: u64 = 1 << 16;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A padding along one axis.
struct Found {
    pad: usize,
    axis: usize,
    before: u32,
    behind: u32,
    value: Tensor,
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
    let mut axes = (0..inner.rank()).filter(|&a| begin[a] != 0 || inner.dim(a) != outer.dim(a));
    let (Some(axis), None) = (axes.next(), axes.next()) else {
        return None;
    };
    let before = u32::try_from(begin[axis]).ok()?;
    let behind = outer.dim(axis).checked_sub(before.checked_add(inner.dim(axis))?)?;
    let value = match graph.value(node.outputs[0]).dtype {
        DType::F32 => Tensor::new(Shape::SCALAR, Data::F32(vec![value.0])),
        DType::F16 => Tensor::from_bytes(DType::F16, Shape::SCALAR, &f16::from_f32(value.0).to_le_bytes()),
        _ => None,
    }?;
    (inner.elements() > 0 && outer.elements() >= LARGE).then_some(Found {
        pad,
        axis,
        before,
        behind,
        value,
    })
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { pad, axis, .. } = found;
    let name = graph.nodes[pad].name.clone();
    let inner = graph.nodes[pad].inputs[0];
    let value = graph.add_constant(format!("{name}.value"), Arc::new(found.value));
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for (edge, extent) in [("before", found.before), ("behind", found.behind)] {
        let shape = graph.value(inner).shape.with_dim(axis, extent);
        let Some(shape) = shape.filter(|_| extent > 0) else {
            edges.push(None);
            continue;
        };
        let output = graph.add_value(format!("{name}.{edge}"), graph.value(inner).dtype, shape);
        nodes.push(Node {
            name: format!("{name}.{edge}"),
            op: Op::View(ViewOp::Broadcast),
            inputs: vec![value],
            outputs: vec![output],
        });
        edges.push(Some(output));
    }
    let parts = [edges[0], Some(inner), edges[1]];
    graph.nodes[pad].op = Op::Concat { axis };
    graph.nodes[pad].inputs = parts.into_iter().flatten().collect();
    graph.nodes.splice(pad..pad, nodes);
}
