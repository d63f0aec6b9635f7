//! A convolution whose windows lie side by side, as those that cut a picture into patches do, becomes a matrix product of the
//! patches: what follows reads the result as rows of features already. For GPUs, and for windows wider than their kernels of
//! first layers take.
//!
//! Exact but for rounding: the same products are summed in another order.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::Primitive;
use crate::tensor::Shape;

/// Extent of a window from which on it is a patch.
const MIN_EXTENT: u32 = 8;

pub fn run(graph: &mut Graph) {
    let mut node = 0;
    while node < graph.nodes.len() {
        if patches(graph, node) {
            node += apply(graph, node).unwrap_or(0);
        }
        node += 1;
    }
    super::drop_dead::run(graph);
}

fn patches(graph: &Graph, node: usize) -> bool {
    let Op::Primitive(Primitive::Conv { window, groups: 1 }) = graph.nodes[node].op else {
        return false;
    };
    let inputs = &graph.nodes[node].inputs;
    let (dtype, x) = graph.operand(inputs[0]);
    let y = graph.value(graph.nodes[node].outputs[0]).shape;
    let index = Index::of(graph);
    let known = |value: &ValueId| strided::constant(graph, &index.producers, *value).is_some();
    let side_by_side = window.axes == 2
        && window.kernel == window.stride
        && window.dilation == [1; 3]
        && (window.pad_begin, window.pad_end) == ([0; 3], [0; 3])
        && (0..2).all(|a| window.kernel[a] >= MIN_EXTENT && x.dim(a + 2) == y.dim(a + 2) * window.kernel[a]);
    side_by_side && dtype.is_float() && y.elements() > 0 && inputs[1..].iter().all(known)
}

/// Writes the product in place of the convolution; says how many nodes that put before its place.
fn apply(graph: &mut Graph, node: usize) -> Option<usize> {
    let (name, inputs) = (graph.nodes[node].name.clone(), graph.nodes[node].inputs.clone());
    let output = graph.nodes[node].outputs[0];
    let (dtype, x) = graph.operand(inputs[0]);
    let (w, y) = (graph.value(inputs[1]).shape, graph.value(output).shape);
    let [n, c, _, _] = *x.dims() else { return None };
    let [outputs, _, kh, kw] = *w.dims() else { return None };
    let (rows, columns) = (y.dim(2), y.dim(3));
    let count = n.checked_mul(rows)?.checked_mul(columns)?;
    let depth = c.checked_mul(kh)?.checked_mul(kw)?;
    let mut nodes = Vec::new();
    let mut step = |graph: &mut Graph, op: Op, inputs: Vec<ValueId>, shape: Shape| {
        let name = format!("{name}:{}", nodes.len() + 1);
        let made = graph.add_value(name.clone(), dtype, shape);
        nodes.push(Node {
            name,
            op,
            inputs,
            outputs: vec![made],
        });
        made
    };
    let transpose = |perm: &[usize]| Op::View(ViewOp::Transpose { perm: perm.to_vec() });
    let reshape = || Op::View(ViewOp::Reshape);
    let cut = step(graph, reshape(), vec![inputs[0]], Shape::new(&[n, c, rows, kh, columns, kw])?);
    let patches = step(
        graph,
        transpose(&[0, 2, 4, 1, 3, 5]),
        vec![cut],
        Shape::new(&[n, rows, columns, c, kh, kw])?,
    );
    let flat = step(graph, reshape(), vec![patches], Shape::new(&[count, depth])?);
    let weights = step(graph, reshape(), vec![inputs[1]], Shape::new(&[outputs, depth])?);
    let weights = step(graph, transpose(&[1, 0]), vec![weights], Shape::new(&[depth, outputs])?);
    let product = Shape::new(&[count, outputs])?;
    let mut operands = vec![flat, weights];
    if let Some(&bias) = inputs.get(2) {
        operands.push(step(graph, Op::View(ViewOp::Broadcast), vec![bias], product));
    }
    let features = step(graph, Op::Primitive(Primitive::MatMul), operands, product);
    let picture = step(graph, reshape(), vec![features], Shape::new(&[n, rows, columns, outputs])?);
    let before = nodes.len();
    graph.nodes[node].op = transpose(&[0, 3, 1, 2]);
    graph.nodes[node].inputs = vec![picture];
    graph.nodes.splice(node..node, nodes);
    Some(before)
}
