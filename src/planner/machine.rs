//! What a board's file says of the machine itself, beside what plans depend on: its name, its memory, the toolkit that its driver
//! serves, and its power modes, each of which is a board of its own to the planner.

use super::document::{Document, TomlError};
use crate::backend::cuda::architecture::Toolkit;
use crate::board::BoardRecord;
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineTable {
    model: Option<Spanned<String>>,
    cuda: Option<Spanned<String>>,
    #[serde(default)]
    integrated: bool,
    l2_kib: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModeTable {
    name: String,
    units: u32,
    gpu_mhz: u32,
    memory_mhz: u32,
    cpu_cores: Option<u32>,
    cpu_mhz: Option<u32>,
}

/// A machine, as far as its file describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// What its name in `/proc/device-tree/model` contains, on machines that have one.
    pub model: Option<String>,
    /// The newest toolkit that its driver serves.
    pub cuda: Option<Toolkit>,
    /// GPU and processor share one memory: inputs and results are mapped, not copied.
    pub integrated: bool,
    /// KiB of the GPU's second-level cache.
    pub l2_kib: Option<u32>,
    /// Its power modes; the board's rates are of the first.
    pub modes: Vec<Mode>,
}

/// The most that a power mode lets clocks and units be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// As the machine calls it (`nvpmodel -q`).
    pub name: String,
    /// Units at work.
    pub units: u32,
    /// The units' clock.
    pub gpu_mhz: u32,
    /// The memory's clock.
    pub memory_mhz: u32,
    /// Processor cores.
    pub cpu_cores: Option<u32>,
    /// Their clock.
    pub cpu_mhz: Option<u32>,
}

/// Why there is no board of a power mode.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// Its file lists none of that name.
    #[error("board {board} has no power mode `{mode}`; its file lists {}", known(modes))]
    Unknown {
        /// The board.
        board: String,
        /// The mode asked for.
        mode: String,
        /// Those that there are.
        modes: Vec<String>,
    },
    /// A file is not in order.
    #[error(transparent)]
    File(#[from] TomlError),
}

fn known(modes: &[String]) -> String {
    if modes.is_empty() { "none".into() } else { modes.join(", ") }
}

impl Machine {
    /// The machine of a file whose board has `units` units.
    pub(super) fn read(
        document: &Document,
        units: u32,
        table: Option<MachineTable>,
        modes: Vec<Spanned<ModeTable>>,
    ) -> Result<Machine, TomlError> {
        let mut machine = Machine::default();
        if let Some(table) = table {
            (machine.integrated, machine.l2_kib) = (table.integrated, table.l2_kib);
            machine.model = table.model.map(|model| document.name("model", model)).transpose()?;
            let toolkit = |text: Spanned<String>| {
                let known = Toolkit::parse(text.get_ref());
                known.ok_or_else(|| document.invalid(&text.span(), "`cuda` is a version, as \"12.6\""))
            };
            machine.cuda = table.cuda.map(toolkit).transpose()?;
        }
        for mode in modes {
            let span = mode.span();
            let mode = mode.into_inner();
            let named = !mode.name.is_empty() && mode.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            document.need(named, &span, "a mode's `name` has letters, digits and `_`")?;
            let new = machine.find(&mode.name).is_none();
            document.need(new, &span, format!("there are two modes `{}`", mode.name))?;
            let first = machine.modes.is_empty();
            let counted = if first {
                mode.units == units
            } else {
                (1..=units).contains(&mode.units)
            };
            let reason = "a mode's `units` are at most the board's; the first mode's are the board's, and so are its rates";
            document.need(counted, &span, reason)?;
            let clocked = mode.gpu_mhz > 0 && mode.memory_mhz > 0;
            document.need(clocked, &span, "`gpu_mhz` and `memory_mhz` must be above 0")?;
            machine.modes.push(Mode {
                name: mode.name,
                units: mode.units,
                gpu_mhz: mode.gpu_mhz,
                memory_mhz: mode.memory_mhz,
                cpu_cores: mode.cpu_cores,
                cpu_mhz: mode.cpu_mhz,
            });
        }
        Ok(machine)
    }

    /// The mode of that name, whatever the case.
    pub fn find(&self, mode: &str) -> Option<&Mode> {
        self.modes.iter().find(|m| m.name.eq_ignore_ascii_case(mode))
    }

