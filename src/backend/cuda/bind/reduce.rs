//! Reductions of pixels and of rows: `kernels/reduce.cu`.

use super::generic::{ElementBox, check, head, input, output, reduce_number};
use super::groups::{GROUP, PixelFrame, Pixels, source};
use super::tail::Tail;
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch};
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::primitive::{Primitive, ReduceKind, Region};
use bytemuck::{Pod, Zeroable};

/// Ranges that are summed side by side.
const MAX_SPLITS: u32 = 32;
/// Groups of channels of a block.
const GROUPS: u32 = 8;
/// Threads of a block.
const THREADS: u32 = MAX_SPLITS * GROUPS;
/// Rows of a block, a warp a row.
const ROWS: u32 = THREADS / 32;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct OfPixels {
    frame: PixelFrame,
    x: Pixels,
    width: Divisor,
    pixels: u32,
    share: u32,
    splits: u32,
    kind: u32,
    padding: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct OfRows {
    y: DeviceView,
    x: DeviceView,
    tail: Tail,
    start: [u32; MAX_RANK],
    extents: [Divisor; MAX_RANK],
    axis: u32,
    length: u32,
    share: u32,
    splits: u32,
    kind: u32,
    rows: u32,
    tiles: u32,
    padding: u32,
}

struct Reduce {
    operator: Operator,
    kind: ReduceKind,
    axes: u8,
}

/// Compiles a reduction of rows and columns, or of an axis whose elements lie side by side.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Reduce { kind, axes } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it reduces nothing"));
    };
    Ok(Box::new(Reduce {
        operator: operator.clone(),
        kind,
        axes,
    }))
}

impl Reduce {
    /// Elements of a range, and how many ranges there are at most. A maximum is the same in any number of ranges.
    fn ranges(&self, count: u32) -> (u32, u32) {
        let splits = match self.kind {
            ReduceKind::Max => MAX_SPLITS,
            ReduceKind::Mean | ReduceKind::Sum => u32::from(self.operator.class.split_k.max(1)),
        };
        (count.div_ceil(splits).max(1), splits)
    }

    fn pixels(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (x, mut frame) = (source(at, &self.operator)?, PixelFrame::new(at, &self.operator, region, 1)?);
        let pixels = x.height.checked_mul(x.width).ok_or(BindError::Large("a reduction"))?;
        let (share, splits) = self.ranges(pixels);
        // Many ranges take all threads of a block for one group of channels.
        let groups = if splits == THREADS { 1 } else { GROUPS };
        let blocks = frame.channels.div_ceil(groups * GROUP);
        frame.groups = Divisor::new(blocks);
        frame.tiles = blocks.checked_mul(region.batch.len() as u32).ok_or(BindError::Large("a chunk"))?;
        let params = OfPixels {
            frame,
            x,
            width: Divisor::new(x.width),
            pixels,
            share,
            splits,
            kind: reduce_number(self.kind),
            padding: 0,
        };
        Ok(vec![Launch::new("reduce", "reduce_pixels", frame.tiles, width, THREADS, &params)])
    }

    fn rows(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (view, x) = (output(&self.operator, 0)?, DeviceView::new(at, input(&self.operator, 0)?)?);
        let outputs = ElementBox::new(view, region)?;
        let axis = self.axes.trailing_zeros() as usize;
        let length = *x.extents.get(axis).ok_or(BindError::Reference)?;
        let (share, splits) = self.ranges(length);
        let params = OfRows {
            y: DeviceView::new(at, view)?,
            x,
            tail: Tail::new(at, &self.operator)?,
            start: outputs.start,
            extents: outputs.extents,
            axis: axis as u32,
            length,
            share,
            splits,
            kind: reduce_number(self.kind),
            rows: outputs.count,
            tiles: outputs.count.div_ceil(ROWS),
            padding: 0,
        };
        Ok(vec![Launch::new("reduce", "reduce_rows", params.tiles, width, THREADS, &params)])
    }
}

impl Kernel for Reduce {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        if self.axes == 0b1100 && output(&self.operator, 0)?.layout.shape.rank() == 4 {
            self.pixels(at, region, width)
        } else {
            self.rows(at, region, width)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!(size_of::<OfPixels>(), size_of::<PixelFrame>() + 48 + 32);
        assert_eq!(size_of::<OfRows>(), 2 * 88 + 1080 + 24 + 72 + 32);
    }
}
