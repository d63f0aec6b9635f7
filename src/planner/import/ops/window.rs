//! The attributes that convolutions and pools share: kernel, strides, dilations, pads, auto_pad.

use super::super::error::{Fallible, limit, malformed};
use super::super::node::OnnxNode;
use crate::primitive::Window;
use crate::tensor::Shape;

/// Largest number in a window's attributes; sums of a few stay far inside u32.
const MAX_ATTRIBUTE: i64 = 1 << 24;

/// How pads are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// They are given.
    NotSet,
    /// The output has `ceil(input / stride)` positions; an odd pad goes to the end.
    SameUpper,
    /// As `SameUpper`, an odd pad goes to the beginning.
    SameLower,
    /// None.
    Valid,
}

/// The window of a node whose input has `rank` axes. `kernel` is the weights' kernel, where there are weights.
pub(super) fn read(node: &OnnxNode<'_>, rank: usize, kernel: Option<&[u32]>) -> Fallible<(Window, AutoPad)> {
    if !(3..=5).contains(&rank) {
        return Err(malformed(format!("an input of rank {rank}: 3 to 5 are windowed")));
    }
    let axes = rank - 2;
    let declared = node
        .ints("kernel_shape")?
        .map(|k| numbers(k, axes, 1, "kernel_shape"))
        .transpose()?;
    let kernel = match (kernel, declared) {
        (Some(k), Some(d)) if d != k => return Err(malformed(format!("{d:?}, the weights have {k:?}")).at("kernel_shape")),
        (Some(k), _) => numbers(&k.iter().map(|&k| i64::from(k)).collect::<Vec<_>>(), axes, 1, "kernel_shape")?,
        (None, Some(d)) => d,
        (None, None) => return Err(malformed("missing").at("kernel_shape")),
    };
    let mut window = Window::new(&kernel);
    if let Some(strides) = node.ints("strides")? {
        window.stride[..axes].copy_from_slice(&numbers(strides, axes, 1, "strides")?);
    }
    if let Some(dilations) = node.ints("dilations")? {
        window.dilation[..axes].copy_from_slice(&numbers(dilations, axes, 1, "dilations")?);
    }
    let auto = match node.string("auto_pad")?.unwrap_or("NOTSET") {
        "NOTSET" | "" => AutoPad::NotSet,
        "SAME_UPPER" => AutoPad::SameUpper,
        "SAME_LOWER" => AutoPad::SameLower,
        "VALID" => AutoPad::Valid,
        other => return Err(malformed(format!("`{other}`")).at("auto_pad")),
    };
    let pads = node.ints("pads")?;
    if let (Some(pads), AutoPad::NotSet) = (pads, auto) {
        let pads = numbers(pads, 2 * axes, 0, "pads")?;
        window.pad_begin[..axes].copy_from_slice(&pads[..axes]);
        window.pad_end[..axes].copy_from_slice(&pads[axes..]);
    }
    if !window.is_valid() {
        return Err(limit("a window larger than any input"));
    }
    Ok((window, auto))
}

/// `count` numbers, each at least `least`.
pub(super) fn numbers(list: &[i64], count: usize, least: i64, name: &str) -> Fallible<Vec<u32>> {
    if list.len() != count {
        return Err(malformed(format!("{} numbers instead of {count}", list.len())).at(name));
    }
    list.iter()
        .map(|&v| match v {
            _ if v < least => Err(malformed(format!("{v} is below {least}")).at(name)),
            _ if v > MAX_ATTRIBUTE => Err(limit(format!("{v} is above {MAX_ATTRIBUTE}")).at(name)),
            _ => Ok(v as u32),
        })
        .collect()
}

/// Sets the pads that `auto` asks for, for a forward window over `input`.
pub(super) fn set_same_pads(window: &mut Window, auto: AutoPad, input: Shape) {
    if !matches!(auto, AutoPad::SameUpper | AutoPad::SameLower) {
        return;
    }
    for a in 0..usize::from(window.axes) {
        let (extent, stride) = (u64::from(input.dim(a + 2)), u64::from(window.stride[a]));
        let reach = u64::from(window.reach(a).unwrap_or(1));
        let covered = extent.div_ceil(stride).saturating_sub(1) * stride + reach;
        let (half, rest) = halves(covered.saturating_sub(extent));
        (window.pad_begin[a], window.pad_end[a]) = if auto == AutoPad::SameUpper { (half, rest) } else { (rest, half) };
    }
}

/// Leaves out the taps of a pool's window that lie behind the padded input in all of its positions, if `ceil_mode` gives it one: exporters write
/// windows of thousands of taps for the mean of a whole picture.
pub(super) fn cut_to_input(window: &mut Window, input: Shape) {
    for a in 0..usize::from(window.axes) {
        let padded = u64::from(input.dim(a + 2)) + u64::from(window.pad_begin[a]) + u64::from(window.pad_end[a]);
        let behind = u64::from(window.reach(a).unwrap_or(1)).saturating_sub(padded);
        if padded > 0 && behind > 0 && behind < u64::from(window.stride[a]) {
            // Fewer than there were, so that they fit the same type.
            window.kernel[a] = ((padded - 1) / u64::from(window.dilation[a]) + 1) as u32;
        }
    }
}

/// The smaller and the larger half of a pad.
pub(super) fn halves(total: u64) -> (u32, u32) {
    ((total / 2) as u32, (total - total / 2) as u32)
}

/// Output extent of a forward window along spatial axis `a`; `ceil` counts a last window that sticks out of the end padding,
/// if it starts before it.
pub(super) fn output_extent(window: &Window, a: usize, extent: u32, ceil: bool) -> Fallible<u32> {
    let stride = u64::from(window.stride[a]);
    let begin = u64::from(window.pad_begin[a]);
    let padded = u64::from(extent) + begin + u64::from(window.pad_end[a]);
    let Some(free) = padded.checked_sub(u64::from(window.reach(a).unwrap_or(1))) else {
        return Err(malformed(format!("the window is larger than the padded input along spatial axis {a}")).at("kernel_shape"));
    };
    let mut n = free / stride + 1;
    if ceil && !free.is_multiple_of(stride) && n * stride < u64::from(extent) + begin {
        n += 1;
    }
    u32::try_from(n).map_err(|_| limit("too many output positions"))
}
