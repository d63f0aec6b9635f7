//! Networks from ONNX files through the whole path, import to results: ONNX's own operator cases, files that are no good, and
//! the same network compiled in many ways.
#![cfg(feature = "planner")]
#![allow(clippy::print_stderr)] // the lines that say what ran

mod angles;
mod choices;
mod composed;
mod malformed;
mod node;
mod passes;
mod quantized;
mod regions;
mod sequence;
mod skips;

#[path = "../common/cases.rs"]
mod cases;
#[path = "../common/data.rs"]
mod data;
#[path = "../common/network.rs"]
mod network;
#[path = "../common/onnx.rs"]
mod onnx;
