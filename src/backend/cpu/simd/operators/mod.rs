//! Operators on the vector kernels: tactics that serve channels-last f32 operators, one file each.
//!
//! Each turns an operator into a [`Kernel`]: weights packed, views resolved to `Site`s, elementwise primitives
//! behind the first one turned into a fused `Tail`. Where an operator does not have the form that a tactic
//! serves, compiling gives `None`; `plan::tactic::fits` states the same conditions for planners and checks.
//!
//! # Why the pointers are sound
//! A site's pointer comes from the frame's memory with its bounds checked over everything the view can reach, and
//! kernels walk a view only by its own strides within its own shape. Concurrent tiles write disjoint elements and
//! reads are complete: the argument of `arena`, which every `SAFETY` comment below leans on as "the plan".

mod conv;
mod depthwise;
mod elementwise;
mod matmul;
mod packing;
mod parts;
mod pool;
mod recurrent;
mod reduce;
mod resize;
mod site;
mod softmax;
mod tail;
mod transpose;

#[cfg(test)]
mod tests;

pub use packing::Packings;

use super::Kernels;
use crate::backend::cpu::arena::ReadSpan;
use crate::backend::cpu::kernel::Kernel;
use crate::plan::format::{self, Operator, Plan};

/// What compiling an operator may look at.
pub struct Context<'a> {
    /// The instruction set's kernels.
    pub kernels: &'static Kernels,
    /// The plan.
    pub plan: &'a Plan,
    /// The plan's weight sections.
    pub sections: &'a [ReadSpan<'a>],
}

/// Compiles `operator` with its own tactic; `None` where that tactic is not one of these or does not serve the operator.
pub fn compile(context: &Context<'_>, operator: &Operator, packings: &mut Packings) -> Option<Box<dyn Kernel>> {
    match operator.tactic.kernel {
        format::Kernel::ConvIgemm => conv::compile(context, operator, packings),
        format::Kernel::ConvDepthwise => depthwise::compile(context, operator, packings),
        format::Kernel::ConvTranspose => transpose::compile(context, operator, packings),
        format::Kernel::MatMul => matmul::compile(context, operator, packings),
        format::Kernel::Elementwise | format::Kernel::Copy => elementwise::compile(context, operator),
        format::Kernel::Pool => pool::compile(context, operator),
        format::Kernel::Reduce => reduce::compile(context, operator),
        format::Kernel::Softmax => softmax::compile(context, operator),
        format::Kernel::Recurrent => recurrent::compile(context, operator, packings),
        format::Kernel::Resize => resize::compile(context, operator),
        _ => None,
    }
}

/// Splits `0..count` tiles of a grid: the position of `tile` along each of `extents`, outermost first.
fn unravel<const N: usize>(tile: u32, extents: [u32; N]) -> [u32; N] {
    let mut at = [0; N];
    let mut rest = tile;
    for a in (0..N).rev() {
        at[a] = rest % extents[a].max(1);
        rest /= extents[a].max(1);
    }
    at
}
