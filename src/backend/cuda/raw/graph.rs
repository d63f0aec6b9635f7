//! Captured graphs.

use super::device::Context;
use super::driver::{DriverError, Handle};
use super::stream::Stream;
use std::ptr::null_mut;
use std::sync::Arc;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads of the process may do what they like meanwhile.
const THREAD_LOCAL: u32 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`: nodes keep the priority of the stream they were captured on.
const USE_NODE_PRIORITY: u64 = 8;

/// A capture under way: what is put into the stream, and into streams that wait for it, becomes a graph.
pub struct Capture<'a> {
    stream: &'a Stream,
    open: bool,
}

impl<'a> Capture<'a> {
    /// Begins.
    pub fn begin(stream: &'a Stream) -> Result<Capture<'a>, DriverError> {
        // SAFETY: the stream lives.
        unsafe { stream.context().api.stream_begin_capture(stream.raw(), THREAD_LOCAL)? };
        Ok(Capture { stream, open: true })
    }

    /// Ends, and makes the graph ready to be launched.
    pub fn end(mut self) -> Result<Graph, DriverError> {
        self.open = false;
        let context = self.stream.context();
        let (mut template, mut handle) = (null_mut(), null_mut());
        // SAFETY: the pointers are valid for writing; the stream is capturing. The template is destroyed once, after its
        // use.
        unsafe {
            context.api.stream_end_capture(self.stream.raw(), &mut template)?;
            let made = context.api.graph_instantiate(&mut handle, template, USE_NODE_PRIORITY);
            let destroyed = context.api.graph_destroy(template);
            made.and(destroyed)?;
        }
        Ok(Graph {
            context: context.clone(),
            handle: Handle(handle),
        })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.open {
            let context = self.stream.context();
            let mut template = null_mut();
            // SAFETY: given up half-way: the stream is capturing, and what it holds is thrown away.
            unsafe {
                let ended = context.api.stream_end_capture(self.stream.raw(), &mut template);
                if ended.is_ok() && !template.is_null() {
                    let _ = context.api.graph_destroy(template);
                }
            }
        }
    }
}

/// A graph ready to be launched.
pub struct Graph {
    context: Arc<Context>,
    handle: Handle,
}

impl Graph {
    /// Moves it to the device, so that no launch does.
    pub fn upload(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: graph and stream live.
        unsafe { self.context.api.graph_upload(self.handle.0, stream.raw()) }
    }

    /// Launches it.
    pub fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: graph and stream live.
        unsafe { self.context.api.graph_launch(self.handle.0, stream.raw()) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made in `Capture::end`, destroyed once; the driver keeps it until its launches have ended.
        let _ = unsafe { self.context.api.graph_exec_destroy(self.handle.0) };
    }
}
