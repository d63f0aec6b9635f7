//! Transposed convolution of pixels: `kernels/transpose.cu`.

use super::constants::{Constant, floats};
use super::groups::{GROUP, PixelFrame, Pixels, THREADS, pack_bias, source};
use super::operands::{check, head, input, output};
use super::views::Divisor;
use super::window::Window;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer};
use crate::plan::format::Operator;
use crate::primitive::{self, Primitive, Region};
use bytemuck::{Pod, Zeroable};

/// Pixels of a thread, a stride apart.
const RUN: u32 = 4;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    window: Window,
    stride: [Divisor; 2],
    weights: u64,
    bias: u64,
    pitch: u32,
    depth: u32,
}

struct Transpose {
    operator: Operator,
    window: primitive::Window,
    depth: u32,
    weights: PackId,
    bias: PackId,
}

/// Compiles a transposed convolution of one group.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::ConvTranspose { window, .. } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no transposed convolution"));
    };
    let (x, channels) = (input(operator, 0)?, output(operator, 0)?.layout.shape.dim(1));
    let depth = x.layout.shape.dim(1);
    let (taps, padded) = ([window.kernel[0], window.kernel[1]], channels.next_multiple_of(GROUP));
    let weights = Constant::new(packer, input(operator, 1)?)?.pack(packer, "transposed taps", |read| {
        let mut values = Vec::new();
        for (i, j) in (0..taps[0]).flat_map(|i| (0..taps[1]).map(move |j| (i, j))) {
            for c in 0..depth {
                values.extend((0..padded).map(|o| if o < channels { read(&[c, o, i, j]) } else { 0.0 }));
            }
        }
        floats(x.dtype, values.into_iter())
    })?;
    Ok(Box::new(Transpose {
        operator: operator.clone(),
        window,
        depth,
        weights,
        bias: pack_bias(packer, operator, channels)?,
    }))
}

impl Kernel for Transpose {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let shape = output(&self.operator, 0)?.layout.shape;
        let stride = self.window.stride[1];
        let across = shape.dim(3).div_ceil(RUN * stride) * stride;
        let params = Params {
            frame: PixelFrame::new(at, &self.operator, region, across)?,
            x: source(at, &self.operator)?,
            window: Window::new(&self.window),
            stride: [0, 1].map(|a| Divisor::new(self.window.stride[a])),
            weights: at.pack(self.weights)?.address,
            bias: at.pack(self.bias)?.address,
            pitch: shape.dim(1).next_multiple_of(GROUP),
            depth: self.depth,
        };
        let tiles = params.frame.tiles;
        Ok(vec![Launch::new("transpose", "conv_transpose", tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<PixelFrame>() + 48 + 64 + 24 + 24);
    }
}
