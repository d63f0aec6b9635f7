//! How group normalisation cuts a sample into what blocks sum: from its shape alone, so that its bits are those of the shape.

use super::Misfit;
use super::forms::need;
use crate::plan::format::View;

/// Most ranges of a sample's pixels, which the blocks of a cluster share.
pub const MAX_PARTS: u32 = 8;
/// Threads of a block, and pieces of a part that each should have at most: parts are as few as that allows.
pub const THREADS: u32 = 512;
const TURNS: u32 = 8;
/// The same where a sample has so few slabs that its blocks leave multiprocessors idle.
const FEW_SLABS: u32 = 8;
const FEW_TURNS: u32 = 4;
/// And where it has but one.
const TURNS_ALONE: u32 = 1;
/// Most ranges of a sample's pixels that two launches have, and pieces of a part that each thread should have at most there, of one
/// slab, of few and of more.
pub const MAX_SPREAD: u32 = 128;
const SPREAD_TURNS: [u32; 3] = [1, 2, 4];
/// Channels of a piece.
pub const PIECE: u32 = 8;
/// Channels of a slab of several groups where pixels are few: what memory gives at once.
const SPAN: u32 = 32;
/// Most channels of the fewest groups that are whole pieces; of more a group is a slab.
const LARGEST_UNIT: u32 = THREADS * PIECE;
/// Most elements of a sample, so that positions behind the last one stay in 32 bits.
const LARGEST_SAMPLE: u64 = 1 << 30;

/// The channels of a sample in slabs of whole groups, and its pixels in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slabs {
    /// Channels of a group.
    pub group: u32,
    /// Channels of a slab, the last one excepted.
    pub span: u32,
    /// Pixels of a sample.
    pub pixels: u32,
    /// Slabs of a sample.
    pub count: u32,
    /// Parts of a sample's pixels, a power of two up to [`MAX_PARTS`].
    pub parts: u32,
    /// The same where two launches share a sample out ([`Slabs::spreads`]), up to [`MAX_SPREAD`].
    pub spread: u32,
}

impl Slabs {
    /// The slabs of a sample of `channels` in `groups`; all at least 1, and the groups as large.
    pub fn of(channels: u32, pixels: u32, groups: u32) -> Slabs {
        let group = channels / groups;
        let unit = group / (1 << group.trailing_zeros().min(PIECE.trailing_zeros())) * PIECE;
        let mut units = SPAN / unit;
        // Narrower slabs are more blocks: of large pictures a block keeps more of what it reads.
        while units > 1 && pixels.div_ceil(MAX_PARTS) * (units * unit / PIECE) > TURNS * THREADS {
            units /= 2;
        }
        let several = if unit > LARGEST_UNIT { group } else { unit * units.max(1) };
        let span = several.min(channels);
        let turns = u64::from(pixels) * u64::from(span.div_ceil(PIECE));
        let count = channels.div_ceil(span);
        let (each, each_spread) = match count {
            1 => (TURNS_ALONE, SPREAD_TURNS[0]),
            2..=FEW_SLABS => (FEW_TURNS, SPREAD_TURNS[1]),
            _ => (TURNS, SPREAD_TURNS[2]),
        };
        let blocks = |each: u32| turns.div_ceil(u64::from(each * THREADS));
        Slabs {
            group,
            span,
            pixels,
            count,
            parts: blocks(each).next_power_of_two().min(MAX_PARTS.into()) as u32,
            spread: blocks(each_spread).clamp(1, MAX_SPREAD.into()) as u32,
        }
    }

    /// Pieces of a pixel of a slab.
    pub fn pieces(&self) -> u32 {
        self.span.div_ceil(PIECE)
    }

    /// True if blocks share a sample: where its pieces lie on 16 bytes, by two launches.
    pub fn spreads(&self) -> bool {
        self.parts > 1
    }

    /// Groups of a slab, the last one excepted.
    pub fn groups(&self) -> u32 {
        self.span / self.group
    }

    /// Pixels of a part, the last ones excepted.
    pub fn share(&self) -> u32 {
        self.pixels.div_ceil(self.parts)
    }
}

/// Checks that the kernel's numbers hold a sample of `x`.
pub(super) fn fits(x: &View) -> Result<(), Misfit> {
    let shape = x.layout.shape;
    need(shape.elements() / u64::from(shape.batch().max(1)) <= LARGEST_SAMPLE, Misfit::Layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_whole_groups_and_whole_pieces_where_there_are_several() {
        let cut = |channels, pixels, groups| {
            let slabs = Slabs::of(channels, pixels, groups);
            (slabs.span, slabs.count, slabs.parts, slabs.spread)
        };
        assert_eq!(cut(64, 56 * 56, 1), (64, 1, 8, 49), "one group");
        assert_eq!(cut(512, 7 * 7, 1), (512, 1, 8, 7), "one group of few pixels");
        assert_eq!(cut(64, 8 * 8, 1), (64, 1, 1, 1), "of very few");
        assert_eq!(cut(256, 48 * 80, 32), (32, 8, 8, 15), "four groups of one piece");
        assert_eq!(cut(512, 28 * 28, 32), (32, 16, 1, 2), "many slabs");
        assert_eq!(cut(64, 180 * 320, 64), (8, 8, 8, 57), "instances of a large picture");
        assert_eq!(cut(64, 20 * 20, 64), (32, 2, 1, 2), "of a small one");
        assert_eq!(cut(60, 100, 5), (24, 3, 1, 1), "groups of a piece and a half");
        assert_eq!(cut(30, 100, 30), (30, 1, 1, 1), "fewer channels than a slab");
        assert_eq!(cut(4104, 9, 8), (513, 8, 1, 1), "odd groups of many channels");
        for channels in 1..200 {
            for groups in (1..=channels).filter(|g| channels % g == 0) {
                let slabs = Slabs::of(channels, 50, groups);
                assert_eq!(slabs.span % slabs.group, 0);
                let whole = slabs.count == 1 || slabs.span.is_multiple_of(PIECE);
                assert!(slabs.count * slabs.span - channels < slabs.span);
                assert!(
                    whole && slabs.span / slabs.group <= 32 && slabs.pieces() <= THREADS,
                    "{channels} / {groups}"
                );
            }
        }
    }
}
