//! What a search leaves behind so that measurements can go on from it: candidates as ideas, and new ideas from measured ones.
//!
//! A new idea is a child of one that was measured. Of several children that lots make, the simulator picks the one that it finds
//! shortest: of few, where its opinion is to count little, or of many. What it finds much worse than the parent is left out.

use super::alike::{self, Change, Kind as Alike};
use super::apart;
use super::auxiliary::spread;
use super::candidate::{Candidate, Field};
use super::judge::{Judge, Score};
use super::menu::Menu;
use super::own::{self, Kind};
use super::{Found, Ranked};
use crate::plan::format::Tenant;
use crate::planner::Searcher;
use crate::planner::lots::Lots;
use crate::planner::schedule::{Decisions, Problem};
use crate::planner::simulate::{Costs, Machine};
use std::num::NonZeroUsize;

/// Ways to change a candidate, by name: each shows one effect, the last two mix them.
pub const DIRECTIONS: [&str; 9] = [
    "widths", "shares", "chunks", "waits", "barriers", "ranks", "tactics", "anything", "crossed",
];
/// Kinds of changes behind the directions but the last, in their order.
const KINDS: [&[Kind]; DIRECTIONS.len() - 1] = [
    &[Kind::Way, Kind::Ways],
    &[Kind::Share, Kind::Share, Kind::Divide, Kind::Plain, Kind::Confine, Kind::Parcel],
    &[Kind::Cut],
    &[Kind::AddEdge, Kind::MoveEdge, Kind::RemoveEdge, Kind::Delay],
    &[Kind::Insert, Kind::Remove, Kind::Shift, Kind::Shift],
    &[Kind::Rank, Kind::Stream],
    &[Kind::Kernel, Kind::Lean],
    &[
        Kind::Ways,
        Kind::Share,
        Kind::Cut,
        Kind::AddEdge,
        Kind::MoveEdge,
        Kind::Delay,
        Kind::Rank,
        Kind::Shift,
        Kind::Kernel,
        Kind::Lean,
        Kind::Parcel,
    ],
];
/// Children that the simulator picks one of, in turns.
const PICKED_OF: [usize; 4] = [2, 8, 32, 128];
/// Most changes of a child are 2 to the power of this.
const MOST: usize = 4;
/// A child is left out that is predicted to take more than its parent by this part of its time, in percent.
const WORSE: u64 = 5;
/// The same of a division of the board beside the one that is predicted to take least.
const APART_WORSE: u64 = 15;

/// A candidate, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idea {
    /// Whose it is, or its first ancestor.
    pub by: Searcher,
    /// The prediction, without auxiliary streams.
    pub score: Score,
    candidate: Candidate,
}

impl Idea {
    /// Whether both decide the same, whosever they are.
    pub fn decides_as(&self, other: &Idea) -> bool {
        self.candidate == other.candidate
    }
}

/// A new idea.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The idea.
    pub idea: Idea,
    /// Its parent's place among those that were given.
    pub parent: usize,
    /// The direction that it was changed in: its place in [`DIRECTIONS`].
    pub direction: usize,
}

/// A search's field and menu, on their own.
#[derive(Clone, Debug)]
pub struct Workshop {
    field: Field,
    menu: Menu,
    machine: Machine,
    kinds: Vec<Alike>,
}

impl Workshop {
    /// The workshop of a problem whose rates repeat within the limits.
    pub fn of(problem: &Problem<'_>, costs: &Costs<'_>) -> Workshop {
        let (field, menu) = (Field::of(problem), Menu::of(problem, costs));
        Workshop {
            kinds: alike::kinds(&field.operators, &menu),
            field,
            menu,
            machine: *costs.machine(),
        }
    }

    /// Who scores its candidates.
    fn judge<'a>(&'a self, tenants: &'a [Tenant]) -> Judge<'a> {
        Judge::new(tenants, &self.field, &self.menu, self.machine, 0, &|_, _| {})
    }

