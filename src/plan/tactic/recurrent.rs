//! Recurrent layers on tensor cores: what they take of a layer.

use super::Misfit;
use super::forms::need;
use crate::plan::format::{Kernel, Operand, Operator, Plan, Space, Tactic, View};
use crate::tensor::DType;

/// Most hidden units: h and c of 16 rows lie in the shared memory of every GPU.
const MAX_HIDDEN: u32 = 512;
/// Rows of the batch of a product.
pub const ROWS: u32 = 16;
/// Rows of the batch that a block on its own carries, whose registers hold the weights.
pub const KEEPER_ROWS: u32 = 8;
/// Hidden units of a warp's product.
pub const UNITS: u32 = 4;
/// Most warps of a block on its own, whose registers hold the weights of a layer.
const BLOCK_WARPS: u32 = 16;
/// Most hidden units of a layer whose weights a cluster keeps: a thread's registers hold those of so many.
pub const CLUSTER_UNITS: u32 = 256;
/// How clusters share a layer, by variants: small blocks are fastest alone; large ones, and tiles of more rows, leave more of a GPU to others.
const SHARES: [Share; 3] = [
    Share { rows: 16, warps: 8 },
    Share { rows: 16, warps: 16 },
    Share { rows: 32, warps: 16 },
];

/// How the blocks of a cluster share a layer, whose weights their registers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Rows of the batch that a cluster carries together.
    pub rows: u32,
    /// Warps of a block; each has the weights of one group of units.
    pub warps: u32,
}

impl Share {
    /// Of a tactic; `None` for those that there are not.
    pub fn of(tactic: Tactic) -> Option<Share> {
        let share = SHARES.get(usize::from(tactic.variant)).copied();
        share.filter(|_| tactic.kernel == Kernel::Recurrent && tactic.tile == (0, 0))
    }

    /// Blocks of the cluster for so many hidden units, at least two; `None` where no cluster has their weights.
    pub fn cluster(self, hidden: u32) -> Option<u32> {
        let blocks = hidden.div_ceil(UNITS).div_ceil(self.warps);
        (blocks > 1 && hidden <= CLUSTER_UNITS).then_some(blocks)
    }

    /// Threads of a block.
    pub fn threads(self) -> u32 {
        self.warps * 32
    }

    /// About as many bytes of shared memory as a block has at the most: h of all units before and after a step, and four steps'
    /// pre-activations of its own.
    pub fn shared(self) -> u32 {
        let gates = 4 * self.warps * UNITS;
        self.rows * 2 * (2 * CLUSTER_UNITS + 4 * gates)
    }
}

/// Tactics of layers, best first; the planner asks [`fits`] which of them a layer has.
pub(super) fn tactics() -> impl Iterator<Item = Tactic> {
    (0..SHARES.len() as u16).map(|variant| Tactic {
        variant,
        ..Tactic::of(Kernel::Recurrent)
    })
}

/// Checks that the kernel can run the operator, by itself a layer, under a tactic. Shares other than the first are for layers that clusters keep.
pub(super) fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let share = Share::of(tactic).ok_or(Misfit::Tile)?;
    need(operator.calls.len() == 1 && operator.class.split_k <= 1, Misfit::Tail)?;
    let hidden = product(plan, operator)?;
    let kept = keeper(hidden).is_none() && share.cluster(hidden).is_some();
    need(tactic.variant == 0 || kept, Misfit::Tile)
}

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

/// Rows of the batch that the blocks of a launch carry together under a tactic, and how many blocks those are.
pub fn carried(tactic: Tactic, hidden: u32) -> (u32, u32) {
    if keeper(hidden).is_some() {
        return (KEEPER_ROWS, 1);
    }
    let together = Share::of(tactic).and_then(|share| Some((share.rows, share.cluster(hidden)?)));
    together.unwrap_or((ROWS, 1))
}

/// The hidden units of a layer whose gate pre-activations, weights and results are f16, the weights constant.
pub(super) fn product(plan: &Plan, operator: &Operator) -> Result<u32, Misfit> {
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
    let hidden = weights.layout.shape.dim(1);
    need((1..=MAX_HIDDEN).contains(&hidden), Misfit::Layout)?;
    Ok(hidden)
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
    }

    #[test]
    fn a_cluster_keeps_the_weights_of_up_to_256_units() {
        let [small, large, tall] = SHARES;
        assert_eq!([small, large, tall].map(|s| s.cluster(129)), [Some(5), Some(3), Some(3)]);
        assert_eq!([small, large, tall].map(|s| s.cluster(256)), [Some(8), Some(4), Some(4)]);
        assert_eq!([small, large, tall].map(|s| s.cluster(257)), [None; 3]);
        assert_eq!(
            [small, large, tall].map(|s| s.cluster(33)),
            [Some(2), None, None],
            "one block is no cluster"
        );
        assert_eq!(tactics().map(|t| Share::of(t).unwrap()).collect::<Vec<_>>(), SHARES);
    }
}
