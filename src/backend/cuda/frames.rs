//! The frame loop on the GPU: a slot is filled, its work launched, its words read. Nothing here takes memory, and nothing
//! waits for the driver.
//!
//! Whether a frame has gone wrong is asked of the driver at a low rate, without waiting, while the host looks for words.
//! After the first fault no function of the driver is called any more (`raw::poison`): memory, streams and graphs are left
//! to the process's end.

mod watch;

use super::clock::DeviceClock;
use super::issue::{Means, Ready};
use super::lanes::Streams;
use super::library::Library;
use super::memory::Account;
use super::pace::Pace;
use super::persistent::Guard;
use super::raw::{Call, Context, DeviceMemory, DriverError, Event, Graph, INVALID_HANDLE, INVALID_VALUE, is_poisoned};
use super::slots::SlotState;
use super::weights::Weights;
use crate::backend::cpu::arena::ImageParams;
use crate::backend::progress::{Clock, DeviceWords, Places, Progress};
use crate::backend::trace::{TraceEvent, TraceRing};
use crate::backend::{DeviceBytes, Job, PrepareOptions, Prepared, SegmentWords, Wait};
use crate::error::{Fault, ImageFault, RunError};
use crate::ids::{CameraId, PlanId, SlotId, TenantId};
use crate::limits::MAX_SLOTS;
use crate::plan::deployment::Deployment;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
            segment_words: options.segment_words != SegmentWords::None,
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
