//! Operators that begin with the copy of a picture which turns its channels round or rounds it to f16, and a convolution of it:
//! kernels that read every input element on its own read the picture as it is.

use crate::plan::format::{Operand, Operator, Rounding, View};
use crate::primitive::{Primitive, Window};
use crate::tensor::DType;

/// Most channels of a picture.
pub const MAX_CHANNELS: u32 = 4;
/// Most elements from the first of a picture to its last.
const MAX_REACH: i64 = 1 << 26;
/// Most taps along an axis, and most products summed for one element, that all kernels can gather.
const MAX_TAPS: u32 = 15;
const MAX_PRODUCTS: u64 = 2048;

/// A convolution whose picture of `channels` channels every GPU's kernels can read as it is.
pub fn serves(window: &Window, groups: u32, channels: u32) -> bool {
    let few = (0..2).all(|a| {
        let padding = window.pad_begin[a].max(window.pad_end[a]);
        (1..=MAX_TAPS).contains(&window.kernel[a]) && padding <= MAX_TAPS && window.dilation[a] <= MAX_TAPS
    });
    // Large patches side by side are copied first: then their rows are whole pieces in memory.
    let whole = |pixels: u32| pixels.is_multiple_of(8) && window.pad_begin == [0; 3];
    let patches = whole(window.kernel[1]) && whole(window.stride[1]);
    let gathered = || window.taps() * u64::from(channels) <= MAX_PRODUCTS;
    window.axes == 2 && groups == 1 && (1..=MAX_CHANNELS).contains(&channels) && few && !patches && gathered()
}

/// A picture that all kernels can read as it is.
pub fn reads(view: &View) -> bool {
    let forward = view.layout.strides().iter().all(|&s| s >= 0);
    let near = view.layout.bounds().is_some_and(|(_, high)| high < MAX_REACH);
    matches!(view.dtype, DType::F16 | DType::F32) && view.layout.shape.rank() == 4 && forward && near
}

/// The operator without the copy that it begins with; `None` for an operator that begins with none.
pub fn cut(operator: &Operator) -> Option<Operator> {
    let [copy, convolution, ..] = operator.calls.as_slice() else {
        return None;
    };
    let [Operand::View(picture)] = copy.inputs[..] else {
        return None;
    };
    let Primitive::Conv { window, groups } = convolution.primitive else {
        return None;
    };
    let rounds = copy.primitive == Primitive::Copy && copy.dtype == DType::F16 && copy.rounding == Rounding::Rounded;
    let first = |o: &Operand| *o == Operand::Inner(0);
    let others = convolution
        .inputs
        .iter()
        .skip(1)
        .chain(operator.calls[2..].iter().flat_map(|c| &c.inputs));
    let read_once = convolution.inputs.first().is_some_and(first) && !others.into_iter().any(first);
    if !rounds || !reads(&picture) || !read_once || !serves(&window, groups, picture.layout.shape.dim(1)) {
        return None;
    }
    let mut body = operator.clone();
    body.calls.remove(0);
    for (index, input) in body
        .calls
        .iter_mut()
        .enumerate()
        .flat_map(|(i, c)| c.inputs.iter_mut().map(move |o| (i, o)))
    {
        match input {
            Operand::Inner(0) if index == 0 => *input = Operand::View(picture),
            Operand::Inner(j) => *j -= 1,
            Operand::View(_) => {}
        }
    }
    Some(body)
}
