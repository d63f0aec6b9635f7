//! The segments and bands of the kernels for first layers: convolutions of pictures of few channels by `wgmma`, and what they
//! demand.

use super::Misfit;
use super::forms::{cheapest_first, need};
use super::pictures;
use super::product::Product;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};
use crate::tensor::DType;

/// Most input channels: a pixel in shared memory has room for so many halves.
const PIXEL_CHANNELS: u32 = 4;
/// Taps of a kernel row that one product sums.
pub const QUAD: u32 = 4;
/// Output channels that one product makes.
pub const BLOCK_CHANNELS: u32 = 64;
/// Bytes of the weights of a product.
pub const MATRIX_BYTES: u32 = BLOCK_CHANNELS * QUAD * PIXEL_CHANNELS * 2;
/// Bytes of a pixel in shared memory, and of a pair of taps.
const PIXEL_BYTES: u32 = 8;
const PAIR_BYTES: u32 = 16;
/// Bytes of shared memory that barriers take, and that a block can have.
const BARRIER_BYTES: u32 = 1024;
const SHARED_BYTES: u32 = 227 << 10;
/// Bytes of shared memory of a multiprocessor, and those that it keeps for itself of each block.
const PROCESSOR_BYTES: u32 = 228 << 10;
const RESERVED_BYTES: u32 = 1 << 10;
/// Warpgroups that multiply; each turns a segment of its own round before it is stored.
const GROUPS: u32 = 2;
/// Items between the one that is loaded and the last one that is done: at least, and at most.
const AHEAD: std::ops::RangeInclusive<u32> = 2..=6;
/// Multiprocessors of a large GPU, each of which takes one block; and of a small one.
const PROCESSORS: u16 = 132;
const FEW_PROCESSORS: u16 = 16;

/// One way to run a kernel of `stem.cu` or `stem_band.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StemTile {
    /// Output pixels of a segment of a row, which one product makes.
    pub pixels: u16,
    /// Most blocks: where there are more than multiprocessors, those that come later begin with an empty ring. Of bands, as
    /// many as all multiprocessors take.
    pub blocks: u16,
    /// Bands of rows instead of a ring.
    pub band: Option<Band>,
}

/// A block's share of `stem_band.cu`: input rows under a few output rows, which its warpgroups make in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Warpgroups of a block.
    pub groups: u8,
    /// Output rows.
    pub rows: u8,
    /// Blocks that share a multiprocessor.
    pub together: u8,
}

const fn segment(pixels: u16) -> StemTile {
    StemTile {
        pixels,
        blocks: PROCESSORS,
        band: None,
    }
}

const fn few(pixels: u16) -> StemTile {
    StemTile {
        pixels,
        blocks: FEW_PROCESSORS,
        band: None,
    }
}

