//! The CPU backend's kernels.

pub mod vision;