    /// The best of what a search found and what stands behind it, as [`Found::rivals`] has it; with its decisions.
    pub fn starts<'f>(found: &'f Found, most: usize) -> impl Iterator<Item = (Idea, &'f Decisions)> {
        let idea = |r: &'f Ranked| {
            let (candidate, score) = r.candidate.clone()?;
            let by = r.searcher;
            let idea = Idea { by, score, candidate };
            Some((idea, &r.decisions))
        };
        found.best().into_iter().chain(found.rivals(most)).filter_map(idea)
    }

    /// An idea as decisions for the gate; `None` if its waits go in a circle, or if the board cannot be divided so.
    pub fn decisions(&self, idea: &Idea, problem: &Problem<'_>, costs: &Costs<'_>) -> Option<Decisions> {
        let base = idea.candidate.decisions(&self.field, &self.menu)?;
        let spread = idea.candidate.auxiliary.and_then(|way| spread(problem, costs, &base, way));
        Some(spread.unwrap_or(base))
    }

    /// Every change of an idea: for each kind of operators that are alike, longest first, the tactics that some of them do not run with.
    pub fn changes(&self, idea: &Idea) -> Vec<Change> {
        alike::changes(&self.kinds, &self.menu, &idea.candidate)
    }

    /// An idea with some changes of its own, those behind over those in front, for each list of them. All are told of, also those
    /// that the simulator finds longer: it knows of operators what their times alone say, which is what is doubted here.
    pub fn changed(&self, tenants: &[Tenant], idea: &Idea, lists: &[Vec<Change>]) -> Vec<Idea> {
        let mut judge = self.judge(tenants);
        let changed = |changes: &Vec<Change>| {
            let candidate = alike::changed(&self.kinds, &idea.candidate, changes);
            Idea {
                by: idea.by,
                score: judge.score(&candidate),
                candidate,
            }
        };
        lists.iter().map(changed).collect()
    }

    /// An idea's operators with units of their own for the streams, in those ways to share them out that are worth a measurement: at most
    /// so many, best first by the simulator.
    pub fn divisions(&self, tenants: &[Tenant], plain: &Idea, most: usize) -> Vec<Idea> {
        let mut judge = self.judge(tenants);
        let found = apart::divisions(&mut judge, &plain.candidate, most, APART_WORSE);
        let idea = |(score, candidate)| Idea {
            by: Searcher::Apart,
            score,
            candidate,
        };
        found.into_iter().map(idea).collect()
    }

    /// Up to `wanted` new ideas from `parents`, best first, that are not among `known`. Directions are drawn as often as `favour`
    /// says, one figure each. The same arguments give the same ideas, on however many cores.
    pub fn propose(
        &self,
        tenants: &[Tenant],
        parents: &[&Idea],
        known: &[&Idea],
        wanted: usize,
        favour: &[u32],
        lots: &mut Lots,
    ) -> Vec<Proposal> {
        let mut all: Vec<Proposal> = Vec::new();
        if parents.is_empty() || self.field.sets.is_empty() || self.field.operators.iter().any(Vec::is_empty) {
            return all;
        }
        // Each has lots of its own, so that cores may share them out.
        let slots: Vec<(usize, Lots)> = (0..wanted)
            .map(|s| (PICKED_OF[s % PICKED_OF.len()], Lots::new(lots.next())))
            .collect();
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let found = std::thread::scope(|scope| {
            let some = |slots: &'_ [(usize, Lots)]| {
                let mut judge = self.judge(tenants);
                let child = |(of, lots): &(usize, Lots)| child(&mut judge, parents, known, *of, favour, &mut lots.clone());
                slots.iter().filter_map(child).collect::<Vec<Proposal>>()
            };
            let threads: Vec<_> = slots
                .chunks(wanted.div_ceil(cores).max(1))
                .map(|s| scope.spawn(move || some(s)))
                .collect();
            threads.into_iter().flat_map(|t| t.join().unwrap_or_default()).collect::<Vec<_>>()
        });
        for proposal in found {
            if all.iter().all(|p| p.idea.candidate != proposal.idea.candidate) {
                all.push(proposal);
            }
        }
        all
    }
}

/// The child that the simulator picks of so many; `None` where all are known or much worse than their parent.
fn child(judge: &mut Judge<'_>, parents: &[&Idea], known: &[&Idea], of: usize, favour: &[u32], lots: &mut Lots) -> Option<Proposal> {
    // The better a parent, the more children.
    let parent = lots.below(parents.len()).min(lots.below(parents.len()));
    let direction = draw(favour, lots);
    let changes = 1 << lots.below(MOST + 1);
    let from = parents[parent];
    let limit = Score {
        late: from.score.late,
        time: from.score.time.saturating_add(from.score.time / 100 * WORSE),
    };
    let mut best: Option<Idea> = None;
    for _ in 0..of {
        let mut candidate = from.candidate.clone();
        match KINDS.get(direction) {
            Some(kinds) => (0..changes).for_each(|_| own::change(judge, &mut candidate, own::draw(judge, kinds, lots), lots)),
            None => cross(judge, &mut candidate, &parents[lots.below(parents.len())].candidate, lots),
        }
        if known.iter().chain(parents).any(|i| i.candidate == candidate) {
            continue;
        }
        let score = judge.score(&candidate);
        if score <= limit && score != Score::WORST && best.as_ref().is_none_or(|b| score < b.score) {
            let by = from.by;
            best = Some(Idea { by, score, candidate });
        }
    }
    best.map(|idea| Proposal { idea, parent, direction })
}

