//! The CUDA backend where there is no GPU: on a driver of our own (`stub/`), whose kernels run on the host.
#![cfg(feature = "cuda")]

#[path = "../common/mod.rs"]
mod common;

mod faults;
mod frames;
mod meter;
mod refused;
mod rows;
mod stub;
mod vehicle;
