//! Resizing of pixels: `kernels/resize.cu`.

use super::generic::{check, head, input, output, outside};
use super::groups::{PixelFrame, Pixels, THREADS, in_whole_groups, source};
use super::views::{Divisor, dtype_number};
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, count};
use crate::backend::taps;
use crate::plan::format::Operator;
use crate::primitive::{Primitive, Region, Resize, ResizeMode};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Outputs of a row that a thread computes between two pixels of either axis.
const PAIRS_RUN: u32 = 4;
/// Outputs of a row that a thread computes where it takes one channel.
const LINEAR_RUN: u32 = 8;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    rows: u64,
    columns: u64,
    row_taps: u32,
    column_taps: u32,
    outside: f32,
    padding: u32,
}

/// A tap of a table; of an output outside a cropped input, at position -1.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Tap {
    position: i32,
    weight: f32,
}

/// The table of an axis, and the taps of each output in it.
struct Table {
    pack: PackId,
    taps: u32,
}

struct Resampling {
    operator: Operator,
    rows: Table,
    columns: Table,
    outside: f32,
}

/// Compiles a resize of rows and columns.
pub fn compile(packer: &mut Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Resize(resize) = head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no resize"));
    };
    let (from, to) = (input(operator, 0)?.layout.shape, output(operator, 0)?.layout.shape);
    Ok(Box::new(Resampling {
        operator: operator.clone(),
        rows: table(packer, &resize, 2, from.dim(2), to.dim(2))?,
        columns: table(packer, &resize, 3, from.dim(3), to.dim(3))?,
        outside: outside(&resize.coordinates),
    }))
}

fn table(packer: &mut Packer<'_>, resize: &Resize, axis: usize, from: u32, to: u32) -> Result<Table, BindError> {
    let one = |position: Option<u32>| Tap {
        position: position.map_or(-1, |p| p as i32),
        weight: 1.0,
    };
    let (taps, entries): (usize, Vec<Tap>) = match resize.mode {
        _ if taps::is_identity(resize, axis, from, to) => (1, (0..to).map(|p| one(Some(p))).collect()),
        ResizeMode::Nearest(rounding) => (1, taps::nearest(resize, rounding, axis, from, to).into_iter().map(one).collect()),
        _ => {
            let along = taps::weighted(resize, axis, from, to)?;
            let place = |i: usize| {
                if along.outside[i / along.count] {
                    -1
                } else {
                    along.positions[i] as i32
                }
            };
            let tap = |(i, &weight): (usize, &f32)| Tap {
                position: place(i),
                weight,
            };
            (along.count, along.weights.iter().enumerate().map(tap).collect())
        }
    };
    let name = format!("taps of {resize:?} along {axis} from {from} to {to}");
    Ok(Table {
        pack: packer.table(name, || bytemuck::cast_slice(&entries).to_vec()),
        taps: taps as u32,
    })
}

impl Kernel for Resampling {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let view = output(&self.operator, 0)?;
        let [_, channels, _, across] = [0, 1, 2, 3].map(|axis| view.layout.shape.dim(axis));
        let x = source(at, &self.operator)?;
        let pairs = (self.rows.taps, self.columns.taps) == (2, 2);
        let halves = x.dtype == dtype_number(DType::F16) && view.dtype == DType::F16;
        let (function, frame) = if pairs && in_whole_groups(&x, channels) {
            let runs = across.div_ceil(PAIRS_RUN);
            ("resize_pairs", PixelFrame::new(at, &self.operator, region, runs)?)
        } else if pairs && halves && self.operator.calls.len() == 1 {
            let runs = across.div_ceil(LINEAR_RUN);
            ("resize_linear", by_channels(at, &self.operator, region, runs)?)
        } else {
            ("resize", PixelFrame::new(at, &self.operator, region, across)?)
        };
        let params = Params {
            frame,
            x,
            rows: at.pack(self.rows.pack)?.address,
            columns: at.pack(self.columns.pack)?.address,
            row_taps: self.rows.taps,
            column_taps: self.columns.taps,
            outside: self.outside,
            padding: 0,
        };
        Ok(vec![Launch::new("resize", function, params.frame.tiles, width, THREADS, &params)])
    }
}

/// The frame of a chunk whose threads take a channel each, of one of `across` runs of a row.
fn by_channels(at: &Addresses<'_>, operator: &Operator, region: &Region, across: u32) -> Result<PixelFrame, BindError> {
    let frame = PixelFrame::new(at, operator, region, across)?;
    let count = count([frame.count / frame.groups.divisor, frame.channels], "a chunk")?;
    Ok(PixelFrame {
        groups: Divisor::new(frame.channels),
        count,
        tiles: count.div_ceil(THREADS),
        ..frame
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<PixelFrame>() + 48 + 32);
        assert_eq!(std::mem::size_of::<Tap>(), 8);
        assert!(include_str!("../kernels/resize.cu").contains(&format!("LINEAR_RUN = {LINEAR_RUN};")));
        assert!(include_str!("../kernels/resize.cu").contains(&format!("PAIRS_RUN = {PAIRS_RUN};")));
    }
}
