//! The menu of tactics as data: which kernel can run which operator, and what fixes an operator's bits.
//!
//! The planner chooses from [`menu`], the checks refuse what does not [`fits`], and the backends implement every kernel
//! for all operators that fit it.

mod forms;

use super::format::{ArithmeticClass, Family, Kernel, Operator, Plan, Tactic};
use crate::board::BackendKind;
use crate::primitive::{Binary, Coordinates, PoolKind, Primitive, ReduceKind, ResizeMode};
use forms::{Forms, need};

/// Kernels in the order in which the menu prefers them.
const PREFERENCE: [Kernel; 13] = [
    Kernel::Prepare,
    Kernel::Decode,
    Kernel::ConvDepthwise,
    Kernel::ConvIgemm,
    Kernel::ConvTranspose,
    Kernel::MatMul,
    Kernel::Elementwise,
    Kernel::Pool,
    Kernel::Reduce,
    Kernel::Softmax,
    Kernel::Resize,
    Kernel::Copy,
    Kernel::Generic,
];

/// Why a kernel cannot run an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The first primitive is of another kind, or has attributes the kernel does not take.
    #[error("the kernel does not compute the operator's first primitive")]
    Primitive,
    /// Something is not f32.
    #[error("the kernel computes in f32 only")]
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
}

/// The arithmetic class of an operator on a backend: sequential fused multiply-add on both, as no kernel of another
/// family is on the menu.
pub fn arithmetic_class(_operator: &Operator, backend: BackendKind) -> ArithmeticClass {
    match backend {
        BackendKind::Cpu | BackendKind::Cuda => ArithmeticClass {
            family: Family::Fma,
            split_k: 1,
        },
    }
}

/// Checks that the operator's tactic can run it.
pub fn fits(plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    if operator.tactic.tile != (0, 0) {
        return Err(Misfit::Tile);
    }
    kernel_fits(operator.tactic.kernel, plan, operator)
}

/// All tactics that can run the operator, best first; the generic kernel is always the last.
pub fn menu(plan: &Plan, operator: &Operator) -> Vec<Tactic> {
    PREFERENCE
        .iter()
        .filter(|&&kernel| kernel_fits(kernel, plan, operator).is_ok())
        .map(|&kernel| Tactic { kernel, tile: (0, 0) })
        .collect()
}

/// Kernel rows that row-wise kernels take.
const MAX_WINDOW_ROWS: u32 = 16;

/// The table: what each kernel takes. The generic kernel takes everything; the others compute f32 over one layout each.
fn kernel_fits(kernel: Kernel, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let first = operator.calls.first().ok_or(Misfit::Primitive)?;
    let forms = Forms::new(plan, operator);
    use Primitive as P;
    match (kernel, &first.primitive) {
        (Kernel::Generic, _) => Ok(()),
        (Kernel::Prepare, P::Prepare(_) | P::Crop(_))
        | (Kernel::Decode, P::DecodeYolox { .. } | P::Nms(_) | P::TopK | P::ArgMax { .. }) => need(operator.calls.len() == 1, Misfit::Tail),
        (Kernel::ConvIgemm, P::Conv { window, .. }) | (Kernel::ConvTranspose, P::ConvTranspose { window, .. }) => {
            need(window.axes == 2, Misfit::Primitive)?;
            forms.constants_behind_first()?;
            forms.pixels()
        }
        (Kernel::ConvDepthwise, P::Conv { window, groups }) => {
            let channels = forms.channels();
            let depthwise = *groups > 1 && *groups == channels && first.shape.dim(1) == channels;
            need(
                depthwise && window.axes == 2 && window.kernel[0] <= MAX_WINDOW_ROWS,
                Misfit::Primitive,
            )?;
            forms.constants_behind_first()?;
            forms.pixels()
        }
        (Kernel::Pool, P::Pool { kind, window }) => {
            let padded = (0..2).any(|a| window.pad_begin[a] > 0 || window.pad_end[a] > 0);
            let counts_padding = matches!(kind, PoolKind::Average { count_pad: true }) && padded;
            need(window.axes == 2 && window.kernel[0] <= MAX_WINDOW_ROWS, Misfit::Primitive)?;
            need(
                operator.outputs.len() == 1 && (!counts_padding || forms.windows_inside_padding(window)),
                Misfit::Primitive,
            )?;
            forms.pixels()
        }
        (
            Kernel::Reduce,
            P::Reduce {
                kind: ReduceKind::Mean | ReduceKind::Sum,
                axes: 0b1100,
            },
        ) => {
            forms.alone()?;
            forms.pixels()
        }
        (Kernel::Resize, P::Resize(r)) => {
            let linear = matches!(r.mode, ResizeMode::Linear { antialias: false });
            let plain = !matches!(r.coordinates, Coordinates::CropAndResize { .. }) && forms.resizes_pixels_only();
            need(linear && plain, Misfit::Primitive)?;
            forms.alone()?;
            forms.pixels()
        }
        (Kernel::MatMul, P::MatMul) => forms.matrices(),
        (Kernel::Softmax, P::Softmax { axis }) => {
            forms.alone()?;
            forms.contiguous_along(usize::from(*axis))
        }
        (Kernel::Elementwise, P::Unary(_)) | (Kernel::Copy, P::Copy) => forms.runs(),
        (Kernel::Elementwise, P::Binary(kind)) => {
            need(*kind != Binary::Pow, Misfit::Primitive)?;
            forms.runs()
        }
        _ => Err(Misfit::Primitive),
    }
}
