//! Attention without masks and with constant and computed ones, for every head and query or not, whose rows begin at whole pieces or
//! between them. All tiles give the same bits.

use crate::data::{self, Chance};
use crate::gpu::Beside;
use crate::network;
use crate::onnx::{Graph, ints};
use crate::tiles::{Runs, check_tiles};
use platoon::plan::format::Kernel;
use platoon::planner::{CompileOptions, Ports, Searcher};
use platoon::tensor::DType;

/// A mask's extents are the scores', or 1.
#[derive(Clone, Copy)]
enum Mask {
    Constant([i64; 4]),
    Computed([i64; 4]),
    Absent,
}
use Mask::{Absent, Computed, Constant};

/// Batch, heads, queries, keys; elements of a key and of a value.
type Case = ([i64; 4], [i64; 2], Mask);

const CASES: [Case; 18] = [
    ([1, 5, 196, 196], [32, 32], Constant([1, 5, 196, 196])),
    ([2, 12, 49, 49], [32, 32], Constant([1, 12, 49, 49])),
    ([16, 3, 49, 49], [32, 32], Constant([16, 3, 49, 49])),
    ([1, 8, 400, 400], [32, 32], Constant([1, 1, 400, 400])),
    ([1, 8, 100, 405], [64, 64], Constant([1, 1, 1, 405])),
    ([1, 6, 70, 197], [64, 64], Constant([1, 1, 70, 197])),
    ([2, 4, 130, 64], [96, 96], Constant([2, 1, 130, 64])),
    ([1, 3, 65, 300], [48, 80], Constant([1, 3, 65, 300])),
    ([1, 8, 400, 400], [32, 32], Computed([1, 1, 400, 400])),
    ([2, 2, 128, 192], [64, 64], Computed([2, 2, 128, 192])),
    ([1, 4, 100, 100], [32, 32], Computed([1, 4, 100, 100])),
    ([2, 3, 80, 256], [64, 64], Computed([2, 1, 1, 256])),
    // Two to four blocks of keys, the last one whole or of one key.
    ([1, 12, 197, 197], [64, 64], Absent),
    ([2, 4, 196, 196], [96, 96], Absent),
    ([1, 2, 70, 65], [32, 64], Absent),
    ([1, 3, 64, 256], [128, 72], Absent),
    ([1, 1, 7, 193], [64, 200], Absent),
    ([1, 5, 33, 128], [24, 40], Absent),
];

fn model() -> Vec<u8> {
    let mut graph = Graph::default();
    let mut random = Chance::new(5);
    for (i, &([batch, heads, queries, keys], [depth, width], mask)) in CASES.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        for (of, rows, columns) in [("q", queries, depth), ("k", keys, depth), ("v", keys, width)] {
            let (given, seen) = (name(&format!("{of}given")), name(of));
            graph = graph.input(&given, &[batch, heads, rows, columns]).node("Tanh", &given, &seen, &[]);
        }
        graph = match mask {
            // Some keys are hidden altogether.
            Constant(dims) => graph.constant(&name("m"), &dims, || match random.signed() {
                x if x < -0.8 => f32::NEG_INFINITY,
                x => 4.0 * x,
            }),
            Computed(dims) => graph.input(&name("given"), &dims).node("Tanh", &name("given"), &name("m"), &[]),
            // Greatest scores grow from block to block.
            Absent => graph.constant(&name("scale"), &[], || 3.0),
        };
        let (turned, scores) = (name("turned"), name("scores"));
        graph = graph.node("Transpose", &name("k"), &turned, &[ints("perm", &[0, 1, 3, 2])]).node(
            "MatMul",
            &format!("{} {turned}", name("q")),
            &name("products"),
            &[],
        );
        graph = match mask {
            Absent => graph.node("Mul", &format!("{} {}", name("products"), name("scale")), &scores, &[]),
            _ => graph.node("Add", &format!("{} {}", name("products"), name("m")), &scores, &[]),
        };
        graph = graph
            .node("Softmax", &scores, &name("shares"), &[])
            .node("MatMul", &format!("{} {}", name("shares"), name("v")), &name("y"), &[])
            .output(&name("y"));
    }
    graph.file()
}

#[test]
fn masks_of_every_form_hide_the_same() {
    let runs = Runs {
        kernels: &[Kernel::AttentionWgmma],
        // Without a bound, and so few blocks that each has several tiles.
        widths: &[0, 3],
        least: 1,
    };
    check_tiles("gpu_masks_of_every_form_hide_the_same", &model(), CASES.len(), &runs);
}

#[test]
fn shares_of_batches_and_queries_hide_the_same() {
    let test = "gpu_shares_of_batches_and_queries_hide_the_same";
    let Some(beside) = Beside::of(test, &model()) else { return };
    let mut whole = None;
    for (searcher, seed) in [
        (Searcher::Sequential, 0),
        (Searcher::Random, 1),
        (Searcher::Random, 2),
        (Searcher::Random, 3),
    ] {
        let compiled = beside.compile(&CompileOptions {
            dtype: DType::F16,
            ports: Ports::Half,
            searcher,
            seed,
            ..CompileOptions::default()
        });
        let mut random = Chance::new(31);
        let inputs = network::inputs_of(&compiled, || random.signed());
        let found = beside.machine.run(compiled, &inputs).unwrap();
        let whole = whole.get_or_insert_with(|| found.clone());
        assert_eq!(network::bits_differ(&found, whole), None, "{searcher:?} {seed}");
    }
    data::ran(test, &format!("{} attentions in three random plans", CASES.len()));
}
