//! Depthwise convolution of f16 by threads that own strips of the output: they walk down it by `kernels/depthwise_strip.cu`, or
//! `kernels/depthwise_curved.cu` where the tail is a function of many steps; by `kernels/depthwise_burst.cu` they ask for all
//! pixels under one of a single row at once.
//!
//! The bits are those of [`depthwise`](super::depthwise), which packs weights and bias.

use super::groups::{GROUP, Pixels, source};
use super::operands::output;
use super::tail::attributes;
use super::views::Divisor;
use super::{Addresses, BindError, Launch, count};
use crate::plan::format::{Operator, Rounding};
use crate::plan::tactic::depthwise_strip::{Strip, Way, tail};
use crate::primitive::{self, Region, Unary};
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;

/// Numbers of `StripTail` in the source.
mod function {
    pub const IDENTITY: u32 = 0;
    pub const CLIP: u32 = 1;
    pub const RELU: u32 = 2;
    pub const HARD_SWISH: u32 = 3;
    pub const LEAKY_RELU: u32 = 4;
    pub const SILU: u32 = 5;
    pub const GELU: u32 = 6;
    pub const GELU_TANH: u32 = 7;
    pub const SIGMOID: u32 = 8;
}

/// What the kernels' parameters begin with.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Params {
    x: u64,
    y: u64,
    batch: [i64; 2],
    row: [i64; 2],
    pixel: [i64; 2],
    weights: u64,
    bias: u64,
    /// From tap to tap of the packed weights: whole groups.
    channels: u32,
    height: u32,
    width: u32,
    columns: u32,
    pad: [u32; 2],
    dilation: u32,
    depth: u32,
    lots: Divisor,
    across: Divisor,
    down: Divisor,
    first_batch: u32,
    first_row: u32,
    rows: u32,
    count: u32,
    /// Blocks for as many as there is work for.
    pub tiles: u32,
    function: u32,
    rounded: u32,
    first: f32,
    second: f32,
}

const MISFIT: BindError = BindError::Tactic("depthwise_strip takes halves under small windows");

impl Params {
    /// Of a chunk that is cut into strips, or tiles of them: so many along a row, along the rows, and of channels.
    pub fn new(
        at: &Addresses<'_>,
        operator: &Operator,
        window: &primitive::Window,
        strip: &Strip,
        [weights, bias]: [u64; 2],
        region: &Region,
        [across, down, lots]: [u32; 3],
    ) -> Result<Params, BindError> {
        let (x, y) = (source(at, operator)?, Pixels::new(at, output(operator, 0)?)?);
        let count = count([region.batch.len() as u32, across, down, lots], "a chunk")?;
        let kind = tail(operator).map_err(|_| MISFIT)?;
        let (first, second) = kind.map_or((0.0, 0.0), attributes);
        let rounded = operator.calls.first().is_some_and(|c| c.rounding == Rounding::Rounded);
        Ok(Params {
            x: x.address,
            y: y.address,
            batch: [x.batch * 2, y.batch * 2],
            row: [x.row * 2, y.row * 2],
            pixel: [x.pixel * 2, y.pixel * 2],
            weights,
            bias,
            channels: output(operator, 0)?.layout.shape.dim(1).next_multiple_of(GROUP),
            height: x.height,
            width: x.width,
            columns: y.width,
            pad: [window.pad_begin[0], window.pad_begin[1]],
            dilation: window.dilation[0],
            depth: strip.depth.into(),
            lots: Divisor::new(lots),
            across: Divisor::new(across),
            down: Divisor::new(down),
            first_batch: region.batch.start,
            first_row: region.rows.start,
            rows: region.rows.len() as u32,
            count,
            tiles: count,
            function: number(kind).ok_or(MISFIT)?,
            rounded: u32::from(rounded),
            first,
            second,
        })
    }
}

/// The number of a tail's function, of those that have a path.
fn number(kind: Option<Unary>) -> Option<u32> {
    Some(match kind {
        None => function::IDENTITY,
        Some(Unary::Clip(..)) => function::CLIP,
        Some(Unary::Relu) => function::RELU,
        Some(Unary::HardSwish) => function::HARD_SWISH,
        Some(Unary::LeakyRelu(..)) => function::LEAKY_RELU,
        Some(Unary::Silu) => function::SILU,
        Some(Unary::Gelu) => function::GELU,
        Some(Unary::GeluTanh) => function::GELU_TANH,
        Some(Unary::Sigmoid) => function::SIGMOID,
        Some(_) => return None,
    })
}

/// The unit and the kernel of an operator.
pub fn kernel(operator: &Operator, window: &primitive::Window, strip: &Strip) -> Result<(&'static str, String), BindError> {
    let kind = tail(operator).map_err(|_| MISFIT)?;
    strip.function(window, kind).ok_or(MISFIT)
}

/// The launch of a chunk by addresses of packed weights and bias.
pub fn launch(
    at: &Addresses<'_>,
    operator: &Operator,
    window: &primitive::Window,
    strip: &Strip,
    constants: [u64; 2],
    region: &Region,
    width: u16,
) -> Result<Launch, BindError> {
    let (unit, name) = kernel(operator, window, strip)?;
    let shape = output(operator, 0)?.layout.shape;
    let (run, depth) = (u32::from(strip.run), u32::from(strip.depth));
    // Outputs of a strip lie `apart`; so many strips interleave.
    let apart = if strip.way == Way::Walk { window.dilation[0] } else { 1 };
    let strips = |extent: u32, each: u32| each.checked_mul(apart).map(|reach| extent.div_ceil(reach) * apart);
    let large = || BindError::Large("a chunk");
    let cut = [
        strips(shape.dim(3), run).ok_or_else(large)?,
        strips(region.rows.len() as u32, depth).ok_or_else(large)?,
        shape.dim(1) / strip.channels(window.kernel[0]),
    ];
    let mut params = Params::new(at, operator, window, strip, constants, region, cut)?;
    params.tiles = params.count.div_ceil(THREADS);
    Ok(Launch::new(unit, name, params.tiles, width, THREADS, &params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_and_numbers_are_the_sources() {
        assert_eq!(std::mem::size_of::<Params>(), 80 + 32 + 36 + 36);
        let source = include_str!("../kernels/depthwise_strip.cuh");
        let numbers = [
            ("IDENTITY", function::IDENTITY),
            ("CLIP", function::CLIP),
            ("RELU", function::RELU),
            ("HARD_SWISH", function::HARD_SWISH),
            ("LEAKY_RELU", function::LEAKY_RELU),
            ("SILU", function::SILU),
            ("GELU", function::GELU),
            ("GELU_TANH", function::GELU_TANH),
            ("SIGMOID", function::SIGMOID),
        ];
        for (name, number) in numbers {
            assert!(source.contains(&format!("    STRIP_{name} = {number},")), "{name}");
        }
        assert!(source.contains(&format!("STRIP_THREADS = {THREADS};")));
    }
}
