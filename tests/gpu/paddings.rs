//! Paddings: the bits of the processor, whatever stands outside, whatever lies side by side, and wherever rows begin.

use crate::onnx::{Graph, int, ints, string};
use crate::processor::check_bits;
use platoon::planner::Ports;
use platoon::tensor::DType;

const MODES: [&str; 4] = ["constant", "reflect", "edge", "wrap"];
/// Those that take what is beside the input from it.
const INSIDE: [&str; 3] = ["reflect", "edge", "wrap"];

/// Extents of pictures, and rows and columns before and behind them.
const PICTURES: [([i64; 4], [i64; 4]); 12] = [
    ([1, 16, 24, 50], [1, 1, 1, 1]),
    ([2, 1, 20, 33], [1, 1, 1, 1]),
    ([1, 3, 20, 41], [3, 2, 1, 4]),
    ([1, 8, 17, 30], [0, 2, 0, 2]),
    ([2, 20, 9, 14], [2, 0, 1, 3]),
    ([1, 33, 8, 11], [1, 1, 1, 1]),
    ([1, 64, 12, 20], [1, 1, 1, 1]),
    ([1, 96, 10, 21], [4, 4, 4, 4]),
    ([1, 5, 30, 70], [-1, 2, 3, -4]),
    ([1, 24, 16, 16], [-2, -1, 0, 3]),
    ([1, 2, 9, 100], [0, 7, 0, 8]),
    ([1, 40, 31, 64], [5, 0, 6, 0]),
];

/// Other tensors, and what is beside them along every axis.
const OTHERS: [(&[i64], &[i64]); 7] = [
    (&[1, 24, 9, 10], &[0, 8, 0, 0, 0, 16, 0, 0]),
    (&[2, 20, 7, 9], &[1, 3, 1, 0, 1, 2, 0, 2]),
    (&[2, 50, 24], &[0, 1, 0, 0, 0, 0]),
    (&[3, 40, 33], &[0, 0, 5, 0, 0, 6]),
    (&[400], &[9, 11]),
    (&[1, 16, 3, 5, 9], &[0, 0, 1, 1, 1, 0, 0, 1, 2, 1]),
    (&[2, 2, 3, 3, 5, 40], &[0, 1, 0, 1, 1, 1, 0, 0, 1, 1, 0, 2]),
];

/// So many pixels that a thread has several.
const LARGE: ([i64; 4], [i64; 4]) = ([1, 96, 96, 320], [1, 1, 1, 1]);

fn pictured([top, left, bottom, right]: [i64; 4]) -> [i64; 8] {
    [0, 0, top, left, 0, 0, bottom, right]
}

/// Adds `to`, which is `from` padded.
fn padded(graph: Graph, [from, to]: [&str; 2], pads: &[i64], mode: &str) -> Graph {
    let value = if mode == "constant" { "value" } else { "" };
    let inputs = format!("{from} {to}_pads {value}");
    graph
        .integers(&format!("{to}_pads"), pads)
        .node("Pad", &inputs, to, &[string("mode", mode)])
}

/// Adds a padding of what the network is given.
fn plain(graph: Graph, name: &str, x: &[i64], pads: &[i64], mode: &str) -> Graph {
    let (from, to) = (format!("x{name}"), format!("y{name}"));
    padded(graph.input(&from, x), [&from, &to], pads, mode).output(&to)
}

/// Adds one of pixels, channels side by side, between maxima over windows.
fn pixels(graph: Graph, name: &str, x: &[i64], pads: &[i64], mode: &str) -> Graph {
    let [from, pooled, beside, to] = ["u", "v", "w", "z"].map(|part| format!("{part}{name}"));
    let window = [ints("kernel_shape", &[3, 3]), ints("pads", &[1; 4])];
    let graph = graph.input(&from, x).node("MaxPool", &from, &pooled, &window);
    padded(graph, [&pooled, &beside], pads, mode)
        .node("MaxPool", &beside, &to, &window)
        .output(&to)
}

fn model() -> (Vec<u8>, usize) {
    let mut graph = Graph::default().constant("value", &[], || 1.75);
    let mut count = 0;
    for mode in MODES {
        for (i, (x, pads)) in PICTURES.into_iter().enumerate() {
            let (name, pads) = (format!("_{mode}_{i}"), pictured(pads));
            graph = plain(graph, &name, &x, &pads, mode);
            graph = pixels(graph, &name, &x, &pads, mode);
            count += 2;
        }
        for (i, (x, pads)) in OTHERS.into_iter().enumerate() {
            graph = plain(graph, &format!("_{mode}_of_{i}"), x, pads, mode);
            count += 1;
        }
    }
    let (x, pads) = LARGE;
    graph = pixels(graph, "_large", &x, &pictured(pads), "reflect");
    (graph.file_of(19), count + 1)
}

#[test]
fn paddings_have_the_processors_bits() {
    let (file, count) = model();
    check_bits(
        "gpu_paddings_have_the_processors_bits",
        &file,
        &[(DType::F32, Ports::Declared), (DType::F16, Ports::Half)],
        &format!("{count} paddings"),
    );
}

/// Places of the largest of 9 channels, padded, choose numbers.
fn integers() -> Vec<u8> {
    let mut next = 0.0;
    let mut number = || {
        next += 0.25;
        next
    };
    let mut graph = Graph::default().constant("numbers", &[9], &mut number);
    for (i, (x, pads)) in PICTURES.into_iter().enumerate() {
        for mode in INSIDE {
            let name = |of: &str| format!("{of}_{mode}_{i}");
            graph = graph
                .input(&name("x"), &[x[0], 9, x[2], x[3]])
                .node("ArgMax", &name("x"), &name("i"), &[int("axis", 1)]);
            graph = padded(graph, [&name("i"), &name("p")], &pictured(pads), mode)
                .node("Gather", &format!("numbers {}", name("p")), &name("y"), &[])
                .output(&name("y"));
        }
    }
    graph.file_of(19)
}

#[test]
fn paddings_of_integers_have_the_processors_bits() {
    check_bits(
        "gpu_paddings_of_integers_have_the_processors_bits",
        &integers(),
        &[(DType::F32, Ports::Declared)],
        &format!("{} paddings", PICTURES.len() * INSIDE.len()),
    );
}
