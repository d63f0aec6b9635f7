//! The CUDA backend: the same plans on an NVIDIA GPU.

pub mod architecture;
pub mod archive;
pub mod bind;
pub mod compile;
mod raw;
pub mod sources;
