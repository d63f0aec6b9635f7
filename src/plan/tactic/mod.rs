//! The menu of tactics as data: which kernel can run which operator, and what fixes an operator's bits.
//!
//! The planner chooses from [`menu`], the checks refuse what does not [`fits`], and the backends implement every kernel
//! for all operators that fit it. Kernels that mean the same on several backends share a name; what they take is said per
//! backend, in `cpu` and `cuda`.

pub mod attention;
pub mod conv_3x3;
pub mod conv_affine;
pub mod conv_chains;
pub mod conv_direct;
pub mod conv_fma;
pub mod conv_grouped;
pub mod conv_large;
pub mod conv_mma;
pub mod conv_narrow;
pub mod conv_parts;
pub mod conv_patch;
pub mod conv_pooled;
pub mod conv_shallow;
pub mod conv_slender;
pub mod conv_spread;
pub mod conv_taps;
pub mod conv_warps;
pub mod conv_wgmma;
pub mod conv_wide;
mod cpu;
mod cuda;
pub mod depthwise_few;
pub mod depthwise_strip;
mod forms;
pub mod group_normalise;
pub mod pair;
pub mod pictures;
mod plain;
pub mod pooled;
pub mod product;
pub mod prologue;
pub mod prologue_wgmma;
pub mod recurrent;
pub mod reduction;
pub mod resized;
pub mod squeeze;
pub mod stem;
pub mod stream_wgmma;

pub use forms::{before_copy, takes_functions};
pub use plain::{MAX_ATTENTION_WIDTH, PRODUCT_STEP};

use super::format::{ArithmeticClass, Family, Kernel, Operator, Plan, Tactic};
use crate::board::{BackendKind, BoardRecord};

/// Why a kernel cannot run an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The first primitive is of another kind, or has attributes the kernel does not take.
    #[error("the kernel does not compute the operator's first primitive")]
    Primitive,
    /// An element type the kernel does not compute in.
    #[error("the kernel does not compute in the operator's types")]
    Type,
    /// A later primitive is not an elementwise function of the value before it.
    #[error("the kernel takes no such primitive after the first")]
    Tail,
    /// A tensor lies in memory otherwise than the kernel walks it.
    #[error("the kernel needs its tensors laid out in another way")]
    Layout,
    /// The kernel packs its weights ahead of time, and these are computed.
    #[error("the kernel needs weights that are in the plan's weight files")]
    Weights,
    /// The tile is not on the menu.
    #[error("the kernel has no such tile")]
    Tile,
    /// The kernel computes in another arithmetic class than the operator's.
    #[error("the kernel computes in another arithmetic class")]
    Class,
}

/// What a board's kernels compute with, as far as it decides arithmetic classes and menus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The CPU backend.
    Cpu,
    /// The CUDA backend.
    Cuda {
        /// The GPU has `wgmma` and the tensor memory accelerator (sm_90a).
        wgmma: bool,
    },
}

impl Target {
    /// Every target there is.
    pub const ALL: [Target; 3] = [Target::Cpu, Target::Cuda { wgmma: false }, Target::Cuda { wgmma: true }];

    /// The target of a board's own backend.
    pub fn of(board: &BoardRecord) -> Target {
        match board.backend {
            BackendKind::Cpu => Target::Cpu,
            BackendKind::Cuda => Target::Cuda {
                wgmma: board.architecture == "sm_90a",
            },
        }
    }
}

impl Tactic {
    /// The kernel with its fixed tile.
    pub const fn of(kernel: Kernel) -> Tactic {
        Tactic {
            kernel,
            tile: (0, 0),
            variant: 0,
        }
    }
}

/// The class of sequential fused multiply-adds.
const FMA: ArithmeticClass = ArithmeticClass {
    family: Family::Fma,
    split_k: 1,
};

impl ArithmeticClass {
    /// Elements in each of the K ranges that are summed on their own, the last one excepted: as few as cover `k`, and a
    /// multiple of `step`.
    pub fn range(&self, k: u32, step: u32) -> u32 {
        k.div_ceil(u32::from(self.split_k.max(1))).max(1).next_multiple_of(step.max(1))
    }
}

/// The arithmetic class of an operator on a board: from its primitives, types and per-sample shapes and the board alone, so that every
/// searcher's plan has it (P2). A small GPU has fewer chains of products: they are there to occupy all of its units.
pub fn arithmetic_class_on(plan: &Plan, operator: &Operator, board: &BoardRecord) -> ArithmeticClass {
    class_of_size(plan, operator, Target::of(board), board.units)
}

/// The same on a large GPU.
pub fn arithmetic_class(plan: &Plan, operator: &Operator, target: Target) -> ArithmeticClass {
    class_of_size(plan, operator, target, LARGE)
}

/// True if the operator has the arithmetic class that some board gives it.
pub fn has_class(plan: &Plan, operator: &Operator) -> bool {
    let gives = |target, units| class_of_size(plan, operator, target, units) == operator.class;
    Target::ALL.into_iter().any(|target| gives(target, LARGE)) || (1..LARGE).any(|units| gives(Target::Cuda { wgmma: true }, units))
}

fn class_of_size(plan: &Plan, operator: &Operator, target: Target, units: u32) -> ArithmeticClass {
    match target {
        Target::Cpu => FMA,
        Target::Cuda { wgmma } => cuda::class(plan, operator, wgmma, units),
    }
}

/// Checks that the operator's tactic can run it on one backend at least.
pub fn fits(plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    fits_on(BackendKind::Cpu, plan, operator).or_else(|misfit| fits_on(BackendKind::Cuda, plan, operator).map_err(|_| misfit))
}

/// Checks that the operator's tactic can run it on a backend, in the operator's arithmetic class.
///
/// The CPU backend takes every class: it computes in its own, which is the reference.
pub fn fits_on(backend: BackendKind, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    match backend {
        BackendKind::Cpu => cpu::fits(operator.tactic, plan, operator),
        BackendKind::Cuda => cuda::fits(operator.tactic, plan, operator),
    }
}

/// Units of a large GPU: what a menu is in order for, and classes are for, where no board is named.
const LARGE: u32 = 132;

/// All tactics that can run the operator on a target, in the operator's arithmetic class, best first on a large GPU where nothing is
/// measured. On the CPU the generic kernel is always the last; on a GPU the list is empty for what it cannot run.
pub fn menu(plan: &Plan, operator: &Operator, target: Target) -> Vec<Tactic> {
    sized(plan, operator, target, LARGE)
}

/// The same tactics, best first on a board.
pub fn menu_on(plan: &Plan, operator: &Operator, board: &BoardRecord) -> Vec<Tactic> {
    sized(plan, operator, Target::of(board), board.units)
}

fn sized(plan: &Plan, operator: &Operator, target: Target, units: u32) -> Vec<Tactic> {
    match target {
        Target::Cpu => cpu::menu(plan, operator),
        Target::Cuda { wgmma } => cuda::menu(plan, operator, wgmma, units),
    }
}
