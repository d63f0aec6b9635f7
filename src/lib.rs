//! Platoon runs several neural networks in formation on one processor or GPU, once per camera frame, in a vehicle.
//!
//! Everything that can be decided ahead of time is decided ahead of time: [`planner`] turns ONNX networks into plans for a
//! board and a set of tasks. On board nothing is left but checked tables and a loop: [`runtime::Engine`] loads the plan
//! table, prepares everything, and from then on neither allocates nor chooses.
//!
//! ```no_run
//! use platoon::runtime::{Engine, Image, Options};
//! use platoon::task::PixelFormat;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Plans made by `platoon plan`; after this line the loop takes no memory any more.
//!     let mut engine = Engine::open("plans/host".as_ref(), &Options::default())?;
//!     let pixels = vec![0u8; 1280 * 720 * 3];
//!     let image = Image { data: &pixels, width: 1280, height: 720, stride: 1280 * 3, format: PixelFormat::Rgb8 };
//!     let ticket = engine.submit(&[Some(image)])?;
//!     let report = engine.wait(&ticket, None)?;
//!     for tenant in &report.tenants {
//!         let result = engine.result(&ticket, tenant.tenant)?;
//!         for found in result.detections() {
//!             println!("{} ({}): {:?} {:.2}", result.name(), result.status.name(), found.bounds, found.score);
//!         }
//!     }
//!     engine.release(ticket)?;
//!     Ok(())
//! }
//! ```
//!
//! # The rooms
//! | module | what it is |
//! |---|---|
//! | [`units`], [`ids`], [`limits`], [`tensor`], [`error`], [`board`], [`task`], [`primitive`] | shared words |
//! | [`plan`] | the contract between the halves: plans, tables, weights, and what must hold of them |
//! | [`backend`] | what runs a plan: `cpu`, and `cuda` on NVIDIA GPUs |
//! | [`runtime`] | on board: lifecycle, slots, the frame loop |
//! | [`capi`] | the same for C and C++: `platoon.h` |
//! | [`planner`] | offline: import, passes, lowering, schedules, memory, emission |
//! | [`scenes`] | a synthetic camera and its ground truth |
//! | [`replay`] | recorded and synthetic frames through the loop: results, overlays, reports |
//! | [`mod@bench`] | comparisons with a peer in the same run, and the zoo |
//! | [`cli`] | the `platoon` program |
//!
//! A module names only modules above it in this list. Features choose the rooms: a vehicle builds without the defaults, with
//! `cuda` if it has a GPU. The same `Engine` runs both; which one, the plan table says.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("platoon runs on Linux on x86-64 and aarch64");

pub mod backend;
#[cfg(feature = "bench")]
pub mod bench;
pub mod board;
#[cfg(feature = "capi")]
pub mod capi;
#[cfg(feature = "cli")]
pub mod cli;
pub mod error;
pub mod ids;
pub mod limits;
pub mod plan;
#[cfg(feature = "planner")]
pub mod planner;
pub mod primitive;
#[cfg(feature = "replay")]
pub mod replay;
pub mod runtime;
#[cfg(feature = "scenes")]
pub mod scenes;
pub mod task;
pub mod tensor;
pub mod units;
