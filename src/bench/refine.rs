//! Refinement by measurement: what the searchers found is measured, changed where it did best, and measured again.
//!
//! ```text
//! searchers' best, baselines --race--> measured --+--divide (the board between streams)--> new plans --race--> measured --> ...
//!                                                 +--propose (lots, simulator)--> ...
//!                                                 +--sweep (other tactics for operators that are alike)--> ...
//! ```
//! A round's plans run in turns on one engine, in a race. The best baseline and the best plans so far run in every round, so that
//! what the machine does meanwhile meets all alike: a plan is known by its time over that baseline's in the same round. First come the
//! divisions of the board between streams, which differ by more than the simulator knows of them. Directions
//! of change that led to something better are taken more often; between them a sweep goes through the tactics of the best plan.
//! Measured times and seed give the plans.

mod race;
mod sweep;

use super::BenchError;
use super::measure::Samples;
use crate::plan::format::Plan;
use crate::planner::Compiled;
use crate::planner::refinery::Refinery;
use crate::planner::report::{RefinedReport, RoundReport, TriedReport};
use crate::planner::search::{DIRECTIONS, Idea};
use crate::units::Nanos;
use race::{mark, race};
use std::time::{Duration, Instant};
use sweep::Sweep;

/// The searchers that leave everything as it is.
pub const BASELINES: [&str; 2] = ["sequential", "streams"];
/// New plans of a round.
const PLANS: usize = 32;
/// The best plans so far that new ones are made from,
const ELITE: usize = 5;
/// and the best of them, which run in every round: what was lucky once is found out.
const AGAIN: usize = 3;
/// Frames that a plan must have run to be one of them.
const PROVEN: usize = race::STAGES[0] + race::STAGES[1] + race::STAGES[2];
/// Divisions of the board between streams that are tried.
const DIVIDED: usize = 2 * PLANS;
/// Rounds of drawn changes before a sweep beside other networks.
const DRAWN: usize = 3;
/// Changes of a sweep beside other networks, the longest operators' first: there lots find as much.
const SWEPT: usize = 2 * PLANS;
/// How often a direction is taken at least, and how much more for each plan in it that was better than its parent.
const FAVOUR: (u32, u32) = (3, 2);
/// Plans that the refinement leaves for the last choice beside each searcher's best.
const LEFT: usize = 5;

/// What runs plans and tells their times.
pub trait Meter {
    /// Makes plans ready in place of those that were.
    fn load(&mut self, plans: Vec<Plan>) -> Result<(), BenchError>;

    /// Runs so many counted frames of one of them.
    fn run(&mut self, plan: usize, frames: usize) -> Result<Vec<Nanos>, BenchError>;

    /// Gives them back.
    fn unload(&mut self);
}

/// When a refinement ends: with the stage of a race in which the time is over, or with the last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Time.
    pub time: Duration,
    /// Rounds besides that of the searchers' plans.
    pub rounds: usize,
}

impl Limit {
    /// So much time, and as many rounds as go into it.
    pub fn of(time: Duration) -> Limit {
        Limit { time, rounds: usize::MAX }
    }
}

/// What made a plan of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Lots, in a direction: its place in [`DIRECTIONS`].
    Drawn(usize),
    /// A division of the board between streams.
    Divided,
    /// A sweep: one change.
    Swept,
    /// A sweep's end: the changes that brought something, together.
    Joined,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Drawn(direction) => DIRECTIONS[direction],
            Step::Divided => "divided",
            Step::Swept => "swept",
            Step::Joined => "joined",
        }
    }
}

/// A plan that was measured.
struct Tried {
    plan: Plan,
    idea: Idea,
    /// What it was made from, and how; `None` for a searcher's.
    from: Option<(usize, Step)>,
    round: usize,
    frames: usize,
    /// Its time over the anchor's, by all its frames.
    ratio: f64,
    median: Nanos,
}

/// Refines a compiled task set that has a refinery; others stay as they are. Afterwards its plan and rivals are the best measured
/// ones, best first: of each searcher one, the baselines among them, and some new ones. Its report has what was tried.
/// `told` hears of each round.
pub fn refine(compiled: &mut Compiled, meter: &mut dyn Meter, limit: Limit, mut told: impl FnMut(&RoundReport)) -> Result<(), BenchError> {
    let Some(refinery) = compiled.refinery.clone() else { return Ok(()) };
    let began = Instant::now();
    let mut hunt = Hunt::new(&refinery);
    let mut round = 0;
    loop {
        let fresh = hunt.fresh(round);
        if fresh.is_empty() {
            break;
        }
        let report = hunt.round(fresh, meter, &|| began.elapsed() >= limit.time)?;
        told(&report);
        hunt.rounds.push(report);
        round += 1;
        if round > limit.rounds || began.elapsed() >= limit.time {
            break;
        }
    }
    meter.unload();
    hunt.finish(compiled);
    Ok(())
}

