//! The tiles of dense layers, those of `mma.sync` and those of `wgmma`: each is launched, and gives the bits of the others.
//!
//! On a GPU with `wgmma` those of `mma.sync` run layers whose steps or distances its copy engine does not know.

use crate::data::{self, Chance};
use crate::gpu::{self, Beside};
use crate::network::{self, Machine, Tensors};
use crate::onnx::{Graph, int, ints};
use platoon::plan::check;
use platoon::plan::format::{Kernel, Operator, Plan, Tactic};
use platoon::plan::tactic::{Target, menu};
use platoon::planner::{CompileOptions, Compiled, Ports, Searcher};
use platoon::tensor::DType;

/// Of a tensor's largest value: what sums in another order make of a value of f16.
const CLOSE: f64 = 1.0 / 256.0;

/// A distance of taps, or a step, that is too large for the copy engine.
const FAR: i64 = 130;
const LONG: i64 = 9;

/// A convolution with a square window.
pub struct Layer {
    x: [i64; 4],
    outputs: i64,
    kernel: i64,
    stride: i64,
    /// From tap to tap.
    apart: i64,
    pad: i64,
}

pub const fn layer(x: [i64; 4], outputs: i64, [kernel, stride, apart, pad]: [i64; 4]) -> Layer {
    Layer {
        x,
        outputs,
        kernel,
        stride,
        apart,
        pad,
    }
}

