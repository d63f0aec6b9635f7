//! Means of values weighed by a softmax: `kernels/expectation.cu`.

use super::frame::{ElementBox, THREADS};
use super::operands::{input, output};
use super::views::strides;
use super::{Addresses, BindError, Kernel, Launch};
use crate::limits::MAX_RANK;
use crate::plan::format::{Operator, Space};
use crate::primitive::Region;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Most elements of rows that a thread keeps: there is a kernel for each.
const SHORT: [u32; 3] = [8, 16, 32];

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    y: u64,
    values: u64,
    x_step: i64,
    values_step: i64,
    extent: u32,
    tiles: u32,
    constant: u32,
    padding: u32,
    rows: ElementBox,
    x_strides: [i64; MAX_RANK],
    y_strides: [i64; MAX_RANK],
}

struct Expectation {
    operator: Operator,
    axis: usize,
}

/// Compiles an expectation along an axis, whose operands are checked.
pub fn compile(operator: &Operator, axis: usize) -> Result<Box<dyn Kernel>, BindError> {
    if operator.calls.len() > 1 {
        return Err(BindError::Tactic("nothing may follow it"));
    }
    Ok(Box::new(Expectation {
        operator: operator.clone(),
        axis,
    }))
}

/// The axes with those of the shortest steps in `x` last, and of equal ones those of the shortest in `y`: the order in which
/// neighbouring threads read what lies near.
fn nearest_last(x: &[i64; MAX_RANK], y: &[i64; MAX_RANK]) -> [usize; MAX_RANK] {
    let mut order: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
    order.sort_by_key(|&axis| std::cmp::Reverse((x[axis].unsigned_abs(), y[axis].unsigned_abs())));
    order
}

impl Kernel for Expectation {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (x, values, y) = (input(&self.operator, 0)?, input(&self.operator, 1)?, output(&self.operator, 0)?);
        let rows = ElementBox::new(y, region)?;
        if rows.count == 0 {
            return Ok(Vec::new());
        }
        let (x_strides, y_strides) = (strides(x), strides(y));
        let order = nearest_last(&x_strides, &y_strides);
        let extent = x.layout.shape.dim(self.axis);
        let buffer = at.plan.buffers.get(values.buffer.index()).ok_or(BindError::Reference)?;
        let params = Params {
            x: at.view(x)?,
            y: at.view(y)?,
            values: at.view(values)?,
            x_step: x_strides[self.axis],
            values_step: strides(values)[0],
            extent,
            tiles: rows.count.div_ceil(THREADS),
            constant: u32::from(matches!(buffer.space, Space::Weights(_))),
            padding: 0,
            rows: ElementBox {
                channels_last: 0,
                start: order.map(|axis| rows.start[axis]),
                extents: order.map(|axis| rows.extents[axis]),
                ..rows
            },
            x_strides: order.map(|axis| x_strides[axis]),
            y_strides: order.map(|axis| y_strides[axis]),
        };
        let of = if y.dtype == DType::F16 { "halves" } else { "floats" };
        let function = match SHORT.into_iter().find(|&most| extent <= most) {
            Some(most) => format!("expectation_{of}_{most}"),
            None => format!("expectation_{of}"),
        };
        Ok(vec![Launch::new("expectation", function, params.tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 56 + 104 + 96);
    }

    #[test]
    fn rows_have_numbers_in_the_order_in_which_they_lie() {
        // Sixteen bins of each of four sides of an anchor, side by side.
        let (x, y) = ([0, 1, 16, 64, 0, 0], [0, 0, 8400, 1, 0, 0]);
        assert_eq!(nearest_last(&x, &y)[..3], [3, 2, 1]);
        // In planes.
        let (x, y) = ([134_400, 8400, 2100, 1, 0, 0], [8400, 0, 2100, 1, 0, 0]);
        assert_eq!(nearest_last(&x, &y)[..4], [0, 1, 2, 3]);
    }
}
