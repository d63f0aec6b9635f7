//! The operator lookup table of a board: how long each tactic took on it, operator by operator.
//!
//! `boards/<board>/optable` is text: a header that says where the figures come from, then a line for each operator and
//! tactic, sorted. An operator is known by a digest of everything its time depends on besides its tactic (primitives,
//! types, shapes, strides, alignment, arithmetic class), a tactic by its kernel, tile and variant and by the digest of the
//! sources it is compiled from: where these have changed since, the line counts no more. Behind the tactic of an operator
//! that ran in chunks stands how it was cut, `@2x1` for two parts of the batch, `@1x2` for two of the rows, about equal
//! ones; its time is that of all of them.

use crate::backend::cuda::architecture::Toolkit;
use crate::backend::cuda::sources;
use crate::board::BoardRecord;
use crate::ids::{BufferId, TenantId};
use crate::plan::file::OPERATOR_VERSION;
use crate::plan::format::{Digest, Kernel, Operand, Operator, Plan, Space, Tactic, View};
use crate::plan::regular;
use crate::units::Nanos;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Version of the format and of the way operators are digested.
const FORMAT: u32 = 1;
/// First line of every table.
const TITLE: &str = "platoon operator table";
/// Most bytes of a table that is read.
const MAX_TABLE: u64 = 64 << 20;
/// Hexadecimal digits of a digest that are kept: 128 bits.
const DIGITS: usize = 32;

/// Where a table's figures come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The board's name.
    pub board: String,
    /// Its architecture.
    pub architecture: String,
    /// Its units.
    pub units: u32,
    /// The GPU, in the driver's words; on the CPU backend the processor in its own.
    pub gpu: String,
    /// The newest CUDA version that the driver serves; [`Toolkit::NONE`] on the CPU backend.
    pub driver: Toolkit,
    /// The toolkit that compiled the kernels; [`Toolkit::NONE`] on the CPU backend.
    pub toolkit: Toolkit,
    /// When it was measured, in the words of whoever measured; empty if they gave none.
    pub date: String,
}

impl Provenance {
    /// The lines at the head of a file of figures, one a field.
    pub fn header(&self) -> String {
        let plain = |t: &str| t.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = [
            ("board", plain(&self.board)),
            ("architecture", plain(&self.architecture)),
            ("units", self.units.to_string()),
            ("gpu", plain(&self.gpu)),
            ("driver", self.driver.to_string()),
            ("toolkit", self.toolkit.to_string()),
            ("date", plain(&self.date)),
        ];
        lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }
}

/// What was measured of one tactic of one operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Half of the runs took no longer.
    pub median: Nanos,
    /// From the run that a tenth are faster than to the one that a tenth are slower than.
    pub spread: Nanos,
    /// Runs.
    pub runs: u32,
}

/// What a time is known by: the operator, the tactic, the tactic's sources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    operator: String,
    tactic: String,
    sources: String,
}

/// A board's measured times.
#[derive(Clone, PartialEq, Eq)]
pub struct OpTable {
    /// Where they come from.
    pub provenance: Provenance,
    times: BTreeMap<Key, Measured>,
}

/// For what a plan is made from: a table is told by its digest.
impl std::fmt::Debug for OpTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Digest::of(self.render().as_bytes()))
    }
}

/// Why a table is refused.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A line that says something else than it should.
    #[error("{}:{line}: {what}: measure again with `platoon profile`", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It was measured on something else than the board.
    #[error("{}: measured on {found}, not on this board: measure again with `platoon profile`", path.display())]
    Board {
        /// The file.
        path: PathBuf,
        /// What it was measured on.
        found: String,
    },
}

/// The text of a board's table of at most `most` bytes, or else refused as `too_long`; `None` if there is no such file.
pub fn read(path: &Path, most: u64, too_long: &'static str) -> Result<Option<String>, TableError> {
    let refuse = |error| TableError::Read {
        path: path.to_path_buf(),
        error,
    };
    match regular::read_text(path, most) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => Err(refuse(std::io::Error::other(too_long))),
        other => other.map(Some).map_err(refuse),
    }
}

