//! Convolutions and pools over lines, `[N, C, L]`, and the elementwise functions around them become those of pictures of one
//! row, `[N, C, 1, L]`, which is what fast kernels take. The same products are summed in the same order.

use super::reaxed;
use crate::planner::graph::{Graph, Node, Op};
use crate::primitive::{Primitive, Window};
use crate::tensor::Shape;

pub fn run(graph: &mut Graph) {
    let lifted = lifted(graph);
    reaxed::run(graph, lifted, with_row, |work, graph, node| {
        // What has the row already was made by a node before; constants and lines get it here.
        for input in &mut node.inputs {
            *input = work.read(graph, *input);
        }
        lift(node);
    });
}

/// The values that get a row axis: what windows over one axis make, and what elementwise functions and joins make of it.
fn lifted(graph: &Graph) -> Vec<bool> {
    let mut lifted = vec![false; graph.values.len()];
    for node in &graph.nodes {
        let reads_lifted = node.inputs.iter().any(|v| lifted[v.index()]);
        let makes_lines = node.outputs.iter().all(|v| graph.value(*v).shape.rank() == 3);
        let lifts = match &node.op {
            Op::Primitive(Primitive::Conv { window, .. } | Primitive::ConvTranspose { window, .. } | Primitive::Pool { window, .. }) => {
                window.axes == 1
            }
            Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Copy) | Op::Concat { .. } => reads_lifted && makes_lines,
            _ => false,
        };
        if lifts {
            node.outputs.iter().for_each(|v| lifted[v.index()] = true);
        }
    }
    lifted
}

/// `[a, b, c]` as `[a, b, 1, c]`.
fn with_row(shape: Shape) -> Option<Shape> {
    match *shape.dims() {
        [a, b, c] => Shape::new(&[a, b, 1, c]),
        _ => None,
    }
}

/// The window of one axis as one of a row of one tap, and that axis.
fn widened(window: Window) -> Window {
    window.over(2, |[one, ..], row| [row, one, row])
}

/// An operation over lines as that over pictures of one row.
fn lift(node: &mut Node) {
    match &mut node.op {
        Op::Primitive(Primitive::Conv { window, .. } | Primitive::ConvTranspose { window, .. } | Primitive::Pool { window, .. }) => {
            *window = widened(*window)
        }
        Op::Concat { axis } if *axis == 2 => *axis = 3,
        _ => {}
    }
}
