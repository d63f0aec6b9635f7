//! Pictures in, results out: preparation of camera images, and decoding of what the networks say.
//!
//! Each operator here has exactly one primitive. What depends on the picture's size (it is known only when a frame comes,
//! from the slot's parameter block) is computed in scratch; nothing allocates after [`compile`].

mod argmax;
mod crop;
mod nms;
mod operand;
mod pixels;
mod prepare;
mod topk;
mod yolox;

#[cfg(test)]
mod tests;

use crate::backend::cpu::kernel::Kernel;
use crate::plan::format::{Call, Operand, Operator, Plan, View};
use crate::primitive::{Primitive, PrimitiveError, Region};
use std::ops::Range;

/// Why an operator cannot be compiled. A checked plan gives none of these but [`CompileError::Unsupported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The operator is not one this family of kernels runs.
    #[error("not a single picture or result primitive")]
    Unsupported,
    /// The operands do not fit the primitive (P6).
    #[error("operands that do not fit the primitive: {0}")]
    Operands(#[from] PrimitiveError),
    /// A view does not lie inside its buffer (P5), or its buffer is not there (P1).
    #[error("a view outside its buffer")]
    View,
}

/// True if the operator is a single picture or result primitive.
pub fn takes(operator: &Operator) -> bool {
    let vision = |p: &Primitive| {
        use Primitive as P;
        matches!(
            p,
            P::Prepare(_) | P::DecodeYolox { .. } | P::Nms(_) | P::TopK | P::ArgMax { .. } | P::Crop(_)
        )
    };
    matches!(operator.calls.as_slice(), [call] if vision(&call.primitive))
}

/// Compiles an operator whose only primitive is `Prepare`, `DecodeYolox`, `Nms`, `TopK`, `ArgMax` or `Crop`; any layout of its operands.
pub fn compile(plan: &Plan, operator: &Operator) -> Result<Box<dyn Kernel>, CompileError> {
    let [call] = operator.calls.as_slice() else {
        return Err(CompileError::Unsupported);
    };
    let inputs = views(call)?;
    let types = |views: &[View]| -> Vec<_> { views.iter().map(|v| (v.dtype, v.layout.shape)).collect() };
    call.primitive.check(&types(&inputs), &types(&operator.outputs))?;
    let bind = |views: &[View]| -> Result<Vec<_>, CompileError> { views.iter().map(|v| operand::Place::bind(plan, v)).collect() };
    let (inputs, outputs) = (bind(&inputs)?, bind(&operator.outputs)?);
    let tile = u32::from(operator.tactic.tile.0);
    Ok(match call.primitive {
        Primitive::Prepare(p) => Box::new(prepare::Prepare::new(p, outputs[0], tile)),
        Primitive::DecodeYolox { input } => Box::new(yolox::DecodeYolox::new(input, inputs[0], [outputs[0], outputs[1]])),
        Primitive::Nms(n) => Box::new(nms::NonMaximum::new(n, [inputs[0], inputs[1]], [outputs[0], outputs[1]])),
        Primitive::TopK => Box::new(topk::TopK::new(inputs[0], [outputs[0], outputs[1]])),
        Primitive::ArgMax { axis } => Box::new(argmax::ArgMax::new(usize::from(axis), inputs[0], outputs[0], tile)),
        Primitive::Crop(c) => Box::new(crop::Crops::new(c, [inputs[1], inputs[2]], [outputs[0], outputs[1]])),
        _ => return Err(CompileError::Unsupported),
    })
}

fn views(call: &Call) -> Result<Vec<View>, CompileError> {
    let view = |operand: &Operand| match operand {
        Operand::View(view) => Ok(*view),
        Operand::Inner(_) => Err(CompileError::Unsupported),
    };
    call.inputs.iter().map(view).collect()
}

/// Tiles of a region: one batch position and up to `rows` consecutive rows each.
#[derive(Clone, Copy)]
struct Bands {
    rows: u32,
}

impl Bands {
    /// Bands of `asked` rows, or of `fixed` where the tactic leaves the choice.
    fn new(asked: u32, fixed: u32) -> Bands {
        Bands {
            rows: if asked > 0 { asked } else { fixed },
        }
    }

    fn per_batch(self, region: &Region) -> u32 {
        (region.rows.len() as u32).div_ceil(self.rows)
    }

    fn count(self, region: &Region) -> u32 {
        region.batch.len() as u32 * self.per_batch(region)
    }

    /// The batch position and rows of one tile.
    fn tile(self, region: &Region, tile: u32) -> (u32, Range<u32>) {
        let per_batch = self.per_batch(region).max(1);
        let start = region.rows.start + tile % per_batch * self.rows;
        (
            region.batch.start + tile / per_batch,
            start..(start + self.rows).min(region.rows.end),
        )
    }
}
