//! The frame loop on the GPU: a slot is filled, its work launched, its words read. Nothing here takes memory, and nothing
//! waits for the driver.
//!
//! Whether a frame has gone wrong is asked of the driver at a low rate, without waiting, while the host looks for words.
//! After the first fault no function of the driver is called any more (`raw::poison`): memory, streams and graphs are left
//! to the process's end.

use super::clock::DeviceClock;
use super::issue::{Means, Ready};
use super::lanes::Streams;
use super::library::Library;
use super::memory::Account;
use super::pace::Pace;
use super::persistent::Guard;
use super::raw::{Call, Context, DeviceMemory, DriverError, Event, Graph, INVALID_HANDLE, INVALID_VALUE, is_poisoned, poison};
use super::slots::SlotState;
use super::weights::Weights;
use crate::backend::cpu::arena::ImageParams;
use crate::backend::progress::{Clock, DeviceWords, Places, Progress};
use crate::backend::trace::{TraceEvent, TraceRing};
use crate::backend::{DeviceBytes, Job, PrepareOptions, Prepared, Wait};
use crate::error::{Fault, ImageFault, RunError};
use crate::ids::{CameraId, PlanId, SegmentId, SlotId, TenantId};
use crate::limits::MAX_SLOTS;
use crate::plan::deployment::Deployment;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often the driver is asked, at most, whether something has gone wrong; and how long a frame is under way before that,
/// as the question takes the driver's locks and the host's time just when it should notice the end.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// How long a blocking wait spins before it sleeps.
const SPIN: Duration = Duration::from_micros(100);
/// How long it then sleeps at a time.
const NAP: Duration = Duration::from_micros(50);
/// How long dropping without a close waits for frames in flight.
const DROP_LIMIT: Duration = Duration::from_millis(200);

/// A frame schedule of one slot, ready to go.
pub enum Work {
    /// One graph.
    Graph(Graph),
    /// Command by command.
    Live(Ready),
}

/// A plan, prepared.
pub struct PlanState {
    /// By frame schedule and slot.
    pub works: Vec<Vec<Work>>,
    /// What survives frames.
    pub persistent: DeviceMemory,
    /// What keeps it where a tenant has no input.
    pub guard: Guard,
}

/// Everything that prepare made.
pub struct Parts {
    pub(super) plans: Vec<PlanState>,
    pub(super) slots: Vec<SlotState>,
    pub(super) streams: Streams,
    pub(super) events: Vec<Event>,
    pub(super) library: Library,
    pub(super) clock: Arc<DeviceClock>,
    pub(super) account: Account,
    /// Held for the programs, which know its addresses.
    pub(super) _weights: Weights,
    pub(super) arena: DeviceMemory,
    pub(super) workspace: DeviceMemory,
}

/// All plans of a deployment on a GPU.
pub struct CudaPrepared {
    pub(super) context: Arc<Context>,
    pub(super) deployment: Arc<Deployment>,
    pub(super) parts: Parts,
    wait: Wait,
    segment_words: bool,
    /// Frames in flight, oldest first.
    flight: RefCell<heapless::Deque<Job, MAX_SLOTS>>,
    pace: Pace,
    fault: Cell<Option<Fault>>,
    /// When the driver was last asked, on the host's clock.
    asked: Cell<u64>,
    trace: TraceRing,
}

impl CudaPrepared {
    pub(super) fn new(context: Arc<Context>, deployment: Arc<Deployment>, options: &PrepareOptions, parts: Parts) -> CudaPrepared {
        CudaPrepared {
            pace: Pace::new(parts.plans.iter().map(|p| p.works.len())),
            context,
            deployment,
            parts,
            wait: options.wait,
            segment_words: !options.no_segment_words,
            flight: RefCell::new(heapless::Deque::new()),
            fault: Cell::new(None),
            asked: Cell::new(0),
            trace: TraceRing::new(options.trace),
        }
    }

    fn slot(&self, slot: SlotId) -> Result<&SlotState, RunError> {
        self.parts.slots.get(slot.index()).ok_or(RunError::Slot(slot))
    }

    fn slot_mut(&mut self, slot: SlotId) -> Result<&mut SlotState, RunError> {
        self.parts.slots.get_mut(slot.index()).ok_or(RunError::Slot(slot))
    }