/// A number that is drawn as often as its weight says; the first if all are 0.
fn draw(weights: &[u32], lots: &mut Lots) -> usize {
    let all: usize = weights.iter().map(|&w| w as usize).sum();
    let mut at = lots.below(all);
    let place = weights.iter().position(|&w| match at.checked_sub(w as usize) {
        Some(rest) => {
            at = rest;
            false
        }
        None => true,
    });
    place.unwrap_or(0)
}

/// Takes some of what another candidate decides: how operators run, how they are cut, on which streams, where the tenants meet. Operators
/// whose stream comes to have other units for itself run as is best on those.
fn cross(judge: &Judge<'_>, candidate: &mut Candidate, other: &Candidate, lots: &mut Lots) {
    let units = |of: &Candidate, tenant: usize| of.lanes.get(usize::from(of.streams[tenant])).map(|lane| lane.units);
    let before: Vec<Option<u16>> = (0..candidate.streams.len()).map(|t| units(candidate, t)).collect();
    let parts = lots.next();
    if parts & 1 != 0 {
        candidate.ways.clone_from(&other.ways);
    }
    if parts & 2 != 0 {
        candidate.cuts.clone_from(&other.cuts);
    }
    if parts & 4 != 0 {
        candidate.streams.clone_from(&other.streams);
        candidate.lanes.clone_from(&other.lanes);
    }
    if parts & 8 != 0 {
        candidate.meetings.clone_from(&other.meetings);
    }
    let moved: Vec<bool> = (0..before.len()).map(|t| units(candidate, t) != before[t]).collect();
    if parts & 1 == 0 {
        apart::settle(judge, candidate, |tenant| moved[tenant]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{World, board};
    use super::super::{Effort, search};
    use super::*;
    use crate::board::BackendKind;
    use crate::plan::format::{Kernel, Operator, Tactic};
    use crate::planner::schedule;
    use crate::units::Nanos;

    #[test]
    fn proposals_are_new_legal_and_the_same_twice() {
        for backend in [BackendKind::Cpu, BackendKind::Cuda] {
            let (world, board) = (World::new(12, true), board(backend, 8));
            let problem = world.problem();
            let costs = Costs::of(&world.operators, &board, &|_| None);
            let effort = Effort { seed: 3, budget: 400 };
            let found = search(&problem, &costs, Searcher::Gacer, effort, &|_, _| {}).unwrap();
            let workshop = Workshop::of(&problem, &costs);
            let ideas: Vec<Idea> = Workshop::starts(&found, 2).map(|(idea, _)| idea).collect();
            assert!(ideas.iter().any(|i| i.by == Searcher::Streams) && ideas.iter().any(|i| i.by == Searcher::Gacer));
            let parents: Vec<&Idea> = ideas.iter().collect();
            let propose = || workshop.propose(problem.tenants, &parents, &[], 160, &[1; DIRECTIONS.len()], &mut Lots::new(7));
            let proposals = propose();
            assert_eq!(proposals, propose());
            assert!(proposals.len() > 20, "{}", proposals.len());
            for (at, one) in proposals.iter().enumerate() {
                assert!(!ideas.contains(&one.idea) && proposals[..at].iter().all(|p| p.idea != one.idea));
                assert!(one.idea.score.time <= parents[one.parent].score.time * 106 / 100);
                let decisions = workshop.decisions(&one.idea, &problem, &costs).unwrap();
                schedule::apply(&problem, &decisions).unwrap();
            }
            let directions = |d: usize| proposals.iter().filter(|p| p.direction == d).count();
            assert!((0..DIRECTIONS.len()).filter(|&d| directions(d) > 0).count() >= 4);
            // What is known is not proposed again.
            let known: Vec<&Idea> = proposals.iter().map(|p| &p.idea).collect();
            let again = workshop.propose(problem.tenants, &parents, &known, 160, &[1; DIRECTIONS.len()], &mut Lots::new(7));
            assert!(again.iter().all(|p| known.iter().all(|k| **k != p.idea)));
        }
    }

    #[test]
    fn directions_are_drawn_by_their_weights() {
        let mut lots = Lots::new(1);
        let mut drawn = [0; 3];
        (0..400).for_each(|_| drawn[draw(&[1, 0, 3], &mut lots)] += 1);
        assert!(drawn[1] == 0 && drawn[2] > 2 * drawn[0] && drawn[0] > 50, "{drawn:?}");
        assert_eq!(draw(&[0, 0], &mut lots), 0);
    }

    /// Times by tactic and by every third operator of a tenant.
    fn times(operator: &Operator) -> Option<Nanos> {
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
            let decisions = workshop.decisions(one, &problem, &costs).unwrap();
            schedule::apply(&problem, &decisions).unwrap();
        }
        // What was changed is not among the changes again; its former tactic is.
        let again = workshop.changes(&ideas[0]);
        assert!(!again.contains(&changes[0]) && again.contains(&changes[1]) && again.len() == changes.len());
    }
}
