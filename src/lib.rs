//! Platoon runs several neural networks in formation on one GPU, once per camera frame.
pub mod backend;
pub mod board;
pub mod error;
pub mod ids;
pub mod limits;
pub mod plan;
#[cfg(feature = "planner")]
pub mod planner;
pub mod primitive;
pub mod runtime;
pub mod task;
pub mod tensor;
pub mod units;
