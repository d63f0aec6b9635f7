//! Options that several commands share.

use super::gpu;
use crate::backend::SlotMemory;
use crate::board::{BackendKind, BoardRecord};
use crate::planner::boards;
use crate::planner::machine::Machine;
use crate::planner::tasks::Tasks;
use crate::runtime;
use crate::runtime::cores::Cores;
use crate::runtime::realtime::Realtime;
use crate::tensor::DType;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

/// Name of the board that is this machine's processor.
const HOST: &str = "host";

/// The task file where none is named.
const TASKS: &str = "plans/tasks.toml";

/// Options of all commands.
#[derive(Args)]
pub struct Common {
    /// What runs the plans [default: what the board says]; `cpu` runs a GPU board's plans as their reference
    #[arg(long, global = true, value_name = "BACKEND")]
    backend: Option<BackendName>,
    /// The board: a name (boards/NAME.toml) or a .toml file; `host` is this machine
    /// [default: host; with --backend cuda the board of this machine's GPU]
    #[arg(long, global = true, value_name = "NAME|FILE")]
    board: Option<String>,
    /// Folder of compiled plans; each board has a folder of its own in it
    #[arg(long, global = true, value_name = "DIR", default_value = "plans")]
    pub plans: PathBuf,
    /// The task file: cameras, tenants, task sets
    #[arg(long, global = true, value_name = "FILE", default_value = TASKS)]
    tasks: PathBuf,
    /// CPU workers [default: one a core, at most the board's units]
    #[arg(long, global = true, value_name = "N")]
    pub workers: Option<NonZeroUsize>,
    /// GPU: confine the work to N SMs, which makes a board of its own: BOARD-smN
    #[arg(long, global = true, value_name = "N")]
    sms: Option<NonZeroU32>,
    /// The power mode of the board to plan for, one that its file lists; a board of its own: BOARD-MODE
    #[arg(long, global = true, value_name = "MODE", conflicts_with = "sms")]
    power_mode: Option<String>,
    /// GPU: folder of compiled kernels [default: <plans>/kernels]
    #[arg(long, global = true, value_name = "DIR")]
    kernels: Option<PathBuf>,
    /// GPU: where it reads inputs and writes results [default: mapped where it shares the host's memory, else copied]
    #[arg(long, global = true, value_name = "HOW")]
    slot_memory: Option<SlotMemoryName>,
    #[command(flatten)]
    timing: Timing,
    /// GPU: folder of the compiler libnvrtc.so, or that file [default: what the dynamic loader finds]
    #[arg(long, global = true, value_name = "DIR", env = "PLATOON_NVRTC")]
    pub nvrtc: Option<PathBuf>,
}

/// What keeps frames punctual; the system may refuse it, which is said, and done without.
#[derive(Args)]
#[command(next_help_heading = "Real time")]
struct Timing {
    /// Lock all memory of the process (mlockall)
    #[arg(long, global = true)]
    lock_memory: bool,
    /// Touch the stacks of the threads that run frames before the first
    #[arg(long, global = true)]
    prefault: bool,
    /// Run CPU workers under SCHED_FIFO with this priority
    #[arg(long, global = true, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,
    /// Run the loop's thread under SCHED_FIFO with this priority
    #[arg(long, global = true, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    loop_fifo: Option<u8>,
    /// Cores for CPU workers, pinned to them by turns, as 0-3,8 [default: all at hand]
    #[arg(long, global = true, value_name = "CORES")]
    cores: Option<Cores>,
    /// Cores that the loop's thread is confined to [default: as it is]
    #[arg(long, global = true, value_name = "CORES")]
    loop_cores: Option<Cores>,
}

impl Timing {
    fn wishes(&self) -> Realtime {
        Realtime {
            cores: self.cores,
            loop_cores: self.loop_cores,
            lock_memory: self.lock_memory,
            fifo: self.fifo,
            loop_fifo: self.loop_fifo,
            prefault: self.prefault,
            ..Realtime::default()
        }
    }
}

/// Where slots lie, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SlotMemoryName {
    /// In the host's pinned memory, which the GPU works on
    Mapped,
    /// In the GPU's memory, copied in and out in each frame
    Copied,
}

/// The backends by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BackendName {
    /// The processor
    Cpu,
    /// An NVIDIA GPU
    Cuda,
}

/// Element types that activations may be stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActivationType {
    /// 32-bit floats
    F32,
    /// 16-bit floats, accumulated in 32 bits
    F16,
}

impl ActivationType {
    /// The tensors' type: what was asked for, else what the board's backend is fastest with.
    pub fn dtype(asked: Option<ActivationType>, board: &BoardRecord) -> DType {
        match (asked, board.backend) {
            (Some(ActivationType::F32), _) | (None, BackendKind::Cpu) => DType::F32,
            (Some(ActivationType::F16), _) | (None, BackendKind::Cuda) => DType::F16,
        }
    }
}

impl Common {
    /// True if a board is asked for, and not taken by default.
    pub fn names_board(&self) -> bool {
        self.board.is_some()
    }

