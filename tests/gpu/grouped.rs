//! Convolutions in groups whose taps share patches of pixels: the bits of the processor where sums are exact, and the same bits
//! under every entry of the menu, at any width and in any chunks.

use crate::data::{self, Chance};
use crate::gpu::{self, Beside};
use crate::network::{self, Machine, Tensors};
use crate::onnx::{Graph, int, ints};
use platoon::plan::check;
use platoon::plan::format::{Kernel, Operator, Plan, Tactic};
use platoon::plan::tactic::{Target, menu};
use platoon::planner::{CompileOptions, Compiled, Ports, Searcher};
use platoon::tensor::DType;

/// Extents of the input; channels of a group, step, padding.
type Layer = ([i64; 4], [i64; 3]);

/// Every width of a slab in both steps; maps that are whole tiles, that are not, and that are smaller than one; channels that fill
/// the last block and that do not; padding and none.
const LAYERS: [Layer; 19] = [
    ([8, 128, 28, 28], [4, 1, 1]),
    ([1, 128, 56, 56], [4, 1, 1]),
    ([2, 128, 32, 32], [4, 2, 1]),
    ([1, 104, 17, 23], [8, 1, 1]),
    ([2, 256, 30, 27], [8, 2, 1]),
    ([1, 512, 14, 14], [16, 1, 1]),
    ([3, 512, 14, 14], [16, 2, 1]),
    ([1, 64, 12, 13], [16, 1, 0]),
    ([1, 64, 13, 12], [16, 2, 0]),
    ([1, 96, 21, 20], [24, 1, 1]),
    ([2, 192, 15, 15], [24, 2, 1]),
    ([8, 128, 7, 7], [32, 1, 1]),
    ([1, 1024, 14, 14], [32, 2, 1]),
    ([1, 80, 19, 10], [40, 1, 1]),
    ([2, 80, 19, 40], [40, 2, 1]),
    ([2, 168, 13, 13], [56, 1, 1]),
    ([1, 112, 26, 13], [56, 2, 1]),
    ([2, 128, 33, 16], [64, 1, 1]),
    ([1, 256, 16, 16], [64, 2, 1]),
];

/// What follows a layer.
#[derive(Clone, Copy, PartialEq)]
enum Tail {
    Nothing,
    /// A function that bounds express.
    Relu,
    /// Functions that are usual in networks.
    Silu,
    Gelu,
    /// A sum with a tensor of the output's shape, alone and with a relu behind.
    Joined,
    JoinedRelu,
    /// A product with such a tensor, which has no path of its own.
    Scaled,
    /// Bounds, stored behind 3 channels of another tensor: nothing is aligned.
    Sliced,
}

const TAILS: [Tail; 8] = [
    Tail::Nothing,
    Tail::Relu,
    Tail::Silu,
    Tail::Joined,
    Tail::Gelu,
    Tail::JoinedRelu,
    Tail::Scaled,
    Tail::Sliced,
];

/// The tail of layer `i` of a model.
fn tail(first: usize, i: usize) -> Tail {
    TAILS[(i + first) % TAILS.len()]
}

/// A small whole number, so that sums of products are exact in halves: at most 2 by 1 in 576 products.
fn whole(random: &mut Chance, most: f32) -> f32 {
    (random.signed() * (most + 0.49)).round()
}

/// The layers side by side, with tails from the `first` on.
fn model(first: usize) -> Vec<u8> {
    let mut random = Chance::new(17);
    let mut graph = Graph::default();
    for (i, (x, [group, stride, pad])) in LAYERS.into_iter().enumerate() {
        let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
        let [samples, channels, rows, columns] = x;
        let side = |n: i64| (n + 2 * pad - 3) / stride + 1;
        let out = [samples, channels, side(rows), side(columns)];
        graph = graph
            .input(&format!("x{i}"), &x)
            .constant(&format!("w{i}"), &[channels, group, 3, 3], || whole(&mut random, 1.0))
            .constant(&format!("b{i}"), &[channels], || whole(&mut random, 9.0))
            .node("Relu", &names(&["x"]), &names(&["r"]), &[])
            .node(
                "Conv",
                &names(&["r", "w", "b"]),
                &names(&["c"]),
                &[
                    ints("strides", &[stride; 2]),
                    ints("pads", &[pad; 4]),
                    int("group", channels / group),
                ],
            )
            .output(&format!("y{i}"));
        graph = match tail(first, i) {
            Tail::Nothing => graph.node("Identity", &names(&["c"]), &names(&["y"]), &[]),
            Tail::Relu => graph.node("Relu", &names(&["c"]), &names(&["y"]), &[]),
            Tail::Gelu => graph.node("Gelu", &names(&["c"]), &names(&["y"]), &[]),
            Tail::Silu => graph
                .node("Sigmoid", &names(&["c"]), &names(&["s"]), &[])
                .node("Mul", &names(&["c", "s"]), &names(&["y"]), &[]),
            Tail::Joined => graph
                .input(&format!("j{i}"), &out)
                .node("Add", &names(&["c", "j"]), &names(&["y"]), &[]),
            Tail::JoinedRelu => graph
                .input(&format!("j{i}"), &out)
                .node("Add", &names(&["c", "j"]), &names(&["a"]), &[])
                .node("Relu", &names(&["a"]), &names(&["y"]), &[]),
            Tail::Scaled => graph
                .input(&format!("j{i}"), &out)
                .node("Mul", &names(&["c", "j"]), &names(&["y"]), &[]),
            Tail::Sliced => graph
                .input(&format!("s{i}"), &[out[0], 3, out[2], out[3]])
                .node("Relu", &names(&["c"]), &names(&["p"]), &[])
                .node("Relu", &names(&["s"]), &names(&["t"]), &[])
                .node("Concat", &names(&["t", "p"]), &names(&["y"]), &[int("axis", 1)]),
        };
    }
    graph.file()
}

