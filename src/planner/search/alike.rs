//! Operators that are alike, and another tactic for all of them at once.
//!
//! Networks repeat their blocks: what costs the same in every way is the same work again. Its tactics were timed alone, one after
//! another in chains of repetitions; in a frame caches lie as others left them, clocks fall, and other networks share the board. A
//! change here is of all operators of a kind, so that what it brings is as many times that of one of them, and shows in few frames.

use super::candidate::Candidate;
use super::menu::Menu;
use crate::ids::OperatorId;

/// A kind is left alone whose operators take less than this part of all operators' time, in thousandths: frames would not show it.
const LEAST: u64 = 8;

/// Operators of one tenant that cost the same in every way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    operators: Vec<usize>,
}

/// Another tactic at full width for all operators of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    kind: usize,
    way: u16,
}

impl Change {
    /// True if both are of the same operators.
    pub fn of_same(&self, other: &Change) -> bool {
        self.kind == other.kind
    }
}

/// The kinds of all tenants' operators that take a part of the time worth a change, longest first.
pub(super) fn kinds(operators: &[Vec<OperatorId>], menu: &Menu) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for tenant in operators {
        let first = kinds.len();
        for operator in tenant.iter().map(|o| o.index()) {
            match kinds[first..].iter_mut().find(|k| menu.alike(k.operators[0], operator)) {
                Some(kind) => kind.operators.push(operator),
                None => kinds.push(Kind { operators: vec![operator] }),
            }
        }
    }
    let time = |kind: &Kind| kind.operators.len() as u64 * menu.costs[menu.cost(kind.operators[0], 0, 0) as usize].alone();
    let all: u64 = kinds.iter().map(time).sum();
    kinds.retain(|kind| time(kind) * 1000 >= all * LEAST);
    kinds.sort_by_key(|kind| std::cmp::Reverse(time(kind)));
    kinds
}

/// Every change of a candidate: for each kind of operators, longest first, the tactics that some of them do not run with.
pub(super) fn changes(kinds: &[Kind], menu: &Menu, candidate: &Candidate) -> Vec<Change> {
    let mut changes = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let ways = (0..).map_while(|tactic| menu.at_full_width(kind.operators[0], tactic));
        let other = ways.filter(|&way| kind.operators.iter().any(|&o| candidate.ways[o] != way));
        changes.extend(other.map(|way| Change { kind: number, way }));
    }
    changes
}

/// A candidate with some changes, those behind over those in front.
pub(super) fn changed(kinds: &[Kind], candidate: &Candidate, changes: &[Change]) -> Candidate {
    let mut candidate = candidate.clone();
    for change in changes {
        kinds[change.kind].operators.iter().for_each(|&o| candidate.ways[o] = change.way);
    }
    candidate
}
