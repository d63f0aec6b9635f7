//! Convolutions of few channels whose pixels come straight into registers: the bits of other kernels, at any width and in any shares.

use crate::tiles::{Layer, Runs, Tail, check_shares, check_tiles, has_wgmma, layer, model};
use platoon::plan::format::Kernel;

/// All numbers of steps under a tap and of groups in a round, channels that fill neither, rounds in turn, pixels that no tile divides, taps
/// apart and beyond the edges, windows that leave pixels out.
const LAYERS: [Layer; 16] = [
    layer([2, 16, 61, 67], 16, [1, 1, 1, 0]),
    layer([1, 8, 130, 83], 24, [1, 1, 1, 0]),
    layer([3, 48, 33, 35], 48, [1, 1, 1, 0]),
    layer([1, 64, 90, 91], 64, [1, 1, 1, 0]),
    layer([2, 40, 30, 31], 80, [1, 1, 1, 0]),
    layer([1, 32, 57, 58], 128, [1, 1, 1, 0]),
    layer([1, 24, 41, 43], 5, [1, 1, 1, 0]),
    layer([2, 48, 57, 58], 32, [1, 2, 1, 0]),
    layer([1, 16, 45, 47], 16, [1, 1, 1, 1]),
    layer([1, 16, 130, 83], 16, [3, 1, 2, 2]),
    layer([2, 16, 110, 104], 24, [3, 1, 4, 3]),
    layer([1, 32, 130, 82], 16, [3, 1, 2, 2]),
    layer([1, 16, 61, 67], 40, [3, 2, 1, 1]),
    layer([1, 32, 33, 100], 64, [3, 1, 1, 1]),
    layer([1, 16, 101, 100], 19, [5, 1, 1, 2]),
    layer([2, 24, 40, 41], 32, [3, 1, 8, 8]),
];

const OTHERS: [Kernel; 4] = [Kernel::ConvWgmma, Kernel::ConvMma, Kernel::ConvNarrow, Kernel::ConvShallow];

#[test]
fn pixels_straight_from_memory_have_the_same_bits() {
    let test = "gpu_pixels_straight_from_memory_have_the_same_bits";
    if !has_wgmma(test) {
        return;
    }
    let [a, b, c, d] = OTHERS;
    let runs = Runs {
        kernels: &[a, b, c, d, Kernel::ConvDirect],
        widths: &[0, 7, 1],
        least: 5,
    };
    for tails in [
        [Tail::Relu, Tail::Joined, Tail::Silu],
        [Tail::Joined, Tail::Sigmoid, Tail::Sliced],
        [Tail::Sliced, Tail::Relu, Tail::Joined],
    ] {
        let file = model(&LAYERS, &tails);
        check_tiles(test, &file, LAYERS.len(), &runs);
        check_shares(test, &file, LAYERS.len(), &OTHERS, Kernel::ConvDirect);
    }
}
