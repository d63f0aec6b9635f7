//! `platoon doctor`: what this machine has, and what to do about what it lacks.

use super::options::Common;
use super::{Outcome, gpu, output};
use crate::backend::cpu::simd::Isa;
use crate::backend::cuda::architecture::Toolkit;
use crate::backend::cuda::archive::{self, Archive};
use crate::backend::cuda::compile::Compiler;
use crate::backend::cuda::raw::{self, Facts, ProbeError};
use crate::backend::cuda::sources;
use crate::board::BackendKind;
use crate::plan::deployment::Deployment;
use crate::planner::boards;
use crate::runtime::realtime;
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Example:
  platoon doctor

Each line says what was found; lines that start with `!` say what keeps something from working well, and what to do.
Nothing is changed. Exit code 1 if plans are there that do not load.")]
pub struct Arguments {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
struct Finding {
    key: &'static str,
    value: Value,
    text: String,
    advice: Option<String>,
    bad: bool,
}

impl Finding {
    fn new(key: &'static str, value: Value, text: impl Into<String>) -> Finding {
        Finding {
            key,
            value,
            text: text.into(),
            advice: None,
            bad: false,
        }
    }

    fn advise(mut self, unless: bool, advice: impl Into<String>) -> Finding {
        if !unless {
            self.advice = Some(advice.into());
        }
        self
    }
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let probe = raw::probe();
    let mut findings = vec![processor(), cores(), memory(), locking(), scheduling()];
    findings.extend([cuda(&probe), kernels(common, &probe), compiler(common), boards_found()]);
    findings.extend(plans(&common.plans, probe.as_ref().ok()));
    if arguments.json {
        let mut all = Map::new();
        for f in &findings {
            let value = match &f.advice {
                Some(advice) => json!({ "found": f.value, "advice": advice }),
                None => json!({ "found": f.value }),
            };
            match all.entry(f.key) {
                serde_json::map::Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                serde_json::map::Entry::Occupied(mut entry) => match entry.get_mut() {
                    Value::Array(several) => several.push(value),
                    first => *first = json!([first.take(), value]),
                },
            }
        }
        output::print(&format!("{:#}", Value::Object(all)))?;
    } else {
        let mut text = String::new();
        for f in &findings {
            text.push_str(&format!("  {:<12} {}\n", f.key, f.text));
            if let Some(advice) = &f.advice {
                text.push_str(&format!("! {:<12} {advice}\n", ""));
            }
        }
        output::print(&text)?;
    }
    Ok(if findings.iter().any(|f| f.bad) {
        Outcome::Bad
    } else {
        Outcome::Good
    })
}

fn processor() -> Finding {
    let isa = Isa::detect();
    let available: Vec<&str> = Isa::available().map(Isa::name).collect();
    let text = format!(
        "{}, kernels for {} (of {})",
        std::env::consts::ARCH,
        isa.name(),
        available.join(", ")
    );
    let value = json!({ "architecture": std::env::consts::ARCH, "isa": isa.name(), "available": available });
    Finding::new("processor", value, text).advise(
        isa != Isa::Portable,
        "only the portable kernels run here, many times slower: on x86-64 AVX2 with FMA and F16C is needed",
    )
}

fn cores() -> Finding {
    let at_hand = realtime::cores();
    let machine = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let machine = machine.trim();
    let text = format!("{} at hand (numbers {}; online: {machine})", at_hand.len(), ranges(&at_hand));
    let value = json!({ "at_hand": at_hand, "online": machine });
    Finding::new("cores", value, text).advise(
        at_hand.len() > 1,
        "with one core at hand, nothing runs side by side: widen the affinity (taskset, cgroup)",
    )
}

/// Ascending numbers as `0-3,8`.
fn ranges(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &n in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let run = |&(first, last): &(usize, usize)| {
        if first == last {
            format!("{first}")
        } else {
            format!("{first}-{last}")
        }
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

fn memory() -> Finding {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |key: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let (total, available) = (bytes("MemTotal"), bytes("MemAvailable"));
    let shown = |b: Option<u64>| b.map_or("unknown".into(), |b| format!("{} MB", b / 1_000_000));
    let value = json!({ "total_bytes": total, "available_bytes": available });
    Finding::new("memory", value, format!("{}, {} available", shown(total), shown(available)))
}

/// The soft limit called `name` of this process; `None` for unlimited or unknown, told apart by the text.
fn limit(name: &str) -> (String, Option<u64>) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|l| l.strip_prefix(name));
    let soft = line.and_then(|l| l.split_whitespace().next()).unwrap_or("unknown");
    (soft.to_owned(), soft.parse().ok())
}

fn locking() -> Finding {
    /// What a deployment of several networks takes, roughly.
    const ENOUGH: u64 = 1 << 30;
    let (text, bytes) = limit("Max locked memory");
    let shown = bytes.map_or(text.clone(), |b| format!("{b} bytes"));
    Finding::new("mlock", json!(text), format!("up to {shown} may be locked")).advise(
        text == "unlimited" || bytes.is_some_and(|b| b >= ENOUGH),
        "page faults can delay frames: raise it with `ulimit -l unlimited` or LimitMEMLOCK=infinity",
    )
}

fn scheduling() -> Finding {
    let (text, priority) = limit("Max realtime priority");
    Finding::new("real time", json!(text), format!("priorities up to {text}")).advise(
        text == "unlimited" || priority.is_some_and(|p| p > 0),
        "workers cannot run under SCHED_FIFO: raise it with `ulimit -r 80` or LimitRTPRIO=80 where frames must be punctual",
    )
}

fn cuda(probe: &Result<Facts, ProbeError>) -> Finding {
    match probe {
        Ok(facts) => {
            let driver = Toolkit::from_number(facts.driver);
            let kind = if facts.integrated { ", shares the host's memory" } else { "" };
            let memory = facts.memory / 1_000_000;
            let text = format!("{}, {memory} MB{kind}; the driver serves CUDA {driver}", gpu::described(facts));
            let value = json!({
                "present": true,
                "name": facts.name,
                "architecture": facts.architecture(),
                "sms": facts.sms,
                "memory_bytes": facts.memory,
                "integrated": facts.integrated,
                "driver_cuda": driver.to_string(),
            });
            let known = gpu::board().is_ok();
            Finding::new("cuda", value, text).advise(
                known,
                "no file of the folder boards is for this GPU: describe it as boards/README.md says, to plan for it",
            )
        }
        Err(error) => {
            let why = output::chain(error);
            Finding::new("cuda", json!({ "present": false, "reason": why }), format!("absent: {why}")).advise(
                false,
                "plans for GPUs can be made and checked here; to run them takes a GPU, or --backend cpu",
            )
        }
    }
}

/// The archives of compiled kernels, and whether the GPU at hand has one that it can run.
fn kernels(common: &Common, probe: &Result<Facts, ProbeError>) -> Finding {
    let folder = common.kernels();
    let state = |name: &str| match Archive::open(&folder.join(name)) {
        Ok(archive) if archive.source_digest() == sources::digest() => "current".to_owned(),
        Ok(_) => "of other sources".to_owned(),
        Err(error) => error.to_string(),
    };
    let found: Vec<(String, String)> = archive::list(&folder)
        .into_iter()
        .map(|(name, _, _)| (state(&name), name))
        .collect();
    let shown: Vec<String> = found.iter().map(|(state, name)| format!("{name} ({state})")).collect();
    let text = match shown.as_slice() {
        [] => format!("none in {}", folder.display()),
        some => format!("{}: {}", folder.display(), some.join(", ")),
    };
    let value = json!({ "folder": folder, "archives": found.iter().map(|(s, n)| json!({ "file": n, "state": s })).collect::<Vec<_>>() });
    let missing = match probe {
        Ok(facts) => archive::find(&folder, &facts.architecture(), facts.driver)
            .err()
            .map(|e| e.to_string()),
        Err(_) => None,
    };
    let stale = found.iter().any(|(state, _)| state != "current");
    let advice = missing.unwrap_or_else(|| "make them again with `platoon kernels`".into());
    Finding::new("kernels", value, text).advise(!stale && (probe.is_err() || !shown.is_empty()), advice)
}

fn compiler(common: &Common) -> Finding {
    match Compiler::find(common.nvrtc.as_deref()) {
        Ok(compiler) => {
            let serves: Vec<&str> = compiler.architectures().collect();
            let library = compiler.library().display();
            let text = format!("CUDA {} ({library}), compiles for {}", compiler.toolkit(), serves.join(", "));
            let value = json!({
                "present": true,
                "toolkit": compiler.toolkit().to_string(),
                "library": compiler.library(),
                "architectures": serves,
            });
            Finding::new("nvrtc", value, text)
        }
        Err(error) => {
            let why = error.to_string();
            let found = json!({ "present": false, "reason": why });
            Finding::new("nvrtc", found, "absent: GPU kernels cannot be compiled here").advise(false, why)
        }
    }
}

fn boards_found() -> Finding {
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

/// Every board's folder below `folder` that holds a table.
fn plans(folder: &Path, gpu: Option<&Facts>) -> Vec<Finding> {
    let tables: Vec<PathBuf> = entries(folder).into_iter().filter(|p| p.join("table").exists()).collect();
    if tables.is_empty() {
        let none = Finding::new("plans", json!(null), format!("none in {}", folder.display()));
        return vec![none.advise(
            false,
            "compile them with `platoon plan`, or start a replay, which does it by itself",
        )];
    }
    tables.iter().map(|t| plans_of(t, gpu)).collect()
}

fn plans_of(folder: &Path, gpu: Option<&Facts>) -> Finding {
    match Deployment::load(folder) {
        Ok(deployment) => {
            let sets: Vec<&str> = deployment.plans.iter().map(|p| p.task_set.as_str()).collect();
            let bytes = deployment.memory_bytes();
            let budget = deployment.table.board.memory_budget;
            let text = format!(
                "{}: {} load and fit ({} of {} MB)",
                folder.display(),
                sets.join(", "),
                bytes.unwrap_or(0) / 1_000_000,
                budget / 1_000_000
            );
            let board = &deployment.table.board;
            let here = match board.backend {
                BackendKind::Cpu => board.architecture == std::env::consts::ARCH,
                BackendKind::Cuda => gpu.is_some_and(|f| f.architecture() == board.architecture && board.units <= f.sms),
            };
            let value = json!({ "folder": folder, "task_sets": sets, "bytes": bytes, "budget": budget, "for_this_machine": here });
            Finding::new("plans", value, text).advise(
                here,
                format!("they were made for {}, not for this machine", deployment.table.board.architecture),
            )
        }
        Err(error) => {
            let why = output::chain(&error);
            let mut finding = Finding::new(
                "plans",
                json!({ "folder": folder, "error": why }),
                format!("{}: {why}", folder.display()),
            );
            finding.bad = true;
            finding.advise(false, "compile them again with `platoon plan`")
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges(&[]), "");
    }
}
