//! The CPU backend: always built; reference, oracle and embedded default.
pub mod simd;
