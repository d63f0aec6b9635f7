//! Real networks on real driving frames, against references made by onnxruntime and OpenCV.
//!
//! The data is not part of the repository: `PLATOON_AV_DATA` names its folder. Without it every test says that it was
//! skipped.
#![cfg(all(feature = "planner", feature = "replay"))]

#[path = "../common/av.rs"]
mod av;
#[allow(dead_code)] // other binaries use other parts
#[path = "../common/compare.rs"]
mod compare;
#[allow(dead_code)] // other binaries use other parts
#[path = "../common/data.rs"]
mod data;
mod decoded;
mod frames;
mod networks;
mod npy;
mod refused;

use std::path::Path;
use std::sync::OnceLock;

/// The folder of the three task sets' plans, compiled once.
fn plans() -> &'static Path {
    static PLANS: OnceLock<std::path::PathBuf> = OnceLock::new();
    PLANS.get_or_init(|| av::deployment("av"))
}
