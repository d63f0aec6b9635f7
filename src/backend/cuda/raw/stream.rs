//! Streams and events.

use super::device::Context;
use super::driver::{DriverError, Handle, NOT_READY, Pointer};
use super::green::GreenContext;
use crate::backend::DeviceBytes;
use crate::backend::cuda::bind::Area;
use std::ptr::null_mut;
use std::sync::Arc;

/// `CU_STREAM_NON_BLOCKING`: no ties to the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

/// An in-order queue of the device.
pub struct Stream {
    context: Arc<Context>,
    handle: Handle,
    /// Holds the green context that the stream is confined to.
    _green: Option<Arc<GreenContext>>,
}

impl Stream {
    /// A stream of the given priority, on the SMs of `green` or on all.
    pub fn new(context: &Arc<Context>, green: Option<&Arc<GreenContext>>, priority: i32) -> Result<Stream, DriverError> {
        let mut handle = null_mut();
        // SAFETY: the pointer is valid for writing, and the green context lives as long as the stream.
        unsafe {
            match green {
                None => context.api.stream_create(&mut handle, NON_BLOCKING, priority)?,
                Some(green) => context
                    .api
                    .green_ctx_stream_create(&mut handle, green.raw(), NON_BLOCKING, priority)?,
            }
        }
        Ok(Stream {
            context: context.clone(),
            handle: Handle(handle),
            _green: green.cloned(),
        })
    }

    /// True if everything in it has ended. An error is the first of the work's own, or of any work of the context before.
    pub fn is_idle(&self) -> Result<bool, DriverError> {
        // SAFETY: the stream lives.
        match unsafe { self.context.api.stream_query(self.handle.0) } {
            Ok(()) => Ok(true),
            Err(DriverError { code: NOT_READY, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What comes after waits for what the event marks.
    pub fn wait(&self, event: &Event) -> Result<(), DriverError> {
        // SAFETY: stream and event live.
        unsafe { self.context.api.stream_wait_event(self.handle.0, event.handle.0, 0) }
    }

    /// What comes after waits for what an event of somebody else marks, by its handle; 0 is none. Who made the
    /// [`crate::backend::DeviceBytes`] that it comes from has answered for its being an event.
    pub(in crate::backend::cuda) fn wait_foreign(&self, event: usize) -> Result<(), DriverError> {
        if event == 0 {
            return Ok(());
        }
        // SAFETY: the stream lives, and the handle is an event's, see above. The driver takes events of any context.
        unsafe { self.context.api.stream_wait_event(self.handle.0, event as Pointer, 0) }
    }

    /// Copies from memory that the device can address to `target`, which is the backend's own, in the stream's order.
    pub(in crate::backend::cuda) fn copy(&self, target: Area, from: u64) -> Result<(), DriverError> {
        if target.bytes == 0 {
            return Ok(());
        }
        // SAFETY: no memory of the host's that is anything but plain bytes is reached: the target is the backend's, and the
        // device reads what it may read, or reports a fault.
        unsafe {
            self.context
                .api
                .memcpy_async(target.address, from, target.bytes as usize, self.raw())
        }
    }

    pub(super) fn raw(&self) -> Pointer {
        self.handle.0
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once; the driver keeps it until its work has ended.
        let _ = unsafe { self.context.api.stream_destroy(self.handle.0) };
    }
}

/// A place in a stream.
pub struct Event {
    context: Arc<Context>,
    handle: Handle,
}

impl Event {
    /// An event without a time.
    pub fn new(context: &Arc<Context>) -> Result<Event, DriverError> {
        let mut handle = null_mut();
        // SAFETY: the pointer is valid for writing.
        unsafe { context.api.event_create(&mut handle, NO_TIMING)? };
        Ok(Event {
            context: context.clone(),
            handle: Handle(handle),
        })
    }

    /// The event for [`device_bytes`].
    pub fn handle(&self) -> usize {
        self.handle.0 as usize
    }

    /// Marks what the stream holds now.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: stream and event live.
        unsafe { self.context.api.event_record(self.handle.0, stream.raw()) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once; the driver keeps it until it is reached.
        let _ = unsafe { self.context.api.event_destroy(self.handle.0) };
    }
}

/// `bytes` bytes at an address of the GPU's memory, complete after `event`, a `CUevent` or `cudaEvent_t` of the same
/// GPU; 0 if they are complete.
///
/// # Safety
/// The event is one, and lives until the frame that they are given to was submitted.
pub unsafe fn device_bytes(address: u64, bytes: u64, event: usize) -> DeviceBytes {
    DeviceBytes { address, bytes, event }
}
