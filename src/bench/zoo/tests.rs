//! Sizes against published ones, and graphs that hold.

use super::count::{multiply_adds, trained};
use super::*;
use crate::planner::graph::verify;

/// Parameters, and multiply-adds of one sample in millions as far as published: `meta["num_params"]` and `meta["_ops"]` (in
/// thousands of millions, three digits) of the weights that torchvision 0.26 documents, at the input size given there.
struct Published {
    name: &'static str,
    parameters: u64,
    gigas: f64,
}

const fn published(name: &'static str, parameters: u64, gigas: f64) -> Published {
    Published { name, parameters, gigas }
}

#[test]
fn sizes_are_the_published_ones() {
    let table = [
        published("alex", 61_100_840, 0.714),
        published("v16", 138_357_544, 15.47),
        published("r18", 11_689_512, 1.814),
        published("r34", 21_797_672, 3.664),
        published("r50", 25_557_032, 4.089),
        published("r101", 44_549_160, 7.801),
        published("m3", 5_483_032, 0.217),
        published("d121", 7_978_856, 2.834),
        published("ssd", 35_641_826, 34.858),
        // At 520 by 520, and with an auxiliary head on 40 channels, which adds 40*10*9 + 2*10 + 10*21 + 21 parameters.
        published("dlv3", 11_029_328 - 3_851, 10.452),
    ];
    for Published { name, parameters, gigas } in table {
        let mut network = *find(name).unwrap();
        if name == "dlv3" {
            network = network.for_pictures(520, 520);
        }
        let model = network.model(1);
        assert_eq!(trained(&model), parameters, "{name}");
        let counted = multiply_adds(&model.graph) as f64 / 1e9;
        assert!((counted - gigas).abs() < 0.0006, "{name}: {counted}");
    }
}
