//! The GPU of this machine as commands see it: which board it is, how much of it a run takes, and its kernels.

use super::jetson::{self, Jetson};
use super::output;
use crate::backend::cuda::architecture::Toolkit;
use crate::backend::cuda::archive::{self, Archive};
use crate::backend::cuda::compile::{CompileError, Compiler, UnitReport};
use crate::backend::cuda::raw::{self, Facts};
use crate::board::{BackendKind, BoardRecord};
use crate::planner::{boards, durable};
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The board of this machine's GPU: on a Jetson the one of the folder `boards` that names it, in its power mode, else the
/// first with the GPU's architecture and number of SMs.
pub fn board() -> anyhow::Result<BoardRecord> {
    let facts = raw::probe()?;
    match find(
        Path::new("boards"),
        &facts.architecture(),
        facts.sms,
        jetson::read(Path::new("/")).as_ref(),
    ) {
        Some(board) => Ok(board),
        None => bail!(
            "no file of the folder boards is for this GPU ({}): describe it, as boards/README.md says, and name it with --board",
            described(&facts)
        ),
    }
}

fn find(folder: &Path, architecture: &str, sms: u32, jetson: Option<&Jetson>) -> Option<BoardRecord> {
    let same = |b: &BoardRecord| b.backend == BackendKind::Cuda && b.architecture == architecture && b.units == sms;
    let named = jetson.and_then(|j| Some((j.mode.as_ref().and_then(|m| m.name.clone()), j.board(folder)?)));
    if let Some((mode, file)) = named {
        let file = file.to_str()?;
        let moded = mode.and_then(|mode| boards::in_mode(file, &mode).ok());
        return moded.or_else(|| boards::load(file).ok()).filter(same);
    }
    let known = boards::all(folder);
    known.into_iter().filter_map(|(_, board)| board.ok()).find(same)
}

/// Why there is no GPU here; `None` if there is one.
pub fn absent() -> Option<String> {
    raw::probe().err().map(|error| output::chain(&error))
}

/// The SMs that this process may use: under MPS those of its share.
pub fn sms() -> anyhow::Result<u32> {
    Ok(raw::probe()?.sms)
}

/// A GPU in words.
pub fn described(facts: &Facts) -> String {
    format!("{}, {}, {} SMs", facts.name, facts.architecture(), facts.sms)
}

/// The GPU of this machine, what serves it, and how much of it a board's plans take, for figures; `None` without a GPU.
pub fn at_work(board: &BoardRecord) -> Option<String> {
    let facts = raw::probe().ok()?;
    let share = share(board).map(|sms| format!("{sms} of them at work, ")).unwrap_or_default();
    let driver = release().map(|r| format!("driver {r}, ")).unwrap_or_default();
    let cuda = Toolkit::from_number(facts.driver);
    Some(format!("{}, {share}{driver}CUDA {cuda}", described(&facts)))
}

/// The release of the kernel's driver, such as 580.95.05, where the system tells it.
fn release() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let dotted = |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.lines().next()?.split_whitespace().find(dotted).map(String::from)
}

/// The SMs that a run of the board's plans is confined to: the board's number, if the GPU at hand has more.
pub fn share(board: &BoardRecord) -> Option<u32> {
    let facts = raw::probe().ok()?;
    (board.units < facts.sms).then_some(board.units)
}

/// Compiles the kernels for an architecture if the folder `kernels` lacks them, and there is a GPU and a compiler: that of `nvrtc`, else
/// what the dynamic loader finds. Failures are left to whoever opens the archive, who says what is missing; why nothing was compiled
/// goes to the log.
pub fn provide_kernels(kernels: &Path, nvrtc: Option<&Path>, architecture: &str) {
    let Ok(facts) = raw::probe() else { return };
    if archive::find(kernels, architecture, facts.driver).is_ok() {
        return;
    }
    let compiler = match Compiler::find(nvrtc) {
        Ok(compiler) => compiler,
        Err(error) => return log::info!("kernels are missing and not compiled: {}", output::chain(&error)),
    };
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    bar.set_message(format!("compiling kernels for {architecture} with CUDA {}", compiler.toolkit()));
    let made = make(&compiler, kernels, architecture, false, &|unit| {
        bar.set_message(format!("compiling kernels: {} is done", unit.name))
    });
    bar.finish_and_clear();
    if let Err(error) = made {
        output::complain(&output::chain(error.as_ref()));
    }
}

/// An archive that was written.
pub struct Made {
    /// The file.
    pub file: PathBuf,
    /// The archive.
    pub archive: Archive,
    /// Its units.
    pub units: Vec<UnitReport>,
}

/// Compiles the kernels for an architecture into the folder `kernels`; unless `again`, units whose sources, compiler and
/// options are the old archive's are taken from there.
pub fn make(
    compiler: &Compiler,
    kernels: &Path,
    architecture: &str,
    again: bool,
    progress: &(dyn Fn(&UnitReport) + Sync),
) -> anyhow::Result<Made> {
    let file = kernels.join(archive::file_name(architecture, compiler.toolkit()));
    let old = Archive::open(&file).ok().filter(|_| !again);
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (archive, units) = compiler.archive(architecture, old.as_ref(), threads, progress).map_err(short)?;
    std::fs::create_dir_all(kernels).with_context(|| format!("{}: cannot be made", kernels.display()))?;
    durable::replace(&file, archive.bytes()).with_context(|| format!("{}: cannot be written", file.display()))?;
    Ok(Made { file, archive, units })
}

/// The error with the compiler's first complaint only, so that it stays a line; all of them go to the log.
fn short(error: CompileError) -> CompileError {
    match error {
        CompileError::Unit {
            unit,
            architecture,
            call,
            code,
            log,
        } => {
            log::warn!("{unit}.cu for {architecture}:\n{log}");
            let first = log.lines().find(|l| l.contains("error")).or(log.lines().next());
            CompileError::Unit {
                unit,
                architecture,
                call,
                code,
                log: first.unwrap_or_default().trim().to_owned(),
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::jetson::{read, tests::orin};
    use super::*;

    #[test]
    fn a_board_is_found_by_its_gpu_and_a_jetson_by_its_name_and_mode() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
        let name = |sms, jetson: Option<&Jetson>| find(&folder, "sm_87", sms, jetson).map(|b| b.name);
        assert_eq!(name(16, None).as_deref(), Some("jetson-agx-orin"));
        let root = tempfile::tempdir().unwrap();
        orin(root.path(), 2, 1, 1);
        let slow = read(root.path());
        assert_eq!(name(8, slow.as_ref()).as_deref(), Some("jetson-agx-orin-mode-30w"));
        assert_eq!(name(16, slow.as_ref()), None, "the mode has 8 SMs");
        assert_eq!(find(&folder, "sm_90a", 132, None).map(|b| b.name).as_deref(), Some("h200"));
        assert_eq!(find(&folder, "sm_90a", 7, None), None);
    }
}
