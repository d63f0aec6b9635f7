//! Networks whose numbers are quantized while they run, in plans of halves: their sums exceed what f16 holds until they are scaled.

use crate::data::Chance;
use crate::network;
use crate::onnx::{Graph, int};
use platoon::planner::CompileOptions;
use platoon::tensor::DType;

/// Quantizes `x` and `w`, sums products by the operator, and scales the sums back.
fn graph(sums: &str, x: &[i64], w: &[i64]) -> Graph {
    Graph::default()
        .input("x", x)
        .input("w", w)
        .node("DynamicQuantizeLinear", "x", "bytes scale zero", &[])
        .node("DynamicQuantizeLinear", "w", "weights weight middle", &[])
        .node(sums, "bytes weights zero middle", "sums", &[])
        .node("Cast", "sums", "long", &[int("to", 1)])
        .node("Mul", "scale weight", "both", &[])
        .node("Mul", "long both", "scaled", &[])
        .output("scaled")
        .output("long")
}

#[test]
fn sums_beyond_what_halves_hold_are_scaled_before_they_are_rounded() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.onnx");
    let graphs = [
        graph("MatMulInteger", &[3, 600], &[600, 4]),
        graph("ConvInteger", &[1, 40, 5, 6], &[4, 40, 3, 3]),
    ];
    for graph in graphs {
        std::fs::write(&model, graph.file()).unwrap();
        let results = [DType::F32, DType::F16].map(|dtype| {
            let options = CompileOptions {
                dtype,
                ..CompileOptions::default()
            };
            let compiled = network::compile(&model, &options).unwrap_or_else(|e| panic!("{}", network::told(&*e)));
            let mut random = Chance::new(6);
            // Not around 0, so that sums are large.
            let inputs = network::inputs_of(&compiled, || random.signed() + 0.75);
            let outputs = network::run(compiled, &inputs, 2).unwrap();
            ["long", "scaled"].map(|name| outputs[name].as_f32().unwrap().to_vec())
        });
        let [exact, halves] = results;
        let sums = &exact[0];
        assert!(sums.iter().any(|s| *s > 1e5), "{sums:?}");
        for (found, wanted) in halves.iter().zip(&exact) {
            let largest = wanted.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                assert!(
                    (found - wanted).abs() < 5e-3 * largest,
                    "element {i} is {found} instead of {wanted}"
                );
            }
        }
    }
}
