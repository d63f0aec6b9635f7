//! The CPU backend's kernels.

pub mod generic;
pub mod vision;
