//! The same network compiled in many ways: without each pass, with generic kernels, under every searcher.

use crate::data::{self, Chance};
use crate::network::{self, Tensors};
use crate::onnx::{Graph, float, int, ints};
use platoon::planner::passes::PassSet;
use platoon::planner::{CompileOptions, Searcher};
use platoon::tensor::Tensor;
use std::path::Path;

/// The passes by name, and whether one changes how results are rounded.
const PASSES: [(&str, PassSet, bool); 14] = [
    ("fold_constants", PassSet::FOLD_CONSTANTS, false),
    ("drop_noops", PassSet::DROP_NOOPS, false),
    ("fold_pad", PassSet::FOLD_PAD, false),
    ("fold_batchnorm", PassSet::FOLD_BATCHNORM, true),
    ("silu", PassSet::SILU, true),
    ("hardswish", PassSet::HARDSWISH, true),
    ("drop_dead", PassSet::DROP_DEAD, false),
    ("group", PassSet::GROUP, false),
    ("layout", PassSet::LAYOUT, false),
    ("elide", PassSet::ELIDE, false),
    ("rejoined", PassSet::REJOINED, false),
    ("parted", PassSet::PARTED, true),
    ("fold_ahead", PassSet::FOLD_AHEAD, true),
    ("all", PassSet::ALL, true),
];

/// A network with a residual branch, and something for every pass to do: a pad before a convolution, batch normalization, the
/// spellings of SiLU and hard swish, a concatenation, a slice, a resize to the same size, a truth value that is chosen by and that
/// nobody reads as one, a shape computed from an input's; and a cross-stage block: shares that are joined again, a function behind
/// joined convolutions, and a scale in front of one.
pub fn residual() -> Vec<u8> {
    let mut random = Chance::new(3);
    let mut weights = |graph: Graph, name: &str, dims: &[i64]| graph.constant(name, dims, || random.signed() * 0.4);
    let mut g = Graph::default().input("x", &[1, 3, 20, 26]);
    for (name, dims) in [
        ("w0", &[8, 3, 3, 3][..]),
        ("w1", &[8, 8, 3, 3]),
        ("w2", &[8, 1, 3, 3]),
        ("w3", &[12, 16, 1, 1]),
        ("w4", &[6, 12]),
        ("w5", &[4, 6, 1, 1]),
        ("w6", &[4, 6, 1, 1]),
        ("w7", &[5, 20, 1, 1]),
        ("scales", &[20, 1, 1]),
        ("b0", &[8]),
        ("b4", &[6]),
        ("bn_scale", &[8]),
        ("bn_shift", &[8]),
        ("bn_mean", &[8]),
    ] {
        g = weights(g, name, dims);
    }
    g = g
        .constant("bn_var", &[8], || 0.75)
        .constant("three", &[], || 3.0)
        .constant("six", &[], || 6.0)
        .constant("zero", &[], || 0.0);
    g = g
        .integers("pads", &[0, 0, 1, 1, 0, 0, 1, 1])
        .integers("i0", &[0])
        .integers("i2", &[2])
        .integers("i6", &[6])
        .integers("last", &[9999]);
    g = g
        .constant("nothing", &[0], || 0.0)
        .constant("ones", &[4], || 1.0)
        .integers("axis1", &[1])
        .integers("minus1", &[-1]);
    g.node("Pad", "x pads", "padded", &[])
        .node("Conv", "padded w0 b0", "c0", &[ints("strides", &[2, 2])])
        .node(
            "BatchNormalization",
            "c0 bn_scale bn_shift bn_mean bn_var",
            "n0",
            &[float("epsilon", 1e-3)],
        )
        .node("Sigmoid", "n0", "s0", &[])
        .node("Mul", "n0 s0", "a0", &[])
        .node("Conv", "a0 w1", "c1", &[ints("pads", &[1, 1, 1, 1])])
        .node("BatchNormalization", "c1 bn_scale bn_shift bn_mean bn_var", "n1", &[])
        .node("Add", "n1 three", "h1", &[])
        .node("Clip", "h1 zero six", "h2", &[])
        .node("Mul", "n1 h2", "h3", &[])
        .node("Div", "h3 six", "a1", &[])
        .node("Conv", "a1 w2", "d1", &[int("group", 8), ints("pads", &[1, 1, 1, 1])])
        .node("Add", "d1 a0", "sum", &[])
        .node("Relu", "sum", "r", &[])
        .node("MaxPool", "a0", "p", &[ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])])
        .node("Concat", "r p", "both", &[int("axis", 1)])
        .node("Identity", "both", "same", &[])
        .node("Conv", "same w3", "c3", &[])
        .node("Greater", "c3 zero", "above", &[])
        .node("Where", "above c3 zero", "kept", &[])
        .node("Resize", "c3 nothing ones", "whole", &[])
        .node("Slice", "whole i2 last axis1", "part", &[])
        .node("Slice", "c3 i0 i6 axis1", "low", &[])
        .node("Slice", "c3 i6 last axis1", "high", &[])
        .node("Conv", "low w5", "k0", &[])
        .node("Conv", "high w6", "k1", &[])
        .node("Concat", "k0 k1", "stage", &[int("axis", 1)])
        .node("Relu", "stage", "staged", &[])
        .node("Concat", "low high staged", "cross", &[int("axis", 1)])
        .node("Mul", "cross scales", "scaled", &[])
        .node("Conv", "scaled w7", "crossed", &[])
        .node("GlobalAveragePool", "kept", "mean", &[])
        .node("Shape", "mean", "shape", &[])
        .node("Slice", "shape i0 axis1 i0", "batch", &[])
        .node("Concat", "batch minus1", "flat", &[int("axis", 0)])
        .node("Reshape", "mean flat", "row", &[])
        .node("Gemm", "row w4 b4", "logits", &[int("transB", 1)])
        .node("Softmax", "logits", "y", &[int("axis", 1)])
        .output("y")
        .output("part")
        .output("crossed")
        .file()
}

