//! Convolutions of one tap behind a prologue by `wgmma`: the launches of `kernels/prologue_wgmma.cu` and `kernels/prologue_streamed.cu`.

use super::conv_affine::{self, MISFIT};
use super::conv_mma;
use super::conv_warps;
use super::conv_wgmma::{self, PingPongParams, Plain};
use super::epilogue::pack_bias;
use super::pieces::{self, PixelsFrom};
use super::views::Divisor;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, Swizzle, TiledMap, blocks};
use crate::plan::format::{Operator, Plan, View};
use crate::plan::tactic::conv_affine::Order;
use crate::plan::tactic::conv_warps::{PIECE_CHANNELS, Share};
use crate::plan::tactic::conv_wgmma::{self as tiles, BLOCK_K};
use crate::plan::tactic::product::Product;
use crate::plan::tactic::prologue::{self, Prologue};
use crate::plan::tactic::prologue_wgmma::{PIXELS, PrologueTile};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// `PrologueWgmma` of `kernels/prologue_wgmma.cuh`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Params {
    product: PingPongParams,
    constants: u64,
    factors: u64,
    factors_batch: i64,
    sample: Divisor,
    inputs: u32,
    chain: u32,
    nothing: u32,
    end: [u32; 4],
}

/// An operator bound to an entry of the menu.
struct PrologueWgmma {
    /// The operator without its prologue.
    operator: Operator,
    entry: PrologueTile,
    constants: Plain,
    prologue: Constant,
    /// The same bits, for other tails, for rows of several samples, and for fewer blocks than there are ranges of channels.
    other: Box<dyn Kernel>,
}

/// What a prologue reads besides pixels.
enum Constant {
    /// Packed scales and shifts.
    Affine(PackId),
    /// Factors that are computed.
    Gate(View),
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *PrologueTile::of(operator.tactic).ok_or(BindError::Tactic("prologue_wgmma has no such tile"))?;
    let (prologue, body) = prologue::cut(packer.plan, operator)
        .filter(|(prologue, _)| entry.before.is(prologue))
        .ok_or(MISFIT)?;
    let product = product(packer.plan, &body)?;
    if !entry.keeps(product.k()) {
        return Err(MISFIT);
    }
    let k_padded = (product.k() as u32).next_multiple_of(BLOCK_K);
    let order = entry.before.order();
    let prologue = match (&prologue, order) {
        (Prologue::Affine(affine), Order::Ascending) => Constant::Affine(conv_mma::pack_affine(packer, affine, k_padded)?),
        (Prologue::Affine(affine), Order::Pieces) => Constant::Affine(conv_warps::pack_affine(packer, affine, k_padded)?),
        (Prologue::Gate(factors), _) => Constant::Gate(*factors),
    };
    let constants = Plain {
        weights: match order {
            Order::Ascending => conv_wgmma::pack_weights(packer, &product)?,
            Order::Pieces => pieces::pack_weights(packer, &product, PixelsFrom::Registers)?,
        },
        bias: pack_bias(packer, &product)?,
        splits: 1,
    };
    Ok(Box::new(PrologueWgmma {
        entry,
        constants,
        prologue,
        other: conv_affine::other(packer, operator, order)?,
        operator: body,
    }))
}

/// The product that an operator without its prologue begins with.
fn product<'a>(plan: &Plan, body: &'a Operator) -> Result<Product<'a>, BindError> {
    tiles::product(plan, body).map_err(|_| MISFIT)
}

impl PrologueWgmma {
    /// The launch of a chunk; none where its pixels, its tail or the width want another kernel.
    fn launch(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Option<Launch>, BindError> {
        let product = product(at.plan, &self.operator)?;
        let tile = (PIXELS, self.entry.channels);
        let params = conv_wgmma::params(at, &self.operator, &product, region, tile, &self.constants)?;
        let known = conv_affine::is_relu(params.epilogue());
        let Some(step) = product.x.flat_step().filter(|_| known) else {
            return Ok(None);
        };
        let Some(product_params) = conv_wgmma::stored_by_copies(at, params, false, PIXELS.into())? else {
            return Ok(None);
        };
        let across = product.out.extents[3].div_ceil(u32::from(self.entry.channels));
        // One block fills a multiprocessor: more of them would only load the weights more often.
        let blocks = (blocks(at.rooms(), width) / across).min(params.tiles() / across) * across;
        if blocks == 0 {
            return Ok(None);
        }
        let [samples, rows, columns, inputs] = product.x.extents;
        let image = at.maps.tiled(&TiledMap {
            address: at.view(product.input)?,
            extents: vec![u64::from(inputs), u64::from(samples) * u64::from(rows) * u64::from(columns)],
            strides: vec![step as u64 * 2],
            tile: vec![PIECE_CHANNELS, PIXELS.into()],
            steps: vec![1, 1],
            swizzle: Swizzle::B64,
        })?;
        let (constants, factors, factors_batch) = match &self.prologue {
            Constant::Affine(pack) => (at.pack(*pack)?.address, 0, 0),
            Constant::Gate(factors) => (0, at.view(factors)?, factors.layout.stride(0)),
        };
        let params = Params {
            product: product_params.with_image(image),
            constants,
            factors,
            factors_batch,
            sample: Divisor::new(rows * columns),
            inputs,
            chain: Share::Affine.pieces(inputs).0,
            nothing: 0,
            end: [0; 4],
        };
        let launch = Launch::new(self.entry.unit(), self.entry.function(), blocks, 0, self.entry.threads(), &params);
        Ok(Some(Launch {
            shared: self.entry.shared(),
            ..launch
        }))
    }
}

impl Kernel for PrologueWgmma {
    fn workspace(&self) -> u64 {
        self.other.workspace()
    }

    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        match self.launch(at, region, width)? {
            Some(launch) => Ok(vec![launch]),
            None => self.other.launches(at, region, width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<PingPongParams>() + 64);
        assert_eq!(offset_of!(Params, constants), size_of::<PingPongParams>());
    }
}
