//! Convolutions of each channel on its own, in f16: the bits of the processor under every strip, whatever the tail.

use crate::data::{self, Chance};
use crate::gpu::Beside;
use crate::network;
use crate::onnx::{Graph, int, ints};
use crate::processor::check_bits;
use platoon::plan::check;
use platoon::plan::format::{Kernel, Operator, Plan, Tactic};
use platoon::plan::tactic::{Target, menu};
use platoon::planner::{CompileOptions, Ports, Searcher};
use platoon::tensor::DType;

/// Extents behind a pointwise convolution, taps of a side, step, distance of taps, padding.
type Layer = ([i64; 4], [i64; 4]);

/// Windows that strips have kernels for, and others; channels in eights and in pairs alone; maps that no strip divides.
const LAYERS: [Layer; 9] = [
    ([2, 48, 23, 29], [3, 1, 1, 1]),
    ([1, 20, 31, 18], [3, 2, 1, 1]),
    ([3, 32, 14, 14], [5, 1, 1, 2]),
    ([1, 24, 28, 27], [5, 2, 1, 2]),
    ([2, 40, 14, 14], [7, 1, 1, 3]),
    ([1, 18, 37, 21], [7, 1, 1, 3]),
    ([1, 16, 30, 30], [3, 1, 4, 4]),
    ([1, 16, 33, 30], [7, 1, 2, 6]),
    ([1, 16, 25, 25], [7, 2, 1, 3]),
];

/// Windows that are not square, or larger than any strip: of channels in eights, in pairs and single ones.
const OTHERS: [([i64; 4], [i64; 2], [i64; 2]); 7] = [
    ([2, 48, 14, 15], [1, 11], [0, 5]),
    ([1, 24, 29, 14], [11, 1], [5, 0]),
    ([1, 90, 14, 14], [9, 9], [4, 4]),
    ([2, 30, 7, 9], [11, 11], [5, 5]),
    ([1, 16, 20, 21], [3, 5], [1, 0]),
    ([1, 21, 9, 8], [7, 2], [3, 1]),
    ([1, 8, 30, 31], [13, 13], [6, 6]),
];

/// Extents, taps along either axis, step, padding along either axis.
type Few = ([i64; 4], [i64; 2], i64, [i64; 2]);

/// Few pixels. Channels in whole lots,
/// in eights and in pairs, maps that no tile divides or that are narrower than a run, windows that reach far outside or stay inside.
const FEW: [Few; 21] = [
    ([1, 128, 14, 14], [7, 7], 1, [3, 3]),
    ([2, 72, 7, 9], [7, 7], 1, [3, 3]),
    ([1, 40, 29, 31], [7, 7], 1, [3, 3]),
    ([3, 16, 19, 67], [7, 7], 1, [3, 3]),
    ([1, 24, 12, 11], [7, 7], 1, [0, 5]),
    ([1, 18, 9, 10], [7, 7], 1, [3, 3]),
    ([1, 304, 8, 8], [9, 9], 1, [4, 4]),
    ([2, 24, 21, 35], [9, 9], 1, [4, 4]),
    ([1, 16, 2, 3], [9, 9], 1, [4, 4]),
    ([1, 96, 14, 14], [5, 5], 1, [2, 2]),
    ([2, 40, 9, 70], [5, 5], 1, [2, 2]),
    ([1, 10, 13, 7], [5, 5], 1, [2, 2]),
    ([2, 56, 15, 14], [5, 5], 2, [2, 2]),
    ([1, 6, 14, 15], [5, 5], 2, [1, 2]),
    ([1, 48, 14, 13], [3, 3], 1, [1, 1]),
    ([2, 22, 7, 7], [3, 3], 1, [1, 1]),
    ([1, 54, 15, 16], [3, 3], 2, [1, 1]),
    ([1, 960, 3, 3], [1, 5], 1, [0, 2]),
    ([2, 72, 14, 9], [5, 1], 1, [2, 0]),
    ([1, 10, 5, 30], [1, 5], 1, [0, 2]),
    ([1, 30, 31, 5], [5, 1], 1, [2, 0]),
];

/// What follows a layer.
const TAILS: [&str; 8] = ["", "Relu", "HardSwish", "LeakyRelu", "Gelu", "Silu", "Clip", "Sigmoid"];

