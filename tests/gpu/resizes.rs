//! Pictures made larger and smaller between two pixels of either axis: the bits of the processor, of any number of channels, of pixels
//! that lie apart, and of rows that lie between the same ones or jump.

use crate::onnx::{Graph, int, ints, string};
use crate::processor::check_bits;
use platoon::planner::Ports;
use platoon::tensor::DType;

/// Extents, how many times as many rows and columns there are, and where a pixel lies.
const RESIZES: [([i64; 4], [f32; 2], &str); 15] = [
    ([1, 4, 128, 224], [2.0, 2.0], "half_pixel"),
    ([2, 4, 33, 41], [2.0, 2.0], "align_corners"),
    ([1, 16, 64, 112], [2.0, 2.0], "half_pixel"),
    ([2, 8, 19, 23], [4.0, 4.0], "asymmetric"),
    ([2, 12, 17, 30], [2.0, 3.0], "pytorch_half_pixel"),
    ([1, 1, 60, 81], [2.0, 2.0], "half_pixel"),
    ([2, 1, 9, 7], [8.0, 8.0], "align_corners"),
    ([1, 2, 45, 80], [2.0, 2.0], "half_pixel"),
    ([3, 3, 21, 35], [2.0, 2.0], "asymmetric"),
    ([1, 5, 24, 40], [1.5, 2.5], "half_pixel"),
    ([2, 6, 20, 31], [2.0, 2.0], "align_corners"),
    ([1, 7, 30, 50], [3.0, 2.0], "half_pixel"),
    // Fewer rows, columns or both.
    ([1, 8, 90, 70], [0.5, 0.5], "half_pixel"),
    ([2, 4, 64, 50], [0.3, 1.7], "half_pixel"),
    ([1, 3, 60, 64], [0.25, 0.75], "asymmetric"),
];

/// Resizes between whose results and the network's there is a maximum, so that nothing becomes of them what a resize does itself.
fn model() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, (dims, scales, coordinates)) in RESIZES.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let mut factors = [1.0, 1.0, scales[0], scales[1]].into_iter();
        let attributes = [string("mode", "linear"), string("coordinate_transformation_mode", coordinates)];
        graph = graph
            .input(&name("x"), dims)
            .constant(&name("scales"), &[4], || factors.next().unwrap_or(1.0))
            .node("Abs", &name("x"), &name("a"), &[])
            .node("Resize", &format!("{} - {}", name("a"), name("scales")), &name("r"), &attributes)
            .node("MaxPool", &name("r"), &name("y"), &[ints("kernel_shape", &[2, 2])])
            .output(&name("y"));
    }
    graph.file()
}

/// Channels of pictures that are made twice as large and put together, and the whole results' extents.
const JOINED: [(&[i64], [i64; 2]); 4] = [
    (&[4, 8, 3], [36, 50]),
    (&[1, 2, 4], [30, 34]),
    (&[8, 8, 16], [20, 44]),
    (&[3, 6, 7], [18, 66]),
];

/// Resizes into some of the channels of a picture: their pixels lie apart.
fn joined() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, (channels, [rows, columns])) in JOINED.iter().enumerate() {
        let mut parts = Vec::new();
        for (k, &depth) in channels.iter().enumerate() {
            let name = |of: &str| format!("{of}{k}of{i}");
            let mut factors = [1.0, 1.0, 2.0, 2.0].into_iter();
            graph = graph
                .input(&name("x"), &[2, depth, rows / 2, columns / 2])
                .constant(&name("scales"), &[4], || factors.next().unwrap_or(1.0))
                .node("Abs", &name("x"), &name("a"), &[])
                .node(
                    "Resize",
                    &format!("{} - {}", name("a"), name("scales")),
                    &name("r"),
                    &[string("mode", "linear")],
                );
            parts.push(name("r"));
        }
        graph = graph
            .node("Concat", &parts.join(" "), &format!("all{i}"), &[int("axis", 1)])
            .node("MaxPool", &format!("all{i}"), &format!("y{i}"), &[ints("kernel_shape", &[2, 2])])
            .output(&format!("y{i}"));
    }
    graph.file()
}

/// What networks compute in and are given.
const TYPES: [(DType, Ports); 3] = [
    (DType::F32, Ports::Declared),
    (DType::F16, Ports::Half),
    (DType::F16, Ports::Declared),
];

#[test]
fn resizes_have_the_processors_bits() {
    check_bits(
        "gpu_resizes_have_the_processors_bits",
        &model(),
        &TYPES,
        &format!("{} resizes", RESIZES.len()),
    );
}

#[test]
fn resizes_into_some_channels_have_the_processors_bits() {
    check_bits(
        "gpu_resizes_into_some_channels_have_the_processors_bits",
        &joined(),
        &TYPES,
        &format!("{} pictures of resizes", JOINED.len()),
    );
}
