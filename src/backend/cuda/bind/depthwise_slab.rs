//! Depthwise convolution of f16 under square windows of 3 or 5 taps: `kernels/depthwise_slab.cu`.
//!
//! The bits are those of [`depthwise`](super::depthwise), which takes every other window, type and layout.

use super::groups::{GROUP, PixelFrame, Pixels, THREADS, in_whole_groups, source};
use super::operands::{input, output};
use super::tail::attributes;
use super::views::Divisor;
use super::window::Window;
use super::{Addresses, BindError, Launch};
use crate::plan::format::{Call, Operand, Operator};
use crate::primitive::{self, Primitive, Region, Unary};
use bytemuck::{Pod, Zeroable};

/// Most groups of channels of a slab.
const SLAB: u32 = 16;
/// Blocks of one pixel a thread that a large GPU takes at once: where there are more, a thread computes two.
const MANY: u32 = 264;

/// Numbers of `SlabTail` in the source.
mod function {
    pub const IDENTITY: u32 = 0;
    pub const CLIP: u32 = 1;
    pub const RELU: u32 = 2;
    pub const HARD_SWISH: u32 = 3;
    pub const TAIL: u32 = 4;
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    window: Window,
    weights: u64,
    bias: u64,
    slab: Divisor,
    slabs: Divisor,
    runs: u32,
    block_runs: u32,
    tiles: u32,
    function: u32,
    first: f32,
    second: f32,
}

/// How many outputs apart the taps of a row land, and the step from output to output, for the windows that have a kernel.
fn steps(window: &primitive::Window) -> Option<(u32, u32)> {
    let taps = window.kernel[0];
    let square = matches!(taps, 3 | 5) && window.kernel[1] == taps;
    match (window.stride[1], window.dilation[1]) {
        _ if !square => None,
        (1, apart) => Some((apart, 1)),
        (2, 1) => Some((1, 2)),
        _ => None,
    }
}

/// The launch of a chunk by addresses of packed weights and bias; `None` where the kernels do not take the operator.
pub fn launch(
    at: &Addresses<'_>,
    operator: &Operator,
    window: &primitive::Window,
    [weights, bias]: [u64; 2],
    region: &Region,
    width: u16,
) -> Result<Option<Launch>, BindError> {
    let Some((apart, step)) = steps(window) else { return Ok(None) };
    let x = source(at, operator)?;
    let channels = output(operator, 0)?.layout.shape.dim(1);
    if !in_whole_groups(&x, channels) || input(operator, 1)?.layout.shape.elements() == 0 {
        return Ok(None);
    }
    let groups = channels / GROUP;
    let slab = groups.div_ceil(groups.div_ceil(SLAB));
    let (slabs, block_runs) = (groups.div_ceil(slab), THREADS / slab);
    let pixels = output(operator, 0)?.layout.shape.dim(3);
    // Outputs of a run lie `apart`; so many runs interleave.
    let across = |run: u32| pixels.div_ceil(run * apart) * apart;
    let rows = (region.batch.len() * region.rows.len()) as u64;
    let blocks = |run: u32| (rows * u64::from(across(run))).div_ceil(u64::from(block_runs)) * u64::from(slabs);
    let run = if blocks(1) <= u64::from(MANY) { 1 } else { 2 };
    let frame = PixelFrame::new(at, operator, region, across(run))?;
    let runs = frame.count / groups;
    let (function, (first, second)) = tail(operator);
    let params = Params {
        frame,
        x,
        window: Window::new(window),
        weights,
        bias,
        slab: Divisor::new(slab),
        slabs: Divisor::new(slabs),
        runs,
        block_runs,
        tiles: runs.div_ceil(block_runs) * slabs,
        function,
        first,
        second,
    };
    let name = format!("depthwise_slab_{}_{step}_{run}", window.kernel[0]);
    Ok(Some(Launch::new("depthwise_slab", name, params.tiles, width, THREADS, &params)))
}

/// The path of an operator's tail with its attributes.
fn tail(operator: &Operator) -> (u32, (f32, f32)) {
    let unary = |call: &Call| match (&call.primitive, call.inputs.as_slice()) {
        (Primitive::Unary(kind), [Operand::Inner(0)]) => Some(*kind),
        _ => None,
    };
    match operator.calls.get(1..) {
        Some([]) => (function::IDENTITY, (0.0, 0.0)),
        Some([call]) => match unary(call) {
            Some(kind @ Unary::Clip(..)) => (function::CLIP, attributes(kind)),
            Some(Unary::Relu) => (function::RELU, (0.0, 0.0)),
            Some(Unary::HardSwish) => (function::HARD_SWISH, (0.0, 0.0)),
            _ => (function::TAIL, (0.0, 0.0)),
        },
        _ => (function::TAIL, (0.0, 0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_and_numbers_are_the_sources() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<PixelFrame>() + 48 + 64 + 64);
        let source = include_str!("../kernels/depthwise_slab.cu");
        let (i, c, r, h, t) = (
            function::IDENTITY,
            function::CLIP,
            function::RELU,
            function::HARD_SWISH,
            function::TAIL,
        );
        let line = format!("SLAB_IDENTITY = {i}, SLAB_CLIP = {c}, SLAB_RELU = {r}, SLAB_HARD_SWISH = {h}, SLAB_TAIL = {t}");
        assert!(source.contains(&line));
        assert!(source.contains(&format!("SLAB_GROUPS = {SLAB};")));
    }

    #[test]
    fn windows_of_few_taps_have_a_kernel() {
        let window = |kernel: [u32; 2], stride: u32, dilation: u32| {
            let mut window = primitive::Window::new(&kernel);
            window.stride = [stride, stride, 1];
            window.dilation = [dilation, dilation, 1];
            window
        };
        assert_eq!(steps(&window([3, 3], 1, 1)), Some((1, 1)));
        assert_eq!(steps(&window([5, 5], 1, 4)), Some((4, 1)));
        assert_eq!(steps(&window([5, 5], 2, 1)), Some((1, 2)));
        for other in [
            window([3, 5], 1, 1),
            window([7, 7], 1, 1),
            window([3, 3], 2, 2),
            window([3, 3], 3, 1),
        ] {
            assert_eq!(steps(&other), None);
        }
    }
}
