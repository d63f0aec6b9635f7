//! Reductions under every kernel that takes them: what kernels for tails of one function at most find is what those for all tails do, in
//! every schedule and width, of numbers and of numbers among which some are none.

use crate::data::{self, Chance};
use crate::gpu::Beside;
use crate::network;
use crate::onnx::{Graph, float, int};
use platoon::plan::check;
use platoon::planner::{CompileOptions, Ports, Searcher};
use platoon::tensor::DType;

/// Extents and the axis that is reduced.
const SHAPES: [([i64; 4], i64); 32] = [
    // Few elements of neighbours: in pieces of eight, not in pieces, in the first axis, and more of them.
    ([2, 4, 16, 96], 1),
    ([1, 4, 784, 192], 1),
    ([8, 4, 49, 96], 1),
    ([2, 9, 5, 24], 1),
    ([3, 4, 7, 13], 1),
    ([2, 17, 3, 8], 1),
    ([40, 1, 6, 24], 0),
    ([5, 3, 7, 19], 0),
    ([1, 25, 140, 128], 1),
    // Neighbours of one axis and of two, even and odd numbers of them, in 32 ranges.
    ([1, 196, 4, 48], 1),
    ([1, 256, 8, 20], 1),
    ([1, 64, 8, 38], 1),
    ([1, 196, 1, 128], 1),
    ([1, 49, 1, 2048], 1),
    ([2, 400, 3, 22], 1),
    ([1, 100, 3, 13], 1),
    ([3, 33, 1, 6], 1),
    // And in many.
    ([1, 1024, 8, 12], 1),
    ([1, 784, 1, 64], 1),
    ([1, 3136, 1, 48], 1),
    ([3, 513, 1, 40], 1),
    ([2, 5000, 1, 10], 1),
    // Rows of ranges of every length, on 16 bytes and not, and long ones.
    ([1, 1, 784, 64], 3),
    ([1, 1, 3136, 48], 3),
    ([1, 1, 196, 168], 3),
    ([1, 1, 49, 224], 3),
    ([2, 3, 5, 33], 3),
    ([2, 3, 7, 101], 3),
    ([1, 1, 1, 49], 3),
    ([1, 1, 2, 511], 3),
    ([1, 1, 1, 3136], 3),
    ([2, 3, 4, 1023], 3),
];

/// Ways of reducing.
const KINDS: [&str; 4] = ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"];
const MAXIMUM: usize = 2;

/// Of a tensor's largest value: what sums in another order make of a value of f16.
const CLOSE: f64 = 1.0 / 256.0;

/// The same values behind a reduction: of no function, of one, and of two.
const TAILS: [&str; 3] = ["none", "one", "two"];

fn name(of: &str, shape: usize, kind: usize) -> String {
    format!("{of}{kind}of{shape}")
}

/// Every shape in every way and with every tail, of small numbers.
fn model() -> Vec<u8> {
    let mut graph = Graph::default()
        .constant("less", &[], || 0.02)
        .constant("low", &[], || -1000.0)
        .constant("high", &[], || 1000.0);
    for (i, &(dims, axis)) in SHAPES.iter().enumerate() {
        graph = graph.integers(&format!("axes{i}"), &[axis]);
        for (k, kind) in KINDS.iter().enumerate() {
            for (t, tail) in TAILS.iter().enumerate() {
                let [x, small, reduced, clipped, y] = ["x", "small", "reduced", "clipped", ""].map(|of| name(&format!("{of}{tail}"), i, k));
                graph = graph.input(&x, &dims).node("Mul", &format!("{x} less"), &small, &[]);
                let to = [&y, &reduced, &reduced][t];
                graph = graph.node(kind, &format!("{small} axes{i}"), to, &[int("keepdims", 1)]);
                if t > 0 {
                    let to = [&y, &y, &clipped][t];
                    graph = graph.node("Clip", &format!("{reduced} low high"), to, &[]);
                }
                if t > 1 {
                    graph = graph.node("LeakyRelu", &clipped, &y, &[float("alpha", 1.0)]);
                }
                graph = graph.output(&y);
            }
        }
    }
    graph.file_of(18)
}

#[test]
fn reductions_have_the_same_bits_under_every_kernel() {
    let test = "gpu_reductions_have_the_same_bits_under_every_kernel";
    let Some(beside) = Beside::of(test, &model()) else { return };
    let Beside { machine, reference, .. } = &beside;
    let mut runs = 0;
    let types = [(DType::F16, Ports::Half), (DType::F32, Ports::Declared)];
    let schedules = [(Searcher::Sequential, 0), (Searcher::Random, 3), (Searcher::Random, 4)];
    for (dtype, ports, (searcher, seed)) in types.into_iter().flat_map(|(d, p)| schedules.map(|s| (d, p, s))) {
        let options = CompileOptions {
            dtype,
            ports,
            searcher,
            seed,
            ..CompileOptions::default()
        };
        let compiled = beside.compile(&options);
        for some_are_none in [false, true] {
            let mut random = Chance::new(5 + seed);
            let mut inputs = network::inputs_of(&compiled, || match some_are_none && random.below(61) == 0 {
                true => f32::NAN,
                false => random.signed(),
            });
            let kinds: Vec<(usize, usize)> = (0..SHAPES.len())
                .flat_map(|i| (0..KINDS.len()).map(move |k| (i, k)))
                .filter(|&(_, k)| k == MAXIMUM || !some_are_none)
                .collect();
            for (i, k) in kinds.iter().copied() {
                for tail in &TAILS[1..] {
                    let same = inputs[&name("xnone", i, k)].clone();
                    inputs.insert(name(&format!("x{tail}"), i, k), same);
                }
            }
            let expected = reference.run(compiled.clone(), &inputs).unwrap();
            for width in [0, 3] {
                let mut changed = compiled.clone();
                let mut plan = compiled.plan.clone();
                plan.operators.iter_mut().for_each(|o| o.width = width);
                changed.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
                let found = machine.run(changed, &inputs).unwrap();
                for (i, k) in kinds.iter().copied() {
                    let how = format!(
                        "{} of {:?}, {dtype}, {searcher:?} {seed}, width {width}, NaN {some_are_none}",
                        KINDS[k], SHAPES[i]
                    );
                    let of = |tail: &str| &found[&name(tail, i, k)];
                    for tail in &TAILS[1..] {
                        assert_eq!(of("none").bytes(), of(tail).bytes(), "{how}: {tail}");
                    }
                    let exact = dtype == DType::F32 || k == MAXIMUM;
                    let close = if exact { 0.0 } else { CLOSE };
                    let difference = network::difference(of("none"), &expected[&name("none", i, k)], 0.0, close);
                    assert_eq!(difference, None, "{how}");
                }
                runs += 1;
            }
        }
    }
    data::ran(
        test,
        &format!("{} reductions in {runs} runs", SHAPES.len() * KINDS.len() * TAILS.len()),
    );
}
