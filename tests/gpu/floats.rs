//! Convolutions, products and reductions of floats: the bits of the processor, whatever the tile, the layout and the chunks.

use crate::data::{self, Chance};
use crate::gpu::Beside;
use crate::network::{self, Machine};
use crate::onnx::{Attribute, Graph, int, ints};
use platoon::plan::check;
use platoon::plan::format::{Kernel, Plan, Tactic};
use platoon::plan::tactic::conv_fma::MENU;
use platoon::plan::tactic::{Target, menu};
use platoon::planner::{CompileOptions, Searcher};

/// A convolution behind a pointwise one, whose output lies channels last: extents, channels, window, step, distance of taps,
/// padding on all sides, groups.
struct Layer {
    x: [i64; 4],
    channels: [i64; 2],
    kernel: i64,
    stride: i64,
    dilation: i64,
    pad: i64,
    groups: i64,
}

const fn layer(x: [i64; 4], channels: [i64; 2], kernel: i64, steps: [i64; 2], pad: i64, groups: i64) -> Layer {
    Layer {
        x,
        channels,
        kernel,
        stride: steps[0],
        dilation: steps[1],
        pad,
        groups,
    }
}

const LAYERS: [Layer; 8] = [
    // Pictures of few channels in planes, then whole pieces of channels.
    layer([2, 3, 33, 29], [24, 40], 3, [1, 1], 1, 1),
    layer([1, 5, 24, 31], [64, 130], 3, [2, 1], 1, 1),
    layer([2, 16, 19, 17], [72, 24], 1, [1, 1], 0, 1),
    layer([1, 8, 21, 20], [96, 21], 3, [1, 4], 4, 1),
    // Channels that are no pieces.
    layer([3, 4, 14, 13], [19, 33], 5, [1, 1], 2, 1),
    layer([1, 4, 9, 9], [7, 3], 2, [3, 1], 0, 1),
    // Groups, in pieces and not.
    layer([2, 6, 15, 16], [32, 64], 3, [1, 1], 1, 4),
    layer([1, 6, 15, 16], [15, 20], 3, [1, 2], 2, 5),
];

/// Rows, depth and columns of products with constants.
const PRODUCTS: [([i64; 3], i64); 3] = [([1, 70, 64], 50), ([2, 33, 21], 129), ([3, 5, 200], 8)];

/// Extents and axes of reductions: of pixels behind a convolution and in planes, of rows, of columns, and of few elements.
const REDUCTIONS: [(&str, [i64; 4], &[i64]); 6] = [
    ("ReduceMean", [2, 40, 33, 31], &[2, 3]),
    ("ReduceSum", [1, 70, 7, 7], &[2, 3]),
    ("ReduceL2", [2, 3, 20, 190], &[3]),
    ("ReduceMean", [3, 130, 4, 21], &[1]),
    ("ReduceMean", [2, 65, 9, 11], &[1, 3]),
    ("ReduceSum", [2, 8, 3, 5], &[2]),
];