impl Layer {
    fn output(&self) -> [i64; 4] {
        let side = |n: i64| (n + 2 * self.pad - self.apart * (self.kernel - 1) - 1) / self.stride + 1;
        [self.x[0], self.outputs, side(self.x[2]), side(self.x[3])]
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
    layer([1, 16, 130, 83], 16, [5, 1, 1, 2]),
    layer([2, 8, 41, 33], 19, [5, 2, 1, 1]),
    layer([1, 24, 103, 100], 32, [5, 1, 1, 2]),
    layer([1, 32, 130, 82], 16, [3, 1, 2, 2]),
    layer([2, 16, 110, 104], 24, [3, 1, 2, 3]),
    layer([1, 8, 21, 17], 5, [2, 1, 1, 0]),
];

/// Products for `wgmma`: tiles in several turns, K blocks of an even and an odd number, K in one chain and in several, channels that
/// no tile divides, windows that reach far outside.
const PRODUCTS: [Layer; 10] = [
    layer([2, 192, 61, 67], 256, [1, 1, 1, 0]),
    layer([4, 320, 50, 50], 512, [1, 1, 1, 0]),
    layer([3, 128, 90, 91], 200, [1, 1, 1, 0]),
    layer([3, 1024, 20, 20], 256, [1, 1, 1, 0]),
    layer([8, 768, 14, 14], 384, [1, 1, 1, 0]),
    layer([8, 1536, 14, 14], 1024, [1, 1, 1, 0]),
    layer([2, 128, 57, 58], 256, [3, 1, 1, 1]),
    layer([2, 96, 60, 60], 256, [3, 1, 25, 25]),
    layer([1, 72, 40, 40], 136, [3, 2, 1, 1]),
    layer([16, 64, 56, 56], 256, [1, 1, 1, 0]),
];

/// Convolutions of patches: tiles of 14 and of 8 rows of an even and an odd number, of which a block has one or several, blocks of input
/// channels that leave the ring of weights an even and an odd number of stages, K in one chain and in several.
pub const PATCHES: [Layer; 7] = [
    layer([2, 128, 57, 58], 256, [3, 1, 1, 1]),
    layer([3, 128, 65, 72], 256, [3, 1, 1, 1]),
    layer([1, 512, 14, 24], 128, [3, 1, 1, 1]),
    layer([1, 320, 22, 20], 256, [3, 1, 1, 1]),
    layer([1, 200, 9, 18], 384, [3, 1, 1, 1]),
    layer([8, 512, 14, 14], 512, [3, 1, 1, 1]),
    layer([5, 384, 30, 9], 128, [3, 1, 1, 0]),
];

/// Convolutions of few channels: all that pixels and products are as wide as, windows that leave pixels out, channels that fill neither,
/// rows and columns that tiles do not divide, of which a block has one or several.
const SHALLOW: [Layer; 10] = [
    layer([2, 16, 61, 67], 16, [3, 1, 1, 1]),
    layer([1, 8, 130, 83], 32, [3, 1, 1, 0]),
    layer([1, 24, 200, 203], 64, [3, 1, 1, 1]),
    layer([3, 32, 33, 100], 32, [3, 1, 1, 2]),
    layer([1, 64, 90, 91], 32, [3, 1, 1, 1]),
    layer([2, 40, 30, 31], 5, [3, 1, 1, 1]),
    layer([2, 16, 97, 130], 32, [3, 2, 1, 1]),
    layer([1, 32, 201, 200], 56, [3, 2, 1, 0]),
    layer([2, 64, 64, 66], 16, [3, 2, 1, 1]),
    layer([1, 48, 99, 41], 19, [3, 2, 1, 2]),
];

/// Products of many pixels: tiles of 256 and 320 pixels that the pixels do not fill, of which a block has one or several, windows, and
/// windows whose rows of taps lie outside for whole tiles, channels that do not fill a tile.
const LARGE: [Layer; 6] = [
    layer([4, 320, 50, 50], 512, [1, 1, 1, 0]),
    layer([2, 192, 91, 97], 256, [1, 1, 1, 0]),
    layer([2, 128, 97, 98], 200, [3, 1, 1, 1]),
    layer([5, 768, 40, 40], 384, [1, 1, 1, 0]),
    layer([2, 96, 120, 120], 256, [3, 1, 25, 25]),
    layer([1, 72, 260, 260], 136, [3, 2, 1, 1]),
];

/// First layers: pictures of three channels, outputs that fill a quarter, a half and all of a product, rows that no segment divides.
const STEMS: [Layer; 4] = [
    layer([2, 3, 61, 230], 32, [3, 2, 1, 1]),
    layer([1, 3, 97, 131], 16, [3, 1, 1, 1]),
    layer([2, 3, 64, 230], 64, [7, 2, 1, 3]),
    layer([1, 3, 120, 77], 48, [6, 2, 1, 2]),
];

/// What follows a layer.
#[derive(Clone, Copy)]
pub enum Tail {
    /// A function that no bounds express.
    Sigmoid,
    /// One that is usual in networks.
    Gelu,
    /// Another, of two nodes.
    Silu,
    /// One that they do.
    Relu,
    /// A sum with a tensor of the output's shape.
    Joined,
    /// The greatest of every 2 by 2 results of a function that bounds express, which a convolution reads.
    Pooled,
    /// A function that bounds express, stored behind 3 channels of another tensor: nothing is aligned.
    Sliced,
}

/// Layers side by side, which have the tails in turn.
pub fn model(layers: &[Layer], tails: &[Tail]) -> Vec<u8> {
    let mut random = Chance::new(5);
    let mut graph = Graph::default();
    for ((i, layer), &tail) in layers.iter().enumerate().zip(tails.iter().cycle()) {
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
            .output(&format!("y{i}"));
        graph = match tail {
            Tail::Sigmoid => graph.node("Sigmoid", &names(&["c"]), &names(&["y"]), &[]),
            Tail::Gelu => graph.node("Gelu", &names(&["c"]), &names(&["y"]), &[]),
            Tail::Silu => graph
                .node("Sigmoid", &names(&["c"]), &names(&["p"]), &[])
                .node("Mul", &names(&["c", "p"]), &names(&["y"]), &[]),
            Tail::Relu => graph.node("Relu", &names(&["c"]), &names(&["y"]), &[]),
            Tail::Pooled => graph
                .node("Relu", &names(&["c"]), &names(&["p"]), &[])
                .node(
                    "MaxPool",
                    &names(&["p"]),
                    &names(&["q"]),
                    &[ints("kernel_shape", &[2; 2]), ints("strides", &[2; 2])],
                )
                .constant(&format!("v{i}"), &[64, layer.outputs, 1, 1], || {
                    random.signed() / (layer.outputs as f32).sqrt()
                })
                .node("Conv", &names(&["q", "v"]), &names(&["y"]), &[]),
            Tail::Sliced => {
                let [samples, _, rows, columns] = layer.output();
                graph
                    .input(&format!("s{i}"), &[samples, 3, rows, columns])
                    .node("Relu", &names(&["c"]), &names(&["p"]), &[])
                    .node("Relu", &names(&["s"]), &names(&["t"]), &[])
                    .node("Concat", &names(&["t", "p"]), &names(&["y"]), &[int("axis", 1)])
            }
            Tail::Joined => graph
                .input(&format!("j{i}"), &layer.output())
                .node("Add", &names(&["c", "j"]), &names(&["y"]), &[]),
        };
    }
    graph.file()
}

/// The tiles of an operator among those of some kernels.
fn tiles(plan: &Plan, operator: &Operator, machine: &Machine, kernels: &[Kernel]) -> Vec<Tactic> {
    let offered = menu(plan, operator, Target::of(&machine.board));
    offered.into_iter().filter(|t| kernels.contains(&t.kernel)).collect()
}

/// Gives every layer that has such tiles the `round`-th of them, or the last; how many layers there are, and how many have one of
/// their own in that round.
pub fn under(plan: &mut Plan, machine: &Machine, kernels: &[Kernel], round: usize) -> (usize, usize) {
    let offered: Vec<_> = plan.operators.iter().map(|o| tiles(plan, o, machine, kernels)).collect();
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
    let file = model(&LAYERS, &[Tail::Sigmoid]);
    check_tiles(test, &file, LAYERS.len(), &Runs::whole(&[Kernel::ConvMma, Kernel::ConvNarrow]));
}

#[test]
fn every_tile_of_wgmma_runs_and_gives_the_same_bits() {
    let test = "gpu_every_tile_of_wgmma_runs_and_gives_the_same_bits";
    if !has_wgmma(test) {
        return;
    }
    let runs = Runs::whole(&[Kernel::ConvWgmma, Kernel::ConvPatch, Kernel::ConvChains]);
    for tails in [[Tail::Relu, Tail::Joined, Tail::Sigmoid], [Tail::Joined, Tail::Sigmoid, Tail::Relu]] {
        check_tiles(test, &model(&PRODUCTS, &tails), PRODUCTS.len(), &runs);
    }
}

#[test]
fn every_tile_of_patches_runs_at_any_width_and_gives_the_same_bits() {
    let test = "gpu_every_tile_of_patches_runs_at_any_width_and_gives_the_same_bits";
    if !has_wgmma(test) {
        return;
    }
    // All blocks; an odd number of them, each with many tiles; one.
    let runs = Runs {
        kernels: &[Kernel::ConvPatch, Kernel::ConvChains, Kernel::ConvPooled],
        widths: &[0, 7, 1],
        least: 4,
    };
    for tails in [
        [Tail::Pooled, Tail::Relu, Tail::Sliced],
        [Tail::Relu, Tail::Sliced, Tail::Pooled],
        [Tail::Sliced, Tail::Pooled, Tail::Joined],
        [Tail::Joined, Tail::Gelu, Tail::Sigmoid],
    ] {
        check_tiles(test, &model(&PATCHES, &tails), PATCHES.len(), &runs);
    }
}

#[test]
fn every_large_tile_runs_at_any_width_and_gives_the_same_bits() {
    let test = "gpu_every_large_tile_runs_at_any_width_and_gives_the_same_bits";
    if !has_wgmma(test) {
        return;
    }
    let alone = Runs {
        kernels: &[Kernel::ConvLarge],
        widths: &[0, 7],
        least: 2,
    };
    for tails in [
        [Tail::Relu, Tail::Joined, Tail::Gelu],
        [Tail::Joined, Tail::Gelu, Tail::Sliced],
        [Tail::Sigmoid, Tail::Silu, Tail::Joined],
    ] {
        let file = model(&LARGE, &tails);
        check_tiles(test, &file, LARGE.len(), &alone);
        check_tiles(test, &file, LARGE.len(), &Runs::whole(&[Kernel::ConvWgmma, Kernel::ConvLarge]));
    }
}

#[test]
fn every_tile_of_few_channels_runs_at_any_width_and_gives_the_same_bits() {
    let test = "gpu_every_tile_of_few_channels_runs_at_any_width_and_gives_the_same_bits";
    if !has_wgmma(test) {
        return;
    }
    let runs = Runs {
        kernels: &[Kernel::ConvWgmma, Kernel::ConvShallow],
        widths: &[0, 7, 1],
        least: 4,
    };
    for tails in [
        [Tail::Relu, Tail::Joined, Tail::Gelu],
        [Tail::Joined, Tail::Sigmoid, Tail::Sliced],
        [Tail::Sliced, Tail::Gelu, Tail::Joined],
    ] {
        check_tiles(test, &model(&SHALLOW, &tails), SHALLOW.len(), &runs);
    }
}

#[test]
fn every_segment_and_band_of_first_layers_gives_the_same_bits() {
    let test = "gpu_every_segment_and_band_of_first_layers_gives_the_same_bits";
    if !has_wgmma(test) {
        return;
    }
    let runs = Runs {
        kernels: &[Kernel::Stem],
        widths: &[0, 7],
        least: 8,
    };
    for tails in [[Tail::Silu, Tail::Gelu, Tail::Relu], [Tail::Gelu, Tail::Sigmoid, Tail::Silu]] {
        check_tiles(test, &model(&STEMS, &tails), STEMS.len(), &runs);
    }
}

/// True if this machine has a GPU with `wgmma`.
pub fn has_wgmma(test: &str) -> bool {
    let Some(facts) = gpu::need(test) else { return false };
    let has = facts.architecture() == "sm_90a";
    if !has {
        data::ran(test, "not on this GPU, which has no `wgmma`");
    }
    has
}

/// How layers are run.
pub struct Runs<'a> {
    /// Under the tiles of these kernels.
    pub kernels: &'a [Kernel],
    /// Launch widths.
    pub widths: &'a [u16],
    /// Tiles of a layer, at least, on average.
    pub least: usize,
}

