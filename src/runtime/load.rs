//! From a directory of plans to an engine that is sealed. Every allocation of the runtime happens here.

use super::engine::{Engine, Options, PlanFacts};
use super::images::Newest;
use super::inputs::Inputs;
use super::latest::Latest;
use super::lifecycle::{Lifecycle, State};
use super::realtime::{self, Realtime, Refused};
use super::result::{input_places, output_places};
use super::slot::Slots;
use super::stats::PlanStats;
use crate::backend::cpu::CpuBackend;
#[cfg(feature = "cuda")]
use crate::backend::cuda::CudaBackend;
use crate::backend::{Backend, PrepareError, PrepareOptions};
use crate::board::BackendKind;
use crate::error::RunError;
use crate::ids::PlanId;
use crate::plan::deployment::{Deployment, LoadError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Why an engine does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Table, plans or weights are missing or not in order.
    #[error("the deployment does not load")]
    Load(#[from] LoadError),
    /// The machine cannot run them.
    #[error("the deployment cannot be prepared on this machine")]
    Prepare(#[from] PrepareError),
    /// The table's default task set has no plan.
    #[error("the table's default task set {0:?} has no plan: compile it")]
    DefaultTaskSet(String),
    /// The state machine refused a move.
    #[error(transparent)]
    State(#[from] RunError),
}

impl Engine {
    /// Opens a deployment on a given backend.
    pub fn over(deployment: Deployment, backend: &dyn Backend, options: &Options) -> Result<Engine, OpenError> {
        let mut lifecycle = Lifecycle::default();
        lifecycle.advance(State::Loaded)?;
        let default = &deployment.table.default_task_set;
        let first = deployment
            .plans
            .iter()
            .position(|p| p.task_set == *default)
            .and_then(PlanId::from_index)
            .ok_or_else(|| OpenError::DefaultTaskSet(default.clone()))?;
        let deployment = Arc::new(deployment);
        let slots = options.slots.unwrap_or(deployment.table.slots);
        let refused = Arc::new(Mutex::new(Vec::new()));
        let prepared = backend.prepare(
            &deployment,
            &PrepareOptions {
                workers: options.workers,
                slots,
                submission: options.submission,
                trace: options.trace,
                faults: options.faults.clone(),
                sms: options.sms,
                wait: options.wait,
                slot_memory: options.slot_memory,
                segment_words: options.segment_words,
                no_early_launches: options.no_early_launches,
                on_worker: Some(worker_hook(options.realtime, refused.clone())),
            },
        )?;
        let facts: Vec<PlanFacts> = deployment
            .plans
            .iter()
            .map(|plan| PlanFacts {
                outputs: output_places(plan),
                inputs: input_places(plan),
                stats: PlanStats::new(plan.tenants.len()),
            })
            .collect();
        let output_bytes = deployment.plans.iter().map(|p| p.output_bytes).max().unwrap_or(0);
        let cameras = deployment.plans.first().map_or(&[][..], |p| &p.cameras[..]);
        let mut refused = std::mem::take(&mut *refused.lock().unwrap_or_else(PoisonError::into_inner));
        lifecycle.advance(State::Prepared)?;
        static ENGINES: AtomicU64 = AtomicU64::new(0);
        let mut engine = Engine {
            lifecycle,
            slots: Slots::new(ENGINES.fetch_add(1, Ordering::Relaxed), usize::from(slots)),
            active: first,
            selected: first,
            next_frame: 0,
            previous_end: 0,
            newest: Newest::new(cameras)?,
            inputs: Inputs::new(facts.iter().map(|f| &f.inputs[..])),
            latest: Latest::new(output_bytes)?,
            watchdog: options.watchdog,
            close_limit: options.close_limit,
            threads: prepared.threads(),
            refused: Vec::new(),
            prepared: Some(prepared),
            facts,
            deployment,
        };
        // Last, so that everything the engine has taken is locked.
        options.realtime.enter_loop(|wish| refused.push(wish));
        for wish in &refused {
            log::warn!("{wish}");
        }
        engine.refused = refused;
        Ok(engine)
    }
}

/// What each worker does first: pins itself, takes its scheduling class, and notes what was refused.
fn worker_hook(wishes: Realtime, refused: Arc<Mutex<Vec<Refused>>>) -> Arc<dyn Fn(usize) + Send + Sync> {
    let cores = realtime::cores();
    Arc::new(move |worker| {
        wishes.enter_worker(worker, &cores, |wish| {
            refused.lock().unwrap_or_else(PoisonError::into_inner).push(wish);
        });
    })
}

impl Engine {
    /// Opens the deployment in `dir`, a directory `plans/<board>`, on the backend that its table names unless
    /// [`Options::backend`] says otherwise. GPU kernels are looked for where [`Options::kernels`] says; without it in the
    /// folder `kernels` beside `dir`, or else in `dir`.
    pub fn open(dir: &Path, options: &Options) -> Result<Engine, OpenError> {
        let deployment = Deployment::load(dir)?;
        let options = Options {
            kernels: options.kernels.clone().or_else(|| Some(kernels_beside(dir))),
            ..options.clone()
        };
        Engine::with(deployment, &options)
    }

    /// The same for a deployment that is no directory; without [`Options::kernels`], kernels are looked for in the folder
    /// `plans/kernels`.
    pub fn with(deployment: Deployment, options: &Options) -> Result<Engine, OpenError> {
        match options.backend.unwrap_or(deployment.table.backend) {
            BackendKind::Cpu => Engine::over(deployment, &CpuBackend::native(), options),
            BackendKind::Cuda => Engine::over_gpu(deployment, options),
        }
    }

    #[cfg(feature = "cuda")]
    fn over_gpu(deployment: Deployment, options: &Options) -> Result<Engine, OpenError> {
        Engine::over(deployment, &CudaBackend::new(kernels_of(options)), options)
    }

    #[cfg(not(feature = "cuda"))]
    fn over_gpu(_: Deployment, _: &Options) -> Result<Engine, OpenError> {
        Err(absent().into())
    }
}

/// A backend for [`Engine::over`], for engines on the same networks that are opened one after another: on a GPU, kernels and weights
/// stay on the device from one to the next. Kernels are looked for as [`Engine::with`] does.
pub fn keeping(kind: BackendKind, options: &Options) -> Result<Box<dyn Backend>, OpenError> {
    match kind {
        BackendKind::Cpu => Ok(Box::new(CpuBackend::native())),
        BackendKind::Cuda => keeping_gpu(options),
    }
}

#[cfg(feature = "cuda")]
fn keeping_gpu(options: &Options) -> Result<Box<dyn Backend>, OpenError> {
    Ok(Box::new(CudaBackend::keeping(kernels_of(options))))
}

#[cfg(not(feature = "cuda"))]
fn keeping_gpu(_: &Options) -> Result<Box<dyn Backend>, OpenError> {
    Err(absent().into())
}

/// Where kernels are looked for.
#[cfg(feature = "cuda")]
fn kernels_of(options: &Options) -> PathBuf {
    options.kernels.clone().unwrap_or_else(|| Path::new("plans").join(KERNELS))
}

#[cfg(not(feature = "cuda"))]
fn absent() -> PrepareError {
    let what = "this build has no CUDA backend: build with the feature `cuda`, or compile the plans for a CPU board";
    PrepareError::Absent(what.into())
}

/// Name of the folder of kernel archives.
const KERNELS: &str = "kernels";

/// The folder of the kernels for the deployment in `dir`.
fn kernels_beside(dir: &Path) -> PathBuf {
    // A parent by name, not by `..`: the deployment may be a link to a folder elsewhere.
    let beside = match dir.parent() {
        Some(parent) if dir.file_name().is_some() => parent.join(KERNELS),
        _ => dir.join("..").join(KERNELS),
    };
    if beside.is_dir() { beside } else { dir.join(KERNELS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_lie_beside_the_deployment_or_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("orin");
        assert_eq!(kernels_beside(&dir), dir.join("kernels"));
        std::fs::create_dir(folder.path().join("kernels")).unwrap();
        assert_eq!(kernels_beside(&dir), folder.path().join("kernels"));
    }
}
