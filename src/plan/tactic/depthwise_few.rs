//! Depthwise convolutions of few pixels: which windows have kernels that ask for all their pixels at once, and which of them
//! comes first.
//!
//! A launch of few pixels takes as long as its threads wait for memory: those that walk down rows wait once a row. Many pixels
//! keep units busy while some threads wait, and are read fewer times by those that walk.

use super::depthwise_strip::{MENU, Strip, Way};
use crate::plan::format::{Operator, Tactic};
use crate::primitive::{Primitive, Window};
use crate::tensor::Shape;

/// Channels of a lot: of a block of a patch, and of packed weights.
pub const LOT: u32 = 16;
/// Taps that a thread loads at once.
pub const FOUR: u32 = 4;
/// Most taps of a row whose weights threads keep in registers.
const FEW_TAPS: u32 = 7;
/// Threads that share a lot's channels, two each.
const PAIRS: u32 = LOT / 2;
/// Most threads of a block.
const THREADS: u32 = 128;
/// Most runs of a row of a patch.
const RUNS: u32 = 8;
/// Outputs a unit and tap that count as few.
const OUTPUTS: u64 = 64;

/// Rows and columns of taps and the step, for the windows all of whose pixels a thread can ask for.
pub fn burst(window: &Window) -> Option<(u32, u32, u32)> {
    let [rows, columns, _] = window.kernel;
    if window.axes != 2 || window.dilation[..2] != [1, 1] {
        return None;
    }
    match ((rows, columns), &window.stride[..2]) {
        ((3, 3) | (5, 5) | (1, 5) | (5, 1), [1, 1]) => Some((rows, columns, 1)),
        ((3, 3) | (5, 5), [2, 2]) => Some((rows, columns, 2)),
        _ => None,
    }
}

/// Taps along either axis, for the windows under which a block can keep a tile's pixels.
pub fn patch(window: &Window) -> Option<u32> {
    let [taps, columns, _] = window.kernel;
    let plain = window.axes == 2 && window.stride[..2] == [1, 1] && window.dilation[..2] == [1, 1];
    (plain && taps == columns && matches!(taps, 5 | 7 | 9)).then_some(taps)
}

/// How packed weights are cut into rows of whole fours: rows, and taps of each.
pub fn packed(rows: u32, columns: u32) -> (u32, u32) {
    if columns > FEW_TAPS { (rows, columns) } else { (1, rows * columns) }
}

/// A tile of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Runs of a row.
    pub runs: u32,
    /// Pixels of a row under it.
    pub pixels: u32,
    /// Places of such a row in shared memory.
    pub line: u32,
    /// Runs of all rows.
    pub spots: u32,
    /// Threads of its block.
    pub threads: u32,
    /// Bytes of the block's shared memory.
    pub shared: u32,
}

impl Patch {
    /// The tile of a strip for so many taps of a side over outputs of such a width.
    pub fn of(strip: &Strip, taps: u32, width: u32) -> Patch {
        let (run, depth) = (u32::from(strip.run), u32::from(strip.depth));
        let all = width.div_ceil(run).max(1);
        let runs = all.div_ceil(all.div_ceil(RUNS));
        let pixels = runs * run + taps - 1;
        // The runs of all rows begin as far apart as those of one: so the four of a warp lie in different banks.
        let step = (run + 1) * runs;
        let needed = pixels + (pixels - 1) / run;
        let line = needed + (step + FOUR - needed % FOUR) % FOUR;
        let spots = depth * runs;
        let weights = if taps > FEW_TAPS {
            taps * taps.div_ceil(FOUR) * FOUR * LOT
        } else {
            0
        };
        Patch {
            runs,
            pixels,
            line,
            spots,
            // All pixels of a row are brought at once, in two pieces each.
            threads: (spots * PAIRS).max(2 * pixels).next_multiple_of(32).min(THREADS),
            shared: 2 * (weights + (depth + taps - 1) * line * LOT),
        }
    }

    /// Outputs along a row.
    pub fn width(&self, strip: &Strip) -> u32 {
        self.runs * u32::from(strip.run)
    }
}

/// The tactics that come before all others, best first: those that fit the window, where there are few outputs.
pub(super) fn leading(operator: &Operator, units: u32) -> Vec<Tactic> {
    let (Some(call), Some(y)) = (operator.calls.first(), operator.outputs.first()) else {
        return Vec::new();
    };
    let Primitive::Conv { window, groups } = &call.primitive else {
        return Vec::new();
    };
    let shape = y.layout.shape;
    if shape.rank() != 4 || *groups != shape.dim(1) {
        return Vec::new();
    }
    let square = window.kernel[0] == window.kernel[1];
    if square && shape.elements() > OUTPUTS * window.taps() * u64::from(units) {
        return Vec::new();
    }
    let steps = |(tactic, strip): (Tactic, &Strip)| Some((steps(strip, window, shape, units)?, tactic));
    let mut all: Vec<(u64, Tactic)> = Strip::tactics().zip(MENU).filter_map(steps).collect();
    all.sort_by_key(|&(steps, _)| steps);
    all.into_iter().map(|(_, tactic)| tactic).collect()
}