/// The layers side by side; layer `i` has tail `i + first`.
fn model(first: usize) -> Vec<u8> {
    let mut random = Chance::new(11);
    let mut graph = Graph::default();
    for (i, ([samples, channels, rows, columns], [taps, step, apart, pad])) in LAYERS.into_iter().enumerate() {
        let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
        graph = graph
            .input(&format!("x{i}"), &[samples, 8, rows, columns])
            .constant(&format!("v{i}"), &[channels, 8, 1, 1], || random.signed())
            .constant(&format!("w{i}"), &[channels, 1, taps, taps], || 2.0 * random.signed() / taps as f32)
            .constant(&format!("b{i}"), &[channels], || random.signed())
            .constant(&format!("l{i}"), &[], || -0.5)
            .constant(&format!("h{i}"), &[], || 0.75)
            .node("Conv", &names(&["x", "v"]), &names(&["p"]), &[])
            .node(
                "Conv",
                &names(&["p", "w", "b"]),
                &names(&["c"]),
                &[
                    ints("strides", &[step; 2]),
                    ints("dilations", &[apart; 2]),
                    ints("pads", &[pad; 4]),
                    int("group", channels),
                ],
            )
            .output(&format!("y{i}"));
        graph = followed(graph, i, TAILS[(i + first) % TAILS.len()]);
    }
    graph.file()
}

/// Layer `i` of a graph with its tail.
fn followed(graph: Graph, i: usize, tail: &str) -> Graph {
    let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
    match tail {
        "" => graph.node("Identity", &names(&["c"]), &names(&["y"]), &[]),
        "Silu" => graph
            .node("Sigmoid", &names(&["c"]), &names(&["s"]), &[])
            .node("Mul", &names(&["c", "s"]), &names(&["y"]), &[]),
        "Clip" => graph.node("Clip", &names(&["c", "l", "h"]), &names(&["y"]), &[]),
        tail => graph.node(tail, &names(&["c"]), &names(&["y"]), &[]),
    }
}

/// Layer `i` of a graph, whose result is called `to`: an input of such extents, each channel of which is convolved on its own.
fn convolved(graph: Graph, i: usize, (dims, window, step, [rows, columns]): Few, to: &str, random: &mut Chance) -> Graph {
    let taps = (window[0] * window[1]) as f32;
    graph
        .input(&format!("x{i}"), &dims)
        .constant(&format!("w{i}"), &[dims[1], 1, window[0], window[1]], || {
            2.0 * random.signed() / taps.sqrt()
        })
        .constant(&format!("b{i}"), &[dims[1]], || random.signed())
        .node(
            "Conv",
            &format!("x{i} w{i} b{i}"),
            &format!("{to}{i}"),
            &[
                ints("strides", &[step; 2]),
                ints("pads", &[rows, columns, rows, columns]),
                int("group", dims[1]),
            ],
        )
}

/// The layers of few pixels side by side; layer `i` has tail `i + first`.
fn few(first: usize) -> Vec<u8> {
    let mut random = Chance::new(17);
    let mut graph = Graph::default();
    for (i, layer) in FEW.into_iter().enumerate() {
        graph = graph
            .constant(&format!("l{i}"), &[], || -0.5)
            .constant(&format!("h{i}"), &[], || 0.75)
            .output(&format!("y{i}"));
        graph = convolved(graph, i, layer, "c", &mut random);
        graph = followed(graph, i, TAILS[(i + first) % TAILS.len()]);
    }
    graph.file()
}

/// The ways to convolve an operator's channels each on their own.
fn ways(plan: &Plan, operator: &Operator, target: Target) -> Vec<Tactic> {
    let all = menu(plan, operator, target).into_iter();
    all.filter(|t| t.kernel == Kernel::ConvDepthwise).collect()
}

