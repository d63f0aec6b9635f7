//! The offline half: ONNX networks to plans.
pub mod boards;
pub mod card;
pub mod cost;
mod document;
pub mod graph;
pub mod import;
pub mod memory;
pub mod schedule;
pub mod tasks;

pub use document::TomlError;