/// About as many instructions as one of a unit's schedulers issues from the first pixel asked for to the last result stored.
fn steps(strip: &Strip, window: &Window, shape: Shape, units: u32) -> Option<u64> {
    let (run, depth) = (u64::from(strip.run), u64::from(strip.depth));
    let [samples, channels, height, width] = [0, 1, 2, 3].map(|axis| u64::from(shape.dim(axis)));
    let (blocks, warps, each) = match strip.way {
        Way::Walk => return None,
        Way::Burst => {
            let (rows, columns, step) = burst(window)?;
            let (rows, taps) = (u64::from(rows), u64::from(rows * columns));
            let pixels = rows * ((run - 1) * u64::from(step) + u64::from(columns));
            let threads = samples * height * width.div_ceil(run) * channels.div_ceil(2);
            // Of a pixel: its address, its load, its mask, two halves.
            (threads.div_ceil(THREADS.into()), 4, 5 * pixels + 2 * taps + 2 * taps * run)
        }
        Way::Patch => {
            let taps = patch(window)?;
            let tile = Patch::of(strip, taps, shape.dim(3));
            let (taps, threads) = (u64::from(taps), u64::from(tile.threads));
            let across = width.div_ceil(u64::from(tile.width(strip)));
            let blocks = samples * channels.div_ceil(LOT.into()) * height.div_ceil(depth) * across;
            // Of a pixel: its load and two halves. Copies and the barrier take some, too.
            let turns = (u64::from(tile.spots) * u64::from(PAIRS)).div_ceil(threads);
            let copies = (depth + taps - 1).div_ceil(threads / 2 / u64::from(tile.pixels));
            let spot = taps * (3 * (run + taps - 1) + 2 * taps * run) + 30;
            (blocks, threads / 32, turns * spot + 8 * copies + 60)
        }
    };
    Some((blocks.div_ceil(u64::from(units.max(1))) * warps).div_ceil(4) * each)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kernel: [u32; 2], stride: u32, dilation: u32) -> Window {
        Window {
            stride: [stride, stride, 1],
            dilation: [dilation, dilation, 1],
            ..Window::new(&kernel)
        }
    }

    #[test]
    fn windows_have_the_kernels_of_the_sources() {
        let sources = [
            include_str!("../../backend/cuda/kernels/depthwise_burst.cu"),
            include_str!("../../backend/cuda/kernels/depthwise_patch.cu"),
        ];
        let mut found = [0; 2];
        for entry in MENU.iter().filter(|e| e.way != Way::Walk) {
            for kernel in [[3, 3], [5, 5], [7, 7], [9, 9], [1, 5], [5, 1], [3, 5], [11, 11]] {
                for stride in [1, 2] {
                    let Some((unit, function)) = entry.function(&window(kernel, stride, 1), None) else {
                        continue;
                    };
                    let at = usize::from(unit == "depthwise_patch");
                    let kernels = sources[at].matches(&format!("({function}, ")).count();
                    assert_eq!(kernels, 1, "{function}");
                    found[at] += 1;
                }
            }
        }
        // Those of patches serve strips of several depths.
        assert_eq!(found, [12, 3 * 6]);
        assert_eq!((burst(&window([3, 3], 1, 2)), patch(&window([7, 7], 1, 2))), (None, None));
    }

    #[test]
    fn tiles_share_their_rows_evenly_and_leave_banks_apart() {
        let strip = |run, depth| MENU.iter().find(|e| (e.run, e.depth, e.way) == (run, depth, Way::Patch)).unwrap();
        let tile = Patch::of(strip(2, 2), 7, 14);
        assert_eq!((tile.runs, tile.pixels, tile.spots, tile.threads), (7, 20, 14, 128));
        assert_eq!((tile.line, tile.shared), (29, 8 * 29 * 32));
        for entry in MENU.iter().filter(|e| e.way == Way::Patch) {
            for (taps, width) in [(5, 7), (7, 14), (7, 56), (9, 8), (9, 61), (7, 1)] {
                let tile = Patch::of(entry, taps, width);
                let run = u32::from(entry.run);
                assert!(tile.runs <= RUNS && tile.line >= tile.pixels + (tile.pixels - 1) / run);
                assert_eq!(tile.line % 4, (run + 1) * tile.runs % 4);
                assert!(tile.threads >= 2 * tile.pixels && tile.threads <= THREADS);
                assert!(tile.shared <= 48 << 10, "what a block has without asking");
            }
        }
    }

    #[test]
    fn few_pixels_are_spread_over_all_units() {
        let best = |dims: &[u32], kernel: [u32; 2]| {
            let shape = Shape::new(dims).unwrap();
            let of = |s: &Strip| Some((steps(s, &window(kernel, 1, 1), shape, 132)?, *s));
            let (_, strip) = MENU.iter().filter_map(of).min_by_key(|&(steps, _)| steps).unwrap();
            (strip.way, strip.run, strip.depth)
        };
        assert_eq!(best(&[1, 128, 14, 14], [7, 7]), (Way::Patch, 2, 2));
        assert_eq!(best(&[1, 640, 14, 14], [7, 7]).0, Way::Patch);
        assert_eq!(best(&[1, 96, 56, 56], [7, 7]).1, 4);
        assert_eq!(best(&[1, 960, 3, 3], [1, 5]).0, Way::Burst);
        assert_eq!(best(&[1, 96, 14, 14], [3, 3]).0, Way::Burst);
    }
}
