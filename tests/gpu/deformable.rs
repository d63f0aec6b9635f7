//! Deformable attention: the bits of the processor, of levels put together in every way, of channels side by side and in planes.

use crate::onnx::{Graph, int, ints, string};
use crate::processor::check_bits;
use platoon::planner::Ports;
use platoon::tensor::DType;

/// A layer of deformable attention.
struct Layer {
    heads: i64,
    /// Of a head.
    channels: i64,
    queries: i64,
    /// Of a level.
    points: i64,
    /// Their rows and columns.
    levels: &'static [[i64; 2]],
    /// Channels lie side by side.
    side_by_side: bool,
}

const fn layer([heads, channels, queries, points]: [i64; 4], levels: &'static [[i64; 2]], side_by_side: bool) -> Layer {
    Layer {
        heads,
        channels,
        queries,
        points,
        levels,
        side_by_side,
    }
}

const LAYERS: [Layer; 7] = [
    layer([8, 32, 300, 4], &[[20, 20], [10, 10], [5, 5]], true),
    layer([8, 32, 77, 4], &[[20, 13], [10, 7]], false),
    layer([6, 64, 50, 8], &[[9, 30]], true),
    layer([2, 40, 33, 1], &[[12, 5], [1, 1], [3, 2]], true),
    layer([3, 20, 41, 3], &[[8, 9], [4, 4]], true),
    layer([1, 1, 130, 6], &[[16, 16]], false),
    layer([4, 8, 1, 9], &[[31, 7]], true),
];

/// A layer for each entry, whose levels are side by side or on an axis of their own.
fn model(stacked: bool, outside: &str, align_corners: i64) -> Vec<u8> {
    let mut graph = Graph::default();
    for (layer, of) in LAYERS.iter().enumerate() {
        let &Layer {
            heads,
            channels,
            queries,
            points,
            levels,
            side_by_side,
        } = of;
        let named = |name: &str| format!("{name}{layer}");
        let mut parts = Vec::new();
        for (level, &[high, wide]) in levels.iter().enumerate() {
            let names = ["x", "grid", "wider", "more", "sampled", "picture", "part"];
            let [x, grid, wider, more, sampled, picture, part] = names.map(|name| format!("{name}{layer}_{level}"));
            graph = match side_by_side {
                true => graph
                    .input(&x, &[heads, high, wide, channels])
                    .node("Transpose", &x, &picture, &[ints("perm", &[0, 3, 1, 2])]),
                false => graph.input(&x, &[heads, channels, high, wide]).node("Abs", &x, &picture, &[]),
            };
            let attributes = [string("padding_mode", outside), int("align_corners", align_corners)];
            graph = graph
                .input(&grid, &[heads, queries, points, 2])
                .constant(&more, &[], || 1.5)
                .node("Mul", &format!("{grid} {more}"), &wider, &[])
                .node("GridSample", &format!("{picture} {wider}"), &sampled, &attributes);
            if stacked {
                let axis = format!("axis{layer}_{level}");
                graph = graph
                    .integers(&axis, &[3])
                    .node("Unsqueeze", &format!("{sampled} {axis}"), &part, &[]);
            }
            parts.push(if stacked { part } else { sampled });
        }
        let all = points * levels.len() as i64;
        let (joined, samples) = (named("joined"), named("samples"));
        graph = graph.node("Concat", &parts.join(" "), &joined, &[int("axis", 3)]);
        graph = match stacked {
            true => graph.integers(&named("shape"), &[heads, channels, queries, all]).node(
                "Reshape",
                &format!("{joined} {}", named("shape")),
                &samples,
                &[],
            ),
            false => graph.node("Identity", &joined, &samples, &[]),
        };
        let (factors, weighed, y) = (named("factors"), named("weighed"), named("y"));
        graph = graph
            .input(&factors, &[heads, 1, queries, all])
            .node("Mul", &format!("{samples} {factors}"), &weighed, &[])
            .integers(&named("last"), &[-1])
            .node("ReduceSum", &format!("{weighed} {}", named("last")), &y, &[int("keepdims", 0)])
            .output(&y);
    }
    graph.file_of(16)
}

#[test]
fn deformable_attention_has_the_processors_bits() {
    let forms = [
        (DType::F32, Ports::Declared),
        (DType::F16, Ports::Half),
        (DType::F16, Ports::Declared),
    ];
    for (stacked, outside, align_corners) in [(false, "zeros", 0), (true, "border", 1), (true, "reflection", 0)] {
        check_bits(
            "gpu_deformable_attention_has_the_processors_bits",
            &model(stacked, outside, align_corners),
            &forms,
            &format!("{} layers, {outside} outside", LAYERS.len()),
        );
    }
}
