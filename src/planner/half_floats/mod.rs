//! Half-precision activations and weights: every f32 value inside a network becomes f16, converted at its borders.
//!
//! Arithmetic stays in f32 (see [`crate::plan::format::Rounding`]). What a decoder works with stays f32, and so do tensor
//! inputs and results, which keep the type that ONNX declares, unless [`Ports::Half`] is asked for.
//!
//! | file | idea |
//! |---|---|
//! | this one | the types of values, the borders of the network |
//! | [`growth`] | what quotients, roots and logarithms bring back, which is f32 |
//! | [`islands`] | coordinates and counts, which stay f32 |
//! | [`joined`] | results that are put together of what functions make |
//! | [`numbers`] | what f16 makes of constants |
//! | [`sums`] | sums that f16 does not hold, of squares, of exponentials, and before they are scaled |

mod growth;
mod islands;
mod joined;
mod numbers;
mod sums;
#[cfg(test)]
mod tests;

use super::attach::{Attached, ResultOf};
use super::graph::{Graph, Named, Node, Op, ValueId, ViewOp};
use super::passes::rewrite::replace;
use crate::primitive::{Primitive, Scalar, Unary};
use crate::tensor::DType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The type of tensor inputs and results that the network declares as f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// They stay f32.
    #[default]
    Declared,
    /// They become f16.
    Half,
}

/// Converts the network.
pub fn convert(mut attached: Attached, ports: Ports) -> Attached {
    let graph = &mut attached.graph;
    let mut kept = islands::find(graph, &attached.results, ports);
    let wide = sums::settle(graph, &kept);
    kept.extend(wide);
    let growing = growth::find(graph, &kept);
    kept.extend(growing);
    let results = results(graph, &attached.results);
    numbers::settle_comparisons(graph, &kept);
    let casts = casts(graph);
    let single: Vec<bool> = graph.outputs.iter().map(|n| graph.value(n.value).dtype == DType::F32).collect();
    borders_in(graph, &attached.results, &kept);
    for (index, value) in graph.values.iter_mut().enumerate() {
        let id = ValueId(index as u32);
        let border = graph.inputs.iter().any(|n| n.value == id) || results.contains(&id) || kept.contains(&id);
        if value.dtype != DType::F32 || border {
            continue;
        }
        value.dtype = DType::F16;
        if let Some(data) = value.data.as_deref() {
            value.data = numbers::rounded(data).map(Arc::new);
        }
    }
    for node in &mut graph.nodes {
        let halves = node.outputs.iter().all(|v| graph.values[v.index()].dtype == DType::F16);
        if let Op::Primitive(Primitive::Unary(Unary::Clip(low, high))) = &mut node.op
            && halves
        {
            (*low, *high) = (Scalar(numbers::held(low.0)), Scalar(numbers::held(high.0)));
        }
    }
    islands::settle_borders(graph, &kept);
    borders_out(graph, &single, &kept, ports);
    match ports {
        Ports::Declared => joined::widen(graph),
        Ports::Half => {
            halve_ports(graph, &attached.results);
            drop_copies(graph);
        }
    }
    drop_casts(graph, &casts);
    attached
}

/// What copies inside a network make of halves in f32, or of f32 in halves, as networks that were exported in f16 do around functions
/// whose sums are f32.
fn casts(graph: &Graph) -> BTreeSet<ValueId> {
    let is_port = |named: &[Named], value: ValueId| named.iter().any(|n| n.value == value);
    let inside = |node: &&Node| {
        let [from, to] = [node.inputs[0], node.outputs[0]];
        // An f32 result is converted behind what is its value here.
        match (graph.value(from).dtype, graph.value(to).dtype) {
            (DType::F16, DType::F32) => !is_port(&graph.inputs, from),
            (DType::F32, DType::F16) => !is_port(&graph.inputs, from) && !is_port(&graph.outputs, to),
            _ => false,
        }
    };
    let copies = graph.nodes.iter().filter(|n| n.op == Op::Primitive(Primitive::Copy));
    copies.filter(inside).map(|n| n.outputs[0]).collect()
}

/// Drops the casts between what is one type now.
fn drop_casts(graph: &mut Graph, casts: &BTreeSet<ValueId>) {
    let mut at = 0;
    while let Some(node) = graph.nodes.get(at) {
        let (from, to) = (node.inputs.first().copied(), node.outputs.first().copied());
        if let (Some(from), Some(to)) = (from, to)
            && casts.contains(&to)
            && graph.operand(from) == graph.operand(to)
        {
            graph.nodes.remove(at);
            replace(graph, to, from);
        } else {
            at += 1;
        }
    }
}

/// Values that primitives of decoding make in f32 whatever they read, and what is picked from other tenants' results.
fn results(graph: &Graph, foreign: &BTreeMap<ValueId, ResultOf>) -> BTreeSet<ValueId> {
    let mut keep = BTreeSet::new();
    for node in &graph.nodes {
        let Op::Primitive(primitive) = &node.op else { continue };
        match primitive {
            Primitive::DecodeYolox { .. } | Primitive::Nms(_) => keep.extend(&node.outputs),
            Primitive::Gather { .. } if foreign.contains_key(&node.inputs[0]) => keep.extend(&node.outputs),
            _ => {}
        }
    }
    keep
}

