//! Layer and root mean square normalisation along any axis: `kernels/normalise.cu`, and `kernels/normalise_rows.cu` for rows of halves side by side.

use super::frame::{ElementBox, Frame};
use super::operands::{check, head, input, output};
use super::views::{DeviceView, Divisor, strides};
use super::{Addresses, BindError, Kernel, Launch};
use crate::limits::MAX_RANK;
use crate::plan::format::{Call, Operand, Operator, Rounding, Space, View};
use crate::primitive::{Binary, Primitive, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Threads of a row of f32.
const LANES: u32 = 16;
/// Threads of a row of halves of at most [`RUN`] elements; longer ones have a block.
const WARP: u32 = 32;
/// Elements that a warp reads at once.
const RUN: u32 = 256;
/// Neighbours that a thread reads at once.
const EACH: u32 = 8;
/// Most elements of a row of halves that a block of [`THREADS`] has; longer ones, and rows side by side, have [`LONG_THREADS`].
const LONG_ROW: u32 = 8192;
const LONG_THREADS: u32 = 512;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: Frame,
    x: DeviceView,
    extent: u32,
    axis: u32,
    epsilon: f32,
    count: f32,
    centre: f32,
    columns: u32,
    across: u32,
    first: u32,
    groups: Divisor,
    padding: u32,
}

/// Of rows of halves side by side, scaled and shifted by constants or as they are.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct RowsParams {
    x: u64,
    y: u64,
    x_strides: [i64; MAX_RANK],
    y_strides: [i64; MAX_RANK],
    x_step: i64,
    y_step: i64,
    rows: ElementBox,
    scale: u64,
    shift: u64,
    extent: u32,
    count: f32,
    centre: f32,
    epsilon: f32,
    tiles: u32,
    padding: u32,
}

/// Most elements of such rows, the threads that a row has, and the blocks that share a multiprocessor: of any rows, and of full ones.
const ROWS: [(u32, u32, [u32; 2]); 9] = [
    (64, 8, [12, 12]),
    (128, 16, [12, 12]),
    (256, 32, [12, 12]),
    (512, 32, [8, 9]),
    (768, 32, [5, 6]),
    (1024, 32, [4, 5]),
    (2048, THREADS, [8, 8]),
    (4096, THREADS, [4, 4]),
    (LONG_ROW, THREADS, [2, 2]),
];

/// Addresses of the constants along `axis` that scale and shift the head's values in `calls`; 0 where nothing does. `None` for
/// other tails.
pub fn affine(at: &Addresses<'_>, calls: &[Call], axis: usize, extent: u32) -> Option<(u64, u64)> {
    let constant = |call: &Call, kind: Binary, value: u8| {
        let (Operand::View(view), true) = (other(call, value)?, call.primitive == Primitive::Binary(kind)) else {
            return None;
        };
        let buffer = at.plan.buffers.get(view.buffer.index())?;
        let constant = matches!(buffer.space, Space::Weights(_)) && view.dtype == DType::F16;
        let strides = strides(&view);
        let alike = (0..MAX_RANK).all(|a| strides[a] == i64::from(a == axis && extent > 1));
        at.view(&view).ok().filter(|_| constant && alike)
    };
    let rounded = |c: &Call| c.dtype == DType::F16 && c.rounding == Rounding::Rounded;
    match calls {
        calls if !calls.iter().all(rounded) => None,
        [_] => Some((0, 0)),
        [_, mul] => Some((constant(mul, Binary::Mul, 0)?, 0)),
        [_, mul, add] => Some((constant(mul, Binary::Mul, 0)?, constant(add, Binary::Add, 1)?)),
        _ => None,
    }
}

/// Of a function of the operator's value `value` and something else, that.
fn other(call: &Call, value: u8) -> Option<Operand> {
    match *call.inputs.as_slice() {
        [Operand::Inner(inner), other] | [other, Operand::Inner(inner)] if inner == value => Some(other),
        _ => None,
    }
}

struct Normalise {
    operator: Operator,
    axis: usize,
    epsilon: f32,
    centred: bool,
}

/// Compiles a normalisation with any tail of floats.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let primitive = head(operator)?.primitive;
    let (Primitive::Normalise { axis, epsilon } | Primitive::RmsNormalise { axis, epsilon }) = primitive else {
        return Err(BindError::Tactic("it is no normalisation"));
    };
    Ok(Box::new(Normalise {
        operator: operator.clone(),
        axis: usize::from(axis),
        epsilon: epsilon.0,
        centred: matches!(primitive, Primitive::Normalise { .. }),
    }))
}

impl Normalise {
    /// What a row's sum is multiplied by for its mean.
    fn centre(&self, extent: u32) -> f32 {
        if self.centred { 1.0 / extent as f32 } else { 0.0 }
    }

