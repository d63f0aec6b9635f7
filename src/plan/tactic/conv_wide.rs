//! Wide tiles of convolutions of 3 by 3 neighbours (`conv_wide.cu`): how their pixels lie, and what a block keeps of them.

use super::conv_3x3::{BLOCK_BYTES, CHANNELS, COLUMNS, PIXEL_BYTES, SWIZZLE_BYTES, TAPS, WEIGHT_BYTES, k_blocks};
use super::product::Product;

/// Bytes kept for barriers.
pub const BARRIER_BYTES: u32 = 1024;
/// Most patches in shared memory at once, and stages of weights; and the fewest stages.
const MAX_PATCHES: u32 = 16;
const STAGES: std::ops::RangeInclusive<u32> = 4..=16;
/// Largest extent of a box of the copy engine.
const MAX_BOX: u32 = 256;

/// The pixels of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// The input has as many, and one more of padding at either end.
    pub padded: bool,
}

impl Image {
    /// The pixels of a product's output.
    pub fn of(product: &Product<'_>) -> Image {
        let [_, rows, columns, _] = product.out.extents;
        Image {
            rows,
            columns,
            padded: product.x.extents[1..3] == [rows, columns] && product.window.pad_begin[..2] == [1, 1],
        }
    }
}

/// How the pixels of a tile lie in the patches that it is computed from, and in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Groups of 8 pixels follow each other; else each begins a row of the patch.
    pub dense: bool,
    /// Pixels of a row of a patch.
    pub pitch: u32,
    /// Rows of a patch, of each sample.
    pub patch_rows: u32,
    /// Columns, rows and samples from a tile to the next one.
    pub step: [u32; 3],
    /// Columns and rows of a tile, of each sample, in shared memory: those outside the chunk are cut off.
    pub stored: [u32; 2],
    /// Pixels of zeros behind a patch.
    pub zeros: u32,
    /// Tiles along columns, rows and samples.
    pub tiles: [u32; 3],
}

/// What a block keeps in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Sets of the patches of all input channels.
    pub sets: u32,
    /// Tiles that are stored at once.
    pub places: u32,
    /// Stages of weights.
    pub weight_stages: u32,
}

impl Layout {
    /// The layout with the fewest tiles of so many pixels, for so many samples and rows of each: 8 columns of as many rows,
    /// or whole rows.
    pub fn of(image: Image, pixels: u32, samples: u32, rows: u32) -> Option<Layout> {
        let width = image.columns;
        // Such a row's last pixel of padding is the next row's first.
        let pitch = width + 1;
        let strips = Layout::rows(
            false,
            COLUMNS + TAPS - 1,
            COLUMNS,
            pixels / COLUMNS,
            [width.div_ceil(COLUMNS), rows, samples],
        );
        let whole_rows =
            (image.padded && pitch <= pixels + 1).then(|| Layout::rows(true, pitch, pitch, (pixels + 1) / pitch, [1, rows, samples]));
        let all = [Some(strips), whole_rows].into_iter().flatten();
        all.filter(|l| l.pitch <= MAX_BOX && l.patch_rows <= MAX_BOX)
            .min_by_key(Layout::count)
    }

    /// Tiles of at most so many rows of one sample, as even as they can be.
    fn rows(dense: bool, pitch: u32, columns: u32, most: u32, [across, rows, samples]: [u32; 3]) -> Layout {
        let down = rows.div_ceil(most.max(1));
        let each = rows.div_ceil(down.max(1));
        Layout {
            dense,
            pitch,
            patch_rows: each + TAPS - 1,
            step: [columns, each, 1],
            stored: [columns, each],
            zeros: u32::from(dense),
            tiles: [across, down, samples],
        }
    }

    /// Tiles of pixels.
    pub fn count(&self) -> u64 {
        self.tiles.iter().map(|&n| u64::from(n)).product()
    }

    /// Bytes of a patch.
    pub fn patch_bytes(&self) -> u32 {
        self.pitch * self.patch_rows * self.step[2] * PIXEL_BYTES
    }

    /// Bytes that it takes, with the zeros behind it.
    pub fn patch_stage(&self) -> u32 {
        (self.patch_bytes() + self.zeros * PIXEL_BYTES).next_multiple_of(SWIZZLE_BYTES)
    }

    /// Bytes of a tile in shared memory.
    pub fn tile_bytes(&self) -> u32 {
        self.stored[0] * self.stored[1] * self.step[2] * PIXEL_BYTES
    }

    /// Bytes that it takes, with the pixels that are computed in vain.
    pub fn place_bytes(&self, pixels: u32) -> u32 {
        self.tile_bytes().max(pixels * PIXEL_BYTES).next_multiple_of(SWIZZLE_BYTES)
    }

