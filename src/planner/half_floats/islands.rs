//! Islands of f32 in a network of halves: coordinates and counts, whose digits f16 does not hold.
//!
//! Five kinds of values are wanted in f32:
//!
//! - those that formulas mark ([`single`](crate::planner::graph::Value::single)), such as the turns of an angle;
//! - sums of quantized numbers, which are marked too, and what is computed from them until they are scaled;
//! - floats made of integers that may exceed 2048 in size, with what is computed from them, the network's inputs and constants;
//! - the grids of places that pictures are sampled at;
//! - f32 results, and floats that become integers or truth values, which come of inputs and integers by light functions alone.
//!
//! So is all that these are computed from by light functions: elementwise ones, views and concatenations, gathering, products and
//! reductions over at most four terms, which is how points are projected. What other primitives make, such as convolutions and
//! normalisations, is the network's own and stays f16. Where halves meet an island they are widened; what leaves an island for the
//! network is cut off at the largest half first.

use super::numbers;
use super::{Ports, ResultOf};
use crate::planner::graph::{Graph, Node, Op, Ranges, ValueId, WHOLE_HALVES};
use crate::planner::strided;
use crate::primitive::{Binary, Places, Primitive, Sample, Scalar, Unary};
use crate::tensor::DType;
use half::f16;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most terms of sums in islands: homogeneous coordinates.
const MOST_TERMS: u64 = 4;

/// What a float comes of. Of several the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// Constants alone.
    Constant,
    /// Inputs, or integers that f16 holds.
    Given,
    /// Integers that it does not hold.
    Counted,
    /// The network's own primitives.
    Network,
    /// Sums of quantized numbers, which halves hold only once they are scaled.
    Summed,
}

/// What a function does to floats, as far as islands go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Picks or moves elements.
    Moving,
    /// Computes few operations an element.
    Light,
    /// The network's own work.
    Heavy,
}

fn weight(graph: &Graph, node: &Node) -> Weight {
    let Some(&x) = node.inputs.first() else { return Weight::Heavy };
    let shape = graph.value(x).shape;
    let light = |terms: u64| if terms <= MOST_TERMS { Weight::Light } else { Weight::Heavy };
    match &node.op {
        Op::View(_) | Op::Concat { .. } | Op::Primitive(Primitive::Gather { .. } | Primitive::Pad { .. }) => Weight::Moving,
        Op::Primitive(Primitive::Copy) if graph.value(x).dtype.is_float() => Weight::Moving,
        Op::Primitive(Primitive::Copy | Primitive::Unary(_) | Primitive::Binary(_)) => Weight::Light,
        Op::Primitive(Primitive::MatMul) => light(u64::from(shape.dim(shape.rank() - 1))),
        Op::Primitive(Primitive::Reduce { axes, .. }) => light(shape.elements_along(*axes)),
        Op::Primitive(_) => Weight::Heavy,
    }
}

/// The floats that stay f32.
pub fn find(graph: &Graph, foreign: &BTreeMap<ValueId, ResultOf>, ports: Ports) -> BTreeSet<ValueId> {
    let origins = origins(graph, foreign, ports);
    let light = light(graph, &origins);
    let single = |value: ValueId| graph.value(value).dtype == DType::F32;
    let comes = |value: ValueId| matches!(origins[value.index()], Origin::Given | Origin::Counted);
    let marked = graph.values.iter().enumerate().filter(|(_, v)| v.single);
    let mut wanted: Vec<ValueId> = marked.map(|(index, _)| ValueId(index as u32)).collect();
    for node in &graph.nodes {
        match &node.op {
            Op::Primitive(Primitive::Sample(Sample {
                places: Places::Grid { .. } | Places::Sums { .. },
                ..
            })) => wanted.push(node.inputs[1]),
            Op::Primitive(Primitive::Copy) if !graph.value(node.outputs[0]).dtype.is_float() && comes(node.inputs[0]) => {
                wanted.push(node.inputs[0]);
            }
            // Where elements are only moved, halves do unless others want more.
            _ if weight(graph, node) == Weight::Light => {
                let scales = node.inputs.iter().any(|v| origins[v.index()] == Origin::Summed);
                wanted.extend(node.outputs.iter().filter(|v| scales || origins[v.index()] == Origin::Counted));
            }
            _ => {}
        }
    }
    let producers = strided::producers(graph);
    let results = graph.outputs.iter().map(|n| n.value);
    wanted.extend(results.filter(|&v| comes(v) && producers[v.index()].is_some()));
    let mut kept = BTreeSet::new();
    while let Some(value) = wanted.pop() {
        if single(value) && light[value.index()] && kept.insert(value) {
            wanted.extend(producers[value.index()].into_iter().flat_map(|node| &graph.nodes[node].inputs));
        }
    }
    kept
}

