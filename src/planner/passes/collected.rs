//! Shares of what several maps are collected to are collected themselves.
//!
//! Detectors join what they find of a map (distances and scores), look at it as rows of places, join the rows of all maps, and cut distances
//! and scores apart again. Collected apart from the start, either is all that some convolutions make, whose functions can be theirs.

use super::rewrite::{Index, at_each_node};
use super::share::Share;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::tensor::Shape;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A collection that is read in shares of whole parts alone.
struct Found {
    collection: usize,
    /// The axis of the shares.
    axis: usize,
    /// What each map is joined of, and what is collected of it.
    maps: Vec<(Vec<ValueId>, Shape)>,
    /// Each share's node, and which of each map's parts it has.
    shares: Vec<(usize, std::ops::Range<usize>)>,
}

fn find(graph: &Graph, index: &Index, collection: usize) -> Option<Found> {
    let node = &graph.nodes[collection];
    let Op::Concat { axis: across } = node.op else { return None };
    let made = node.outputs[0];
    let joins: Vec<Join> = node.inputs.iter().map(|&v| join(graph, index, v)).collect::<Option<_>>()?;
    let first = joins.first()?;
    let axis = first.axis;
    let bounds = first.bounds(graph);
    let alike = |join: &Join| join.axis == axis && join.bounds(graph) == bounds;
    if axis >= across || !joins.iter().all(alike) {
        return None;
    }
    let readers = (collection + 1..graph.nodes.len()).filter(|&n| graph.nodes[n].inputs.contains(&made));
    let share = |reader: usize| {
        let share = Share::of(graph, index, graph.nodes[reader].outputs[0], axis)?;
        let at = |place: i64| bounds.iter().position(|&bound| bound == place);
        Some((reader, at(share.start)?..at(share.end)?))
    };
    let shares: Vec<_> = readers.map(share).collect::<Option<_>>()?;
    let alone = shares.len() == index.uses[made.index()] as usize && !shares.is_empty();
    let maps = || {
        joins
            .iter()
            .zip(&node.inputs)
            .map(|(join, v)| (join.parts.to_vec(), graph.value(*v).shape))
    };
    alone.then(|| Found {
        collection,
        axis,
        maps: maps().collect(),
        shares,
    })
}

/// What is joined along an axis and read by one collection, by way of reshapes behind that axis.
struct Join<'g> {
    axis: usize,
    parts: &'g [ValueId],
}

impl Join<'_> {
    /// Where along the axis the parts begin, and where the last one ends.
    fn bounds(&self, graph: &Graph) -> Vec<i64> {
        let ends = self.parts.iter().scan(0, |end, v| {
            *end += i64::from(graph.value(*v).shape.dim(self.axis));
            Some(*end)
        });
        std::iter::once(0).chain(ends).collect()
    }
}

fn join<'g>(graph: &'g Graph, index: &Index, value: ValueId) -> Option<Join<'g>> {
    let mut at = value;
    while index.uses[at.index()] == 1 {
        let node = &graph.nodes[index.producers[at.index()]?];
        match node.op {
            Op::View(ViewOp::Reshape) => at = node.inputs[0],
            Op::Concat { axis } => {
                let in_front = |v: ValueId| graph.value(v).shape.dims().get(..=axis);
                let parts = node.inputs.as_slice();
                return (in_front(at) == in_front(value)).then_some(Join { axis, parts });
            }
            _ => return None,
        }
    }
    None
}

fn apply(graph: &mut Graph, found: Found) {
    let Found {
        collection,
        axis,
        maps,
        shares,
    } = found;
    let op = graph.nodes[collection].op.clone();
    let single = graph.value(graph.nodes[collection].outputs[0]).single;
    let mut nodes = Vec::new();
    for (reader, range) in shares.iter().cloned() {
        let Node { name, outputs, .. } = graph.nodes[reader].clone();
        let extent = graph.value(outputs[0]).shape.dim(axis);
        let collected = maps.iter().enumerate().filter_map(|(map, (parts, shape))| {
            let own = &parts[range.clone()];
            let joined = match *own {
                [part] => part,
                _ => {
                    let (dtype, whole) = graph.operand(*own.first()?);
                    let joined = graph.add_value(format!("{name}.joined{map}"), dtype, whole.with_dim(axis, extent)?);
                    graph.values[joined.index()].single = single;
                    nodes.push(Node {
                        name: format!("{name}.joined{map}"),
                        op: Op::Concat { axis },
                        inputs: own.to_vec(),
                        outputs: vec![joined],
                    });
                    joined
                }
            };
            let (dtype, rows) = (graph.value(joined).dtype, shape.with_dim(axis, extent)?);
            if rows == graph.value(joined).shape {
                return Some(joined);
            }
            let seen = graph.add_value(format!("{name}.rows{map}"), dtype, rows);
            graph.values[seen.index()].single = single;
            nodes.push(Node {
                name: format!("{name}.rows{map}"),
                op: Op::View(ViewOp::Reshape),
                inputs: vec![joined],
                outputs: vec![seen],
            });
            Some(seen)
        });
        let inputs = collected.collect();
        nodes.push(Node {
            name,
            op: op.clone(),
            inputs,
            outputs,
        });
    }
    // Shares stand behind their collection, which nobody reads any more.
    for (reader, _) in shares.iter().rev() {
        graph.nodes.remove(*reader);
    }
    graph.nodes.splice(collection..=collection, nodes);
}