/// Writes a model's file.
fn written(folder: &Path, bytes: &[u8]) -> std::path::PathBuf {
    let model = folder.join("residual.onnx");
    std::fs::write(&model, bytes).unwrap();
    model
}

/// One frame of a model under `options` on `workers` workers, on seeded inputs.
fn outputs(model: &Path, options: &CompileOptions, workers: usize) -> Tensors {
    let compiled = network::compile(model, options).unwrap_or_else(|e| panic!("{}", network::told(&*e)));
    let mut random = Chance::new(11);
    let inputs = network::inputs_of(&compiled, || random.signed());
    network::run(compiled, &inputs, workers).unwrap_or_else(|e| panic!("{}: {e}", model.display()))
}

/// Why two results differ by more than `relative` of an output's largest element.
fn apart(found: &Tensors, expected: &Tensors, relative: f64) -> Option<String> {
    assert!(found.keys().eq(expected.keys()));
    let largest = |t: &Tensor| (0..t.len()).filter_map(|i| t.get_f64(i)).fold(0f64, |m, v| m.max(v.abs()));
    let pair = |(name, f): (&String, &Tensor)| {
        let e = &expected[name];
        Some(format!("`{name}`: {}", network::difference(f, e, relative, relative * largest(e))?))
    };
    found.iter().find_map(pair)
}

/// Compares a model without each pass with the model compiled with all of them.
fn without_each_pass(model: &Path) {
    let of = |passes| CompileOptions {
        passes,
        ..CompileOptions::default()
    };
    let expected = outputs(model, &of(PassSet::ALL), 2);
    for (name, pass, rounds) in PASSES {
        let found = outputs(model, &of(PassSet::ALL.without(pass)), 2);
        let wrong = match rounds {
            true => apart(&found, &expected, 1e-4),
            false => network::bits_differ(&found, &expected),
        };
        assert_eq!(wrong, None, "{}, without {name}", model.display());
    }
}

#[test]
fn a_network_without_a_pass_gives_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let model = written(folder.path(), &residual());
    without_each_pass(&model);
    let of = |passes| {
        let options = CompileOptions {
            passes,
            ..CompileOptions::default()
        };
        let plan = network::compile(&model, &options).unwrap().plan;
        (plan.operators, plan.buffers, plan.sections)
    };
    let (all, none) = (of(PassSet::ALL), of(PassSet::NONE));
    // Import folds what is constant as it meets it, and no other pass leaves new constants in this network. What one pass does
    // another may do as well, so each counts that makes a difference beside all others or alone.
    for (name, pass, _) in PASSES.iter().filter(|(name, ..)| *name != "fold_constants") {
        let different = of(PassSet::ALL.without(*pass)) != all || of(*pass) != none;
        assert!(different, "{name} does nothing here");
    }
}

#[test]
fn real_networks_without_a_pass_give_the_same() {
    for name in ["mobilenet_v2_1.0_224", "yolox_nano_416"] {
        let model = data::av_data().join(format!("models/{name}.onnx"));
        let Some(model) = data::need("passes", &model) else { return };
        without_each_pass(&model);
    }
    data::ran("passes", "2 real networks, without each pass and without any");
}

#[test]
fn generic_kernels_give_the_bits_of_the_fast_ones() {
    let names = [
        "mobilenet_v2_1.0_224",
        "yolox_nano_416",
        "efficientnet_lite0_224",
        "road_segmentation_adas_0001",
        "deeplab_edgetpu_cityscapes_513",
        "twinlitenet_360x640",
    ];
    let mut wrong = Vec::new();
    for name in names {
        let model = data::av_data().join(format!("models/{name}.onnx"));
        let Some(model) = data::need("kernels", &model) else { return };
        let of = |generic_kernels| CompileOptions {
            generic_kernels,
            ..CompileOptions::default()
        };
        let (fast, generic) = (outputs(&model, &of(false), 2), outputs(&model, &of(true), 2));
        wrong.extend(network::bits_differ(&fast, &generic).map(|d| format!("{name}: {d}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    data::ran("kernels", "6 real networks, generic and fast kernels of the same bits");
}

#[test]
fn every_searcher_gives_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let model = written(folder.path(), &residual());
    let of = |searcher, seed| CompileOptions {
        searcher,
        seed,
        ..CompileOptions::default()
    };
    let expected = outputs(&model, &of(Searcher::Sequential, 0), 1);
    let random = (0..10).map(|seed| (Searcher::Random, seed));
    for (searcher, seed) in [(Searcher::Sequential, 0), (Searcher::Streams, 0)].into_iter().chain(random) {
        for workers in 1..=3 {
            let found = outputs(&model, &of(searcher, seed), workers);
            let wrong = network::bits_differ(&found, &expected);
            assert_eq!(wrong, None, "{} with seed {seed} on {workers} workers", searcher.name());
        }
    }
}