struct Hunt<'a> {
    refinery: &'a Refinery,
    tried: Vec<Tried>,
    favour: [u32; DIRECTIONS.len()],
    /// The baseline that all are measured against, once it is known.
    anchor: Option<usize>,
    rounds: Vec<RoundReport>,
    sweep: Sweep,
    /// Rounds of drawn changes since the last sweep.
    drawn: usize,
    /// Divisions of the board that are still to be tried, last first; `None` before they are known.
    divisions: Option<Vec<Idea>>,
}

impl<'a> Hunt<'a> {
    fn new(refinery: &'a Refinery) -> Hunt<'a> {
        Hunt {
            refinery,
            tried: Vec::new(),
            favour: [FAVOUR.0; DIRECTIONS.len()],
            anchor: None,
            rounds: Vec::new(),
            sweep: Sweep::default(),
            drawn: 0,
            divisions: None,
        }
    }

    /// The plans that are new in a round: of the searchers, then of lots and, now and then, of a sweep.
    fn fresh(&mut self, round: usize) -> Vec<Tried> {
        if round == 0 {
            let starts = self.refinery.starts();
            return starts.map(|(plan, idea)| Tried::new(plan.clone(), idea.clone(), None, 0)).collect();
        }
        let divided = self.divided(round);
        if !divided.is_empty() {
            return divided;
        }
        let parents = self.elite();
        // Where a network is alone, how its operators run is nearly all there is to decide.
        let (drawn, swept) = if self.refinery.tenants() == 1 {
            (0, usize::MAX)
        } else {
            (DRAWN, SWEPT)
        };
        if let Some(&best) = parents.first()
            && self.drawn >= drawn
            && self.sweep.begin(best, self.refinery.changes(&self.tried[best].idea), swept)
        {
            self.drawn = 0;
        }
        let swept = self.swept(round);
        if !swept.is_empty() {
            return swept;
        }
        self.drawn += 1;
        let ideas: Vec<&Idea> = parents.iter().map(|&p| &self.tried[p].idea).collect();
        let known: Vec<&Idea> = self.tried.iter().map(|t| &t.idea).collect();
        let proposals = self.refinery.propose(&ideas, &known, PLANS, &self.favour, round as u64);
        let plans = self.refinery.plans(&proposals.iter().map(|p| &p.idea).collect::<Vec<_>>());
        let fresh = proposals.into_iter().zip(plans).filter_map(|(proposal, plan)| {
            let from = Some((parents[proposal.parent], Step::Drawn(proposal.direction)));
            Some(Tried::new(plan?, proposal.idea, from, round))
        });
        fresh.collect()
    }

    /// The next divisions of the board between free streams; none where all were tried.
    fn divided(&mut self, round: usize) -> Vec<Tried> {
        let Some(free) = self.tried.iter().position(|t| t.plan.searcher == BASELINES[1]) else {
            return Vec::new();
        };
        let left = self.divisions.get_or_insert_with(|| {
            let mut all = self.refinery.divisions(&self.tried[free].idea, DIVIDED);
            all.reverse();
            all
        });
        let mut ideas = left.split_off(left.len().saturating_sub(PLANS));
        ideas.retain(|idea| self.tried.iter().all(|t| !t.idea.decides_as(idea)));
        let plans = self.refinery.plans(&ideas.iter().collect::<Vec<_>>());
        let fresh = ideas.into_iter().zip(plans).rev();
        fresh
            .filter_map(|(idea, plan)| Some(Tried::new(plan?, idea, Some((free, Step::Divided)), round)))
            .collect()
    }

    /// The next plans of a sweep; none where there is none, or it is at its end.
    fn swept(&mut self, round: usize) -> Vec<Tried> {
        while let Some((parent, step, lists)) = self.sweep.next(PLANS) {
            let ideas = self.refinery.changed(&self.tried[parent].idea, &lists);
            let plans = self.refinery.plans(&ideas.iter().collect::<Vec<_>>());
            let mut fresh = Vec::with_capacity(plans.len());
            for ((idea, plan), list) in ideas.into_iter().zip(plans).zip(lists) {
                if let Some(plan) = plan.filter(|_| self.tried.iter().all(|t| t.idea != idea)) {
                    self.sweep.runs(self.tried.len() + fresh.len(), list);
                    fresh.push(Tried::new(plan, idea, Some((parent, step)), round));
                }
            }
            if !fresh.is_empty() {
                return fresh;
            }
        }
        Vec::new()
    }

    /// The best plans that ran often enough, best first.
    fn elite(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.tried.len()).filter(|&t| self.tried[t].frames >= PROVEN).collect();
        order.sort_by(|&a, &b| self.tried[a].ratio.total_cmp(&self.tried[b].ratio));
        order.truncate(ELITE);
        order
    }

