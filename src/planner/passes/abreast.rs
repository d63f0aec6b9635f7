//! Convolutions of one picture with windows alike become one convolution of all their channels, of which each reader sees its own.
//!
//! Cross-stage blocks (Wang et al. 2020), blocks of parallel windows (Szegedy et al. 2015) and the two heads of a detector begin so:
//! small layers of the same pixels, each a launch that fills a part of a GPU. Every element is computed as before. Only where
//! convolutions or concatenations read the results, so that no function that could follow its product in one operator loses it.
//!
//! A share of a value has no storage of its own to be born in. Where a concatenation reads shares, it takes all of them, those that
//! it does not want too, at its end or its beginning, and its readers see the rest: so nothing is copied.

use super::rewrite::{Index, at_each_node};
use super::stack::{Layer, stacked};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Primitive, Unary};
use crate::tensor::Shape;
use std::ops::Range;

/// The axis of channels.
const CHANNELS: usize = 1;
/// Channels begin at multiples of this, so that pixels stay runs of whole pieces of 16 bytes in f16.
const PIECE: u32 = 8;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, group, |graph, found| apply(graph, &found));
}

/// A convolution and the function of its results alone that follows it, if one does.
struct Branch {
    layer: Layer,
    function: Option<Unary>,
    /// The node that makes what others read.
    last: usize,
}

impl Branch {
    fn of(graph: &Graph, index: &Index, node: usize) -> Option<Branch> {
        let layer = Layer::of(graph, index, node).filter(|l| l.channels().is_multiple_of(PIECE))?;
        let made = graph.nodes[node].outputs[0];
        let mut readers = (0..graph.nodes.len()).filter(|&n| graph.nodes[n].inputs.contains(&made));
        let alone = index.uses[made.index()] == 1;
        let (function, last) = match readers.next().filter(|_| alone) {
            Some(reader) => match graph.nodes[reader].op {
                Op::Primitive(Primitive::Unary(function)) => (Some(function), reader),
                _ => (None, node),
            },
            None => (None, node),
        };
        Some(Branch { layer, function, last })
    }

    fn made(&self, graph: &Graph) -> ValueId {
        graph.nodes[self.last].outputs[0]
    }

    /// The concatenation of channels that reads the results; `None` where other readers than that and convolutions take them better
    /// where they are made.
    fn readers(&self, graph: &Graph, index: &Index) -> Option<Option<usize>> {
        let made = self.made(graph);
        if graph.is_result(made) {
            return None;
        }
        let mut concat = None;
        for (number, node) in graph.nodes.iter().enumerate() {
            for _ in node.inputs.iter().filter(|v| **v == made) {
                match node.op {
                    Op::Primitive(Primitive::Conv { groups: 1, .. }) => {}
                    Op::Concat { axis: CHANNELS } if concat.is_none() => concat = Some(number),
                    // What is made later is joined there, in the operator of its own product.
                    Op::Primitive(Primitive::Binary(_)) if self.joined_later(graph, index, node) => {}
                    _ => return None,
                }
            }
        }
        Some(concat)
    }

    fn joined_later(&self, graph: &Graph, index: &Index, node: &Node) -> bool {
        let made = self.made(graph);
        let later =
            |v: &ValueId| index.producers[v.index()].is_some_and(|n| n > self.last && matches!(graph.nodes[n].op, Op::Primitive(_)));
        node.inputs.iter().all(|v| *v == made || later(v)) && node.inputs.iter().any(|v| *v != made)
    }
}

/// Where a concatenation has what some branches make.
struct Inside {
    node: usize,
    /// Its parts that are these.
    parts: Range<usize>,
    /// Channels of the other branches, which it takes beside them.
    unwanted: u32,
    /// The shape of its result with these.
    wide: Shape,
}

impl Inside {
    /// True if the concatenation begins with the branches: what it does not want comes first then.
    fn begins(&self) -> bool {
        self.parts.start == 0
    }
}

/// Branches of one picture, in the order of their channels.
struct Group {
    branches: Vec<Branch>,
    inside: Option<Inside>,
}

/// The branches of which `first` is the first, all of those that can be one.
fn group(graph: &Graph, index: &Index, first: usize) -> Option<Group> {
    let x = *graph.nodes[first].inputs.first()?;
    if index.uses[x.index()] < 2 {
        return None;
    }
    let head = Branch::of(graph, index, first)?;
    let mut concat = head.readers(graph, index)?;
    let (mut inside, mut free) = if concat.is_some() {
        (vec![head], vec![])
    } else {
        (vec![], vec![head])
    };
    for node in first + 1..graph.nodes.len() {
        if graph.nodes[node].inputs.first() != Some(&x) {
            continue;
        }
        let Some(branch) = Branch::of(graph, index, node) else { continue };
        let head = inside.first().or(free.first())?;
        if !branch.layer.beside(&head.layer) || branch.function != head.function {
            continue;
        }
        match branch.readers(graph, index) {
            Some(None) => free.push(branch),
            // Branches of one concatenation, the first that comes.
            Some(Some(own)) if *concat.get_or_insert(own) == own => inside.push(branch),
            _ => {}
        }
    }
    let unwanted = free.iter().map(|branch| branch.layer.channels()).sum();
    let place = concat.and_then(|node| inside_of(graph, node, &mut inside, unwanted));
    let branches: Vec<Branch> = match &place {
        Some(place) if place.begins() => free.into_iter().chain(inside).collect(),
        Some(_) => inside.into_iter().chain(free).collect(),
        None => free,
    };
    (branches.len() > 1).then_some(Group { branches, inside: place })
}

