//! What the simulator's rules weigh on a board: figures that no operator's time alone can tell, fitted to frames measured there.
//!
//! `boards/<board>/corun` is text: a header that says where the figures come from, then one a line. A board without the file
//! has those of the H200, in parts of what an issue costs it.

use super::Machine;
use super::costs::Costs;
use super::predict::predict;
use crate::board::BoardRecord;
use crate::plan::format::{Operator, Plan};
use crate::planner::optable::{self, Provenance, TableError};
use crate::planner::schedule::Schedule;
use crate::units::Nanos;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// First line of every file.
const TITLE: &str = "platoon co-run table, format 1";
/// Most bytes of a file that is read.
const MAX_FILE: u64 = 1 << 20;
/// Errors above this count more than once, as a part of the measured time: what searches find is where predictions are off.
const LARGE: f64 = 0.12;
/// How often.
const LARGE_WEIGHT: f64 = 2.0;
/// Figures change by no less than this, times 4, 2 and 1: one that is 0 would never grow otherwise.
const LEAST_STEP: u64 = 25;
/// What `apart` is where a file has none, in percent of `mutual`: an H200's four mixes on streams apart are predicted within 19 % so, half of
/// them within 6 %.
pub(super) const APART_PART: u64 = 70;
/// A figure changes only where all errors together become smaller than this part of what they were.
const WORTH: f64 = 0.998;

/// The figures, and the order in which they stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Nanoseconds that a launch takes longer in a frame than in the chain of its like that it was measured in.
    pub chain: u64,
    /// Nanoseconds that it takes longer while other streams are at work.
    pub crowd: u64,
    /// Nanoseconds from the last block of a launch at work to the blocks of one that follows early.
    pub lead: u64,
    /// Nanoseconds that a sync point costs.
    pub sync: u64,
    /// Nanoseconds that a block takes besides its tiles: it begins, fetches what all of them need, and ends.
    pub block: u64,
    /// Part of a unit's throughput that blocks want which fill it, in 1024ths.
    pub share: u64,
    /// How much slower blocks get while other launches keep all units busy, in 1024ths.
    pub mutual: u64,
    /// Part of the board's sustained bandwidth that launches side by side reach, in percent.
    pub bytes: u64,
    /// Nanoseconds that a launch takes longer in a frame for each MiB of weights that it reads, where the plan's weights together
    /// do not stay in the cache from one frame to the next: in the chain of its like they did, if its own find room there.
    pub cold: u64,
    /// How much slower blocks of streams with units of their own get while other launches keep the other units busy, in 1024ths.
    pub apart: u64,
    /// That cache, in KiB: the board's and not fitted; 0 where it is not known.
    pub cache: u64,
}

/// Times of operators by tenant, name and number of chunks.
type Times = RefCell<BTreeMap<(u16, String, usize), Option<Nanos>>>;

/// A frame that was measured: its plan, and how long it took.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The plan, of one frame a cycle.
    pub plan: Plan,
    /// The median of its frames.
    pub time: Nanos,
}

