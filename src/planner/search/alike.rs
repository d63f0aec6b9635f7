//! Operators that are alike, and another tactic for all of them at once.
//!
//! Networks repeat their blocks: what costs the same in every way is the same work again. Its tactics were timed alone, one after
//! another in chains of repetitions; in a frame caches lie as others left them, clocks fall, and other networks share the board. A
//! change here is of all operators of a kind, so that what it brings is as many times that of one of them, and shows in few frames.

use super::menu::Menu;
use super::workshop::{Idea, Workshop};
use crate::ids::OperatorId;
use crate::plan::format::Tenant;

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

impl Workshop {
    /// Every change of an idea: for each kind of operators, longest first, the tactics that some of them do not run with.
    pub fn changes(&self, idea: &Idea) -> Vec<Change> {
        let mut changes = Vec::new();
        for (number, kind) in self.kinds.iter().enumerate() {
            let ways = (0..).map_while(|tactic| self.menu.at_full_width(kind.operators[0], tactic));
            let other = ways.filter(|&way| kind.operators.iter().any(|&o| idea.candidate.ways[o] != way));
            changes.extend(other.map(|way| Change { kind: number, way }));
        }
        changes
    }

    /// An idea with some changes of its own, those behind over those in front, for each list of them. All are told of, also those
    /// that the simulator finds longer: it knows of operators what their times alone say, which is what is doubted here.
    pub fn changed(&self, tenants: &[Tenant], idea: &Idea, lists: &[Vec<Change>]) -> Vec<Idea> {
        let mut judge = self.judge(tenants);
        let changed = |changes: &Vec<Change>| {
            let mut candidate = idea.candidate.clone();
            for change in changes {
                self.kinds[change.kind]
                    .operators
                    .iter()
                    .for_each(|&o| candidate.ways[o] = change.way);
            }
            Idea {
                by: idea.by,
                score: judge.score(&candidate),
                candidate,
            }
        };
        lists.iter().map(changed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{World, board};
    use super::super::{Effort, Searcher, search};
    use super::*;
    use crate::board::BackendKind;
    use crate::plan::format::{Kernel, Tactic};
    use crate::planner::schedule;
    use crate::planner::simulate::Costs;
    use crate::units::Nanos;

    /// Times by tactic and by every third operator of a tenant.
    fn times(operator: &crate::plan::format::Operator) -> Option<Nanos> {
        let place: u64 = operator.name.chars().filter_map(|c| c.to_digit(10)).map(u64::from).sum();
        Some(Nanos(2_000 + 500 * (place % 3) + 100 * u64::from(operator.tactic.variant)))
    }

    #[test]
    fn a_change_is_of_all_operators_that_cost_the_same_and_of_no_other() {
        let (world, board) = (World::new(9, false), board(BackendKind::Cpu, 8));
        let problem = world.problem();
        let mut costs = Costs::of(&world.operators, &board, &times);
        let other = |variant| Tactic {
            kernel: Kernel::Generic,
            tile: (0, 0),
            variant,
        };
        (0..world.operators.len()).for_each(|o| costs.offer(o, &board, &[other(7), other(8)]));
        let effort = Effort { seed: 3, budget: 100 };
        let found = search(&problem, &costs, Searcher::Sequential, effort, &|_, _| {}).unwrap();
        let workshop = Workshop::of(&problem, &costs);
        let idea = Workshop::starts(&found, 1).next().unwrap().0;
        let changes = workshop.changes(&idea);
        // Three tenants, three times, two tactics beside their own.
        assert_eq!(changes.len(), 3 * 3 * 2);
        assert!(changes[0].of_same(&changes[1]) && !changes[0].of_same(&changes[2]));
        let lists: Vec<Vec<Change>> = changes
            .iter()
            .map(|c| vec![*c])
            .chain([vec![changes[0], changes[2], changes[3]]])
            .collect();
        let ideas = workshop.changed(problem.tenants, &idea, &lists);
        let differ = |one: &Idea| {
            (0..idea.candidate.ways.len())
                .filter(|&o| one.candidate.ways[o] != idea.candidate.ways[o])
                .count()
        };
        assert!(ideas[..changes.len()].iter().all(|i| differ(i) == 3));
        assert_eq!(differ(&ideas[changes.len()]), 6, "the later change of the same operators holds");
        for one in &ideas {
            let decisions = workshop.decisions(one).unwrap();
            schedule::apply(&problem, &decisions).unwrap();
        }
        // What was changed is not among the changes again; its former tactic is.
        let again = workshop.changes(&ideas[0]);
        assert!(!again.contains(&changes[0]) && again.contains(&changes[1]) && again.len() == changes.len());
    }
}