/// Where the concatenation has the branches, which are put into its order: parts that follow each other, and begin or end it if
/// others are taken beside them. Its readers take channels from among others.
fn inside_of(graph: &Graph, node: usize, branches: &mut [Branch], unwanted: u32) -> Option<Inside> {
    let concat = &graph.nodes[node];
    let place = |branch: &Branch| concat.inputs.iter().position(|v| *v == branch.made(graph));
    branches.sort_by_key(place);
    let start = place(branches.first()?)?;
    let parts = start..start + branches.len();
    let follow = branches.iter().zip(parts.clone()).all(|(branch, at)| place(branch) == Some(at));
    let made = concat.outputs[0];
    let shape = graph.value(made).shape;
    let widened = || {
        let at_an_end = parts.start == 0 || parts.end == concat.inputs.len();
        let mut readers = graph.nodes.iter().filter(|n| n.inputs.contains(&made));
        let takes = |n: &Node| matches!(n.op, Op::Primitive(Primitive::Conv { groups: 1, .. } | Primitive::Pool { .. }));
        at_an_end && !graph.is_result(made) && readers.all(takes)
    };
    let fits = follow && (unwanted == 0 || widened());
    let wide = shape.with_dim(CHANNELS, shape.dim(CHANNELS).checked_add(unwanted)?)?;
    fits.then_some(Inside {
        node,
        parts,
        unwanted,
        wide,
    })
}

/// Puts one convolution before the first of them, with the function behind it, and a view in the place of each.
fn apply(graph: &mut Graph, group: &Group) {
    let layers: Vec<&Layer> = group.branches.iter().map(|b| &b.layer).collect();
    let numbered = layers.iter().enumerate();
    let channels: Vec<_> = numbered
        .flat_map(|(l, layer)| (0..layer.channels() as usize).map(move |c| Some((l, c))))
        .collect();
    let Some(first) = layers.iter().map(|l| l.node).min() else { return };
    let name = format!("{}.abreast", graph.nodes[first].name);
    let made = graph.value(graph.nodes[first].outputs[0]);
    let (dtype, shape) = (made.dtype, made.shape.with_dim(CHANNELS, channels.len() as u32));
    let (Some(shape), Some(read)) = (shape, stacked(graph, &name, &layers, &channels)) else {
        return;
    };
    let mut whole = graph.add_value(name.clone(), dtype, shape);
    let mut before = vec![Node {
        name: name.clone(),
        op: graph.nodes[first].op.clone(),
        inputs: read,
        outputs: vec![whole],
    }];
    if let Some(function) = group.branches[0].function {
        let name = format!("{name}.function");
        let output = graph.add_value(name.clone(), dtype, shape);
        before.push(Node {
            name,
            op: Op::Primitive(Primitive::Unary(function)),
            inputs: vec![whole],
            outputs: vec![output],
        });
        whole = output;
    }
    let mut start = 0;
    for branch in &group.branches {
        let node = &mut graph.nodes[branch.last];
        node.op = Op::View(ViewOp::band(shape.rank(), CHANNELS, start));
        node.inputs = vec![whole];
        start += i64::from(branch.layer.channels());
    }
    // Behind what comes before it, so that places stay right.
    if let Some(inside) = &group.inside {
        widen(graph, inside, whole);
    }
    graph.nodes.splice(first..first, before);
}

/// Lets the concatenation take all that the branches make in the place of what it wants of it; its readers see what they did.
fn widen(graph: &mut Graph, inside: &Inside, whole: ValueId) {
    let concat = &mut graph.nodes[inside.node];
    concat.inputs.splice(inside.parts.clone(), [whole]);
    if inside.unwanted == 0 {
        return;
    }
    let (name, seen) = (format!("{}.wide", concat.name), concat.outputs[0]);
    let wide = graph.add_value(name.clone(), graph.value(seen).dtype, inside.wide);
    graph.nodes[inside.node].outputs = vec![wide];
    let start = if inside.begins() { inside.unwanted } else { 0 };
    let view = Node {
        name,
        op: Op::View(ViewOp::band(inside.wide.rank(), CHANNELS, i64::from(start))),
        inputs: vec![wide],
        outputs: vec![seen],
    };
    graph.nodes.insert(inside.node + 1, view);
}
