//! `platoon kernels`: the GPU kernels, compiled offline into an archive for each architecture.

use super::gpu::{self, Made};
use super::options::Common;
use super::{Outcome, output};
use crate::backend::cuda::archive::{self, Archive};
use crate::backend::cuda::compile::{Compiler, UnitReport};
use crate::backend::cuda::sources;
use crate::board::BackendKind;
use crate::planner::boards;
use anyhow::{Context, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What `--arch` takes for every architecture that the compiler knows.
const ALL: &str = "all";

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon kernels                              for the GPUs of the folder boards
  platoon kernels --arch sm_87 --nvrtc /usr/local/cuda-12.6/lib64
  platoon kernels --list                       what is there
  platoon kernels --unpack cubins/             machine code as files, for cuobjdump

Archives go to <plans>/kernels/<arch>-cuda<version>.kernels. No GPU is needed; the compiler NVRTC is, from any CUDA
toolkit from 12.0 on. Drivers run archives of their own major CUDA version and of older ones. Units that have not
changed are kept. `spilled` counts bytes that a thread stores for want of registers.")]
pub struct Arguments {
    /// Architecture to compile for, or `all`; may be given several times [default: those of the boards in boards/]
    #[arg(long, value_name = "sm_XX")]
    arch: Vec<String>,
    /// Compile units that have not changed too
    #[arg(long)]
    again: bool,
    /// List the archives and what is in them instead
    #[arg(long, conflicts_with_all = ["unpack", "again"])]
    list: bool,
    /// Write the cubins of the archives into a folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "again")]
    unpack: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    if let Some(folder) = &arguments.unpack {
        return unpack(&common.kernels(), arguments, folder);
    }
    if arguments.list {
        return list(&common.kernels(), arguments);
    }
    let compiler = Compiler::find(common.nvrtc.as_deref())?;
    let mut made = Vec::new();
    for architecture in architectures(arguments, &compiler)? {
        let bar = ProgressBar::new(sources::units_for(&architecture).count() as u64);
        bar.enable_steady_tick(Duration::from_millis(100));
        bar.set_message(architecture.clone());
        let one = gpu::make(&compiler, &common.kernels(), &architecture, arguments.again, &|_| bar.inc(1));
        bar.finish_and_clear();
        made.push(one?);
    }
    if arguments.json {
        let archives: Vec<Value> = made.iter().map(figures).collect();
        let toolkit = compiler.toolkit().to_string();
        let all =
            json!({ "compiler": compiler.library(), "toolkit": toolkit, "sources": sources::digest().to_string(), "archives": archives });
        output::print(&format!("{all:#}"))?;
    } else {
        output::print(&table(&made))?;
        for one in &made {
            output::print(&format!("written to {}", one.file.display()))?;
        }
    }
    Ok(Outcome::Good)
}

/// The architectures to compile for: those asked for, or of the boards here that the compiler knows.
fn architectures(arguments: &Arguments, compiler: &Compiler) -> anyhow::Result<Vec<String>> {
    if arguments.arch.iter().any(|a| a == ALL) {
        return Ok(compiler.architectures().map(str::to_owned).collect());
    }
    if !arguments.arch.is_empty() {
        let mut seen = BTreeSet::new();
        return Ok(arguments.arch.iter().filter(|a| seen.insert(*a)).cloned().collect());
    }
    let mut wanted = BTreeSet::new();
    for (_, board) in boards::all(Path::new("boards")) {
        let board = board?;
        if board.backend == BackendKind::Cuda {
            wanted.insert(board.architecture);
        }
    }
    let (known, unknown): (Vec<String>, Vec<String>) = wanted.into_iter().partition(|a| compiler.serves(a));
    if !unknown.is_empty() {
        let all = unknown.join(", ");
        output::complain(&format!(
            "the compiler of CUDA {} does not know {all}: left out",
            compiler.toolkit()
        ));
    }
    if known.is_empty() {
        bail!("no board of the folder boards has a GPU that this compiler knows: name architectures with --arch");
    }
    Ok(known)
}

fn table(made: &[Made]) -> String {
    let mut table = output::Table::new(&["unit", "architecture", "bytes", "kernels", "most registers", "spilled"]);
    for one in made {
        for unit in &one.units {
            let most = |of: fn(&crate::backend::cuda::compile::KernelUse) -> u32| {
                let kernels = unit.kernels.as_ref()?;
                kernels.iter().map(of).max().map(|n| n.to_string())
            };
            table.row([
                unit.name.to_owned(),
                one.archive.architecture().to_owned(),
                unit.bytes.to_string(),
                unit.kernels.as_ref().map_or("kept".into(), |k| k.len().to_string()),
                most(|k| k.registers).unwrap_or_default(),
                most(|k| k.spilled).unwrap_or_default(),
            ]);
        }
    }
    table.render()
}

fn figures(made: &Made) -> Value {
    let unit = |unit: &UnitReport| {
        let kernels = unit.kernels.as_ref().map(|kernels| {
            let one = |k: &crate::backend::cuda::compile::KernelUse| json!({ "name": k.name, "registers": k.registers, "spilled_bytes": k.spilled });
            kernels.iter().map(one).collect::<Vec<_>>()
        });
        json!({ "name": unit.name, "bytes": unit.bytes, "kept": kernels.is_none(), "kernels": kernels })
    };
    json!({
        "file": made.file,
        "architecture": made.archive.architecture(),
        "bytes": made.archive.bytes().len(),
        "units": made.units.iter().map(unit).collect::<Vec<_>>(),
    })
}

/// The archives of the folder that are for the architectures asked for: file, and what it holds or what is wrong with it.
fn archives(kernels: &Path, arguments: &Arguments) -> Vec<(PathBuf, anyhow::Result<Archive>)> {
    let wanted = |architecture: &String| arguments.arch.is_empty() || arguments.arch.iter().any(|a| a == architecture || a == ALL);
    let named = archive::list(kernels)
        .into_iter()
        .filter(|(_, architecture, _)| wanted(architecture));
    let open = |(name, _, _): (String, _, _)| {
        let file = kernels.join(name);
        let archive = Archive::open(&file).with_context(|| file.display().to_string());
        (file, archive)
    };
    named.map(open).collect()
}

/// Whether an archive is of this program's kernels.
fn state(archive: &Archive) -> &'static str {
    match archive.source_digest() == sources::digest() {
        true => "current",
        false => "of other sources: make it again",
    }
}

