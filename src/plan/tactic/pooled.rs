//! Operators that end with the maximum of every 2 by 2 results of a convolution: only the maxima are stored.

use super::product::Pixels;
use crate::plan::format::{Call, Operand, Operator, Rounding, View};
use crate::primitive::{PoolKind, Primitive, Unary, Window};
use crate::tensor::{DType, Layout, Shape};

/// Side of the window, and its stride.
const SIDE: u32 = 2;
/// Halves in 16 bytes, at multiples of which the pixels of the input begin.
const ALIGNED: u32 = 8;

/// Functions and shapes of an operator of this form; the planner groups what has it. `function`, if there is one, stands
/// between the two. `shapes` are those of the convolution's input and result, and of the maxima.
pub fn is_form(conv: &Primitive, function: Option<&Primitive>, pool: &Primitive, [x, result, pooled]: [Shape; 3]) -> bool {
    let Primitive::Conv { window, groups: 1 } = conv else {
        return false;
    };
    let bounds = matches!(function, None | Some(Primitive::Unary(Unary::Relu | Unary::Clip(..))));
    let ranks = [x, result, pooled].iter().all(|s| s.rank() == 4);
    // Maxima of whole windows alone.
    let whole = || (2..4).all(|axis| pooled.dim(axis) > 0 && u64::from(pooled.dim(axis)) * u64::from(SIDE) <= u64::from(result.dim(axis)));
    bounds && ranks && whole() && is_pool(pool) && super::conv_3x3::serves(window, x.dim(1), result.dim(1))
}

fn is_pool(pool: &Primitive) -> bool {
    let square = Window {
        stride: [SIDE, SIDE, 1],
        ..Window::new(&[SIDE, SIDE])
    };
    let Primitive::Pool {
        kind: PoolKind::Max { .. },
        window,
    } = pool
    else {
        return false;
    };
    *window == square
}

/// An input that the kernels can read.
pub fn reads(view: &View) -> bool {
    let aligned = view.origin.is_multiple_of(u64::from(ALIGNED));
    let pixels = Pixels::of(view).filter(|_| view.dtype == DType::F16 && aligned);
    pixels.is_some_and(|p| {
        p.extents[3].is_multiple_of(ALIGNED) && p.channels_last() && p.wide() && (0..3).all(|a| p.extents[a] <= 1 || p.strides[a] > 0)
    })
}

/// The operator up to its maxima, its output as large as the convolution's result though it is stored nowhere; `None` for
/// an operator that does not end so.
pub fn cut(operator: &Operator) -> Option<Operator> {
    let (pool, before) = operator.calls.split_last()?;
    let (conv, function) = match before {
        [conv] => (conv, None),
        [conv, function] if function.inputs == [Operand::Inner(0)] => (conv, Some(&function.primitive)),
        _ => return None,
    };
    let Some(Operand::View(x)) = conv.inputs.first() else {
        return None;
    };
    let last = before.last()?;
    let chained = pool.inputs == [Operand::Inner(before.len() as u8 - 1)];
    let halves = |c: &Call| c.dtype == DType::F16 && c.rounding == Rounding::Rounded;
    let [output] = operator.outputs.as_slice() else {
        return None;
    };
    let form = is_form(&conv.primitive, function, &pool.primitive, [x.layout.shape, conv.shape, pool.shape]);
    if !form || !chained || !operator.calls.iter().all(halves) || last.shape != conv.shape || !reads(x) {
        return None;
    }
    let channels_last = Pixels::of(output).is_some_and(|p| p.channels_last());
    let mut body = operator.clone();
    body.calls.pop();
    body.outputs[0].layout = Layout::channels_last(conv.shape);
    channels_last.then_some(body)
}
