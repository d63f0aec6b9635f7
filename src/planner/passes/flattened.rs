//! A matrix product of flattened pictures takes their elements in the order in which pictures are stored, channels last: the
//! rows of its constant weights are put into that order, and nothing is copied before it.
//!
//! Exact but for rounding: the same products are summed in another order.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::Primitive;
use crate::tensor::{Shape, Tensor};
use std::sync::Arc;

/// Pixels before channels: a picture's axes in the order of storage, and its weights' with those of the outputs behind them.
const STORED: [usize; 4] = [0, 2, 3, 1];
const STORED_WEIGHTS: [usize; 4] = [1, 2, 0, 3];

pub fn run(graph: &mut Graph) {
    let mut node = 0;
    while node < graph.nodes.len() {
        if let Some((picture, weights)) = find(graph, node) {
            node += apply(graph, node, picture, weights);
        }
        node += 1;
    }
    super::drop_dead::run(graph);
}

/// The picture that a matrix product reads flattened, and its weights with their rows in the other order.
fn find(graph: &Graph, node: usize) -> Option<(ValueId, Tensor)> {
    let Op::Primitive(Primitive::MatMul) = graph.nodes[node].op else {
        return None;
    };
    let index = Index::of(graph);
    let (x, weights) = (graph.nodes[node].inputs[0], graph.nodes[node].inputs[1]);
    let flatten = &graph.nodes[index.producers[x.index()]?];
    let picture = *flatten.inputs.first().filter(|_| flatten.op == Op::View(ViewOp::Reshape))?;
    let [samples, channels, rows, columns] = *graph.value(picture).shape.dims() else {
        return None;
    };
    let turns = channels > 1 && u64::from(rows) * u64::from(columns) > 1;
    let flat = graph.value(x).shape.rank() == 2 && graph.value(x).shape.dim(0) == samples;
    let (_, made) = index.primitive(graph, picture)?;
    let stored_so = matches!(
        made,
        Primitive::Conv { .. } | Primitive::Pool { .. } | Primitive::Unary(_) | Primitive::Binary(_)
    );
    let (tensor, at) = strided::constant(graph, &index.producers, weights).filter(|_| turns && flat && stored_so)?;
    let outputs = at.layout.shape.dims().get(1).copied().filter(|_| at.layout.shape.rank() == 2)?;
    let apart = at.view(&ViewOp::Reshape, Shape::new(&[channels, rows, columns, outputs])?)?;
    let perm = STORED_WEIGHTS.to_vec();
    let turned = apart.view(&ViewOp::Transpose { perm }, Shape::new(&[rows, columns, channels, outputs])?)?;
    let turned = strided::gather(&tensor, &turned)?;
    let turned = Tensor::from_bytes(turned.dtype(), at.layout.shape, turned.bytes())?;
    Some((picture, turned))
}

/// Lets the product read `picture` in the order of storage; says how many nodes that put before it.
fn apply(graph: &mut Graph, node: usize, picture: ValueId, weights: Tensor) -> usize {
    let (name, dtype) = (graph.nodes[node].name.clone(), graph.value(picture).dtype);
    let shape = graph.value(picture).shape;
    let flat = graph.value(graph.nodes[node].inputs[0]).shape;
    let dims: Vec<u32> = STORED.iter().map(|&axis| shape.dim(axis)).collect();
    let Some(stored) = Shape::new(&dims) else { return 0 };
    let mut view = |name: String, op: ViewOp, input: ValueId, shape: Shape| {
        let output = graph.add_value(name.clone(), dtype, shape);
        let node = Node {
            name,
            op: Op::View(op),
            inputs: vec![input],
            outputs: vec![output],
        };
        (output, node)
    };
    let perm = STORED.to_vec();
    let (turned, turn) = view(format!("{name}.turned"), ViewOp::Transpose { perm }, picture, stored);
    let (flattened, flatten) = view(format!("{name}.flattened"), ViewOp::Reshape, turned, flat);
    let weights = graph.add_constant(format!("{name}.weights"), Arc::new(weights));
    graph.nodes[node].inputs[..2].copy_from_slice(&[flattened, weights]);
    graph.nodes.splice(node..node, [turn, flatten]);
    2
}