    /// Has the images that were given in the device's memory brought to the slot.
    fn take_images(&mut self, job: &Job) -> Result<(), RunError> {
        let root = self.parts.streams.root();
        let slot = &mut self.parts.slots[job.slot.index()];
        if !slot.has_given() {
            return Ok(());
        }
        let entered = self.context.enter().map_err(|error| (None, error));
        let taken = entered.and_then(|()| slot.take_images(root).map_err(|(camera, error)| (Some(camera), error)));
        taken.map_err(|(camera, error)| match camera.and_then(CameraId::from_index) {
            Some(camera) if is_no_event(&error) => RunError::Image(camera, ImageFault::Device),
            _ => RunError::Faulted(self.fail(error, Some(job))),
        })
    }

    /// Puts the slot's block in place and issues a frame's work.
    pub(super) fn launch(&mut self, job: &Job) -> Result<(), DriverError> {
        let parts = &mut self.parts;
        let slot = &mut parts.slots[job.slot.index()];
        slot.publish(job.frame, job.skip, job.sent);
        slot.words.submit();
        self.context.enter()?;
        let (slot, plan, root) = (&*slot, &parts.plans[job.plan.index()], parts.streams.root());
        plan.guard.save(job.skip, &plan.persistent, root)?;
        match &plan.works[job.schedule][job.slot.index()] {
            Work::Graph(graph) => graph.launch(root)?,
            Work::Live(ready) => {
                let means = Means {
                    streams: &parts.streams,
                    events: &parts.events,
                    library: &parts.library,
                };
                means.issue(job.plan.index(), ready, slot).map_err(|(_, error)| error)?;
            }
        }
        plan.guard.restore(job.skip, &plan.persistent, root)
    }

    /// Forgets frames that have ended, in order, and notes their segments in the trace. A slot's words are of its latest
    /// frame, so this comes before the slot is submitted again.
    fn retire(&self) {
        let mut flight = self.flight.borrow_mut();
        while let Some(job) = flight.front() {
            let slot = &self.parts.slots[job.slot.index()];
            let Some(end) = slot.progress.frame_finish(job.frame) else {
                return;
            };
            self.pace.note(job.plan, job.schedule, slot.words.submitted(), end);
            if self.trace.is_on() && self.segment_words {
                let segments = &self.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
                for (index, segment) in segments.iter().enumerate() {
                    let id = SegmentId(index as u32);
                    let (start, end) = slot.words.times(id);
                    self.trace.record(TraceEvent {
                        frame: job.frame,
                        plan: job.plan,
                        segment: id,
                        start,
                        end,
                        worker: u32::from(segment.stream.0),
                    });
                }
            }
            flight.pop_front();
        }
    }

    /// True if the oldest frame in flight should end about now.
    fn is_due(&self) -> bool {
        let due = |job: &Job| {
            let submitted = self.parts.slots[job.slot.index()].words.submitted();
            self.pace.is_due(job.plan, job.schedule, submitted, self.parts.clock.host().now())
        };
        self.flight.borrow().front().is_some_and(due)
    }

    /// Asks the driver, at most every few milliseconds, whether the work in flight has gone wrong. Frames that end before
    /// are never asked about.
    fn ask(&self) {
        if self.fault.get().is_some() || is_poisoned() || !self.is_doubtful() {
            return;
        }
        self.retire();
        if !self.is_doubtful() {
            return;
        }
        self.asked.set(self.parts.clock.host().now());
        if let Err(error) = self.context.enter().and_then(|()| self.parts.streams.root().is_idle()) {
            self.fail(error, None);
        }
    }

    /// True if the oldest frame that is not known to have ended was submitted, and asked about, long ago.
    fn is_doubtful(&self) -> bool {
        let oldest = self
            .flight
            .borrow()
            .front()
            .map(|job| self.parts.slots[job.slot.index()].words.submitted());
        let long_ago = |since: u64| self.parts.clock.host().now().saturating_sub(since) >= ASK_EVERY.as_nanos() as u64;
        oldest.is_some_and(|submitted| long_ago(submitted.max(self.asked.get())))
    }

