//! Products of two computed matrices of halves on tensor cores: what their kernel takes, and its tiles.

use super::Misfit;
use super::forms::{computes_halves, need};
use crate::plan::format::{ArithmeticClass, Family, Kernel, Operand, Operator, Plan, Space, Tactic, View};
use crate::primitive::Primitive;
use crate::tensor::DType;

/// Elements of K in a block of the kernel: ranges of K are a multiple of it.
pub const BLOCK_K: u32 = 32;
/// Outputs of a tile along either side, of a block that works on one range of K.
const SIDE: u16 = 64;
/// The same where the warps of a block share K out.
const SHARED_SIDE: u16 = 32;
/// Ranges of K where outputs are few.
const SPLITS: u16 = 4;
/// Tiles of a sample from which on no K is shared out, and the shortest K that is.
const FEW_TILES: u64 = 32;
const LONG_K: u32 = 192;

/// Both matrices of a product, and its output.
pub struct Pair<'a> {
    /// `[.., M, K]`.
    pub a: &'a View,
    /// `[.., K, N]`.
    pub b: &'a View,
    /// `[.., M, N]`.
    pub output: &'a View,
}

/// Reads the operator; says what it lacks.
pub fn pair<'a>(plan: &Plan, operator: &'a Operator) -> Result<Pair<'a>, Misfit> {
    let call = operator.calls.first().ok_or(Misfit::Primitive)?;
    need(call.primitive == Primitive::MatMul, Misfit::Primitive)?;
    let view = |index: usize| match call.inputs.get(index) {
        Some(Operand::View(view)) => Ok(view),
        _ => Err(Misfit::Primitive),
    };
    let (a, b, output) = (view(0)?, view(1)?, operator.outputs.first().ok_or(Misfit::Primitive)?);
    let constant = |v: &View| {
        let buffer = plan.buffers.get(v.buffer.index());
        buffer.is_some_and(|b| matches!(b.space, Space::Weights(_)))
    };
    // One row a sample is a stream of weights, which other kernels are made for.
    need(!constant(b) || call.shape.rank() > 2, Misfit::Weights)?;
    let whole = |v: &View| v.dtype == DType::F16 && v.layout.shape.elements() > 0 && v.layout.shape.rank() >= 2;
    need(whole(a) && whole(b) && computes_halves(operator), Misfit::Type)?;
    let floats = operator.calls.iter().flat_map(|c| &c.inputs);
    need(
        floats.clone().all(|o| !matches!(o, Operand::View(v) if !v.dtype.is_float())),
        Misfit::Type,
    )?;
    Ok(Pair { a, b, output })
}

/// The class of the products that the kernel takes.
pub(super) fn class(plan: &Plan, operator: &Operator) -> Option<ArithmeticClass> {
    let it = pair(plan, operator).ok()?;
    let (shape, rank) = (it.output.layout.shape, it.output.layout.shape.rank());
    // Of a matrix alone the batch axis is the rows.
    let rows = if rank > 2 { shape.dim(rank - 2) } else { 1 };
    let side = u32::from(SIDE);
    let leading: u64 = (1..rank - 2.min(rank)).map(|a| u64::from(shape.dim(a))).product();
    let tiles = leading * u64::from(rows.div_ceil(side)) * u64::from(shape.dim(rank - 1).div_ceil(side));
    let few = tiles < FEW_TILES && it.a.layout.shape.dim(rank - 1) >= LONG_K;
    Some(ArithmeticClass {
        family: Family::TensorCore,
        split_k: if few { SPLITS } else { 1 },
    })
}

/// The tactics of the kernel, best first.
pub(super) fn menu(operator: &Operator) -> Vec<Tactic> {
    let side = if operator.class.split_k > 1 { SHARED_SIDE } else { SIDE };
    vec![Tactic {
        tile: (side, side),
        ..Tactic::of(Kernel::PairMma)
    }]
}

/// Checks that the kernel takes the operator in its class with such a tile.
pub(super) fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    pair(plan, operator)?;
    need(matches!(operator.class.split_k, 1 | SPLITS), Misfit::Class)?;
    need(menu(operator).contains(&tactic), Misfit::Tile)
}
