//! Softmax along any axis: `kernels/softmax.cu`, and `kernels/softmax_short.cu` for few elements.

use super::frame::{ElementBox, Frame, THREADS};
use super::operands::{check, head, input, output};
use super::views::DeviceView;
use super::{Addresses, BindError, Kernel, Launch};
use crate::plan::format::Operator;
use crate::primitive::{Primitive, Region};
use bytemuck::{Pod, Zeroable};

/// Threads of a row.
const LANES: u32 = 16;
/// Most elements of rows that a thread keeps: there is a kernel for each.
const SHORT: [u32; 4] = [4, 8, 16, 32];
/// Threads of a long row, and most of them where there are no more rows than multiprocessors.
const WIDE_THREADS: u32 = 256;
const ALONE_THREADS: u32 = 1024;
/// Lengths of the rows that a block takes: what keeps its threads busy, and fits the shared memory that every GPU has.
const WIDE: std::ops::RangeInclusive<u32> = 128..=8192;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: Frame,
    x: DeviceView,
    x_step: i64,
    y_step: i64,
    extent: u32,
    axis: u32,
}

struct Softmax {
    operator: Operator,
    axis: usize,
}

/// Compiles a softmax with any tail.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Softmax { axis } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no softmax"));
    };
    Ok(Box::new(Softmax {
        operator: operator.clone(),
        axis: usize::from(axis),
    }))
}

impl Kernel for Softmax {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let y = output(&self.operator, 0)?;
        let rows = ElementBox::without(y, region, Some(self.axis))?;
        if rows.count == 0 || y.layout.shape.dim(self.axis) == 0 {
            return Ok(Vec::new());
        }
        let extent = y.layout.shape.dim(self.axis);
        let wide = WIDE.contains(&extent);
        let short = SHORT
            .into_iter()
            .find(|&most| extent <= most)
            .filter(|_| self.operator.calls.len() == 1);
        let rows_of_tile = match short {
            Some(_) => THREADS,
            None if wide => 1,
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
        Ok(vec![Launch::new("softmax", "softmax", frame.tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<Frame>() + 88 + 24);
        let most = format!("constexpr u32 WIDE_THREADS = {ALONE_THREADS};");
        assert!(include_str!("../kernels/softmax.cu").contains(&most));
    }
}