    /// The record of the board that plans are made for. Needs no GPU, unless the GPU at hand is to say which board it is.
    pub fn board(&self) -> anyhow::Result<BoardRecord> {
        let wants_gpu = self.backend == Some(BackendName::Cuda);
        let board = match &self.board {
            Some(name) => boards::load(name).map_err(|error| unknown(name).unwrap_or_else(|| error.into()))?,
            None if wants_gpu => gpu::board()?,
            None => boards::load(HOST)?,
        };
        let board = match &self.power_mode {
            Some(mode) => boards::in_mode(
                self.board.as_deref().context("--power-mode is of a board: name it with --board")?,
                mode,
            )?,
            None => board,
        };
        let board = match self.sms {
            Some(sms) if board.backend == BackendKind::Cuda => boards::confined(&board, sms.get())?,
            Some(_) => bail!("--sms is for GPUs, board {} runs plans on the CPU", board.name),
            None => board,
        };
        if wants_gpu && board.backend == BackendKind::Cpu {
            bail!("board {} has no GPU: name a GPU's board with --board, or leave it out", board.name);
        }
        Ok(board)
    }

    /// The options that name the board, as they were given: the record's own name need not be a file's.
    pub fn naming(&self) -> String {
        let board = match (&self.board, self.backend) {
            (Some(name), _) => format!("--board {name}"),
            (None, Some(BackendName::Cuda)) => "--backend cuda".to_owned(),
            (None, _) => format!("--board {HOST}"),
        };
        let mode = self.power_mode.as_ref().map(|mode| format!(" --power-mode {mode}"));
        let sms = self.sms.map(|sms| format!(" --sms {sms}"));
        board + &mode.unwrap_or_default() + &sms.unwrap_or_default()
    }

    /// What the board's file says of the machine; `None` for a board that has none.
    pub fn machine(&self, board: &BoardRecord) -> Option<Machine> {
        boards::machine(self.board.as_deref().unwrap_or(&board.name)).ok()
    }

    /// Where the task file is.
    pub fn task_file(&self) -> &Path {
        &self.tasks
    }

    /// The task file, with its cards.
    pub fn tasks(&self) -> anyhow::Result<Tasks> {
        let tasks = Tasks::load(&self.tasks);
        if self.tasks.exists() {
            Ok(tasks?)
        } else {
            tasks.context("no task file: name one with --tasks FILE")
        }
    }

    /// The task file, for what can do without one; one that was named must be there.
    pub fn tasks_if_any(&self) -> anyhow::Result<Option<Tasks>> {
        let wanted = self.tasks.exists() || self.tasks != Path::new(TASKS);
        wanted.then(|| self.tasks()).transpose()
    }

    /// What runs a board's plans.
    pub fn backend(&self, board: &BoardRecord) -> BackendKind {
        self.backend_or(board.backend)
    }

    /// What runs plans that are for a board of this backend.
    pub fn backend_or(&self, board: BackendKind) -> BackendKind {
        match self.backend {
            Some(BackendName::Cpu) => BackendKind::Cpu,
            Some(BackendName::Cuda) | None => board,
        }
    }

    /// True if a backend was asked for.
    pub fn names_backend(&self) -> bool {
        self.backend.is_some()
    }

    /// How engines are opened on a board's plans. Where a GPU is to run them, its kernels are compiled if they are missing
    /// and a compiler is at hand; what is missing then is said by the engine.
    pub fn engine_options(&self, board: &BoardRecord) -> runtime::Options {
        let on_gpu = self.backend(board) == BackendKind::Cuda;
        if on_gpu {
            gpu::provide_kernels(&self.kernels(), self.nvrtc.as_deref(), &board.architecture);
        }
        runtime::Options {
            backend: Some(self.backend(board)),
            kernels: Some(self.kernels()),
            sms: on_gpu.then(|| gpu::share(board)).flatten(),
            workers: self.workers.map(NonZeroUsize::get),
            realtime: self.timing.wishes(),
            slot_memory: match self.slot_memory {
                None => SlotMemory::OfBoard,
                Some(SlotMemoryName::Mapped) => SlotMemory::Mapped,
                Some(SlotMemoryName::Copied) => SlotMemory::Copied,
            },
            ..runtime::Options::default()
        }
    }

    /// The options that let another process of this program run on the same board with the same kernels.
    pub fn again(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = vec!["--kernels".into(), self.kernels().into()];
        let board = self.board.as_ref().map(|name| ["--board".to_string(), name.clone()]);
        let sms = self.sms.map(|sms| ["--sms".to_string(), sms.to_string()]);
        let mode = self.power_mode.as_ref().map(|mode| ["--power-mode".to_string(), mode.clone()]);
        let backend = self.names_backend().then(|| ["--backend".to_string(), "cuda".to_string()]);
        options.extend([board, sms, mode, backend].into_iter().flatten().flatten().map(OsString::from));
        options
    }

    /// The folder of kernel archives.
    pub fn kernels(&self) -> PathBuf {
        self.kernels.clone().unwrap_or_else(|| self.plans.join("kernels"))
    }

    /// The folder of a board's plans.
    pub fn folder(&self, board: &BoardRecord) -> PathBuf {
        self.plans.join(&board.name)
    }
}

/// What is said of a name that no board has; `None` for one that some board has, and for files.
fn unknown(name: &str) -> Option<anyhow::Error> {
    if name == HOST || name.ends_with(".toml") {
        return None;
    }
    let files = boards::all(Path::new("boards"));
    let names: Vec<_> = files.iter().filter_map(|(path, _)| path.file_stem()?.to_str()).collect();
    let known = match names.as_slice() {
        [] => "no folder `boards` is here".to_owned(),
        some if some.contains(&name) => return None,
        some => format!("in `boards` there are {}", some.join(", ")),
    };
    Some(anyhow::anyhow!(
        "no board `{name}`: {known}; a board's file is named with its ending, .toml"
    ))
}
