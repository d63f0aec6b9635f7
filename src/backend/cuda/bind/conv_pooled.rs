//! Convolutions of 3 by 3 neighbours of which the greatest of every 2 by 2 results are kept: the launches of `kernels/conv_pooled.cu`.
//!
//! Weights and biases are those of [`conv_wgmma`](super::conv_wgmma): both kernels have the same sums. Pixels come through two im2col
//! maps, of the even rows of the input and of the odd ones.

use super::conv_wgmma::{self, MISFIT, Params as ProductParams, Plain};
use super::patches::Convolution;
use super::{Addresses, BindError, Kernel, Launch, Packer, Swizzle, TensorMap, TiledMap, blocks};
use crate::plan::format::{Operator, View};
use crate::plan::tactic::conv_3x3::product;
use crate::plan::tactic::conv_pooled::{CHANNELS, PLACES, SHARED, SIDE, THREADS, places};
use crate::plan::tactic::product::Pixels;
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Maxima of a warp, and channels of a strip: what is stored at a time.
const STRIP: [u32; 2] = [8, 64];

/// `ConvPooledParams` of the source.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
struct Params {
    product: ProductParams,
    odd: TensorMap,
    output: TensorMap,
    shift: u32,
    padding: [u32; 15],
}

/// An operator with its packed constants, and where its maxima are stored.
struct ConvPooled {
    convolution: Convolution,
    pooled: View,
}

/// Binds a convolution with maxima.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let convolution = Convolution::pack(packer, operator)?;
    let pooled = convolution.pooled.ok_or(MISFIT)?;
    Ok(Box::new(ConvPooled { convolution, pooled }))
}

impl ConvPooled {
    /// The launch of a region whose places follow each other: whole samples, or rows of one.
    fn launch(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Launch, BindError> {
        let operator = &self.convolution.operator;
        let product = product(at.plan, operator).map_err(|_| MISFIT)?;
        let [even, odd] = [0, 1].map(|parity| places(&product, parity));
        let constants = Plain {
            weights: self.convolution.constants.weights,
            bias: self.convolution.constants.bias,
            splits: 1,
        };
        let tile = (PLACES as u16, CHANNELS as u16);
        let params = conv_wgmma::params(at, operator, &even, region, tile, &constants)?;
        let second_row = at.view(product.input)? + product.x.strides[1].unsigned_abs() * 2;
        let stored = Pixels::of(&self.pooled).ok_or(MISFIT)?;
        let output = TiledMap {
            address: at.view(&self.pooled)?,
            extents: vec![u64::from(stored.extents[3]), u64::from(params.end_pixel() / SIDE)],
            // A single pixel is never stepped from, but the map wants a step.
            strides: vec![match stored.flat_step().ok_or(MISFIT)? {
                0 => u64::from(stored.extents[3]) * 2,
                step => step.unsigned_abs() * 2,
            }],
            tile: vec![STRIP[1], STRIP[0]],
            steps: vec![1, 1],
            swizzle: Swizzle::B128,
        };
        let params = Params {
            odd: conv_wgmma::image(at, &odd, second_row, PLACES)?,
            output: at.maps.tiled(&output)?,
            product: params,
            shift: product.window.pad_begin[0] % SIDE,
            padding: [0; 15],
        };
        // One block fills a multiprocessor.
        let count = blocks(at.rooms(), width).min(params.product.tiles());
        let launch = Launch::new("conv_pooled", "conv_pooled", count, 0, THREADS, &params);
        Ok(Launch { shared: SHARED, ..launch })
    }
}

impl Kernel for ConvPooled {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let rows = Pixels::of(&self.pooled).ok_or(MISFIT)?.extents[1];
        if region.rows == (0..rows) {
            return Ok(vec![self.launch(at, region, width)?]);
        }
        let samples = region.batch.clone().map(|sample| Region {
            batch: sample..sample + 1,
            rows: region.rows.clone(),
        });
        samples.map(|region| self.launch(at, &region, width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn params_have_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<ProductParams>() + 256 + 64);
        assert_eq!(offset_of!(Params, shift), size_of::<ProductParams>() + 256);
    }
}