    /// Keeps the first fault: of the oldest frame in flight, or of `job`, which did not get that far. Nothing is called
    /// any more.
    fn fail(&self, error: DriverError, job: Option<&Job>) -> Fault {
        poison();
        if let Some(fault) = self.fault.get() {
            return fault;
        }
        let oldest = self.flight.borrow().front().copied().or(job.copied());
        let (segment, tenant, frame, suspects) = match oldest {
            Some(job) => {
                let segment = self.suspect(&job);
                let segments = &self.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
                let tenant = segments.get(segment.index()).map_or(TenantId(0), |s| s.tenant);
                (segment, tenant, job.frame, self.suspects(&job))
            }
            None => (SegmentId(0), TenantId(0), 0, 1),
        };
        let fault = Fault::Device {
            tenant,
            segment,
            frame,
            code: error.code,
            suspects,
        };
        self.fault.set(Some(fault));
        fault
    }

    /// The segment to blame for what a frame did not finish.
    fn suspect(&self, job: &Job) -> SegmentId {
        let progress = &self.parts.slots[job.slot.index()].progress;
        let segments = &self.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
        if self.segment_words {
            return progress.stuck_segment(segments.len(), job.frame).unwrap_or(SegmentId(0));
        }
        let open = |tenant| progress.tenant_finish(tenant, job.frame).is_none();
        let first = segments.iter().position(|s| open(s.tenant));
        first.and_then(SegmentId::from_index).unwrap_or(SegmentId(0))
    }

    /// How many segments may be to blame.
    fn suspects(&self, job: &Job) -> u16 {
        let progress = &self.parts.slots[job.slot.index()].progress;
        let segments = &self.deployment.plans[job.plan.index()].cycle[job.schedule].segments;
        let count = if self.segment_words {
            progress.running_segments(segments.len(), job.frame)
        } else {
            segments
                .iter()
                .filter(|s| progress.tenant_finish(s.tenant, job.frame).is_none())
                .count()
        };
        u16::try_from(count.max(1)).unwrap_or(u16::MAX)
    }

    /// Waits until the device has come to rest; false if it does not, or must not be asked.
    fn rest(&self, limit: Duration) -> bool {
        let limit = Instant::now().checked_add(limit);
        loop {
            self.ask();
            self.retire();
            if self.fault.get().is_some() || is_poisoned() {
                return false;
            }
            if self.flight.borrow().is_empty() {
                match self.parts.streams.are_idle() {
                    Ok(true) => return true,
                    Ok(false) => {}
                    Err(_) => return false,
                }
            }
            if limit.is_none_or(|l| Instant::now() >= l) {
                return false;
            }
            std::thread::sleep(NAP);
        }
    }

    /// Comes to rest, or gives everything up.
    fn shut(&self, limit: Duration) -> bool {
        let rested = self.context.enter().is_ok() && self.rest(limit);
        if !rested {
            self.give_up();
        }
        rested
    }

    fn give_up(&self) {
        poison();
        // Injected hangs end, so that the process can.
        self.parts.slots.iter().for_each(|s| s.words.release());
    }
}

impl Prepared for CudaPrepared {
    fn image(&self, slot: SlotId, camera: CameraId) -> Result<&[u8], RunError> {
        Ok(self.slot(slot)?.images.get(camera.index()).ok_or(RunError::Unknown)?.bytes())
    }

    fn image_mut(&mut self, slot: SlotId, camera: CameraId) -> Result<&mut [u8], RunError> {
        let images = &mut self.slot_mut(slot)?.images;
        Ok(images.get_mut(camera.index()).ok_or(RunError::Unknown)?.bytes_mut())
    }

    fn copy_image(&mut self, camera: CameraId, from: SlotId, to: SlotId) -> Result<(), RunError> {
        if from == to {
            return Ok(());
        }
        self.slot(from)?;
        let slots = self.parts.slots.get_disjoint_mut([from.index(), to.index()]);
        let [from, to] = slots.map_err(|_| RunError::Slot(to))?;
        if from.images.get(camera.index()).is_some() && from.has_on_device(camera.index()) {
            let (area, params) = (from.areas.images[camera.index()], from.params(camera.index()));
            to.give_that_of(camera.index(), area, params);
            return Ok(());
        }
        let source = from.images.get(camera.index()).ok_or(RunError::Unknown)?.bytes();
        let target = to.images.get_mut(camera.index()).ok_or(RunError::Unknown)?.bytes_mut();
        let image = from.params(camera.index());
        let bytes = image.format.and_then(|f| f.image_bytes(image.width, image.height, image.stride));
        let bytes = usize::try_from(bytes.unwrap_or(0)).unwrap_or(usize::MAX).min(target.len());
        target[..bytes].copy_from_slice(&source[..bytes]);
        to.set_params(camera.index(), image);
        Ok(())
    }

