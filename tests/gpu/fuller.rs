//! Convolutions and products of few channels that are planned as others: the bits of the processor where sums are exact.

use crate::data::{self, Chance};
use crate::gpu::Beside;
use crate::network;
use crate::onnx::{Graph, ints};
use platoon::planner::{CompileOptions, Ports, Searcher};
use platoon::primitive::Primitive;
use platoon::tensor::DType;

/// What is convolved, by which weights, strides and padding on both sides.
type Layer = (&'static [i64], &'static [i64], &'static [i64], &'static [i64]);

const LAYERS: [Layer; 6] = [
    // Patches that begin in the padding.
    (&[2, 3, 36, 52], &[16, 3, 8, 8], &[8, 8], &[2, 1, 2, 3]),
    // Volumes of one channel: slices as channels, blocks of very many, and columns as samples.
    (&[2, 1, 24, 10, 14], &[8, 1, 3, 3, 3], &[1, 1, 1], &[1, 1, 1, 1, 1, 1]),
    (&[1, 1, 384, 5, 6], &[8, 1, 3, 3, 3], &[1, 1, 1], &[1, 1, 1, 1, 1, 1]),
    (&[1, 1, 9, 8, 16], &[16, 1, 9, 9, 1], &[1, 1, 1], &[4, 4, 0, 4, 4, 0]),
    // To one channel by wide windows.
    (&[1, 128, 12, 20], &[1, 128, 7, 7], &[1, 1], &[3, 3, 3, 3]),
    (&[2, 128, 33, 41], &[3, 128, 5, 5], &[2, 2], &[2, 2, 2, 2]),
];
const TRANSPOSED: [Layer; 3] = [
    (&[1, 16, 160, 272], &[16, 16, 4, 4], &[2, 2], &[1, 1, 1, 1]),
    (&[1, 8, 160, 272], &[8, 2, 2, 2], &[2, 2], &[0, 0, 0, 0]),
    (&[1, 8, 160, 272], &[8, 1, 4, 4], &[2, 2], &[1, 1, 1, 1]),
];
/// Many rows of products of few numbers.
const ROWS: [[i64; 3]; 2] = [[1024, 32, 9], [2048, 20, 5]];

/// A small whole number, so that sums of products are exact in halves.
fn whole(random: &mut Chance, most: f32) -> f32 {
    (random.signed() * (most + 0.49)).round()
}

fn model() -> Vec<u8> {
    let mut random = Chance::new(23);
    let mut graph = Graph::default();
    let all = LAYERS.iter().map(|l| ("Conv", l, l.1[0]));
    let all = all.chain(TRANSPOSED.iter().map(|l| ("ConvTranspose", l, l.1[1])));
    for (i, (op, &(x, weights, strides, pads), outputs)) in all.enumerate() {
        let attributes = [ints("strides", strides), ints("pads", pads)];
        graph = graph
            .input(&format!("x{i}"), x)
            .constant(&format!("w{i}"), weights, || whole(&mut random, 1.0))
            .constant(&format!("b{i}"), &[outputs], || whole(&mut random, 9.0))
            .node(op, &format!("x{i} w{i} b{i}"), &format!("c{i}"), &attributes)
            .node("Relu", &format!("c{i}"), &format!("y{i}"), &[])
            .output(&format!("y{i}"));
    }
    for (i, rows) in ROWS.iter().enumerate() {
        graph = graph
            .input(&format!("p{i}"), rows)
            .constant(&format!("m{i}"), &[rows[2], 64], || whole(&mut random, 2.0))
            .node("MatMul", &format!("p{i} m{i}"), &format!("q{i}"), &[])
            .node("Relu", &format!("q{i}"), &format!("z{i}"), &[])
            .output(&format!("z{i}"));
    }
    graph.file()
}

#[test]
fn layers_of_few_channels_have_the_processors_bits() {
    let test = "gpu_layers_of_few_channels_have_the_processors_bits";
    let Some(beside) = Beside::of(test, &model()) else { return };
    let Beside { machine, reference, .. } = &beside;
    for (searcher, seed) in [(Searcher::Sequential, 0), (Searcher::Random, 3), (Searcher::Random, 4)] {
        let compiled = beside.compile(&CompileOptions {
            dtype: DType::F16,
            ports: Ports::Half,
            searcher,
            seed,
            ..CompileOptions::default()
        });
        if machine.board.architecture == "sm_90a" {
            let calls = compiled.plan.operators.iter().flat_map(|o| &o.calls);
            let transposed = calls.filter(|c| matches!(c.primitive, Primitive::ConvTranspose { .. }));
            assert_eq!(transposed.count(), 0);
        }
        let mut random = Chance::new(29);
        let inputs = network::inputs_of(&compiled, || whole(&mut random, 2.0));
        let expected = reference.run(compiled.clone(), &inputs).unwrap();
        let found = machine.run(compiled, &inputs).unwrap();
        assert_eq!(network::bits_differ(&found, &expected), None, "{searcher:?} {seed}");
    }
    data::ran(test, &format!("{} layers in 3 plans", LAYERS.len() + TRANSPOSED.len() + ROWS.len()));
}
