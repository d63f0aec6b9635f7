//! Convolutions of 3 by 3 neighbours from many channels to few: by `wgmma` from patches, the bits of the other kernels of their class,
//! under every entry of the menu, at any width and in any shares.

use crate::tiles::{Layer, Runs, Tail, check_shares, check_tiles, has_wgmma, layer, model};
use platoon::plan::format::Kernel;

/// Many pixels: K in one chain and in two; channels that fill neither a patch nor a product; rows and columns that tiles divide, that
/// they do not, and fewer than a tile has.
const MANY: [Layer; 8] = [
    layer([8, 128, 56, 56], 32, [3, 1, 1, 1]),
    layer([2, 128, 28, 28], 32, [3, 1, 1, 1]),
    layer([1, 72, 57, 58], 24, [3, 1, 1, 1]),
    layer([3, 96, 19, 21], 5, [3, 1, 1, 1]),
    layer([1, 128, 130, 83], 32, [3, 1, 1, 0]),
    layer([2, 104, 17, 40], 32, [3, 1, 1, 2]),
    layer([1, 120, 90, 91], 19, [3, 1, 1, 1]),
    layer([1, 80, 6, 50], 32, [3, 1, 1, 1]),
];

/// Few of them, whose chains are taps.
const FEW: [Layer; 7] = [
    layer([8, 128, 14, 14], 32, [3, 1, 1, 1]),
    layer([8, 128, 7, 7], 32, [3, 1, 1, 1]),
    layer([1, 72, 13, 11], 24, [3, 1, 1, 1]),
    layer([3, 96, 14, 14], 5, [3, 1, 1, 1]),
    layer([2, 104, 10, 12], 32, [3, 1, 1, 0]),
    layer([40, 128, 9, 14], 19, [3, 1, 1, 1]),
    layer([1, 120, 8, 9], 16, [3, 1, 1, 2]),
];

/// What follows them, in turn.
const TAILS: [[Tail; 3]; 3] = [
    [Tail::Relu, Tail::Joined, Tail::Gelu],
    [Tail::Joined, Tail::Sigmoid, Tail::Sliced],
    [Tail::Sliced, Tail::Gelu, Tail::Relu],
];

/// Runs layers under all entries, and under those of other kernels that have their bits.
fn check(test: &str, layers: &[Layer], others: &[Kernel]) {
    if !has_wgmma(test) {
        return;
    }
    let kernels = [others, &[Kernel::ConvSlender]].concat();
    // As many blocks as there is room for; an odd number, each with many tiles; one.
    let runs = Runs {
        kernels: &kernels,
        widths: &[0, 7, 1],
        least: 4,
    };
    for tails in TAILS {
        let file = model(layers, &tails);
        check_tiles(test, &file, layers.len(), &runs);
        check_shares(test, &file, layers.len(), others, Kernel::ConvSlender);
    }
}

#[test]
fn slender_convolutions_of_many_pixels_have_the_same_bits_by_any_kernel() {
    let test = "gpu_slender_convolutions_of_many_pixels_have_the_same_bits_by_any_kernel";
    check(test, &MANY, &[Kernel::ConvWgmma]);
}

#[test]
fn slender_convolutions_of_few_pixels_have_the_same_bits_by_any_kernel() {
    let test = "gpu_slender_convolutions_of_few_pixels_have_the_same_bits_by_any_kernel";
    check(test, &FEW, &[Kernel::ConvWarps, Kernel::ConvTaps]);
}