    fn params(&self, slot: SlotId, camera: CameraId) -> Result<ImageParams, RunError> {
        let slot = self.slot(slot)?;
        slot.images.get(camera.index()).ok_or(RunError::Unknown)?;
        Ok(slot.params(camera.index()))
    }

    fn set_params(&mut self, slot: SlotId, camera: CameraId, params: ImageParams) -> Result<(), RunError> {
        let slot = self.slot_mut(slot)?;
        slot.images.get(camera.index()).ok_or(RunError::Unknown)?;
        slot.set_params(camera.index(), params);
        Ok(())
    }

    fn set_device_image(&mut self, slot: SlotId, camera: CameraId, image: DeviceBytes) -> Result<(), RunError> {
        let state = self.slot(slot)?;
        let area = state.areas.images.get(camera.index()).ok_or(RunError::Unknown)?;
        let params = state.params(camera.index());
        let needed = params
            .format
            .and_then(|f| f.image_bytes(params.width, params.height, params.stride));
        let refused = |fault| RunError::Image(camera, fault);
        let needed = needed.ok_or(refused(ImageFault::Empty))?;
        let found = image.bytes.min(area.bytes);
        if needed > found {
            return Err(refused(ImageFault::Bytes { found, needed }));
        }
        let image = DeviceBytes { bytes: needed, ..image };
        if !self.is_in_device(image)? {
            return Err(refused(ImageFault::Device));
        }
        self.slot_mut(slot)?.give(camera.index(), image);
        Ok(())
    }

    fn is_on_device(&self, slot: SlotId, camera: CameraId) -> bool {
        self.slot(slot)
            .is_ok_and(|s| camera.index() < s.images.len() && s.hides(camera.index()))
    }

    fn copy_on_device(&mut self, camera: CameraId, from: SlotId, to: SlotId, params: ImageParams) -> Result<(), RunError> {
        let area = *self.slot(from)?.areas.images.get(camera.index()).ok_or(RunError::Unknown)?;
        self.slot_mut(to)?.give_that_of(camera.index(), area, params);
        Ok(())
    }

    fn input_mut(&mut self, slot: SlotId, offset: usize, bytes: usize) -> Result<&mut [u8], RunError> {
        part_mut(self.slot_mut(slot)?.input.bytes_mut(), offset, bytes)
    }

    fn is_in_device(&self, bytes: DeviceBytes) -> Result<bool, RunError> {
        let owned = self.context.enter().and_then(|()| self.context.owns(bytes.address, bytes.bytes));
        owned.map_err(|error| RunError::Faulted(self.fail(error, None)))
    }

    fn send_input(&mut self, slot: SlotId, offset: usize, bytes: usize, from: Option<DeviceBytes>) -> Result<bool, RunError> {
        let (root, state) = (self.parts.streams.root(), self.slot(slot)?);
        let entered = self.context.enter();
        match entered.and_then(|()| state.take_input(offset as u64, bytes as u64, from, root)) {
            Ok(()) => Ok(true),
            Err(error) if from.is_some() && is_no_event(&error) => Ok(false),
            Err(error) => Err(RunError::Faulted(self.fail(error, None))),
        }
    }

    fn output(&self, slot: SlotId, offset: usize, bytes: usize) -> Result<&[u8], RunError> {
        let end = offset.checked_add(bytes).ok_or(RunError::Unknown)?;
        self.slot(slot)?.output.bytes().get(offset..end).ok_or(RunError::Unknown)
    }

    fn device_output(&self, slot: SlotId, offset: usize, bytes: usize) -> Option<u64> {
        let area = self.slot(slot).ok()?.areas.output;
        Some(area.part(offset as u64, bytes as u64)?.address)
    }

    fn output_mut(&mut self, slot: SlotId, offset: usize, bytes: usize) -> Result<&mut [u8], RunError> {
        part_mut(self.slot_mut(slot)?.output.bytes_mut(), offset, bytes)
    }

