//! What the host and the workers share, and the host's side of it: slots, the ring of submitted frames, closing.

use super::arena::{Block, ImageParams};
use super::kernel::Kernel;
use super::tables::ScheduleTable;
use super::team::{Bell, Halt, Team};
use crate::backend::progress::{Clock, Progress};
use crate::backend::trace::{TraceEvent, TraceRing};
use crate::backend::{InjectedFault, Job, Prepared};
use crate::error::{Fault, RunError};
use crate::ids::{CameraId, PlanId, SlotId};
use crate::limits::MAX_TENANTS;
use crate::plan::deployment::Deployment;
use crate::task::PixelFormat;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A plan, prepared.
pub(super) struct PlanState {
    pub(super) kernels: Vec<Box<dyn Kernel>>,
    pub(super) schedules: Vec<ScheduleTable>,
    pub(super) persistent: Block,
}

/// The memory and the counters of one slot. The host sets them before it submits; the workers count while it runs.
pub(super) struct SlotState {
    pub(super) images: Vec<Block>,
    pub(super) params: Vec<Params>,
    pub(super) input: Block,
    pub(super) output: Block,
    pub(super) progress: Progress,
    /// When each segment began, for the trace; empty without.
    pub(super) began: Vec<AtomicU64>,
    /// Shares that have arrived, per stream.
    pub(super) streams: Vec<AtomicU64>,
    /// Segments of each tenant that have not ended.
    pub(super) tenants_left: [AtomicU32; MAX_TENANTS],
    /// Segments of the frame that have not ended.
    pub(super) parts_left: AtomicU32,
}

/// [`ImageParams`] that host and workers can both touch.
#[derive(Default)]
pub(super) struct Params {
    frame: AtomicU64,
    size: AtomicU64,
    layout: AtomicU64,
}

impl Params {
    pub(super) fn read(&self) -> ImageParams {
        let (size, layout) = (self.size.load(Ordering::Relaxed), self.layout.load(Ordering::Relaxed));
        ImageParams {
            frame: self.frame.load(Ordering::Relaxed),
            width: (size >> 32) as u32,
            height: size as u32,
            stride: (layout >> 32) as u32,
            format: PixelFormat::from_number(layout as u32),
        }
    }

    fn write(&self, p: ImageParams) {
        self.frame.store(p.frame, Ordering::Relaxed);
        self.size.store(u64::from(p.width) << 32 | u64::from(p.height), Ordering::Relaxed);
        let format = p.format.map_or(0, |f| f as u32);
        self.layout.store(u64::from(p.stride) << 32 | u64::from(format), Ordering::Relaxed);
    }
}

/// The submitted frames, by number modulo the ring's length, which is the number of slots: there are never more.
pub(super) struct Ring {
    entries: Vec<[AtomicU64; 3]>,
}

impl Ring {
    pub(super) fn new(slots: usize) -> Ring {
        Ring {
            entries: (0..slots).map(|_| Default::default()).collect(),
        }
    }

    /// Entry `number`. Release and acquire on every word: a reader that meets a newer frame's word also sees the older
    /// frame complete (see `execute`).
    pub(super) fn read(&self, number: u64) -> Job {
        let entry = &self.entries[(number % self.entries.len() as u64) as usize];
        let [place, frame, skip] = std::array::from_fn(|i| entry[i].load(Ordering::Acquire));
        Job {
            frame,
            slot: SlotId(place as u16),
            plan: PlanId((place >> 16) as u16),
            schedule: (place >> 32) as usize,
            skip: skip as u32,
            sent: 0,
        }
    }

    fn write(&self, number: u64, job: &Job) {
        let entry = &self.entries[(number % self.entries.len() as u64) as usize];
        let place = (job.schedule as u64) << 32 | u64::from(job.plan.0) << 16 | u64::from(job.slot.0);
        for (word, value) in entry.iter().zip([place, job.frame, u64::from(job.skip)]) {
            word.store(value, Ordering::Release);
        }
    }
}

