//! Kernels for every primitive on any strides and any types: slow, right, and the oracle of the fast ones.
//!
//! `value` reads and writes elements wherever strides say they lie, `walk` visits boxes of coordinates, a file per family
//! of primitives computes, `routine` binds a primitive to its family and tables, `operator` runs the primitives
//! of an operator over the tiles that `tiles` cuts.

mod attention;
mod conv;
mod elementwise;
mod matmul;
pub mod operator;
mod pool;
mod power;
mod recurrent;
mod reduce;
mod remap;
mod resample;
pub mod routine;
mod sample;
mod scalar;
mod tiles;
pub mod value;
mod walk;

#[cfg(test)]
mod tests;
