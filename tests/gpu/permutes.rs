//! Axes in other orders: the bits of the processor, whatever the extents and wherever the neighbours lie.

use crate::onnx::{Graph, ints};
use crate::processor::check_bits;
use platoon::planner::Ports;
use platoon::tensor::DType;

/// Extents, and the order of the axes in the result.
const PERMUTES: [(&[i64], &[i64]); 14] = [
    // Planes to channels side by side: a few planes in whole pieces, of odd pictures, and many.
    (&[2, 3, 32, 40], &[0, 2, 3, 1]),
    (&[2, 4, 24, 20], &[0, 2, 3, 1]),
    (&[3, 2, 16, 33], &[0, 2, 3, 1]),
    (&[2, 3, 33, 41], &[0, 2, 3, 1]),
    (&[2, 5, 32, 40], &[0, 2, 3, 1]),
    (&[2, 72, 14, 20], &[0, 2, 3, 1]),
    (&[2, 67, 13, 21], &[0, 2, 3, 1]),
    // And back.
    (&[2, 32, 40, 3], &[0, 3, 1, 2]),
    (&[2, 14, 20, 72], &[0, 3, 1, 2]),
    (&[2, 13, 21, 67], &[0, 3, 1, 2]),
    // Heads and matrices.
    (&[2, 70, 6, 24], &[0, 2, 1, 3]),
    (&[2, 6, 200, 24], &[0, 1, 3, 2]),
    (&[1000, 3], &[1, 0]),
    // Patches of eight rows of eight pixels.
    (&[2, 3, 4, 8, 5, 8], &[0, 2, 4, 5, 1, 3]),
];

/// One network that turns an input for every line of the table.
fn model() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, (dims, perm)) in PERMUTES.iter().enumerate() {
        let (x, y) = (format!("x{i}"), format!("y{i}"));
        graph = graph.input(&x, dims).node("Transpose", &x, &y, &[ints("perm", perm)]).output(&y);
    }
    graph.file()
}

#[test]
fn axes_in_other_orders_have_the_processors_bits() {
    check_bits(
        "gpu_axes_in_other_orders_have_the_processors_bits",
        &model(),
        &[
            (DType::F32, Ports::Declared),
            (DType::F16, Ports::Half),
            (DType::F16, Ports::Declared),
        ],
        &format!("{} copies", PERMUTES.len()),
    );
}

/// Extents of a picture, and the channels of it that are a result: all, some between others, and single ones.
const PLANES: [([i64; 4], [i64; 2]); 17] = [
    ([1, 7, 97, 161], [0, 7]),
    ([1, 2, 91, 160], [0, 2]),
    ([1, 1, 61, 83], [0, 1]),
    ([2, 3, 33, 41], [0, 3]),
    ([2, 4, 24, 52], [0, 4]),
    ([3, 5, 17, 30], [0, 5]),
    ([1, 6, 40, 41], [0, 6]),
    ([2, 8, 40, 33], [0, 8]),
    ([2, 16, 31, 29], [0, 7]),
    ([2, 16, 31, 29], [8, 15]),
    ([2, 16, 31, 29], [3, 8]),
    ([1, 16, 31, 30], [8, 16]),
    ([1, 12, 31, 30], [4, 7]),
    ([1, 10, 31, 30], [2, 4]),
    ([2, 9, 31, 30], [8, 9]),
    ([1, 8, 31, 30], [5, 6]),
    ([1, 20, 31, 30], [10, 18]),
];

/// Results that are channels of pictures which networks keep pixel by pixel.
fn planes() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, (dims, [first, end])) in PLANES.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        graph = graph
            .input(&name("x"), dims)
            .integers(&name("first"), &[*first])
            .integers(&name("end"), &[*end])
            .integers(&name("axes"), &[1])
            .node("MaxPool", &name("x"), &name("m"), &[ints("kernel_shape", &[2, 2])])
            .node(
                "Slice",
                &format!("{} {} {} {}", name("m"), name("first"), name("end"), name("axes")),
                &name("y"),
                &[],
            )
            .output(&name("y"));
    }
    graph.file()
}

#[test]
fn few_channels_become_planes_with_the_processors_bits() {
    check_bits(
        "gpu_few_channels_become_planes_with_the_processors_bits",
        &planes(),
        &[
            (DType::F32, Ports::Declared),
            (DType::F16, Ports::Half),
            (DType::F16, Ports::Declared),
        ],
        &format!("{} pictures", PLANES.len()),
    );
}
