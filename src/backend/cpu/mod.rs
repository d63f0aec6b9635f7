//! The CPU backend: always built; reference, oracle and embedded default.
pub mod arena;
pub mod eval;
pub mod kernel;
pub mod kernels;
pub mod simd;
pub mod taps;
