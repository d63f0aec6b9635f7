//! Convolutions of 3 by 3 neighbours from 65 to 128 channels to few: the launches of `kernels/conv_slender.cu`.
//!
//! What follows the sums is that of [`conv_wgmma`](super::conv_wgmma), and so are weights, unless chains of products have the order of
//! [`conv_warps`](super::conv_warps).

use super::conv_wgmma::{MISFIT, pack_weights};
use super::epilogue::pack_bias;
use super::patches::{Constants, Convolution, Tile};
use super::pieces::{self, PixelsFrom};
use super::{Addresses, BindError, Kernel, Launch, Packer, blocks};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_patch::Store;
use crate::plan::tactic::conv_slender::{OUTPUTS, ROWS, SlenderTile, chains, is_pieces, product};
use crate::primitive::Region;

/// An operator bound to an entry of the menu.
struct ConvSlender {
    convolution: Convolution,
    entry: SlenderTile,
    chains: u16,
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = SlenderTile::of(operator.tactic).ok_or(BindError::Tactic("conv_slender has no such tile"))?;
    let chains = chains(operator.class).ok_or(MISFIT)?;
    let product = product(packer.plan, operator).map_err(|_| MISFIT)?;
    let constants = Constants {
        weights: match is_pieces(chains) {
            true => pieces::pack_weights(packer, &product, PixelsFrom::Memory)?,
            false => pack_weights(packer, &product)?,
        },
        bias: pack_bias(packer, &product)?,
    };
    Ok(Box::new(ConvSlender {
        convolution: Convolution {
            operator: operator.clone(),
            pooled: None,
            constants,
        },
        entry,
        chains,
    }))
}

impl Kernel for ConvSlender {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.convolution.operator).map_err(|_| MISFIT)?;
        let tile = Tile {
            rows: ROWS,
            channels: OUTPUTS,
            weight_stages: 0,
        };
        let params = self.convolution.params(at, &product, &tile, region)?;
        let plain = params.store(false) == Store::Plain;
        // No more blocks than there is room for: each of them loads the weights.
        let most = blocks(at.rooms().saturating_mul(self.entry.together), width);
        let count = most.min(params.tiles);
        let function = self.entry.function(self.chains, plain);
        let launch = Launch::new("conv_slender", function, count, 0, self.entry.threads(), &params);
        Ok(vec![Launch {
            shared: self.entry.shared(),
            ..launch
        }])
    }
}
