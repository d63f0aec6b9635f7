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