/// Everything the workers touch. They own it together with the host, so a leaked worker never meets freed memory.
pub(super) struct Shared {
    pub(super) deployment: Arc<Deployment>,
    pub(super) plans: Vec<PlanState>,
    pub(super) slots: Vec<SlotState>,
    pub(super) arena: Block,
    pub(super) workers: usize,
    /// True if workers outnumber cores: spinning would keep another worker from its work.
    pub(super) crowded: bool,
    pub(super) ring: Ring,
    /// Frames submitted.
    pub(super) submitted: AtomicU64,
    /// Frames complete.
    pub(super) complete: AtomicU64,
    /// Workers that have started.
    pub(super) ready: AtomicU32,
    /// Rings for the workers.
    pub(super) bell: Bell,
    /// Rings for the host.
    pub(super) host_bell: Arc<Bell>,
    pub(super) halt: Arc<Halt>,
    pub(super) fault: OnceLock<Fault>,
    pub(super) faults: Vec<InjectedFault>,
    pub(super) clock: Clock,
    pub(super) trace: TraceRing,
}

impl Shared {
    pub(super) fn stop(&self) {
        self.halt.set();
        self.bell.ring();
    }
}

/// All plans of a deployment on a team of workers.
pub(super) struct CpuPrepared {
    pub(super) shared: Arc<Shared>,
    /// `None` once closed.
    pub(super) team: Option<Team>,
}

impl CpuPrepared {
    fn slot(&self, slot: SlotId) -> Result<&SlotState, RunError> {
        self.shared.slots.get(slot.index()).ok_or(RunError::Slot(slot))
    }

    fn part(&self, block: &Block, offset: usize, bytes: usize) -> Result<(), RunError> {
        let end = offset.checked_add(bytes).ok_or(RunError::Unknown)?;
        (end <= block.span().len()).then_some(()).ok_or(RunError::Unknown)
    }

    fn shut(&mut self, limit: Duration) -> usize {
        self.shared.stop();
        let limit = Instant::now() + limit;
        self.team
            .take()
            .map_or(0, |team| team.join(&self.shared.halt, &self.shared.host_bell, limit))
    }
}

impl Prepared for CpuPrepared {
    fn image(&self, slot: SlotId, camera: CameraId) -> Result<&[u8], RunError> {
        Ok(self.slot(slot)?.images.get(camera.index()).ok_or(RunError::Unknown)?.bytes())
    }

    fn image_mut(&mut self, slot: SlotId, camera: CameraId) -> Result<&mut [u8], RunError> {
        let span = self.slot(slot)?.images.get(camera.index()).ok_or(RunError::Unknown)?.span();
        Ok(span.slice_mut(0, span.len()))
    }

    fn copy_image(&mut self, camera: CameraId, from: SlotId, to: SlotId) -> Result<(), RunError> {
        if from == to {
            return Ok(());
        }
        let (source, params) = {
            let slot = self.slot(from)?;
            let image = slot.images.get(camera.index()).ok_or(RunError::Unknown)?;
            (image, slot.params.get(camera.index()).ok_or(RunError::Unknown)?.read())
        };
        let target = self.slot(to)?.images.get(camera.index()).ok_or(RunError::Unknown)?.span();
        let bytes = params
            .format
            .and_then(|f| f.image_bytes(params.width, params.height, params.stride))
            .unwrap_or(0);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(target.len());
        target.slice_mut::<u8>(0, bytes).copy_from_slice(&source.bytes()[..bytes]);
        self.slot(to)?.params[camera.index()].write(params);
        Ok(())
    }

    fn params(&self, slot: SlotId, camera: CameraId) -> Result<ImageParams, RunError> {
        Ok(self.slot(slot)?.params.get(camera.index()).ok_or(RunError::Unknown)?.read())
    }