impl Runs<'_> {
    /// As wide as they are.
    fn whole(kernels: &[Kernel]) -> Runs<'_> {
        Runs {
            kernels,
            widths: &[0],
            least: 5,
        }
    }
}

/// Layers of halves one after another.
pub fn one_by_one() -> CompileOptions {
    CompileOptions {
        dtype: DType::F16,
        ports: Ports::Half,
        searcher: Searcher::Sequential,
        ..CompileOptions::default()
    }
}

/// The network under another plan, whose operators have a launch width.
pub fn of_width(compiled: &Compiled, mut plan: Plan, width: u16) -> Compiled {
    plan.operators.iter_mut().for_each(|o| o.width = width);
    let mut changed = compiled.clone();
    changed.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
    changed
}

/// Runs the layers of a file under all tiles that some kernels offer.
pub fn check_tiles(test: &str, file: &[u8], count: usize, runs: &Runs<'_>) {
    let Some(beside) = Beside::of(test, file) else { return };
    let Beside { machine, reference, .. } = &beside;
    let compiled = beside.compile(&one_by_one());
    let mut random = Chance::new(9);
    let inputs = network::inputs_of(&compiled, || random.signed());
    let expected = reference.run(compiled.clone(), &inputs).unwrap();
    let mut first: Option<Tensors> = None;
    let mut ran = 0;
    for round in 0.. {
        let mut plan = compiled.plan.clone();
        let (layers, fresh) = under(&mut plan, machine, runs.kernels, round);
        assert_eq!(layers, count, "layers that the kernels multiply");
        if fresh == 0 {
            break;
        }
        ran += fresh;
        for &width in runs.widths {
            let changed = of_width(&compiled, plan.clone(), width);
            let how = format!("round {round}, width {width}");
            let found = machine.run(changed, &inputs).unwrap_or_else(|e| panic!("{how}: {e:?}"));
            for (name, expected) in &expected {
                let difference = network::difference(&found[name], expected, 0.0, CLOSE);
                assert_eq!(difference, None, "{how}, `{name}`");
            }
            let first = first.get_or_insert_with(|| found.clone());
            assert_eq!(network::bits_differ(&found, first), None, "{how}");
        }
    }
    assert!(ran >= runs.least * count, "only {ran} tiles ran");
    data::ran(test, &format!("{count} layers under {ran} tiles"));
}

/// Runs shares of samples and rows by a kernel, which have the bits that others compute as a whole.
pub fn check_shares(test: &str, file: &[u8], count: usize, others: &[Kernel], kernel: Kernel) {
    let Some(beside) = Beside::of(test, file) else { return };
    let machine = &beside.machine;
    let compiled = beside.compile(&one_by_one());
    let mut random = Chance::new(23);
    let inputs = network::inputs_of(&compiled, || random.signed());
    let mut whole = compiled.plan.clone();
    assert_eq!(under(&mut whole, machine, others, 0).0, count, "layers that others compute");
    let expected = machine.run(of_width(&compiled, whole, 0), &inputs).unwrap();
    for seed in 3..9 {
        let compiled = beside.compile(&CompileOptions {
            searcher: Searcher::Random,
            seed,
            ..one_by_one()
        });
        let mut plan = compiled.plan.clone();
        assert!(under(&mut plan, machine, &[kernel], seed as usize % 3).0 >= count);
        let found = machine.run(of_width(&compiled, plan, 0), &inputs).unwrap();
        assert_eq!(network::bits_differ(&found, &expected), None, "shares {seed}");
    }
    data::ran(test, &format!("{count} layers in shares"));
}