/// Lets readers of an f32 input read a conversion of it; other tenants' results are read as they are, and inputs that are `kept`
/// by those that compute in f32.
fn borders_in(graph: &mut Graph, foreign: &BTreeMap<ValueId, ResultOf>, kept: &BTreeSet<ValueId>) {
    let inputs: Vec<(String, ValueId)> = graph.inputs.iter().map(|n| (n.name.clone(), n.value)).collect();
    let mut conversions = Vec::new();
    for (name, value) in inputs {
        let (dtype, shape) = graph.operand(value);
        if dtype != DType::F32 || foreign.contains_key(&value) || kept.contains(&value) {
            continue;
        }
        // The copy's own type follows with all others that are not at a border.
        let inner = graph.add_value(format!("{name}.f16"), DType::F32, shape);
        for input in graph.nodes.iter_mut().flat_map(|n| &mut n.inputs).filter(|v| **v == value) {
            *input = inner;
        }
        conversions.push(Node::copy(format!("{name}.f16"), value, inner));
    }
    graph.nodes.splice(0..0, conversions);
}

/// Converts results that were f32 back, and those that are `kept` where ports are halves.
fn borders_out(graph: &mut Graph, single: &[bool], kept: &BTreeSet<ValueId>, ports: Ports) {
    for (index, &single) in single.iter().enumerate() {
        let value = graph.outputs[index].value;
        let outer = match graph.value(value).dtype {
            DType::F16 => (DType::F32, "f32"),
            DType::F32 if ports == Ports::Half && kept.contains(&value) => (DType::F16, "f16"),
            _ => continue,
        };
        if !single {
            continue;
        }
        let name = format!("{}.{}", graph.outputs[index].name, outer.1);
        let outer = graph.add_value(name.clone(), outer.0, graph.value(value).shape);
        graph.nodes.push(Node::copy(name, value, outer));
        graph.outputs[index].value = outer;
    }
}

/// Makes f16 of what is f32 at the borders. The conversions there stay as copies, which leave the layout inside free.
fn halve_ports(graph: &mut Graph, foreign: &BTreeMap<ValueId, ResultOf>) {
    let ports = graph.inputs.iter().chain(&graph.outputs);
    let copied: Vec<ValueId> = ports
        .map(|n| n.value)
        .filter(|value| !foreign.contains_key(value))
        .filter(|value| {
            graph
                .nodes
                .iter()
                .filter(|n| n.inputs.contains(value) || n.outputs.contains(value))
                .all(|n| matches!(n.op, Op::Primitive(Primitive::Copy)))
        })
        .collect();
    for value in copied {
        let value = &mut graph.values[value.index()];
        if value.dtype == DType::F32 {
            value.dtype = DType::F16;
        }
    }
}

/// Drops the copies at half ports that leave nothing free: of an input that is only looked at in other ways, each of which is copied
/// or joined anew anyway, and of what a concatenation has put together, whose parts lie as the port wants them.
fn drop_copies(graph: &mut Graph) {
    let is_input = |value: ValueId| graph.inputs.iter().any(|n| n.value == value);
    let is_output = |value: ValueId| graph.outputs.iter().any(|n| n.value == value);
    let joined = |value: ValueId| {
        graph
            .nodes
            .iter()
            .any(|n| n.outputs.contains(&value) && matches!(n.op, Op::Concat { .. }))
    };
    let mut dropped = Vec::new();
    for node in &graph.nodes {
        let (Op::Primitive(Primitive::Copy), &[from], &[to]) = (&node.op, &node.inputs[..], &node.outputs[..]) else {
            continue;
        };
        if (graph.value(from).dtype, graph.value(to).dtype) != (DType::F16, DType::F16)
            || is_output(from)
            || graph.value(from).data.is_some()
        {
            continue;
        }
        let free = match (is_input(from), is_output(to)) {
            (true, false) => !is_copied_anyway(graph, to),
            (false, true) => !(joined(from) && readers(graph, from).count() == 1),
            _ => true,
        };
        if !free {
            dropped.push((to, from));
        }
    }
    graph.nodes.retain(|n| dropped.iter().all(|(to, _)| !n.outputs.contains(to)));
    dropped.into_iter().for_each(|(to, from)| replace(graph, to, from));
}

fn readers(graph: &Graph, value: ValueId) -> impl Iterator<Item = &Node> {
    graph.nodes.iter().filter(move |n| n.inputs.contains(&value))
}

/// True if a value is looked at in other ways, and all that reads it or looks at it copies or joins it.
fn is_copied_anyway(graph: &Graph, value: ValueId) -> bool {
    let looks = |n: &Node| matches!(n.op, Op::View(ViewOp::Reshape | ViewOp::Transpose { .. }));
    let copies = |n: &Node| matches!(n.op, Op::Primitive(Primitive::Copy) | Op::Concat { .. });
    let mut values = vec![value];
    let mut met = 0;
    while let Some(&value) = values.get(met) {
        met += 1;
        if graph.outputs.iter().any(|n| n.value == value) || !readers(graph, value).all(|n| looks(n) || copies(n)) {
            return false;
        }
        values.extend(readers(graph, value).filter(|n| looks(n)).flat_map(|n| n.outputs.iter().copied()));
    }
    met > 1
}
