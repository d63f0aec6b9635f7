//! Our plans of one row: that they agree, which of them qualify, and turns of those with the others.

use super::mps::Followers;
use super::rows::Row;
use crate::bench::measure::{REST, Samples, TURN, WARM};
use crate::bench::peers::{Peer, Way};
use crate::bench::stage::{Side, Stage, Times};
use crate::bench::{BenchError, choice};
use crate::board::BoardRecord;
use crate::plan::format::Plan;
use crate::planner::Compiled;
use crate::runtime::Options;
use crate::units::Nanos;

/// The quantile that plans qualify by: of so few frames the p99 would be the one slowest.
const TAIL: f64 = 0.9;
/// The searcher whose plan leaves order to the hardware.
pub const FREE: &str = "streams";

/// One of our plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Who decided.
    pub searcher: String,
    /// Its predicted frame.
    pub predicted: Nanos,
    /// What was measured.
    pub side: Side,
    /// True if its results are those of the sequential plan, bit for bit.
    pub identical: bool,
}

/// Who runs a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runner {
    /// We, by a searcher's best plan.
    Plan {
        /// Its predicted frame.
        predicted: Nanos,
        /// True if its results are those of the sequential plan, bit for bit.
        identical: bool,
    },
    /// We, one process a network, under MPS.
    Mps,
    /// PyTorch.
    Peer,
}

/// A line of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The searcher, or how else the networks ran.
    pub name: String,
    /// Who ran them.
    pub runner: Runner,
    /// What was measured.
    pub side: Side,
}

/// The plans of a row on one engine.
pub struct Contest {
    stage: Stage,
    candidates: Vec<Candidate>,
}

/// Those that run beside our plans.
#[derive(Default)]
pub struct Others<'a> {
    /// PyTorch, with the ways that it has loaded.
    pub peer: Option<(&'a mut Peer, &'a [Way])>,
    /// Our networks under MPS.
    pub mps: Option<&'a mut Followers>,
}

impl Contest {
    /// Opens an engine on a compiled row's plan and its rivals, and compares what they compute.
    pub fn open(row: &Row, compiled: Compiled, board: &BoardRecord, options: &Options) -> Result<Contest, BenchError> {
        let plans: Vec<Plan> = std::iter::once(&compiled.plan).chain(&compiled.rivals).cloned().collect();
        let mut stage = row.open(compiled, board, options)?;
        let identical = stage.identical(choice::reference(&plans))?;
        let candidate = |(plan, identical): (&Plan, bool)| Candidate {
            searcher: plan.searcher.clone(),
            predicted: plan.prediction.longest(),
            side: Side::default(),
            identical,
        };
        let candidates = plans.iter().zip(identical).map(candidate).collect();
        Ok(Contest { stage, candidates })
    }

    /// Runs at least `frames` counted frames of every plan in turns, and leaves the best plan of each searcher.
    ///
    pub fn qualify(&mut self, frames: usize) -> Result<Vec<Candidate>, BenchError> {
        let mut done = 0;
        while done < frames {
            for (plan, candidate) in self.candidates.iter_mut().enumerate() {
                self.stage.select(plan)?;
                candidate.side.add(self.stage.run(WARM, TURN)?);
            }
            done += TURN;
        }
        Ok(self.candidates.clone())
    }

    /// Runs `frames` counted frames of the best plan of each searcher and of the others, in turns. The plans come first, fastest
    /// in qualifying first, those with other bits last: the first of them is the plan that is kept. `progress` gets the number of
    /// frames done of each.
    pub fn turns(&mut self, mut others: Others<'_>, frames: usize, mut progress: impl FnMut(usize)) -> Result<Vec<Entry>, BenchError> {
        let plans = best_of_each(&self.candidates);
        let mut entries: Vec<Entry> = plans.iter().map(|&plan| self.candidates[plan].entry()).collect();
        let period = self.period();
        let ways = others.peer.as_ref().map_or(&[][..], |(_, ways)| ways);
        entries.extend(ways.iter().map(|way| Entry::of(format!("PyTorch {}", way.name), Runner::Peer)));
        entries.extend(others.mps.iter().map(|_| Entry::of("MPS, a process each".into(), Runner::Mps)));
        let mut done = 0;
        while done < frames {
            let count = TURN.min(frames - done);
            let (own, rest) = entries.split_at_mut(plans.len());
            for (&plan, entry) in plans.iter().zip(own) {
                self.stage.select(plan)?;
                entry.side.add(self.stage.run(WARM, count)?);
            }
            let mut rest = rest.iter_mut();
            if let Some((peer, ways)) = &mut others.peer {
                std::thread::sleep(REST);
                for (way, entry) in (0..ways.len()).zip(&mut rest) {
                    let (frame, networks) = peer.run_zoo(way, WARM, count)?;
                    let networks = networks.unwrap_or_default();
                    entry.side.add(Times {
                        frame,
                        networks,
                        ..Times::default()
                    });
                }
            }
            if let (Some(mps), Some(entry)) = (&mut others.mps, rest.next()) {
                std::thread::sleep(REST);
                let frame = mps.run(WARM, count, period)?;
                entry.side.add(Times {
                    frame,
                    networks: Vec::new(),
                    ..Times::default()
                });
            }
            std::thread::sleep(REST);
            done += count;
            progress(done);
        }
        Ok(entries)
    }

