//! Pooling of pixels: `kernels/pool.cu`.

use super::groups::{PixelFrame, Pixels, THREADS, source};
use super::operands::{check, head, output};
use super::window::Window;
use super::{Addresses, BindError, Kernel, Launch, pool_few, pool_long, pool_rows, pool_wide};
use crate::plan::format::Operator;
use crate::primitive::{PoolKind, Primitive, Region};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    window: Window,
    average: u32,
    count_pad: u32,
}

struct Pool {
    operator: Operator,
}

/// Compiles a pooling of two spatial axes without indices.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    Ok(Box::new(Pool {
        operator: operator.clone(),
    }))
}

impl Kernel for Pool {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let Primitive::Pool { kind, window } = &head(&self.operator)?.primitive else {
            return Err(BindError::Tactic("it is no pooling"));
        };
        if region.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(launch) = pool_few::launch(at, &self.operator, (kind, window), region, width)? {
            return Ok(vec![launch]);
        }
        let quick = match kind {
            PoolKind::Average { count_pad } => pool_long::launch(at, &self.operator, window, *count_pad, region, width)?,
            PoolKind::Max { .. } => match pool_wide::launch(at, &self.operator, window, region, width)? {
                None => pool_rows::launch(at, &self.operator, window, region, width)?,
                wide => wide,
            },
        };
        if let Some(launch) = quick {
            return Ok(vec![launch]);
        }
        let across = output(&self.operator, 0)?.layout.shape.dim(3);
        let params = Params {
            frame: PixelFrame::new(at, &self.operator, region, across)?,
            x: source(at, &self.operator)?,
            window: Window::new(window),
            average: u32::from(matches!(kind, PoolKind::Average { .. })),
            count_pad: u32::from(matches!(kind, PoolKind::Average { count_pad: true })),
        };
        Ok(vec![Launch::new("pool", "pool", params.frame.tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<PixelFrame>() + 48 + 64 + 8);
    }
}
