//! Resizing of pixels: `kernels/resize.cu`, and between two pixels of either axis `kernels/resize_columns.cu` and `kernels/resize_rows.cu`.

use super::generic::outside;
use super::groups::{PixelFrame, Pixels, THREADS, in_whole_groups, source};
use super::operands::{check, head, input, output};
use super::resize_rows::{self, Taps, reach};
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, resize_columns};
use crate::backend::taps;
use crate::plan::format::Operator;
use crate::plan::tactic::resized::is_planes;
use crate::primitive::{Primitive, Region, Resize, ResizeMode};
use bytemuck::{Pod, Zeroable};

/// Outputs of a row that a thread computes between two pixels of either axis.
const PAIRS_RUN: u32 = 4;

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

/// The table of an axis, the taps of each output in it, what pieces of two taps an output reach over, and whether an output lies outside.
struct Table {
    pack: PackId,
    taps: u32,
    reach: u32,
    cropped: bool,
}

struct Resampling {
    operator: Operator,
    rows: Table,
    columns: Table,
    outside: f32,
}

/// Compiles a resize of rows and columns.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
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

fn table(packer: &Packer<'_>, resize: &Resize, axis: usize, from: u32, to: u32) -> Result<Table, BindError> {
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
    let positions: Vec<i32> = entries.iter().map(|t| t.position).collect();
    Ok(Table {
        reach: reach(&positions),
        cropped: positions.contains(&-1),
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
        let (rows, columns) = (at.pack(self.rows.pack)?.address, at.pack(self.columns.pack)?.address);
        let pairs = (self.rows.taps, self.columns.taps) == (2, 2);
        let x = source(at, &self.operator)?;
        let grouped = pairs && in_whole_groups(&x, channels) && !is_planes(&self.operator);
        if pairs {
            let taps = Taps {
                rows,
                columns,
                reach: self.columns.reach,
                cropped: self.rows.cropped || self.columns.cropped,
                outside: self.outside,
            };
            if let Some(launch) = resize_columns::launch(at, &self.operator, &taps, region, width)? {
                return Ok(vec![launch]);
            }
            if !grouped && let Some(launch) = resize_rows::launch(at, &self.operator, &taps, region, width)? {
                return Ok(vec![launch]);
            }
        }
        let (function, run) = if grouped { ("resize_pairs", PAIRS_RUN) } else { ("resize", 1) };
        let frame = PixelFrame::new(at, &self.operator, region, across.div_ceil(run))?;
        let params = Params {
            frame,
            x,
            rows,
            columns,
            row_taps: self.rows.taps,
            column_taps: self.columns.taps,
            outside: self.outside,
            padding: 0,
        };
        Ok(vec![Launch::new("resize", function, params.frame.tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<PixelFrame>() + 48 + 32);
        assert_eq!(std::mem::size_of::<Tap>(), 8);
        assert!(include_str!("../kernels/resize.cu").contains(&format!("PAIRS_RUN = {PAIRS_RUN};")));
    }
}
