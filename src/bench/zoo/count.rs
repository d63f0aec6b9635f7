//! What a network's size is said in: multiply-adds and parameters.

use super::build::Model;
use crate::planner::graph::{Graph, Node, Op, ValueId};
use crate::primitive::Primitive;

/// Multiply-adds of the convolutions, matrix products and recurrences, which is what published figures count.
pub fn multiply_adds(graph: &Graph) -> u64 {
    let node = |node: &Node| {
        let shape = |ids: &[ValueId], at: usize| graph.value(ids[at]).shape;
        match &node.op {
            Op::Primitive(Primitive::Conv { window, .. }) => {
                shape(&node.outputs, 0).elements() * window.taps() * u64::from(shape(&node.inputs, 1).dim(1))
            }
            Op::Primitive(Primitive::MatMul) => {
                let a = shape(&node.inputs, 0);
                shape(&node.outputs, 0).elements() * u64::from(a.dim(a.rank() - 1))
            }
            // Four gates of each state read all states; their inputs are a matrix product of its own.
            Op::Primitive(Primitive::Lstm { .. } | Primitive::Gru { .. }) => {
                let y = shape(&node.outputs, 0);
                y.elements() * 4 * u64::from(y.dim(2))
            }
            _ => 0,
        }
    };
    graph.nodes.iter().map(node).sum()
}

/// Trained numbers: parameters without the running statistics of batch normalisations.
pub fn trained(model: &Model) -> u64 {
    let values = model.parameters.iter().map(|&id| model.graph.value(id));
    let statistic = |name: &str| name.ends_with(".running_mean") || name.ends_with(".running_var");
    values.filter(|v| !statistic(&v.name)).map(|v| v.shape.elements()).sum()
}