#[test]
fn channels_convolved_on_their_own_have_the_processors_bits_under_every_strip() {
    let test = "gpu_channels_convolved_on_their_own_have_the_processors_bits_under_every_strip";
    let mut ran = 0;
    for first in 0..TAILS.len() {
        let Some(beside) = Beside::of(test, &model(first)) else { return };
        let Beside { machine, reference, .. } = &beside;
        let compiled = beside.compile(&CompileOptions {
            dtype: DType::F16,
            searcher: Searcher::Sequential,
            ..CompileOptions::default()
        });
        let mut random = Chance::new(13);
        let inputs = network::inputs_of(&compiled, || 2.0 * random.signed());
        let expected = reference.run(compiled.clone(), &inputs).unwrap();
        let target = Target::of(&machine.board);
        let offered: Vec<Vec<Tactic>> = compiled.plan.operators.iter().map(|o| ways(&compiled.plan, o, target)).collect();
        let most = offered.iter().map(Vec::len).max().unwrap_or(0);
        assert_eq!(offered.iter().filter(|ways| !ways.is_empty()).count(), LAYERS.len());
        let mut bits = None;
        for round in 0..most {
            let mut plan = compiled.plan.clone();
            for (operator, ways) in plan.operators.iter_mut().zip(&offered) {
                if let Some(&tactic) = ways.get(round).or(ways.last()) {
                    operator.tactic = tactic;
                }
            }
            ran += offered.iter().filter(|ways| ways.len() > round).count();
            let mut changed = compiled.clone();
            changed.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
            let found = machine.run(changed, &inputs).unwrap_or_else(|e| panic!("round {round}: {e}"));
            // The pointwise layer in front adds in another order than the processor: its neighbours may differ by one rounding.
            for (name, expected) in &expected {
                assert_eq!(
                    network::difference(&found[name], expected, 0.0, 1.0 / 256.0),
                    None,
                    "round {round}, `{name}`"
                );
            }
            let bits = bits.get_or_insert_with(|| found.clone());
            assert_eq!(network::bits_differ(&found, bits), None, "round {round}");
        }
    }
    assert!(ran >= 6 * 5 * TAILS.len(), "only {ran} strips ran");
    data::ran(test, &format!("{ran} strips"));
}

#[test]
fn few_pixels_asked_for_at_once_have_the_processors_bits_in_every_share() {
    let test = "gpu_few_pixels_asked_for_at_once_have_the_processors_bits_in_every_share";
    let mut ran = 0;
    // Plans of whole operators for every tail, and of shares for some.
    let mut cases: Vec<(usize, Searcher, u64)> = (0..TAILS.len()).map(|first| (first, Searcher::Sequential, 0)).collect();
    cases.extend([(0, Searcher::Random, 3), (3, Searcher::Random, 4), (5, Searcher::Random, 5)]);
    for (first, searcher, seed) in cases {
        let Some(beside) = Beside::of(test, &few(first)) else { return };
        let Beside { machine, reference, .. } = &beside;
        let compiled = beside.compile(&CompileOptions {
            dtype: DType::F16,
            ports: Ports::Half,
            searcher,
            seed,
            ..CompileOptions::default()
        });
        let mut random = Chance::new(19);
        let inputs = network::inputs_of(&compiled, || 2.0 * random.signed());
        let expected = reference.run(compiled.clone(), &inputs).unwrap();
        let target = Target::of(&machine.board);
        let offered: Vec<Vec<Tactic>> = compiled.plan.operators.iter().map(|o| ways(&compiled.plan, o, target)).collect();
        let most = offered.iter().map(Vec::len).max().unwrap_or(0);
        assert_eq!(offered.iter().filter(|ways| ways.len() > 1).count(), FEW.len());
        for round in 0..most {
            for width in [0, 5] {
                let mut plan = compiled.plan.clone();
                for (operator, ways) in plan.operators.iter_mut().zip(&offered) {
                    if let Some(&tactic) = ways.get(round).or(ways.last()) {
                        operator.tactic = tactic;
                        operator.width = width;
                    }
                }
                ran += offered.iter().filter(|ways| ways.len() > round).count();
                let mut changed = compiled.clone();
                changed.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
                let how = format!("tails from {first}, {searcher:?} {seed}, round {round}, width {width}");
                let found = machine.run(changed, &inputs).unwrap_or_else(|e| panic!("{how}: {e}"));
                assert_eq!(network::bits_differ(&found, &expected), None, "{how}");
            }
        }
    }
    data::ran(test, &format!("{ran} strips"));
}

#[test]
fn windows_without_strips_have_the_processors_bits() {
    let mut random = Chance::new(12);
    let mut graph = Graph::default();
    for (i, (dims, window, pads)) in OTHERS.into_iter().enumerate() {
        graph = convolved(graph, i, (dims, window, 1, pads), "y", &mut random).output(&format!("y{i}"));
    }
    check_bits(
        "gpu_windows_without_strips_have_the_processors_bits",
        &graph.file(),
        &[(DType::F32, Ports::Declared), (DType::F16, Ports::Half)],
        &format!("{} windows", OTHERS.len()),
    );
}
