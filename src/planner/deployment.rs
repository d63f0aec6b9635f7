//! The files of a deployment `plans/<board>`: the table, the plans with their reports, the weight files.

use super::{Compiled, PlannerError};
use crate::board::BoardRecord;
use crate::plan::file;
use crate::plan::format::{Digest, Plan};
use crate::plan::table::{Entry, Table};
use std::collections::BTreeSet;
use std::io::Write;
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

/// Writes plans, reports, weights and last the table into `dir` (`plans/<board>`).
///
/// Plans of other task sets that the directory's table holds for the same board and cameras stay, with their files, if
/// `keep` names them. Every file is replaced at once, an unchanged one stays untouched, and what the table does not need is
/// removed.
pub fn write(dir: &Path, mut table: Table, compiled: &[Compiled], keep: &[String]) -> Result<(), PlannerError> {
    let weights = dir.join("weights");
    std::fs::create_dir_all(&weights).map_err(failed(&weights))?;
    let mut needed_weights = BTreeSet::new();
    for (entry, plan) in kept(dir, &table, keep) {
        needed_weights.extend(plan.weight_files.iter().map(|f| f.digest.to_string()));
        // The task file's default comes first in `keep`.
        if keep.first() == Some(&entry.task_set) {
            table.default_task_set.clone_from(&entry.task_set);
        }
        table.entries.push(entry);
    }
    for compiled in compiled {
        for (digest, bytes) in &compiled.weight_files {
            replace(&weights.join(digest.to_string()), bytes)?;
            needed_weights.insert(digest.to_string());
        }
        let entry = Entry::of(&compiled.plan);
        replace(&dir.join(&entry.file), &file::encode(&compiled.plan))?;
        replace(&dir.join(report_of(&entry.file)), compiled.report.json().as_bytes())?;
    }
    table.check().map_err(|e| PlannerError::Table(Box::new(e)))?;
    replace(&dir.join("table"), &table.encode())?;
    let needed: BTreeSet<String> = table.entries.iter().flat_map(|e| [e.file.clone(), report_of(&e.file)]).collect();
    sweep(&weights, |name| Digest::from_hex(name).is_some() && !needed_weights.contains(name))?;
    sweep(dir, |name| {
        (name.ends_with(".plan") || name.ends_with(".report.json")) && !needed.contains(name)
    })
}

fn report_of(plan: &str) -> String {
    format!("{}.report.json", plan.strip_suffix(".plan").unwrap_or(plan))
}

/// The plans of other task sets that are there, whole, and may stay beside `table`.
fn kept(dir: &Path, table: &Table, keep: &[String]) -> Vec<(Entry, Plan)> {
    let old = std::fs::read(dir.join("table")).ok().and_then(|bytes| Table::decode(&bytes).ok());
    let Some(old) = old.filter(|old| old.board == table.board && old.cameras == table.cameras) else {
        return Vec::new();
    };
    let replaced = |entry: &Entry| table.entries.iter().any(|e| e.task_set == entry.task_set || e.file == entry.file);
    let whole = |entry: Entry| {
        let bytes = std::fs::read(dir.join(&entry.file)).ok()?;
        let plan = file::decode(&bytes).ok().filter(|_| Digest::of(&bytes) == entry.digest)?;
        let there = |digest: &Digest| dir.join("weights").join(digest.to_string()).is_file();
        plan.weight_files.iter().all(|f| there(&f.digest)).then_some((entry, plan))
    };
    let old = old.entries.into_iter().filter(|e| keep.contains(&e.task_set) && !replaced(e));
    old.filter_map(whole).collect()
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> PlannerError {
    move |error| PlannerError::Write {
        path: path.to_path_buf(),
        error,
    }
}

/// Writes a file so that a reader sees the old or the new content, never a part; an unchanged file stays untouched.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), PlannerError> {
    let same_length = path.metadata().is_ok_and(|m| m.is_file() && m.len() == bytes.len() as u64);
    if same_length && std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        // On disk before it has its name: a power cut leaves the old file or the new one.
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(failed(path))
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
