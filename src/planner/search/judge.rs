//! The judge: what a candidate is worth by the simulator, how many may still be looked at, and the best so far.

use super::candidate::{Candidate, Field, Teller};
use super::menu::Menu;
use crate::ids::TenantId;
use crate::plan::format::Tenant;
use crate::planner::simulate::{Frame, Machine, Simulator, Trace};

/// Candidates that are kept of each searcher.
pub const KEPT: usize = 9;
/// Of them, those that are alike in how they put the tenants onto streams: what is measured is to differ.
const ALIKE: usize = 3;

/// What a candidate is worth: less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// By how much deadlines are missed, all together over the cycle, in nanoseconds.
    pub late: u64,
    /// The frames of the cycle together, in nanoseconds.
    pub time: u64,
}

impl Score {
    /// Of what cannot run.
    pub const WORST: Score = Score {
        late: u64::MAX,
        time: u64::MAX,
    };
}

/// Told now and then how many candidates were looked at, of how many.
pub type Told<'a> = &'a dyn Fn(u64, u64);

/// Scores candidates.
pub struct Judge<'a> {
    /// The tenants.
    pub tenants: &'a [Tenant],
    /// Who meets whom.
    pub field: &'a Field,
    /// What can be done with each operator.
    pub menu: &'a Menu,
    simulator: Simulator,
    machine: Machine,
    frame: Frame,
    teller: Teller,
    /// Candidates looked at.
    spent: u64,
    /// Candidates that may be looked at in this stretch.
    limit: u64,
    /// In all stretches.
    total: u64,
    told: Told<'a>,
    best: Vec<(Score, Candidate)>,
}

/// Candidates between two words on progress.
const STRIDE: u64 = 64;

impl<'a> Judge<'a> {
    /// A judge of `total` candidates.
    pub fn new(tenants: &'a [Tenant], field: &'a Field, menu: &'a Menu, machine: Machine, total: u64, told: Told<'a>) -> Judge<'a> {
        Judge {
            tenants,
            field,
            menu,
            simulator: Simulator::new(machine),
            machine,
            frame: Frame::default(),
            teller: Teller::default(),
            spent: 0,
            limit: 0,
            total,
            told,
            best: Vec::new(),
        }
    }

    /// Opens a stretch of `budget` candidates with no best ones, which [`Judge::close`] gives.
    pub fn open(&mut self, budget: u64) {
        self.limit = self.spent.saturating_add(budget);
        self.best.clear();
    }

    /// The best candidates of the stretch, best first, at most [`KEPT`].
    pub fn close(&mut self) -> Vec<(Score, Candidate)> {
        std::mem::take(&mut self.best)
    }

    /// The best candidate of the stretch.
    pub fn best(&self) -> Option<&(Score, Candidate)> {
        self.best.first()
    }

    /// Candidates that may still be looked at.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.spent)
    }

    /// All candidates looked at.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Counts a candidate that needs no look.
    pub fn skip(&mut self) {
        self.spent += 1;
    }

    /// Looks at a candidate.
    pub fn score(&mut self, candidate: &Candidate) -> Score {
        self.spent += 1;
        if self.spent.is_multiple_of(STRIDE) {
            (self.told)(self.spent.min(self.total), self.total);
        }
        let mut score = Score { late: 0, time: 0 };
        for set in 0..self.field.sets.len() {
            if !candidate.frame(self.field, set, self.menu, &mut self.teller, &mut self.frame) {
                return Score::WORST;
            }
            let time = self.simulator.run(&self.frame, &self.menu.costs, &mut ());
            let frames = self.field.sets[set].frames.len() as u64;
            score.time = score.time.saturating_add(time.saturating_mul(frames));
            score.late = score.late.saturating_add(self.late(set).saturating_mul(frames));
        }
        self.keep(score, candidate);
        score
    }

    /// By how much the frame just simulated misses its deadlines.
    fn late(&self, set: usize) -> u64 {
        let late = |t: &TenantId| {
            let Some(deadline) = self.tenants[t.index()].urgency.deadline else {
                return 0;
            };
            let ends = self
                .frame
                .segments()
                .iter()
                .zip(self.simulator.ends())
                .filter(|(s, _)| s.tenant == *t);
            ends.map(|(_, &end)| end).max().unwrap_or(0).saturating_sub(deadline.0)
        };
        self.field.sets[set].members.iter().map(late).fold(0, u64::saturating_add)
    }

    fn keep(&mut self, score: Score, candidate: &Candidate) {
        let full = self.best.len() == KEPT;
        if full && self.best.last().is_some_and(|(worst, _)| *worst <= score) {
            return;
        }
        let at = self.best.partition_point(|(s, _)| *s <= score);
        // What stands right before it and is worth the same may be the same.
        if at > 0 && self.best[at - 1].1 == *candidate {
            return;
        }
        let alike = |own: &(Score, Candidate)| own.1.is_like(candidate);
        let among = self.best.iter().filter(|&own| alike(own)).count();
        // The worst of those like it makes room, else the worst of all.
        let leaves = match among >= ALIKE {
            true => self.best.iter().rposition(alike),
            false if full => Some(KEPT - 1),
            false => None,
        };
        match leaves {
            Some(worst) if worst < at => return,
            Some(worst) => drop(self.best.remove(worst)),
            None => {}
        }
        self.best.insert(at, (score, candidate.clone()));
    }

    /// Watches a candidate in the frames of one set: not counted.
    pub fn watch(&mut self, candidate: &Candidate, set: usize) -> Option<(Frame, Trace)> {
        if !candidate.frame(self.field, set, self.menu, &mut self.teller, &mut self.frame) {
            return None;
        }
        let mut trace = Trace::of(&self.frame);
        self.simulator.run(&self.frame, &self.menu.costs, &mut trace);
        Some((self.frame.clone(), trace))
    }

    /// The board.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}
