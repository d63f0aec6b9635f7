//! The frame of kernels over `[N, C, H, W]` floats with neighbouring channels side by side: `kernels/groups.cuh`.

use super::constants::{Constant, floats};
use super::operands::{input, optional_input, output};
use super::tail::Tail;
use super::views::{Divisor, dtype_number, strides};
use super::{Addresses, BindError, PackId, Packer, count};
use crate::plan::format::{Operator, View};
use crate::primitive::Region;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
pub const THREADS: u32 = 128;
/// Channels of a thread.
pub const GROUP: u32 = 8;

/// A tensor whose channels lie side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Pixels {
    /// Device address of element `[0, 0, 0, 0]`.
    pub address: u64,
    /// Elements from sample to sample.
    pub batch: i64,
    /// Elements from row to row.
    pub row: i64,
    /// Elements from pixel to pixel.
    pub pixel: i64,
    /// Number of the element type.
    pub dtype: u32,
    /// Rows.
    pub height: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Zero.
    pub padding: u32,
}

impl Pixels {
    /// Where a view of rank 4 lies.
    pub fn new(at: &Addresses<'_>, view: &View) -> Result<Pixels, BindError> {
        let (shape, strides) = (view.layout.shape, strides(view));
        if shape.rank() != 4 || strides[1] > 1 || strides[1] < 0 {
            return Err(BindError::Tactic("its channels do not lie side by side"));
        }
        Ok(Pixels {
            address: at.view(view)?,
            batch: strides[0],
            row: strides[2],
            pixel: strides[3],
            dtype: dtype_number(view.dtype),
            height: shape.dim(2),
            width: shape.dim(3),
            padding: 0,
        })
    }
}

/// What the kernels' parameters begin with.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct PixelFrame {
    /// The output.
    pub y: Pixels,
    /// What follows the head.
    pub tail: Tail,
    /// Groups of channels.
    pub groups: Divisor,
    /// Runs of pixels in a row.
    pub across: Divisor,
    /// Rows of the chunk.
    pub rows: Divisor,
    /// Channels of the output.
    pub channels: u32,
    /// First sample of the chunk.
    pub first_batch: u32,
    /// First row of the chunk.
    pub first_row: u32,
    /// Groups times runs.
    pub count: u32,
    /// Tiles of [`THREADS`].
    pub tiles: u32,
}

impl PixelFrame {
    /// The frame of a chunk whose rows are cut into `across` runs.
    pub fn new(at: &Addresses<'_>, operator: &Operator, region: &Region, across: u32) -> Result<PixelFrame, BindError> {
        let view = output(operator, 0)?;
        let channels = view.layout.shape.dim(1);
        let (samples, rows) = (region.batch.len() as u32, region.rows.len() as u32);
        let count = count([samples, rows, across, channels.div_ceil(GROUP)], "a chunk")?;
        Ok(PixelFrame {
            y: Pixels::new(at, view)?,
            tail: Tail::new(at, operator)?,
            groups: Divisor::new(channels.div_ceil(GROUP)),
            across: Divisor::new(across),
            rows: Divisor::new(rows),
            channels,
            first_batch: region.batch.start,
            first_row: region.rows.start,
            count,
            tiles: count.div_ceil(THREADS),
        })
    }
}

/// The first input of the head.
pub fn source(at: &Addresses<'_>, operator: &Operator) -> Result<Pixels, BindError> {
    Pixels::new(at, input(operator, 0)?)
}

/// Of f16 in whole groups of channels that lie on 16 bytes.
pub fn in_whole_groups(x: &Pixels, channels: u32) -> bool {
    let steps = [x.batch, x.row, x.pixel].iter().all(|s| s % i64::from(GROUP) == 0);
    x.dtype == dtype_number(DType::F16) && channels.is_multiple_of(GROUP) && x.address.is_multiple_of(16) && steps
}

/// Of f16 in pairs of channels that lie on 4 bytes.
pub fn in_pairs(x: &Pixels, channels: u32) -> bool {
    let steps = [x.batch, x.row, x.pixel].iter().all(|s| s % 2 == 0);
    x.dtype == dtype_number(DType::F16) && channels.is_multiple_of(2) && x.address.is_multiple_of(4) && steps
}

/// The bias of a convolution in f32 for `channels` channels, rounded up to whole groups; zeros where there is none.
pub fn pack_bias(packer: &Packer<'_>, operator: &Operator, channels: u32) -> Result<PackId, BindError> {
    let padded = channels.next_multiple_of(GROUP);
    let Some(view) = optional_input(operator, 2) else {
        return Ok(packer.table(format!("{padded} zeros"), || floats(DType::F32, (0..padded).map(|_| 0.0))));
    };
    Constant::new(packer, view)?.pack(packer, "f32 bias", |read| {
        floats(DType::F32, (0..padded).map(|c| if c < channels { read(&[c]) } else { 0.0 }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!((size_of::<Pixels>(), offset_of!(Pixels, dtype)), (48, 32));
        assert_eq!(size_of::<PixelFrame>(), 48 + 1080 + 56);
        assert_eq!((offset_of!(PixelFrame, groups), offset_of!(PixelFrame, tiles)), (1128, 1128 + 52));
    }
}
