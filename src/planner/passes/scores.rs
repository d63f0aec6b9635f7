//! Scores keep the axes of the product that makes them as far as the product that reads them: what is added to them and their softmax
//! are found between the two.
//!
//! Windows and grids (Tu et al., "MaxViT", 2022) are axes of their own where positions are added, and one with the heads or the
//! samples in products. The last axis is the same, so neither sums nor softmaxes care.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive};
use crate::tensor::Shape;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A softmax of scores under other axes than their product's.
struct Found {
    softmax: usize,
    /// The product's result.
    scores: ValueId,
    /// The sums from the product on, each with the constant that it adds.
    sums: Vec<ValueId>,
    /// The reader that looks at the shares under the product's axes again.
    reader: usize,
}

fn find(graph: &Graph, index: &Index, softmax: usize) -> Option<Found> {
    let node = &graph.nodes[softmax];
    let (Op::Primitive(Primitive::Softmax { axis }), &[read], &[made]) = (&node.op, &node.inputs[..], &node.outputs[..]) else {
        return None;
    };
    let shape = |v: ValueId| graph.value(v).shape;
    let alone = |v: ValueId| index.uses[v.index()] == 1;
    let last = |shape: Shape| shape.dims().last().copied();
    let (mut at, mut sums, mut reshaped) = (read, Vec::new(), false);
    let scores = loop {
        let it = &graph.nodes[index.producers[at.index()].filter(|_| alone(at))?];
        let constant = |v: ValueId| strided::constant(graph, &index.producers, v).is_some();
        at = match (&it.op, &it.inputs[..]) {
            (Op::View(ViewOp::Reshape), &[from]) => {
                reshaped = true;
                from
            }
            (Op::Primitive(Primitive::Binary(Binary::Add)), &[a, b]) if constant(a) != constant(b) => {
                let (sum, from) = if constant(a) { (a, b) } else { (b, a) };
                sums.push(sum);
                from
            }
            (Op::Primitive(Primitive::MatMul), _) => break at,
            _ => return None,
        };
    };
    let reader = graph.nodes.iter().position(|n| n.inputs.contains(&made)).filter(|_| alone(made))?;
    let back = graph.nodes[reader].op == Op::View(ViewOp::Reshape) && shape(graph.nodes[reader].outputs[0]) == shape(scores);
    let along = usize::from(*axis) + 1 == shape(read).rank() && last(shape(read)) == last(shape(scores));
    let seen = |sum: &ValueId| {
        let (_, at) = strided::constant(graph, &index.producers, *sum)?;
        at.view(&ViewOp::Reshape, shape(scores))
    };
    let fits = reshaped && back && along && sums.iter().all(|sum| seen(sum).is_some());
    sums.reverse();
    fits.then_some(Found {
        softmax,
        scores,
        sums,
        reader,
    })
}

fn apply(graph: &mut Graph, found: Found) {
    let Found {
        softmax,
        scores,
        sums,
        reader,
    } = found;
    let name = graph.nodes[softmax].name.clone();
    let (dtype, shape) = graph.operand(scores);
    let mut nodes = Vec::new();
    let mut add = |graph: &mut Graph, part: String, op: Op, inputs: Vec<ValueId>, made: Option<ValueId>| {
        let name = format!("{name}.{part}");
        let made = made.unwrap_or_else(|| graph.add_value(name.clone(), dtype, shape));
        nodes.push(Node {
            name,
            op,
            inputs,
            outputs: vec![made],
        });
        made
    };
    let mut total = scores;
    for (at, sum) in sums.into_iter().enumerate() {
        let mask = add(graph, format!("mask{at}"), Op::View(ViewOp::Reshape), vec![sum], None);
        let op = Op::Primitive(Primitive::Binary(Binary::Add));
        total = add(graph, format!("masked{at}"), op, vec![total, mask], None);
    }
    let axis = shape.rank().saturating_sub(1) as u8;
    let shares = graph.nodes[reader].outputs[0];
    add(
        graph,
        "shares".into(),
        Op::Primitive(Primitive::Softmax { axis }),
        vec![total],
        Some(shares),
    );
    // The reader stands behind the softmax.
    graph.nodes.remove(reader);
    graph.nodes.splice(softmax..=softmax, nodes);
}