/// Where the table of a board file lies: in the folder of the board's name beside it.
pub fn path(boards: &Path, board: &BoardRecord) -> PathBuf {
    boards.join(&board.name).join("optable")
}

impl OpTable {
    /// A table without times.
    pub fn new(provenance: Provenance) -> OpTable {
        OpTable {
            provenance,
            times: BTreeMap::new(),
        }
    }

    /// A table for times that are not kept: those of one run on a board.
    pub fn unplaced(board: &BoardRecord) -> OpTable {
        let none = Toolkit::NONE;
        OpTable::new(Provenance {
            board: board.name.clone(),
            architecture: board.architecture.clone(),
            units: board.units,
            gpu: String::new(),
            driver: none,
            toolkit: none,
            date: String::new(),
        })
    }

    /// The table in a file, which must be the board's; `None` if there is no file.
    pub fn load(path: &Path, board: &BoardRecord) -> Result<Option<OpTable>, TableError> {
        let Some(text) = read(path, MAX_TABLE, "it is too long for a table")? else {
            return Ok(None);
        };
        let table = OpTable::parse(&text).map_err(|(line, what)| TableError::Line {
            path: path.to_path_buf(),
            line,
            what,
        })?;
        let of = &table.provenance;
        if (of.architecture.as_str(), of.units) != (board.architecture.as_str(), board.units) {
            return Err(TableError::Board {
                path: path.to_path_buf(),
                found: format!("{} ({}, {} SMs)", of.board, of.architecture, of.units),
            });
        }
        Ok(Some(table))
    }

    /// How many times there are.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// What the time of an operator of a plan under a tactic is known by.
    pub fn key(&self, plan: &Plan, operator: &Operator, tactic: Tactic) -> Key {
        self.keys(plan, operator, &[tactic]).swap_remove(0)
    }

    /// The same under some tactics, in their order. What several of them have in common is digested once.
    fn keys(&self, plan: &Plan, operator: &Operator, menu: &[Tactic]) -> Vec<Key> {
        let (digest, cut) = (short(operator_digest(plan, operator)), cut(operator));
        let mut sources: Vec<(Kernel, String)> = Vec::new();
        let mut sources_of = |kernel: Kernel| {
            if let Some((_, known)) = sources.iter().find(|(k, _)| *k == kernel) {
                return known.clone();
            }
            let digest = short(tactic_sources(kernel, &self.provenance));
            sources.push((kernel, digest.clone()));
            digest
        };
        let key = |&tactic: &Tactic| Key {
            operator: digest.clone(),
            tactic: told(tactic) + &cut,
            sources: sources_of(tactic.kernel),
        };
        menu.iter().map(key).collect()
    }

    /// A measured time.
    pub fn time(&self, key: &Key) -> Option<Measured> {
        self.times.get(key).copied()
    }

    /// Notes a measured time, in place of any that is known under the same operator and tactic.
    pub fn note(&mut self, key: Key, measured: Measured) {
        let same = |k: &Key| (&k.operator, &k.tactic) == (&key.operator, &key.tactic);
        let first = Key {
            sources: String::new(),
            ..key.clone()
        };
        let old: Vec<Key> = self.times.range(first..).map(|(k, _)| k).take_while(|k| same(k)).cloned().collect();
        old.iter().for_each(|k| {
            self.times.remove(k);
        });
        self.times.insert(key, measured);
    }

    /// Drops the times of kernels whose sources have changed since, and of those that are no more: they count for nothing.
    pub fn forget_changed(&mut self) {
        let provenance = &self.provenance;
        let mut current: BTreeMap<String, Option<String>> = BTreeMap::new();
        self.times.retain(|key, _| {
            let name = key.tactic.split('/').next().unwrap_or_default();
            if !current.contains_key(name) {
                let sources = kernel_named(name).map(|kernel| short(tactic_sources(kernel, provenance)));
                current.insert(name.to_owned(), sources);
            }
            current[name].as_deref() == Some(&key.sources)
        });
    }

