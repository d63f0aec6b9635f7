//! The tile of the kernel for convolutions of 3 by 3 neighbours to few channels whose taps share a patch of pixels: the class of
//! [`conv_warps`], for more pixels.

use super::Misfit;
use super::conv_warps::{self, Share};
use super::forms::need;
use super::product::Product;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};

/// Pixels of a turn, and output channels.
pub const TILE: (u16, u16) = (32, 32);
/// Taps along either axis, a warp each.
pub const SIDE: u32 = 3;
/// Bytes of a pixel in shared memory, and of the sums of two turns.
const PIXEL_BYTES: u32 = 256;
const SUM_BYTES: u32 = 2 * SIDE * SIDE * 32 * 40 * 4;
/// Bytes of shared memory that a block of Hopper may have.
const BLOCK_BYTES: u32 = 227 << 10;

/// The tactic.
pub const TACTIC: Tactic = Tactic {
    kernel: Kernel::ConvTaps,
    tile: TILE,
    variant: 0,
};

/// The product that an operator begins with, if the kernel takes it: of step 1, whose shortest band has room.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = conv_warps::product(plan, operator, None)?;
    let window = &product.window;
    let neighbours = (0..2).all(|a| window.stride[a] == 1 && window.dilation[a] == 1);
    need(Share::of(&product, None) == Share::Taps && neighbours, Misfit::Primitive)?;
    need(shared(1, product.out.extents[2]) <= BLOCK_BYTES, Misfit::Tile)?;
    Ok(product)
}

/// Bytes of the patch under a band of rows, behind which the warps' sums lie.
pub fn patch(band: u32, columns: u32) -> u32 {
    (band + SIDE - 1) * (columns + SIDE - 1) * PIXEL_BYTES
}

/// Bytes of shared memory of a block.
pub fn shared(band: u32, columns: u32) -> u32 {
    patch(band, columns) + SUM_BYTES
}

/// Rows of a unit on a GPU of so many places for blocks: what takes least by estimate, where a patch costs as much as one turn and a
/// half.
pub fn band(rows: u32, columns: u32, samples: u32, places: u32) -> u32 {
    let cost = |&band: &u32| {
        let units = u64::from(samples) * u64::from(rows.div_ceil(band));
        let turns = u64::from((band * columns).div_ceil(u32::from(TILE.0)));
        units.div_ceil(u64::from(places.max(1))) * (2 * turns + 3)
    };
    let room = (1..=rows).take_while(|&band| shared(band, columns) <= BLOCK_BYTES);
    room.min_by_key(cost).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_fill_the_places_and_have_room() {
        assert_eq!([16, 132].map(|places| band(14, 14, 8, places)), [7, 1]);
        assert_eq!(band(7, 7, 8, 16), 4);
        // One row of so many columns has just room.
        assert!(shared(1, 180) <= BLOCK_BYTES && shared(1, 181) > BLOCK_BYTES);
        for columns in 1..=180 {
            let rows = 196 / columns + 1;
            assert!(shared(band(rows, columns, 1000, 16), columns) <= BLOCK_BYTES, "{columns}");
        }
    }
}
