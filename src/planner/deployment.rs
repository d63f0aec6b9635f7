//! The files of a deployment `plans/<board>`: the table, the plans with their reports, the weight files.

use super::{Compiled, PlannerError, durable};
use crate::board::BoardRecord;
use crate::limits::MAX_PLAN_FILE;
use crate::plan::deployment::{memory_bytes, plan_bytes};
use crate::plan::format::{Digest, Plan};
use crate::plan::table::{Entry, Table};
use crate::plan::{file, regular};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// The table of compiled plans for one board. Where the task set `default` was not compiled, the first one is the default.
pub fn table(compiled: &[Compiled], board: &BoardRecord, default: &str, slots: u16) -> Result<Table, PlannerError> {
    let cameras = compiled.first().map(|c| c.plan.cameras.clone()).unwrap_or_default();
    let entries: Vec<Entry> = compiled.iter().map(|c| Entry::of(&c.plan)).collect();
    let named = entries.iter().any(|e| e.task_set == default);
    let first = entries.first().map(|e| e.task_set.clone()).unwrap_or_default();
    let default_task_set = if named { default.to_string() } else { first };
    let table = Table {
        board: board.clone(),
        backend: board.backend,
        default_task_set,
        slots,
        cameras,
        entries,
    };
    table.check().map_err(|e| PlannerError::Table(Box::new(e)))?;
    Ok(table)
}

/// Writes plans, weights, the table and reports into `dir` (`plans/<board>`); gives the names of task sets whose plans went.
///
/// Plans of other task sets that the directory's table holds for the same board and cameras stay, with their files, if
/// `keep` names them; what the old table or a stopped writer put there and the new table does not need is removed. Files that
/// neither accounts for stay, and without an old table that can be read nothing goes but what stopped writers left. Plans that
/// together do not fit the board are refused before anything is written. An unchanged file stays untouched. One writer is at work
/// at a time, others wait for it. Plans lie beside the old ones ([`Entry::awaiting`]) when the table is replaced, and get their
/// names afterwards: whoever is stopped in between leaves the old deployment or the new one.
pub fn write(dir: &Path, mut table: Table, compiled: &[Compiled], keep: &[String]) -> Result<Vec<String>, PlannerError> {
    let new: Vec<&Plan> = compiled.iter().map(|c| &c.plan).collect();
    within_budget(&table, &new)?;
    let weights = dir.join("weights");
    std::fs::create_dir_all(&weights).map_err(failed(&weights))?;
    let folder = lock(dir)?;
    let mut needed_weights = BTreeSet::new();
    let old = old_table(dir);
    let kept = kept(dir, old.as_ref(), &table, keep);
    within_budget(&table, &[new, kept.iter().map(|(_, plan)| plan).collect()].concat())?;
    for (entry, plan) in kept {
        needed_weights.extend(plan.weight_files.iter().map(|f| f.digest.to_string()));
        // The task file's default comes first in `keep`.
        if keep.first() == Some(&entry.task_set) {
            table.default_task_set.clone_from(&entry.task_set);
        }
        table.entries.push(entry);
    }
    table.check().map_err(|e| PlannerError::Table(Box::new(e)))?;
    for file in std::iter::once("table".to_string()).chain(table.entries.iter().flat_map(|e| [e.file.clone(), report_of(&e.file)])) {
        not_a_folder(&dir.join(file))?;
    }
    let replaced = Replaced::of(dir, old.as_ref());
    for compiled in compiled {
        // The plan first: where this is stopped, the next writer knows by it whose the weights are.
        let (entry, bytes) = (Entry::of(&compiled.plan), file::encode(&compiled.plan));
        if !durable::holds(&dir.join(&entry.file), &bytes) {
            replace(&dir.join(entry.awaiting()), &bytes)?;
        }
        for (digest, bytes) in &compiled.weight_files {
            replace(&weights.join(digest.to_string()), bytes)?;
            needed_weights.insert(digest.to_string());
        }
    }
    folder.sync_all().map_err(failed(dir))?;
    replace(&dir.join("table"), &table.encode())?;
    folder.sync_all().map_err(failed(dir))?;
    for entry in &table.entries {
        let awaiting = dir.join(entry.awaiting());
        if awaiting.is_file() {
            let named = dir.join(&entry.file);
            std::fs::rename(&awaiting, &named).map_err(failed(&named))?;
        }
    }
    for compiled in compiled {
        let report = report_of(&Entry::of(&compiled.plan).file);
        replace(&dir.join(report), compiled.report.json().as_bytes())?;
    }
    let needed: BTreeSet<String> = table.entries.iter().flat_map(|e| [e.file.clone(), report_of(&e.file)]).collect();
    sweep(&weights, |name| {
        is_left_over(name) || replaced.weights.contains(name) && !needed_weights.contains(name)
    })?;
    sweep(dir, |name| {
        is_left_over(name) || replaced.files.contains(name) && !needed.contains(name)
    })?;
    let gone = |name: &String| !table.entries.iter().any(|e| e.task_set == *name);
    let before = old.into_iter().flat_map(|old| old.entries).map(|e| e.task_set);
    Ok(before.filter(gone).collect())
}

