//! Channels that are the same at all places are multiplied once, not at each place.
//!
//! Networks put what they know of a whole picture or of all points beside the features of each place and multiply both (PointNet's
//! segmentation, Qi et al. 2017, section 4.2). A product of channels that are put together is the sum of the products of each, and one
//! vector repeated has one product, which is repeated.
//!
//! Exact but for rounding.

use super::rewrite::{Index, at_each_node, broadcasted};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Binary, Coordinates, Primitive, Window};
use crate::tensor::Tensor;
use std::sync::Arc;

/// Places from which on a launch for one vector is less than what it saves.
const FEWEST_PLACES: u64 = 64;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A convolution of single places, of whose channels some are repeated.
struct Found {
    product: usize,
    /// What is not repeated: each value with its first channel.
    apart: Vec<Part>,
    /// What is repeated, as one place of it.
    common: Vec<Part>,
}

/// A value, and the first of its channels among all.
type Part = (ValueId, u32);

fn find(graph: &Graph, index: &Index, product: usize) -> Option<Found> {
    let node = &graph.nodes[product];
    let shape = |v: ValueId| graph.value(v).shape;
    let read = *node.inputs.first()?;
    let whole = shape(read);
    if !matches!(node.op, Op::Primitive(Primitive::Conv { window, groups: 1 }) if is_of_places(&window)) {
        return None;
    }
    let joined = &graph.nodes[index.producers[read.index()].filter(|_| index.uses[read.index()] == 1)?];
    let mut constants = node.inputs[1..].iter();
    let constant = constants.all(|v| strided::constant(graph, &index.producers, *v).is_some());
    let places: u64 = whole.dims()[2..].iter().map(|&n| u64::from(n)).product();
    if joined.op != (Op::Concat { axis: 1 }) || !constant || places < FEWEST_PLACES {
        return None;
    }
    let (mut apart, mut common, mut first) = (Vec::new(), Vec::new(), 0);
    for &part in &joined.inputs {
        let one = repeated(graph, index, part);
        let place = |a: usize| if a < 2 { shape(part).dim(a) } else { 1 };
        let is_place = shape(one).rank() == whole.rank() && (0..whole.rank()).all(|a| shape(one).dim(a) == place(a));
        match one != part && is_place {
            true => common.push((one, first)),
            false => apart.push((part, first)),
        }
        first += shape(part).dim(1);
    }
    // A sum of both stores its results through a longer path, which takes what a smaller share saves: 256 of 1280 channels of 48 x 80
    // pixels gain nothing.
    let repeated: u32 = common.iter().map(|&(v, _)| shape(v).dim(1)).sum();
    (!apart.is_empty() && 2 * u64::from(repeated) >= u64::from(first)).then_some(Found { product, apart, common })
}

/// What `value` is one place of, repeated or resized; itself if it is no such thing.
fn repeated(graph: &Graph, index: &Index, value: ValueId) -> ValueId {
    let node = index.producers[value.index()].map(|node| &graph.nodes[node]);
    match node.map(|node| (&node.op, node.inputs[0])) {
        // Of one place every interpolation makes that place, but for what lies outside.
        Some((Op::Primitive(Primitive::Resize(resize)), one)) if !matches!(resize.coordinates, Coordinates::CropAndResize { .. }) => one,
        _ => broadcasted(graph, index, value),
    }
}

/// True for windows of single places, each of which has a result.
fn is_of_places(window: &Window) -> bool {
    *window == Window::new(&[1; 3][..usize::from(window.axes)])
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { product, apart, common } = found;
    let node = graph.nodes[product].clone();
    let (dtype, whole) = graph.operand(node.outputs[0]);
    let name = &node.name;
    let mut nodes = Vec::new();
    let of_places = multiplied(graph, &node, &apart, "places", &mut nodes);
    let of_all = Node {
        inputs: node.inputs[..2].to_vec(),
        ..node.clone()
    };
    let of_all = multiplied(graph, &of_all, &common, "common", &mut nodes);
    let (Some(of_places), Some(of_all)) = (of_places, of_all) else {
        return;
    };
    let repeated = graph.add_value(format!("{name}.repeated"), dtype, whole);
    let single = graph.value(node.outputs[0]).single;
    for made in [of_places, of_all, repeated] {
        graph.values[made.index()].single = single;
    }
    nodes.push(Node {
        name: format!("{name}.repeated"),
        op: Op::View(ViewOp::Broadcast),
        inputs: vec![of_all],
        outputs: vec![repeated],
    });
    nodes.push(Node {
        name: node.name,
        op: Op::Primitive(Primitive::Binary(Binary::Add)),
        inputs: vec![of_places, repeated],
        outputs: node.outputs,
    });
    graph.nodes.splice(product..=product, nodes);
}

/// The product of some of the parts by the weights of their channels.
fn multiplied(graph: &mut Graph, node: &Node, parts: &[Part], which: &str, nodes: &mut Vec<Node>) -> Option<ValueId> {
    let name = format!("{}.{which}", node.name);
    let weights = weights(graph, node.inputs[1], parts)?;
    let channels = weights.shape().dim(1);
    let (dtype, first) = graph.operand(parts.first()?.0);
    let read = match *parts {
        [(part, _)] => part,
        _ => {
            let joined = graph.add_value(format!("{name}.parts"), dtype, first.with_dim(1, channels)?);
            nodes.push(Node {
                name: format!("{name}.parts"),
                op: Op::Concat { axis: 1 },
                inputs: parts.iter().map(|(v, _)| *v).collect(),
                outputs: vec![joined],
            });
            joined
        }
    };
    let made = first.with_dim(1, weights.shape().dim(0))?;
    let weights = graph.add_constant(format!("{name}.weights"), Arc::new(weights));
    let output = graph.add_value(&*name, graph.value(node.outputs[0]).dtype, made);
    nodes.push(Node {
        name,
        op: node.op.clone(),
        inputs: [read, weights].into_iter().chain(node.inputs.get(2).copied()).collect(),
        outputs: vec![output],
    });
    Some(output)
}

/// The weights of the channels of some parts.
fn weights(graph: &Graph, of: ValueId, parts: &[Part]) -> Option<Tensor> {
    let (tensor, at) = strided::constant(graph, &strided::producers(graph), of)?;
    let all = strided::gather(&tensor, &at)?;
    let width = all.dtype().bytes() as usize;
    let ranges: Vec<_> = parts
        .iter()
        .map(|&(v, first)| (first as usize, graph.value(v).shape.dim(1) as usize))
        .collect();
    let rows = all.bytes().chunks_exact(all.shape().dim(1) as usize * width);
    let own = rows.flat_map(|row| ranges.iter().map(move |&(first, count)| &row[first * width..][..count * width]));
    let bytes = own.collect::<Vec<_>>().concat();
    let count = ranges.iter().map(|&(_, count)| count as u32).sum();
    Tensor::from_bytes(all.dtype(), all.shape().with_dim(1, count)?, &bytes)
}
