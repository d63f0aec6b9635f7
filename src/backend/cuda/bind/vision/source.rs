//! Operands as these kernels take them: cameras of the slot, and tensors of two axes.

use super::super::views::{Camera, SlotBlock};
use super::super::{Addresses, BindError};
use crate::ids::CameraId;
use crate::limits::MAX_CAMERAS;
use crate::plan::format::View;
use crate::primitive::Fit;
use bytemuck::{Pod, Zeroable};
use std::mem::{offset_of, size_of};

/// A camera of the slot: `Source` of `kernels/pixels.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Source {
    /// Device address of its entry in the slot's block.
    pub(super) camera: u64,
    /// Device address of the memory of its newest image.
    pub(super) image: u64,
    /// Length of that memory.
    pub(super) bytes: u64,
}

impl Source {
    /// Where a camera's newest image lies.
    pub(super) fn new(at: &Addresses<'_>, camera: CameraId) -> Result<Source, BindError> {
        let image = at.images.get(camera.index()).ok_or(BindError::Reference)?;
        Ok(Source {
            camera: entry(at, camera)?,
            image: image.address,
            bytes: image.bytes,
        })
    }
}

/// Device address of a camera's entry in the slot's block.
pub(super) fn entry(at: &Addresses<'_>, camera: CameraId) -> Result<u64, BindError> {
    if camera.index() >= MAX_CAMERAS {
        return Err(BindError::Reference);
    }
    Ok(at.slot + (offset_of!(SlotBlock, cameras) + camera.index() * size_of::<Camera>()) as u64)
}

/// A tensor of two axes: `Matrix` of `kernels/matrix.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Matrix {
    pub(super) data: u64,
    pub(super) row_stride: i64,
    pub(super) column_stride: i64,
    pub(super) rows: u32,
    pub(super) columns: u32,
}

impl Matrix {
    /// The tensor of a view of two axes.
    pub(super) fn new(at: &Addresses<'_>, view: &View) -> Result<Matrix, BindError> {
        Matrix::of_axes(at, view, 0)
    }

    /// Axes `first` and the next of a view, at the start of its others.
    pub(super) fn of_axes(at: &Addresses<'_>, view: &View, first: usize) -> Result<Matrix, BindError> {
        let layout = &view.layout;
        Ok(Matrix {
            data: at.view(view)?,
            row_stride: layout.stride(first),
            column_stride: layout.stride(first + 1),
            rows: layout.shape.dim(first),
            columns: layout.shape.dim(first + 1),
        })
    }
}

/// The number of a fit in `kernels/placement.cuh`.
pub(super) fn fit_number(fit: Fit) -> u32 {
    match fit {
        Fit::Stretch => 0,
        Fit::LetterboxTopLeft => 1,
        Fit::LetterboxCentred => 2,
    }
}
