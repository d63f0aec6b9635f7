//! The tiles of `mma.sync`, which GPUs without `wgmma` run dense layers with: each is launched, and gives the bits of the others.
//!
//! On a GPU with `wgmma` they run layers whose steps or distances its copy engine does not know.

use crate::data::{self, Chance};
use crate::gpu::Beside;
use crate::network::{self, Machine, Tensors};
use crate::onnx::{Graph, ints};
use platoon::plan::check;
use platoon::plan::format::{Kernel, Operator, Plan, Tactic};
use platoon::plan::tactic::{Target, menu};
use platoon::planner::{CompileOptions, Ports, Searcher};
use platoon::tensor::DType;

/// Of a tensor's largest value: what sums in another order make of a value of f16.
const CLOSE: f64 = 1.0 / 256.0;

/// A distance of taps, or a step, that is too large for the copy engine.
const FAR: i64 = 130;
const LONG: i64 = 9;

/// A convolution with a square window.
struct Layer {
    x: [i64; 4],
    outputs: i64,
    kernel: i64,
    stride: i64,
    /// From tap to tap.
    apart: i64,
    pad: i64,
}

const fn layer(x: [i64; 4], outputs: i64, [kernel, stride, apart, pad]: [i64; 4]) -> Layer {
    Layer {
        x,
        outputs,
        kernel,
        stride,
        apart,
        pad,
    }
}

/// Pixels in whole pieces of channels, sums that are cut into ranges, single channels; then few channels of maps that are large
/// enough for taps to share a patch.
const LAYERS: [Layer; 12] = [
    layer([2, 64, 28, 140], 96, [3, 1, FAR, FAR]),
    layer([1, 128, 133, 131], 40, [1, LONG, 1, 0]),
    layer([1, 8, 48, 280], 16, [3, 1, FAR, FAR]),
    layer([1, 512, 7, 7], 64, [3, 1, FAR, FAR]),
    layer([1, 2048, 9, 9], 320, [1, LONG, 1, 0]),
    layer([2, 19, 20, 21], 24, [3, 2, FAR, FAR]),
    layer([1, 16, 130, 83], 16, [3, 1, 1, 1]),
    layer([2, 8, 41, 33], 19, [3, 2, 1, 1]),
    layer([1, 24, 103, 100], 32, [5, 1, 1, 2]),
    layer([1, 32, 130, 82], 16, [3, 1, 1, 0]),
    layer([2, 16, 110, 104], 24, [3, 1, 2, 3]),
    layer([1, 8, 21, 17], 5, [2, 1, 1, 0]),
];

fn model() -> Vec<u8> {
    let mut random = Chance::new(5);
    let mut graph = Graph::default();
    for (i, layer) in LAYERS.iter().enumerate() {
        let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
        let (x, kernel) = (layer.x, layer.kernel);
        let scale = 1.0 / (x[1] as f32 * (kernel * kernel) as f32).sqrt();
        graph = graph
            .input(&format!("x{i}"), &x)
            .constant(&format!("w{i}"), &[layer.outputs, x[1], kernel, kernel], || scale * random.signed())
            .constant(&format!("b{i}"), &[layer.outputs], || random.signed())
            .node("Relu", &names(&["x"]), &names(&["r"]), &[])
            .node(
                "Conv",
                &names(&["r", "w", "b"]),
                &names(&["c"]),
                &[
                    ints("strides", &[layer.stride; 2]),
                    ints("pads", &[layer.pad; 4]),
                    ints("dilations", &[layer.apart; 2]),
                ],
            )
            .node("Sigmoid", &names(&["c"]), &names(&["y"]), &[])
            .output(&format!("y{i}"));
    }
    graph.file()
}

/// The tiles of an operator.
fn tiles(plan: &Plan, operator: &Operator, machine: &Machine) -> Vec<Tactic> {
    let offered = menu(plan, operator, Target::of(&machine.board));
    let by_mma = |t: &Tactic| matches!(t.kernel, Kernel::ConvMma | Kernel::ConvNarrow);
    offered.into_iter().filter(by_mma).collect()
}

/// Gives every layer that has such tiles the `round`-th of them, or the last; how many layers there are, and how many have one of
/// their own in that round.
fn under(plan: &mut Plan, machine: &Machine, round: usize) -> (usize, usize) {
    let offered: Vec<_> = plan.operators.iter().map(|o| tiles(plan, o, machine)).collect();
    for (operator, tiles) in plan.operators.iter_mut().zip(&offered) {
        if let Some(&tactic) = tiles.get(round).or(tiles.last()) {
            operator.tactic = tactic;
        }
    }
    let count = |least: usize| offered.iter().filter(|tiles| tiles.len() > least).count();
    (count(0), count(round))
}

#[test]
fn every_tile_of_mma_runs_and_gives_the_same_bits() {
    let test = "gpu_every_tile_of_mma_runs_and_gives_the_same_bits";
    let Some(beside) = Beside::of(test, &model()) else { return };
    let Beside { machine, reference, .. } = &beside;
    let options = CompileOptions {
        dtype: DType::F16,
        ports: Ports::Half,
        searcher: Searcher::Sequential,
        ..CompileOptions::default()
    };
    let compiled = beside.compile(&options);
    let mut random = Chance::new(9);
    let inputs = network::inputs_of(&compiled, || random.signed());
    let expected = reference.run(compiled.clone(), &inputs).unwrap();
    let mut first: Option<Tensors> = None;
    let mut ran = 0;
    for round in 0.. {
        let mut changed = compiled.clone();
        let mut plan = compiled.plan.clone();
        let (layers, fresh) = under(&mut plan, machine, round);
        assert_eq!(layers, LAYERS.len(), "layers that `mma.sync` multiplies");
        if fresh == 0 {
            break;
        }
        ran += fresh;
        changed.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
        let found = machine.run(changed, &inputs).unwrap_or_else(|e| panic!("round {round}: {e}"));
        for (name, expected) in &expected {
            let how = network::difference(&found[name], expected, 0.0, CLOSE);
            assert_eq!(how, None, "round {round}, `{name}`");
        }
        let first = first.get_or_insert_with(|| found.clone());
        assert_eq!(network::bits_differ(&found, first), None, "round {round}");
    }
    assert!(ran >= 5 * LAYERS.len(), "only {ran} tiles ran");
    data::ran(test, &format!("{} layers under {ran} tiles", LAYERS.len()));
}