/// Refuses plans that the board has no memory for (P5): whoever loads them would.
fn within_budget(table: &Table, plans: &[&Plan]) -> Result<(), PlannerError> {
    let files: BTreeMap<Digest, u64> = plans.iter().flat_map(|p| &p.weight_files).map(|f| (f.digest, f.bytes)).collect();
    let weights = files.values().try_fold(0u64, |sum, &bytes| sum.checked_add(bytes));
    let needed = weights.and_then(|weights| memory_bytes(table, plans, weights)).unwrap_or(u64::MAX);
    let budget = table.board.memory_budget;
    if needed > budget {
        return Err(PlannerError::Budget {
            task_sets: plans.iter().map(|p| p.task_set.as_str()).collect::<Vec<_>>().join(", "),
            board: table.board.name.clone(),
            needed,
            budget,
        });
    }
    Ok(())
}

/// The directory, held by this process alone until the file is dropped. Where a file system has no locks, writers are not kept
/// apart.
fn lock(dir: &Path) -> Result<File, PlannerError> {
    let folder = File::open(dir).map_err(failed(dir))?;
    match folder.lock() {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(folder),
        locked => locked.map(|()| folder).map_err(failed(dir)),
    }
}

/// True for what writers that were stopped leave: parts of files, and plans that never got their names. No other writer is at
/// work where this is asked.
fn is_left_over(name: &str) -> bool {
    let part = name.strip_suffix(".tmp").and_then(|n| n.rsplit_once('.'));
    let process = part.is_some_and(|(_, process)| process.parse::<u32>().is_ok());
    process || awaits_its_name(name)
}

/// True for plans that lie beside the one whose name they are to get ([`Entry::awaiting`]).
fn awaits_its_name(name: &str) -> bool {
    let plan = name.rsplit_once('.').filter(|(plan, _)| plan.ends_with(".plan"));
    plan.is_some_and(|(_, digest)| Digest::from_hex(digest).is_some())
}

/// What a folder's table accounts for, with what a stopped writer put beside it.
#[derive(Default)]
struct Replaced {
    /// Plans and reports.
    files: BTreeSet<String>,
    /// Weight files of these plans, and of those that never got their names.
    weights: BTreeSet<String>,
}

impl Replaced {
    fn of(dir: &Path, old: Option<&Table>) -> Replaced {
        let Some(old) = old else { return Replaced::default() };
        let files: BTreeSet<String> = old.entries.iter().flat_map(|e| [e.file.clone(), report_of(&e.file)]).collect();
        let waiting = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let waiting = waiting.filter_map(|entry| entry.file_name().into_string().ok());
        let waiting = waiting.filter(|name| awaits_its_name(name));
        let plans = old.entries.iter().map(|e| e.file.clone()).chain(waiting).filter_map(|name| {
            let bytes = regular::read(&dir.join(name), MAX_PLAN_FILE + file::HEADER as u64).ok()?;
            file::decode(&bytes).ok()
        });
        let weights = plans.flat_map(|plan| plan.weight_files).map(|f| f.digest.to_string()).collect();
        Replaced { files, weights }
    }
}

fn report_of(plan: &str) -> String {
    format!("{}.report.json", plan.strip_suffix(".plan").unwrap_or(plan))
}

/// The table that is there, if it is one.
fn old_table(dir: &Path) -> Option<Table> {
    let bytes = regular::read(&dir.join("table"), MAX_PLAN_FILE).ok()?;
    Table::decode(&bytes).ok()
}

/// The plans of other task sets that are there, whole, and may stay beside `table`.
fn kept(dir: &Path, old: Option<&Table>, table: &Table, keep: &[String]) -> Vec<(Entry, Plan)> {
    let Some(old) = old.filter(|old| old.board == table.board && old.cameras == table.cameras) else {
        return Vec::new();
    };
    let replaced = |entry: &Entry| table.entries.iter().any(|e| e.task_set == entry.task_set || e.file == entry.file);
    let whole = |entry: &Entry| {
        let plan = file::decode(&plan_bytes(dir, entry).ok()?).ok()?;
        let there = |digest: &Digest| dir.join("weights").join(digest.to_string()).is_file();
        plan.weight_files.iter().all(|f| there(&f.digest)).then(|| (entry.clone(), plan))
    };
    let old = old.entries.iter().filter(|e| keep.contains(&e.task_set) && !replaced(e));
    old.filter_map(whole).collect()
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> PlannerError {
    move |error| PlannerError::Write {
        path: path.to_path_buf(),
        error,
    }
}

/// Refuses a folder where a file is to be, before anything is written: no file takes its place, and the error of one that tries
/// may be of a name that nobody knows.
fn not_a_folder(path: &Path) -> Result<(), PlannerError> {
    if path.is_dir() {
        let what = "a folder is in the file's place: move it away, or put the plans elsewhere with --plans";
        return Err(failed(path)(std::io::Error::new(ErrorKind::IsADirectory, what)));
    }
    Ok(())
}

/// Writes a file of the deployment in place of the old one; an unchanged file stays untouched.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), PlannerError> {
    durable::replace(path, bytes).map_err(failed(path))
}

/// Removes the files of `dir` whose names are `stale`.
fn sweep(dir: &Path, stale: impl Fn(&str) -> bool) -> Result<(), PlannerError> {
    for entry in std::fs::read_dir(dir).map_err(failed(dir))? {
        let entry = entry.map_err(failed(dir))?;
        let is_file = entry.file_type().is_ok_and(|t| t.is_file());
        if is_file && entry.file_name().to_str().is_some_and(&stale) {
            std::fs::remove_file(entry.path()).map_err(failed(&entry.path()))?;
        }
    }
    Ok(())
}