/// The entries of the menu that convolve an operator in groups.
fn entries(plan: &Plan, operator: &Operator, machine: &Machine) -> Vec<Tactic> {
    let all = menu(plan, operator, Target::of(&machine.board)).into_iter();
    all.filter(|t| t.kernel == Kernel::ConvGrouped).collect()
}

/// The plan with the `round`-th entry of every layer, or its last; and how many layers have one of their own in that round.
fn under(compiled: &Compiled, machine: &Machine, round: usize, width: Option<u16>) -> (Compiled, usize) {
    let mut plan = compiled.plan.clone();
    let offered: Vec<_> = plan.operators.iter().map(|o| entries(&plan, o, machine)).collect();
    assert_eq!(offered.iter().filter(|e| !e.is_empty()).count(), LAYERS.len());
    for (operator, entries) in plan.operators.iter_mut().zip(&offered) {
        if let Some(&tactic) = entries.get(round).or(entries.last()) {
            operator.tactic = tactic;
            operator.width = width.unwrap_or(operator.width);
        }
    }
    let mut changed = compiled.clone();
    changed.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
    (changed, offered.iter().filter(|e| e.len() > round).count())
}

#[test]
fn grouped_convolutions_have_the_processors_bits_under_every_entry() {
    let test = "gpu_grouped_convolutions_have_the_processors_bits_under_every_entry";
    let Some(facts) = gpu::need(test) else { return };
    if facts.architecture() != "sm_90a" {
        data::ran(test, "not on this GPU, which has no `wgmma`");
        return;
    }
    let mut ran = 0;
    for first in 0..TAILS.len() {
        let Some(beside) = Beside::of(test, &model(first)) else { return };
        let Beside { machine, reference, .. } = &beside;
        let compile = |searcher, seed| {
            beside.compile(&CompileOptions {
                dtype: DType::F16,
                ports: Ports::Half,
                searcher,
                seed,
                ..CompileOptions::default()
            })
        };
        let compiled = compile(Searcher::Sequential, 0);
        let mut random = Chance::new(19);
        let inputs = network::inputs_of(&compiled, || whole(&mut random, 2.0));
        let expected = reference.run(compiled.clone(), &inputs).unwrap();
        let mut bits: Option<Tensors> = None;
        let mut run = |compiled: Compiled, how: &str| {
            let found = machine.run(compiled, &inputs).unwrap_or_else(|e| panic!("{how}: {e}"));
            for (i, layer) in LAYERS.iter().enumerate() {
                // Functions with an exponential may round otherwise than the processor's.
                let (relative, absolute) = match tail(first, i) {
                    Tail::Silu | Tail::Gelu => (1.0 / 256.0, 1.0 / 1024.0),
                    _ => (0.0, 0.0),
                };
                let name = format!("y{i}");
                let difference = network::difference(&found[&name], &expected[&name], relative, absolute);
                assert_eq!(difference, None, "{how}, `{name}` of {layer:?}");
            }
            let bits = bits.get_or_insert_with(|| found.clone());
            assert_eq!(network::bits_differ(&found, bits), None, "{how}");
        };
        // All blocks; an odd number of them, each with many tiles; one.
        let widths: &[u16] = if first == 0 { &[0, 7, 1] } else { &[0] };
        for round in 0.. {
            let fresh = under(&compiled, machine, round, None).1;
            if fresh == 0 {
                break;
            }
            ran += fresh;
            for &width in widths {
                let (changed, _) = under(&compiled, machine, round, Some(width));
                run(changed, &format!("tails from {first}, round {round}, width {width}"));
            }
        }
        // Shares of samples and rows.
        for seed in 3..6 {
            let (changed, _) = under(&compile(Searcher::Random, seed), machine, seed as usize % 3, None);
            run(changed, &format!("tails from {first}, shares {seed}"));
        }
    }
    assert!(ran >= 3 * LAYERS.len() * TAILS.len(), "only {ran} entries ran");
    data::ran(test, &format!("{} layers under {ran} entries", LAYERS.len()));
}
