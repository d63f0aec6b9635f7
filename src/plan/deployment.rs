//! A table, its plans and their weights, all checked: what a runtime starts from.
//!
//! A directory `plans/<board>` holds `table`, the plan files that it names, and `weights/<digest in hexadecimal>`.

use super::check::{CheckError, CheckedPlan, check};
use super::file::{self, FileError};
use super::format::{Digest, Plan};
use super::regular;
use super::table::{Entry, Table, TableError};
use super::tactic::arithmetic_class_on;
use super::weights::{WeightError, WeightStore};
use crate::ids::{OperatorId, PlanId, SectionId};
use crate::limits::MAX_PLAN_FILE;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Everything a backend prepares. Invariants P1 to P8 hold for every plan of it.
pub struct Deployment {
    /// The table.
    pub table: Table,
    /// Its plans, in its order: `PlanId` counts these.
    pub plans: Vec<CheckedPlan>,
    weights: WeightStore,
}

/// Which file of a deployment is refused, and why.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {reason}", file = file.display())]
pub struct LoadError {
    /// The file, or the name that it would have for a deployment in memory.
    pub file: PathBuf,
    /// Why.
    #[source]
    pub reason: Box<Reason>,
}

/// Why a file of a deployment is refused.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// It cannot be read.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// It is longer than a plan or a table may be.
    #[error("longer than {MAX_PLAN_FILE} bytes: no plan or table is")]
    Large,
    /// The table is refused.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The file of a plan is refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The plan breaks an invariant.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A weight file is refused.
    #[error("P7: {0}")]
    Weights(#[from] WeightError),
    /// The plan's file is not the one that the table names.
    #[error("P7: its SHA-256 is not the table's: compile the task sets again, or copy table and plans together")]
    Digest,
    /// The table names more plans than are given.
    #[error("the table names {entries} plans, {plans} are given")]
    Plans {
        /// Plans the table names.
        entries: usize,
        /// Plans at hand.
        plans: usize,
    },
    /// The plan is for another task set than the table says.
    #[error("P7: the plan is for the task set {found:?}, the table says {stored:?}")]
    TaskSet {
        /// What the table says.
        stored: String,
        /// What the plan says.
        found: String,
    },
    /// The plan was made for another board.
    #[error("P7: the plan was made for another board than the table's {0:?}: compile it for this one")]
    Board(String),
    /// The plan's cameras are not the table's.
    #[error("P7: the plan's cameras are not the table's: compile all task sets from one tasks file")]
    Cameras,
    /// An operator is of another arithmetic class than the table's board gives it: that of another backend or size, or of an earlier version.
    #[error("P7: operator {0} has another arithmetic class than the table's board gives it: compile the task sets again")]
    Class(OperatorId),
    /// It does not fit.
    #[error(
        "P5: arena, slots, persistent memory and weights take {needed} bytes, more than the {budget} that `memory_mib` of the board gives"
    )]
    Budget {
        /// Bytes needed.
        needed: u64,
        /// The board's memory budget.
        budget: u64,
    },
}

fn at<E: Into<Reason>>(file: &Path) -> impl FnOnce(E) -> LoadError {
    move |error| LoadError {
        file: file.to_path_buf(),
        reason: Box::new(error.into()),
    }
}

impl Deployment {
    /// Reads and checks the deployment in a directory. Weights are mapped, not copied.
    pub fn load(dir: &Path) -> Result<Deployment, LoadError> {
        Deployment::read(dir).or_else(|error| {
            // Somebody may have written while this was read: with writers kept out it fails for good or not at all.
            let Ok(folder) = File::open(dir) else { return Err(error) };
            match folder.lock_shared() {
                Ok(()) => Deployment::read(dir),
                Err(_) => Err(error),
            }
        })
    }

    fn read(dir: &Path) -> Result<Deployment, LoadError> {
        let path = dir.join("table");
        let table = Table::decode(&read(&path)?).map_err(at(&path))?;
        let mut plans = Vec::with_capacity(table.entries.len());
        let mut weights = WeightStore::new();
        for entry in &table.entries {
            let path = dir.join(&entry.file);
            let plan = file::decode(&plan_bytes(dir, entry)?).map_err(at(&path))?;
            plans.push(check_for(&table, &entry.task_set, plan).map_err(at(&path))?);
        }
        for record in plans.iter().flat_map(|p| &p.weight_files) {
            let path = dir.join("weights").join(record.digest.to_string());
            weights.map(&path, record).map_err(at(&path))?;
        }
        Deployment { table, plans, weights }.within_budget(&path)
    }

    /// Checks a deployment that never was a directory. `weight_files` are whole files in any order.
    pub fn assemble(table: Table, plans: Vec<Plan>, weight_files: Vec<Vec<u8>>) -> Result<Deployment, LoadError> {
        let mut weights = WeightStore::new();
        weight_files.iter().for_each(|bytes| {
            weights.own(bytes);
        });
        Deployment::over(table, plans, weights)
    }

