//! Taking memory, with an account of what it is for.

use super::bind::Area;
use super::error::CudaError;
use super::raw::{Context, DeviceMemory, DriverError, Pinned};
use std::sync::Arc;

/// What a part of an allocation is a multiple of: enough for every kernel's widest access and for tensor maps.
pub const ALIGN: u64 = 256;

/// Takes memory and keeps count.
pub struct Account {
    context: Arc<Context>,
    entries: Vec<(&'static str, u64)>,
}

impl Account {
    /// Nothing taken yet.
    pub fn new(context: &Arc<Context>) -> Account {
        Account {
            context: context.clone(),
            entries: Vec::new(),
        }
    }

    /// Device memory.
    pub fn device(&mut self, what: &'static str, bytes: u64) -> Result<DeviceMemory, CudaError> {
        let memory = DeviceMemory::new(&self.context, bytes).map_err(|source| CudaError::Memory { what, bytes, source })?;
        self.add(what, bytes);
        Ok(memory)
    }

    /// Pinned memory.
    pub fn pinned(&mut self, what: &'static str, bytes: u64) -> Result<Pinned, CudaError> {
        let memory = Pinned::new(&self.context, bytes).map_err(|source| CudaError::Memory { what, bytes, source })?;
        self.add(what, bytes);
        Ok(memory)
    }

    /// Notes memory that was taken otherwise.
    pub fn add(&mut self, what: &'static str, bytes: u64) {
        match self.entries.iter_mut().find(|(w, _)| *w == what) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => self.entries.push((what, bytes)),
        }
    }

    /// What was taken, by what it is for.
    pub fn entries(&self) -> &[(&'static str, u64)] {
        &self.entries
    }

    /// Everything that was taken.
    pub fn total(&self) -> u64 {
        self.entries.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// An error of memory that was taken otherwise.
    pub fn refused(what: &'static str, bytes: u64) -> impl FnOnce(DriverError) -> CudaError {
        move |source| CudaError::Memory { what, bytes, source }
    }
}

/// Parts of one allocation, one after another.
#[derive(Default)]
pub struct Parts {
    parts: Vec<(u64, u64)>,
    end: u64,
}

impl Parts {
    /// Adds a part and gives its number.
    pub fn push(&mut self, bytes: u64) -> usize {
        let offset = self.end.next_multiple_of(ALIGN);
        self.parts.push((offset, bytes));
        self.end = offset.saturating_add(bytes);
        self.parts.len() - 1
    }

    /// Bytes of all parts together.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// First byte of a part.
    pub fn offset(&self, part: usize) -> u64 {
        self.parts[part].0
    }

    /// Where a part lies in the allocation at `whole`; an empty area where it does not fit.
    pub fn area(&self, whole: Area, part: usize) -> Area {
        let (offset, bytes) = self.parts[part];
        whole.part(offset, bytes).unwrap_or_default()
    }

    /// Number of parts.
    pub fn count(&self) -> usize {
        self.parts.len()
    }
}
