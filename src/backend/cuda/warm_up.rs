//! Every frame schedule of every plan runs once in every slot on zeros, before anything is sealed: what the driver loads
//! or sets up late is set up then, and a plan that fails on this GPU fails here.

use super::error::CudaError;
use super::frames::CudaPrepared;
use super::raw::DriverError;
use crate::backend::Job;
use crate::backend::progress::Places;
use crate::ids::{PlanId, SlotId};
use std::time::{Duration, Instant};

/// The number of the frames that warm up: no frame of a vehicle has it, and no injected fault is meant for it.
const FRAME: u64 = u64::MAX - 1;
/// A frame that takes longer does not end.
const LIMIT: Duration = Duration::from_secs(30);
const NAP: Duration = Duration::from_micros(20);

/// Zeroes all memory, runs everything once, checks the words, and leaves everything as if nothing had run.
pub fn warm_up(prepared: &mut CudaPrepared) -> Result<(), CudaError> {
    let parts = &prepared.parts;
    let persistent = parts.plans.iter().map(|p| &p.persistent);
    let zeroed = [&parts.arena, &parts.workspace].into_iter().chain(persistent);
    let zeroed = zeroed.chain(parts.slots.iter().map(|s| s.memory()));
    zeroed.into_iter().try_for_each(|m| m.clear(parts.streams.root()))?;
    for plan in 0..prepared.deployment.plans.len() {
        for schedule in 0..prepared.deployment.plans[plan].cycle.len() {
            for slot in 0..prepared.parts.slots.len() {
                let job = Job {
                    frame: FRAME,
                    slot: SlotId(slot as u16),
                    plan: PlanId(plan as u16),
                    schedule,
                    skip: 0,
                    sent: 0,
                };
                frame(prepared, &job)?;
            }
        }
    }
    let parts = &mut prepared.parts;
    for plan in &parts.plans {
        plan.persistent.clear(parts.streams.root())?;
    }
    for slot in &mut parts.slots {
        slot.words.clear();
        slot.output.bytes_mut().fill(0);
    }
    rest(prepared, |e| e.into())
}

fn frame(prepared: &mut CudaPrepared, job: &Job) -> Result<(), CudaError> {
    let task_set = prepared.deployment.plans[job.plan.index()].task_set.clone();
    let failed = |source: DriverError| CudaError::WarmUp {
        task_set: task_set.clone(),
        source,
    };
    prepared.parts.slots[job.slot.index()].words.clear();
    prepared.launch(job).map_err(failed)?;
    rest(prepared, failed)?;
    let slot = &prepared.parts.slots[job.slot.index()];
    let segments = &prepared.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
    let tenant = segments.iter().find(|s| slot.progress.tenant_finish(s.tenant, FRAME).is_none());
    let missing = match (slot.progress.frame_finish(FRAME), tenant) {
        (None, _) => Some(format!("word {} of slot {} is not written", Places::FRAME, job.slot)),
        (_, Some(segment)) => Some(format!("tenant {} of slot {} is not marked", segment.tenant, job.slot)),
        _ => None,
    };
    missing.map_or(Ok(()), |what| Err(CudaError::Stuck { task_set, what }))
}

/// Waits until the root is idle, asking now and then: an endless frame must not hold prepare for ever.
fn rest(prepared: &CudaPrepared, failed: impl FnOnce(DriverError) -> CudaError) -> Result<(), CudaError> {
    let began = Instant::now();
    loop {
        match prepared.parts.streams.root().is_idle() {
            Ok(true) => return Ok(()),
            Ok(false) if began.elapsed() < LIMIT => std::thread::sleep(NAP),
            Ok(false) => {
                super::raw::poison();
                return Err(CudaError::Stuck {
                    task_set: String::new(),
                    what: format!("not within {} s", LIMIT.as_secs()),
                });
            }
            Err(error) => {
                super::raw::poison();
                return Err(failed(error));
            }
        }
    }
}
