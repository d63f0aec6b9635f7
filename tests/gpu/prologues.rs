//! Products behind scale, shift and relu, or behind factors: each tile of each kernel gives the bits of the others of its class, by
//! `mma.sync` or by `wgmma`.

use crate::data::Chance;
use crate::onnx::Graph;
use crate::tiles::{Runs, check_tiles, has_wgmma};
use platoon::plan::format::Kernel;

/// What comes before products.
#[derive(Clone, Copy)]
enum Before {
    /// Scale, shift and relu.
    Affine,
    /// Factors of samples and channels.
    Gate,
}

/// What follows them.
#[derive(Clone, Copy)]
enum Behind {
    Nothing,
    Relu,
    /// A sum with a tensor of the output's shape.
    Join,
}

/// Samples, channels, rows and columns; output channels, and what follows.
type Layer = ([i64; 4], i64, Behind);

/// More pixels than a few blocks have: one chain of products. Steps of 16 channels that fill K blocks, and 1, 2 and 3 more; channels that
/// no tile divides; tiles of several turns, the last of which are not whole.
const ASCENDING: [Layer; 7] = [
    ([8, 64, 30, 30], 128, Behind::Relu),
    ([2, 96, 57, 58], 128, Behind::Relu),
    ([3, 480, 28, 28], 128, Behind::Relu),
    ([1, 72, 33, 31], 40, Behind::Nothing),
    ([2, 1024, 20, 20], 200, Behind::Relu),
    ([1, 168, 40, 41], 64, Behind::Join),
    ([16, 256, 56, 56], 128, Behind::Relu),
];

/// Few pixels of a sample: chains of one to four pieces, an even and an odd number of pieces, channels that fill no piece.
const PIECES: [Layer; 7] = [
    ([8, 256, 14, 14], 128, Behind::Relu),
    ([8, 992, 7, 7], 128, Behind::Relu),
    ([2, 512, 14, 14], 72, Behind::Nothing),
    ([3, 608, 13, 11], 128, Behind::Relu),
    ([1, 40, 14, 14], 64, Behind::Join),
    ([40, 520, 10, 14], 128, Behind::Nothing),
    ([9, 1320, 14, 14], 200, Behind::Join),
];

/// The same behind factors: tiles within a sample, of two, and of many.
const GATED: [Layer; 7] = [
    ([8, 120, 28, 28], 40, Behind::Join),
    ([1, 72, 28, 28], 40, Behind::Nothing),
    ([8, 672, 14, 14], 112, Behind::Nothing),
    ([9, 960, 7, 7], 160, Behind::Join),
    ([30, 256, 2, 3], 72, Behind::Relu),
    ([3, 480, 13, 11], 112, Behind::Join),
    ([40, 200, 10, 14], 136, Behind::Relu),
];

fn model(layers: &[Layer], before: Before) -> Vec<u8> {
    let mut random = Chance::new(7);
    let mut graph = Graph::default();
    for (i, &(x, outputs, behind)) in layers.iter().enumerate() {
        let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
        let per_channel = [1, x[1], 1, 1];
        let scale = 1.0 / (x[1] as f32).sqrt();
        graph = graph
            .input(&names(&["x"]), &x)
            .constant(&names(&["w"]), &[outputs, x[1], 1, 1], || scale * random.signed())
            .constant(&names(&["b"]), &[outputs], || random.signed())
            // What is a result itself is not computed together with what follows.
            .node("Relu", &names(&["x"]), &names(&["r"]), &[])
            .output(&names(&["r"]));
        graph = match before {
            Before::Affine => graph
                .constant(&names(&["scale"]), &per_channel, || random.signed())
                .constant(&names(&["shift"]), &per_channel, || random.signed())
                .node("Mul", &names(&["r", "scale"]), &names(&["m"]), &[])
                .node("Add", &names(&["m", "shift"]), &names(&["a"]), &[])
                .node("Relu", &names(&["a"]), &names(&["p"]), &[]),
            Before::Gate => graph
                .input(&names(&["g"]), &[x[0], x[1], 1, 1])
                .node("Sigmoid", &names(&["g"]), &names(&["s"]), &[])
                .node("Mul", &names(&["r", "s"]), &names(&["p"]), &[]),
        };
        graph = graph.node("Conv", &names(&["p", "w", "b"]), &names(&["c"]), &[]);
        graph = match behind {
            Behind::Nothing => graph.node("Identity", &names(&["c"]), &names(&["y"]), &[]),
            Behind::Relu => graph.node("Relu", &names(&["c"]), &names(&["y"]), &[]),
            Behind::Join => graph
                .input(&names(&["j"]), &[x[0], outputs, x[2], x[3]])
                .node("Relu", &names(&["j"]), &names(&["k"]), &[])
                .output(&names(&["k"]))
                .node("Add", &names(&["c", "k"]), &names(&["y"]), &[]),
        };
        graph = graph.output(&names(&["y"]));
    }
    graph.file()
}

/// The tiles of all kernels that have an order of K.
fn check(test: &str, (layers, before): (&[Layer], Before), kernels: &[Kernel]) {
    if !has_wgmma(test) {
        return;
    }
    // As many blocks as there is room for; an odd number, each with many tiles; fewer than there are ranges of channels.
    let runs = Runs {
        kernels,
        widths: &[0, 7, 1],
        least: 4,
    };
    check_tiles(test, &model(layers, before), layers.len(), &runs);
}

#[test]
fn one_chain_behind_scale_and_shift_has_the_same_bits_by_any_kernel() {
    let test = "gpu_one_chain_behind_scale_and_shift_has_the_same_bits_by_any_kernel";
    let kernels = [Kernel::ConvMma, Kernel::ConvAffine, Kernel::PrologueWgmma];
    check(test, (&ASCENDING, Before::Affine), &kernels);
}

#[test]
fn chains_of_pieces_behind_scale_and_shift_have_the_same_bits_by_any_kernel() {
    let test = "gpu_chains_of_pieces_behind_scale_and_shift_have_the_same_bits_by_any_kernel";
    let kernels = [Kernel::ConvWarps, Kernel::ConvAffine, Kernel::PrologueWgmma];
    check(test, (&PIECES, Before::Affine), &kernels);
}

#[test]
fn chains_of_pieces_behind_factors_have_the_same_bits_by_any_kernel() {
    let test = "gpu_chains_of_pieces_behind_factors_have_the_same_bits_by_any_kernel";
    check(test, (&GATED, Before::Gate), &[Kernel::ConvWarps, Kernel::PrologueWgmma]);
}
