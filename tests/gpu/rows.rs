//! What is made of rows and columns. Softmax of rows of every length that has a kernel, few and many, along the last axis and along others,
//! of values that a mask has moved far away. Means, sums, maxima and norms over one axis and several, of few neighbours and of many.

use crate::onnx::{Graph, int, ints};
use crate::processor::check_bits;
use crate::tiles::{Runs, check_tiles};
use platoon::plan::format::Kernel;
use platoon::planner::Ports;
use platoon::tensor::DType;

/// Extents and the axis.
const ROWS: [([i64; 3], i64); 25] = [
    ([2, 700, 4], 2),
    ([2, 700, 8], 2),
    ([12, 32, 9], 2),
    ([12, 32, 16], 2),
    ([12, 32, 32], 2),
    ([4, 48, 48], 2),
    ([3, 49, 49], 2),
    ([8, 100, 127], 2),
    ([8, 100, 128], 2),
    ([4, 196, 196], 2),
    ([2, 40, 256], 2),
    ([1, 3, 257], 2),
    ([2, 700, 300], 2),
    ([2, 784, 784], 2),
    ([1, 500, 1024], 2),
    ([1, 500, 1025], 2),
    ([1, 1, 1024], 2),
    ([1, 1, 4096], 2),
    ([1, 1, 8193], 2),
    ([2, 3, 20000], 2),
    ([1, 9001, 2], 1),
    ([3, 19, 300], 1),
    ([3, 150, 40], 1),
    ([24, 700, 30], 0),
    ([200, 9, 11], 0),
];

fn model() -> Vec<u8> {
    let mut graph = Graph::default().constant("far", &[], || 300.0).constant("none", &[], || 0.0);
    for (i, &(dims, axis)) in ROWS.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let mut masked = 0;
        let mut mask = || {
            masked += 1;
            if masked % 5 == 0 { -1e4 } else { 0.0 }
        };
        graph = graph
            .input(&name("x"), &dims)
            .constant(&name("mask"), &[dims[1], dims[2]], &mut mask)
            .node("Mul", &format!("{} far", name("x")), &name("l"), &[])
            .node("Add", &format!("{} {}", name("l"), name("mask")), &name("m"), &[])
            .node("Softmax", &name("m"), &name("s"), &[int("axis", axis)])
            .node("Sub", &format!("{} none", name("s")), &name("y"), &[])
            .node("Softmax", &name("x"), &name("z"), &[int("axis", axis)])
            .output(&name("y"))
            .output(&name("z"));
    }
    graph.file()
}

/// What networks compute in and are given.
const TYPES: [(DType, Ports); 2] = [(DType::F16, Ports::Half), (DType::F32, Ports::Declared)];

#[test]
fn rows_of_any_length_have_the_processors_softmax() {
    check_bits(
        "gpu_rows_of_any_length_have_the_processors_softmax",
        &model(),
        &TYPES,
        "25 softmaxes",
    );
}

/// Extents, the axis, and the order of the axes in which a softmax meets them: few elements, in rows behind each other, in planes whose
/// rows' neighbours are whole fours or not, and of pixels that a copy has turned.
const FEW: [([i64; 4], i64, [i64; 4]); 18] = [
    ([1, 96, 112, 4], 3, [0, 1, 2, 3]),
    ([1, 4, 96, 112], 3, [0, 2, 3, 1]),
    ([2, 33, 41, 2], 3, [0, 1, 2, 3]),
    ([2, 33, 41, 3], 3, [0, 1, 2, 3]),
    ([1, 5, 33, 41], 3, [0, 2, 3, 1]),
    ([2, 17, 30, 6], 3, [0, 1, 2, 3]),
    ([1, 17, 31, 7], 3, [0, 1, 2, 3]),
    ([3, 17, 31, 8], 3, [0, 1, 2, 3]),
    ([2, 2, 40, 36], 1, [0, 1, 2, 3]),
    ([1, 3, 41, 37], 1, [0, 1, 2, 3]),
    ([2, 4, 41, 37], 1, [0, 1, 2, 3]),
    ([2, 5, 40, 36], 1, [0, 1, 2, 3]),
    ([1, 6, 40, 36], 1, [0, 1, 2, 3]),
    ([2, 7, 24, 52], 1, [0, 1, 2, 3]),
    ([1, 8, 24, 52], 1, [0, 1, 2, 3]),
    ([2, 12, 4, 52], 2, [0, 1, 2, 3]),
    ([3, 16, 40, 5], 3, [0, 1, 2, 3]),
    ([1, 24, 10, 4], 2, [0, 2, 3, 1]),
];