    /// Name of the board that `board` is in a mode: its own in the first one.
    pub fn name_in(&self, board: &BoardRecord, mode: &str) -> Result<String, ModeError> {
        let found = self.known(board, mode)?;
        let first = self.modes.first() == Some(found);
        let suffix = found.name.to_ascii_lowercase().replace('_', "-");
        Ok(if first {
            board.name.clone()
        } else {
            format!("{}-{suffix}", board.name)
        })
    }

    /// The board that `board` is in a mode: arithmetic in proportion to units and their clock, bandwidth to the memory's
    /// clock, the cost of a launch against the units' clock.
    pub fn in_mode(&self, board: &BoardRecord, mode: &str) -> Result<BoardRecord, ModeError> {
        let to = self.known(board, mode)?;
        let name = self.name_in(board, mode)?;
        let Some(from) = self.modes.first().filter(|first| *first != to) else {
            return Ok(board.clone());
        };
        let clock = to.gpu_mhz as f32 / from.gpu_mhz as f32;
        let mut moded = board.clone();
        moded.name = name;
        moded.units = to.units;
        moded.macs_per_ns *= clock * to.units as f32 / from.units as f32;
        moded.bytes_per_ns *= to.memory_mhz as f32 / from.memory_mhz as f32;
        moded.issue.0 = (moded.issue.0 as f64 / f64::from(clock)).round() as u64;
        Ok(moded)
    }

    fn known(&self, board: &BoardRecord, mode: &str) -> Result<&Mode, ModeError> {
        self.find(mode).ok_or_else(|| ModeError::Unknown {
            board: board.name.clone(),
            mode: mode.to_owned(),
            modes: self.modes.iter().map(|m| m.name.clone()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::boards::{in_mode, load, machine};

    const ORIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/boards/jetson-agx-orin.toml");

    #[test]
    fn a_mode_has_its_share_of_units_and_clocks() {
        let whole = load(ORIN).unwrap();
        let slow = in_mode(ORIN, "mode_15w").unwrap();
        assert_eq!((slow.name.as_str(), slow.units), ("jetson-agx-orin-mode-15w", 6));
        let near = |a: f32, b: f32| (a / b - 1.0).abs() < 1e-5;
        assert!(near(slow.macs_per_ns, whole.macs_per_ns * (408.0 / 1300.0) * (6.0 / 16.0)));
        assert!(near(slow.bytes_per_ns, whole.bytes_per_ns * (2133.0 / 3199.0)));
        assert_eq!(slow.issue.0, (2500.0_f64 * 1300.0 / 408.0).round() as u64);
        assert_eq!((slow.memory_budget, &slow.architecture), (whole.memory_budget, &whole.architecture));
        let error = in_mode(ORIN, "turbo").unwrap_err().to_string();
        assert!(error.contains("`turbo`") && error.contains("MODE_30W"), "{error}");
    }

    #[test]
    fn what_a_machine_cannot_be_is_an_error_with_its_line() {
        let text = std::fs::read_to_string(ORIN).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.toml");
        let read = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
            machine(file.to_str().unwrap()).map(|_| ()).map_err(|e| e.to_string())
        };
        assert_eq!(read("\"12.6\"", "\"12.6\""), Ok(()));
        let wrong = |from, to, reason: &str| {
            let error = read(from, to).unwrap_err();
            assert!(error.contains(reason) && error.contains("b.toml:"), "{error}");
        };
        wrong("\"12.6\"", "\"twelve\"", "`cuda` is a version");
        wrong(
            "name = \"MODE_50W\"\nunits = 16",
            "name = \"MODE_50W\"\nunits = 17",
            "at most the board's",
        );
        wrong(
            "name = \"MAXN\"\nunits = 16",
            "name = \"MAXN\"\nunits = 12",
            "the first mode's are the board's",
        );
        wrong("\"MODE_50W\"", "\"maxn\"", "two modes");
        wrong("\"MODE_50W\"", "\"50 W\"", "letters, digits");
        wrong("gpu_mhz = 816", "gpu_mhz = 0", "above 0");
        wrong("gpu_mhz = 816", "gpu_ghz = 816", "gpu_ghz");
    }
}
