//! Chains of elementwise functions: the bits of the processor, of short kernels and of those that know every function, whatever the
//! extents, and wherever neighbours lie.

use crate::onnx::{Attribute, Graph, float, int, ints};
use crate::processor::check_bits;
use platoon::planner::Ports;
use platoon::tensor::DType;

/// What a chain holds besides sums, differences, products and bounds.
#[derive(Clone, Copy, PartialEq)]
enum Also {
    Nothing,
    Sigmoid,
}

/// Extents; the first channel of what the chain begins with, in a tensor of so many more; and what else there is.
const CHAINS: [([i64; 4], i64, Also); 8] = [
    ([2, 24, 6, 8], 0, Also::Nothing),
    ([2, 24, 6, 8], 0, Also::Sigmoid),
    // No whole runs, and runs between 16 bytes.
    ([1, 21, 5, 7], 0, Also::Nothing),
    ([1, 21, 5, 7], 3, Also::Sigmoid),
    ([3, 8, 4, 4], 5, Also::Nothing),
    // Several runs a thread.
    ([2, 40, 60, 64], 0, Also::Nothing),
    ([2, 40, 60, 64], 1, Also::Nothing),
    ([2, 40, 60, 65], 0, Also::Nothing),
];

fn model() -> Vec<u8> {
    let mut graph = Graph::default().constant("low", &[], || -0.5).constant("high", &[], || 0.75);
    for (i, &(dims, first, also)) in CHAINS.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let [batch, channels, rows, columns] = dims;
        let node = |graph: Graph, kind: &str, from: [&str; 2], to: &str| {
            let inputs = from.map(|of| if of.is_empty() { String::new() } else { name(of) }).join(" ");
            graph.node(kind, inputs.trim_end(), &name(to), &[])
        };
        graph = graph
            .input(&name("all"), &[batch, channels + first, rows, columns])
            .input(&name("w"), &dims)
            .input(&name("gate"), &[batch, 1, rows, columns])
            .input(&name("scale"), &[1, channels, 1, 1])
            .integers(&name("from"), &[first])
            .integers(&name("to"), &[channels + first])
            .integers(&name("axes"), &[1])
            .node(
                "Slice",
                &format!("{} {} {} {}", name("all"), name("from"), name("to"), name("axes")),
                &name("x"),
                &[],
            );
        // Values that a later call reads, tensors on the left, one that repeats itself along channels, and one along pixels.
        graph = node(graph, "Mul", ["x", "gate"], "a");
        graph = node(graph, "Sub", ["w", "a"], "b");
        graph = node(graph, "Add", ["b", "scale"], "c");
        graph = node(graph, "Relu", ["c", ""], "d");
        graph = match also {
            Also::Nothing => graph,
            Also::Sigmoid => graph.node("Sigmoid", &name("d"), &name("s"), &[]),
        };
        graph = node(graph, "Mul", [if also == Also::Sigmoid { "s" } else { "d" }, "b"], "e");
        graph = graph.node("Clip", &format!("{} low high", name("e")), &name("f"), &[]);
        graph = node(graph, "Sub", ["f", "x"], "y").output(&name("y"));
    }
    graph.file()
}

#[test]
fn chains_have_the_processors_bits() {
    check_bits(
        "gpu_chains_have_the_processors_bits",
        &model(),
        &[
            (DType::F32, Ports::Declared),
            (DType::F16, Ports::Half),
            (DType::F16, Ports::Declared),
        ],
        &format!("{} chains", CHAINS.len()),
    );
}

/// Features of pairs that lie half of them apart, or side by side, under heads; and tokens.
const TURNED: [(bool, i64, i64); 6] = [
    (false, 2, 9),
    (true, 2, 9),
    (false, 6, 397),
    (true, 3, 257),
    (false, 12, 1201),
    (true, 12, 1201),
];
/// Features of a head, half of which are pairs' first.
const FEATURES: i64 = 64;