const fn band(pixels: u16, groups: u8, rows: u8, together: u8) -> StemTile {
    StemTile {
        pixels,
        blocks: PROCESSORS * together as u16,
        band: Some(Band { groups, rows, together }),
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[StemTile] = &[
    segment(32),
    segment(56),
    segment(64),
    segment(88),
    segment(104),
    segment(112),
    segment(128),
    few(32),
    few(56),
    few(64),
    few(112),
    band(112, 1, 2, 4),
    band(112, 1, 4, 5),
    band(112, 1, 14, 4),
    band(112, 2, 4, 2),
    band(112, 2, 8, 2),
    band(56, 1, 1, 4),
    band(56, 2, 1, 2),
    band(56, 2, 2, 2),
    band(112, 1, 7, 5),
    band(112, 1, 8, 5),
    band(112, 1, 10, 4),
    band(56, 1, 4, 6),
    band(56, 1, 7, 6),
    band(56, 1, 8, 6),
];

/// How the input rows of a segment lie in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Input pixels that a segment reads of a row.
    pub pixels: u32,
    /// Bytes that they take.
    pub bytes: u32,
    /// From a quad of taps to the next.
    pub quad_bytes: u32,
    /// From a quad's first two taps to its last two.
    pub half_bytes: u32,
    /// Items between the one that is loaded and the last one that is done; output rows of a band.
    pub ahead: u32,
    /// Input rows that there is room for.
    pub room: u32,
    /// Bytes of shared memory of a block.
    pub shared: u32,
}

/// Products of a kernel row.
pub fn quads(product: &Product<'_>) -> u32 {
    product.window.kernel[1].div_ceil(QUAD)
}

/// Blocks of output channels.
pub fn blocks_across(product: &Product<'_>) -> u32 {
    product.out.extents[3].div_ceil(BLOCK_CHANNELS)
}

impl StemTile {
    /// The kernel's name in its file.
    pub fn function(&self) -> String {
        match self.band {
            None => format!("stem_{}", self.pixels),
            Some(band) => format!("stem_band_{}_g{}", self.pixels, band.groups),
        }
    }

    /// The file of that kernel.
    pub fn unit(&self) -> &'static str {
        if self.band.is_some() { "stem_band" } else { "stem" }
    }

    /// The entry whose kernel stores what that of a band does not.
    pub fn ring(&self) -> StemTile {
        segment(self.pixels)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or segments that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static StemTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::Stem && tactic.tile == (entry.pixels, BLOCK_CHANNELS as u16)).then_some(entry)
    }

    /// The input rows of a product's segments; `None` if shared memory has no room for them.
    pub fn rows(&self, product: &Product<'_>) -> Option<Rows> {
        let (pixels, quads, stride) = (u32::from(self.pixels), quads(product), product.window.stride[1]);
        let row = stride * (pixels - 1) + QUAD * quads;
        let (bytes, quad_bytes, half_bytes) = match stride {
            // A pair of taps begins at every pixel.
            1 => (row * PAIR_BYTES, QUAD * PAIR_BYTES, 2 * PAIR_BYTES),
            2 => (row * PIXEL_BYTES, QUAD * PIXEL_BYTES, PAIR_BYTES),
            // The first pairs of all quads, and then the last ones.
            _ => (row * PIXEL_BYTES, PAIR_BYTES, row / QUAD * PAIR_BYTES),
        };
        let weights = blocks_across(product)
            .checked_mul(product.window.kernel[0])?
            .checked_mul(quads * MATRIX_BYTES)?;
        let groups = self.band.map_or(GROUPS, |b| u32::from(b.groups));
        let turned = groups * pixels * BLOCK_CHANNELS * 2;
        let others = weights.checked_add(turned + BARRIER_BYTES)?;
        let [down, _, _] = product.window.stride;
        let lie = |ahead: u32, room: u32, shared: u32| Rows {
            pixels: row,
            bytes,
            quad_bytes,
            half_bytes,
            ahead,
            room,
            shared,
        };
        if let Some(band) = self.band {
            let rows = u32::from(band.rows);
            let room = (rows - 1).checked_mul(down)?.checked_add(product.window.kernel[0])?;
            // Behind the last row is room for operands as large as if theirs did not overlap, which tools check.
            let shared = room.checked_mul(bytes)?.checked_add(others)?.checked_add(pixels * PAIR_BYTES)?;
            let fits = shared <= SHARED_BYTES && (shared + RESERVED_BYTES) * u32::from(band.together) <= PROCESSOR_BYTES;
            return fits.then(|| lie(rows, room, shared));
        }
        // As many rows as the items in flight can need, if no two of them share one.
        let each = product.window.kernel[0].checked_mul(bytes)?;
        let ahead = (SHARED_BYTES.checked_sub(others)? / each).min(*AHEAD.end());
        AHEAD
            .contains(&ahead)
            .then(|| lie(ahead, ahead * product.window.kernel[0], others + ahead * each))
    }
}

/// The product of a first layer, if the kernels take it, and the operator that it begins: without the copy of its picture.
pub fn body(plan: &Plan, operator: &Operator) -> Option<Operator> {
    let body = pictures::cut(operator).unwrap_or_else(|| operator.clone());
    product(plan, &body).is_ok().then_some(body)
}

/// The product that an operator without a copy begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = Product::of(plan, operator)?;
    let halves = [product.weights.dtype, product.output.dtype] == [DType::F16; 2];
    let read = matches!(product.input.dtype, DType::F16 | DType::F32);
    need(halves && read && operator.calls.iter().all(|c| c.dtype == DType::F16), Misfit::Type)?;
    let (x, out, window) = (&product.x, &product.out, &product.window);
    need(!product.matrix && window.dilation[..2] == [1, 1], Misfit::Primitive)?;
    need((1..=PIXEL_CHANNELS).contains(&x.extents[3]), Misfit::Primitive)?;
    need(matches!(window.stride[1], 1 | 2 | 4), Misfit::Primitive)?;
    need(x.strides.iter().all(|&s| s >= 0) && out.channels_last(), Misfit::Layout)?;
    // Pixels and channels are stepped along in 32 bits with a sign, and rows and pixels of the padded input counted in them.
    let steps = x.strides[2..].iter().all(|&s| s <= i64::from(i32::MAX));
    let inside = (0..2).all(|a| {
        let last = u64::from(out.extents[a + 1]) * u64::from(window.stride[a]);
        let farthest = last + u64::from(window.kernel[a]) + u64::from(window.pad_begin[a]) + u64::from(x.extents[a + 1]);
        farthest < 1 << 30
    });
    need(steps && inside, Misfit::Layout)?;
    let items = [out.extents[0], out.extents[1], out.extents[2].div_ceil(8), blocks_across(&product)];
    let items = items.iter().try_fold(1u32, |all, &n| all.checked_mul(n));
    need(items.is_some_and(|n| (1..=i32::MAX as u32).contains(&n)), Misfit::Primitive)?;
    need(MENU[0].rows(&product).is_some(), Misfit::Primitive)?;
    Ok(product)
}

