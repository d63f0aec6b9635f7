//! Options that several commands share.

use crate::board::{BackendKind, BoardRecord};
use crate::planner::boards;
use crate::planner::tasks::Tasks;
use crate::runtime;
use crate::tensor::DType;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Options of all commands.
#[derive(Args)]
pub struct Common {
    /// What runs the plans [default: what the board says]
    #[arg(long, global = true, value_name = "BACKEND")]
    backend: Option<BackendName>,
    /// The board: a name (boards/NAME.toml) or a .toml file; `host` is this machine
    #[arg(long, global = true, value_name = "NAME|FILE", default_value = "host")]
    board: String,
    /// Folder of compiled plans; each board has a folder of its own in it
    #[arg(long, global = true, value_name = "DIR", default_value = "plans")]
    pub plans: PathBuf,
    /// The task file: cameras, tenants, task sets
    #[arg(long, global = true, value_name = "FILE", default_value = "plans/tasks.toml")]
    tasks: PathBuf,
    /// CPU workers [default: one a core, at most the board's units]
    #[arg(long, global = true, value_name = "N")]
    pub workers: Option<NonZeroUsize>,
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
    /// The tensors' type.
    pub fn dtype(self) -> DType {
        match self {
            ActivationType::F32 => DType::F32,
            ActivationType::F16 => DType::F16,
        }
    }
}

/// Why no backend for GPUs is at hand.
pub const NO_CUDA: &str = "the cuda backend is not built into this program; use --backend cpu";

impl Common {
    /// The board's record, with the backend that was asked for, which must be at hand.
    pub fn board(&self) -> anyhow::Result<BoardRecord> {
        let mut board = boards::load(&self.board)?;
        match self.backend {
            Some(BackendName::Cpu) => board.backend = BackendKind::Cpu,
            Some(BackendName::Cuda) => board.backend = BackendKind::Cuda,
            None => {}
        }
        if board.backend == BackendKind::Cuda {
            bail!("{NO_CUDA}");
        }
        Ok(board)
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

    /// How engines are opened.
    pub fn engine_options(&self) -> runtime::Options {
        runtime::Options {
            workers: self.workers.map(NonZeroUsize::get),
            ..runtime::Options::default()
        }
    }

    /// The folder of a board's plans.
    pub fn folder(&self, board: &BoardRecord) -> PathBuf {
        self.plans.join(&board.name)
    }
}
