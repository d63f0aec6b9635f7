//! Softmax of halves over two to eight elements, as over a pixel's channels: `kernels/softmax_few.cu`.

use super::frame::ElementBox;
use super::operands::{input, output};
use super::views::{Divisor, strides};
use super::{Addresses, BindError, Launch};
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Lengths of the rows: there are kernels for each.
const LENGTHS: std::ops::RangeInclusive<u32> = 2..=8;
/// Rows of a thread whose elements lie behind those of each other.
const FOUR: u32 = 4;
/// Bytes of an f16.
const HALF: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    y: u64,
    x_step: i64,
    y_step: i64,
    x_row: i64,
    y_row: i64,
    count: u32,
    whole: u32,
    used: u32,
    extents: [Divisor; MAX_RANK],
    padding: u32,
    x_strides: [i64; MAX_RANK],
    y_strides: [i64; MAX_RANK],
}

/// Rows behind each other that a thread takes: what fills 16 bytes where rows are as long as a power of two, else pieces of 8.
fn filled(extent: u32) -> u32 {
    match extent {
        2 | 4 | 8 => 8 / extent,
        6 => 2,
        _ => 4,
    }
}

/// Bytes that the first row of the rows of [`filled`] has to lie on.
fn alignment(extent: u32) -> u64 {
    if extent.is_power_of_two() { 16 } else { 8 }
}

/// Where elements lie in a tensor of halves.
struct Places {
    address: u64,
    strides: [i64; MAX_RANK],
}

/// The axis along which neighbouring rows' elements lie behind each other in both tensors, in whole fours.
fn along(tensors: [&Places; 2], rows: &ElementBox, axis: usize) -> Option<usize> {
    let fours = |t: &Places, fast: usize| {
        let mut others = (0..MAX_RANK).filter(|&a| a != fast && (a == axis || rows.extents[a].divisor > 1));
        others.all(|a| t.strides[a] % i64::from(FOUR) == 0)
    };
    let is_fast = |&a: &usize| {
        let whole = rows.extents[a].divisor.is_multiple_of(FOUR);
        a != axis && whole && tensors.iter().all(|t| t.strides[a] == 1 && fours(t, a))
    };
    (0..MAX_RANK).find(is_fast)
}

/// The kernel, its parameters and the rows of a thread; `None` for rows of other lengths, and for those at no even distance whose
/// neighbours do not lie behind each other.
fn form(tensors: [&Places; 2], rows: &ElementBox, axis: usize, extent: u32) -> Option<(&'static str, Params, u32)> {
    if !LENGTHS.contains(&extent) {
        return None;
    }
    let [x, y] = tensors;
    let first = |t: &Places| (0..MAX_RANK).map(|a| i64::from(rows.start[a]) * t.strides[a]).sum::<i64>();
    let [from, to] = tensors.map(|t| t.address.wrapping_add_signed(first(t) * HALF as i64));
    let mut params = Params {
        x: from,
        y: to,
        x_step: x.strides[axis],
        y_step: y.strides[axis],
        count: rows.count,
        ..Params::zeroed()
    };
    let steps = [params.x_step, params.y_step] == [1; 2];
    let lie_on = |bytes: u64| from.is_multiple_of(bytes) && to.is_multiple_of(bytes);
    let even = rows.even(&x.strides).zip(rows.even(&y.strides));
    let apart = even.map(|((_, x_row), (_, y_row))| [x_row, y_row]);
    if steps && apart == Some([i64::from(extent); 2]) && lie_on(alignment(extent)) {
        return Some(("softmax_few", params, filled(extent)));
    }
    if let Some(fast) = along(tensors, rows, axis).filter(|_| lie_on(u64::from(FOUR) * HALF)) {
        params.count /= FOUR;
        // Neighbouring threads have neighbouring fours.
        for axis in [fast].into_iter().chain((0..MAX_RANK).rev().filter(|&a| a != fast)) {
            let together = if axis == fast { FOUR } else { 1 };
            let positions = rows.extents[axis].divisor / together;
            if positions > 1 {
                let at = params.used as usize;
                params.extents[at] = Divisor::new(positions);
                params.x_strides[at] = x.strides[axis] * i64::from(together);
                params.y_strides[at] = y.strides[axis] * i64::from(together);
                params.used += 1;
            }
        }
        return Some(("softmax_planes", params, 1));
    }
    let [x_row, y_row] = apart?;
    let whole = steps && lie_on(u64::from(extent) * HALF) && [x_row, y_row].iter().all(|r| r % i64::from(extent) == 0);
    (params.x_row, params.y_row, params.whole) = (x_row, y_row, u32::from(whole));
    Some(("softmax_apart", params, 1))
}