    fn reset(&mut self, plan: PlanId) -> Result<(), RunError> {
        self.retire();
        if let Some(fault) = self.fault.get() {
            return Err(RunError::Faulted(fault));
        }
        if !self.flight.borrow().is_empty() {
            return Err(RunError::State);
        }
        let persistent = &self.parts.plans.get(plan.index()).ok_or(RunError::Unknown)?.persistent;
        let cleared = self.context.enter().and_then(|()| persistent.clear(self.parts.streams.root()));
        cleared.map_err(|error| RunError::Faulted(self.fail(error, None)))
    }

    fn submit(&mut self, job: &Job) -> Result<(), RunError> {
        if let Some(fault) = self.fault.get() {
            return Err(RunError::Faulted(fault));
        }
        if is_poisoned() {
            return Err(RunError::State);
        }
        self.slot(job.slot)?;
        let plan = self.parts.plans.get(job.plan.index()).ok_or(RunError::Unknown)?;
        plan.works.get(job.schedule).ok_or(RunError::Unknown)?;
        self.retire();
        if self.flight.borrow().len() >= self.parts.slots.len() {
            return Err(RunError::Busy);
        }
        self.take_images(job)?;
        self.launch(job).map_err(|error| RunError::Faulted(self.fail(error, Some(job))))?;
        // There is room: there are at most MAX_SLOTS slots, and fewer frames than slots are in flight.
        let _ = self.flight.borrow_mut().push_back(*job);
        Ok(())
    }

    fn progress(&self, slot: SlotId) -> Result<&Progress, RunError> {
        Ok(&self.slot(slot)?.progress)
    }

    fn clock(&self) -> Clock {
        self.parts.clock.host()
    }

    fn change(&self) -> u64 {
        let done = |slot: &SlotState| {
            let (words, places) = (slot.words.words(), slot.words.layout().places);
            let tenants = (0..self.tenants()).map(|t| places.tenant(TenantId(t as u16)));
            let places = std::iter::once(Places::FRAME).chain(tenants);
            places.fold(0u64, |sum, p| sum.wrapping_add(words[p].load(Ordering::Acquire)))
        };
        let faults = u64::from(self.fault.get().is_some());
        self.parts.slots.iter().fold(faults, |sum, slot| sum.wrapping_add(done(slot)))
    }

    fn sleep(&self, seen: u64, limit: Duration) {
        let began = Instant::now();
        loop {
            self.ask();
            if self.change() != seen {
                return;
            }
            let waited = began.elapsed();
            if waited >= limit {
                return;
            }
            if self.wait == Wait::Spin || waited < SPIN || self.is_due() {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(NAP.min(limit - waited));
            }
        }
    }

    fn fault(&self) -> Option<Fault> {
        self.ask();
        self.fault.get()
    }

    fn abandon(&mut self) {
        self.give_up();
    }

    fn threads(&self) -> Vec<String> {
        Vec::new()
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        self.parts.account.entries().to_vec()
    }

    fn trace(&self, visit: &mut dyn FnMut(TraceEvent)) {
        self.retire();
        self.trace.read(visit);
    }

    fn close(self: Box<Self>, limit: Duration) -> usize {
        usize::from(!self.shut(limit))
    }
}

impl CudaPrepared {
    /// Most tenants of any plan.
    fn tenants(&self) -> usize {
        self.deployment.plans.iter().map(|p| p.tenants.len()).max().unwrap_or(0)
    }
}

impl Drop for CudaPrepared {
    fn drop(&mut self) {
        // After a close the device is at rest, or given up: this is over at once.
        if !is_poisoned() {
            self.shut(DROP_LIMIT);
        }
    }
}

/// True if the driver refused to wait for what the caller calls an event: it is none, or one that cannot be waited for now. Nothing
/// else has come of it.
fn is_no_event(error: &DriverError) -> bool {
    error.call == Call::StreamWaitEvent && matches!(error.code, INVALID_VALUE | INVALID_HANDLE | 900..=908)
}

fn part_mut(bytes: &mut [u8], offset: usize, count: usize) -> Result<&mut [u8], RunError> {
    let end = offset.checked_add(count).ok_or(RunError::Unknown)?;
    bytes.get_mut(offset..end).ok_or(RunError::Unknown)
}
