//! What runs a plan: one trait for all backends, and what passes through it.
//!
//! A [`Backend`] prepares every plan of a deployment once; the [`Prepared`] object then runs frames without taking
//! memory. The runtime above it owns tickets, results and time; a backend owns memory, launches and progress words.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod progress;
pub mod taps;
pub mod trace;

use crate::error::{Fault, ImageFault, RunError};
use crate::ids::{CameraId, OperatorId, PlanId, SegmentId, SlotId, TenantId};
use crate::plan::deployment::Deployment;
use cpu::arena::ImageParams;
use progress::{Clock, Progress};
use std::sync::Arc;
use std::time::Duration;
use trace::TraceEvent;

/// Something that can run plans on this machine.
pub trait Backend {
    /// What the machine offers this backend, or why it cannot run here.
    fn probe(&self) -> Result<Probe, PrepareError>;

    /// Allocates, compiles and packs every plan of the deployment, and touches its memory. Every allocation happens here.
    fn prepare(&self, deployment: &Arc<Deployment>, options: &PrepareOptions) -> Result<Box<dyn Prepared>, PrepareError>;
}

/// What a backend found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Processor or GPU, with its instruction family.
    pub device: String,
    /// Units that run tiles side by side: cores, or SMs.
    pub units: usize,
}

/// How the frame's work reaches the device. Both give the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submission {
    /// The whole frame at once; streams run side by side.
    #[default]
    Frame,
    /// Segment by segment, in stored order.
    Segments,
}

/// How the host waits for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Spins briefly, then sleeps a little at a time, but spins again when the frame should end, by what its schedule took last
    /// time: a result at another time is noticed some tens of microseconds late.
    #[default]
    Block,
    /// Spins until the result is there, which keeps a core busy.
    Spin,
}

/// Where a GPU reads images and tensor inputs and writes results. The bits are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotMemory {
    /// In the host's memory where the GPU shares it, else in its own.
    #[default]
    OfBoard,
    /// In the host's pinned memory, mapped: nothing is copied.
    Mapped,
    /// In its own memory: inputs are copied in and results out, inside the frame.
    Copied,
}

/// GPU: where the progress words of segments are written, and their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentWords {
    /// Beside the segments, which do not wait for them. A launch that leaves no multiprocessor room for another block keeps a word
    /// waiting, and its time is late by as much as one of its blocks takes.
    #[default]
    Beside,
    /// Between the segments, which wait for them: for exact times.
    Between,
    /// Nowhere, to measure what they cost. Faults are then named by tenant only as far as the tenants' words tell.
    None,
}

/// Choices made once, at prepare.
#[derive(Clone, Default)]
pub struct PrepareOptions {
    /// CPU workers, at most 64; `None` for as many as cores are available.
    pub workers: Option<usize>,
    /// Frames in flight.
    pub slots: u16,
    /// How the frame's work is submitted.
    pub submission: Submission,
    /// Entries of the trace ring, 0 for no tracing.
    pub trace: usize,
    /// Faults to inject, at segment borders.
    pub faults: Vec<InjectedFault>,
    /// GPU: confines the work to that many SMs; `None` for all.
    pub sms: Option<u32>,
    /// GPU: how the host waits.
    pub wait: Wait,
    /// GPU: where slots lie.
    pub slot_memory: SlotMemory,
    /// GPU: where the progress words of segments are written.
    pub segment_words: SegmentWords,
    /// GPU: no kernel begins before the one in front of it has ended, to measure what that brings. Bits are the same.
    pub no_early_launches: bool,
    /// Called by each worker with its index as the first thing it does: pinning, scheduling class.
    pub on_worker: Option<Arc<dyn Fn(usize) + Send + Sync>>,
}

/// A fault for tests of the runtime and of vehicles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// In which frame.
    pub frame: u64,
    /// Where in the frame.
    pub at: FaultPlace,
    /// What happens.
    pub kind: FaultKind,
}

