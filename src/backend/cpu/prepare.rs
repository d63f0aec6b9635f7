//! Preparing a deployment for the team: kernels, tables, memory, threads. Every allocation of the backend happens here.

use super::arena::{Block, ReadSpan};
use super::execute;
use super::frames::{CpuPrepared, Params, PlanState, Ring, Shared, SlotState};
use super::kernel::Kernel;
use super::kernels::Compiler;
use super::simd::Isa;
use super::tables::ScheduleTable;
use super::team::{Bell, Halt, Team};
use crate::backend::progress::{Clock, Progress};
use crate::backend::trace::TraceRing;
use crate::backend::{Backend, PrepareError, PrepareOptions, Prepared, Probe};
use crate::ids::{OperatorId, PlanId, SectionId};
use crate::limits::{MAX_SLOTS, MAX_STREAMS};
use crate::plan::deployment::Deployment;
use crate::plan::format::{Operator, Plan};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Most workers of a team; more cores than that are left alone.
pub const MAX_WORKERS: usize = 64;

/// Where kernels come from: one compiler for all plans of a deployment, so that a weight section is packed once.
pub trait KernelSource {
    /// The kernel of `operator`, or why there is none.
    fn compile(&mut self, plan: &Plan, operator: &Operator, sections: &[ReadSpan<'_>]) -> Result<Box<dyn Kernel>, String>;
}

impl KernelSource for Compiler {
    fn compile(&mut self, plan: &Plan, operator: &Operator, sections: &[ReadSpan<'_>]) -> Result<Box<dyn Kernel>, String> {
        Compiler::compile(self, plan, operator, sections).map_err(|error| error.to_string())
    }
}

/// The CPU backend with a given source of kernels.
pub struct CpuBackend<F> {
    source: F,
}

impl CpuBackend<fn() -> Compiler> {
    /// The backend with its own kernels, for the best instruction set of this processor.
    pub fn native() -> CpuBackend<fn() -> Compiler> {
        CpuBackend {
            source: || Compiler::new(Isa::detect()),
        }
    }
}

impl<F, S> CpuBackend<F>
where
    F: Fn() -> S,
    S: KernelSource,
{
    /// A backend whose kernels come from what `source` makes; called once for each deployment.
    pub fn with_kernels(source: F) -> CpuBackend<F> {
        CpuBackend { source }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

impl<F, S> Backend for CpuBackend<F>
where
    F: Fn() -> S,
    S: KernelSource,
{
    fn probe(&self) -> Result<Probe, PrepareError> {
        Ok(Probe {
            device: format!("{} {}", std::env::consts::ARCH, Isa::detect().name()),
            units: cores(),
        })
    }

    fn prepare(&self, deployment: &Arc<Deployment>, options: &PrepareOptions) -> Result<Box<dyn Prepared>, PrepareError> {
        let slots = usize::from(options.slots);
        if slots == 0 || slots > MAX_SLOTS {
            return Err(PrepareError::Slots(options.slots));
        }
        let workers = options.workers.unwrap_or_else(cores).clamp(1, MAX_WORKERS);
        let mut source = (self.source)();
        let mut plans = Vec::with_capacity(deployment.plans.len());
        for index in 0..deployment.plans.len() {
            plans.push(prepare_plan(deployment, index, &mut source, workers, options)?);
        }
        let scratch_bytes = plans
            .iter()
            .flat_map(|p| p.kernels.iter().map(|k| k.scratch_bytes()))
            .max()
            .unwrap_or(0)
            .next_multiple_of(size_of::<u64>());
        let mut scratches = Vec::with_capacity(workers);
        for _ in 0..workers {
            scratches.push(block("workers' scratch", scratch_bytes as u64)?);
        }
        let host_bell = Arc::new(Bell::default());
        let halt = Arc::new(Halt::default());
        let largest = |bytes: fn(&Plan) -> u64| deployment.plans.iter().map(|p| bytes(p)).max().unwrap_or(0);
        let shared = Arc::new(Shared {
            slots: (0..slots)
                .map(|_| prepare_slot(deployment, workers, options))
                .collect::<Result<_, _>>()?,
            arena: block("arena", largest(|p| p.arena_bytes))?,
            deployment: deployment.clone(),
            plans,
            workers,
            crowded: workers > cores(),
            ring: Ring::new(slots),
            submitted: AtomicU64::new(0),
            complete: AtomicU64::new(0),
            ready: AtomicU32::new(0),
            bell: Bell::default(),
            host_bell: host_bell.clone(),
            halt: halt.clone(),
            fault: OnceLock::new(),
            faults: options.faults.clone(),
            clock: Clock::start(),
            trace: TraceRing::new(options.trace),
        });
        start(shared, scratches, options).map(|p| Box::new(p) as Box<dyn Prepared>)
    }
}

/// Starts the team and waits until every worker has taken its memory.
fn start(shared: Arc<Shared>, scratches: Vec<Block>, options: &PrepareOptions) -> Result<CpuPrepared, PrepareError> {
    let (workers, halt, host_bell) = (shared.workers, shared.halt.clone(), shared.host_bell.clone());
    let scratches = Arc::new(std::sync::Mutex::new(scratches));
    let (hook, mine) = (options.on_worker.clone(), shared.clone());
    let work = move |index: usize| {
        if let Some(hook) = &hook {
            hook(index);
        }
        let scratch = scratches.lock().map_or(None, |mut s| s.pop());
        if let Some(scratch) = scratch {
            execute::serve(&mine, index, scratch);
        }
    };
    let (team, failed) = match Team::start(workers, &halt, &host_bell, work) {
        Ok(team) => (team, None),
        Err((error, team)) => (team, Some(error)),
    };
    let prepared = CpuPrepared { shared, team: Some(team) };
    if let Some(error) = failed {
        return Err(PrepareError::Thread(error));
    }
    loop {
        let seen = host_bell.count();
        if prepared.shared.ready.load(Ordering::Acquire) as usize >= workers {
            return Ok(prepared);
        }
        if halt.alive() < workers {
            return Err(PrepareError::Thread(std::io::Error::other("a worker's start hook failed")));
        }
        host_bell.sleep(seen, None);
    }
}

fn prepare_plan(
    deployment: &Deployment,
    index: usize,
    source: &mut impl KernelSource,
    workers: usize,
    options: &PrepareOptions,
) -> Result<PlanState, PrepareError> {
    let plan: &Plan = &deployment.plans[index];
    let sections: Vec<ReadSpan<'_>> = (0..plan.sections.len())
        .map(|s| ReadSpan::new(deployment.section(PlanId(index as u16), SectionId(s as u32))))
        .collect();
    let mut kernels = Vec::with_capacity(plan.operators.len());
    for (number, operator) in plan.operators.iter().enumerate() {
        let kernel = source.compile(plan, operator, &sections).map_err(|reason| PrepareError::Kernel {
            task_set: plan.task_set.clone(),
            operator: OperatorId(number as u32),
            name: operator.name.clone(),
            reason,
        })?;
        kernels.push(kernel);
    }
    let schedules = plan
        .cycle
        .iter()
        .map(|schedule| ScheduleTable::new(plan, schedule, &kernels, workers, options.submission))
        .collect();
    Ok(PlanState {
        schedules,
        kernels,
        persistent: block("persistent buffers", plan.persistent_bytes)?,
    })
}

fn prepare_slot(deployment: &Deployment, workers: usize, options: &PrepareOptions) -> Result<SlotState, PrepareError> {
    let plans = || deployment.plans.iter();
    let largest = |bytes: fn(&Plan) -> u64| plans().map(|p| bytes(p)).max().unwrap_or(0);
    let segments = plans().flat_map(|p| p.cycle.iter().map(|c| c.segments.len())).max().unwrap_or(0);
    let cameras = plans().next().map_or(&[][..], |p| &p.cameras[..]);
    let mut images = Vec::with_capacity(cameras.len());
    for camera in cameras {
        images.push(block("camera images", camera.bytes)?);
    }
    Ok(SlotState {
        params: images.iter().map(|_| Params::default()).collect(),
        images,
        input: block("tensor inputs", largest(|p| p.input_bytes))?,
        output: block("results", largest(|p| p.output_bytes))?,
        progress: Progress::new(segments, workers),
        began: (0..if options.trace > 0 { segments } else { 0 })
            .map(|_| AtomicU64::new(0))
            .collect(),
        streams: (0..MAX_STREAMS).map(|_| AtomicU64::new(0)).collect(),
        tenants_left: std::array::from_fn(|_| AtomicU32::new(0)),
        parts_left: AtomicU32::new(0),
    })
}

/// A zeroed block whose pages are at hand: touched now, so that no frame pays for them.
fn block(what: &'static str, bytes: u64) -> Result<Block, PrepareError> {
    let mut block = usize::try_from(bytes)
        .ok()
        .and_then(Block::new)
        .ok_or(PrepareError::Memory { what, bytes })?;
    block.bytes_mut().fill(0);
    Ok(block)
}
