//! Operands resolved against their plan: from a view to elements of a buffer.

use super::CompileError;
use crate::backend::cpu::arena::{Bytes, Memory, Span};
use crate::plan::format::{Plan, Space, View};
use crate::tensor::{DType, Layout, Shape};
use half::f16;

/// A tensor in one of the frame's memories; every element of it lies inside its buffer.
#[derive(Clone, Copy)]
pub(super) struct Place {
    space: Space,
    bytes: u64,
    origin: i64,
    /// Element type.
    pub(super) dtype: DType,
    /// Logical shape and strides.
    pub(super) layout: Layout,
}

impl Place {
    /// Resolves `view` and establishes that all its elements lie inside its buffer.
    pub(super) fn bind(plan: &Plan, view: &View) -> Result<Place, CompileError> {
        let buffer = plan.buffers.get(view.buffer.index()).ok_or(CompileError::View)?;
        let origin = i64::try_from(view.origin).map_err(|_| CompileError::View)?;
        if view.layout.shape.elements() > 0 && !matches!(buffer.space, Space::Camera(_)) {
            let (low, high) = view.layout.bounds().ok_or(CompileError::View)?;
            let held = (buffer.bytes / view.dtype.bytes()) as i64;
            let inside = origin.checked_add(low).is_some_and(|e| e >= 0) && origin.checked_add(high).is_some_and(|e| e < held);
            if !inside {
                return Err(CompileError::View);
            }
        }
        Ok(Place {
            space: buffer.space,
            bytes: buffer.bytes,
            origin,
            dtype: view.dtype,
            layout: view.layout,
        })
    }

    /// The logical shape.
    pub(super) fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// The element at `index`, counted from the start of the buffer.
    #[inline]
    pub(super) fn at(&self, index: &[u32]) -> usize {
        let offset: i64 = index.iter().zip(self.layout.strides()).map(|(&i, &s)| i64::from(i) * s).sum();
        (self.origin + offset) as usize
    }

    /// The buffer for reading.
    pub(super) fn read<'a>(&self, memory: &Memory<'a>) -> Bytes<'a> {
        memory.buffer(self.space, self.bytes)
    }

    /// The buffer for writing.
    pub(super) fn write<'a>(&self, memory: &Memory<'a>) -> Span<'a> {
        self.read(memory).writable()
    }
}

/// Element `element` of a float tensor, as f32.
#[inline]
pub(super) fn read_f32(bytes: Bytes<'_>, dtype: DType, element: usize) -> f32 {
    match dtype {
        DType::F16 => bytes.read::<f16>(element).to_f32(),
        _ => bytes.read(element),
    }
}