/// Softmaxes of values up to a number, so that all shares but one are 0 to some of them, some of values that a mask has moved far away; and
/// of two side by side in their results.
fn few() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, &(dims, axis, order)) in FEW.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let most = [1.0, 8.0, 300.0][i % 3];
        let mut masked = 0;
        let mut mask = || {
            masked += 1;
            if masked % 7 == 0 { -1e4 } else { 0.0 }
        };
        let turned = order.map(|a| dims[a as usize]);
        graph = graph
            .input(&name("x"), &dims)
            .constant(&name("most"), &[], || most)
            .constant(&name("mask"), &[turned[2], turned[3]], &mut mask)
            .node("Mul", &format!("{} {}", name("x"), name("most")), &name("l"), &[])
            .node("Transpose", &name("l"), &name("t"), &[ints("perm", &order)])
            .node("Softmax", &name("t"), &name("y"), &[int("axis", axis)])
            .node("Add", &format!("{} {}", name("t"), name("mask")), &name("m"), &[])
            .node("Softmax", &name("m"), &name("n"), &[int("axis", axis)])
            .node("Concat", &format!("{} {}", name("y"), name("n")), &name("b"), &[int("axis", axis)])
            .output(&name("y"))
            .output(&name("b"));
    }
    graph.file()
}

#[test]
fn rows_of_few_elements_have_the_processors_softmax() {
    check_bits(
        "gpu_rows_of_few_elements_have_the_processors_softmax",
        &few(),
        &[
            (DType::F16, Ports::Half),
            (DType::F16, Ports::Declared),
            (DType::F32, Ports::Declared),
        ],
        &format!("{} softmaxes", 2 * FEW.len()),
    );
}

/// Extents and the axes that are reduced.
const COLUMNS: [(&[i64], &[i64]); 16] = [
    (&[1, 3136, 64], &[1]),
    (&[1, 784, 128], &[1]),
    (&[1, 196, 256], &[1]),
    (&[2, 49, 512], &[1]),
    (&[1, 196, 192], &[1]),
    (&[2, 65, 40], &[1]),
    (&[1, 33, 16], &[1]),
    (&[3, 33, 24], &[1]),
    (&[1, 5000, 8], &[1]),
    (&[1, 1000, 4096], &[1]),
    (&[2, 300, 61], &[1]),
    (&[2, 9, 14, 64], &[1, 2]),
    (&[1, 7, 3, 11, 2, 32], &[1, 3]),
    (&[1, 5, 2, 13, 3, 17], &[1, 3, 5]),
    (&[1, 90, 2, 13, 48], &[1, 3]),
    (&[40, 3, 100], &[2]),
];

/// Ways of reducing.
const KINDS: [&str; 4] = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"];

/// Each in every way, with nothing behind it, with a function, and with a sum, of small numbers.
fn reductions() -> Vec<u8> {
    let mut graph = Graph::default()
        .constant("less", &[], || 0.02)
        .constant("low", &[], || 0.001)
        .constant("high", &[], || 0.3)
        .constant("one", &[], || 0.1);
    for (i, &(dims, axes)) in COLUMNS.iter().enumerate() {
        graph = graph.integers(&format!("axes{i}"), axes);
        for (k, kind) in KINDS.iter().enumerate() {
            let name = |of: &str| format!("{of}{k}of{i}");
            let reduce = |graph: Graph, to: &str| {
                let (x, small) = (name(&format!("x{to}")), name(&format!("small{to}")));
                graph.input(&x, dims).node("Mul", &format!("{x} less"), &small, &[]).node(
                    kind,
                    &format!("{small} axes{i}"),
                    &name(to),
                    &[int("keepdims", 1)],
                )
            };
            graph = reduce(graph, "r").output(&name("r"));
            graph = reduce(graph, "s")
                .node("Clip", &format!("{} low high", name("s")), &name("t"), &[])
                .output(&name("t"));
            graph = reduce(graph, "u")
                .node("Add", &format!("{} one", name("u")), &name("v"), &[])
                .output(&name("v"));
        }
    }
    graph.file_of(18)
}

#[test]
fn columns_of_any_number_are_reduced_as_on_the_processor() {
    let runs = Runs {
        kernels: &[Kernel::Reduce],
        widths: &[0, 3],
        least: 1,
    };
    // A maximum of very many elements is one of shares and one of these.
    let shared = COLUMNS.iter().filter(|(dims, axes)| dims[axes[0] as usize] >= 4096).count();
    let count = (COLUMNS.len() * KINDS.len() + shared) * 3;
    check_tiles(
        "gpu_columns_of_any_number_are_reduced_as_on_the_processor",
        &reductions(),
        count,
        &runs,
    );
}
