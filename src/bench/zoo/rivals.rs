//! The plans of several decisions for the same networks, measured in turns: which is the fastest, and how far the simulator's
//! predictions are off.

use super::run::Group;
use crate::bench::BenchError;
use crate::bench::measure::{Samples, TURN, WARM};
use crate::bench::stage::{Side, Times};
use crate::board::BoardRecord;
use crate::ids::TenantId;
use crate::limits::MAX_PLANS;
use crate::plan::format::{Digest, Plan};
use crate::planner::Compiled;
use crate::runtime::Options;
use crate::units::Nanos;
use serde_json::{Value, json};
use std::ops::Range;

/// Headings of [`Contest::rows`].
pub const HEADINGS: [&str; 7] = [
    "networks",
    "searcher",
    "predicted ms",
    "measured ms p50",
    "p99",
    "off %",
    "over streams",
];

/// Plans that one engine runs: nearly as many as a table may hold.
const TOGETHER: usize = MAX_PLANS - 4;

/// One plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Who decided.
    pub searcher: String,
    /// Its place among the plans as they were made: the best by prediction first.
    pub number: usize,
    /// What it runs: see [`work`].
    pub work: Digest,
    /// SMs that each of its streams has to itself, 0 for all.
    pub units: Vec<u16>,
    /// Its predicted frame.
    pub predicted: Nanos,
    /// What was measured.
    pub side: Side,
    /// When each tenant is through: predicted, and measured.
    pub finishes: Vec<(String, Nanos, Samples)>,
    /// When each segment of its frame began and ended.
    pub segments: Vec<[Samples; 2]>,
}

/// The plans of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// The group's name.
    pub group: String,
    /// Its plans, fastest first.
    pub rivals: Vec<Rival>,
}

impl Contest {
    /// Runs `frames` counted frames of a compiled group's plan and of each of its rivals, in turns of those that fit one engine.
    /// `progress` gets the number of those done, of all plans together.
    pub fn run(
        group: &Group,
        compiled: Compiled,
        board: &BoardRecord,
        options: &Options,
        frames: usize,
        mut progress: impl FnMut(usize),
    ) -> Result<Contest, BenchError> {
        let plans = std::iter::once(&compiled.plan).chain(&compiled.rivals);
        let mut rivals: Vec<Rival> = plans.enumerate().map(|(number, plan)| Rival::of(plan, number)).collect();
        let mut done = 0;
        // The first plan has the weights, so every engine runs it, and it stands for all of them in time.
        for others in groups(compiled.rivals.len()) {
            let some = Compiled {
                rivals: compiled.rivals[others.clone()].to_vec(),
                ..compiled.clone()
            };
            let numbers: Vec<usize> = std::iter::once(0).chain(others.map(|r| r + 1)).collect();
            let plans: Vec<Plan> = std::iter::once(&some.plan).chain(&some.rivals).cloned().collect();
            let mut stage = group.open(some, board, options)?;
            let mut own = 0;
            while own < frames {
                let count = TURN.min(frames - own);
                for (at, &number) in numbers.iter().enumerate() {
                    stage.select(at)?;
                    rivals[number].add(&plans[at], stage.run(WARM, count)?);
                    done += count;
                    progress(done);
                }
                own += count;
            }
            stage.close();
        }
        // The stored one is to be the fastest in its tail, then in its middle; among equals, what was predicted to be faster.
        rivals.sort_by_key(|r| (r.side.device().quantile(0.99), r.side.device().median()));
        Ok(Contest {
            group: group.name.clone(),
            rivals,
        })
    }

    /// How far each prediction is off, as a part of what was measured; above 0 where it was too long.
    pub fn errors(&self) -> Vec<f64> {
        self.rivals.iter().map(Rival::error).collect()
    }

    /// A row for each plan.
    pub fn rows(&self) -> Vec<[String; 7]> {
        let streams = self
            .rivals
            .iter()
            .filter(|r| r.searcher == "streams")
            .map(|r| r.side.device().median())
            .min();
        let row = |rival: &Rival| {
            let device = rival.side.device();
            let over = streams.map_or(String::new(), |s| format!("{:.3}", s.0 as f64 / device.median().0.max(1) as f64));
            [
                self.group.clone(),
                rival.searcher.clone(),
                format!("{:.3}", rival.predicted.as_ms()),
                format!("{:.3}", device.median().as_ms()),
                format!("{:.3}", device.quantile(0.99).as_ms()),
                format!("{:+.1}", 100.0 * rival.error()),
                over,
            ]
        };
        self.rivals.iter().map(row).collect()
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let one = |r: &Rival| {
            let device = r.side.device();
            let finish = |(tenant, predicted, measured): &(String, Nanos, Samples)| json!({ "tenant": tenant, "predicted_ms": predicted.as_ms(), "p50_ms": measured.median().as_ms() });
            let segment = |[start, end]: &[Samples; 2]| json!([start.median().0, end.median().0]);
            json!({
                "searcher": r.searcher, "number": r.number, "work": r.work.to_string(), "units": r.units,
                "predicted_ms": r.predicted.as_ms(), "p50_ms": device.median().as_ms(),
                "p99_ms": device.quantile(0.99).as_ms(), "frames": device.count(), "error": r.error(),
                "finishes": r.finishes.iter().map(finish).collect::<Vec<_>>(),
                "segments_ns": r.segments.iter().map(segment).collect::<Vec<_>>(),
            })
        };
        json!({ "networks": self.group, "plans": self.rivals.iter().map(one).collect::<Vec<_>>() })
    }
}

