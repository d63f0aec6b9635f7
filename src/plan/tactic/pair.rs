//! Products of two computed matrices of halves on tensor cores: what their kernel takes, and its tiles.

use super::Misfit;
use super::forms::{computes_halves, need};
use crate::plan::format::{ArithmeticClass, Family, Kernel, Operand, Operator, Plan, Space, Tactic, View};
use crate::primitive::Primitive;
use crate::tensor::{DType, Shape};

/// Elements of K in a block of the kernel: ranges of K are a multiple of it.
pub const BLOCK_K: u32 = 32;
/// Outputs of a tile along either side.
const SIDE: u16 = 64;
/// The same where the warps of a block share K out, or a tile's last functions.
const SHARED_SIDE: u16 = 32;
/// Warps of a block that share K out.
pub const STRANDS: u16 = 4;
/// Ranges of K where outputs are few, and the shortest K for which there are so many.
const SPLITS: [(u16, u32); 2] = [(4 * STRANDS, 1024), (STRANDS, 192)];
/// Tiles of a sample from which on no K is shared out.
const FEW_TILES: u64 = 32;
/// Tiles that leave half of a large GPU idle.
const FEW_BLOCKS: u64 = 66;

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
    let shape = it.output.layout.shape;
    // Of one sample; of a matrix alone the batch axis is the rows.
    let tiles = tiles(shape.with_dim(0, 1)?);
    let depth = it.a.layout.shape.dim(shape.rank() - 1);
    let splits = SPLITS.iter().find(|&&(_, least)| tiles < FEW_TILES && depth >= least);
    Some(ArithmeticClass {
        family: Family::TensorCore,
        split_k: splits.map_or(1, |&(splits, _)| splits),
    })
}

/// Tiles of the larger side of matrices of such a shape.
fn tiles(shape: Shape) -> u64 {
    let matrix = shape.rank().saturating_sub(2)..;
    let along = |axis: usize| match matrix.contains(&axis) {
        true => u64::from(shape.dim(axis).div_ceil(u32::from(SIDE))),
        false => u64::from(shape.dim(axis)),
    };
    (0..shape.rank()).map(along).product()
}

/// The tactics of the kernel, best first: small tiles where there are few large ones.
pub(super) fn menu(operator: &Operator) -> Vec<Tactic> {
    let few = operator.outputs.first().is_some_and(|y| tiles(y.layout.shape) < FEW_BLOCKS);
    let sides: &[u16] = match (operator.class.split_k > 1, few) {
        (true, _) => &[SHARED_SIDE],
        (false, true) => &[SHARED_SIDE, SIDE],
        (false, false) => &[SIDE, SHARED_SIDE],
    };
    let tactic = |&side: &u16| Tactic {
        tile: (side, side),
        ..Tactic::of(Kernel::PairMma)
    };
    sides.iter().map(tactic).collect()
}

/// Checks that the kernel takes the operator in its class with such a tile.
pub(super) fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    pair(plan, operator)?;
    let splits = operator.class.split_k;
    need(splits == 1 || SPLITS.iter().any(|&(known, _)| known == splits), Misfit::Class)?;
    need(menu(operator).contains(&tactic), Misfit::Tile)
}
