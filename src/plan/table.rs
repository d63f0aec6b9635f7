//! The table of plans: which plan runs which task set, and the record of the board they were made for.

use super::file::{self, FileError, Kind};
use super::format::{Camera, Digest, Plan};
use crate::board::{BackendKind, BoardRecord};
use crate::limits::{MAX_BYTES, MAX_CAMERAS, MAX_IMAGE_SIDE, MAX_NAME, MAX_PLANS, MAX_SLOTS};
use serde::{Deserialize, Serialize};

/// What a directory `plans/<board>` holds; its file is named `table`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The board the plans were made for. Plans name it by its digest (P7).
    pub board: BoardRecord,
    /// Backend that runs the plans unless told otherwise.
    pub backend: BackendKind,
    /// Task set that is active first.
    pub default_task_set: String,
    /// Frames that may be in flight or unreleased, at least 1.
    pub slots: u16,
    /// Cameras, the same in all plans.
    pub cameras: Vec<Camera>,
    /// The plans; `PlanId` counts these.
    pub entries: Vec<Entry>,
}

/// One plan of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Task set that the plan runs.
    pub task_set: String,
    /// The plan's file in the table's directory, without any folder.
    pub file: String,
    /// SHA-256 of the plan's file.
    pub digest: Digest,
}

impl Entry {
    /// The entry of a plan, in the file that [`plan_file`] names.
    pub fn of(plan: &Plan) -> Entry {
        Entry {
            task_set: plan.task_set.clone(),
            file: plan_file(&plan.task_set),
            digest: Digest::of(&file::encode(plan)),
        }
    }

    /// The file that holds the plan from before the table is written until it has its name: whoever writes may be stopped in
    /// between, and table and plans are whole at every moment.
    pub fn awaiting(&self) -> String {
        format!("{}.{}", self.file, self.digest)
    }
}

/// Most bytes of a plan file's name: behind it come a dot and 64 digits while it is written ([`Entry::awaiting`]), and file systems
/// take 255.
pub const MAX_PLAN_FILE: usize = 190;

/// The file of a task set's plan: `<task set>.plan`, with `_` for characters of the name that a file should not have.
pub fn plan_file(task_set: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let stem: String = task_set.chars().map(plain).collect();
    format!("{stem}.plan")
}

/// Why a table is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The bytes are no table.
    #[error(transparent)]
    File(#[from] FileError),
    /// A count or a size is beyond its limit.
    #[error("{what} is {found}, allowed is {low} to {high}")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// Fewest.
        low: u64,
        /// Most.
        high: u64,
    },
    /// The board's figures are no numbers.
    #[error("a rate of the board record is not a finite number")]
    Board,
    /// A file name that could lead out of the directory.
    #[error("{0:?} is no plain file name of letters, digits, '.', '-' and '_'")]
    FileName(String),
    /// Two entries share a task set or a file.
    #[error("task set or file {0:?} occurs twice")]
    Twice(String),
    /// The default task set has no plan.
    #[error("the default task set {0:?} has no plan in the table")]
    Default(String),
}

/// True for a name that stays inside its directory on every file system: letters, digits, `-`, `_` and single inner dots.
fn is_plain_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 255 && name.chars().all(plain) && !name.starts_with('.') && !name.contains("..")
}

impl Table {
    /// The bytes of the table's file.
    pub fn encode(&self) -> Vec<u8> {
        file::seal(Kind::Table, self)
    }

    /// The table in a file's bytes, checked.
    pub fn decode(bytes: &[u8]) -> Result<Table, TableError> {
        let table: Table = file::open(Kind::Table, bytes)?;
        table.check()?;
        Ok(table)
    }

    /// Checks counts, names and references inside the table.
    pub fn check(&self) -> Result<(), TableError> {
        let limit = |what, found: u64, low: u64, high: u64| {
            let error = TableError::Limit { what, found, low, high };
            if (low..=high).contains(&found) { Ok(()) } else { Err(error) }
        };
        limit("the number of slots", self.slots.into(), 1, MAX_SLOTS as u64)?;
        limit("the number of plans", self.entries.len() as u64, 1, MAX_PLANS as u64)?;
        limit("the number of cameras", self.cameras.len() as u64, 0, MAX_CAMERAS as u64)?;
        limit("the board's number of units", self.board.units.into(), 1, u32::MAX.into())?;
        for name in [&self.board.name, &self.board.architecture, &self.default_task_set] {
            limit("the length of a name", name.len() as u64, 1, MAX_NAME as u64)?;
        }
        for camera in &self.cameras {
            limit("the length of a camera's name", camera.name.len() as u64, 1, MAX_NAME as u64)?;
            limit("a camera's width", camera.max_width.into(), 1, MAX_IMAGE_SIDE.into())?;
            limit("a camera's height", camera.max_height.into(), 1, MAX_IMAGE_SIDE.into())?;
            limit("a camera's bytes", camera.bytes, 1, MAX_BYTES)?;
        }
        if !(self.board.macs_per_ns.is_finite() && self.board.bytes_per_ns.is_finite()) {
            return Err(TableError::Board);
        }
        for (i, entry) in self.entries.iter().enumerate() {
            limit("the length of a task set's name", entry.task_set.len() as u64, 1, MAX_NAME as u64)?;
            if !is_plain_name(&entry.file) {
                return Err(TableError::FileName(entry.file.clone()));
            }
            for earlier in &self.entries[..i] {
                if earlier.task_set == entry.task_set {
                    return Err(TableError::Twice(entry.task_set.clone()));
                }
                if earlier.file == entry.file {
                    return Err(TableError::Twice(entry.file.clone()));
                }
            }
        }
        if !self.entries.iter().any(|e| e.task_set == self.default_task_set) {
            return Err(TableError::Default(self.default_task_set.clone()));
        }
        Ok(())
    }
}
