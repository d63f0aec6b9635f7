//! Layer normalisation along any axis: `kernels/normalise.cu`.

use super::generic::{ElementBox, Frame, THREADS, check, head, input, output};
use super::views::DeviceView;
use super::{Addresses, BindError, Kernel, Launch};
use crate::plan::format::Operator;
use crate::primitive::{Primitive, Region};
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
        let frame = Frame::new(at, &self.operator, rows, THREADS / LANES)?;
        let params = Params {
            frame,
            x: DeviceView::new(at, input(&self.operator, 0)?)?,
            extent,
            axis: self.axis as u32,
            epsilon: self.epsilon,
            padding: 0,
        };
        Ok(vec![Launch::new("normalise", "normalise", frame.tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<Frame>() + 88 + 16);
    }
}
