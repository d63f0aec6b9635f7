//! The CUDA backend: the same plans on an NVIDIA GPU.
//!
//! | module | what |
//! |---|---|
//! | [`raw`] | the driver, behind a fence: everything unsafe |
//! | [`architecture`], [`sources`], [`archive`] | the kernels: what they are compiled for, from what, and where they lie |
//! | [`compile`] | offline: from sources to archives |
//! | [`bind`] | from operators to launches |
//! | `marks`, `words`, `clock` | what frames a frame: parameters in, progress words and times out |
//! | `ports`, `program` | a frame schedule as a list of commands over lanes |
//! | `memory`, `weights`, `slots`, `persistent`, `lanes`, `library` | what is taken at prepare |
//! | `issue` | commands into streams, for a capture or live |
//! | `prepare`, `warm_up`, `frames` | from a deployment to the loop |

pub mod architecture;
pub mod archive;
pub mod bind;
mod clock;
pub mod compile;
mod error;
mod frames;
mod issue;
mod lanes;
mod library;
mod marks;
mod memory;
mod pace;
mod persistent;
mod ports;
mod prepare;
mod program;
pub mod raw;
mod slots;
pub mod sources;
mod turns;
mod warm_up;
mod weights;
mod words;

pub use error::CudaError;
pub use prepare::Compile;
pub use raw::{Call, DriverCalls, DriverError, device_bytes, driver_calls};

use super::{Backend, PrepareError, PrepareOptions, Prepared, Probe};
use crate::plan::deployment::Deployment;
use prepare::Kept;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The CUDA backend on the first GPU that the driver offers.
pub struct CudaBackend {
    kernels: PathBuf,
    compile: Compile,
    /// What deployments leave for the next one; `None` where each is prepared by itself.
    kept: Option<Mutex<Kept>>,
}

impl CudaBackend {
    /// The backend with the kernel archives in a folder: the one for the board's architecture is used.
    pub fn new(kernels: PathBuf) -> CudaBackend {
        CudaBackend::with_kernels(kernels, bind::compile)
    }

    /// A backend whose launches are made by `compile`.
    pub fn with_kernels(kernels: PathBuf, compile: Compile) -> CudaBackend {
        CudaBackend {
            kernels,
            compile,
            kept: None,
        }
    }

    /// A backend that keeps kernels and weights on the device for the deployments that it prepares one after another. Each of them
    /// counts only what it took itself as its memory.
    pub fn keeping(kernels: PathBuf) -> CudaBackend {
        CudaBackend {
            kept: Some(Mutex::default()),
            ..CudaBackend::new(kernels)
        }
    }
}

impl Backend for CudaBackend {
    fn probe(&self) -> Result<Probe, PrepareError> {
        let facts = raw::probe().map_err(CudaError::from)?;
        let (major, minor) = facts.capability;
        Ok(Probe {
            device: format!("{} (compute capability {major}.{minor})", facts.name),
            units: facts.sms as usize,
        })
    }

    fn prepare(&self, deployment: &Arc<Deployment>, options: &PrepareOptions) -> Result<Box<dyn Prepared>, PrepareError> {
        let prepare = |kept: &mut Kept| prepare::prepare(&self.kernels, self.compile, deployment, options, kept);
        let prepared = match &self.kept {
            Some(kept) => prepare(&mut kept.lock().unwrap_or_else(PoisonError::into_inner)),
            None => prepare(&mut Kept::default()),
        };
        Ok(Box::new(prepared?))
    }
}
