//! From ideas to plans, for whoever measures them: what a compilation keeps so that a search can go on by measurement.

use super::lots::Lots;
use super::rates;
use super::schedule::{Decisions, Problem};
use super::scheduled::{self, Offers, Scheduled};
use super::search::{Change, Idea, Proposal, Workshop};
use super::simulate::Machine;
use super::{CompileOptions, Searcher};
use crate::board::BoardRecord;
use crate::ids::OperatorId;
use crate::plan::format::{Operator, Plan};
use std::num::NonZeroUsize;

/// A plan's operators without a schedule, what a search found for them, and what makes more of it.
#[derive(Clone, Debug)]
pub struct Refinery {
    plan: Plan,
    needs: Vec<Vec<OperatorId>>,
    /// The tactics that operators may be run with beside their own.
    offers: Offers,
    starts: Vec<(Plan, Idea)>,
    workshop: Workshop,
    board: BoardRecord,
    options: CompileOptions,
    /// Frames a second that a plan is to keep up with.
    hz: Option<f64>,
}

impl Refinery {
    pub(super) fn new(
        plan: Plan,
        needs: Vec<Vec<OperatorId>>,
        offers: Offers,
        starts: Vec<(Plan, Idea)>,
        workshop: Workshop,
        board: &BoardRecord,
        options: &CompileOptions,
    ) -> Refinery {
        Refinery {
            plan,
            needs,
            offers,
            starts,
            workshop,
            board: board.clone(),
            options: options.clone(),
            hz: None,
        }
    }

    /// The same, whose plans keep up with so many frames a second.
    pub(super) fn keeping_up(&self, hz: f64) -> Refinery {
        Refinery {
            hz: Some(hz),
            ..self.clone()
        }
    }

    /// What the searchers found, best first, the baselines among it: some of each, with its plan.
    pub fn starts(&self) -> impl Iterator<Item = &(Plan, Idea)> {
        self.starts.iter().filter(|(plan, _)| self.keeps_up(plan))
    }

    /// New ideas from measured ones: see [`Workshop::propose`]. The seed is `round`'s own.
    pub fn propose(&self, parents: &[&Idea], known: &[&Idea], wanted: usize, favour: &[u32], round: u64) -> Vec<Proposal> {
        let mut lots = Lots::new(self.options.seed.wrapping_add((round + 1).rotate_left(32)));
        self.workshop.propose(&self.plan.tenants, parents, known, wanted, favour, &mut lots)
    }

    /// Divisions of the board between the streams of an idea: see [`Workshop::divisions`].
    pub fn divisions(&self, plain: &Idea, most: usize) -> Vec<Idea> {
        self.workshop.divisions(&self.plan.tenants, plain, most)
    }

    /// Other tactics for operators that are alike: see [`Workshop::changes`].
    pub fn changes(&self, idea: &Idea) -> Vec<Change> {
        self.workshop.changes(idea)
    }

    /// An idea with each list of changes: see [`Workshop::changed`].
    pub fn changed(&self, idea: &Idea, lists: &[Vec<Change>]) -> Vec<Idea> {
        self.workshop.changed(&self.plan.tenants, idea, lists)
    }

    /// How many tenants share the board.
    pub fn tenants(&self) -> usize {
        self.plan.tenants.len()
    }

    /// The checked plans of ideas; `None` for what misses deadlines, finds no room or does not keep up.
    pub fn plans(&self, ideas: &[&Idea]) -> Vec<Option<Plan>> {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = ideas.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = ideas.chunks(share).map(|some| scope.spawn(move || self.finish(some))).collect();
            // A thread that panicked made no plans.
            let some = threads.into_iter().zip(ideas.chunks(share));
            some.flat_map(|(t, some)| t.join().unwrap_or_else(|_| vec![None; some.len()]))
                .collect()
        })
    }

    fn finish(&self, ideas: &[&Idea]) -> Vec<Option<Plan>> {
        let measured = |o: &Operator| self.options.times.as_ref()?.of(&self.plan, o);
        let machine = Machine::of(&self.board).calibrated(self.options.calibration);
        let costs = scheduled::costs(&self.plan, &self.board, machine, &self.offers, &measured);
        let settled = Scheduled {
            plan: &self.plan,
            problem: Problem {
                tenants: &self.plan.tenants,
                operators: &self.plan.operators,
                needs: &self.needs,
                division: self.options.division(&self.board),
            },
            costs: &costs,
            best_effort: scheduled::best_effort(&self.board, &self.options),
        };
        let finish = |decisions: Decisions| Some(settled.finish(Searcher::Measured, &decisions).ok()?.0);
        let decisions = |idea: &Idea| self.workshop.decisions(idea, &settled.problem, settled.costs);
        let plan = |idea: &&Idea| decisions(idea).and_then(finish).filter(|plan| self.keeps_up(plan));
        ideas.iter().map(plan).collect()
    }

    fn keeps_up(&self, plan: &Plan) -> bool {
        self.hz.is_none_or(|hz| rates::keeps_up(plan, hz).is_ok())
    }
}
