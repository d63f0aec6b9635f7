//! Layer and root mean square normalisation of values whose squares are beyond f16, along rows of every length that has a kernel, and
//! along channels; and of groups of channels, far from 0, in as many parts as there are ways to share samples out.

use crate::data::Chance;
use crate::onnx::{Graph, int};
use crate::tiles::{Runs, check_tiles};
use platoon::plan::format::Kernel;

/// Extents, the axis, and whether the mean is taken from the values first.
type Layer = ([i64; 3], i64, bool);

const LAYERS: [Layer; 12] = [
    ([2, 50, 64], 2, true),
    ([2, 50, 64], 2, false),
    ([1, 197, 384], 2, false),
    ([1, 50, 768], 2, false),
    ([1, 9, 1024], 2, false),
    ([1, 9, 3000], 2, false),
    ([1, 5, 4096], 2, false),
    ([1, 5, 9000], 2, false),
    ([2, 11, 37], 2, false),
    ([2, 11, 1001], 2, false),
    ([2, 96, 64], 1, false),
    ([2, 96, 64], 1, true),
];

fn model() -> Vec<u8> {
    let mut graph = Graph::default();
    let mut random = Chance::new(3);
    graph = graph
        .constant("large", &[], || 500.0)
        .constant("two", &[], || 2.0)
        .constant("least", &[], || 1e-6);
    for (i, &(dims, axis, centred)) in LAYERS.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let mut scale = [1; 3];
        scale[axis as usize] = dims[axis as usize];
        graph = graph
            .input(&name("x"), &dims)
            .node("Mul", &format!("{} large", name("x")), &name("v"), &[]);
        let along = |graph: Graph, from: &str, to: &str| {
            let axes = name(&format!("axes{to}"));
            graph
                .integers(&axes, &[axis])
                .node("ReduceMean", &format!("{from} {axes}"), to, &[int("keepdims", 1)])
        };
        let values = if centred {
            graph = along(graph, &name("v"), &name("mean"));
            graph = graph.node("Sub", &format!("{} {}", name("v"), name("mean")), &name("centred"), &[]);
            name("centred")
        } else {
            name("v")
        };
        graph = graph.node("Pow", &format!("{values} two"), &name("square"), &[]);
        graph = along(graph, &name("square"), &name("sum"));
        graph = graph
            .node("Add", &format!("{} least", name("sum")), &name("shifted"), &[])
            .node("Sqrt", &name("shifted"), &name("size"), &[])
            .node("Div", &format!("{values} {}", name("size")), &name("normal"), &[])
            .constant(&name("scale"), &scale, || random.signed())
            .node("Mul", &format!("{} {}", name("normal"), name("scale")), &name("y"), &[])
            .output(&name("y"));
    }
    graph.file_of(18)
}

#[test]
fn large_values_are_normalised_as_on_the_processor() {
    let runs = Runs {
        kernels: &[Kernel::Normalise],
        widths: &[0, 2],
        least: 1,
    };
    check_tiles("gpu_large_values_are_normalised_as_on_the_processor", &model(), LAYERS.len(), &runs);
}

/// Pictures, channels, groups and sides.
const GROUPED: [(i64, i64, i64, i64); 9] = [
    (1, 64, 1, 56),
    (2, 320, 1, 14),
    (1, 512, 1, 7),
    (3, 8, 1, 190),
    (1, 256, 32, 40),
    (2, 24, 24, 50),
    (1, 96, 4, 33),
    (2, 64, 8, 5),
    (1, 40, 2, 1),
];

/// Convolutions of one input and 20, whose results are the same everywhere, and their groups as PyTorch's exporter spells them.
fn groups() -> Vec<u8> {
    let mut graph = Graph::default();
    let mut random = Chance::new(5);
    for (i, &(pictures, channels, groups, side)) in GROUPED.iter().enumerate() {
        let name = |of: &str| format!("{of}{i}");
        let mut weights =
            (0..channels).flat_map(|c| (0..8).map(move |from| if from == c % 8 { [0.5, 1.0, 2.0][c as usize % 3] } else { 0.0 }));
        graph = graph
            .input(&name("x"), &[pictures, 8, side, side])
            .constant(&name("w"), &[channels, 8, 1, 1], || weights.next().unwrap_or(0.0))
            .constant(&name("b"), &[channels], || 20.0)
            .constant(&name("ones"), &[groups], || 1.0)
            .constant(&name("zeros"), &[groups], || 0.0)
            .integers(&name("flat"), &[pictures, groups, -1])
            .integers(&name("shape"), &[pictures, channels, side, side])
            .node("Conv", &format!("{} {} {}", name("x"), name("w"), name("b")), &name("c"), &[])
            .node("Reshape", &format!("{} {}", name("c"), name("flat")), &name("f"), &[])
            .node(
                "InstanceNormalization",
                &format!("{} {} {}", name("f"), name("ones"), name("zeros")),
                &name("n"),
                &[],
            )
            .node("Reshape", &format!("{} {}", name("n"), name("shape")), &name("r"), &[])
            .constant(&name("scale"), &[channels, 1, 1], || random.signed())
            .node("Mul", &format!("{} {}", name("r"), name("scale")), &name("y"), &[])
            .output(&name("y"));
    }
    graph.file_of(18)
}

#[test]
fn groups_far_from_zero_are_normalised_as_on_the_processor() {
    let runs = Runs {
        kernels: &[Kernel::GroupNormalise],
        widths: &[0, 1, 5],
        least: 1,
    };
    check_tiles("gpu_groups_far_from_zero_are_normalised", &groups(), GROUPED.len(), &runs);
}
