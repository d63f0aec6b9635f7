//! A view resolved to memory: where its origin is, how far it reaches, and its strides.

use super::packing::room;
use crate::backend::cpu::arena::Memory;
use crate::plan::format::{Operand, Plan, Space, View};
use crate::tensor::{DType, Shape};

/// An f32 view of a plan, ready to be turned into a pointer in each frame.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    space: Space,
    bytes: u64,
    /// Lowest element of the buffer that the view touches.
    first: usize,
    /// Elements from the lowest to the highest, both included.
    reach: usize,
    /// The view's origin, counted from `first`.
    origin: usize,
    /// Logical shape.
    pub shape: Shape,
    strides: [i64; crate::limits::MAX_RANK],
}

impl Site {
    /// The site of a non-empty f32 view; `None` for other types, empty views and views outside their buffers.
    pub fn of(plan: &Plan, view: &View) -> Option<Site> {
        if view.dtype != DType::F32 {
            return None;
        }
        let buffer = plan.buffers.get(view.buffer.index())?;
        let (low, high) = view.layout.bounds()?;
        let origin = i64::try_from(view.origin).ok()?;
        let first = usize::try_from(origin.checked_add(low)?).ok()?;
        let reach = usize::try_from(high.checked_sub(low)?.checked_add(1)?).ok()?;
        if (first as u64).checked_add(reach as u64)?.checked_mul(4)? > buffer.bytes {
            return None;
        }
        let mut strides = [0; crate::limits::MAX_RANK];
        strides[..view.layout.strides().len()].copy_from_slice(view.layout.strides());
        let origin = usize::try_from(-low).ok()?;
        Some(Site {
            space: buffer.space,
            bytes: buffer.bytes,
            first,
            reach,
            origin,
            shape: view.layout.shape,
            strides,
        })
    }

    /// The site of an operand that is a view.
    pub fn of_operand(plan: &Plan, operand: &Operand) -> Option<Site> {
        match operand {
            Operand::View(view) => Site::of(plan, view),
            Operand::Inner(_) => None,
        }
    }

    /// The address of the view's origin in this frame's memory, valid for everything the view reaches.
    pub fn pointer(&self, memory: &Memory<'_>) -> *mut f32 {
        let base: *mut f32 = memory.buffer(self.space, self.bytes).pointer(self.first, self.reach);
        base.wrapping_add(self.origin)
    }

    /// Stride of `axis` in elements; 0 for an axis of extent 1, which carries no position.
    pub fn stride(&self, axis: usize) -> i64 {
        if self.shape.dim(axis) <= 1 { 0 } else { self.strides[axis] }
    }

    /// True if the view lies in the weights.
    pub fn is_constant(&self) -> bool {
        matches!(self.space, Space::Weights(_))
    }

    /// The elements of a constant view in C order of its shape; `None` for another, and if memory is short.
    pub fn gather(&self, sections: &[crate::backend::cpu::arena::ReadSpan<'_>]) -> Option<Vec<f32>> {
        let Space::Weights(section) = self.space else { return None };
        let all: &[f32] = bytemuck::try_cast_slice(sections.get(section.index())?.bytes()).ok()?;
        let all = all.get(self.first..self.first.checked_add(self.reach)?)?;
        let rank = self.shape.rank();
        let mut values = room(self.shape.elements() as usize)?;
        let mut index = [0u32; crate::limits::MAX_RANK];
        for _ in 0..self.shape.elements() {
            let offset: i64 = (0..rank).map(|a| i64::from(index[a]) * self.strides[a]).sum();
            values.push(*all.get((self.origin as i64 + offset) as usize)?);
            for a in (0..rank).rev() {
                index[a] += 1;
                if index[a] < self.shape.dim(a) {
                    break;
                }
                index[a] = 0;
            }
        }
        Some(values)
    }
}

/// A `[N, C, H, W]` site whose channels are contiguous (or a single one, or, for an operand, repeated).
#[derive(Clone, Copy, Debug)]
pub struct Pixels {
    /// Where.
    pub site: Site,
    /// Channels.
    pub c: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
    /// Floats from image to image.
    pub image: usize,
    /// Floats from row to row.
    pub row: usize,
    /// Floats from pixel to pixel.
    pub pixel: usize,
    /// True if all channels of a pixel are one value (stride 0 with more than one channel).
    pub repeated: bool,
}

impl Pixels {
    /// The channels-last form of a rank 4 site; `None` for any other storage.
    pub fn of(site: Site) -> Option<Pixels> {
        if site.shape.rank() != 4 {
            return None;
        }
        let stride = |axis: usize| usize::try_from(site.stride(axis)).ok();
        let channel = stride(1)?;
        if channel > 1 {
            return None;
        }
        let dim = |axis: usize| site.shape.dim(axis) as usize;
        let repeated = channel == 0 && dim(1) > 1;
        Some(Pixels {
            site,
            c: dim(1),
            h: dim(2),
            w: dim(3),
            image: stride(0)?,
            row: stride(2)?,
            pixel: stride(3)?,
            repeated,
        })
    }

    /// The channels-last form of a view that is read or written channel by channel.
    pub fn dense(plan: &Plan, view: &View) -> Option<Pixels> {
        let pixels = Pixels::of(Site::of(plan, view)?)?;
        (!pixels.repeated).then_some(pixels)
    }

    /// True if row follows row as pixel follows pixel, so that an image is one run of `h * w` pixels.
    pub fn rows_merge(&self) -> bool {
        self.h <= 1 || self.row == self.w * self.pixel
    }
}
