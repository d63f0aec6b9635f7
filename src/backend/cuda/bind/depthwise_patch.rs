//! Depthwise convolution of f16 by blocks that ask for all pixels under a tile at once: `kernels/depthwise_patch.cu`.
//!
//! The bits are those of [`depthwise`](super::depthwise), which packs weights and bias.

use super::operands::output;
use super::views::Divisor;
use super::{Addresses, BindError, Launch, depthwise_strip};
use crate::plan::format::Operator;
use crate::plan::tactic::depthwise_few::{LOT, Patch};
use crate::plan::tactic::depthwise_strip::Strip;
use crate::primitive::{self, Region};
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    strip: depthwise_strip::Params,
    runs: Divisor,
    pixels: Divisor,
    line: u32,
    spots: u32,
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
    let (unit, name) = depthwise_strip::kernel(operator, window, strip)?;
    let shape = output(operator, 0)?.layout.shape;
    let tile = Patch::of(strip, window.kernel[0], shape.dim(3));
    let cut = [
        shape.dim(3).div_ceil(tile.width(strip)),
        (region.rows.len() as u32).div_ceil(strip.depth.into()),
        shape.dim(1).div_ceil(LOT),
    ];
    let params = Params {
        strip: depthwise_strip::Params::new(at, operator, window, strip, constants, region, cut)?,
        runs: Divisor::new(tile.runs),
        pixels: Divisor::new(tile.pixels),
        line: tile.line,
        spots: tile.spots,
    };
    let launch = Launch::new(unit, name, params.strip.tiles, width, tile.threads, &params);
    Ok(Launch {
        shared: tile.shared,
        ..launch
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_and_numbers_are_the_sources() {
        assert_eq!(size_of::<Params>(), size_of::<depthwise_strip::Params>() + 32);
        let source = [
            include_str!("../kernels/depthwise_few.cuh"),
            include_str!("../kernels/depthwise_patch.cu"),
        ]
        .concat();
        assert!(source.contains(&format!("LOT = {LOT};")));
        for line in ["PATCH_THREADS = 128;", "FEW_TAPS = 7;", "return j + j / RUN;"] {
            assert!(source.contains(line), "{line}");
        }
    }
}
