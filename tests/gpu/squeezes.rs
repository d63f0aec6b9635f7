//! Squeeze and excitation: channels in ranges of every length, few pixels and many, whose samples a block takes one by one or several at
//! once with the same bits.

use crate::data::Chance;
use crate::onnx::{Graph, float};
use crate::tiles::{Runs, check_tiles};
use platoon::plan::format::Kernel;

/// Pictures, and outputs of the first layer.
const LAYERS: [([i64; 4], i64); 6] = [
    ([5, 64, 14, 14], 16),
    ([4, 400, 7, 9], 100),
    ([6, 1000, 7, 7], 250),
    ([5, 1100, 8, 9], 70),
    ([4, 2048, 7, 7], 512),
    ([4, 1536, 40, 36], 64),
];

fn model() -> Vec<u8> {
    let mut random = Chance::new(6);
    let mut graph = Graph::default();
    for (i, &(x, hidden)) in LAYERS.iter().enumerate() {
        let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
        let channels = x[1];
        // Means of many pixels are small: so that gates differ, weights are not.
        let scale = |inputs: i64| 8.0 / (inputs as f32).sqrt();
        graph = graph
            .input(&format!("x{i}"), &x)
            .constant(&format!("v{i}"), &[hidden, channels, 1, 1], || scale(channels) * random.signed())
            .constant(&format!("w{i}"), &[channels, hidden, 1, 1], || {
                scale(hidden) / 8.0 * random.signed()
            })
            .constant(&format!("b{i}"), &[hidden], || random.signed())
            .node("Relu", &names(&["x"]), &names(&["r"]), &[])
            .node("GlobalAveragePool", &names(&["r"]), &names(&["m"]), &[])
            .node("Conv", &names(&["m", "v", "b"]), &names(&["c"]), &[])
            .node("Relu", &names(&["c"]), &names(&["h"]), &[])
            .node("Conv", &names(&["h", "w"]), &names(&["d"]), &[])
            .node("HardSigmoid", &names(&["d"]), &names(&["g"]), &[float("alpha", 1.0 / 6.0)])
            .node("Mul", &names(&["r", "g"]), &names(&["y"]), &[])
            .output(&format!("y{i}"));
    }
    graph.file()
}

#[test]
fn one_sample_a_block_and_several_give_the_same_bits() {
    let runs = Runs {
        kernels: &[Kernel::Squeeze],
        widths: &[0, 9],
        least: 1,
    };
    check_tiles(
        "gpu_one_sample_a_block_and_several_give_the_same_bits",
        &model(),
        LAYERS.len(),
        &runs,
    );
}