/// Queries, cut from a joined product, whose pairs of features are turned by the angles of their positions, as exporters write it.
fn turned() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, &(side_by_side, heads, tokens)) in TURNED.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let node = |graph: Graph, kind: &str, from: &str, to: &str, attributes: &[Attribute]| {
            let inputs: Vec<String> = from.split(' ').map(name).collect();
            graph.node(kind, &inputs.join(" "), &name(to), attributes)
        };
        let mut step = 0.0;
        let mut wave = move || {
            step += 0.37f32;
            step.sin()
        };
        graph = graph
            .input(&name("all"), &[1, tokens, 3 * heads * FEATURES])
            .constant(&name("cos"), &[tokens, FEATURES], &mut wave)
            .constant(&name("sin"), &[tokens, FEATURES], &mut wave)
            .integers(&name("shape"), &[1, tokens, 3 * heads, FEATURES])
            .integers(&name("whole"), &[1, heads, tokens, FEATURES])
            .integers(&name("zero"), &[0])
            .integers(&name("one"), &[1])
            .integers(&name("two"), &[2])
            .integers(&name("half"), &[FEATURES / 2])
            .integers(&name("heads"), &[heads])
            .integers(&name("end"), &[FEATURES])
            .integers(&name("last"), &[3]);
        graph = node(graph, "Reshape", "all shape", "rows", &[]);
        graph = node(graph, "Slice", "rows zero heads two", "few", &[]);
        graph = node(graph, "Transpose", "few", "x", &[ints("perm", &[0, 2, 1, 3])]);
        let parts = if side_by_side {
            ["x zero end last two", "x one end last two"]
        } else {
            ["x zero half last", "x half end last"]
        };
        graph = node(graph, "Slice", parts[0], "a", &[]);
        graph = node(graph, "Slice", parts[1], "b", &[]);
        graph = node(graph, "Neg", "b", "n", &[]);
        graph = if side_by_side {
            graph = graph.integers(&name("behind"), &[4]);
            graph = node(graph, "Unsqueeze", "n behind", "first", &[]);
            graph = node(graph, "Unsqueeze", "a behind", "second", &[]);
            graph = node(graph, "Concat", "first second", "pairs", &[int("axis", 4)]);
            node(graph, "Reshape", "pairs whole", "partner", &[])
        } else {
            node(graph, "Concat", "n a", "partner", &[int("axis", 3)])
        };
        graph = node(graph, "Mul", "x cos", "kept", &[]);
        graph = node(graph, "Mul", "partner sin", "moved", &[]);
        graph = node(graph, "Add", "kept moved", "y", &[]).output(&name("y"));
    }
    graph.file()
}

#[test]
fn pairs_turned_by_angles_have_the_processors_bits() {
    check_bits(
        "gpu_pairs_turned_by_angles_have_the_processors_bits",
        &turned(),
        &[(DType::F32, Ports::Declared), (DType::F16, Ports::Half)],
        &format!("{} launches of pairs", TURNED.len()),
    );
}

/// Extents of coordinates, and of the sizes and centres that they are made with: a box's for its points, and a camera's.
const COORDINATES: [([i64; 6], [i64; 6]); 8] = [
    ([1, 300, 8, 3, 4, 2], [1, 300, 1, 1, 1, 2]),
    ([1, 300, 8, 3, 4, 2], [1, 1, 1, 3, 1, 2]),
    ([1, 60, 5, 3, 2, 4], [1, 60, 1, 1, 1, 4]),
    ([1, 100, 8, 4, 2, 2], [6, 100, 1, 4, 1, 2]),
    ([1, 9, 8, 6, 2, 2], [3, 9, 8, 1, 2, 1]),
    // No whole eights: pairs, fours, and three coordinates.
    ([1, 37, 5, 3, 3, 2], [1, 37, 1, 1, 1, 2]),
    ([1, 37, 1, 3, 3, 4], [3, 1, 1, 3, 1, 4]),
    ([1, 40, 8, 3, 4, 3], [1, 40, 1, 1, 1, 3]),
];

