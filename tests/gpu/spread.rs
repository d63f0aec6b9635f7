//! Transposed convolutions of few channels whose windows lie side by side: the bits of the kernels of parts, at any width and in any shares.

use crate::data::Chance;
use crate::onnx::{Graph, ints};
use crate::tiles::{Runs, check_shares, check_tiles};
use platoon::plan::format::Kernel;

/// Pictures, channels of the result, and windows: steps of K that pieces fill and half fill, columns that a product's eight divide and do
/// not, pixels that no tile divides, windows of unequal sides; then results that halves hardly tell from zeros of either sign.
const LAYERS: [([i64; 4], i64, [i64; 2]); 8] = [
    ([1, 8, 90, 83], 2, [2, 2]),
    ([2, 16, 45, 80], 8, [2, 2]),
    ([3, 32, 23, 41], 16, [2, 2]),
    ([1, 24, 31, 37], 6, [2, 2]),
    ([2, 64, 17, 19], 4, [4, 4]),
    ([1, 40, 33, 29], 10, [1, 3]),
    ([1, 8, 7, 5], 2, [3, 2]),
    ([1, 16, 60, 80], 2, [2, 2]),
];

/// The weights and biases of those.
const SMALL: f32 = 1.0 / (1 << 24) as f32;

#[test]
fn windows_side_by_side_have_the_same_bits_by_either_kernel() {
    let test = "gpu_windows_side_by_side_have_the_same_bits_by_either_kernel";
    let mut random = Chance::new(41);
    let mut graph = Graph::default();
    for (i, (x, outputs, kernel)) in LAYERS.iter().enumerate() {
        let name = |part: &str| format!("{part}{i}");
        let small = if i + 1 == LAYERS.len() { SMALL } else { 1.0 };
        let scale = small / (x[1] as f32).sqrt();
        graph = graph
            .input(&name("x"), x)
            .constant(&name("w"), &[x[1], *outputs, kernel[0], kernel[1]], || scale * random.signed())
            .constant(&name("b"), &[*outputs], || small * random.signed())
            .node("Relu", &name("x"), &name("r"), &[])
            .node(
                "ConvTranspose",
                &format!("r{i} w{i} b{i}"),
                &name(if i % 2 == 0 { "y" } else { "c" }),
                &[ints("strides", kernel)],
            )
            .output(&name("y"));
        if i % 2 == 1 {
            graph = graph.node("Relu", &name("c"), &name("y"), &[]);
        }
    }
    let file = graph.file();
    let runs = Runs {
        kernels: &[Kernel::ConvParts, Kernel::ConvSpread],
        widths: &[0, 7, 1],
        least: 5,
    };
    check_tiles(test, &file, LAYERS.len(), &runs);
    check_shares(test, &file, LAYERS.len(), &[Kernel::ConvParts], Kernel::ConvSpread);
}
