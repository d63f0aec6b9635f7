//! What each kernel of the CPU backend takes.

use super::Misfit;
use super::forms::{Forms, need};
use crate::plan::format::{Kernel, Operator, Plan, Tactic};
use crate::primitive::{Binary, Coordinates, PoolKind, Primitive, ReduceKind, ResizeMode};

/// Kernels in the order in which the menu prefers them.
const PREFERENCE: [Kernel; 14] = [
    Kernel::Prepare,
    Kernel::Decode,
    Kernel::ConvDepthwise,
    Kernel::ConvIgemm,
    Kernel::ConvTranspose,
    Kernel::MatMul,
    Kernel::Recurrent,
    Kernel::Elementwise,
    Kernel::Pool,
    Kernel::Reduce,
    Kernel::Softmax,
    Kernel::Resize,
    Kernel::Copy,
    Kernel::Generic,
];

/// All tactics that can run the operator, best first.
pub(super) fn menu(plan: &Plan, operator: &Operator) -> Vec<Tactic> {
    PREFERENCE
        .iter()
        .map(|&kernel| Tactic::of(kernel))
        .filter(|&tactic| fits(tactic, plan, operator).is_ok())
        .collect()
}

/// Kernel rows that row-wise kernels take.
const MAX_WINDOW_ROWS: u32 = 16;

/// The table: what each kernel takes. The generic kernel takes everything; the others compute f32 over one layout each.
pub(super) fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    need((tactic.tile, tactic.variant) == ((0, 0), 0), Misfit::Tile)?;
    let first = operator.calls.first().ok_or(Misfit::Primitive)?;
    let forms = Forms::new(plan, operator);
    use Primitive as P;
    match (tactic.kernel, &first.primitive) {
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
            let few_taps = matches!(r.mode, ResizeMode::Linear { antialias: false } | ResizeMode::Nearest(_));
            let plain = !matches!(r.coordinates, Coordinates::CropAndResize { .. }) && forms.resizes_pixels_only();
            need(few_taps && plain, Misfit::Primitive)?;
            forms.alone()?;
            forms.pixels()
        }
        (Kernel::MatMul, P::MatMul) => forms.matrices(),
        (Kernel::Recurrent, P::Lstm { .. } | P::Gru { .. }) => {
            forms.alone()?;
            forms.sequences()
        }
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
