//! Results that halves hardly tell from zeros of either sign, behind bounds: the bits of all kernels of a class.

use crate::data::Chance;
use crate::onnx::{Graph, ints};
use crate::tiles::{Runs, check_tiles, has_wgmma};
use platoon::plan::format::Kernel;

/// Pictures, output channels, and side, step and padding of the window: layers of each class with several kernels.
const LAYERS: [([i64; 4], i64, [i64; 3]); 7] = [
    ([1, 16, 101, 100], 19, [5, 1, 2]),
    ([1, 16, 101, 100], 16, [5, 1, 2]),
    ([1, 64, 57, 58], 64, [1, 1, 0]),
    ([1, 64, 57, 58], 21, [1, 1, 0]),
    ([2, 32, 60, 61], 32, [3, 1, 1]),
    ([2, 128, 14, 14], 32, [3, 1, 1]),
    ([8, 256, 14, 14], 256, [3, 1, 1]),
];

/// The least positive half.
const LEAST: f32 = 1.0 / (1 << 24) as f32;

#[test]
fn a_little_below_zero_has_the_same_bits_by_all_kernels() {
    let test = "gpu_a_little_below_zero_has_the_same_bits_by_all_kernels";
    if !has_wgmma(test) {
        return;
    }
    let mut random = Chance::new(7);
    let mut graph = Graph::default();
    for (i, (x, outputs, [kernel, stride, pad])) in LAYERS.iter().enumerate() {
        let name = |part: &str| format!("{part}{i}");
        // Of each filter one weight is the least there is, of either sign.
        let (filter, mut element) = (x[1] * kernel * kernel, 0);
        let weights = || {
            element += 1;
            let first = element % filter == 1;
            if first { LEAST.copysign(random.signed()) } else { 0.0 }
        };
        graph = graph
            .input(&name("x"), x)
            .constant(&name("w"), &[*outputs, x[1], *kernel, *kernel], weights)
            .node("Relu", &name("x"), &name("r"), &[])
            .node(
                "Conv",
                &format!("r{i} w{i}"),
                &name("c"),
                &[ints("strides", &[*stride; 2]), ints("pads", &[*pad; 4])],
            )
            .node("Relu", &name("c"), &name("y"), &[])
            .output(&name("y"));
    }
    use Kernel::{ConvChains, ConvDirect, ConvLarge, ConvMma, ConvNarrow, ConvPatch, ConvShallow, ConvSlender, ConvWarps, ConvWgmma};
    let runs = Runs {
        kernels: &[
            ConvChains,
            ConvDirect,
            ConvLarge,
            ConvMma,
            ConvNarrow,
            ConvPatch,
            ConvShallow,
            ConvSlender,
            ConvWarps,
            ConvWgmma,
        ],
        widths: &[0],
        least: 5,
    };
    check_tiles(test, &graph.file(), LAYERS.len(), &runs);
}