    /// The measured time of an operator under its own tactic, cut as it is.
    pub fn of(&self, plan: &Plan, operator: &Operator) -> Option<Nanos> {
        Some(self.time(&self.key(plan, operator, operator.tactic))?.median)
    }

    /// The measured times of an operator under some tactics, in their order.
    pub fn under(&self, plan: &Plan, operator: &Operator, menu: &[Tactic]) -> Vec<Option<Nanos>> {
        let keys = self.keys(plan, operator, menu);
        keys.iter().map(|key| Some(self.time(key)?.median)).collect()
    }

    /// Of some tactics of an operator, the fastest measured one; the first of equals. `None` if none is measured.
    pub fn fastest(&self, plan: &Plan, operator: &Operator, menu: &[Tactic]) -> Option<(Tactic, Nanos)> {
        let timed = menu.iter().zip(self.under(plan, operator, menu));
        timed
            .filter_map(|(&tactic, time)| Some((tactic, time?)))
            .min_by_key(|(_, time)| *time)
    }

    /// The table as text.
    pub fn render(&self) -> String {
        let mut text = format!("{TITLE}, format {FORMAT}\n{}", self.provenance.header());
        text.push_str("columns: operator, tactic, sources, median ns, spread ns, runs\n");
        for (key, m) in &self.times {
            let _ = writeln!(
                text,
                "{} {} {} {} {} {}",
                key.operator, key.tactic, key.sources, m.median.0, m.spread.0, m.runs
            );
        }
        text
    }

    /// Reads a table's text; the error is a line, from 1, and what is wrong with it.
    pub fn parse(text: &str) -> Result<OpTable, (usize, &'static str)> {
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
        let mut next = || lines.next().unwrap_or((text.lines().count() + 1, ""));
        let (at, title) = next();
        if title != format!("{TITLE}, format {FORMAT}") {
            return Err((at, "this is no operator table of a format that this program reads"));
        }
        let mut field = |name: &str, what: &'static str| {
            let (at, line) = next();
            let value = line.strip_prefix(name).and_then(|l| l.strip_prefix(':'));
            value.map(|v| (at, v.trim())).ok_or((at, what))
        };
        let (_, board) = field("board", "here should stand the board")?;
        let (_, architecture) = field("architecture", "here should stand the architecture")?;
        let (units_at, units) = field("units", "here should stand the units")?;
        let (_, gpu) = field("gpu", "here should stand the GPU")?;
        let (driver_at, driver) = field("driver", "here should stand the driver's CUDA version")?;
        let (toolkit_at, toolkit) = field("toolkit", "here should stand the toolkit")?;
        let (_, date) = field("date", "here should stand the date")?;
        field("columns", "here should stand the columns")?;
        let mut table = OpTable::new(Provenance {
            board: board.to_owned(),
            architecture: architecture.to_owned(),
            units: units.parse().map_err(|_| (units_at, "this is no number of units"))?,
            gpu: gpu.to_owned(),
            driver: Toolkit::parse(driver).ok_or((driver_at, "this is no CUDA version"))?,
            toolkit: Toolkit::parse(toolkit).ok_or((toolkit_at, "this is no CUDA version"))?,
            date: date.to_owned(),
        });
        for (at, line) in lines {
            let (key, measured) = entry(line).ok_or((at, "this is no time of an operator"))?;
            if table.times.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err((at, "the lines are not in order, or one is there twice"));
            }
            table.times.insert(key, measured);
        }
        Ok(table)
    }
}

fn entry(line: &str) -> Option<(Key, Measured)> {
    let words: Vec<&str> = line.split(' ').collect();
    let [operator, tactic, sources, median, spread, runs] = words[..] else {
        return None;
    };
    let digest = |t: &str| (t.len() == DIGITS && t.bytes().all(|b| b.is_ascii_hexdigit())).then(|| t.to_owned());
    let key = Key {
        operator: digest(operator)?,
        tactic: Some(tactic).filter(|t| !t.is_empty())?.to_owned(),
        sources: digest(sources)?,
    };
    let measured = Measured {
        median: Nanos(median.parse().ok()?),
        spread: Nanos(spread.parse().ok()?),
        runs: runs.parse().ok()?,
    };
    Some((key, measured))
}

