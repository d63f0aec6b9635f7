//! Convolutions of few channels whose pixels come straight into registers: the launches of `kernels/conv_direct.cu`.
//!
//! Most parameters are those of [`conv_mma`](super::conv_mma).

use super::constants::Constant;
use super::conv_mma::{Convolution, Packed, convolution};
use super::conv_wgmma::is_clip;
use super::epilogue::{ChannelsLast, flags, pack_bias};
use super::{Addresses, BindError, Kernel, Launch, Packer, evenly};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_direct::{CHANNELS, DirectTile, Form, PADDED, PIXELS, STEP, Way, product};
use crate::plan::tactic::conv_mma::K_BLOCK;
use crate::plan::tactic::product::Product;
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};
use half::f16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    product: Convolution,
    rounds: u32,
    taps: u32,
}

/// An operator bound to an entry of the menu.
struct ConvDirect {
    operator: Operator,
    entry: DirectTile,
    packed: Packed,
}

/// Channels that a lane stores at once.
const QUAD: u64 = 4;
const MISFIT: BindError = BindError::Tactic("conv_direct does not compute such products");

/// Binds a convolution.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let product = product(packer.plan, operator).map_err(|_| MISFIT)?;
    let entry = DirectTile::of(operator.tactic).ok_or(BindError::Tactic("conv_direct has no such tile"))?;
    let weights = Constant::new(packer, product.weights)?;
    // Of whatever way a launch goes, there are so many groups.
    let groups = product.out.extents[3].div_ceil(CHANNELS) + PADDED;
    let name = format!("direct {:?} {}", product.window, product.matrix);
    let packed = Packed {
        weights: weights.pack(packer, &name, |read| pack_weights(&product, groups, read))?,
        bias: pack_bias(packer, &product)?,
        affine: None,
        k_padded: 0,
    };
    Ok(Box::new(ConvDirect {
        operator: operator.clone(),
        entry,
        packed,
    }))
}

/// Fragments of the second operand, group by group, tap by tap, step by step: of each lane four words, of two halves each; zeros behind
/// what there is. Columns lie so that a lane's results are four neighbouring channels: column 2q + e of product j is channel 4q + 2j + e.
fn pack_weights(product: &Product<'_>, groups: u32, read: &dyn Fn(&[u32]) -> f32) -> Vec<u8> {
    let [inputs, outputs] = [product.x.extents[3], product.out.extents[3]];
    let (across, rank) = (product.window.kernel[1], product.weights.layout.shape.rank());
    let mut at = vec![0; rank];
    let mut value = |channel: u32, tap: u32, k: u32| {
        if k >= inputs || channel >= outputs {
            return 0.0;
        }
        match product.matrix {
            true => at[rank - 2..].copy_from_slice(&[k, channel]),
            false => at.copy_from_slice(&[channel, k, tap / across, tap % across]),
        }
        read(&at)
    };
    let mut bytes = Vec::new();
    for group in 0..groups {
        for tap in 0..product.window.taps() as u32 {
            for step in 0..inputs.div_ceil(STEP) {
                for lane in 0..32 {
                    for i in 0..8 {
                        let (half, pair, j) = (i % 2, i / 2 % 2, i / 4);
                        let k = step * STEP + pair * 8 + lane % 4 * 2 + half;
                        let column = lane / 4;
                        let channel = group * CHANNELS + column / 2 * 4 + 2 * j + column % 2;
                        bytes.extend_from_slice(&f16::from_f32(value(channel, tap, k)).to_le_bytes());
                    }
                }
            }
        }
    }
    bytes
}

/// The way of a launch that makes so many channels.
fn way(params: &Convolution, channels: u32) -> Way {
    let epilogue = params.epilogue();
    let quads = |t: &ChannelsLast| {
        t.address.is_multiple_of(2 * QUAD) && [t.batch, t.row, t.pixel].iter().all(|s| s.unsigned_abs().is_multiple_of(QUAD))
    };
    let flagged = |flag: u32| epilogue.flags & flag != 0;
    let joined = !flagged(flags::JOINS) || quads(&epilogue.joined);
    let stored = quads(&epilogue.output) && !flagged(flags::WIDENED) && u64::from(channels).is_multiple_of(QUAD);
    match is_clip(epilogue) && joined && stored {
        true if params.is_flat() && flagged(flags::JOINS) => Way::Joined,
        true if params.is_flat() => Way::Flat,
        true => Way::Plain,
        false => Way::Any,
    }
}

impl Kernel for ConvDirect {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let tile = (PIXELS as u16, u16::MAX);
        let params = convolution(at, &self.operator, &product, &self.packed, region, (tile, K_BLOCK as u16))?;
        let form = Form::of(&product, way(&params, product.out.extents[3]));
        let params = Params {
            product: params,
            rounds: form.rounds,
            taps: form.taps,
        };
        // A block begins with its weights.
        let blocks = evenly(at, params.product.tiles().div_ceil(self.entry.warps), self.entry.together(&form));
        let launch = Launch::new("conv_direct", form.function(), blocks, width, self.entry.threads(), &params);
        Ok(vec![Launch {
            shared: form.shared(),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<Convolution>() + 8);
        assert_eq!(offset_of!(Params, taps), size_of::<Convolution>() + 4);
    }
}
