//! Chains of elementwise functions: the bits of the processor, of short kernels and of those that know every function, whatever the
//! extents, and wherever neighbours lie.

use crate::onnx::Graph;
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
