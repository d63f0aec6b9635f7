//! Recurrent layers, of long short-term memory and of gated units: by blocks that keep a layer's weights, by clusters that share its
//! units and by blocks that read its weights anew, from zeros and from given states, forwards and backwards. All give the same bits.

use crate::data::Chance;
use crate::onnx::{Graph, int, string};
use crate::tiles::{Runs, check_tiles};
use platoon::plan::format::Kernel;

/// Operator, steps, rows, inputs and hidden units, direction, and whether states are given.
type Layer = (&'static str, [i64; 4], &'static str, bool);

const LAYERS: [Layer; 13] = [
    ("LSTM", [7, 5, 24, 65], "forward", true),
    ("LSTM", [20, 33, 64, 256], "reverse", false),
    ("LSTM", [3, 2, 16, 300], "forward", false),
    ("GRU", [7, 5, 24, 65], "forward", true),
    ("GRU", [20, 33, 64, 256], "reverse", false),
    ("GRU", [3, 2, 16, 300], "forward", true),
    ("GRU", [300, 1, 8, 32], "forward", false),
    ("GRU", [12, 40, 40, 7], "reverse", true),
    ("LSTM", [9, 18, 24, 128], "reverse", true),
    ("LSTM", [16, 16, 96, 48], "forward", false),
    ("LSTM", [1, 3, 8, 129], "reverse", true),
    ("GRU", [2, 17, 8, 96], "forward", true),
    ("LSTM", [11, 70, 24, 200], "forward", true),
];

fn model() -> Vec<u8> {
    let mut graph = Graph::default();
    let mut random = Chance::new(8);
    for (i, &(op, [steps, rows, inputs, hidden], direction, given)) in LAYERS.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let gates = if op == "GRU" { 3 } else { 4 };
        let mut attributes = vec![int("hidden_size", hidden), string("direction", direction)];
        if op == "GRU" {
            attributes.push(int("linear_before_reset", 1));
        }
        let (wide, deep) = (1.0 / (inputs as f32).sqrt(), 1.0 / (hidden as f32).sqrt());
        graph = graph
            .input(&name("x"), &[steps, rows, inputs])
            .constant(&name("W"), &[1, gates * hidden, inputs], || wide * random.signed());
        graph = graph.constant(&name("R"), &[1, gates * hidden, hidden], || deep * random.signed());
        graph = graph.constant(&name("B"), &[1, 2 * gates * hidden], || 0.3 * random.signed());
        let mut operands = format!("{} {} {} {}", name("x"), name("W"), name("R"), name("B"));
        if given {
            for state in if op == "GRU" { &["h"][..] } else { &["h", "c"] } {
                graph = graph.input(&name(state), &[1, rows, hidden]);
                operands += if *state == "h" { " - " } else { " " };
                operands += &name(state);
            }
        }
        graph = graph.node(op, &operands, &name("y"), &attributes).output(&name("y"));
    }
    graph.file()
}

#[test]
fn clusters_and_blocks_alone_give_the_same_bits() {
    let runs = Runs {
        kernels: &[Kernel::Recurrent],
        // Room for all clusters, for one of eight, of four and of three, and for a block alone.
        widths: &[0, 8, 4, 3, 1],
        least: 1,
    };
    check_tiles("gpu_clusters_and_blocks_alone_give_the_same_bits", &model(), LAYERS.len(), &runs);
}
