//! The offline half: ONNX networks to plans.
pub mod boards;
pub mod card;
mod document;
pub mod graph;
pub mod import;
pub mod tasks;

pub use document::TomlError;