/// Points around boxes, as exporters write them: offsets, scaled by sizes, beside centres; and quotients.
fn coordinates() -> Vec<u8> {
    let mut graph = Graph::default().constant("half", &[], || 0.5).constant("most", &[], || 3.0);
    for (i, (dims, other)) in COORDINATES.iter().enumerate() {
        let node = |graph: Graph, kind: &str, from: &str, to: &str| {
            let own = |of: &str| {
                if of == "half" || of == "most" {
                    of.to_owned()
                } else {
                    format!("{of}{i}")
                }
            };
            let inputs: Vec<String> = from.split(' ').map(own).collect();
            graph.node(kind, &inputs.join(" "), &own(to), &[])
        };
        graph = graph
            .input(&format!("x{i}"), dims)
            .input(&format!("size{i}"), other)
            .input(&format!("centre{i}"), other);
        graph = node(graph, "Mul", "x size", "a");
        graph = node(graph, "Mul", "a half", "b");
        graph = node(graph, "Add", "b centre", "y").output(&format!("y{i}"));
        graph = node(graph, "Sub", "centre x", "c");
        graph = node(graph, "Div", "c most", "d");
        graph = node(graph, "Sigmoid", "d", "e");
        graph = node(graph, "Mul", "e size", "z").output(&format!("z{i}"));
    }
    graph.file()
}

#[test]
fn coordinates_have_the_processors_bits() {
    check_bits(
        "gpu_coordinates_have_the_processors_bits",
        &coordinates(),
        &[
            (DType::F32, Ports::Declared),
            (DType::F16, Ports::Half),
            (DType::F16, Ports::Declared),
        ],
        &format!("{} chains of coordinates", COORDINATES.len()),
    );
}

/// Extents of pictures whose channels have scales, shifts and slopes: of as many runs as threads that take several pixels have, whose pixels
/// are whole blocks or leave threads over; and few of them.
const SCALED: [[i64; 4]; 7] = [
    [1, 64, 97, 98],
    [2, 24, 152, 154],
    [1, 8, 271, 262],
    [1, 200, 61, 52],
    [2, 48, 90, 83],
    [1, 1024, 33, 32],
    [1, 64, 12, 13],
];

/// Normalised pictures under slopes, and differences beside another picture, between maxima that keep them pixel by pixel.
fn scaled() -> Vec<u8> {
    let mut graph = Graph::default();
    let mut step = 0.0;
    let mut wave = move || {
        step += 0.61f32;
        step.sin()
    };
    for (i, dims) in SCALED.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let node = |graph: Graph, kind: &str, from: &str, to: &str, attributes: &[Attribute]| {
            let inputs: Vec<String> = from.split(' ').map(name).collect();
            graph.node(kind, &inputs.join(" "), &name(to), attributes)
        };
        let pool = [ints("kernel_shape", &[2, 2])];
        for constant in ["scale", "shift", "slope"] {
            graph = graph.constant(&name(constant), &[dims[1], 1, 1], &mut wave);
        }
        graph = graph.input(&name("x"), dims).input(&name("w"), dims);
        graph = node(graph, "MaxPool", "x", "p", &pool);
        graph = node(graph, "MaxPool", "w", "q", &pool);
        graph = node(graph, "Mul", "p scale", "a", &[]);
        graph = node(graph, "Add", "a shift", "b", &[]);
        graph = node(graph, "PRelu", "b slope", "c", &[]);
        graph = node(graph, "MaxPool", "c", "y", &pool).output(&name("y"));
        graph = node(graph, "Sub", "shift q", "d", &[]);
        graph = node(graph, "Mul", "d scale", "e", &[]);
        graph = node(graph, "LeakyRelu", "e", "f", &[float("alpha", 0.3)]);
        graph = node(graph, "Add", "f p", "g", &[]);
        graph = node(graph, "Relu", "g", "h", &[]);
        graph = node(graph, "MaxPool", "h", "z", &pool).output(&name("z"));
        // Both pictures are read once more.
        graph = node(graph, "MaxPool", "p", "u", &pool).output(&name("u"));
        graph = node(graph, "MaxPool", "q", "v", &pool).output(&name("v"));
    }
    graph.file()
}

#[test]
fn chains_by_channel_have_the_processors_bits() {
    check_bits(
        "gpu_chains_by_channel_have_the_processors_bits",
        &scaled(),
        &[
            (DType::F16, Ports::Half),
            (DType::F16, Ports::Declared),
            (DType::F32, Ports::Declared),
        ],
        &format!("{} chains", 2 * SCALED.len()),
    );
}
