//! Layer normalisation along any axis: `kernels/normalise.cu`, and `kernels/normalise_wide.cu` for long rows.

use super::generic::{ElementBox, Frame, THREADS, check, head, input, output};
use super::views::{DeviceView, dtype_number, strides};
use super::{Addresses, BindError, Kernel, Launch};
use crate::limits::MAX_RANK;
use crate::plan::format::{Call, Operand, Operator, Rounding, Space};
use crate::primitive::{Binary, Primitive, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a row.
const LANES: u32 = 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: Frame,
    x: DeviceView,
    extent: u32,
    axis: u32,
    epsilon: f32,
    padding: u32,
}

/// The same for rows of halves, scaled and shifted by constants.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct AffineParams {
    frame: Frame,
    x: DeviceView,
    scale: u64,
    shift: u64,
    extent: u32,
    epsilon: f32,
}

/// Most elements of a row for which there is a kernel of such rows; the last is the longest.
const AFFINE_ROWS: [u32; 2] = [64, 256];
/// Most elements of longer rows, which a block of so many threads keeps in the shared memory that every GPU has.
const WIDE_ROW: u32 = 8192;
const WIDE_THREADS: u32 = 128;

impl AffineParams {
    /// The parameters of an operator of this form; `None` for others.
    fn of(at: &Addresses<'_>, operator: &Operator, params: &Params) -> Option<AffineParams> {
        let axis = params.axis as usize;
        let halves = dtype_number(DType::F16);
        let side_by_side = |view: &DeviceView| view.dtype == halves && (view.strides[axis] == 1 || params.extent == 1);
        let rows = side_by_side(&params.frame.y) && side_by_side(&params.x);
        let rounded = operator
            .calls
            .iter()
            .all(|c| c.dtype == DType::F16 && c.rounding == Rounding::Rounded);
        let [_, mul, add] = operator.calls.as_slice() else {
            return None;
        };
        let constant = |call: &Call, kind: Binary, value: u8| {
            let (Operand::View(view), true) = (other(call, value)?, call.primitive == Primitive::Binary(kind)) else {
                return None;
            };
            let buffer = at.plan.buffers.get(view.buffer.index())?;
            let constant = matches!(buffer.space, Space::Weights(_)) && view.dtype == DType::F16;
            let strides = strides(&view);
            let alike = (0..MAX_RANK).all(|a| strides[a] == i64::from(a == axis && params.extent > 1));
            at.view(&view).ok().filter(|_| constant && alike)
        };
        let (scale, shift) = (constant(mul, Binary::Mul, 0)?, constant(add, Binary::Add, 1)?);
        let affine = AffineParams {
            frame: params.frame,
            x: params.x,
            scale,
            shift,
            extent: params.extent,
            epsilon: params.epsilon,
        };
        (rows && rounded).then_some(affine)
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
}

/// Compiles a normalisation with any tail of floats.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Normalise { axis, epsilon } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no normalisation"));
    };
    Ok(Box::new(Normalise {
        operator: operator.clone(),
        axis: usize::from(axis),
        epsilon: epsilon.0,
    }))
}

impl Kernel for Normalise {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let y = output(&self.operator, 0)?;
        let rows = ElementBox::without(y, region, Some(self.axis))?;
        let extent = y.layout.shape.dim(self.axis);
        if rows.count == 0 || extent == 0 {
            return Ok(Vec::new());
        }
        let params = Params {
            frame: Frame::new(at, &self.operator, rows, THREADS / LANES)?,
            x: DeviceView::new(at, input(&self.operator, 0)?)?,
            extent,
            axis: self.axis as u32,
            epsilon: self.epsilon,
            padding: 0,
        };
        let tiles = params.frame.tiles;
        let Some(affine) = AffineParams::of(at, &self.operator, &params).filter(|p| p.extent <= WIDE_ROW) else {
            return Ok(vec![Launch::new("normalise", "normalise", tiles, width, THREADS, &params)]);
        };
        if let Some(longest) = AFFINE_ROWS.into_iter().find(|&most| extent <= most) {
            let function = format!("normalise_affine_{longest}");
            return Ok(vec![Launch::new("normalise", function, tiles, width, THREADS, &affine)]);
        }
        let rows = ElementBox::without(y, region, Some(self.axis))?;
        let params = AffineParams {
            frame: Frame::new(at, &self.operator, rows, 1)?,
            ..affine
        };
        Ok(vec![Launch {
            shared: 4 * extent,
            ..Launch::new("normalise_wide", "normalise_wide", params.frame.tiles, width, WIDE_THREADS, &params)
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        let frame = std::mem::size_of::<Frame>();
        assert_eq!(std::mem::size_of::<Params>(), frame + 88 + 16);
        assert_eq!(std::mem::size_of::<AffineParams>(), frame + 88 + 24);
    }
}
