//! Convolutions of 3 by 3 neighbours from 65 to 128 channels to few: the launches of `kernels/conv_slender.cu`.
//!
//! What follows the sums is that of [`conv_wgmma`](super::conv_wgmma), and so are weights, unless chains of products have the order of
//! [`conv_warps`](super::conv_warps).

use super::conv_wgmma::{MISFIT, is_plain, pack_weights};
use super::epilogue::{Constants as Contents, Epilogue, pack_bias};
use super::patches::{Constants, Grid, Params, map};
use super::swizzle::{Halves, swizzled_blocks};
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, blocks};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_3x3::{COLUMNS, TAPS, patch};
use crate::plan::tactic::conv_slender::{ROWS, SlenderTile, chains, is_pieces, product};
use crate::plan::tactic::conv_warps::PIECE_CHANNELS;
use crate::plan::tactic::conv_wgmma::BLOCK_K;
use crate::plan::tactic::product::Product;
use crate::primitive::Region;

/// An operator bound to an entry of the menu.
struct ConvSlender {
    operator: Operator,
    entry: SlenderTile,
    chains: u16,
    constants: Constants,
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = SlenderTile::of(operator.tactic).ok_or(BindError::Tactic("conv_slender has no such tile"))?;
    let chains = chains(operator.class).ok_or(MISFIT)?;
    let product = product(packer.plan, operator).map_err(|_| MISFIT)?;
    let constants = Constants {
        weights: match is_pieces(chains) {
            true => pack_pieces(packer, &product)?,
            false => pack_weights(packer, &product)?,
        },
        bias: pack_bias(packer, &product)?,
    };
    Ok(Box::new(ConvSlender {
        operator: operator.clone(),
        entry,
        chains,
        constants,
    }))
}

/// The input channel at place `k` of a row of weights: of each 8 channels of a piece the lower half, then the upper one.
fn channel_at(k: usize) -> usize {
    const PIECE: usize = PIECE_CHANNELS as usize;
    let (half, place) = (k % PIECE / 16, k % 16);
    k / PIECE * PIECE + place / 4 * 8 + half * 4 + place % 4
}

/// Packs weights as [`pack_weights`] does, in the order in which chains of pieces take their channels.
fn pack_pieces(packer: &Packer<'_>, product: &Product<'_>) -> Result<PackId, BindError> {
    const SIDE: usize = TAPS as usize;
    let view = product.weights;
    let section = packer.section(view).ok_or(BindError::Reference)?;
    let weights = Contents::new(packer.contents(section)?, view)?;
    let [outputs, inputs] = [product.out.extents[3], product.x.extents[3]].map(|n| n as usize);
    let step = |axis| view.layout.stride(axis);
    let name = format!("pieces of taps {} {:?}", view.origin, view.layout);
    packer.pack(section, name, |_| {
        let depth = inputs.next_multiple_of(BLOCK_K as usize);
        let mut bytes = Vec::with_capacity(outputs * SIDE * SIDE * depth * 2);
        for line in 0..outputs * SIDE * SIDE {
            let (output, tap) = (line / (SIDE * SIDE), line % (SIDE * SIDE));
            let first = output as i64 * step(0) + (tap / SIDE) as i64 * step(2) + (tap % SIDE) as i64 * step(3);
            bytes.extend((0..depth).map(channel_at).flat_map(|channel| match channel < inputs {
                true => weights.half(first + channel as i64 * step(1)).to_le_bytes(),
                false => [0; 2],
            }));
        }
        let source = Halves {
            bytes: &bytes,
            strides: [SIDE * SIDE * depth, SIDE * depth, depth, 1],
        };
        swizzled_blocks([outputs, SIDE, SIDE, depth], &source)
    })
}

impl Kernel for ConvSlender {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let [samples, rows, columns, channels] = product.out.extents;
        if region.batch.end > samples || region.rows.end > rows || region.is_empty() {
            return Err(BindError::Reference);
        }
        let grid = Grid {
            channel_tiles: 1,
            across: columns.div_ceil(COLUMNS),
            down: (region.rows.len() as u32).div_ceil(ROWS),
        };
        let [patch_rows, patch_columns] = patch(ROWS);
        let [batch, row, pixel, ..] = product.x.strides;
        let image = map(
            at.view(product.input)?,
            product.x.extents,
            [batch, row, pixel],
            [1, patch_rows, patch_columns],
        );
        let epilogue = Epilogue::new(at, &self.operator, &product, self.constants.bias, region)?;
        let plain = is_plain(&epilogue, channels);
        let weights = at.pack(self.constants.weights)?.address;
        let params = Params::new(at.maps.tiled(&image)?, weights, &product, region, grid, epilogue);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn products_of_a_piece_have_the_channels_of_the_other_kernels() {
        for piece in 0..4 {
            for half in 0..2 {
                let first = piece * 32 + half * 16;
                let own: BTreeSet<usize> = (first..first + 16).map(channel_at).collect();
                let theirs = (0..4).flat_map(|q| (0..4).map(move |i| piece * 32 + q * 8 + half * 4 + i));
                assert_eq!(own, theirs.collect(), "of each 8 channels 4 that follow each other");
            }
        }
        // As the kernel lays out a pixel's words: the lower halves of two groups in 16 bytes, then those of the next two.
        let words: Vec<usize> = (0..32).step_by(4).map(channel_at).collect();
        assert_eq!(words, [0, 8, 16, 24, 4, 12, 20, 28]);
    }
}
