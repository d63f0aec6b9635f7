//! What runs a plan.
pub mod cpu;