impl Calibration {
    /// Names in a file.
    const NAMES: [&'static str; 11] = [
        "chain_ns",
        "crowd_ns",
        "lead_ns",
        "sync_ns",
        "block_ns",
        "share",
        "mutual",
        "bytes",
        "cold_ns",
        "apart",
        "cache_kib",
    ];
    /// Those that files of before they were known lack: 0 there, which is what such files were fitted with, or a part of another.
    const LATER: [&'static str; 3] = ["cold_ns", "apart", "cache_kib"];
    /// Figures that are fitted: the first of them.
    const FITTED: usize = 10;

    fn figures(&mut self) -> [&mut u64; 11] {
        let Calibration {
            chain,
            crowd,
            lead,
            sync,
            block,
            share,
            mutual,
            bytes,
            cold,
            apart,
            cache,
        } = self;
        [chain, crowd, lead, sync, block, share, mutual, bytes, cold, apart, cache]
    }

    /// Where the file of a board lies: in the folder of the board's name beside it.
    pub fn path(boards: &Path, board: &BoardRecord) -> PathBuf {
        boards.join(&board.name).join("corun")
    }

    /// The figures in a file, which must be the board's; `None` if there is no file.
    pub fn load(path: &Path, board: &BoardRecord) -> Result<Option<Calibration>, TableError> {
        let Some(text) = optable::read(path, MAX_FILE, "it is too long for a co-run table")? else {
            return Ok(None);
        };
        let wrong = |line, what| TableError::Line {
            path: path.to_path_buf(),
            line,
            what,
        };
        let of = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "));
        if text.lines().next() != Some(TITLE) {
            return Err(wrong(1, "not the first line of a co-run table of this version"));
        }
        if (of("architecture"), of("units")) != (Some(board.architecture.as_str()), Some(board.units.to_string().as_str())) {
            let name = |key| of(key).unwrap_or("?");
            return Err(TableError::Board {
                path: path.to_path_buf(),
                found: format!("{} ({}, {} SMs)", name("board"), name("architecture"), name("units")),
            });
        }
        let mut calibration = Machine::of(board).calibration;
        for (name, figure) in Self::NAMES.iter().zip(calibration.figures()) {
            let absent = Self::LATER.contains(name).then_some("0");
            let found = of(name).or(absent).and_then(|text| text.parse::<u32>().ok());
            *figure = u64::from(found.ok_or_else(|| wrong(text.lines().count(), "a figure is missing, or is no number"))?);
        }
        if of("apart").is_none() {
            calibration.apart = calibration.mutual * APART_PART / 100;
        }
        Ok(Some(calibration))
    }

    /// The file: `frames` says what the figures are fitted to, and how well.
    pub fn render(mut self, provenance: &Provenance, frames: &str) -> String {
        let mut text = format!("{TITLE}\n{}frames: {frames}\n", provenance.header());
        for (name, figure) in Self::NAMES.iter().zip(self.figures()) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {figure}");
        }
        text
    }

    /// The figures under which predictions are nearest to what was measured, from these on: coordinate descent, one figure at a
    /// time through some values around it. The same observations give the same figures.
    pub fn fit(
        self,
        observed: &[Observed],
        board: &BoardRecord,
        measured: &(dyn Fn(&Plan, &Operator) -> Option<Nanos> + Sync),
    ) -> Calibration {
        // An operator's times are looked up once, whole and as it is cut.
        let mut known = vec![Times::default(); observed.len()];
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = observed.len().div_ceil(cores).max(1);
        let mut score = |calibration: &Calibration| {
            let machine = Machine::of(board).calibrated(Some(*calibration));
            let one = |(own, known): (&Observed, &Times)| {
                let time = |plan: &Plan, operator: &Operator| {
                    let key = (operator.tenant.0, operator.name.clone(), operator.chunks.len());
                    *known.borrow_mut().entry(key).or_insert_with(|| measured(plan, operator))
                };
                let error = own.error(machine, board, &time).abs();
                error + LARGE_WEIGHT * (error - LARGE).max(0.0)
            };
            let mut errors = vec![0.0; observed.len()];
            std::thread::scope(|scope| {
                let shares = observed.chunks(share).zip(known.chunks_mut(share)).zip(errors.chunks_mut(share));
                for ((observed, known), errors) in shares {
                    scope.spawn(move || {
                        let found = observed.iter().zip(&*known).map(one);
                        errors.iter_mut().zip(found).for_each(|(to, error)| *to = error);
                    });
                }
            });
            // In order, so that the sum does not depend on the number of threads.
            errors.iter().sum::<f64>()
        };
        let mut best = (score(&self), self);
        let mut step = 4;
        while step > 0 {
            let before = best.0;
            for figure in 0..=Self::FITTED {
                for more in [true, false] {
                    let mut tried = best.1;
                    if figure < Self::FITTED {
                        change(&mut *tried.figures()[figure], step, more);
                    } else {
                        // What all launches take longer is much the same as what their weights cost them: one goes for the other.
                        change(&mut tried.chain, step, !more);
                        change(&mut tried.cold, step, more);
                    }
                    let found = score(&tried);
                    if found < best.0 * WORTH {
                        best = (found, tried);
                        break;
                    }
                }
            }
            if best.0 >= before {
                step /= 2;
            }
        }
        best.1
    }
}

