//! Boards that are described here, and plans: whether they load, and whether they fit this machine.

use super::Finding;
use super::system::meminfo;
use crate::backend::cuda::raw::Facts;
use crate::backend::cuda::{architecture, archive, sources};
use crate::board::BackendKind;
use crate::cli::jetson::Jetson;
use crate::cli::options::Common;
use crate::cli::output;
use crate::plan::deployment::Deployment;
use crate::planner::boards;
use serde_json::json;
use std::path::{Path, PathBuf};

pub fn boards_found() -> Finding {
    let mut found = boards::all(Path::new("boards"));
    if !found.iter().any(|(file, _)| file.file_stem().is_some_and(|n| n == "host")) {
        found.insert(0, (PathBuf::from("host"), boards::load("host")));
    }
    let (mut names, mut shown, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (file, board) in found {
        names.extend(file.file_stem().map(|n| n.to_string_lossy().into_owned()));
        match board {
            Ok(board) => shown.push(format!("{} ({}, {} units)", board.name, board.architecture, board.units)),
            Err(error) => problems.push(output::chain(&error)),
        }
    }
    Finding::new("boards", json!(names), shown.join(", ")).advise(problems.is_empty(), problems.join("; "))
}

/// The task file, if there is one or one is asked for.
pub fn tasks(common: &Common) -> Option<Finding> {
    let file = common.task_file();
    let finding = match common.tasks_if_any() {
        Ok(found) => {
            let sets: Vec<String> = found?.sets.into_keys().collect();
            Finding::new(
                "tasks",
                json!({ "file": file, "task_sets": sets }),
                format!("{}: {}", file.display(), sets.join(", ")),
            )
        }
        Err(error) => {
            let why = output::line(&output::chain(error.as_ref()));
            let text = format!("{} is not in order", file.display());
            let finding = Finding::new("tasks", json!({ "file": file, "reason": why }), text).advise(false, why);
            Finding { bad: true, ..finding }
        }
    };
    Some(finding)
}

/// Every board's folder below the plans' that holds a table.
pub fn all(common: &Common, gpu: Option<&Facts>, jetson: Option<&Jetson>) -> Vec<Finding> {
    let folder = &common.plans;
    let tables: Vec<PathBuf> = entries(folder).into_iter().filter(|p| p.join("table").exists()).collect();
    if tables.is_empty() {
        let none = Finding::new("plans", json!(null), format!("none in {}", folder.display()));
        return vec![none.advise(
            false,
            "compile them with `platoon plan`, or start a replay, which does it by itself",
        )];
    }
    let here = Here {
        gpu,
        mode: jetson.and_then(|j| j.mode.as_ref()?.name.clone()),
        kernels: common.kernels(),
        available: meminfo("MemAvailable"),
    };
    tables.iter().map(|table| of(table, &here)).collect()
}

/// What of this machine plans must fit.
struct Here<'a> {
    gpu: Option<&'a Facts>,
    /// Its power mode.
    mode: Option<String>,
    /// The folder of kernel archives.
    kernels: PathBuf,
    /// Bytes of memory that are free.
    available: Option<u64>,
}

/// Whether plans fit this machine.
enum Fit {
    /// They run here.
    Fits,
    /// They were made for another kind of machine.
    Elsewhere(String),
    /// They were made for this kind, and do not run on it as it is.
    Amiss(Vec<String>),
}

impl Here<'_> {
    fn fits(&self, deployment: &Deployment) -> Fit {
        let board = &deployment.table.board;
        let needed = deployment.memory_bytes().unwrap_or(u64::MAX);
        let mut amiss = Vec::new();
        let room = match (board.backend, self.gpu) {
            (BackendKind::Cpu, _) if board.architecture != std::env::consts::ARCH => {
                return Fit::Elsewhere(board.architecture.clone());
            }
            (BackendKind::Cpu, _) => self.available,
            (BackendKind::Cuda, Some(gpu)) if architecture::runs_on(&board.architecture, gpu.capability) => {
                if board.units > gpu.sms {
                    let mode = self.mode.as_ref().map_or_else(String::new, |m| format!(" in power mode {m}"));
                    amiss.push(format!(
                        "they are for {} SMs, and this GPU has {} at work{mode}: choose the mode they are for, or plan with --power-mode or --sms",
                        board.units, gpu.sms
                    ));
                }
                if deployment.plans.iter().any(|p| p.kernels != Some(sources::digest())) {
                    amiss.push("they are for kernels of another version of this program: make them again with `platoon plan`".into());
                } else if let Err(error) = archive::find(&self.kernels, &board.architecture, gpu.driver) {
                    amiss.push(error.to_string());
                }
                let apart = deployment.plans.iter().any(|p| p.streams.iter().any(|s| s.units > 0));
                if apart && !gpu.sets_sms_aside() {
                    amiss.push("they give streams SMs of their own, for which the driver is too old: install one of CUDA 12.4 or newer, or plan by another searcher than `apart` and `platoon`".into());
                }
                if gpu.integrated {
                    self.available
                } else {
                    Some(gpu.memory).filter(|&bytes| bytes > 0)
                }
            }
            (BackendKind::Cuda, _) => return Fit::Elsewhere(board.architecture.clone()),
        };
        if let Some(room) = room.filter(|&room| room < needed) {
            let mb = |bytes: u64| bytes / 1_000_000;
            amiss.push(format!(
                "they take {} MB, of which {} are free: use fewer slots or a smaller task set",
                mb(needed),
                mb(room)
            ));
        }
        if amiss.is_empty() { Fit::Fits } else { Fit::Amiss(amiss) }
    }
}

fn of(folder: &Path, here: &Here<'_>) -> Finding {
    let deployment = match Deployment::load(folder) {
        Ok(deployment) => deployment,
        Err(error) => {
            let why = output::chain(&error);
            let found = json!({ "folder": folder, "error": why });
            let mut finding = Finding::new("plans", found, format!("{}: {why}", folder.display()));
            finding.bad = true;
            return finding.advise(false, "compile them again with `platoon plan`");
        }
    };
    let sets: Vec<&str> = deployment.plans.iter().map(|p| p.task_set.as_str()).collect();
    let bytes = deployment.memory_bytes();
    let budget = deployment.table.board.memory_budget;
    let mut text = format!(
        "{}: {} load and keep within the board's memory ({} of {} MB)",
        folder.display(),
        sets.join(", "),
        bytes.unwrap_or(0) / 1_000_000,
        budget / 1_000_000
    );
    let fit = here.fits(&deployment);
    let (fits, amiss) = match &fit {
        Fit::Fits => (true, &[][..]),
        Fit::Elsewhere(_) => (false, &[][..]),
        Fit::Amiss(reasons) => (false, reasons.as_slice()),
    };
    if fits {
        text += ", and fit this machine";
    }
    let value = json!({
        "folder": folder,
        "task_sets": sets,
        "bytes": bytes,
        "budget": budget,
        "for_this_machine": !matches!(fit, Fit::Elsewhere(_)),
        "fits": fits,
        "amiss": amiss,
    });
    let mut finding = Finding::new("plans", value, text);
    finding.bad = !amiss.is_empty();
    match fit {
        Fit::Fits => finding,
        Fit::Elsewhere(architecture) => finding.advise(false, format!("they were made for {architecture}, not for this machine")),
        Fit::Amiss(reasons) => finding.advise(false, reasons.join("; ")),
    }
}

/// The paths in a folder, by name; none where it cannot be listed.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    paths.sort();
    paths
}