fn short(digest: Digest) -> String {
    let mut text = digest.to_string();
    text.truncate(DIGITS);
    text
}

/// A tactic in a word: kernel, tile, variant.
pub fn told(tactic: Tactic) -> String {
    format!("{:?}/{}x{}/{}", tactic.kernel, tactic.tile.0, tactic.tile.1, tactic.variant)
}

/// The kernel that a tactic is told of by this name.
fn kernel_named(name: &str) -> Option<Kernel> {
    let name: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
    Kernel::deserialize(name).ok()
}

/// How an operator is cut, behind its tactic: parts along the batch by parts along the rows, nothing for a whole one.
fn cut(operator: &Operator) -> String {
    let parts = |mut starts: Vec<u32>| {
        starts.sort_unstable();
        starts.dedup();
        starts.len()
    };
    let batches = parts(operator.chunks.iter().map(|c| c.batch.start).collect());
    let rows = parts(operator.chunks.iter().map(|c| c.rows.start).collect());
    match (batches, rows) {
        (0 | 1, 0 | 1) => String::new(),
        (batches, rows) => format!("@{batches}x{rows}"),
    }
}

/// Digest of what a kernel is compiled from, for an architecture, by a toolkit. The processor's kernels are part of the program:
/// its version stands for them.
fn tactic_sources(kernel: Kernel, provenance: &Provenance) -> Digest {
    /// The sources are part of the program: a digest that was made once holds as long as it runs.
    static KNOWN: Mutex<BTreeMap<(String, Toolkit, Kernel), Digest>> = Mutex::new(BTreeMap::new());
    if provenance.toolkit == Toolkit::NONE {
        return Digest::of(concat!("platoon ", env!("CARGO_PKG_VERSION")).as_bytes());
    }
    let make = || {
        let units = sources::UNITS.iter().filter(|u| sources::serves(u.name, kernel));
        let digests = units.map(|u| sources::unit_digest(u, &provenance.architecture, provenance.toolkit).to_string());
        Digest::of(digests.collect::<String>().as_bytes())
    };
    // Nothing that panics leaves a digest half made.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = (provenance.architecture.clone(), provenance.toolkit, kernel);
    *known.entry(asked).or_insert_with(make)
}

/// Digest of everything that an operator's time depends on besides its tactic, chunks and width.
fn operator_digest(plan: &Plan, operator: &Operator) -> Digest {
    /// Offsets count up to this alignment.
    const ALIGN: u64 = 64;
    let mut own = Operator {
        tenant: TenantId(0),
        name: String::new(),
        tactic: Tactic::of(Kernel::Generic),
        width: 0,
        chunks: Vec::new(),
        ..operator.clone()
    };
    // Buffers are numbered in the order in which they are met, so that only what is shared between views counts.
    let mut met: Vec<(BufferId, u8)> = Vec::new();
    let mut renumber = |view: &mut View| {
        let space = plan.buffers.get(view.buffer.index()).map(|b| b.space);
        let kind = match space {
            Some(Space::Weights(_)) => 1,
            Some(Space::Camera(_)) => 2,
            _ => 0,
        };
        let known = met.iter().position(|(b, _)| *b == view.buffer);
        let number = known.unwrap_or_else(|| {
            met.push((view.buffer, kind));
            met.len() - 1
        });
        view.buffer = BufferId(number as u32);
        view.origin %= ALIGN;
    };
    for call in &mut own.calls {
        for input in &mut call.inputs {
            if let Operand::View(view) = input {
                renumber(view);
            }
        }
    }
    own.outputs.iter_mut().for_each(&mut renumber);
    let kinds: Vec<u8> = met.into_iter().map(|(_, kind)| kind).collect();
    // Operators hold sequences of known length only, which postcard cannot fail to write to memory.
    let bytes = postcard::to_allocvec(&(FORMAT, OPERATOR_VERSION, own, kinds)).expect("operators are serialisable");
    Digest::of(&bytes)
}

#[cfg(test)]
mod tests;
