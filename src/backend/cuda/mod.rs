//! The CUDA backend: the same plans on an NVIDIA GPU.
//!
//! | module | what |
//! |---|---|
//! | [`raw`] | the driver, behind a fence |
//! | [`architecture`], [`sources`], [`archive`] | the kernels: what they are compiled for, from what, and where they lie |
//! | [`compile`] | offline: from sources to archives |
//! | [`bind`] | from operators to launches |

pub mod architecture;
pub mod archive;
pub mod bind;
pub mod compile;
mod error;
pub mod raw;
pub mod sources;

pub use error::CudaError;
pub use raw::{Call, DriverCalls, DriverError, driver_calls};

use std::path::PathBuf;

/// The CUDA backend on the first GPU that the driver offers.
pub struct CudaBackend {
    kernels: PathBuf,
}

impl CudaBackend {
    /// The backend with the kernel archives in a folder: the one for the board's architecture is used.
    pub fn new(kernels: PathBuf) -> CudaBackend {
        CudaBackend { kernels }
    }
}