fn list(kernels: &Path, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let found = archives(kernels, arguments);
    let damaged = found.iter().any(|(_, archive)| archive.is_err());
    if arguments.json {
        let one = |(file, archive): &(PathBuf, anyhow::Result<Archive>)| match archive {
            Ok(a) => {
                let units: Vec<Value> = a
                    .units()
                    .map(|name| json!({ "name": name, "bytes": a.unit_bytes(name).unwrap_or(0) }))
                    .collect();
                json!({
                    "file": file,
                    "architecture": a.architecture(),
                    "toolkit": a.toolkit().to_string(),
                    "sources": a.source_digest().to_string(),
                    "current": a.source_digest() == sources::digest(),
                    "units": units,
                })
            }
            Err(error) => json!({ "file": file, "error": output::chain(error.as_ref()) }),
        };
        output::print(&format!("{:#}", Value::Array(found.iter().map(one).collect())))?;
    } else if found.is_empty() {
        output::print(&format!("no kernels in {}: make them with `platoon kernels`", kernels.display()))?;
    } else {
        for (file, archive) in &found {
            match archive {
                Ok(a) => {
                    output::print(&format!("{}: {} bytes, {}", file.display(), a.bytes().len(), state(a)))?;
                    for name in a.units() {
                        output::print(&format!("  {name:<16} {:>9}", a.unit_bytes(name).unwrap_or(0)))?;
                    }
                }
                Err(error) => output::print(&output::chain(error.as_ref()))?,
            }
        }
    }
    Ok(if damaged { Outcome::Bad } else { Outcome::Good })
}

fn unpack(kernels: &Path, arguments: &Arguments, folder: &Path) -> anyhow::Result<Outcome> {
    let found = archives(kernels, arguments);
    if found.is_empty() {
        bail!("no kernels in {}: make them with `platoon kernels`", kernels.display());
    }
    for (file, archive) in found {
        let archive = archive?;
        let into = folder.join(file.file_stem().unwrap_or_default());
        std::fs::create_dir_all(&into).with_context(|| format!("{}: cannot be made", into.display()))?;
        for name in archive.units() {
            let cubin = into.join(format!("{name}.cubin"));
            let bytes = archive
                .unit(name)
                .with_context(|| format!("{}: {name} does not unpack: make the archive again", file.display()))?;
            output::write(&cubin, bytes)?;
        }
        output::print(&format!("{}: {} cubins", into.display(), archive.units().count()))?;
    }
    Ok(Outcome::Good)
}
