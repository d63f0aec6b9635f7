//! Softmax along any axis: `kernels/softmax.cu`, and without a tail `kernels/softmax_rows.cu` and `kernels/softmax_short.cu` for rows
//! that registers hold, of halves over few elements `kernels/softmax_few.cu`.

use super::frame::{ElementBox, Frame, THREADS};
use super::operands::{check, head, input, output};
use super::views::{DeviceView, strides};
use super::{Addresses, BindError, Kernel, Launch, expectation, softmax_few, softmax_long};
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::primitive::{Primitive, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a row.
const LANES: u32 = 16;
/// Most elements of rows that a thread keeps: there is a kernel for each.
const SHORT: [u32; 4] = [4, 8, 16, 32];
/// Elements from which on threads share a row that one could keep, unless rows alone keep the GPU busy.
const FEWEST_SHARED: u32 = 9;
/// Most elements of rows that threads keep together, and how many threads: there is a kernel for each.
const ROWS: [(u32, u32); 6] = [(32, 16), (64, 16), (128, 32), (256, 32), (512, 32), (1024, 32)];
/// Elements from which on a block a row is faster, where there are no more rows than multiprocessors.
const LONG: u32 = 257;
/// Threads of a long row, and most of them where there are no more rows than multiprocessors.
const WIDE_THREADS: u32 = 256;
const ALONE_THREADS: u32 = 1024;
/// Lengths of the rows that a block takes: what keeps its threads busy, and fits the shared memory that every GPU has.
const WIDE: std::ops::RangeInclusive<u32> = 128..=8192;

/// Of rows with any tail.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Params {
    pub(super) frame: Frame,
    x: DeviceView,
    x_step: i64,
    y_step: i64,
    pub(super) extent: u32,
    axis: u32,
}

/// Of rows without a tail.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RowsParams {
    x: u64,
    y: u64,
    x_row: i64,
    y_row: i64,
    x_step: i32,
    y_step: i32,
    extent: u32,
    tiles: u32,
    x_dtype: u32,
    padding: u32,
    rows: ElementBox,
    x_strides: [i64; MAX_RANK],
    y_strides: [i64; MAX_RANK],
}

struct Softmax {
    operator: Operator,
    axis: usize,
}

/// Compiles a softmax with any tail, or an expectation.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let axis = match head(operator)?.primitive {
        Primitive::Softmax { axis } => axis,
        Primitive::Expectation { axis } => return expectation::compile(operator, usize::from(axis)),
        _ => return Err(BindError::Tactic("it is no softmax")),
    };
    Ok(Box::new(Softmax {
        operator: operator.clone(),
        axis: usize::from(axis),
    }))
}

impl Softmax {
    /// The launch of rows that threads keep together; `None` where others are faster, or take any tail.
    fn rows(&self, at: &Addresses<'_>, rows: ElementBox, width: u16) -> Result<Option<Launch>, BindError> {
        let (from, to) = (input(&self.operator, 0)?, output(&self.operator, 0)?);
        let extent = to.layout.shape.dim(self.axis);
        let few = rows.count <= at.multiprocessors;
        let busy = rows.count > at.multiprocessors.saturating_mul(THREADS);
        let kept = SHORT.iter().any(|&most| extent <= most);
        let others =
            self.operator.calls.len() > 1 || to.dtype != DType::F16 || few && extent >= LONG || kept && (busy || extent < FEWEST_SHARED);
        let Some((most, lanes)) = ROWS.into_iter().find(|&(most, _)| extent <= most && !others) else {
            return Ok(None);
        };
        let (x, y) = (DeviceView::new(at, from)?, DeviceView::new(at, to)?);
        let (x_strides, y_strides) = (strides(from), strides(to));
        let (Ok(x_step), Ok(y_step)) = (i32::try_from(x_strides[self.axis]), i32::try_from(y_strides[self.axis])) else {
            return Ok(None);
        };
        let even = rows.even(&x_strides).zip(rows.even(&y_strides));
        let ((x_first, x_row), (y_first, y_row)) = even.unwrap_or_default();
        let params = RowsParams {
            x: x.address.wrapping_add_signed(x_first * from.dtype.bytes() as i64),
            y: y.address.wrapping_add_signed(y_first * to.dtype.bytes() as i64),
            x_row,
            y_row,
            x_step,
            y_step,
            extent,
            tiles: rows.count.div_ceil(THREADS / lanes),
            x_dtype: x.dtype,
            padding: 0,
            rows,
            x_strides,
            y_strides,
        };
        let function = format!("softmax_rows_{most}");
        Ok(Some(Launch::new("softmax_rows", function, params.tiles, width, THREADS, &params)))
    }
}

impl Kernel for Softmax {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let y = output(&self.operator, 0)?;
        let rows = ElementBox::without(y, region, Some(self.axis))?;
        if rows.count == 0 || y.layout.shape.dim(self.axis) == 0 {
            return Ok(Vec::new());
        }
        let extent = y.layout.shape.dim(self.axis);
        if let Some(launch) = softmax_few::launch(at, &self.operator, &rows, self.axis, width)? {
            return Ok(vec![launch]);
        }
        if let Some(launch) = self.rows(at, rows, width)? {
            return Ok(vec![launch]);
        }
        let wide = WIDE.contains(&extent);
        let short = SHORT
            .into_iter()
            .find(|&most| extent <= most)
            .filter(|_| self.operator.calls.len() == 1);
        let long = extent > *WIDE.end();
        let rows_of_tile = match short {
            Some(_) => THREADS,
            None if wide || long => 1,
            None => THREADS / LANES,
        };
        let frame = Frame::new(at, &self.operator, rows, rows_of_tile)?;
        let x = DeviceView::new(at, input(&self.operator, 0)?)?;
        let params = Params {
            frame,
            x,
            x_step: x.strides[self.axis],
            y_step: frame.y.strides[self.axis],
            extent: x.extents[self.axis],
            axis: self.axis as u32,
        };
        if let Some(most) = short {
            let function = format!("softmax_{most}");
            return Ok(vec![Launch::new("softmax_short", function, frame.tiles, width, THREADS, &params)]);
        }
        if wide {
            // A row's bits are the same with any number of threads.
            let threads = match frame.tiles <= at.multiprocessors {
                true => extent.next_multiple_of(32).clamp(WIDE_THREADS, ALONE_THREADS),
                false => WIDE_THREADS,
            };
            return Ok(vec![Launch {
                shared: params.extent * 4,
                ..Launch::new("softmax", "softmax_wide", frame.tiles, width, threads, &params)
            }]);
        }
        if long {
            return Ok(vec![softmax_long::launch(at, params, width)?]);
        }
        Ok(vec![Launch::new("softmax", "softmax", frame.tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<Frame>() + 88 + 24);
        assert_eq!(std::mem::size_of::<RowsParams>(), 32 + 24 + 104 + 96);
        let most = format!("constexpr u32 WIDE_THREADS = {ALONE_THREADS};");
        assert!(include_str!("../kernels/softmax.cu").contains(&most));
    }
}