/// Where a fault is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPlace {
    /// At the start of this segment.
    Segment(SegmentId),
    /// At the start of this tenant's first segment.
    Tenant(TenantId),
}

/// What an injected fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The segment starts its work this much later.
    Delay(Duration),
    /// The segment never goes on.
    Hang,
    /// The device reports this code.
    Fail(u32),
}

/// An image or a tensor in the memory of the device. Whoever makes one answers for what it names: made by `cuda::device_bytes`, or
/// by the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Address of the first.
    pub(crate) address: u64,
    /// How many there are.
    pub(crate) bytes: u64,
    /// The device's event that they are complete after, as its driver's handle; 0 where they are complete.
    pub(crate) event: usize,
}

/// One frame to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The frame's number; each submitted frame has a larger one.
    pub frame: u64,
    /// The slot that holds its inputs and takes its outputs.
    pub slot: SlotId,
    /// The plan.
    pub plan: PlanId,
    /// Index into the plan's cycle.
    pub schedule: usize,
    /// Bit set of tenants whose inputs are missing: they pass through their segments without computing; what a backend
    /// leaves in their outputs is undefined.
    pub skip: u32,
    /// Bit set of tenants whose tensor inputs [`Prepared::send_input`] has brought to the slot.
    pub sent: u32,
}

/// All plans of a deployment, ready to run. Calls come from one host thread.
///
/// Frames run one after another in the order they were submitted. The host may touch a slot's images, inputs and
/// parameters before it submits the slot, and read a tenant's outputs once its done word is set.
pub trait Prepared: Send {
    /// The slot's bytes for a camera's image.
    fn image(&self, slot: SlotId, camera: CameraId) -> Result<&[u8], RunError>;

    /// The slot's bytes for a camera's image, for writing. The slot must not be in flight.
    fn image_mut(&mut self, slot: SlotId, camera: CameraId) -> Result<&mut [u8], RunError>;

    /// Copies a camera's image and its parameters from one slot, in flight or not, to another that is not.
    fn copy_image(&mut self, camera: CameraId, from: SlotId, to: SlotId) -> Result<(), RunError>;

    /// The slot's parameters of a camera.
    fn params(&self, slot: SlotId, camera: CameraId) -> Result<ImageParams, RunError>;

    /// Sets the slot's parameters of a camera. The slot must not be in flight.
    fn set_params(&mut self, slot: SlotId, camera: CameraId, params: ImageParams) -> Result<(), RunError>;

    /// Gives the slot a camera's image that lies in the device's memory; [`Prepared::set_params`] has said what it is. It is read
    /// when the slot's frame begins, after its event, and must stay until the frame has ended. The slot must not be in flight.
    /// [`RunError::Image`] where the device has not that many bytes there, or the backend reads images from the host alone.
    fn set_device_image(&mut self, _slot: SlotId, camera: CameraId, _image: DeviceBytes) -> Result<(), RunError> {
        Err(RunError::Image(camera, ImageFault::Device))
    }

    /// True if the camera's image in the slot is in the device's memory, and not in what [`Prepared::image`] gives.
    fn is_on_device(&self, _slot: SlotId, _camera: CameraId) -> bool {
        false
    }

    /// Gives the slot `to` the image that was in the device's memory of slot `from` when [`Prepared::is_on_device`] said so,
    /// with its parameters, whatever was set there since; no frame has run in `from` meanwhile.
    fn copy_on_device(&mut self, camera: CameraId, _from: SlotId, _to: SlotId, _params: ImageParams) -> Result<(), RunError> {
        Err(RunError::Image(camera, ImageFault::Device))
    }

    /// `bytes` bytes of the slot's tensor inputs from byte `offset`, for writing. The slot must not be in flight.
    fn input_mut(&mut self, slot: SlotId, offset: usize, bytes: usize) -> Result<&mut [u8], RunError>;

