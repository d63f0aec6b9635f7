//! Normalisation of pictures whose groups of channels are flattened, as group and instance normalisation are spelled, becomes
//! [`Primitive::GroupNormalise`] of the pictures themselves: nothing has to be brought into C order, and what follows per channel
//! can join it. The same positions are summed in the same order. So does normalisation spelled with means over all places, or these
//! and the channels.

use super::fold_batchnorm::{floats, per_channel, repeated, viewed};
use super::normalise::normalised;
use super::rewrite::{Index, replace};
use crate::planner::graph::{Graph, Op, ValueId, ViewOp};
use crate::primitive::{Binary, Primitive, Scalar};
use crate::tensor::{Shape, Tensor};
use std::sync::Arc;

pub fn run(graph: &mut Graph) {
    spelled(graph);
    let mut index = Index::of(graph);
    let mut node = 0;
    while node < graph.nodes.len() {
        if let Some(found) = find(graph, &index, node) {
            apply(graph, node, found);
            index = Index::of(graph);
        }
        node += 1;
    }
    super::drop_dead::run(graph);
}

/// Finds normalisations over several axes.
fn spelled(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let found = normalised(graph, &index, node);
        let over = found.and_then(|(x, axes, epsilon)| Some((x, groups(graph.value(x).shape, axes)?, epsilon)));
        if let Some((x, groups, epsilon)) = over {
            graph.nodes[node].op = Op::Primitive(Primitive::GroupNormalise { groups, epsilon });
            graph.nodes[node].inputs = vec![x];
        }
    }
    super::drop_dead::run(graph);
}

/// The groups of channels that all places are normalised with; `None` for other axes than these.
fn groups(shape: Shape, axes: u8) -> Option<u32> {
    let from = |first: u32| u32::from(axes) == (1 << shape.rank()) - (1 << first);
    let groups = match shape.rank() {
        3.. if from(1) => 1,
        4.. if from(2) => shape.dim(1),
        _ => 0,
    };
    (groups > 0).then_some(groups)
}

/// A normalisation of flattened groups.
struct Found {
    /// What is flattened: the picture, or its elements in the same order under other axes.
    source: ValueId,
    groups: u32,
    epsilon: Scalar,
    functions: Vec<Function>,
    /// What has the picture's axes.
    restored: ValueId,
}

/// A function of the flattened values and of a constant for each group.
struct Function {
    node: usize,
    /// Which of its inputs is the constant.
    place: usize,
    /// The constant for each channel; `None` if it changes nothing.
    channels: Option<Tensor>,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let Op::Primitive(Primitive::Normalise { axis: 2, epsilon }) = graph.nodes[node].op else {
        return None;
    };
    let flattened = graph.nodes[node].inputs[0];
    let flatten = &graph.nodes[index.producers[flattened.index()]?];
    let source = *flatten.inputs.first().filter(|_| flatten.op == Op::View(ViewOp::Reshape))?;
    let [samples, groups, _] = *graph.value(flattened).shape.dims() else {
        return None;
    };
    let restored = restored(graph, index, node)?;
    let shape = graph.value(restored).shape;
    let whole = groups > 0 && shape.rank() >= 3 && shape.dim(1).is_multiple_of(groups);
    if shape.dim(0) != samples || !whole {
        return None;
    }
    let mut functions = Vec::new();
    let (mut at, mut value) = (node, graph.nodes[node].outputs[0]);
    while value != restored {
        let mut behind = graph.nodes.iter().enumerate().skip(at + 1);
        let (reader, next) = behind.find(|(_, n)| n.inputs.contains(&value))?;
        if let Op::Primitive(Primitive::Binary(kind)) = next.op {
            let place = usize::from(next.inputs[0] == value);
            let values = per_channel(graph, index, next.inputs[place], 1)?;
            let channels = match changes_nothing(kind, &values) {
                true => None,
                false => Some(channels(graph, &values, next.inputs[place], shape)?),
            };
            functions.push(Function {
                node: reader,
                place,
                channels,
            });
        }
        (at, value) = (reader, *next.outputs.first()?);
    }
    Some(Found {
        source,
        groups,
        epsilon,
        functions,
        restored,
    })
}

/// What the values of a normalisation are reshaped to, behind functions of two values and nothing else; nobody else reads them flat.
fn restored(graph: &Graph, index: &Index, node: usize) -> Option<ValueId> {
    let (mut at, mut value) = (node, graph.nodes[node].outputs[0]);
    loop {
        let mut behind = graph.nodes.iter().enumerate().skip(at + 1);
        let (reader, next) = behind.find(|(_, n)| n.inputs.contains(&value))?;
        if index.uses[value.index()] != 1 {
            return None;
        }
        (at, value) = (reader, *next.outputs.first()?);
        match next.op {
            Op::View(ViewOp::Reshape) => return Some(value),
            Op::Primitive(Primitive::Binary(_)) => (),
            _ => return None,
        }
    }
}

fn apply(graph: &mut Graph, node: usize, found: Found) {
    let shape = graph.value(found.restored).shape;
    let mut views = Vec::new();
    let mut under = Vec::new();
    let picture = viewed(graph, &mut under, found.source, shape, ViewOp::Reshape, "reshaped");
    if !under.is_empty() {
        views.push((node, under));
    }
    let mut value = graph.nodes[node].outputs[0];
    graph.nodes[node].op = Op::Primitive(Primitive::GroupNormalise {
        groups: found.groups,
        epsilon: found.epsilon,
    });
    graph.nodes[node].inputs = vec![picture];
    graph.values[value.index()].shape = shape;
    for function in found.functions {
        let made = graph.nodes[function.node].outputs[0];
        let Some(channels) = function.channels else {
            replace(graph, made, value);
            continue;
        };
        graph.values[made.index()].shape = shape;
        let name = format!("{}.channels", graph.nodes[function.node].name);
        let column = graph.add_constant(name, Arc::new(channels));
        let mut own = Vec::new();
        graph.nodes[function.node].inputs[function.place] = repeated(graph, &mut own, column, shape);
        views.push((function.node, own));
        value = made;
    }
    replace(graph, found.restored, value);
    // From the last on, so that the places of those before stay.
    for (node, own) in views.into_iter().rev() {
        graph.nodes.splice(node..node, own);
    }
}

/// Values of groups for each channel of `shape`, of the type of `like`.
fn channels(graph: &Graph, values: &[f32], like: ValueId, shape: Shape) -> Option<Tensor> {
    let each = shape.dim(1) as usize / values.len();
    let wide = values.iter().flat_map(|&v| std::iter::repeat_n(v, each)).collect();
    let dims: Vec<u32> = (0..shape.rank()).map(|a| if a == 1 { shape.dim(1) } else { 1 }).collect();
    floats(graph.value(like).dtype, Shape::new(&dims)?, wide)
}

/// True for a product with ones and a sum with zeros: as networks are exported whose scale and shift come behind.
fn changes_nothing(kind: Binary, values: &[f32]) -> bool {
    let neutral = match kind {
        Binary::Mul => 1.0,
        Binary::Add => 0.0,
        _ => return false,
    };
    values.iter().all(|&v| v == neutral)
}
