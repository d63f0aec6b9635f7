//! Concatenations that begin or end with all parts of an earlier one take that one's result in their place.
//!
//! Every layer of a dense block (Huang et al. 2017, section 3) reads what all layers before it made, and exporters write each of
//! these concatenations out in full. Storage nests: a part has one place in the largest of them and none in the others, to which it
//! would be copied. Of each other's results nothing is copied.

use crate::planner::graph::{Graph, Op, ValueId};
use std::collections::BTreeMap;

pub fn run(graph: &mut Graph) {
    let mut fronts = Lists::default();
    let mut backs = Lists::default();
    for node in &mut graph.nodes {
        let Op::Concat { axis } = node.op else { continue };
        let Some(&made) = node.outputs.first() else { continue };
        let parts = node.inputs.clone();
        let front = fronts.longest(axis, parts.iter());
        let back = backs.longest(axis, parts.iter().rev());
        match (front, back) {
            (Some((count, whole)), back) if back.is_none_or(|(other, _)| other <= count) => {
                node.inputs.splice(..count, [whole]);
            }
            (_, Some((count, whole))) => {
                node.inputs.splice(parts.len() - count.., [whole]);
            }
            _ => {}
        }
        fronts.insert(axis, parts.iter(), made);
        backs.insert(axis, parts.iter().rev(), made);
    }
}

/// Lists of parts in a tree, each with what they make together: finding the longest that another list begins with takes a step a part.
#[derive(Default)]
struct Lists {
    /// From a place in the tree along a part to the next place; a list begins at the place of its axis.
    steps: BTreeMap<(Place, ValueId), usize>,
    /// By place: what the list that ends there makes.
    made: Vec<Option<ValueId>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Axis(usize),
    Within(usize),
}

impl Lists {
    fn insert<'a>(&mut self, axis: usize, parts: impl Iterator<Item = &'a ValueId>, made: ValueId) {
        let mut place = Place::Axis(axis);
        for &part in parts {
            let next = *self.steps.entry((place, part)).or_insert_with(|| {
                self.made.push(None);
                self.made.len() - 1
            });
            place = Place::Within(next);
        }
        if let Place::Within(last) = place {
            self.made[last].get_or_insert(made);
        }
    }

    /// The longest list of two parts or more that `parts` begins with: their number, and what they make.
    fn longest<'a>(&self, axis: usize, parts: impl Iterator<Item = &'a ValueId>) -> Option<(usize, ValueId)> {
        let mut found = None;
        let mut place = Place::Axis(axis);
        for (index, &part) in parts.enumerate() {
            let Some(&next) = self.steps.get(&(place, part)) else { break };
            place = Place::Within(next);
            if let (Some(made), true) = (self.made[next], index > 0) {
                found = Some((index + 1, made));
            }
        }
        found
    }
}
