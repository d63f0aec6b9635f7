//! The CPU backend: always built; reference, oracle and embedded default.
pub mod arena;
pub mod eval;
mod execute;
#[cfg(test)]
pub(crate) mod fixture;
mod frames;
pub mod kernel;
pub mod kernels;
pub mod prepare;
pub mod simd;
mod tables;
mod team;

pub use prepare::{CpuBackend, KernelSource};
