//! Device memory, which the host never sees, and pinned memory, which both see.
//!
//! # Why the host's view of pinned memory is sound
//! Its bytes are either plain or atomic words; every value of them is valid. Words are only ever touched as atomics. Of
//! plain bytes, the frame loop hands out references as its contract says: a slot's inputs while the slot is not in
//! flight, a tenant's results once its done word is set, when the device no longer writes them. A caller that breaks
//! the contract reads bytes in flux, and nothing else: no value of any type is built from them here.

use super::device::Context;
use super::driver::{DriverError, Handle};
use super::stream::Stream;
use crate::backend::cuda::bind::Area;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
const PORTABLE_MAPPED: u32 = 1 | 2;

/// Device memory, given back on drop.
pub struct DeviceMemory {
    context: Arc<Context>,
    address: u64,
    bytes: u64,
}

impl DeviceMemory {
    /// `bytes` bytes, not initialised; none at all for 0.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<DeviceMemory, DriverError> {
        let mut address = 0;
        if bytes > 0 {
            let length = usize::try_from(bytes).unwrap_or(usize::MAX);
            // SAFETY: the pointer is valid for writing.
            unsafe { context.api.mem_alloc(&mut address, length)? };
        }
        Ok(DeviceMemory {
            context: context.clone(),
            address,
            bytes,
        })
    }

    /// Where it lies.
    pub fn area(&self) -> Area {
        Area {
            address: self.address,
            bytes: self.bytes,
        }
    }

    /// Copies bytes of ordinary memory into it from byte `offset`, in the stream's order. Bytes that do not fit are left out.
    pub fn write(&self, offset: u64, bytes: &[u8], stream: &Stream) -> Result<(), DriverError> {
        let Some(part) = self.area().part(offset, bytes.len() as u64).filter(|p| p.bytes > 0) else {
            return Ok(());
        };
        // SAFETY: the target lies in this allocation by the check above. The driver has taken the bytes of memory that is
        // not pinned when the call returns, so the slice need not outlive it.
        unsafe {
            let source = bytes.as_ptr().cast();
            self.context.api.memcpy_htod_async(part.address, source, bytes.len(), stream.raw())
        }
    }

    /// Zeroes it in the stream's order.
    pub fn clear(&self, stream: &Stream) -> Result<(), DriverError> {
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the whole of this allocation.
        unsafe { self.context.api.memset_async(self.address, 0, self.bytes as usize, stream.raw()) }
    }

    /// Copies `bytes` bytes from byte `offset` to the same place of `target`, in the stream's order. What does not lie in
    /// both is left out.
    pub fn copy_to(&self, target: &DeviceMemory, offset: u64, bytes: u64, stream: &Stream) -> Result<(), DriverError> {
        let (Some(from), Some(to)) = (self.area().part(offset, bytes), target.area().part(offset, bytes)) else {
            return Ok(());
        };
        // SAFETY: both parts lie in their allocations.
        unsafe {
            self.context
                .api
                .memcpy_dtod_async(to.address, from.address, bytes as usize, stream.raw())
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated in `new`, given back once; the frame loop closes only when the device has come to rest,
            // and poisons otherwise, which turns this into nothing.
            let _ = unsafe { self.context.api.mem_free(self.address) };
        }
    }
}

/// Pinned memory that the device can address, zeroed, given back on drop.
pub struct Pinned {
    context: Arc<Context>,
    pointer: Handle,
    address: u64,
    bytes: usize,
}

impl Pinned {
    /// `bytes` zeros, aligned to a page; at least one byte is taken.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Pinned, DriverError> {
        let length = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        let (mut pointer, mut address) = (null_mut(), 0);
        // SAFETY: the pointer is valid for writing.
        unsafe { context.api.mem_host_alloc(&mut pointer, length, PORTABLE_MAPPED)? };
        let mut pinned = Pinned {
            context: context.clone(),
            pointer: Handle(pointer),
            address: 0,
            bytes: bytes as usize,
        };
        // SAFETY: `length` bytes were allocated at `pointer`, and nobody else knows them yet.
        unsafe { pointer.cast::<u8>().write_bytes(0, length) };
        // SAFETY: the memory was allocated as mapped, and the pointer is valid for writing.
        unsafe { context.api.mem_host_get_device_pointer(&mut address, pointer, 0)? };
        pinned.address = address;
        Ok(pinned)
    }

    /// Where the device sees it.
    pub fn area(&self) -> Area {
        Area {
            address: self.address,
            bytes: self.bytes as u64,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `bytes` bytes are allocated, initialised in `new`, and live as long as `self`; see the module for what
        // the device does to them meanwhile.
        unsafe { std::slice::from_raw_parts(self.pointer.0.cast(), self.bytes) }
    }

    /// The bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.0.cast(), self.bytes) }
    }

    /// The first `count` words, to be read and written as the device writes them. Panics if it is not that long.
    pub fn words(&self, count: usize) -> &[AtomicU64] {
        assert!(count <= self.bytes / size_of::<AtomicU64>(), "more words than there are");
        // SAFETY: that many words are allocated, aligned to a page, initialised, and live as long as `self`. Device and
        // host touch single aligned words.
        unsafe { std::slice::from_raw_parts(self.pointer.0.cast(), count) }
    }

    /// Copies the device memory at `source` to byte `offset`, in the stream's order.
    pub fn download(&self, offset: u64, source: Area, stream: &Stream) -> Result<(), DriverError> {
        let Some(target) = self.pointer_at(offset, source.bytes) else {
            return Ok(());
        };
        // SAFETY: the target lies in this allocation; the source is device memory that outlives the work in flight.
        unsafe {
            let bytes = source.bytes as usize;
            self.context.api.memcpy_dtoh_async(target, source.address, bytes, stream.raw())
        }
    }

    fn pointer_at(&self, offset: u64, bytes: u64) -> Option<*mut c_void> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: the offset is inside the allocation.
        (bytes > 0 && end <= self.bytes as u64).then(|| unsafe { self.pointer.0.byte_add(offset as usize) })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, given back once; as for device memory.
        let _ = unsafe { self.context.api.mem_free_host(self.pointer.0) };
    }
}
