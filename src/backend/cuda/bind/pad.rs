//! Padding, behind which nothing follows: `kernels/pad.cu`. Units of neighbours that are padded along other axes, or pieces of rows that
//! are padded themselves.

use super::frame::ElementBox;
use super::operands::{head, input, output};
use super::views::{DeviceView, Divisor, PIECE};
use super::{Addresses, BindError, Launch, count};
use crate::backend::taps;
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::primitive::{PadMode, Primitive, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};
use half::f16;

/// Threads of a block.
const THREADS: u32 = 256;
/// Units that a thread moves at once where there are many, and blocks of a multiprocessor from which on there are.
const FOURS: u32 = 4;
const RESIDENT: u32 = 8;
/// Bytes of a row from which on it is written in pieces, and how many units each of them is to save.
const ROW: u64 = 64;
const FEWER: u64 = 3;
/// Positions from which on the kernel's numbers do not hold them.
const MOST: i64 = 1 << 30;
/// Kernels by the bytes of a unit: of one a thread, and of several.
const UNITS: [(u64, &str, &str); 5] = [
    (16, "pad_units_16", "pad_units_16_fours"),
    (8, "pad_units_8", "pad_units_8_fours"),
    (4, "pad_units_4", "pad_units_4_fours"),
    (2, "pad_units_2", "pad_units_2_fours"),
    (1, "pad_units_1", "pad_units_1_fours"),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PadAxis {
    pub positions: Divisor,
    pub around: Divisor,
    pub first: i32,
    pub limit: u32,
    pub x_step: i32,
    pub y_step: i32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Params {
    pub x: u64,
    pub y: u64,
    pub low: u64,
    pub high: u64,
    pub mode: u32,
    pub outside: u32,
    pub count: u32,
    pub tiles: u32,
    pub pieces: Divisor,
    pub group: Divisor,
    pub length: u32,
    pub used: u32,
    pub axes: [PadAxis; MAX_RANK],
}

/// An axis of a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    /// Positions of the output.
    extent: i64,
    /// The input's position at the output's first.
    first: i64,
    /// Positions of the input.
    limit: i64,
    /// Some of the output's positions are outside the input.
    padded: bool,
    /// Strides in elements.
    x: i64,
    y: i64,
}

/// A chunk's padding, innermost axis of the output first; axes that lie behind each other in both tensors and are not padded are one.
struct Padding {
    mode: PadMode,
    dtype: DType,
    x: u64,
    y: u64,
    low: u64,
    high: u64,
    axes: Vec<Axis>,
}

/// The launch of a chunk; `None` for what the kernel does not take.
pub fn launch(at: &Addresses<'_>, operator: &Operator, region: &Region, width: u16) -> Result<Option<Launch>, BindError> {
    let Primitive::Pad { mode, begin } = head(operator)?.primitive else {
        return Ok(None);
    };
    if operator.calls.len() != 1 {
        return Ok(None);
    }
    let elements = ElementBox::new(output(operator, 0)?, region)?;
    let padding = Padding::new(at, operator, (mode, &begin), &elements)?;
    let Some(params) = padding.map(|p| p.params(elements.count, at.rooms())) else {
        return Ok(None);
    };
    Ok(params.map(|(function, params)| Launch::new("pad", function, params.tiles, width, THREADS, &params)))
}

impl Padding {
    fn new(
        at: &Addresses<'_>,
        operator: &Operator,
        (mode, begin): (PadMode, &[i32; MAX_RANK]),
        elements: &ElementBox,
    ) -> Result<Option<Padding>, BindError> {
        let (from, to) = (input(operator, 0)?, output(operator, 0)?);
        let (x, y) = (DeviceView::new(at, from)?, DeviceView::new(at, to)?);
        let bytes = from.dtype.bytes() as i64;
        let reach = |a: usize| x.strides[a] * (i64::from(x.extents[a]) - 1).max(0);
        let [low, high] = [0, 1].map(|side| {
            (0..MAX_RANK)
                .map(|a| if side == 0 { reach(a).min(0) } else { reach(a).max(0) })
                .sum::<i64>()
        });
        let mut padding = Padding {
            mode,
            dtype: from.dtype,
            x: x.address,
            y: y.address,
            low: x.address.wrapping_add_signed(low * bytes),
            high: x.address.wrapping_add_signed((high + 1) * bytes),
            axes: Vec::new(),
        };
        let constant = matches!(mode, PadMode::Constant(_));
        for (axis, &before) in begin.iter().enumerate().take(from.layout.shape.rank()) {
            let (start, limit) = (i64::from(elements.start[axis]), i64::from(x.extents[axis]));
            let mut found = Axis {
                extent: i64::from(elements.extents[axis].divisor),
                first: start - i64::from(before),
                limit,
                padded: true,
                x: x.strides[axis],
                y: y.strides[axis],
            };
            if limit == 0 && !constant {
                return Ok(None);
            }
            padding.y = padding.y.wrapping_add_signed(start * found.y * bytes);
            if found.extent == 1 {
                found.first = taps::padded(mode, found.first, limit).map_or(-1, i64::from);
            }
            if found.first >= 0 && found.first + found.extent <= limit {
                padding.x = padding.x.wrapping_add_signed(found.first * found.x * bytes);
                (found.first, found.limit, found.padded) = (0, found.extent, false);
                if found.extent == 1 {
                    continue;
                }
            }
            if matches!(mode, PadMode::Wrap) {
                found.first = found.first.rem_euclid(found.limit);
            }
            if found.limit <= 1 {
                found.x = found.y;
            }
            padding.axes.push(found);
        }
        padding.axes.sort_by_key(|a| (a.extent == 1, a.y.unsigned_abs()));
        padding.axes = joined(&padding.axes);
        Ok(Some(padding))
    }

    /// The kernel for a chunk of `elements` and its parameters; `None` where its numbers do not hold them.
    fn params(&self, elements: u32, rooms: u32) -> Option<(&'static str, Params)> {
        let reach = |step: fn(&Axis) -> (i64, i64)| {
            let over = |a: &Axis| {
                let (extent, stride) = step(a);
                (extent - 1).max(0).checked_mul(stride.unsigned_abs() as i64)
            };
            self.axes
                .iter()
                .try_fold(0i64, |all, a| all.checked_add(over(a)?))
                .filter(|&all| all < MOST)
        };
        let held = |a: &Axis| a.first.abs() < MOST && a.extent < MOST && a.limit < MOST;
        if i64::from(elements) >= MOST || !self.axes.iter().all(held) {
            return None;
        }
        reach(|a| (a.limit, a.x)).and(reach(|a| (a.extent, a.y)))?;
        let bytes = self.dtype.bytes();
        let units = UNITS.into_iter().find(|&(unit, ..)| unit == bytes || self.in_units(unit / bytes))?;
        match self.rows(units.0) {
            Some((group, axes)) => self.in_rows(group, axes),
            None => self.by_units(units, elements, rooms),
        }
    }

    /// True if whole units of so many elements lie in one piece on both sides.
    fn in_units(&self, each: u64) -> bool {
        let Some((inner, others)) = self.axes.split_first().filter(|_| each > 0) else {
            return false;
        };
        let whole = |n: i64| n.unsigned_abs().is_multiple_of(each);
        let moved = !inner.padded || matches!(self.mode, PadMode::Constant(_));
        let along = moved && [inner.x, inner.y] == [1, 1] && [inner.extent, inner.first, inner.limit].into_iter().all(whole);
        let unit = each * self.dtype.bytes();
        along && others.iter().all(|a| whole(a.x) && whole(a.y)) && [self.x, self.y].iter().all(|a| a.is_multiple_of(unit))
    }

    /// Neighbours that are one position of a row, and the row's axis in front of the others: of rows that are few pieces beside units of
    /// so many bytes.
    fn rows(&self, unit: u64) -> Option<(i64, &[Axis])> {
        let (inner, others) = self.axes.split_first().filter(|(inner, _)| [inner.x, inner.y] == [1, 1])?;
        let pixels = others
            .first()
            .filter(|outer| !inner.padded && [outer.x, outer.y] == [inner.extent; 2]);
        let found = match pixels {
            Some(_) => (inner.extent, others),
            None => (1, &*self.axes),
        };
        let length = (found.0 * found.1[0].extent) as u64;
        let bytes = length * self.dtype.bytes();
        (bytes >= ROW && FEWER * self.pieces(length) <= bytes / unit).then_some(found)
    }

    /// Pieces of a row of so many elements: one that begins between them may reach into one more.
    fn pieces(&self, length: u64) -> u64 {
        let each = PIECE / self.dtype.bytes();
        (length + each - 1).div_ceil(each)
    }

    fn in_rows(&self, group: i64, axes: &[Axis]) -> Option<(&'static str, Params)> {
        let length = (group * axes[0].extent) as u64;
        let pieces = self.pieces(length) as u32;
        let lines = axes[1..].iter().map(|a| a.extent as u32);
        let count = count(lines.chain([pieces]), "a chunk").ok()?;
        let function = match self.dtype.bytes() {
            1 => "pad_rows_1",
            2 => "pad_rows_2",
            _ => "pad_rows_4",
        };
        let params = Params {
            pieces: Divisor::new(pieces),
            group: Divisor::new(group as u32),
            length: length as u32,
            count,
            tiles: count.div_ceil(THREADS),
            ..self.common(axes, 1)
        };
        Some((function, params))
    }

    fn by_units(&self, (unit, one, fours): (u64, &'static str, &'static str), elements: u32, rooms: u32) -> Option<(&'static str, Params)> {
        let each = unit / self.dtype.bytes();
        let count = elements / each as u32;
        let many = count.div_ceil(THREADS) > rooms.saturating_mul(RESIDENT);
        let (function, run) = if many { (fours, FOURS) } else { (one, 1) };
        let params = Params {
            count,
            tiles: count.div_ceil(THREADS * run),
            ..self.common(&self.axes, each as i64)
        };
        Some((function, params))
    }

    /// What all kernels are told, in units of so many elements.
    fn common(&self, axes: &[Axis], each: i64) -> Params {
        let mut params = Params {
            x: self.x,
            y: self.y,
            low: self.low,
            high: self.high,
            mode: match self.mode {
                PadMode::Constant(_) => 0,
                PadMode::Reflect => 1,
                PadMode::Edge => 2,
                PadMode::Wrap => 3,
            },
            outside: match self.mode {
                PadMode::Constant(value) => repeated(self.dtype, value.0),
                _ => 0,
            },
            used: axes.len() as u32,
            ..Params::zeroed()
        };
        for (index, (to, a)) in params.axes.iter_mut().zip(axes).enumerate() {
            // Along the innermost axis the positions are of units, along the others the steps.
            let (each, step) = if index == 0 { (each, 1) } else { (1, each) };
            *to = PadAxis {
                positions: Divisor::new((a.extent / each) as u32),
                around: Divisor::new((a.limit / each) as u32),
                first: (a.first / each) as i32,
                limit: (a.limit / each) as u32,
                x_step: (a.x / step) as i32,
                y_step: (a.y / step) as i32,
            };
        }
        params
    }
}

/// The bits of a value of `dtype`, again and again in a word.
fn repeated(dtype: DType, value: f32) -> u32 {
    match dtype {
        DType::F32 => value.to_bits(),
        DType::F16 => u32::from(f16::from_f32(value).to_bits()) * 0x0001_0001,
        DType::I32 => (value as i32).cast_unsigned(),
        DType::U8 => u32::from(value as i32 as u8) * 0x0101_0101,
        DType::Bool => u32::from(value as i32 != 0) * 0x0101_0101,
    }
}

/// Axes, innermost first, with those joined that are not padded and lie behind the one before in both tensors.
fn joined(axes: &[Axis]) -> Vec<Axis> {
    let mut all: Vec<Axis> = Vec::new();
    for axis in axes {
        match all.last_mut() {
            Some(inner) if !inner.padded && !axis.padded && [axis.x, axis.y] == [inner.x, inner.y].map(|stride| stride * inner.extent) => {
                (inner.extent, inner.limit) = (inner.extent * axis.extent, inner.limit * axis.extent);
            }
            _ => all.push(*axis),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!((size_of::<PadAxis>(), size_of::<Params>()), (40, 80 + MAX_RANK * 40));
        let source = include_str!("../kernels/pad.cu");
        for line in [format!("PAD_THREADS = {THREADS};"), format!("PAD_BYTES = {PIECE};")] {
            assert!(source.contains(&line), "{line}");
        }
        for (_, one, fours) in UNITS {
            assert!(source.contains(&format!("({one}, ")) && source.contains(&format!("({fours}, ")));
        }
    }
}
