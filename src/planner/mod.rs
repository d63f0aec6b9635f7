//! The offline half: ONNX networks to plans.
pub mod cost;
pub mod graph;
pub mod memory;
pub mod schedule;