    /// The launch of rows of halves that lie on 16 bytes in whole groups; `None` for others.
    fn rows(&self, at: &Addresses<'_>, x: &View, rows: ElementBox, width: u16) -> Option<Launch> {
        let y = self.operator.outputs.first()?;
        let extent = y.layout.shape.dim(self.axis);
        let (most, threads, resident) = ROWS.into_iter().find(|&(most, ..)| extent <= most)?;
        let (scale, shift) = affine(at, &self.operator.calls, self.axis, extent)?;
        let grouped = |view: &View| {
            let strides = strides(view);
            let others = (0..MAX_RANK).all(|a| a == self.axis || strides[a] % i64::from(EACH) == 0);
            view.dtype == DType::F16 && others && strides[self.axis] == 1
        };
        let (from, to) = (at.view(x).ok()?, at.view(y).ok()?);
        let aligned = [from, to, scale, shift].iter().all(|address| address % 16 == 0);
        if !(grouped(x) && grouped(y) && aligned && extent % EACH == 0) {
            return None;
        }
        let (x_strides, y_strides) = (strides(x), strides(y));
        let even = rows.even(&x_strides).zip(rows.even(&y_strides));
        let ((x_first, x_step), (y_first, y_step)) = even.unwrap_or_default();
        let tiles = rows.count.div_ceil(THREADS / threads);
        let params = RowsParams {
            x: from.wrapping_add_signed(2 * x_first),
            y: to.wrapping_add_signed(2 * y_first),
            x_strides,
            y_strides,
            x_step,
            y_step,
            rows,
            scale,
            shift,
            extent,
            count: 1.0 / extent as f32,
            centre: self.centre(extent),
            epsilon: self.epsilon,
            tiles,
            padding: 0,
        };
        let full = extent == most && threads < THREADS;
        let function = format!("normalise_rows_{most}{}", if full { "_full" } else { "" });
        // No more blocks than find places at once: one that stays has its constants, and its next row on the way.
        let blocks = match at.multiprocessors.saturating_mul(resident[usize::from(full)]) {
            0 => tiles,
            places => tiles.min(places),
        };
        Some(Launch::new("normalise_rows", function, blocks, width, THREADS, &params))
    }

    /// The same for eight rows at once where they lie side by side on 16 bytes; `None` elsewhere.
    fn columns(&self, params: Params, mut rows: ElementBox) -> Option<Params> {
        let (step, strides) = (i64::from(EACH), &params.x.strides);
        let across = (0..MAX_RANK).find(|&a| a != self.axis && strides[a] == 1)?;
        let grouped = (0..MAX_RANK).all(|a| a == across || strides[a] % step == 0);
        let (first, beside) = (rows.start[across], rows.extents[across].divisor);
        if !(grouped && params.x.address.is_multiple_of(16) && first.is_multiple_of(EACH) && beside.is_multiple_of(EACH)) {
            return None;
        }
        let groups = beside / EACH;
        rows.count /= beside;
        rows.start[across] = 0;
        rows.extents[across] = Divisor::new(1);
        let frame = Frame {
            elements: rows,
            tiles: rows.count.checked_mul(groups)?,
            ..params.frame
        };
        Some(Params {
            frame,
            columns: 1,
            across: across as u32,
            first,
            groups: Divisor::new(groups),
            ..params
        })
    }
}

impl Kernel for Normalise {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (x, y) = (input(&self.operator, 0)?, output(&self.operator, 0)?);
        let rows = ElementBox::without(y, region, Some(self.axis))?;
        let extent = y.layout.shape.dim(self.axis);
        if rows.count == 0 || extent == 0 {
            return Ok(Vec::new());
        }
        if let Some(launch) = self.rows(at, x, rows, width) {
            return Ok(vec![launch]);
        }
        let halves = x.dtype == DType::F16;
        let block = if halves && extent > LONG_ROW { LONG_THREADS } else { THREADS };
        let own = match halves {
            true if extent > RUN => block,
            true => WARP,
            false => LANES,
        };
        let params = Params {
            frame: Frame::new(at, &self.operator, rows, block / own)?,
            x: DeviceView::new(at, x)?,
            extent,
            axis: self.axis as u32,
            epsilon: self.epsilon,
            count: 1.0 / extent as f32,
            centre: self.centre(extent),
            columns: 0,
            across: 0,
            first: 0,
            groups: Divisor::new(1),
            padding: 0,
        };
        let columns = self.columns(params, rows).filter(|_| halves);
        let (params, block) = columns.map_or((params, block), |columns| (columns, LONG_THREADS));
        let tiles = params.frame.tiles;
        Ok(vec![Launch::new("normalise", "normalise", tiles, width, block, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_have_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<Frame>() + 88 + 48);
        assert_eq!(std::mem::size_of::<RowsParams>(), 16 + 96 + 16 + 104 + 40);
    }
}
