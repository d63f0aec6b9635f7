//! The tiles of the kernels that convolve few pixels, or multiply the single ones of small fully connected layers, with weights
//! kept in registers: the warps of a block share out K.

use super::Misfit;
use super::conv_mma;
use super::forms::{cheapest_first, need};
use super::product::Product;
use super::prologue::Prologue;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};
use crate::tensor::Shape;

/// Channels of a piece: what a warp multiplies at a time.
pub const PIECE_CHANNELS: u32 = 32;
/// Most pieces of a warp, and of one that shares the channels of single pixels.
const WARP_PIECES: u32 = 4;
const SINGLE_PIECES: u32 = 6;
/// Sums that a thread finishes at a time.
const FINISHED: u32 = 8;
/// Warps that share the channels of a convolution of one tap.
const SHARERS: u32 = 8;
/// Most input channels of such a convolution.
pub const MAX_CHANNELS: u32 = SHARERS * WARP_PIECES * PIECE_CHANNELS;
/// Most input channels of single pixels, and most weights that they multiply: more are worth streaming.
const SINGLE_CHANNELS: u32 = SHARERS * SINGLE_PIECES * PIECE_CHANNELS;
const SINGLE_WEIGHTS: u64 = 1 << 21;
/// Taps of a larger window: one a warp.
const TAPS: u32 = 9;
/// Input channels of a convolution under a larger window that occupy its warps.
const TAP_CHANNELS: std::ops::RangeInclusive<u32> = 2 * PIECE_CHANNELS + 1..=WARP_PIECES * PIECE_CHANNELS;
/// Most output channels of such a convolution: a block's.
const TAP_OUTPUTS: u32 = 32;
/// Most output pixels of a sample: where there are more, larger tiles read their weights less often.
const PIXELS: u64 = 196;
/// The same of pixels that are multiplied by factors, which otherwise takes a launch more.
const GATED_PIXELS: u64 = 784;

/// Tile and turns of one tactic: a kernel of `conv_warps.cu` for each way in which its warps share out K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpsTile {
    /// Pixels and output channels of a block's tile.
    pub tile: (u16, u16),
    /// Tiles of pixels that a block computes one after another.
    pub turns: u32,
}

const fn tile(tile: (u16, u16), turns: u32) -> WarpsTile {
    WarpsTile { tile, turns }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[WarpsTile] = &[
    tile((16, 32), 1),
    tile((16, 32), 2),
    tile((16, 32), 4),
    tile((16, 16), 1),
    tile((32, 32), 1),
    tile((32, 32), 2),
];

impl WarpsTile {
    /// Threads of a block with a tile of pixels and channels, of whose warps so many have a part of K: warps without one are left
    /// away, as far as the sums of a tile, finished eight at a time, do not need their threads.
    pub fn threads(tile: (u16, u16), warps: u32) -> u32 {
        let finishing = u32::from(tile.0) * u32::from(tile.1) / FINISHED;
        (warps * 32).max(finishing.next_multiple_of(32))
    }
}

/// What a kernel's warps share out, and what happens to pixels before they multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The taps of a window.
    Taps,
    /// The channels of the only tap, behind scale, shift and relu.
    Affine,
    /// The same, behind a factor.
    Gate,
    /// The same of single pixels as they are: small fully connected layers.
    Single,
}

impl Share {
    /// Warps of a block.
    pub fn warps(self) -> u32 {
        match self {
            Share::Taps => TAPS,
            _ => SHARERS,
        }
    }

    /// The numbers of pieces that kernels have places for, in ascending order: fewer take fewer registers.
    fn places(self) -> &'static [u32] {
        match self {
            Share::Taps => &[WARP_PIECES],
            Share::Affine | Share::Gate => &[1, 2, WARP_PIECES],
            Share::Single => &[1, 2, WARP_PIECES, SINGLE_PIECES],
        }
    }

    /// What a product with such a prologue shares out.
    pub fn of(product: &Product<'_>, prologue: Option<&Prologue>) -> Share {
        match prologue {
            None if product.window.taps() == 1 => Share::Single,
            None => Share::Taps,
            Some(Prologue::Affine(_)) => Share::Affine,
            Some(Prologue::Gate(_)) => Share::Gate,
        }
    }

    /// Pieces of a warp, and warps that have any.
    pub fn pieces(self, channels: u32) -> (u32, u32) {
        let all = channels.div_ceil(PIECE_CHANNELS);
        match self {
            Share::Taps => (all, TAPS),
            _ => {
                let each = all.div_ceil(SHARERS);
                (each, all.div_ceil(each.max(1)))
            }
        }
    }
}

impl WarpsTile {
    /// The name in `conv_warps.cu` of the kernel whose warps have places for `pieces` pieces.
    pub fn function(&self, share: Share, pieces: u32) -> String {
        let name = match share {
            Share::Taps => "taps",
            Share::Affine => "affine",
            Share::Gate => "gate",
            Share::Single => "single",
        };
        let places = share.places().iter().copied().find(|&p| p >= pieces).unwrap_or(SINGLE_PIECES);
        format!("conv_warps_{}x{}_{name}_{places}", self.tile.0, self.tile.1)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static WarpsTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvWarps && tactic.tile == entry.tile).then_some(entry)
    }

    /// True if there is a kernel for it: larger tiles of more pieces want more registers than there are.
    pub fn serves(&self, share: Share) -> bool {
        share != Share::Single || self.tile.0 < 32
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = Tactic> {
        (0..).zip(MENU).map(|(variant, entry)| Tactic {
            kernel: Kernel::ConvWarps,
            tile: entry.tile,
            variant,
        })
    }

    /// Blocks of a product.
    fn blocks(&self, product: &Product<'_>) -> u64 {
        let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
        let down = (samples * rows * columns).div_ceil(u64::from(self.tile.0));
        down.div_ceil(u64::from(self.turns)) * channels.div_ceil(u64::from(self.tile.1))
    }
}

