//! Convolutions of 3 by 3 neighbours whose maxima alone are stored: the bits of the kernels of patches, under every entry of the menu, at
//! any width and in any shares.

use crate::tiles::{Layer, Runs, Tail, check_shares, check_tiles, has_wgmma, layer, model};
use platoon::plan::format::Kernel;

/// Rows and columns of an even number and of an odd one, whose last are not pooled; taps that reach outside and that do not; K blocks that
/// stages divide and that they do not; channels that fill a tile and that do not; places that no tile divides.
const LAYERS: [Layer; 7] = [
    layer([8, 256, 56, 56], 256, [3, 1, 1, 1]),
    layer([3, 128, 57, 58], 192, [3, 1, 1, 1]),
    layer([2, 64, 112, 113], 64, [3, 1, 1, 1]),
    layer([1, 200, 61, 75], 320, [3, 1, 1, 0]),
    layer([2, 72, 91, 90], 128, [3, 1, 1, 2]),
    layer([2, 512, 60, 61], 256, [3, 1, 1, 1]),
    layer([4, 96, 60, 203], 64, [3, 1, 1, 1]),
];

#[test]
fn convolutions_of_which_maxima_are_stored_have_the_same_bits_by_any_kernel() {
    let test = "gpu_convolutions_of_which_maxima_are_stored_have_the_same_bits_by_any_kernel";
    if !has_wgmma(test) {
        return;
    }
    // As many blocks as there is room for; an odd number, each with many tiles; one.
    let runs = Runs {
        kernels: &[Kernel::ConvPatch, Kernel::ConvPooled],
        widths: &[0, 7, 1],
        least: 4,
    };
    let file = model(&LAYERS, &[Tail::Pooled]);
    check_tiles(test, &file, LAYERS.len(), &runs);
    check_shares(test, &file, LAYERS.len(), &[Kernel::ConvPatch], Kernel::ConvPooled);
}