    /// The room of a block for so many blocks of input channels; `None` if there is too little.
    pub fn room(&self, pixels: u32, k_blocks: u32) -> Option<Room> {
        let room = |[sets, places]: [u32; 2]| {
            let taken = u64::from(sets * k_blocks) * u64::from(self.patch_stage()) + u64::from(places * self.place_bytes(pixels));
            let left = u64::from(BLOCK_BYTES - BARRIER_BYTES).checked_sub(taken)? / u64::from(WEIGHT_BYTES);
            let weight_stages = left.min(u64::from(*STAGES.end())) as u32;
            let fits = sets * k_blocks <= MAX_PATCHES && STAGES.contains(&weight_stages);
            fits.then_some(Room {
                sets,
                places,
                weight_stages,
            })
        };
        // Patches that come while others are multiplied matter most.
        [[2, 2], [2, 1], [1, 2], [1, 1]].into_iter().find_map(room)
    }
}

impl Room {
    /// Bytes of shared memory of a block.
    pub fn bytes(&self, layout: &Layout, pixels: u32, k_blocks: u32) -> u32 {
        self.sets * k_blocks * layout.patch_stage()
            + self.places * layout.place_bytes(pixels)
            + self.weight_stages * WEIGHT_BYTES
            + BARRIER_BYTES
    }
}

/// Times 64 channels that a block computes of the same pixels: those that leave a launch of so many blocks the least to do, and of
/// these the most.
pub fn items(tiles: u64, channels: u32, blocks: u64) -> u32 {
    let groups = channels / CHANNELS;
    let all = (1..=groups).rev().filter(|n| groups.is_multiple_of(*n));
    all.min_by_key(|&n| (tiles * u64::from(groups / n)).div_ceil(blocks.max(1)) * u64::from(n))
        .unwrap_or(1)
}

/// Fewest blocks of input channels: the weights of fewer stay beside the patches (`conv_patch.cu`), which is faster.
const FEWEST_BLOCKS: u32 = 3;

/// True if a kernel of such tiles computes the product: there is room, and little is computed in vain.
pub fn serves(product: &Product<'_>, pixels: u32) -> bool {
    let [samples, rows, columns, _] = product.out.extents;
    let k_blocks = k_blocks(product);
    let useful = u64::from(samples) * u64::from(rows) * u64::from(columns);
    Layout::of(Image::of(product), pixels, samples, rows)
        .filter(|_| k_blocks >= FEWEST_BLOCKS)
        .is_some_and(|l| l.room(pixels, k_blocks).is_some() && useful * 4 >= l.count() * u64::from(pixels) * 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(rows: u32, columns: u32, pixels: u32, samples: u32, band: u32) -> Layout {
        let image = Image {
            rows,
            columns,
            padded: true,
        };
        Layout::of(image, pixels, samples, band).unwrap()
    }

    #[test]
    fn tiles_are_strips_or_rows() {
        let tiles = |side, pixels| {
            let l = layout(side, side, pixels, 8, side);
            (l.dense, l.pitch, l.step, l.tiles)
        };
        assert_eq!(tiles(56, 224), (false, 10, [8, 28, 1], [7, 2, 8]));
        assert_eq!(tiles(28, 208), (true, 29, [29, 7, 1], [1, 4, 8]));
        assert_eq!(tiles(14, 104), (true, 15, [15, 7, 1], [1, 2, 8]));
        assert_eq!(layout(28, 28, 224, 8, 10).tiles, [1, 2, 8]);
    }

    #[test]
    fn tiles_hold_their_pixels_and_cover_the_chunk() {
        for (rows, columns, pixels) in [
            (56u32, 56, 224),
            (30, 27, 208),
            (13, 13, 120),
            (9, 5, 104),
            (5, 300, 208),
            (1, 1, 120),
            (7, 7, 224),
        ] {
            for (samples, band) in [(1, rows), (5, rows), (3, rows.div_ceil(2))] {
                let l = layout(rows, columns, pixels, samples, band);
                let [across, down, along] = l.tiles;
                let last = match l.dense {
                    true => (l.stored[1] - 1) * l.pitch + columns,
                    false => l.stored[1] * COLUMNS,
                };
                assert!(last <= pixels, "{l:?}");
                assert!(l.dense || across * COLUMNS >= columns, "{l:?}");
                assert!(l.tiles[1] == 1 || down * l.step[1] >= band, "{l:?}");
                assert!(
                    along * l.step[2] >= samples && l.patch_stage() >= l.patch_bytes() + l.zeros * PIXEL_BYTES,
                    "{l:?}"
                );
            }
        }
    }

    #[test]
    fn a_block_has_no_more_than_an_sm() {
        for side in [7, 14, 28, 56, 112, 224] {
            for (pixels, k_blocks) in [(224, 1), (224, 4), (208, 2), (120, 8), (104, 4), (104, 16)] {
                let l = layout(side, side, pixels, 8, side);
                let room = l.room(pixels, k_blocks);
                assert!(room.is_none_or(|r| r.bytes(&l, pixels, k_blocks) <= BLOCK_BYTES), "{l:?} {room:?}");
                assert!(room.is_none_or(|r| r.sets * k_blocks <= MAX_PATCHES));
            }
        }
    }

    #[test]
    fn channels_are_dealt_so_that_no_block_has_much_more_than_others() {
        assert_eq!(items(16, 256, 16), 4);
        assert_eq!(items(8, 256, 16), 2);
        assert_eq!(items(112, 64, 132), 1);
        assert_eq!(items(4, 512, 132), 1);
    }
}
