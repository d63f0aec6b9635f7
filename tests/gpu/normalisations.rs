//! Layer and root mean square normalisation of values whose squares are beyond f16, along rows of every length that has a kernel, and
//! along channels.

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
