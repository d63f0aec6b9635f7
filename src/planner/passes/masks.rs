//! Constants that are added to scores one after another, before their softmax, become one: attention takes one mask.
//!
//! Shifted windows (Liu et al. 2021, section 3.2) add a bias of positions and, with the windows an axis of their own, what keeps
//! windows' parts apart.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive};
use crate::tensor::{DType, Data, Tensor};
use std::sync::Arc;

/// Most elements of a mask: those that were repeated are stored.
const LARGEST: u64 = 1 << 22;

pub fn run(graph: &mut Graph) {
    let mut index = Index::of(graph);
    let mut node = 0;
    while node < graph.nodes.len() {
        if matches!(graph.nodes[node].op, Op::Primitive(Primitive::Softmax { .. }))
            && let Some((scores, mask)) = masked(graph, &index, graph.nodes[node].inputs[0])
        {
            apply(graph, node, scores, mask);
            index = Index::of(graph);
            node += 1;
        }
        node += 1;
    }
    super::drop_dead::run(graph);
}

/// What `sum` is without the constants that are added to it, and these in one; `None` where it is as plain as that already.
fn masked(graph: &Graph, index: &Index, sum: ValueId) -> Option<(ValueId, Tensor)> {
    let shape = graph.value(sum).shape;
    if shape.elements() > LARGEST || graph.value(sum).dtype != DType::F32 {
        return None;
    }
    let (mut value, mut steps, mut mask, mut found) = (sum, 0, None::<Vec<f32>>, None);
    while index.uses[value.index()] == 1
        && let Some(producer) = index.producers[value.index()]
    {
        let node = &graph.nodes[producer];
        if node.op == Op::View(ViewOp::Reshape) {
            value = node.inputs[0];
        } else if let Some([a, b]) = index.operands(graph, Binary::Add, value) {
            let added = |sum: ValueId, rest: ValueId| elements(graph, index, sum).map(|elements| (rest, elements));
            let Some((other, added)) = added(b, a).or_else(|| added(a, b)) else {
                break;
            };
            match &mut mask {
                // Whatever the axes, elements stay in their order.
                Some(all) => all.iter_mut().zip(added).for_each(|(all, one)| *all += one),
                None => mask = Some(added),
            }
            value = other;
        } else {
            break;
        }
        steps += 1;
        if graph.value(value).shape == shape && steps > 1 {
            found = mask.clone().map(|mask| (value, mask));
        }
    }
    let (scores, mask) = found?;
    Some((scores, Tensor::new(shape, Data::F32(mask))?))
}

/// All elements of a constant, those of repetitions too, in order.
fn elements(graph: &Graph, index: &Index, value: ValueId) -> Option<Vec<f32>> {
    let (tensor, at) = strided::constant(graph, &index.producers, value)?;
    Some(strided::gather(&tensor, &at)?.as_f32()?.to_vec())
}

/// Lets the softmax `node` read `scores` and the mask.
fn apply(graph: &mut Graph, node: usize, scores: ValueId, mask: Tensor) {
    let name = format!("{}.masked", graph.nodes[node].name);
    let (dtype, shape) = (graph.value(scores).dtype, mask.shape());
    let mask = graph.add_constant(format!("{}.mask", graph.nodes[node].name), Arc::new(mask));
    let sum = graph.add_value(name.clone(), dtype, shape);
    graph.nodes[node].inputs[0] = sum;
    let add = Node {
        name,
        op: Op::Primitive(Primitive::Binary(Binary::Add)),
        inputs: vec![scores, mask],
        outputs: vec![sum],
    };
    graph.nodes.insert(node, add);
}
