//! Boards: `boards/<name>.toml`, what the planner needs to know of the machine that runs the plans.

use super::document::{Document, TomlError};
use super::floor::Limits;
use super::machine::{Machine, MachineTable, ModeError, ModeTable};
use crate::board::{BackendKind, BoardRecord};
use crate::limits::MAX_BYTES;
use crate::units::Nanos;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The board `host` as it comes with the program, for where there is no folder `boards`.
const HOST: &str = include_str!("../../boards/host.toml");

/// Longest time of one launch.
const MAX_ISSUE_NS: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BoardTable {
    name: Spanned<String>,
    backend: BackendKind,
    architecture: Option<Spanned<String>>,
    units: Spanned<u32>,
    memory_mib: Spanned<u64>,
    rates: RatesTable,
    limits: Option<LimitsTable>,
    machine: Option<MachineTable>,
    #[serde(default)]
    modes: Vec<Spanned<ModeTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RatesTable {
    macs_per_ns_and_unit: Spanned<f32>,
    bytes_per_ns: Spanned<f32>,
    issue_ns: Spanned<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    macs_per_ns_and_unit: Spanned<f64>,
    bytes_per_ns: Spanned<f64>,
    written_per_ns: Option<Spanned<f64>>,
    launch_ns: Spanned<f64>,
}

/// Reads a board: a file if `name_or_file` ends in `.toml`, else `boards/<name>.toml` below the current directory.
/// `host` is always known.
///
/// `units = 0` becomes the number of cores at hand here, and a missing architecture this machine's: such a board describes
/// whatever machine plans for itself.
pub fn load(name_or_file: &str) -> Result<BoardRecord, TomlError> {
    parse(&open(name_or_file)?)
}

/// What the file of a board says of the machine, as [`load`] finds it.
pub fn machine(name_or_file: &str) -> Result<Machine, TomlError> {
    machine_of(&open(name_or_file)?)
}

/// The board in another of the power modes that its file lists, by name, whatever the case: a board of its own,
/// `<name>-<mode>`, of the file of that name if there is one. Its own record in the first mode, which its rates are of.
pub fn in_mode(name_or_file: &str, mode: &str) -> Result<BoardRecord, ModeError> {
    let (board, machine) = (load(name_or_file)?, machine(name_or_file)?);
    let name = machine.name_in(&board, mode)?;
    if name != board.name && Path::new("boards").join(format!("{name}.toml")).exists() {
        return Ok(load(&name)?);
    }
    machine.in_mode(&board, mode)
}

fn open(name_or_file: &str) -> Result<Document, TomlError> {
    let path = match name_or_file.strip_suffix(".toml") {
        Some(_) => PathBuf::from(name_or_file),
        None => Path::new("boards").join(format!("{name_or_file}.toml")),
    };
    if name_or_file == "host" && !path.exists() {
        return Ok(Document::new(&path, HOST.to_owned()));
    }
    Document::read(&path)
}

fn machine_of(document: &Document) -> Result<Machine, TomlError> {
    let table: BoardTable = document.parse()?;
    Machine::read(document, *table.units.get_ref(), table.machine, table.modes)
}

/// Every board of a folder, by file name: the file, and the board or what is wrong with it.
pub fn all(folder: &Path) -> Vec<(PathBuf, Result<BoardRecord, TomlError>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    let read = |path: PathBuf| {
        let board = Document::read(&path).and_then(|d| parse(&d));
        (path, board)
    };
    files.into_iter().map(read).collect()
}

/// Why there is no board of some SMs of another.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// There are not so many.
    #[error("board {board} has {units} SMs, it cannot be confined to {asked}")]
    TooMany {
        /// The board.
        board: String,
        /// Its SMs.
        units: u32,
        /// The SMs asked for.
        asked: u32,
    },
    /// The share's own file is not in order.
    #[error(transparent)]
    File(#[from] TomlError),
}

/// The board that `sms` SMs of a board are: the one of the file `boards/<name>-sm<N>.toml` if there is one, else a board of
/// that name with its share of the rates.
pub fn confined(board: &BoardRecord, sms: u32) -> Result<BoardRecord, ConfineError> {
    let name = format!("{}-sm{sms}", board.name);
    if board.units == sms {
        return Ok(board.clone());
    }
    if board.units < sms {
        return Err(ConfineError::TooMany {
            board: board.name.clone(),
            units: board.units,
            asked: sms,
        });
    }
    if Path::new("boards").join(format!("{name}.toml")).exists() {
        return Ok(load(&name)?);
    }
    Ok(share(board, sms, name))
}

/// A share of a board: arithmetic and bandwidth in proportion to its SMs, the memory whole.
fn share(board: &BoardRecord, sms: u32, name: String) -> BoardRecord {
    let part = sms as f32 / board.units as f32;
    BoardRecord {
        name,
        units: sms,
        macs_per_ns: board.macs_per_ns * part,
        bytes_per_ns: board.bytes_per_ns * part,
        ..board.clone()
    }
}

/// The best rates measured on a board, from `[limits]` of `boards/<name>.toml` below the current directory; `None` if its file
/// has none or there is no file.
pub fn limits(board: &BoardRecord) -> Result<Option<Limits>, TomlError> {
    let path = Path::new("boards").join(format!("{}.toml", board.name));
    match path.exists() {
        true => limits_of(&Document::read(&path)?, board.units),
        false => Ok(None),
    }
}

fn limits_of(document: &Document, units: u32) -> Result<Option<Limits>, TomlError> {
    let Some(table) = document.parse::<BoardTable>()?.limits else {
        return Ok(None);
    };
    let written = table.written_per_ns.as_ref().unwrap_or(&table.bytes_per_ns);
    for (key, limit) in [
        ("macs_per_ns_and_unit", &table.macs_per_ns_and_unit),
        ("bytes_per_ns", &table.bytes_per_ns),
        ("written_per_ns", written),
        ("launch_ns", &table.launch_ns),
    ] {
        let positive = limit.get_ref().is_finite() && *limit.get_ref() > 0.0;
        document.need(positive, &limit.span(), format!("`{key}` must be a number above 0"))?;
    }
    Ok(Some(Limits {
        written_per_ns: *written.get_ref(),
        macs_per_ns: table.macs_per_ns_and_unit.into_inner() * f64::from(units),
        bytes_per_ns: table.bytes_per_ns.into_inner(),
        launch_ns: table.launch_ns.into_inner(),
    }))
}

fn parse(document: &Document) -> Result<BoardRecord, TomlError> {
    let table: BoardTable = document.parse()?;
    let units = match *table.units.get_ref() {
        0 if table.backend == BackendKind::Cpu => std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        units => units,
    };
    let counted = (1..=u32::from(u16::MAX)).contains(&units);
    let reason = "`units` must be in 1..=65535, or 0 on the CPU backend for all cores of this machine";
    document.need(counted, &table.units.span(), reason)?;
    let architecture = match (table.architecture, table.backend) {
        (Some(architecture), _) => document.name("architecture", architecture)?,
        (None, BackendKind::Cpu) => std::env::consts::ARCH.to_owned(),
        (None, BackendKind::Cuda) => return Err(document.invalid(&table.name.span(), "a GPU board needs `architecture`, as `sm_90a`")),
    };
    let budget = table
        .memory_mib
        .get_ref()
        .checked_mul(1 << 20)
        .filter(|b| (1..=MAX_BYTES).contains(b));
    let reason = format!("`memory_mib` must be in 1..={}", MAX_BYTES >> 20);
    let memory_budget = budget.ok_or_else(|| document.invalid(&table.memory_mib.span(), reason))?;
    for (key, rate) in [
        ("macs_per_ns_and_unit", &table.rates.macs_per_ns_and_unit),
        ("bytes_per_ns", &table.rates.bytes_per_ns),
    ] {
        let positive = rate.get_ref().is_finite() && *rate.get_ref() > 0.0;
        document.need(positive, &rate.span(), format!("`{key}` must be a number above 0"))?;
    }
    let issue = &table.rates.issue_ns;
    document.need(
        *issue.get_ref() <= MAX_ISSUE_NS,
        &issue.span(),
        format!("`issue_ns` must be at most {MAX_ISSUE_NS}: it is the time of one launch"),
    )?;
    // Plans and measured times lie in folders of the board's name.
    let name = table.name.get_ref();
    let plain = !name.starts_with('.') && !name.contains('/');
    let reason = "`name` names folders: it must not hold `/` nor begin with a dot";
    document.need(plain, &table.name.span(), reason)?;
    Ok(BoardRecord {
        name: document.file_part("name", table.name)?,
        backend: table.backend,
        architecture,
        units,
        memory_budget,
        macs_per_ns: table.rates.macs_per_ns_and_unit.into_inner() * units as f32,
        bytes_per_ns: table.rates.bytes_per_ns.into_inner(),
        issue: Nanos(*table.rates.issue_ns.get_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::architecture::ARCHITECTURES;

    fn read(text: &str) -> Result<BoardRecord, TomlError> {
        parse(&Document::new(Path::new("b.toml"), text.to_owned()))
    }

    #[test]
    fn host_has_this_machines_cores_and_architecture() {
        let board = load("host").unwrap();
        assert_eq!(board.units as usize, std::thread::available_parallelism().unwrap().get());
        assert_eq!((board.name.as_str(), board.architecture.as_str()), ("host", std::env::consts::ARCH));
    }

    #[test]
    fn every_board_of_the_repository_reads_under_its_own_name() {
        let boards = all(Path::new(env!("CARGO_MANIFEST_DIR")).join("boards").as_path());
        for (file, board) in &boards {
            let board = board.as_ref().unwrap();
            assert_eq!(file.file_stem().unwrap().to_str(), Some(board.name.as_str()));
            let known = board.backend == BackendKind::Cpu || ARCHITECTURES.contains(&board.architecture.as_str());
            assert!(known, "{}: kernels for {} cannot be compiled", board.name, board.architecture);
        }
        let units = |name: &str| {
            let board = boards.iter().filter_map(|(_, b)| b.as_ref().ok()).find(|b| b.name == name);
            board.map(|b| (b.architecture.clone(), b.units))
        };
        assert_eq!(units("h200"), Some(("sm_90a".into(), 132)));
        assert_eq!(units("h200-sm16"), Some(("sm_90a".into(), 16)));
        assert_eq!(units("jetson-agx-orin"), Some(("sm_87".into(), 16)));
        assert_eq!(units("jetson-orin-nx"), Some(("sm_87".into(), 8)));
        assert_eq!(units("jetson-orin-nano"), Some(("sm_87".into(), 8)));
        assert_eq!(units("jetson-agx-thor"), Some(("sm_110".into(), 20)));
    }

    #[test]
    fn every_machine_of_the_repository_reads_and_plans_in_all_its_modes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
        let mut modes = 0;
        for (file, board) in all(&folder) {
            let (file, board) = (file.to_str().unwrap().to_owned(), board.unwrap());
            let machine = machine(&file).unwrap();
            // A GPU that shares the host's memory is a Jetson's, which says so in its device tree.
            assert_eq!(machine.integrated, machine.model.is_some(), "{file}");
            assert!(machine.cuda.is_some() || !board.name.starts_with("jetson"), "{file}");
            for (place, mode) in machine.modes.iter().enumerate() {
                let moded = in_mode(&file, &mode.name.to_lowercase()).unwrap();
                assert_eq!(moded == board, place == 0, "{file} {}", mode.name);
                assert!(
                    moded.units == mode.units && moded.macs_per_ns <= board.macs_per_ns,
                    "{file} {}",
                    mode.name
                );
                modes += 1;
            }
        }
        assert!(modes >= 17, "{modes}");
    }

    #[test]
    fn limits_are_those_of_all_units_and_above_nothing() {
        let text = format!("{HOST}\n[limits]\nmacs_per_ns_and_unit = 2.0\nbytes_per_ns = 3.0\nlaunch_ns = 4.5\n");
        let read = |text: &str| limits_of(&Document::new(Path::new("b.toml"), text.to_owned()), 10);
        let expected = Limits {
            macs_per_ns: 20.0,
            bytes_per_ns: 3.0,
            written_per_ns: 3.0,
            launch_ns: 4.5,
        };
        assert_eq!(read(&text).unwrap(), Some(expected));
        let slower = Limits {
            written_per_ns: 1.5,
            ..expected
        };
        assert_eq!(read(&format!("{text}written_per_ns = 1.5\n")).unwrap(), Some(slower));
        assert_eq!(read(HOST).unwrap(), None);
        let error = read(&text.replace("4.5", "0.0")).unwrap_err().to_string();
        assert!(error.contains("launch_ns"), "{error}");
    }

    #[test]
    fn some_sms_of_a_board_are_a_board_of_their_own() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/boards/h200.toml");
        let whole = load(file).unwrap();
        assert_eq!(confined(&whole, 132).unwrap(), whole);
        let half = confined(&whole, 66).unwrap();
        assert_eq!(
            (half.name.as_str(), half.units, half.memory_budget),
            ("h200-sm66", 66, whole.memory_budget)
        );
        assert_eq!(half.macs_per_ns, whole.macs_per_ns / 2.0);
        let error = confined(&whole, 133).unwrap_err().to_string();
        assert!(error.contains("132 SMs") && error.contains("133"), "{error}");
    }

    #[test]
    fn figures_that_cannot_be_are_errors_where_they_stand() {
        let line = |text: String| match read(&text) {
            Err(TomlError::Invalid { line, .. }) => line,
            other => panic!("{other:?}"),
        };
        let at = |key: &str| HOST.lines().position(|l| l.starts_with(key)).unwrap() + 1;
        assert_eq!(line(HOST.replace("memory_mib = 8192", "memory_mib = 0")), at("memory_mib"));
        assert_eq!(
            line(HOST.replace("memory_mib = 8192", "memory_mib = 9000000000000000000")),
            at("memory_mib")
        );
        assert_eq!(line(HOST.replace("bytes_per_ns = 20.0", "bytes_per_ns = inf")), at("bytes_per_ns"));
        assert_eq!(line(HOST.replace("issue_ns = 2000", "issue_ns = 1000001")), at("issue_ns"));
        assert_eq!(line(HOST.replace("units = 0", "units = 70000")), at("units"));
        assert_eq!(line(HOST.replace("\"cpu\"", "\"cuda\"")), at("units"));
        assert_eq!(
            line(HOST.replace("\"cpu\"", "\"cuda\"").replace("units = 0", "units = 7")),
            at("name")
        );
        assert!(load("no-such-board").is_err());
    }
}