    /// True if the device has such bytes, for [`Prepared::send_input`].
    fn is_in_device(&self, _bytes: DeviceBytes) -> Result<bool, RunError> {
        Ok(false)
    }

    /// Brings the slot's tensor input of `bytes` bytes from byte `offset` to where the device reads it: from bytes in the device's
    /// memory, after their event, or `None` from where the host has written it. For all inputs of a tenant, just before a
    /// [`Prepared::submit`] that says so in [`Job::sent`]. False, and nothing has happened, where the event is none that can be waited for.
    fn send_input(&mut self, _slot: SlotId, _offset: usize, _bytes: usize, _from: Option<DeviceBytes>) -> Result<bool, RunError> {
        Ok(false)
    }

    /// `bytes` bytes of the slot's results from byte `offset`. The tenant they belong to must be done.
    fn output(&self, slot: SlotId, offset: usize, bytes: usize) -> Result<&[u8], RunError>;

    /// Address in the device's memory of the same bytes, for tenants that ran in the slot's frame; `None` where results are in the
    /// host's memory alone.
    fn device_output(&self, _slot: SlotId, _offset: usize, _bytes: usize) -> Option<u64> {
        None
    }

    /// [`Prepared::output`] for writing; for results of tenants that do not run in the slot's frame.
    fn output_mut(&mut self, slot: SlotId, offset: usize, bytes: usize) -> Result<&mut [u8], RunError>;

    /// Zeroes a plan's persistent region. No frame may be in flight.
    fn reset(&mut self, plan: PlanId) -> Result<(), RunError>;

    /// Issues a frame. Takes no memory, waits for nothing. [`RunError::Image`] where an image's event is none that can be
    /// waited for; then nothing was issued.
    fn submit(&mut self, job: &Job) -> Result<(), RunError>;

    /// The slot's progress words.
    fn progress(&self, slot: SlotId) -> Result<&Progress, RunError>;

    /// The clock of progress words and traces.
    fn clock(&self) -> Clock;

    /// A number that changes whenever a done word or a fault was written: read it before reading the words.
    fn change(&self) -> u64;

    /// Sleeps until [`Prepared::change`] differs from `seen`, or `limit` has passed; may wake early.
    fn sleep(&self, seen: u64, limit: Duration);

    /// The first fault, if there was one.
    fn fault(&self) -> Option<Fault>;

    /// Gives up: no call but `progress`, `output` and `close` is made any more.
    fn abandon(&mut self);

    /// The threads that serve this object.
    fn threads(&self) -> Vec<String>;

    /// Memory that was taken on the device and for it: what it is for, and bytes.
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Gives `visit` the recorded trace, oldest first.
    fn trace(&self, visit: &mut dyn FnMut(TraceEvent));

    /// Stops and frees everything; what has not stopped after `limit`, or must not be touched after a fault, is leaked.
    /// Returns how many threads, or devices, were leaked.
    fn close(self: Box<Self>, limit: Duration) -> usize;
}

/// Why a deployment cannot be prepared on this machine.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The backend is not there.
    #[error("the backend cannot run here: {0}")]
    Absent(String),
    /// The system has not that much memory.
    #[error("{bytes} bytes for the {what} are not to be had: use fewer slots or a smaller task set")]
    Memory {
        /// What they are for.
        what: &'static str,
        /// How many.
        bytes: u64,
    },
    /// An operator has no kernel.
    #[error("operator {operator} ({name}) of task set {task_set} has no kernel here: {reason}")]
    Kernel {
        /// The plan's task set.
        task_set: String,
        /// The operator.
        operator: OperatorId,
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The number of slots is 0 or above the limit.
    #[error("{0} slots: give 1 to {max}", max = crate::limits::MAX_SLOTS)]
    Slots(u16),
    /// The GPU or its driver.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] cuda::CudaError),
    /// A worker thread did not start.
    #[error("a worker thread did not start")]
    Thread(#[source] std::io::Error),
}