    /// The same with weight files that are at hand, which are not read again.
    pub fn over(table: Table, plans: Vec<Plan>, weights: WeightStore) -> Result<Deployment, LoadError> {
        let path = Path::new("table");
        table.check().map_err(at(path))?;
        if table.entries.len() != plans.len() {
            return Err(at(path)(Reason::Plans {
                entries: table.entries.len(),
                plans: plans.len(),
            }));
        }
        let check = |(entry, plan): (&Entry, Plan)| {
            let path = Path::new(&entry.file);
            if Digest::of(&file::encode(&plan)) != entry.digest {
                return Err(at(path)(Reason::Digest));
            }
            let plan = check_for(&table, &entry.task_set, plan).map_err(at(path))?;
            for record in &plan.weight_files {
                let path = Path::new("weights").join(record.digest.to_string());
                weights.holds(record).map_err(at(&path))?;
            }
            Ok(plan)
        };
        // Whoever tries plans has many, and every core can check some.
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = plans.len().div_ceil(cores).max(1);
        let mut pairs = table.entries.iter().zip(plans).peekable();
        let checked = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            while pairs.peek().is_some() {
                let some: Vec<(&Entry, Plan)> = pairs.by_ref().take(share).collect();
                threads.push(scope.spawn(move || some.into_iter().map(check).collect::<Vec<_>>()));
            }
            let results = threads
                .into_iter()
                .flat_map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            results.collect::<Result<Vec<CheckedPlan>, LoadError>>()
        })?;
        Deployment {
            table,
            plans: checked,
            weights,
        }
        .within_budget(path)
    }

    /// The bytes of a plan's weight section, aligned to 64. Panics for ids that are not of this deployment.
    pub fn section(&self, plan: PlanId, section: SectionId) -> &[u8] {
        let plan = &self.plans[plan.index()];
        let section = &plan.sections[section.index()];
        let file = &plan.weight_files[section.file as usize];
        self.weights
            .section(&file.digest, section)
            .expect("every file of a checked plan is at hand, and its sections lie in it (P7)")
    }

    /// The weight files, each once.
    pub fn weights(&self) -> &WeightStore {
        &self.weights
    }

    /// Bytes that the deployment takes: one arena and one set of slots for all plans, each plan's persistent memory, and
    /// every weight file once. `None` on overflow.
    pub fn memory_bytes(&self) -> Option<u64> {
        let plans: Vec<&Plan> = self.plans.iter().map(|p| &**p).collect();
        memory_bytes(&self.table, &plans, self.weights.total_bytes())
    }

    fn within_budget(self, table: &Path) -> Result<Deployment, LoadError> {
        let (needed, budget) = (self.memory_bytes().unwrap_or(u64::MAX), self.table.board.memory_budget);
        if needed > budget {
            return Err(at(table)(Reason::Budget { needed, budget }));
        }
        Ok(self)
    }
}

/// Bytes that plans take under a table, with weight files of `weights` bytes: what [`Deployment::memory_bytes`] gives of a whole
/// deployment.
pub fn memory_bytes(table: &Table, plans: &[&Plan], weights: u64) -> Option<u64> {
    let most = |bytes: fn(&Plan) -> u64| plans.iter().map(|p| bytes(p)).max().unwrap_or(0);
    let images = table.cameras.iter().try_fold(0u64, |sum, c| sum.checked_add(c.bytes))?;
    let slot = images.checked_add(most(|p| p.input_bytes))?.checked_add(most(|p| p.output_bytes))?;
    let persistent = plans.iter().try_fold(0u64, |sum, p| sum.checked_add(p.persistent_bytes))?;
    slot.checked_mul(table.slots.into())?
        .checked_add(most(|p| p.arena_bytes))?
        .checked_add(persistent)?
        .checked_add(weights)
}

/// Checks one plan, on its own and against its table.
fn check_for(table: &Table, task_set: &str, plan: Plan) -> Result<CheckedPlan, Reason> {
    if plan.task_set != task_set {
        return Err(Reason::TaskSet {
            stored: task_set.to_string(),
            found: plan.task_set,
        });
    }
    if plan.board != Digest::of_board(&table.board) {
        return Err(Reason::Board(table.board.name.clone()));
    }
    if plan.cameras != table.cameras {
        return Err(Reason::Cameras);
    }
    let plan = check(plan)?;
    let class = |o: &&super::format::Operator| o.class != arithmetic_class_on(&plan, o, &table.board);
    match plan.operators.iter().position(|o| class(&o)) {
        Some(i) => Err(Reason::Class(OperatorId(i as u32))),
        None => Ok(plan),
    }
}

/// A whole file, unless it is longer than a plan or table may be.
/// The bytes of the plan of a table's entry: those of its file, or of the one that waits for its name. They have the entry's digest.
pub fn plan_bytes(dir: &Path, entry: &Entry) -> Result<Vec<u8>, LoadError> {
    let path = dir.join(&entry.file);
    let named = read(&path);
    if let Ok(bytes) = &named
        && Digest::of(bytes) == entry.digest
    {
        return named;
    }
    let awaiting = read(&dir.join(entry.awaiting())).ok();
    match awaiting.filter(|bytes| Digest::of(bytes) == entry.digest) {
        Some(bytes) => Ok(bytes),
        // A file that is no plan says so; one that is a plan is another.
        None => named.and_then(|bytes| match file::decode(&bytes) {
            Err(error) => Err(at(&path)(error)),
            Ok(_) => Err(at(&path)(Reason::Digest)),
        }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    match regular::read(path, MAX_PLAN_FILE + file::HEADER as u64) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(at(path)(Reason::Large)),
        other => other.map_err(at(path)),
    }
}
