//! Streams and events.

use super::device::Context;
use super::driver::{DriverError, Handle, NOT_READY, Pointer};
use super::green::GreenContext;
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
