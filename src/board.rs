//! What the halves need to know of a board: the record in the plan table, and the fingerprint that binds plans to it.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Which backend runs a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// The processor: always built; reference and oracle.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// A board as plans see it. Written by the planner from `boards/<name>.toml`, read on board from the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardRecord {
    /// Name, as on the command line.
    pub name: String,
    /// Backend that runs the board's plans unless told otherwise.
    pub backend: BackendKind,
    /// Processor architecture or GPU architecture the plans were made for (`x86_64`, `aarch64`, `sm_90a`): hard fingerprint.
    pub architecture: String,
    /// Units that run blocks side by side: CPU workers, or SMs. Hard fingerprint on a GPU; on the CPU backend the
    /// largest launch width, clamped to the team at hand.
    pub units: u32,
    /// Bytes for arena, slots and weight packings together.
    pub memory_budget: u64,
    /// Sustained multiply-adds a nanosecond of all units, for estimates: of f32 on the CPU backend, of f16 on a GPU.
    pub macs_per_ns: f32,
    /// Sustained memory bytes a nanosecond of all units, for estimates.
    pub bytes_per_ns: f32,
    /// Cost of issuing one operator, for estimates.
    pub issue: Nanos,
}
