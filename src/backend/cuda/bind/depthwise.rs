//! Depthwise convolution of pixels: `kernels/depthwise.cu`.

use super::constants::{Constant, floats};
use super::groups::{GROUP, PixelFrame, Pixels, THREADS, in_pairs, in_whole_groups, pack_bias, source};
use super::operands::{check, head, input, output};
use super::window::Window;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, depthwise_slab, depthwise_strip, depthwise_wide};
use crate::plan::format::Operator;
use crate::plan::tactic::depthwise_strip::Strip;
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
pub fn compile(packer: &mut Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Conv { window, .. } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no convolution"));
    };
    let channels = output(operator, 0)?.layout.shape.dim(1);
    let [rows, columns, _] = window.kernel;
    let dtype = input(operator, 0)?.dtype;
    let padded = channels.next_multiple_of(GROUP);
    let weights = Constant::new(packer, input(operator, 1)?)?.pack(packer, "depthwise taps", |read| {
        let taps = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        let value = |c: u32, i: u32, j: u32| if c < channels { read(&[c, 0, i, j]) } else { 0.0 };
        floats(dtype, taps.flat_map(|(i, j)| (0..padded).map(move |c| value(c, i, j))))
    })?;
    Ok(Box::new(Depthwise {
        operator: operator.clone(),
        window,
        weights,
        bias: pack_bias(packer, operator, channels)?,
    }))
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
            return Ok(vec![depthwise_strip::launch(
                at,
                &self.operator,
                &self.window,
                strip,
                constants,
                region,
                width,
            )?]);
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
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<PixelFrame>() + 48 + 64 + 24);
    }
}