/// What all values come of.
fn origins(graph: &Graph, foreign: &BTreeMap<ValueId, ResultOf>, ports: Ports) -> Vec<Origin> {
    let ranges = Ranges::of(graph);
    let constant = |data: bool| if data { Origin::Constant } else { Origin::Network };
    let mut origins: Vec<Origin> = graph.values.iter().map(|v| constant(v.data.is_some())).collect();
    // Halves that are given hold no more than halves.
    let inputs = graph.inputs.iter().map(|n| n.value).filter(|v| !foreign.contains_key(v));
    for value in inputs.filter(|&v| ports == Ports::Declared && graph.value(v).dtype == DType::F32) {
        origins[value.index()] = Origin::Given;
    }
    for node in &graph.nodes {
        if weight(graph, node) == Weight::Heavy {
            let sums = node.outputs.iter().filter(|v| graph.value(**v).single);
            sums.for_each(|v| origins[v.index()] = Origin::Summed);
            continue;
        }
        let of = |&value: &ValueId| match (&node.op, graph.value(value).dtype.is_float()) {
            (_, true) => Some(origins[value.index()]),
            (Op::Primitive(Primitive::Copy), _) if origins[value.index()] == Origin::Summed => Some(Origin::Summed),
            (Op::Primitive(Primitive::Copy), _) if ranges.within(value, WHOLE_HALVES) => Some(Origin::Given),
            (Op::Primitive(Primitive::Copy), _) => Some(Origin::Counted),
            _ => None,
        };
        let scales = matches!(node.op, Op::Primitive(Primitive::Binary(Binary::Mul | Binary::Div)));
        let origin = match node.inputs.iter().filter_map(of).max() {
            Some(Origin::Summed) if scales => Origin::Network,
            origin => origin.unwrap_or(Origin::Network),
        };
        node.outputs.iter().for_each(|v| origins[v.index()] = origin);
    }
    origins
}

/// Which values hold more digits in f32 than in f16: all but what the network's own primitives make without being marked, and
/// what is picked from that.
fn light(graph: &Graph, origins: &[Origin]) -> Vec<bool> {
    let mut light: Vec<bool> = origins.iter().map(|&origin| origin != Origin::Network).collect();
    for node in &graph.nodes {
        let more = match weight(graph, node) {
            Weight::Light => true,
            Weight::Moving => node.inputs.iter().any(|v| graph.value(*v).dtype == DType::F32 && light[v.index()]),
            Weight::Heavy => node.outputs.iter().any(|v| graph.value(*v).single),
        };
        node.outputs.iter().for_each(|v| light[v.index()] |= more);
    }
    light
}

/// Lets functions of islands read f32 and all others f16, by copies and constants of the other type.
pub fn settle_borders(graph: &mut Graph, kept: &BTreeSet<ValueId>) {
    if kept.is_empty() {
        return;
    }
    let mut others: BTreeMap<(ValueId, DType), ValueId> = BTreeMap::new();
    for mut node in std::mem::take(&mut graph.nodes) {
        let island = node.outputs.iter().any(|v| kept.contains(v));
        for index in 0..node.inputs.len() {
            let value = node.inputs[index];
            let wanted = match &node.op {
                Op::Primitive(Primitive::Copy) => continue,
                Op::Primitive(Primitive::Sample(_)) if index == 1 => continue,
                _ if island => DType::F32,
                _ if kept.contains(&value) => DType::F16,
                _ => continue,
            };
            let dtype = graph.value(value).dtype;
            if dtype.is_float() && dtype != wanted {
                let other = others.get(&(value, wanted)).copied();
                node.inputs[index] = other.unwrap_or_else(|| converted(graph, value, wanted));
                others.insert((value, wanted), node.inputs[index]);
            }
        }
        graph.nodes.push(node);
    }
}

/// A value in the other type of floats; nodes that make it are added.
fn converted(graph: &mut Graph, value: ValueId, dtype: DType) -> ValueId {
    let name = graph.value(value).name.clone();
    let shape = graph.value(value).shape;
    let (suffix, narrows) = if dtype == DType::F16 { ("f16", true) } else { ("f32", false) };
    if narrows && let Some(half) = graph.value(value).data.as_deref().and_then(numbers::rounded) {
        return graph.add_constant(format!("{name}.{suffix}"), Arc::new(half));
    }
    let mut from = value;
    let given = graph.inputs.iter().any(|n| n.value == value);
    if narrows && !given {
        let most = f16::MAX.to_f32();
        from = graph.add_value(format!("{name}.bound"), DType::F32, shape);
        let clip = Op::Primitive(Primitive::Unary(Unary::Clip(Scalar(-most), Scalar(most))));
        graph.add_node(format!("{name}.bound"), clip, vec![value], vec![from]);
    }
    let to = graph.add_value(format!("{name}.{suffix}"), dtype, shape);
    graph.nodes.push(Node::copy(format!("{name}.{suffix}"), from, to));
    to
}