/// One network of all of them, each with a tail of its own.
fn model() -> Vec<u8> {
    let mut random = Chance::new(7);
    let mut graph = Graph::default();
    for (i, layer) in LAYERS.iter().enumerate() {
        let [inner, outer] = layer.channels;
        let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
        let attributes: [Attribute; 4] = [
            ints("strides", &[layer.stride; 2]),
            ints("dilations", &[layer.dilation; 2]),
            ints("pads", &[layer.pad; 4]),
            int("group", layer.groups),
        ];
        graph = graph
            .input(&format!("x{i}"), &layer.x)
            .constant(&format!("v{i}"), &[inner, layer.x[1], 3, 3], || random.signed())
            .constant(&format!("w{i}"), &[outer, inner / layer.groups, layer.kernel, layer.kernel], || {
                random.signed()
            })
            .constant(&format!("b{i}"), &[outer], || random.signed())
            .node("Conv", &names(&["x", "v"]), &names(&["a"]), &[ints("pads", &[1; 4])])
            .node("Relu", &names(&["a"]), &names(&["r"]), &[])
            .node("Conv", &names(&["r", "w", "b"]), &names(&["c"]), &attributes)
            .node("Sigmoid", &names(&["c"]), &names(&["s"]), &[])
            .node("Mul", &names(&["c", "s"]), &names(&["y"]), &[])
            .output(&format!("y{i}"));
    }
    for (i, (rows, columns)) in PRODUCTS.iter().enumerate() {
        let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
        graph = graph
            .input(&format!("m{i}"), rows)
            .constant(&format!("k{i}"), &[rows[2], *columns], || random.signed())
            .constant(&format!("d{i}"), &[*columns], || random.signed())
            .node("MatMul", &names(&["m", "k"]), &names(&["p"]), &[])
            .node("Add", &names(&["p", "d"]), &names(&["q"]), &[])
            .node("Tanh", &names(&["q"]), &names(&["z"]), &[])
            .output(&format!("z{i}"));
    }
    for (i, (op, dims, axes)) in REDUCTIONS.iter().enumerate() {
        let names = |parts: &[&str]| parts.iter().map(|p| format!("{p}{i}")).collect::<Vec<_>>().join(" ");
        graph = graph
            .input(&format!("e{i}"), dims)
            .constant(&format!("f{i}"), &[dims[1], dims[1], 1, 1], || random.signed())
            .node("Conv", &names(&["e", "f"]), &names(&["g"]), &[])
            .output(&format!("h{i}"))
            .output(&format!("j{i}"));
        // Of what lies channels last, and of what lies in planes.
        for (from, to) in [("g", "h"), ("e", "j")] {
            graph = match *op {
                "ReduceSum" => {
                    let listed = format!("{to}axes{i}");
                    graph
                        .integers(&listed, axes)
                        .node(op, &format!("{from}{i} {listed}"), &names(&[to]), &[])
                }
                _ => graph.node(op, &names(&[from]), &names(&[to]), &[ints("axes", axes)]),
            };
        }
    }
    graph.file()
}

/// Gives every operator that has such a tactic entry `variant` of the menu; how many there are.
fn under(plan: &mut Plan, machine: &Machine, variant: usize) -> usize {
    let entry = Tactic {
        kernel: Kernel::ConvFma,
        tile: MENU[variant].tile,
        variant: variant as u16,
    };
    let target = Target::of(&machine.board);
    let offered: Vec<bool> = plan.operators.iter().map(|o| menu(plan, o, target).contains(&entry)).collect();
    let takers = plan.operators.iter_mut().zip(&offered).filter(|(_, takes)| **takes);
    takers.for_each(|(operator, _)| operator.tactic = entry);
    offered.iter().filter(|&&takes| takes).count()
}

#[test]
fn layers_of_floats_have_the_processors_bits_under_every_tile() {
    let test = "gpu_layers_of_floats_have_the_processors_bits_under_every_tile";
    let Some(beside) = Beside::of(test, &model()) else { return };
    let Beside { machine, reference, .. } = &beside;
    let mut expected = None;
    let mut ran = 0;
    for (variant, tile) in MENU.iter().enumerate() {
        // The whole of each operator, and shares of it.
        for (searcher, seed) in [(Searcher::Sequential, 0), (Searcher::Random, 3), (Searcher::Random, 4)] {
            let options = CompileOptions {
                searcher,
                seed,
                ..CompileOptions::default()
            };
            let mut compiled = beside.compile(&options);
            let mut plan = compiled.plan.clone();
            ran += under(&mut plan, machine, variant);
            compiled.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
            let mut random = Chance::new(21);
            let inputs = network::inputs_of(&compiled, || random.signed());
            let expected = expected.get_or_insert_with(|| reference.run(compiled.clone(), &inputs).unwrap());
            let found = machine.run(compiled, &inputs).unwrap();
            assert_eq!(network::bits_differ(&found, expected), None, "{tile:?}, {searcher:?} {seed}");
        }
    }
    let layers = 2 * LAYERS.len() + PRODUCTS.len() + REDUCTIONS.len();
    assert_eq!(ran, 3 * MENU.len() * layers, "every layer takes every tile");
    data::ran(
        test,
        &format!(
            "{layers} layers under {} tiles and {} reductions, three schedules each",
            MENU.len(),
            2 * REDUCTIONS.len()
        ),
    );
}
