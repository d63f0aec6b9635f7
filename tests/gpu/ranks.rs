//! The largest of rows: the bits of the processor, for rows that a warp has in its registers, that a block has, and longer ones; of
//! many equal values, and of more kept than are found at once.

use crate::onnx::{Graph, int};
use crate::processor::check_bits;
use platoon::planner::Ports;
use platoon::tensor::DType;

/// Rows, their elements, how many of these are kept, and how many parts a unit has in which values differ; none for all that there are.
const ROWS: [([i64; 2], i64, Option<f32>); 10] = [
    ([1200, 33], 4, None),
    ([3, 128], 32, Some(2.0)),
    ([5, 20], 20, Some(1.0)),
    ([2, 129], 8, None),
    ([2, 100], 40, Some(3.0)),
    ([1, 1000], 300, None),
    ([2, 8400], 300, None),
    // Ties where the last is taken, within a digit that many share.
    ([1, 8400], 300, Some(2.0)),
    ([1, 12500], 1100, Some(64.0)),
    ([1, 20000], 5000, Some(1000.0)),
];

fn model() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, &([rows, columns], kept, parts)) in ROWS.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        graph = graph.input(&name("x"), &[rows, columns]).integers(&name("k"), &[kept]);
        let from = match parts {
            Some(parts) => {
                graph = graph
                    .constant(&name("parts"), &[], || parts)
                    .node("Mul", &format!("{} {}", name("x"), name("parts")), &name("m"), &[])
                    .node("Round", &name("m"), &name("r"), &[]);
                name("r")
            }
            None => name("x"),
        };
        let to = format!("{} {}", name("v"), name("i"));
        graph = graph
            .node("TopK", &format!("{from} {}", name("k")), &to, &[int("axis", 1)])
            .output(&name("v"));
        // Results are floats: numbers up to 2048 are halves, too.
        graph = graph.node("Cast", &name("i"), &name("f"), &[int("to", 1)]).output(&name("f"));
    }
    graph.file()
}

#[test]
fn the_largest_of_rows_are_the_processors() {
    check_bits(
        "gpu_the_largest_of_rows_are_the_processors",
        &model(),
        &[(DType::F32, Ports::Declared), (DType::F16, Ports::Half)],
        &format!("{} rankings", ROWS.len()),
    );
}
