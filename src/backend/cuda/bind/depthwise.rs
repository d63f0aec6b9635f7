//! Depthwise convolution of pixels: `kernels/depthwise.cu`.

use super::constants::{Constant, floats};
use super::groups::{GROUP, PixelFrame, Pixels, THREADS, in_pairs, in_whole_groups, pack_bias, source};
use super::operands::{check, head, input, output};
use super::window::Window;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, depthwise_patch, depthwise_slab, depthwise_strip, depthwise_wide};
use crate::plan::format::Operator;
use crate::plan::tactic::depthwise_few::{self as few, FOUR, LOT};
use crate::plan::tactic::depthwise_strip::{Strip, Way};
use crate::primitive::{self, Primitive, Region};
use bytemuck::{Pod, Zeroable};

/// Pixels of a thread.
const RUN: u32 = 2;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    window: Window,
    weights: u64,
    bias: u64,
    pitch: u32,
    padding: u32,
}

struct Depthwise {
    operator: Operator,
    window: primitive::Window,
    weights: PackId,
    bias: PackId,
}

/// Compiles a convolution with as many groups as channels, in and out.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Conv { window, .. } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no convolution"));
    };
    let channels = output(operator, 0)?.layout.shape.dim(1);
    let [rows, columns, _] = window.kernel;
    let dtype = input(operator, 0)?.dtype;
    let padded = channels.next_multiple_of(GROUP);
    let taps = Constant::new(packer, input(operator, 1)?)?;
    let weights = if Strip::of(operator.tactic).is_some_and(|s| s.way != Way::Walk) {
        taps.pack(packer, "depthwise taps in fours", |read| {
            floats(dtype, fours(channels, [rows, columns]).map(|at| at.map_or(0.0, |at| read(&at))))
        })?
    } else {
        taps.pack(packer, "depthwise taps", |read| {
            let taps = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
            let value = |c: u32, i: u32, j: u32| if c < channels { read(&[c, 0, i, j]) } else { 0.0 };
            floats(dtype, taps.flat_map(|(i, j)| (0..padded).map(move |c| value(c, i, j))))
        })?
    };
    Ok(Box::new(Depthwise {
        operator: operator.clone(),
        window,
        weights,
        bias: pack_bias(packer, operator, channels)?,
    }))
}

/// Where the values of packed weights lie by lots of channels, rows, fours of taps, pairs of channels, taps, and channels; `None`
/// for what fills up.
fn fours(channels: u32, [rows, columns]: [u32; 2]) -> impl Iterator<Item = Option<[u32; 4]>> {
    let (lines, taps) = few::packed(rows, columns);
    let each = taps.div_ceil(FOUR) * FOUR * LOT;
    let all = u64::from(channels.div_ceil(LOT)) * u64::from(lines * each);
    (0..all).map(move |at| {
        let (lot, within) = ((at / u64::from(lines * each)) as u32, (at % u64::from(lines * each)) as u32);
        let (line, within) = (within / each, within % each);
        let (four, within) = (within / (FOUR * LOT), within % (FOUR * LOT));
        let (pair, tap, half) = (within / (2 * FOUR), four * FOUR + within / 2 % FOUR, within % 2);
        let (channel, tap) = (lot * LOT + pair * 2 + half, (tap < taps).then_some(line * taps + tap)?);
        (channel < channels).then_some([channel, 0, tap / columns, tap % columns])
    })
}

/// The kernel for a window over such pixels of so many channels: those of few taps without dilation have one of their own.
fn function(w: &primitive::Window, x: &Pixels, channels: u32) -> &'static str {
    match (w.kernel, w.stride, w.dilation) {
        ([rows, columns, _], ..) if rows != columns || rows > 5 => match (in_whole_groups(x, channels), in_pairs(x, channels)) {
            (true, _) => "depthwise_taps",
            (false, true) => "depthwise_taps_in_pairs",
            (false, false) => "depthwise_any",
        },
        ([3, 3, 1], [_, 1, 1], [1, 1, 1]) => "depthwise_3_1",
        ([3, 3, 1], [_, 2, 1], [1, 1, 1]) => "depthwise_3_2",
        ([5, 5, 1], [_, 1, 1], [1, 1, 1]) => "depthwise_5_1",
        ([5, 5, 1], [_, 2, 1], [1, 1, 1]) => "depthwise_5_2",
        _ => "depthwise_any",
    }
}

impl Kernel for Depthwise {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let constants = [at.pack(self.weights)?.address, at.pack(self.bias)?.address];
        if let Some(strip) = Strip::of(self.operator.tactic) {
            let launch = if strip.way == Way::Patch {
                depthwise_patch::launch
            } else {
                depthwise_strip::launch
            };
            return Ok(vec![launch(at, &self.operator, &self.window, strip, constants, region, width)?]);
        }
        if let Some(launch) = depthwise_slab::launch(at, &self.operator, &self.window, constants, region, width)? {
            return Ok(vec![launch]);
        }
        if let Some(launch) = depthwise_wide::launch(at, &self.operator, &self.window, constants, region, width)? {
            return Ok(vec![launch]);
        }
        let shape = output(&self.operator, 0)?.layout.shape;
        let params = Params {
            frame: PixelFrame::new(at, &self.operator, region, shape.dim(3).div_ceil(RUN))?,
            x: source(at, &self.operator)?,
            window: Window::new(&self.window),
            weights: constants[0],
            bias: constants[1],
            pitch: shape.dim(1).next_multiple_of(GROUP),
            padding: 0,
        };
        let tiles = params.frame.tiles;
        Ok(vec![Launch::new(
            "depthwise",
            function(&self.window, &params.x, shape.dim(1)),
            tiles,
            width,
            THREADS,
            &params,
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fours_of_taps_lie_together_for_pairs_of_channels() {
        let places: Vec<_> = fours(18, [3, 3]).collect();
        assert_eq!(places.len(), 2 * 3 * 8 * 4 * 2);
        assert_eq!(
            places[..4],
            [Some([0, 0, 0, 0]), Some([1, 0, 0, 0]), Some([0, 0, 0, 1]), Some([1, 0, 0, 1])]
        );
        assert_eq!(places[8], Some([2, 0, 0, 0]), "the next pair");
        assert_eq!(
            (places[64], places[128], places[130]),
            (Some([0, 0, 1, 1]), Some([0, 0, 2, 2]), None)
        );
        assert_eq!((places[192], places[200]), (Some([16, 0, 0, 0]), None), "the last lot");
        // Rows of many taps begin with a four of their own.
        let places: Vec<_> = fours(16, [9, 9]).collect();
        assert_eq!((places.len(), places[3 * 64]), (9 * 3 * 64, Some([0, 0, 1, 0])));
        for (channels, window) in [(18, [3, 3]), (16, [9, 9]), (40, [7, 7]), (6, [1, 5])] {
            let mut found: Vec<_> = fours(channels, window).flatten().collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len() as u32, channels * window[0] * window[1]);
        }
    }

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<PixelFrame>() + 48 + 64 + 24);
    }
}