    fn set_params(&mut self, slot: SlotId, camera: CameraId, params: ImageParams) -> Result<(), RunError> {
        let slot = self.slot(slot)?;
        slot.params.get(camera.index()).ok_or(RunError::Unknown)?.write(params);
        Ok(())
    }

    fn input_mut(&mut self, slot: SlotId, offset: usize, bytes: usize) -> Result<&mut [u8], RunError> {
        let block = &self.slot(slot)?.input;
        self.part(block, offset, bytes)?;
        Ok(block.span().slice_mut(offset, bytes))
    }

    fn output(&self, slot: SlotId, offset: usize, bytes: usize) -> Result<&[u8], RunError> {
        let block = &self.slot(slot)?.output;
        self.part(block, offset, bytes)?;
        Ok(block.span().slice(offset, bytes))
    }

    fn output_mut(&mut self, slot: SlotId, offset: usize, bytes: usize) -> Result<&mut [u8], RunError> {
        let block = &self.slot(slot)?.output;
        self.part(block, offset, bytes)?;
        Ok(block.span().slice_mut(offset, bytes))
    }

    fn reset(&mut self, plan: PlanId) -> Result<(), RunError> {
        let shared = &self.shared;
        if shared.complete.load(Ordering::Acquire) != shared.submitted.load(Ordering::Acquire) {
            return Err(RunError::State);
        }
        let span = shared.plans.get(plan.index()).ok_or(RunError::Unknown)?.persistent.span();
        span.slice_mut::<u8>(0, span.len()).fill(0);
        Ok(())
    }

    fn submit(&mut self, job: &Job) -> Result<(), RunError> {
        if let Some(&fault) = self.shared.fault.get() {
            return Err(RunError::Faulted(fault));
        }
        if self.shared.halt.is_set() {
            return Err(RunError::State);
        }
        let plan = self.shared.plans.get(job.plan.index()).ok_or(RunError::Unknown)?;
        let table = plan.schedules.get(job.schedule).ok_or(RunError::Unknown)?;
        let slot = self.slot(job.slot)?;
        let number = self.shared.submitted.load(Ordering::Relaxed);
        if number - self.shared.complete.load(Ordering::Acquire) >= self.shared.slots.len() as u64 {
            return Err(RunError::Busy);
        }
        for stream in &slot.streams[..table.streams] {
            stream.store(0, Ordering::Relaxed);
        }
        for (left, &segments) in slot.tenants_left.iter().zip(&table.tenant_segments) {
            left.store(segments, Ordering::Relaxed);
        }
        slot.parts_left.store(table.parts, Ordering::Relaxed);
        self.shared.ring.write(number, job);
        // Publishes the slot, its counters and the ring's entry.
        self.shared.submitted.store(number + 1, Ordering::Release);
        self.shared.bell.ring();
        Ok(())
    }

    fn progress(&self, slot: SlotId) -> Result<&Progress, RunError> {
        Ok(&self.slot(slot)?.progress)
    }

    fn clock(&self) -> Clock {
        self.shared.clock
    }

    fn change(&self) -> u64 {
        self.shared.host_bell.count()
    }

    fn sleep(&self, seen: u64, limit: Duration) {
        self.shared.host_bell.sleep(seen, Some(Instant::now() + limit));
    }

    fn fault(&self) -> Option<Fault> {
        self.shared.fault.get().copied()
    }

    fn abandon(&mut self) {
        self.shared.stop();
    }

    fn threads(&self) -> Vec<String> {
        self.team.as_ref().map_or_else(Vec::new, |t| t.names().to_vec())
    }

    fn trace(&self, visit: &mut dyn FnMut(TraceEvent)) {
        self.shared.trace.read(visit);
    }

    fn close(mut self: Box<Self>, limit: Duration) -> usize {
        self.shut(limit)
    }
}

impl Drop for CpuPrepared {
    fn drop(&mut self) {
        // Dropped without a close: a short time, then leaked.
        self.shut(Duration::from_millis(200));
    }
}
