//! Recurrent layers on tensor cores: what they take of a layer.

use super::Misfit;
use super::forms::need;
use crate::plan::format::{Operand, Operator, Plan, Space, View};
use crate::tensor::DType;

/// Most hidden units: h and c of 16 rows lie in the shared memory of every GPU.
const MAX_HIDDEN: u32 = 512;
/// Rows of the batch that a launch's blocks carry together.
pub const ROWS: u32 = 16;
/// The same of a block on its own whose registers hold the weights.
pub const KEEPER_ROWS: u32 = 8;
/// Hidden units of a warp's product.
pub const UNITS: u32 = 4;
/// Most warps of a block on its own, whose registers hold the weights of a layer.
const BLOCK_WARPS: u32 = 16;
/// Warps of a block of a cluster; each has the weights of one group of units.
pub const CLUSTER_WARPS: u32 = 8;
/// Most blocks of a cluster.
const MAX_CLUSTER: u32 = 8;

/// A block on its own whose registers hold a layer's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// Most hidden units of its kernel.
    pub most: u32,
    /// Its warps.
    pub warps: u32,
}

/// The block that holds the weights of so many hidden units; `None` where none does, or where their gates are no whole pieces of 16 bytes.
pub fn keeper(hidden: u32) -> Option<Keeper> {
    // Groups of units of a warp.
    let of = |each: u32| Keeper {
        most: each * BLOCK_WARPS * UNITS,
        warps: hidden.div_ceil(UNITS).div_ceil(each).max(1),
    };
    [of(1), of(2)]
        .into_iter()
        .find(|keeper| hidden <= keeper.most && hidden.is_multiple_of(2))
}

/// Blocks of the cluster whose registers hold the weights of so many hidden units; `None` where no cluster does.
pub fn cluster(hidden: u32) -> Option<u32> {
    let blocks = hidden.div_ceil(UNITS).div_ceil(CLUSTER_WARPS).max(1);
    (blocks <= MAX_CLUSTER).then_some(blocks)
}

/// Gate pre-activations, weights and results are f16, the weights constant.
pub(super) fn product(plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let call = operator.calls.first().ok_or(Misfit::Primitive)?;
    need(call.primitive.recurrence().is_some(), Misfit::Primitive)?;
    let view = |index: usize| match call.inputs.get(index) {
        Some(Operand::View(view)) => Ok(view),
        _ => Err(Misfit::Primitive),
    };
    let half = |v: &View| v.dtype == DType::F16;
    let (gates, weights, y) = (view(0)?, view(1)?, operator.outputs.first().ok_or(Misfit::Primitive)?);
    need(half(gates) && half(weights) && half(y) && call.dtype == DType::F16, Misfit::Type)?;
    let buffer = plan.buffers.get(weights.buffer.index());
    need(buffer.is_some_and(|b| matches!(b.space, Space::Weights(_))), Misfit::Weights)?;
    need((1..=MAX_HIDDEN).contains(&weights.layout.shape.dim(1)), Misfit::Layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_the_weights_of_up_to_128_units() {
        assert_eq!(keeper(2), Some(Keeper { most: 64, warps: 1 }));
        assert_eq!(keeper(64), Some(Keeper { most: 64, warps: 16 }));
        assert_eq!(keeper(66), Some(Keeper { most: 128, warps: 9 }));
        assert_eq!(keeper(65), None);
        assert_eq!(keeper(128), Some(Keeper { most: 128, warps: 16 }));
        assert_eq!(keeper(130), None);
        assert_eq!(cluster(129), Some(5));
        assert_eq!(cluster(257), None);
    }
}
