//! The last stage: a scheduled, placed task set to a checked plan, and plans to the files of a deployment.

use super::lower::{Lowered, Room};
use super::memory::{self, Placement};
use super::report::Report;
use super::schedule::{self, Problem};
use super::{CompileOptions, Compiled, PlannerError, cost};
use crate::board::BoardRecord;
use crate::ids::TenantId;
use crate::plan::check;
use crate::plan::format::{Basis, Buffer, Digest, Plan, Prediction, Section, Space, WeightFile};
use crate::plan::table::{Entry, Table};
use crate::plan::weights::WeightFileBuilder;
use crate::plan::{file, tactic};
use std::path::Path;

fn space(room: Room) -> Space {
    match room {
        Room::Arena => Space::Arena { offset: 0 },
        Room::Input => Space::Input { offset: 0 },
        Room::Output => Space::Output { offset: 0 },
        Room::Camera(camera) => Space::Camera(camera),
        Room::Weights(section) => Space::Weights(section),
    }
}

/// Weight files, one a tenant that has weights, and the sections of all in the order of `lowered.sections`.
fn weights(lowered: &Lowered) -> (Vec<WeightFile>, Vec<Section>, Vec<(Digest, Vec<u8>)>) {
    let (mut files, mut sections, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for tenant in 0..lowered.tenants.len() {
        let mut builder = WeightFileBuilder::new(files.len() as u32);
        let before = sections.len();
        for section in lowered.sections.iter().filter(|s| s.tenant == TenantId(tenant as u16)) {
            sections.push(builder.push(&section.bytes));
        }
        if sections.len() > before {
            let (file, content) = builder.finish();
            bytes.push((file.digest, content));
            files.push(file);
        }
    }
    (files, sections, bytes)
}

/// Schedules, places and emits lowered tenants.
pub(super) fn emit(
    task_set: &str,
    source: Digest,
    lowered: Lowered,
    board: &BoardRecord,
    options: &CompileOptions,
) -> Result<Compiled, PlannerError> {
    let (weight_files, sections, files) = weights(&lowered);
    let buffers = lowered.buffers.iter();
    let mut plan = Plan {
        task_set: task_set.to_string(),
        board: Digest::of_board(board),
        source,
        searcher: options.searcher.name().to_string(),
        cameras: lowered.cameras,
        tenants: lowered.tenants,
        weight_files,
        sections,
        buffers: buffers
            .map(|b| Buffer {
                space: space(b.room),
                bytes: b.bytes,
            })
            .collect(),
        operators: lowered.operators,
        streams: Vec::new(),
        cycle: Vec::new(),
        arena_bytes: 0,
        persistent_bytes: 0,
        input_bytes: 0,
        output_bytes: 0,
        prediction: Prediction {
            basis: Basis::Estimated,
            best_effort: options.best_effort,
            frames: Vec::new(),
        },
    };
    for index in 0..plan.operators.len() {
        let operator = &plan.operators[index];
        let class = tactic::arithmetic_class(operator, board.backend);
        let best = if options.generic_kernels {
            tactic::menu(&plan, operator).pop()
        } else {
            tactic::menu(&plan, operator).into_iter().next()
        };
        plan.operators[index].class = class;
        if let Some(best) = best {
            plan.operators[index].tactic = best;
        }
    }
    let problem = Problem {
        tenants: &plan.tenants,
        operators: &plan.operators,
        needs: &lowered.needs,
    };
    let decisions = options.searcher.decide(&problem, options.seed);
    let schedule = schedule::apply(&problem, &decisions)?;
    let best_effort = options.best_effort || board.name == "host";
    plan.prediction = cost::predict(&plan.tenants, &schedule, board, best_effort)?;
    let placement = memory::place(&schedule.operators, &mut plan.buffers, schedule.streams.len(), &schedule.cycle)?;
    (plan.operators, plan.streams, plan.cycle) = (schedule.operators, schedule.streams, schedule.cycle);
    let Placement {
        arena_bytes,
        persistent_bytes,
        input_bytes,
        output_bytes,
        ..
    } = placement;
    (plan.arena_bytes, plan.persistent_bytes) = (arena_bytes, persistent_bytes);
    (plan.input_bytes, plan.output_bytes) = (input_bytes, output_bytes);
    let report = Report::of(&plan, &placement, board);
    let plan = check::check(plan).map_err(|e| PlannerError::Check(Box::new(e)))?.into_inner();
    Ok(Compiled {
        plan,
        weight_files: files,
        report,
    })
}

/// The table of compiled plans for one board.
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

/// Writes a file so that a reader sees the old or the new content, never a part; an unchanged file stays untouched.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), PlannerError> {
    let io = |error: std::io::Error| PlannerError::Write {
        path: path.to_path_buf(),
        error,
    };
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    std::fs::write(&temporary, bytes)
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(io)
}

/// Writes plans, reports, weights and last the table into `dir` (`plans/<board>`).
///
/// Plans of other task sets that the directory's table holds for the same board and cameras stay in the table if `keep`
/// names them; files that no plan of the table needs any more are removed.
pub fn write(dir: &Path, mut table: Table, compiled: &[Compiled], keep: &[String]) -> Result<(), PlannerError> {
    let weights = dir.join("weights");
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |error| PlannerError::Write { path, error }
    };
    std::fs::create_dir_all(&weights).map_err(io(&weights))?;
    let mut needed: Vec<String> = Vec::new();
    if let Ok(old) = std::fs::read(dir.join("table"))
        && let Ok(old) = Table::decode(&old)
        && old.board == table.board
        && old.cameras == table.cameras
    {
        for entry in old.entries {
            let kept =
                keep.contains(&entry.task_set) && !table.entries.iter().any(|e| e.task_set == entry.task_set || e.file == entry.file);
            let Ok(bytes) = std::fs::read(dir.join(&entry.file)) else {
                continue;
            };
            let Ok(plan) = file::decode(&bytes) else { continue };
            if kept && Digest::of(&bytes) == entry.digest {
                needed.extend(plan.weight_files.iter().map(|f| f.digest.to_string()));
                if old.default_task_set == entry.task_set && keep.first() == Some(&entry.task_set) {
                    table.default_task_set.clone_from(&entry.task_set);
                }
                table.entries.push(entry);
            }
        }
    }
    for compiled in compiled {
        for (digest, bytes) in &compiled.weight_files {
            replace(&weights.join(digest.to_string()), bytes)?;
            needed.push(digest.to_string());
        }
        let entry = Entry::of(&compiled.plan);
        replace(&dir.join(&entry.file), &file::encode(&compiled.plan))?;
        let report = dir.join(entry.file.replace(".plan", ".report.json"));
        replace(&report, compiled.report.json().as_bytes())?;
    }
    replace(&dir.join("table"), &table.encode())?;
    for entry in std::fs::read_dir(&weights).map_err(io(&weights))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if Digest::from_hex(&name).is_some() && !needed.contains(&name) {
            std::fs::remove_file(entry.path()).map_err(io(&entry.path()))?;
        }
    }
    Ok(())
}
