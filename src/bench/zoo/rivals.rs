//! The plans of several decisions for the same networks, measured in turns: which is the fastest, and how far the simulator's
//! predictions are off.

use super::run::Group;
use crate::bench::BenchError;
use crate::bench::measure::{TURN, WARM};
use crate::bench::stage::Side;
use crate::board::BoardRecord;
use crate::plan::format::Plan;
use crate::planner::Compiled;
use crate::runtime::Options;
use crate::units::Nanos;
use serde_json::{Value, json};

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

/// One plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Who decided.
    pub searcher: String,
    /// Its predicted frame.
    pub predicted: Nanos,
    /// What was measured.
    pub side: Side,
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
    /// Runs `frames` counted frames of a compiled group's plan and of each of its rivals, in turns. `progress` gets the number
    /// of those done.
    pub fn run(
        group: &Group,
        compiled: Compiled,
        board: &BoardRecord,
        options: &Options,
        frames: usize,
        mut progress: impl FnMut(usize),
    ) -> Result<Contest, BenchError> {
        let rival = |plan: &Plan| Rival {
            searcher: plan.searcher.clone(),
            predicted: plan.prediction.longest(),
            side: Side::default(),
        };
        let mut rivals: Vec<Rival> = std::iter::once(&compiled.plan).chain(&compiled.rivals).map(rival).collect();
        let mut stage = group.open(compiled, board, options)?;
        let mut done = 0;
        while done < frames {
            let count = TURN.min(frames - done);
            for (plan, rival) in rivals.iter_mut().enumerate() {
                stage.select(plan)?;
                rival.side.add(stage.run(WARM, count)?);
            }
            done += count;
            progress(done);
        }
        stage.close();
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
            json!({
                "searcher": r.searcher, "predicted_ms": r.predicted.as_ms(), "p50_ms": device.median().as_ms(),
                "p99_ms": device.quantile(0.99).as_ms(), "frames": device.count(), "error": r.error(),
            })
        };
        json!({ "networks": self.group, "plans": self.rivals.iter().map(one).collect::<Vec<_>>() })
    }
}

impl Rival {
    fn error(&self) -> f64 {
        let measured = self.side.device().median().0.max(1) as f64;
        self.predicted.0 as f64 / measured - 1.0
    }
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
        let models = group.members.iter().map(|m| m.network.model(m.batch)).collect();
        let board = boards::load("host").unwrap();
        let options = CompileOptions {
            searcher: Searcher::Barriers,
            budget: 100,
            rivals: 1,
            ..CompileOptions::default()
        };
        let compiled = group.compile(models, &board, &options).unwrap();
        let engine = Options {
            workers: Some(1),
            ..Options::default()
        };
        let contest = Contest::run(&group, compiled, &board, &engine, 5, |_| {}).unwrap();
        let mut searchers: Vec<&str> = contest.rivals.iter().map(|r| r.searcher.as_str()).collect();
        searchers.sort_unstable();
        assert_eq!(searchers, ["barriers", "sequential", "streams"]);
        assert!(contest.rivals.iter().all(|r| r.side.device().count() == 5 && r.predicted.0 > 0));
        let rows = contest.rows();
        assert!(rows.iter().any(|r| r[1] == "streams" && r[6] == "1.000"), "{rows:?}");
    }

    #[test]
    fn the_verdict_counts_errors_of_both_signs() {
        assert_eq!(
            verdict(&[0.05, -0.2, 0.01]),
            "3 predictions: off by 5.0 % in the middle, 20.0 % at worst"
        );
    }
}
