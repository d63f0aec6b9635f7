//! What the kernels' sources declare as structs, byte for byte: tensors, divisions, and the slot's block.

use super::{Addresses, BindError};
use crate::limits::{MAX_CAMERAS, MAX_RANK};
use crate::plan::format::View;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Bytes that kernels load at once.
pub const PIECE: u64 = 16;
/// Bytes of an f16.
const HALF: u64 = 2;

/// The number of an element type in `kernels/types.cuh`.
pub fn dtype_number(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::I32 => 2,
        DType::U8 => 3,
        DType::Bool => 4,
    }
}

/// A tensor in memory: `View` of `kernels/view.cuh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct DeviceView {
    /// Device address of element `[0, .., 0]`; 0 for a tensor that is not there.
    pub address: u64,
    /// [`dtype_number`] of its elements.
    pub dtype: u32,
    /// Number of axes.
    pub rank: u32,
    /// In elements; 0 beyond the rank and along axes of extent 1.
    pub strides: [i64; MAX_RANK],
    /// 1 beyond the rank.
    pub extents: [u32; MAX_RANK],
}

impl DeviceView {
    /// Where a view of the plan lies.
    pub fn new(at: &Addresses<'_>, view: &View) -> Result<DeviceView, BindError> {
        Ok(DeviceView {
            address: at.view(view)?,
            dtype: dtype_number(view.dtype),
            rank: view.layout.shape.rank() as u32,
            strides: strides(view),
            extents: std::array::from_fn(|axis| view.layout.shape.dim(axis)),
        })
    }

    /// True if halves along `axis` lie side by side in runs from multiples of [`PIECE`] on: kernels load them in whole pieces.
    pub fn in_pieces(&self, axis: usize) -> bool {
        let steps = (0..MAX_RANK).filter(|&a| a != axis).map(|a| self.strides[a].unsigned_abs() * HALF);
        let run = self.strides[axis] == 1 || self.extents[axis] == 1;
        run && steps.chain([self.address]).all(|bytes| bytes.is_multiple_of(PIECE))
    }
}

/// A view's strides in elements, 0 along axes that carry no positions.
pub fn strides(view: &View) -> [i64; MAX_RANK] {
    std::array::from_fn(|axis| {
        if view.layout.shape.dim(axis) > 1 {
            view.layout.stride(axis)
        } else {
            0
        }
    })
}

/// Division by a number known ahead, for values below 2^31: `Divisor` of `kernels/divide.cuh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Divisor {
    /// The divisor.
    pub divisor: u32,
    /// `2^(31 + shift) / divisor`, rounded up.
    pub multiplier: u32,
    /// Of the smallest power of two that is not below the divisor.
    pub shift: u32,
}

impl Divisor {
    /// Division by `divisor`; by 1 for 0.
    pub fn new(divisor: u32) -> Divisor {
        let divisor = divisor.max(1);
        let shift = 32 - (divisor - 1).leading_zeros();
        Divisor {
            divisor,
            multiplier: (1u64 << (31 + shift)).div_ceil(u64::from(divisor)) as u32,
            shift,
        }
    }

    /// What the device computes, for `value` below 2^31.
    pub fn divide(self, value: u32) -> u32 {
        ((u64::from(value) * u64::from(self.multiplier)) >> (31 + self.shift)) as u32
    }
}

/// A camera's newest image in the slot's block: `Camera` of `kernels/slot.cuh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Camera {
    /// The frame it was submitted with.
    pub frame: u64,
    /// Pixels of a row, 0 before the first image.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from row to row.
    pub stride: u32,
    /// Number of the pixel format, 0 before the first image.
    pub format: u32,
    /// 1 if it lies in the device's memory already, so that nothing is uploaded; the kernels' `padding`.
    pub on_device: u64,
}

/// What a frame knows of itself and its images: `SlotBlock` of `kernels/slot.cuh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SlotBlock {
    /// The frame.
    pub frame: u64,
    /// Bit set of tenants without input.
    pub skip: u32,
    /// Bit set of tenants whose tensor inputs are in the device's memory already.
    pub sent: u32,
    /// By camera number.
    pub cameras: [Camera; MAX_CAMERAS],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!((size_of::<DeviceView>(), size_of::<Divisor>()), (88, 12));
        assert_eq!((offset_of!(DeviceView, strides), offset_of!(DeviceView, extents)), (16, 64));
        assert_eq!((size_of::<Camera>(), size_of::<SlotBlock>()), (32, 16 + 32 * 16));
        assert_eq!((offset_of!(Camera, format), offset_of!(SlotBlock, cameras)), (20, 16));
    }

    #[test]
    fn halves_lie_in_pieces() {
        let view = |address, strides, extents| DeviceView {
            address,
            dtype: dtype_number(DType::F16),
            rank: 3,
            strides,
            extents,
        };
        let of = |address, strides| view(address, strides, [2, 3, 24, 1, 1, 1]);
        assert!(of(32, [80, 24, 1, 0, 0, 0]).in_pieces(2));
        assert!(!of(34, [80, 24, 1, 0, 0, 0]).in_pieces(2), "the first between pieces");
        assert!(!of(32, [80, 26, 1, 0, 0, 0]).in_pieces(2), "later ones between pieces");
        assert!(!of(32, [80, 24, 2, 0, 0, 0]).in_pieces(2), "elements apart");
        assert!(of(32, [8, 1, 16, 0, 0, 0]).in_pieces(1), "runs along another axis");
        assert!(view(32, [8, 16, 0, 0, 0, 0], [2, 3, 1, 1, 1, 1]).in_pieces(2), "runs of one");
    }

    #[test]
    fn divisions_are_exact() {
        let last = (1u32 << 31) - 1;
        for divisor in (1..=300).chain([511, 512, 513, 65_535, 65_536, 65_537, 1 << 30, last - 1, last]) {
            let d = Divisor::new(divisor);
            let near = (0..4000).map(|i| i * 7).chain((1..=20).flat_map(|k| {
                let multiple = (last / divisor / k).max(1) * divisor;
                [multiple - 1, multiple, multiple.saturating_add(1).min(last)]
            }));
            for value in near.chain([last - 1, last]) {
                assert_eq!(d.divide(value), value / divisor, "{value} / {divisor}");
            }
        }
    }
}