/// The launch of rows of halves without a tail; `None` for what the kernels do not take.
pub fn launch(at: &Addresses<'_>, operator: &Operator, rows: &ElementBox, axis: usize, width: u16) -> Result<Option<Launch>, BindError> {
    let (from, to) = (input(operator, 0)?, output(operator, 0)?);
    if operator.calls.len() != 1 || [from.dtype, to.dtype] != [DType::F16; 2] {
        return Ok(None);
    }
    let places = |view| -> Result<Places, BindError> {
        Ok(Places {
            address: at.view(view)?,
            strides: strides(view),
        })
    };
    let extent = to.layout.shape.dim(axis);
    Ok(
        form([&places(from)?, &places(to)?], rows, axis, extent).map(|(kernel, params, each)| {
            let tiles = params.count.div_ceil(each).div_ceil(THREADS);
            Launch::new("softmax_few", format!("{kernel}_{extent}"), tiles, width, THREADS, &params)
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 48 + 12 + 72 + 4 + 96);
        let source = include_str!("../kernels/softmax_few.cu");
        for line in [format!("THREADS = {THREADS};"), format!("FOUR = {FOUR};")] {
            assert!(source.contains(&line), "{line}");
        }
        for extent in LENGTHS {
            for kind in ["few", "planes", "apart"] {
                let line = format!("(softmax_{kind}_{extent}, {extent})");
                assert!(source.contains(&line), "{line}");
            }
            let bytes = u64::from(filled(extent) * extent) * HALF;
            assert!(bytes.is_multiple_of(alignment(extent)), "{extent}: {bytes} bytes of a thread");
        }
    }

    /// The kernel of a softmax along an axis of a tensor of such strides, whole, and its parameters.
    fn of(extents: [u32; MAX_RANK], strides: [i64; MAX_RANK], axis: usize, address: u64) -> Option<(&'static str, Params)> {
        let mut others = extents;
        others[axis] = 1;
        let rows = ElementBox {
            count: others.iter().product(),
            channels_last: u32::from(strides[1] == 1 && extents[1] > 1),
            start: [0; MAX_RANK],
            extents: others.map(Divisor::new),
        };
        let places = Places { address, strides };
        form([&places, &places], &rows, axis, extents[axis]).map(|(kernel, params, _)| (kernel, params))
    }

    #[test]
    fn rows_that_lie_behind_each_other_fill_pieces() {
        let pixels = |channels: u32, pitch: i64, address: u64| {
            let strides = [40 * 30 * pitch, 40 * pitch, pitch, 1, 0, 0];
            of([2, 30, 40, channels, 1, 1], strides, 3, address).unwrap()
        };
        assert_eq!(pixels(4, 4, 64).0, "softmax_few");
        assert_eq!(pixels(3, 3, 72).0, "softmax_few");
        assert_eq!(pixels(4, 4, 72).0, "softmax_apart", "between 16 bytes");
        let (name, params) = pixels(4, 8, 64);
        assert_eq!((name, params.x_row, params.whole), ("softmax_apart", 8, 1));
        assert_eq!(pixels(4, 6, 64).1.whole, 0, "between 8 bytes");
        assert_eq!(pixels(3, 8, 64).0, "softmax_apart");
    }

    #[test]
    fn neighbours_behind_each_other_are_taken_by_fours() {
        // Two samples of 5 planes of 30 by 40; the same where channels are innermost, and the rows are along the last axis.
        let (name, params) = of([2, 5, 30, 40, 1, 1], [6000, 1200, 40, 1, 0, 0], 1, 64).unwrap();
        assert_eq!((name, params.used, params.count), ("softmax_planes", 3, 2 * 30 * 10));
        assert_eq!((params.extents[0].divisor, params.x_strides[..3].to_vec()), (10, vec![4, 40, 6000]));
        let (name, params) = of([1, 512, 30, 4, 1, 1], [0, 1, 2048, 512, 0, 0], 3, 64).unwrap();
        assert_eq!((name, params.used, params.x_step), ("softmax_planes", 2, 512));
        assert_eq!((params.extents[0].divisor, params.x_strides[..2].to_vec()), (128, vec![4, 2048]));
        assert!(
            of([2, 5, 30, 39, 1, 1], [5850, 1170, 39, 1, 0, 0], 1, 64).is_none(),
            "no whole fours"
        );
        let (name, params) = of([1, 5, 30, 39, 1, 1], [0, 1170, 39, 1, 0, 0], 1, 64).unwrap();
        assert_eq!(
            (name, params.x_row, params.count),
            ("softmax_apart", 1, 1170),
            "at an even distance"
        );
        assert!(
            of([2, 5, 30, 40, 1, 1], [6000, 1200, 40, 1, 0, 0], 1, 68).is_none(),
            "between 8 bytes"
        );
        assert!(of([2, 9, 30, 40, 1, 1], [10800, 1200, 40, 1, 0, 0], 1, 64).is_none(), "too long");
    }
}