/// A figure tried anew: from half of it to twice as much at first, then in finer steps.
fn change(value: &mut u64, step: u64, more: bool) {
    let by = (*value * step / 8).max(LEAST_STEP * step);
    *value = if more { *value + by } else { value.saturating_sub(by).max(1) };
}

impl Observed {
    /// By how much the frame is predicted too long, as a part of what it took.
    pub fn error(&self, machine: Machine, board: &BoardRecord, measured: &dyn Fn(&Plan, &Operator) -> Option<Nanos>) -> f64 {
        let plan = &self.plan;
        let time = |o: &Operator| measured(plan, o);
        let costs = Costs::on(machine, &plan.operators, board, &time);
        let schedule = Schedule {
            operators: plan.operators.clone(),
            streams: plan.streams.clone(),
            cycle: plan.cycle.clone(),
        };
        match predict(&plan.tenants, &schedule, &costs, true) {
            Ok(prediction) => prediction.longest().0 as f64 / self.time.0.max(1) as f64 - 1.0,
            // Misses are allowed, so there is no such case.
            Err(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::architecture::Toolkit;
    use crate::board::BackendKind;

    #[test]
    fn a_file_gives_back_what_was_written_for_its_board_alone() {
        let board = BoardRecord {
            name: "test".into(),
            backend: BackendKind::Cuda,
            architecture: "sm_90a".into(),
            units: 16,
            memory_budget: 1 << 30,
            macs_per_ns: 1.0,
            bytes_per_ns: 1.0,
            issue: Nanos(900),
        };
        let version = Toolkit { major: 13, minor: 0 };
        let provenance = Provenance {
            board: board.name.clone(),
            architecture: board.architecture.clone(),
            units: board.units,
            gpu: "a GPU".into(),
            driver: version,
            toolkit: version,
            date: "today".into(),
        };
        let written = Calibration {
            crowd: 77,
            cold: 5,
            cache: 61_440,
            ..Machine::of(&board).calibration
        };
        let folder = tempfile::tempdir().unwrap();
        let file = Calibration::path(folder.path(), &board);
        assert_eq!(Calibration::load(&file, &board).unwrap(), None, "no file");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = written.render(&provenance, "3 plans of a mix");
        std::fs::write(&file, &text).unwrap();
        assert_eq!(Calibration::load(&file, &board).unwrap(), Some(written));
        let older: String = text
            .lines()
            .filter(|l| ["cold_ns", "cache_kib", "apart"].iter().all(|later| !l.starts_with(later)))
            .map(|l| format!("{l}\n"))
            .collect();
        std::fs::write(&file, older).unwrap();
        let without = Calibration {
            cold: 0,
            cache: 0,
            ..written
        };
        assert_eq!(Calibration::load(&file, &board).unwrap(), Some(without), "a file of before");
        let other = BoardRecord {
            units: 17,
            ..board.clone()
        };
        let refused = Calibration::load(&file, &other).unwrap_err().to_string();
        assert!(refused.contains("16 SMs"), "{refused}");
        for wrong in [
            text.replace("crowd_ns: 77", "crowd_ns: much"),
            text.replace("mutual", "mutuel"),
            text.replace("cold_ns: 5", "cold_ns: some"),
            "?".into(),
        ] {
            std::fs::write(&file, wrong).unwrap();
            assert!(matches!(Calibration::load(&file, &board), Err(TableError::Line { .. })));
        }
    }
}
