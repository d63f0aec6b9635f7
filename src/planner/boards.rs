//! Boards: `boards/<name>.toml`, what the planner needs to know of the machine that runs the plans.

use super::document::{Document, TomlError};
use crate::board::{BackendKind, BoardRecord};
use crate::limits::MAX_BYTES;
use crate::units::Nanos;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The board `host` as it comes with the program, for where there is no folder `boards`.
const HOST: &str = include_str!("../../boards/host.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BoardTable {
    name: Spanned<String>,
    backend: BackendKind,
    architecture: Option<Spanned<String>>,
    units: Spanned<u32>,
    memory_mib: Spanned<u64>,
    rates: RatesTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RatesTable {
    macs_per_ns_and_unit: Spanned<f32>,
    bytes_per_ns: Spanned<f32>,
    issue_ns: u64,
}

/// Reads a board: a file if `name_or_file` ends in `.toml`, else `boards/<name>.toml` below the current directory.
/// `host` is always known.
///
/// `units = 0` becomes the number of cores at hand here, and a missing architecture this machine's: such a board describes
/// whatever machine plans for itself.
pub fn load(name_or_file: &str) -> Result<BoardRecord, TomlError> {
    let path = match name_or_file.strip_suffix(".toml") {
        Some(_) => PathBuf::from(name_or_file),
        None => Path::new("boards").join(format!("{name_or_file}.toml")),
    };
    if name_or_file == "host" && !path.exists() {
        return parse(&Document::new(&path, HOST.to_owned()));
    }
    parse(&Document::read(&path)?)
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
        document.need(positive, &rate.span(), format!("`{key}` must be above 0"))?;
    }
    Ok(BoardRecord {
        name: document.name("name", table.name)?,
        backend: table.backend,
        architecture,
        units,
        memory_budget,
        macs_per_ns: table.rates.macs_per_ns_and_unit.into_inner() * units as f32,
        bytes_per_ns: table.rates.bytes_per_ns.into_inner(),
        issue: Nanos(table.rates.issue_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(line(HOST.replace("units = 0", "units = 70000")), at("units"));
        assert_eq!(line(HOST.replace("\"cpu\"", "\"cuda\"")), at("units"));
        assert_eq!(
            line(HOST.replace("\"cpu\"", "\"cuda\"").replace("units = 0", "units = 7")),
            at("name")
        );
        assert!(load("no-such-board").is_err());
    }
}
