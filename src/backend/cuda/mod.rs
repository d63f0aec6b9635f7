//! The CUDA backend: the same plans on an NVIDIA GPU.

pub mod bind;