/// The rivals in groups: as many as one engine runs beside the first plan; one empty group if there are none.
fn groups(rivals: usize) -> Vec<Range<usize>> {
    let firsts = (0..rivals.max(1)).step_by(TOGETHER - 1);
    firsts.map(|first| first..(first + TOGETHER - 1).min(rivals)).collect()
}

impl Rival {
    fn of(plan: &Plan, number: usize) -> Rival {
        let frame = plan.cycle.iter().zip(&plan.prediction.frames).next();
        let finish = |(tenant, predicted): (&TenantId, &Nanos)| {
            let name = plan.tenants[tenant.index()].name.clone();
            (name, *predicted, Samples::default())
        };
        Rival {
            searcher: plan.searcher.clone(),
            number,
            work: work(plan),
            units: plan.streams.iter().map(|s| s.units).collect(),
            predicted: plan.prediction.longest(),
            side: Side::default(),
            finishes: frame.map_or(Vec::new(), |(own, p)| own.tenants.iter().zip(&p.finish).map(finish).collect()),
            segments: Vec::new(),
        }
    }

    /// Adds frames of its plan. Segments count where all were seen, in plans of one frame a cycle.
    fn add(&mut self, plan: &Plan, times: Times) {
        if let [own] = plan.cycle.as_slice() {
            self.segments.resize_with(own.segments.len(), Default::default);
            for frame in times.segments.iter().filter(|f| f.len() == own.segments.len()) {
                for (samples, &(start, end)) in self.segments.iter_mut().zip(frame) {
                    samples[0].extend([start]);
                    samples[1].extend([end]);
                }
                for (tenant, (_, _, samples)) in own.tenants.iter().zip(&mut self.finishes) {
                    let ends = own.segments.iter().zip(frame).filter(|(s, _)| s.tenant == *tenant);
                    samples.extend(ends.map(|(_, &(_, end))| end).max());
                }
            }
        }
        self.side.add(times);
    }

    fn error(&self) -> f64 {
        let measured = self.side.device().median().0.max(1) as f64;
        self.predicted.0 as f64 / measured - 1.0
    }
}

/// Digest of what a plan runs, whatever is predicted of it: operators with their tactics, streams, segments and waits.
pub fn work(plan: &Plan) -> Digest {
    Digest::of(format!("{:?} {:?} {:?}", plan.operators, plan.streams, plan.cycle).as_bytes())
}

/// The middle and the worst of predictions' errors, in a line.
pub fn verdict(errors: &[f64]) -> String {
    let mut sizes: Vec<f64> = errors.iter().map(|e| 100.0 * e.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| sizes.get(index).copied().unwrap_or(0.0);
    format!(
        "{} predictions: off by {:.1} % in the middle, {:.1} % at worst",
        sizes.len(),
        at(sizes.len() / 2),
        at(sizes.len().saturating_sub(1)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::{CompileOptions, Searcher, boards};

    #[test]
    fn rivals_run_in_turns_on_one_engine() {
        let group = Group::parse("bst:1+bst:2", None).unwrap();
        let board = boards::load("host").unwrap();
        let options = CompileOptions {
            searcher: Searcher::Barriers,
            budget: 100,
            rivals: 1,
            ..CompileOptions::default()
        };
        let compiled = group.plan(&board, &options).unwrap();
        let engine = Options {
            workers: Some(1),
            ..Options::default()
        };
        let contest = Contest::run(&group, compiled, &board, &engine, 5, |_| {}).unwrap();
        let mut searchers: Vec<&str> = contest.rivals.iter().map(|r| r.searcher.as_str()).collect();
        searchers.sort_unstable();
        assert_eq!(searchers, ["barriers", "sequential", "streams"]);
        assert!(contest.rivals.iter().all(|r| r.side.device().count() == 5 && r.predicted.0 > 0));
        for rival in &contest.rivals {
            let last = rival.finishes.iter().map(|(_, _, measured)| measured.median()).max();
            assert_eq!(rival.finishes.len(), 2);
            assert!(
                last > Some(Nanos(0)) && rival.segments.iter().all(|[start, end]| start.median() <= end.median()),
                "{rival:?}"
            );
        }
        let rows = contest.rows();
        assert!(rows.iter().any(|r| r[1] == "streams" && r[6] == "1.000"), "{rows:?}");
    }

    #[test]
    fn what_a_plan_runs_is_told_apart_from_what_is_said_of_it() {
        let group = Group::parse("bst:1+bst:2", None).unwrap();
        let board = boards::load("host").unwrap();
        let plan = |searcher| {
            let options = CompileOptions {
                searcher,
                ..CompileOptions::default()
            };
            group.plan(&board, &options).unwrap().plan
        };
        let sequential = plan(Searcher::Sequential);
        let mut said = sequential.clone();
        said.prediction.frames.clear();
        said.searcher = String::from("another");
        assert_eq!(work(&said), work(&sequential));
        assert_ne!(work(&plan(Searcher::Streams)), work(&sequential));
        let mut other = sequential.clone();
        other.operators[0].tactic.variant += 1;
        assert_ne!(work(&other), work(&sequential));
    }

    #[test]
    fn every_rival_is_in_one_group() {
        for rivals in [0, 1, TOGETHER - 1, TOGETHER, 5 * TOGETHER] {
            let all: Vec<usize> = groups(rivals).into_iter().flatten().collect();
            assert_eq!(all, (0..rivals).collect::<Vec<_>>());
            assert!(!groups(rivals).is_empty());
        }
    }

    #[test]
    fn the_verdict_counts_errors_of_both_signs() {
        assert_eq!(
            verdict(&[0.05, -0.2, 0.01]),
            "3 predictions: off by 5.0 % in the middle, 20.0 % at worst"
        );
    }
}
