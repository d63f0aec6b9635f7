//! Products of two computed matrices: K in one range, in one for each strand, and in more than strands, which a cluster or a block alone
//! sums; either operand along its rows or its columns, in whole pieces or not. All give the same bits.

use crate::onnx::{Graph, ints};
use crate::tiles::{Runs, check_tiles};
use platoon::plan::format::Kernel;

/// Matrices a sample, rows, columns, K, and whether a and b are stored the other way round.
type Pair = ([i64; 4], [bool; 2]);

const PAIRS: [Pair; 12] = [
    ([1, 64, 1, 4096], [false, false]),
    ([3, 32, 32, 3136], [true, true]),
    ([3, 32, 32, 3136], [false, true]),
    ([4, 12, 12, 1030], [true, false]),
    ([2, 40, 50, 1024], [false, false]),
    ([2, 33, 24, 1500], [true, true]),
    ([2, 48, 48, 196], [true, false]),
    ([4, 30, 20, 700], [false, true]),
    ([8, 49, 49, 32], [false, true]),
    ([4, 196, 96, 196], [false, false]),
    ([9, 130, 140, 64], [false, true]),
    ([40, 70, 65, 40], [true, false]),
];

fn model() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, &([count, rows, columns, depth], [a_turned, b_turned])) in PAIRS.iter().enumerate() {
        let (a, b, y, z) = (format!("a{i}"), format!("b{i}"), format!("y{i}"), format!("z{i}"));
        let mut operand = |name: &str, [lines, along]: [i64; 2], turned: bool| {
            let (stored, seen) = (format!("{name}s"), format!("{name}t"));
            let dims = if turned {
                [1, count, along, lines]
            } else {
                [1, count, lines, along]
            };
            graph = std::mem::take(&mut graph).input(name, &dims).node("Relu", name, &stored, &[]);
            if turned {
                graph = std::mem::take(&mut graph).node("Transpose", &stored, &seen, &[ints("perm", &[0, 1, 3, 2])]);
                seen
            } else {
                stored
            }
        };
        let (x, w) = (operand(&a, [rows, depth], a_turned), operand(&b, [depth, columns], b_turned));
        graph = graph
            .constant(&format!("s{i}"), &[], || 4.0 / (depth as f32))
            .node("MatMul", &format!("{x} {w}"), &y, &[])
            .node("Mul", &format!("{y} s{i}"), &z, &[])
            .output(&z);
    }
    graph.file()
}

#[test]
fn ranges_of_k_give_the_same_bits_whoever_sums_them() {
    let runs = Runs {
        kernels: &[Kernel::PairMma],
        // Without a bound, as many blocks as a cluster has, and fewer.
        widths: &[0, 4, 3],
        least: 1,
    };
    check_tiles("gpu_ranges_of_k_give_the_same_bits_whoever_sums_them", &model(), PAIRS.len(), &runs);
}

/// Matrices, rows, columns, K, and whether what is added comes first in the sum.
const SUMS: [([i64; 4], bool); 10] = [
    ([4, 196, 96, 196], false),
    ([4, 196, 96, 784], true),
    ([2, 784, 96, 196], false),
    ([1, 300, 196, 96], true),
    ([8, 49, 49, 96], false),
    ([3, 33, 20, 40], true),
    ([4, 30, 20, 700], false),
    ([3, 32, 32, 3136], true),
    ([5, 70, 18, 100], false),
    ([2, 64, 12, 1100], true),
];

/// Products to which a tensor of their shape is added, and one that repeats itself along the rows.
fn sums() -> Vec<u8> {
    let mut graph = Graph::default().constant("less", &[], || 0.25);
    for (i, &([count, rows, columns, depth], first)) in SUMS.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let both = |a: &str, b: &str| if first { format!("{b} {a}") } else { format!("{a} {b}") };
        for (of, dims) in [
            ("a", [1, count, rows, depth]),
            ("b", [1, count, depth, columns]),
            ("c", [1, count, rows, columns]),
            ("d", [1, count, 1, columns]),
        ] {
            graph = graph
                .input(&name(of), &dims)
                .node("Mul", &format!("{} less", name(of)), &name(&format!("{of}r")), &[]);
        }
        graph = graph
            .node("MatMul", &format!("{} {}", name("ar"), name("br")), &name("p"), &[])
            .node("Add", &both(&name("p"), &name("cr")), &name("y"), &[])
            .node("MatMul", &format!("{} {}", name("ar"), name("br")), &name("q"), &[])
            .node("Add", &both(&name("q"), &name("dr")), &name("z"), &[])
            .output(&name("y"))
            .output(&name("z"));
    }
    graph.file()
}

#[test]
fn what_is_added_to_products_gives_the_processors_bits() {
    let runs = Runs {
        kernels: &[Kernel::PairMma],
        widths: &[0, 3],
        least: 1,
    };
    check_tiles(
        "gpu_what_is_added_to_products_gives_the_processors_bits",
        &sums(),
        2 * SUMS.len(),
        &runs,
    );
}
