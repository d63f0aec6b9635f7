//! The CUDA backend where there is no GPU: on a driver of our own (`stub/`), whose kernels run on the host.
#![cfg(feature = "cuda")]

#[path = "../common/calls.rs"]
mod calls;
#[path = "../common/child.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/meter.rs"]
mod meter;

mod faults;
mod frames;
mod images;
mod refused;
mod rows;
mod stub;
mod vehicle;