    /// Runs new plans beside the best ones so far.
    fn round(&mut self, fresh: Vec<Tried>, meter: &mut dyn Meter, over: &dyn Fn() -> bool) -> Result<RoundReport, BenchError> {
        let mut stay = self.elite();
        stay.truncate(AGAIN);
        let first = self.tried.len();
        let always = [self.anchor, self.sweep.parent()].into_iter().flatten();
        for one in always {
            if !stay.contains(&one) {
                stay.push(one);
            }
        }
        let stages = if self.sweep.one_by_one() { race::FEW } else { race::STAGES };
        self.tried.extend(fresh);
        // In the first round the baselines stay to the end.
        stay.extend(
            (first..self.tried.len()).filter(|&t| self.anchor.is_none() && BASELINES.contains(&self.tried[t].plan.searcher.as_str())),
        );
        let mut racers = stay.clone();
        racers.extend((first..self.tried.len()).filter(|t| !stay.contains(t)));
        let opened = Instant::now();
        meter.load(racers.iter().map(|&t| self.tried[t].plan.clone()).collect())?;
        let opened = opened.elapsed();
        let samples = race(meter, racers.len(), stay.len(), stages, over)?;
        if self.anchor.is_none() {
            let best = (0..stay.len()).min_by_key(|&p| mark(&samples[p]));
            self.anchor = best.map(|p| racers[p]);
        }
        let anchor = racers
            .iter()
            .position(|r| Some(*r) == self.anchor)
            .map(|p| mark(&samples[p]).0)
            .unwrap_or(1)
            .max(1);
        for (&racer, own) in racers.iter().zip(&samples) {
            self.tried[racer].add(own, anchor as f64);
        }
        self.sweep.learn(&racers, &samples, PROVEN);
        for fresh in first..self.tried.len() {
            if let Some((parent, Step::Drawn(direction))) = self.tried[fresh].from
                && self.tried[fresh].frames >= PROVEN
                && self.tried[fresh].ratio < self.tried[parent].ratio
            {
                self.favour[direction] += FAVOUR.1;
            }
        }
        let best = self.elite().first().copied().unwrap_or(0);
        Ok(RoundReport {
            plans: self.tried.len() - first,
            anchor_ms: Nanos(anchor).as_ms(),
            best_ms: self.tried[best].median.as_ms(),
            best_of_anchor: self.tried[best].ratio,
            opening_ms: opened.as_secs_f64() * 1e3,
        })
    }

    /// Leaves each searcher's best and some new plans.
    fn finish(self, compiled: &mut Compiled) {
        let mut order: Vec<usize> = (0..self.tried.len()).filter(|&t| self.tried[t].frames > 0).collect();
        // What ran often enough comes first: of a few frames any time is luck.
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.tried[a], &self.tried[b]);
            (a.frames < PROVEN).cmp(&(b.frames < PROVEN)).then(a.ratio.total_cmp(&b.ratio))
        });
        compiled.report.refined = Some(self.report(&order));
        let mut met: Vec<String> = Vec::new();
        order.retain(|&t| {
            let searcher = &self.tried[t].plan.searcher;
            let before = met.iter().filter(|s| *s == searcher).count();
            met.push(searcher.clone());
            before < if self.tried[t].from.is_some() { LEFT } else { 1 }
        });
        let mut plans: Vec<Option<Plan>> = self.tried.into_iter().map(|t| Some(t.plan)).collect();
        let mut left = order.into_iter().filter_map(|t| plans[t].take());
        if let Some(best) = left.next() {
            compiled.rivals = left.collect();
            compiled.plan = best;
        }
    }

    fn report(&self, order: &[usize]) -> RefinedReport {
        let place = |t: usize| order.iter().position(|&o| o == t);
        let tried = |&t: &usize| {
            let own = &self.tried[t];
            TriedReport {
                searcher: own.idea.by.name(),
                direction: own.from.map(|(_, step)| step.name()),
                parent: own.from.and_then(|(parent, _)| place(parent)),
                round: own.round,
                predicted_ms: own.plan.prediction.longest().as_ms(),
                ms: own.median.as_ms(),
                of_anchor: own.ratio,
                frames: own.frames,
            }
        };
        RefinedReport {
            rounds: self.rounds.clone(),
            tried: order.iter().map(tried).collect(),
        }
    }
}

impl Tried {
    fn new(plan: Plan, idea: Idea, from: Option<(usize, Step)>, round: usize) -> Tried {
        Tried {
            plan,
            idea,
            from,
            round,
            frames: 0,
            ratio: f64::INFINITY,
            median: Nanos(0),
        }
    }

    /// Adds frames that were measured in a round where the anchor took so long.
    fn add(&mut self, samples: &Samples, anchor: f64) {
        if samples.count() == 0 {
            return;
        }
        let (all, own) = (self.frames as f64, samples.count() as f64);
        let ratio = mark(samples).0 as f64 / anchor;
        self.ratio = if self.frames == 0 {
            ratio
        } else {
            (self.ratio * all + ratio * own) / (all + own)
        };
        self.frames += samples.count();
        self.median = samples.median();
    }
}

#[cfg(test)]
mod tests;
