//! Refinement by measurement: what the searchers found is measured, changed where it did best, and measured again.
//!
//! ```text
//! searchers' best, baselines --race--> measured --propose (lots, simulator)--> new plans --race--> measured --> ...
//! ```
//! A round's plans run in turns on one engine. It is a race by successive halving (Jamieson and Talwalkar 2016): all run a few
//! frames, the better half more, and so on. The best baseline and the best plans so far run in every round, so that what the machine
//! does meanwhile meets all alike: a plan is known by its time over that baseline's in the same round. Directions of change that
//! led to something better are taken more often. Measured times and seed give the plans.

use super::BenchError;
use super::choice::BASELINES;
use super::measure::{Samples, TURN};
use crate::plan::format::Plan;
use crate::planner::Compiled;
use crate::planner::refinery::Refinery;
use crate::planner::report::{RefinedReport, RoundReport, TriedReport};
use crate::planner::search::{DIRECTIONS, Idea};
use crate::units::Nanos;
use std::time::{Duration, Instant};

/// Counted frames of the stages of a race; after each the better half of the plans stays.
const STAGES: [usize; 4] = [4, 8, 16, 32];
/// What a plan's tail is read from: of so few frames the p99 would be the slowest one.
const TAIL: f64 = 0.9;
/// New plans of a round.
const PLANS: usize = 32;
/// The best plans so far that new ones are made from,
const ELITE: usize = 5;
/// and the best of them, which run in every round: what was lucky once is found out.
const AGAIN: usize = 3;
/// Frames that a plan must have run to be one of them.
const PROVEN: usize = STAGES[0] + STAGES[1] + STAGES[2];
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

/// When a refinement ends: with the round in which either is reached.
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

/// A plan that was measured.
struct Tried {
    plan: Plan,
    idea: Idea,
    /// What it was made from, and the direction; `None` for a searcher's.
    from: Option<(usize, usize)>,
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
        let report = hunt.round(fresh, meter)?;
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
}

impl<'a> Hunt<'a> {
    fn new(refinery: &'a Refinery) -> Hunt<'a> {
        Hunt {
            refinery,
            tried: Vec::new(),
            favour: [FAVOUR.0; DIRECTIONS.len()],
            anchor: None,
            rounds: Vec::new(),
        }
    }

    /// The plans that are new in a round.
    fn fresh(&self, round: usize) -> Vec<Tried> {
        let tried = |plan: Plan, idea: Idea, from| Tried {
            plan,
            idea,
            from,
            round,
            frames: 0,
            ratio: f64::INFINITY,
            median: Nanos(0),
        };
        if round == 0 {
            let starts = self.refinery.starts();
            return starts.map(|(plan, idea)| tried(plan.clone(), idea.clone(), None)).collect();
        }
        let parents = self.elite();
        let ideas: Vec<&Idea> = parents.iter().map(|&p| &self.tried[p].idea).collect();
        let known: Vec<&Idea> = self.tried.iter().map(|t| &t.idea).collect();
        let proposals = self.refinery.propose(&ideas, &known, PLANS, &self.favour, round as u64);
        let plans = self.refinery.plans(&proposals.iter().map(|p| &p.idea).collect::<Vec<_>>());
        let fresh = proposals.into_iter().zip(plans).filter_map(|(proposal, plan)| {
            let from = Some((parents[proposal.parent], proposal.direction));
            Some(tried(plan?, proposal.idea, from))
        });
        fresh.collect()
    }

    /// The best plans that ran often enough, best first.
    fn elite(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.tried.len()).filter(|&t| self.tried[t].frames >= PROVEN).collect();
        order.sort_by(|&a, &b| self.tried[a].ratio.total_cmp(&self.tried[b].ratio));
        order.truncate(ELITE);
        order
    }

