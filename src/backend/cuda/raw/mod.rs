//! The driver, behind a fence: everything unsafe of the backend, in safe wrappers.
//!
//! | module | what |
//! |---|---|
//! | `driver` | the driver's functions, found when first needed; the one place that calls, counts and refuses |
//! | `device` | the GPU and its context |
//! | `memory` | device memory and pinned memory |
//! | `stream` | streams and events |
//! | `module` | machine code and launches |
//! | `graph` | captured graphs |
//! | `green` | streams that are confined to some of the SMs |
//! | [`nvrtc`] | the compiler, which is no part of the driver and not needed on board |
//! | `tensor_map` | descriptors of the tensor memory accelerator |
//!
//! # What makes the wrappers sound
//! A handle is made by the driver, owned by one wrapper, and given back once, when the wrapper is dropped; each wrapper
//! keeps the context alive. After [`poison`] nothing is given back and no function is called any more.
//! Kernels write to addresses that the host cannot check. They run on the GPU, where they reach device memory and pinned
//! memory only: device memory is never a Rust value, and pinned memory is seen by the host as plain bytes or as atomic
//! words (see `memory`).
#![allow(unsafe_code)]

mod device;
mod driver;
mod graph;
mod green;
mod memory;
mod module;
pub mod nvrtc;
mod stream;
mod tensor_map;

pub use device::{Context, Facts, ProbeError, probe};
pub use driver::{Call, DriverCalls, DriverError, INVALID_HANDLE, INVALID_VALUE, driver_calls, is_poisoned, poison};
pub use graph::{Capture, Graph};
pub use green::{GreenContext, Parcels, Sms};
pub use memory::{DeviceMemory, Pinned};
pub use module::{Function, Geometry, Module};
pub use stream::{Event, Stream, device_bytes};
