//! A sweep through the tactics of one plan: every change of operators that are alike on its own, then those together that brought
//! something.
//!
//! What changes bring is taken to add up, which is seldom quite so: the best change joins the second best, these the third, and so
//! on, and each of these plans is measured. What made a plan clearly longer once is not tried again.

use super::Step;
use super::race::mark;
use crate::bench::measure::Samples;
use crate::planner::search::Change;

/// A change brings something if it shortens the plan by more than this part of it; two runs of one plan differ by hardly less.
const GAIN: f64 = 0.001;
/// A change that makes the plan longer by this part of it is not tried again.
const LOSS: f64 = 0.01;

/// A sweep, and what is known from earlier ones.
#[derive(Default)]
pub(super) struct Sweep {
    /// The plan that is swept: its place among all that were tried.
    parent: Option<usize>,
    /// The last that was.
    before: Option<usize>,
    /// What is to be tried, last first.
    left: Vec<Change>,
    /// Plans of the round that is run, with what was changed in them.
    running: Vec<(usize, Vec<Change>)>,
    /// Changes that brought something, by which part of the plan's time.
    gains: Vec<(Change, f64)>,
    hopeless: Vec<Change>,
    joined: bool,
}

impl Sweep {
    /// Begins a sweep of a plan through the first `most` changes that may bring something, unless one is running, or it was the last one
    /// that was swept, or there is nothing to try: whether it did.
    pub fn begin(&mut self, parent: usize, mut changes: Vec<Change>, most: usize) -> bool {
        changes.retain(|c| !self.hopeless.contains(c));
        changes.truncate(most);
        if self.parent.is_some() || self.before == Some(parent) || changes.is_empty() {
            return false;
        }
        changes.reverse();
        *self = Sweep {
            parent: Some(parent),
            before: Some(parent),
            left: changes,
            hopeless: std::mem::take(&mut self.hopeless),
            ..Sweep::default()
        };
        true
    }

    /// The plan that is swept.
    pub fn parent(&self) -> Option<usize> {
        self.parent
    }

    /// True if the plans of the next round have one change each.
    pub fn one_by_one(&self) -> bool {
        self.parent.is_some() && !self.joined
    }

    /// What to try next with which plan, at most so many lists of changes; `None` where no sweep runs, with which one ends.
    pub fn next(&mut self, most: usize) -> Option<(usize, Step, Vec<Vec<Change>>)> {
        let parent = self.parent?;
        self.running.clear();
        if !self.left.is_empty() {
            let next = self.left.split_off(self.left.len().saturating_sub(most));
            return Some((parent, Step::Swept, next.into_iter().rev().map(|c| vec![c]).collect()));
        }
        if self.joined {
            self.parent = None;
            return None;
        }
        self.joined = true;
        let best = self.best();
        let lists: Vec<Vec<Change>> = (2..=best.len()).rev().take(most).map(|n| best[..n].to_vec()).collect();
        Some((parent, Step::Joined, lists))
    }

    /// A plan runs with these changes in the round that comes.
    pub fn runs(&mut self, tried: usize, changes: Vec<Change>) {
        self.running.push((tried, changes));
    }

    /// Learns from a round: who ran, and what they took. What brought something ran at least `proven` frames.
    pub fn learn(&mut self, racers: &[usize], samples: &[Samples], proven: usize) {
        let of = |tried| {
            racers
                .iter()
                .position(|&r| r == tried)
                .map(|at| &samples[at])
                .filter(|s| s.count() > 0)
        };
        let Some(parent) = self.parent.and_then(of) else { return };
        for (tried, changes) in &self.running {
            let ([change], Some(own)) = (&changes[..], of(*tried)) else {
                continue;
            };
            let gain = 1.0 - mark(own).0 as f64 / mark(parent).0.max(1) as f64;
            if gain < -LOSS {
                self.hopeless.push(*change);
            } else if gain > GAIN && own.count() >= proven {
                self.gains.push((*change, gain));
            }
        }
    }

    /// Of each kind of operators the change that brought most, best first.
    fn best(&mut self) -> Vec<Change> {
        self.gains.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut best: Vec<Change> = Vec::new();
        for (change, _) in &self.gains {
            if best.iter().all(|b| !b.of_same(change)) {
                best.push(*change);
            }
        }
        best
    }
}