/// Checks that an entry of the menu computes a product.
pub fn fits(entry: &StemTile, product: &Product<'_>) -> Result<(), Misfit> {
    // What a band does not store, its segment's ring does.
    let ring = entry.ring();
    need(entry.rows(product).is_some() && ring.rows(product).is_some(), Misfit::Tile)
}

/// The menu's tactics for a product, best first by estimate.
pub fn menu(product: &Product<'_>, units: u32) -> Vec<Tactic> {
    let costs = (0..)
        .zip(MENU)
        .filter(|(_, entry)| fits(entry, product).is_ok())
        .map(|(variant, entry)| {
            let tactic = Tactic {
                kernel: Kernel::Stem,
                tile: (entry.pixels, BLOCK_CHANNELS as u16),
                variant,
            };
            (entry.estimate(product, u64::from(units.max(1))), tactic)
        });
    cheapest_first(costs)
}

impl StemTile {
    /// Relative time of a product on so many units, in cycles.
    fn estimate(&self, product: &Product<'_>, units: u64) -> u64 {
        /// Bytes that an SM stores in a cycle.
        const STORED: u64 = 32;
        /// Cycles that a pixel of a row costs on its way into shared memory.
        const LOADED: u64 = 2;
        /// Pixels that a block of a band loads in a cycle, and cycles until a segment of it is stored.
        const BANDED: u64 = 2;
        const TURNED: u64 = 600;
        let [samples, rows, columns, _] = product.out.extents.map(u64::from);
        let pixels = u64::from(self.pixels);
        let items = samples * rows * columns.div_ceil(pixels) * u64::from(blocks_across(product));
        let products = u64::from(product.window.kernel[0] * quads(product));
        let (multiply, store) = (products * pixels / 2, pixels * u64::from(BLOCK_CHANNELS) * 2 / STORED);
        let row = self.rows(product).map_or(0, |r| u64::from(r.pixels));
        if let (Some(band), Some(lie)) = (self.band, self.rows(product)) {
            let bands = samples * rows.div_ceil(u64::from(band.rows)) * columns.div_ceil(pixels);
            let segments = u64::from(band.rows) * u64::from(blocks_across(product));
            // A band on its own, or as many as share a multiprocessor's units.
            let alone = row * u64::from(lie.room) / BANDED + segments.div_ceil(u64::from(band.groups)) * (multiply + TURNED);
            let together = bands.div_ceil(units).min(u64::from(band.together));
            let rounds = bands.div_ceil((units * u64::from(band.together)).min(u64::from(self.blocks)));
            return rounds * alone.max(together * segments * multiply.max(store));
        }
        let fill = row * u64::from(product.window.kernel[0]) * LOADED;
        // Blocks that come later begin with an empty ring, as the first do.
        let blocks = items.min(u64::from(self.blocks)).max(1);
        blocks.div_ceil(units) * (fill + items.div_ceil(blocks) * multiply.max(store) + multiply.min(store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_kernel_of_the_source() {
        let (rings, bands) = (
            include_str!("../../backend/cuda/kernels/stem.cu"),
            include_str!("../../backend/cuda/kernels/stem_band.cu"),
        );
        for entry in MENU {
            let ring = format!("\nSTEM_KERNEL({})\n", entry.pixels);
            assert_eq!(rings.matches(&ring).count(), 1, "{ring}");
            if let Some(band) = entry.band {
                // Its registers leave room for so many blocks.
                let line = format!("\nSTEM_BAND({}, {}, ", entry.pixels, band.groups);
                let found: Vec<_> = bands.match_indices(&line).collect();
                let most = found.first().and_then(|(at, _)| bands[at + line.len()..].split(')').next());
                assert_eq!(found.len(), 1, "{line}");
                assert!(
                    most.and_then(|m| m.parse::<u8>().ok()).is_some_and(|m| band.together <= m),
                    "{line}"
                );
            }
        }
        let count = |source: &str, word: &str| source.lines().filter(|l| l.starts_with(word)).count();
        let kernels: std::collections::BTreeSet<u16> = MENU.iter().map(|e| e.pixels).collect();
        assert_eq!(count(rings, "STEM_KERNEL("), kernels.len());
        let kernels: std::collections::BTreeSet<_> = MENU.iter().filter_map(|e| Some((e.pixels, e.band?.groups))).collect();
        assert_eq!(count(bands, "STEM_BAND("), kernels.len());
    }

    #[test]
    fn tactics_name_entries() {
        for (variant, entry) in (0..).zip(MENU) {
            let tactic = Tactic {
                kernel: Kernel::Stem,
                tile: (entry.pixels, 64),
                variant,
            };
            assert_eq!(StemTile::of(tactic), Some(entry));
            assert_eq!(
                StemTile::of(Tactic {
                    tile: (entry.pixels, 32),
                    ..tactic
                }),
                None
            );
            assert!(entry.pixels.is_multiple_of(8), "a product makes groups of 8 pixels");
        }
    }
}
