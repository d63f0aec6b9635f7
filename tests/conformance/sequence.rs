//! A network over a sequence: embedding, recurrent layers, attention and the exact Gelu, compiled in many ways.

use crate::data::Chance;
use crate::network::{self, Tensors};
use crate::onnx::{Graph, int, ints, string};
use platoon::planner::passes::PassSet;
use platoon::planner::{CompileOptions, Searcher};
use platoon::primitive::{Primitive, Unary};
use std::path::{Path, PathBuf};

/// Steps, rows of the batch, hidden units of each direction, entries of the embedding, and its width.
const STEPS: i64 = 6;
const ROWS: i64 = 5;
const HIDDEN: i64 = 20;
const ENTRIES: i64 = 11;
const WIDTH: i64 = 13;

/// From positions `[STEPS, ROWS]`, given as fractions of the embedding's length, to features and to the LSTM's last c.
fn model(folder: &Path) -> PathBuf {
    let (gates, both) = (4 * HIDDEN, 2 * HIDDEN);
    let mut random = Chance::new(5);
    let mut g = Graph::default().input("x", &[STEPS, ROWS]);
    for (name, dims) in [
        ("table", &[ENTRIES, WIDTH][..]),
        ("W", &[2, gates, WIDTH]),
        ("R", &[2, gates, HIDDEN]),
        ("B", &[2, 2 * gates]),
        ("h", &[2, ROWS, HIDDEN]),
        ("c", &[2, ROWS, HIDDEN]),
        ("keys", &[both, both]),
        ("Wg", &[1, 3 * HIDDEN, both]),
        ("Rg", &[1, 3 * HIDDEN, HIDDEN]),
        ("Bg", &[1, 6 * HIDDEN]),
    ] {
        g = g.constant(name, dims, || random.signed() * 0.4);
    }
    let bidirectional = [string("direction", "bidirectional"), int("hidden_size", HIDDEN)];
    let reverse = [
        string("direction", "reverse"),
        int("hidden_size", HIDDEN),
        int("linear_before_reset", 1),
    ];
    g = g
        .constant("entries", &[], || ENTRIES as f32)
        .constant("root", &[], || 2f32.sqrt())
        .constant("one", &[], || 1.0)
        .constant("half", &[], || 0.5)
        .integers("flat", &[STEPS, ROWS, both]);
    let bytes = g
        .node("Mul", "x entries", "scaled", &[])
        .node("Cast", "scaled", "ids", &[int("to", 7)])
        .node("Gather", "table ids", "embedded", &[])
        .node("LSTM", "embedded W R B - h c", "Y Y_h Y_c", &bidirectional)
        .node("Transpose", "Y", "turned", &[ints("perm", &[0, 2, 1, 3])])
        .node("Reshape", "turned flat", "sequence", &[])
        .node("Transpose", "sequence", "rows", &[ints("perm", &[1, 0, 2])])
        .node("MatMul", "rows keys", "queries", &[])
        .node("Transpose", "rows", "across", &[ints("perm", &[0, 2, 1])])
        .node("MatMul", "queries across", "scores", &[])
        .node("Softmax", "scores", "shares", &[int("axis", -1)])
        .node("MatMul", "shares rows", "seen", &[])
        .node("Div", "seen root", "inner", &[])
        .node("Erf", "inner", "erf", &[])
        .node("Add", "erf one", "gate", &[])
        .node("Mul", "seen gate", "twice", &[])
        .node("Mul", "twice half", "bent", &[])
        .node("Transpose", "bent", "back", &[ints("perm", &[1, 0, 2])])
        .node("GRU", "back Wg Rg Bg", "Z Z_h", &reverse)
        .output("Z")
        .output("Y_h")
        .output("Y_c")
        .file();
    let path = folder.join("sequence.onnx");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn outputs(model: &Path, options: &CompileOptions, workers: usize) -> Tensors {
    let compiled = network::compile(model, options).unwrap_or_else(|e| panic!("{}", network::told(&*e)));
    let mut random = Chance::new(12);
    let inputs = network::inputs_of(&compiled, || random.signed());
    network::run(compiled, &inputs, workers).unwrap()
}

#[test]
fn every_searcher_and_kernel_gives_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let expected = outputs(&model, &CompileOptions::default(), 1);
    let generic = CompileOptions {
        generic_kernels: true,
        ..CompileOptions::default()
    };
    assert_eq!(
        network::bits_differ(&outputs(&model, &generic, 2), &expected),
        None,
        "generic kernels"
    );
    let mut cut = 0;
    for seed in 0..24 {
        let options = CompileOptions {
            searcher: Searcher::Random,
            seed,
            ..CompileOptions::default()
        };
        let plan = network::compile(&model, &options).unwrap().plan;
        let recurrent = plan
            .operators
            .iter()
            .filter(|o| matches!(o.calls[0].primitive, Primitive::Lstm { .. }));
        cut += recurrent.filter(|o| o.chunks.len() > 1).count();
        let found = outputs(&model, &options, 1 + seed as usize % 3);
        assert_eq!(network::bits_differ(&found, &expected), None, "random with seed {seed}");
    }
    assert!(cut > 5, "only {cut} layers were cut into chunks");
}

#[test]
fn the_spelled_gelu_is_one_function_and_means_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let of = |passes| CompileOptions {
        passes,
        ..CompileOptions::default()
    };
    let count = |passes, function| {
        let plan = network::compile(&model, &of(passes)).unwrap().plan;
        let calls = plan.operators.iter().flat_map(|o| &o.calls);
        calls.filter(|c| c.primitive == Primitive::Unary(function)).count()
    };
    let without = PassSet::ALL.without(PassSet::GELU);
    assert_eq!((count(PassSet::ALL, Unary::Gelu), count(PassSet::ALL, Unary::Erf)), (1, 0));
    assert_eq!((count(without, Unary::Gelu), count(without, Unary::Erf)), (0, 1));
    let (found, expected) = (outputs(&model, &of(PassSet::ALL), 2), outputs(&model, &of(without), 2));
    for (name, expected) in &expected {
        assert_eq!(network::difference(&found[name], expected, 1e-5, 1e-6), None, "{name}");
    }
}
