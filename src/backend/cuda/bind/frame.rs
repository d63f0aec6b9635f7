//! The elements of a chunk, and what the parameters of kernels that walk them begin with: `kernels/generic.cuh`.

use super::operands::output;
use super::tail::Tail;
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, count};
use crate::limits::MAX_RANK;
use crate::plan::format::{Operator, View};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Threads of a block, each with one element of a tile.
pub const THREADS: u32 = 128;

/// The elements of a chunk in the order of their numbers: `Box` of `kernels/generic.cuh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ElementBox {
    /// How many there are.
    pub count: u32,
    /// 1 if axis 1 runs fastest.
    pub channels_last: u32,
    /// First coordinate, by axis.
    pub start: [u32; MAX_RANK],
    /// Extents, by axis; 1 beyond the rank.
    pub extents: [Divisor; MAX_RANK],
}

impl ElementBox {
    /// The share `region` of `output`.
    pub fn new(output: &View, region: &Region) -> Result<ElementBox, BindError> {
        ElementBox::without(output, region, None)
    }

    /// The same with one position along `axis`.
    pub fn without(output: &View, region: &Region, axis: Option<usize>) -> Result<ElementBox, BindError> {
        let shape = output.layout.shape;
        let mut ranges: [_; MAX_RANK] = std::array::from_fn(|a| 0..shape.dim(a));
        if shape.rank() > 0 {
            ranges[0] = region.batch.clone();
        }
        if let Some(rows) = shape.row_axis() {
            ranges[rows] = region.rows.clone();
        }
        if let Some(axis) = axis {
            ranges[axis] = 0..1;
        }
        Ok(ElementBox {
            count: count(ranges.iter().map(|r| r.len() as u32), "a chunk")?,
            channels_last: u32::from(shape.rank() >= 3 && shape.dim(1) > 1 && output.layout.stride(1) == 1),
            start: std::array::from_fn(|a| ranges[a].start),
            extents: std::array::from_fn(|a| Divisor::new(ranges[a].len() as u32)),
        })
    }

    /// Where the first element lies in a tensor of such strides, and the distance from one element to the next if it is always the
    /// same and not 0.
    pub fn even(&self, strides: &[i64; MAX_RANK]) -> Option<(i64, i64)> {
        let first = (0..MAX_RANK).map(|a| i64::from(self.start[a]) * strides[a]).sum();
        let inner = (self.channels_last == 1).then_some(1);
        let order = inner.into_iter().chain((0..MAX_RANK).rev().filter(|&a| inner != Some(a)));
        let mut run: Option<(i64, i64)> = None; // elements so far, and their distance
        for axis in order.filter(|&a| self.extents[a].divisor > 1) {
            let extent = i64::from(self.extents[axis].divisor);
            run = match run {
                None => Some((extent, strides[axis])),
                Some((count, step)) if strides[axis] == count * step => Some((count * extent, step)),
                Some(_) => return None,
            };
        }
        // One element has any distance from the next.
        let step = run.map_or(1, |(_, step)| step);
        (step != 0).then_some((first, step))
    }
}

/// What the parameters of kernels that walk such elements begin with: `Generic` of `kernels/generic.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Frame {
    /// The output.
    pub y: DeviceView,
    /// The elements to compute.
    pub elements: ElementBox,
    /// What follows the head.
    pub tail: Tail,
    /// Tiles of the chunk.
    pub tiles: u32,
    /// Zero.
    pub padding: u32,
}

impl Frame {
    /// The frame of a chunk whose tiles are `per_tile` elements of the box.
    pub fn new(at: &Addresses<'_>, operator: &Operator, elements: ElementBox, per_tile: u32) -> Result<Frame, BindError> {
        Ok(Frame {
            y: DeviceView::new(at, output(operator, 0)?)?,
            elements,
            tail: Tail::new(at, operator)?,
            tiles: elements.count.div_ceil(per_tile),
            padding: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!((size_of::<ElementBox>(), size_of::<Frame>()), (104, 88 + 104 + 1080 + 8));
        assert_eq!((offset_of!(ElementBox, start), offset_of!(ElementBox, extents)), (8, 32));
        assert_eq!(
            (offset_of!(Frame, elements), offset_of!(Frame, tail), offset_of!(Frame, tiles)),
            (88, 192, 1272)
        );
    }

    #[test]
    fn even_elements_lie_where_their_coordinates_say() {
        let cases = [
            // A dense tensor, its last axis left out; the same with rows apart, from row 2 on.
            ([3, 4, 5, 1, 1, 1], [0, 0, 0, 0, 0, 0], 0, [160, 40, 8, 1, 0, 0], Some((0, 8))),
            ([1, 4, 5, 1, 1, 1], [1, 0, 2, 0, 0, 0], 0, [400, 96, 16, 1, 0, 0], None),
            ([1, 1, 5, 1, 1, 1], [1, 0, 2, 0, 0, 0], 0, [400, 80, 16, 1, 0, 0], Some((432, 16))),
            // Channels first or last in the order, one element, one that repeats itself.
            ([2, 4, 5, 1, 1, 1], [0; 6], 1, [20, 1, 4, 0, 0, 0], Some((0, 1))),
            ([2, 4, 5, 1, 1, 1], [0; 6], 0, [20, 1, 4, 0, 0, 0], None),
            ([1; 6], [0, 3, 0, 0, 0, 0], 0, [0, 7, 0, 0, 0, 0], Some((21, 1))),
            ([1, 3, 1, 1, 1, 1], [0; 6], 0, [0; 6], None),
        ];
        for (extents, start, channels_last, strides, expected) in cases {
            let elements = ElementBox {
                count: extents.iter().product(),
                channels_last,
                start,
                extents: extents.map(Divisor::new),
            };
            assert_eq!(elements.even(&strides), expected, "{extents:?} {strides:?}");
        }
    }
}