/// The product that an operator without its prologue begins with, if the kernels take it: what differs from sample to sample
/// does not matter, since the kernels have an arithmetic of their own.
pub fn product<'a>(plan: &Plan, body: &'a Operator, prologue: Option<&Prologue>) -> Result<Product<'a>, Misfit> {
    let product = conv_mma::product(plan, body)?;
    let (x, out) = (&product.x, &product.out);
    let whole = x.extents[3].is_multiple_of(8) && product.input.origin.is_multiple_of(8) && x.wide();
    need(whole, Misfit::Layout)?;
    let pixels = u64::from(out.extents[1]) * u64::from(out.extents[2]);
    let serves = match Share::of(&product, prologue) {
        Share::Single => {
            let weights = u64::from(x.extents[3]) * u64::from(out.extents[3]);
            let alone = pixels == 1 && x.extents[1] == 1 && x.extents[2] == 1;
            alone && x.extents[3] <= SINGLE_CHANNELS && weights <= SINGLE_WEIGHTS
        }
        Share::Taps => {
            let square = product.window.kernel[..2] == [3, 3];
            square && TAP_CHANNELS.contains(&x.extents[3]) && out.extents[3] <= TAP_OUTPUTS && pixels <= PIXELS
        }
        Share::Affine => x.extents[3] <= MAX_CHANNELS && pixels <= PIXELS,
        Share::Gate => x.extents[3] <= MAX_CHANNELS && pixels <= GATED_PIXELS,
    };
    need(serves, Misfit::Primitive)?;
    Ok(product)
}

/// True for pixels `[N, C, H, W]` that the kernels multiply by factors on the way into a convolution of one tap and step 1.
pub fn gated(pixels: Shape) -> bool {
    let few = |count: u64| (2..=GATED_PIXELS).contains(&count);
    pixels.rank() == 4 && (1..=MAX_CHANNELS).contains(&pixels.dim(1)) && few(u64::from(pixels.dim(2)) * u64::from(pixels.dim(3)))
}

/// Ranges of K that are summed on their own and then in order: one a warp.
pub fn splits(product: &Product<'_>, prologue: Option<&Prologue>) -> u16 {
    Share::of(product, prologue).warps() as u16
}

/// The menu's tactics for a product, best first by estimate: blocks that fill a GPU of so many `units`, and then the fewest of them.
pub fn menu(product: &Product<'_>, prologue: Option<&Prologue>, units: u32) -> Vec<Tactic> {
    let costs = WarpsTile::tactics()
        .zip(MENU)
        .filter(|(_, entry)| entry.serves(Share::of(product, prologue)))
        .map(|(tactic, entry)| {
            let tile = u64::from(entry.tile.0) * u64::from(entry.tile.1) / 256;
            let rounds = entry.blocks(product).div_ceil(u64::from(units.max(1)));
            (rounds * (4 + tile * u64::from(entry.turns)), tactic)
        });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_line_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_warps.cu");
        let mut lines = std::collections::BTreeSet::new();
        for entry in MENU {
            let shares = [
                (Share::Taps, "TAPS"),
                (Share::Affine, "AFFINE"),
                (Share::Gate, "GATE"),
                (Share::Single, "SINGLE"),
            ];
            for (share, name) in shares.into_iter().filter(|(share, _)| entry.serves(*share)) {
                for places in share.places() {
                    let (function, tile) = (entry.function(share, *places), entry.tile);
                    let line = format!("\nCONV_WARPS({function}, {}, {}, {name}, {places}, ", tile.0, tile.1);
                    assert_eq!(source.matches(&line).count(), 1, "{line}");
                    lines.insert(line);
                }
            }
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("CONV_WARPS(")).count(), lines.len());
    }

    #[test]
    fn warps_share_all_pieces() {
        for channels in (8..=MAX_CHANNELS).step_by(8) {
            let (each, warps) = Share::Gate.pieces(channels);
            assert!(each <= WARP_PIECES && warps <= SHARERS);
            assert!(each * warps * PIECE_CHANNELS >= channels && each * (warps - 1) * PIECE_CHANNELS < channels);
        }
        assert_eq!(Share::Taps.pieces(96), (3, 9));
        assert_eq!(Share::Single.pieces(1344), (6, 7));
        assert_eq!(Share::Single.pieces(SINGLE_CHANNELS), (SINGLE_PIECES, SHARERS));
        assert_eq!(MENU[0].function(Share::Gate, 3), "conv_warps_16x32_gate_4");
        assert_eq!(MENU[0].function(Share::Gate, 1), "conv_warps_16x32_gate_1");
        assert_eq!(MENU[3].function(Share::Single, 5), "conv_warps_16x16_single_6");
    }
}
