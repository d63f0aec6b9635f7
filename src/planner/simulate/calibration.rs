//! What the simulator's rules weigh on a board: figures that no operator's time alone can tell, fitted to frames measured there.
//!
//! `boards/<board>/corun` is text: a header that says where the figures come from, then one a line. A board without the file
//! has those of the H200, in parts of what an issue costs it.

use crate::board::BoardRecord;
use crate::planner::optable::{self, Provenance, TableError};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// First line of every file.
const TITLE: &str = "platoon co-run table, format 1";
/// Most bytes of a file that is read.
const MAX_FILE: u64 = 1 << 20;
/// What `apart` is where a file has none, in percent of `mutual`: an H200's four mixes on streams apart are predicted within 19 % so, half of
/// them within 6 %.
pub(super) const APART_PART: u64 = 70;
/// The figures, and the order in which they stand in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    pub(super) const FITTED: usize = 10;

    /// All figures, in the order of their names.
    pub(super) fn figures(&mut self) -> [&mut u64; 11] {
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
        let mut calibration = Calibration::default();
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::architecture::Toolkit;
    use crate::board::BackendKind;
    use crate::planner::simulate::Machine;
    use crate::units::Nanos;

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
