//! The offline half: ONNX networks to plans.
pub mod graph;
pub mod import;