    /// Runs new plans beside the best ones so far.
    fn round(&mut self, fresh: Vec<Tried>, meter: &mut dyn Meter) -> Result<RoundReport, BenchError> {
        let mut stay = self.elite();
        stay.truncate(AGAIN);
        stay.extend(self.anchor.filter(|a| !stay.contains(a)));
        let first = self.tried.len();
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
        let samples = race(meter, racers.len(), stay.len())?;
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
        for fresh in first..self.tried.len() {
            if let Some((parent, direction)) = self.tried[fresh].from
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
                direction: own.from.map(|(_, direction)| DIRECTIONS[direction]),
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

/// What plans are ranked by: the middle between their median and their tail.
fn mark(samples: &Samples) -> Nanos {
    Nanos((samples.median().0 + samples.quantile(TAIL).0) / 2)
}

/// Runs the plans that are loaded in turns; after each stage only the better half of those goes on that are not among the first
/// `stay`.
fn race(meter: &mut dyn Meter, plans: usize, stay: usize) -> Result<Vec<Samples>, BenchError> {
    let mut samples = vec![Samples::default(); plans];
    let mut alive: Vec<usize> = (0..plans).collect();
    for stage in STAGES {
        for _ in 0..stage / TURN {
            for &plan in &alive {
                samples[plan].extend(meter.run(plan, TURN)?);
            }
        }
        let mut rest: Vec<usize> = alive.iter().copied().filter(|&p| p >= stay).collect();
        rest.sort_by_key(|&p| mark(&samples[p]));
        rest.truncate(rest.len().div_ceil(2));
        alive.retain(|&p| p < stay || rest.contains(&p));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::bed::Bed;
    use crate::bench::zoo::run::Group;
    use crate::board::BoardRecord;
    use crate::planner::optable::{self, OpTable};
    use crate::planner::{CompileOptions, Searcher, boards};
    use crate::runtime::Options;
    use crate::tensor::DType;
    use std::path::Path;
    use std::sync::Arc;

    /// A machine that likes what the simulator does not: each segment more makes the frame shorter.
    #[derive(Default)]
    struct Eager {
        loaded: Vec<Nanos>,
        runs: usize,
        loads: usize,
    }

    impl Meter for Eager {
        fn load(&mut self, plans: Vec<Plan>) -> Result<(), BenchError> {
            let time = |plan: &Plan| {
                let segments = plan.cycle[0].segments.len() as u64;
                Nanos(plan.prediction.longest().0 * (1000 - 12 * segments.min(50)) / 1000)
            };
            self.loaded = plans.iter().map(time).collect();
            self.loads += 1;
            Ok(())
        }

        fn run(&mut self, plan: usize, frames: usize) -> Result<Vec<Nanos>, BenchError> {
            self.runs += 1;
            // Frames differ by up to a thousandth, each time otherwise.
            let noise = |f: usize| self.loaded[plan].0 / 1000 * ((self.runs * 7 + f * 3) % 11) as u64 / 10;
            Ok((0..frames).map(|f| Nanos(self.loaded[plan].0 + noise(f))).collect())
        }

        fn unload(&mut self) {
            self.loaded.clear();
        }
    }

    fn compiled(name: &str, board: &BoardRecord, times: Option<Arc<OpTable>>) -> Compiled {
        let group = Group::parse(name, None).unwrap();
        let models = group.members.iter().map(|m| m.network.model(m.batch)).collect();
        let options = CompileOptions {
            searcher: Searcher::Platoon,
            dtype: if times.is_some() { DType::F16 } else { DType::F32 },
            times,
            budget: 400,
            rivals: 2,
            refine: true,
            ..CompileOptions::default()
        };
        group.compile(models, board, &options).unwrap()
    }

    #[test]
    fn plans_get_faster_on_a_machine_that_the_simulator_does_not_know() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
        let board = boards::load(folder.join("h200.toml").to_str().unwrap()).unwrap();
        let times = Arc::new(OpTable::load(&optable::path(&folder, &board), &board).unwrap().unwrap());
        let start = compiled("bst:64+bst:8", &board, Some(times));
        let refined = |rounds| {
            let mut meter = Eager::default();
            let limit = Limit {
                time: Duration::MAX,
                rounds,
            };
            let (mut own, mut heard) = (start.clone(), 0);
            refine(&mut own, &mut meter, limit, |_| heard += 1).unwrap();
            assert_eq!((heard, meter.loads), (rounds + 1, rounds + 1));
            assert!(meter.loaded.is_empty(), "the machine is given back");
            own
        };
        let (before, after) = (refined(0), refined(3));
        let best = |c: &Compiled| c.report.refined.as_ref().unwrap().tried[0].of_anchor;
        assert!(best(&after) < best(&before), "{} after {}", best(&after), best(&before));
        assert_eq!(after.plan.searcher, "measured");
        // Each searcher's best is still among the plans, and some new ones.
        let plans = || std::iter::once(&after.plan).chain(&after.rivals);
        let of = |name: &str| plans().filter(|p| p.searcher == name).count();
        assert!(["sequential", "streams", "gacer", "platoon"].iter().all(|s| of(s) == 1) && of("measured") == LEFT);
        assert!(plans().all(|p| p.task_set == start.plan.task_set && p.weight_files == start.plan.weight_files));
        // Its report tells of every plan, where it came from and what it took.
        let report = after.report.refined.as_ref().unwrap();
        assert_eq!(report.rounds.iter().map(|r| r.plans).sum::<usize>(), report.tried.len());
        let child = &report.tried[0];
        let parent = &report.tried[child.parent.unwrap()];
        assert!(child.direction.is_some() && child.round > 0 && child.round <= 3 && parent.of_anchor > child.of_anchor);
        // Times and seed give the plans.
        assert_eq!((after.plan, after.rivals), {
            let again = refined(3);
            (again.plan, again.rivals)
        });
    }

    #[test]
    fn plans_are_loaded_one_set_after_another_on_an_engine() {
        let board = boards::load("host").unwrap();
        let mut compiled = compiled("bst:1+bst:2", &board, None);
        let group = Group::parse("bst:1+bst:2", None).unwrap();
        let options = Options {
            workers: Some(1),
            ..Options::default()
        };
        let mut bed = Bed::new(&compiled.weight_files, group.inputs(&compiled), &board, &options).unwrap();
        let limit = Limit {
            time: Duration::MAX,
            rounds: 1,
        };
        refine(&mut compiled, &mut bed, limit, |_| {}).unwrap();
        let report = compiled.report.refined.as_ref().unwrap();
        assert!(report.rounds.len() == 2 && report.tried.iter().all(|t| t.frames >= STAGES[0] && t.ms > 0.0));
        assert!(report.tried.iter().any(|t| t.round == 1));
        assert!(
            compiled
                .weight_files
                .iter()
                .any(|(d, _)| compiled.plan.weight_files.iter().any(|w| w.digest == *d))
        );
    }

    #[test]
    fn a_race_keeps_who_stays_and_the_better_half() {
        struct Fixed([u64; 8], [usize; 8]);
        impl Meter for Fixed {
            fn load(&mut self, _: Vec<Plan>) -> Result<(), BenchError> {
                Ok(())
            }
            fn run(&mut self, plan: usize, frames: usize) -> Result<Vec<Nanos>, BenchError> {
                self.1[plan] += frames;
                Ok(vec![Nanos(self.0[plan]); frames])
            }
            fn unload(&mut self) {}
        }
        let mut fixed = Fixed([900, 800, 7, 3, 6, 4, 5, 8], [0; 8]);
        let samples = race(&mut fixed, 8, 2).unwrap();
        assert_eq!(fixed.1, [60, 60, 4, 60, 4, 28, 12, 4]);
        assert_eq!(samples.iter().map(Samples::count).collect::<Vec<_>>(), fixed.1);
    }
}