    /// Time enough for a frame of networks that share the board in any way: several times that of the sequential plan.
    fn period(&self) -> Nanos {
        let slowest = self.candidates.iter().map(|c| c.side.frame.median().0).max().unwrap_or(0);
        Nanos(slowest.saturating_mul(6).saturating_add(2_000_000))
    }

    /// Stops the engine.
    pub fn close(self) {
        self.stage.close();
    }
}

impl Candidate {
    fn entry(&self) -> Entry {
        let runner = Runner::Plan {
            predicted: self.predicted,
            identical: self.identical,
        };
        Entry::of(self.searcher.clone(), runner)
    }
}

impl Entry {
    fn of(name: String, runner: Runner) -> Entry {
        Entry {
            name,
            runner,
            side: Side::default(),
        }
    }
}

/// Of each searcher the plan that did best in qualifying, best first, as [`choice::order`] has it.
fn best_of_each(candidates: &[Candidate]) -> Vec<usize> {
    let measured: Vec<(&str, &Samples)> = candidates.iter().map(|c| (c.searcher.as_str(), c.side.device())).collect();
    let identical: Vec<bool> = candidates.iter().map(|c| c.identical).collect();
    let mut order = choice::order(&measured, &identical, TAIL);
    let mut met: Vec<&str> = Vec::new();
    order.retain(|&c| {
        let searcher = candidates[c].searcher.as_str();
        let first = !met.contains(&searcher);
        met.push(searcher);
        first
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::{CompileOptions, Searcher, boards};

    #[test]
    fn every_searcher_at_work_has_its_best_plan_in_the_turns() {
        let row = Row::of("bst:1+bst:2", None).unwrap();
        let board = boards::load("host").unwrap();
        let options = CompileOptions {
            searcher: Searcher::Platoon,
            budget: 400,
            ..CompileOptions::default()
        };
        let compiled = row.compile(&board, &options, 2).unwrap();
        let engine = Options {
            workers: Some(1),
            ..Options::default()
        };
        let mut contest = Contest::open(&row, compiled, &board, &engine).unwrap();
        let qualified = contest.qualify(4).unwrap();
        assert!(qualified.len() > 8 && qualified.iter().all(|c| c.identical && c.side.frame.count() == 4));
        let mut heard = Vec::new();
        let entries = contest.turns(Others::default(), 6, |done| heard.push(done)).unwrap();
        contest.close();
        assert_eq!(heard, [4, 6]);
        let mut names: Vec<&str> = entries.iter().map(|e| e.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "barriers",
                "gacer",
                "platoon",
                "sequential",
                "shares",
                "spatial",
                "streams",
                "temporal"
            ]
        );
        assert!(entries.iter().all(|e| e.side.frame.count() == 6));
    }

    #[test]
    fn of_each_searcher_the_one_with_the_shortest_tail_is_left() {
        let candidate = |searcher: &str, times: [u64; 3]| {
            let mut side = Side::default();
            side.frame.extend(times.map(Nanos));
            Candidate {
                searcher: searcher.into(),
                predicted: Nanos(1),
                side,
                identical: true,
            }
        };
        let all = [
            candidate("a", [1, 1, 9]),
            candidate("b", [4, 4, 4]),
            candidate("a", [2, 3, 3]),
            candidate("b", [4, 4, 5]),
        ];
        assert_eq!(best_of_each(&all), [2, 1]);
        let mut others = all;
        others[2].identical = false;
        assert_eq!(
            best_of_each(&others),
            [1, 0],
            "other bits are not kept where the same searcher has the right ones"
        );
        others[1].identical = false;
        others[3].identical = false;
        assert_eq!(best_of_each(&others), [0, 1], "nor are they first where it has none");
    }
}
