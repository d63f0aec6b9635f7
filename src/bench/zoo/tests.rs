//! Sizes against published ones, and activations that stay in range.

use super::count::{multiply_adds, trained};
use super::member::{Member, Source};
use super::run::Group;
use super::*;
use crate::plan::format::{Kernel, Operator};
use crate::planner::simulate::{Calibration, Machine, Observed};
use crate::planner::{CompileOptions, boards};
use crate::runtime::Options;
use crate::units::Nanos;

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
        published("vit", 86_567_656, 17.564),
        // At 520 by 520, less an auxiliary head on 40 channels of 65 by 65 pixels: 40*10*9 + 2*10 + 10*21 + 21 parameters and
        // (40*10*9 + 10*21) * 65 * 65 multiply-adds.
        published("dlv3", 11_029_328 - 3_851, 10.452 - 0.016_097),
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

/// What the two networks over tokens hold, counted by hand from the sizes of their layers.
#[test]
fn sizes_of_the_networks_over_tokens_are_those_of_their_layers() {
    let size = |name| {
        let model = find(name).unwrap().model(1);
        (trained(&model), multiply_adds(&model.graph))
    };
    let (words, layer, last) = (20_000 * 256, 2 * 4 * 256 * 256, 256 * 6);
    assert_eq!(size("lstm"), (words + 2 * (layer + 2 * 4 * 256) + last + 6, 32 * 2 * layer + last));
    let (items, attention, forward) = (50_000 * 64 + 21 * 64, 4 * 64 * 64, 2 * 64 * 256);
    let (norms, biases) = (2 * 2 * 64, 4 * 64 + 256 + 64);
    let top = 1344 * 1024 + 1024 * 512 + 512 * 256 + 256;
    let parameters = items + attention + forward + norms + biases + top + 1024 + 512 + 256 + 1;
    assert_eq!(size("bst"), (parameters, 21 * (attention + forward) + 2 * 21 * 21 * 64 + top));
}

#[test]
fn the_modules_of_the_other_side_are_listed_with_the_same_batches() {
    let text = include_str!("models.py");
    for network in ALL {
        let entry = text
            .lines()
            .find(|l| l.trim_start().starts_with(&format!("\"{}\": (", network.name)));
        let batch = format!(", {}),", network.batch);
        assert!(entry.is_some_and(|l| l.ends_with(&batch)), "{}: {entry:?}", network.name);
    }
}

/// The results of a network on the CPU, of a batch of one.
fn results(network: Network, dtype: DType) -> Vec<f32> {
    let board = boards::load("host").unwrap();
    let group = Group {
        name: network.name.into(),
        members: vec![Member {
            source: Source::Zoo(network),
            batch: 1,
        }],
    };
    let compile = CompileOptions {
        dtype,
        ..CompileOptions::default()
    };
    // Half floats take the processor's plain kernels, which need minutes for the largest networks.
    let options = Options {
        watchdog: None,
        ..Options::default()
    };
    let compiled = group.compile(vec![network.model(1)], &board, &compile).unwrap();
    let mut zoo = group.open(compiled, &board, &options).unwrap();
    let results = zoo.results().unwrap();
    zoo.close();
    results[0]
        .iter()
        .flat_map(|(_, tensor)| tensor.as_f32().unwrap().to_vec())
        .collect()
}

/// Checks that results neither vanish nor grow, and that half floats, which hold nothing above 65504, give the same ones.
fn stays_in_range(network: Network) {
    let whole = results(network, DType::F32);
    let power = whole.iter().map(|x| x * x).sum::<f32>() / whole.len() as f32;
    assert!((0.02..50.0).contains(&power), "{}: mean square {power}", network.name);
    let half = results(network, DType::F16);
    assert_eq!(whole.len(), half.len());
    let difference = whole.iter().zip(&half).map(|(a, b)| (a - b) * (a - b)).sum::<f32>() / whole.len() as f32;
    // Rounding every activation to 11 bits leaves far less than this through a hundred layers; an overflow leaves no number.
    assert!(difference < 1e-3 * power, "{}: {difference} of {power}", network.name);
}

/// Each of the eight blocks of MobileNetV3 that squeeze does so in one operator of five primitives: of halves alone, as the
/// processor's fast kernels take these one by one. What it multiplies goes straight into the convolution behind.
#[test]
fn squeeze_and_excitation_of_halves_is_one_operator_and_gates_a_convolution() {
    let network = find("m3").unwrap().for_pictures(64, 64);
    let group = Group {
        name: network.name.into(),
        members: vec![Member {
            source: Source::Zoo(network),
            batch: 1,
        }],
    };
    let squeezing = |board: &str, dtype| {
        let board = boards::load(board).unwrap();
        let options = CompileOptions {
            dtype,
            ..CompileOptions::default()
        };
        let plan = group.compile(vec![network.model(1)], &board, &options).unwrap().plan;
        let of_five = plan.operators.iter().filter(|o| o.calls.len() == 5).count();
        let kernels = plan.operators.iter().filter(|o| o.tactic.kernel == Kernel::Squeeze).count();
        // Of single pixels the same kernel takes fully connected layers.
        let pixels = |o: &Operator| o.outputs[0].layout.shape.dims().iter().skip(2).product::<u32>();
        let warps = plan.operators.iter().filter(|o| o.tactic.kernel == Kernel::ConvWarps);
        let gated = warps.filter(|o| pixels(o) > 1).count();
        (of_five, kernels, gated)
    };
    assert_eq!(squeezing("h200", DType::F16), (8, 8, 8));
    assert_eq!(squeezing("jetson-agx-orin", DType::F16), (8, 8, 8));
    assert_eq!(squeezing("host", DType::F32), (0, 0, 0));
}

/// Its 32 steps wait for each other in both layers, however little a step computes.
#[test]
fn a_recurrence_is_predicted_to_take_its_steps_time_on_a_gpu() {
    let predicted = |board: &str| {
        let group = Group::parse("lstm:1", None).unwrap();
        let options = CompileOptions {
            times: None,
            ..CompileOptions::default()
        };
        let compiled = group.plan(&boards::load(board).unwrap(), &options).unwrap();
        compiled.plan.prediction.longest().as_ms()
    };
    let time = predicted("h200");
    assert!((0.08..0.2).contains(&time), "{time} ms");
}

/// From figures of its own, a board's simulator finds back to those that frames were made with, on any number of cores.
#[test]
fn a_fit_finds_the_figures_that_frames_were_made_with() {
    let board = boards::load("h200").unwrap();
    let group = Group::parse("bst:8+bst:64", None).unwrap();
    let options = CompileOptions {
        budget: 100,
        samples: 24,
        rivals: 1,
        ..CompileOptions::default()
    };
    let compiled = group.plan(&board, &options).unwrap();
    let own = Machine::of(&board).calibration;
    let true_one = Calibration {
        block: 900,
        crowd: 6 * own.crowd,
        ..own
    };
    let unknown = |_: &_, _: &Operator| None;
    let machine = |calibration| Machine::of(&board).calibrated(Some(calibration));
    let frames = std::iter::once(&compiled.plan).chain(&compiled.rivals).map(|plan| {
        let whole = Observed {
            plan: plan.clone(),
            time: Nanos(1_000_000),
        };
        let time = 1e6 * (1.0 + whole.error(machine(true_one), &board, &unknown));
        Observed {
            time: Nanos(time as u64),
            ..whole
        }
    });
    let frames: Vec<Observed> = frames.collect();
    assert!(frames.len() > 24);
    let off = |calibration| {
        frames
            .iter()
            .map(|f| f.error(machine(calibration), &board, &unknown).abs())
            .sum::<f64>()
            / frames.len() as f64
    };
    let fitted = own.fit(&frames, &board, &unknown);
    let (before, after) = (off(own), off(fitted));
    // Frames of some ten microseconds, in whole nanoseconds.
    assert!(
        off(true_one) < 1e-4 && before > 0.05 && after < before / 3.0,
        "{before} {after} {fitted:?}"
    );
    assert_eq!(fitted, own.fit(&frames, &board, &unknown));
}

/// The deep networks on small pictures, and those over tokens.
#[test]
fn activations_stay_in_range() {
    for name in ["r18", "r101", "m3", "d121", "dlv3", "vit"] {
        stays_in_range(find(name).unwrap().for_pictures(64, 96));
    }
    for name in ["lstm", "bst"] {
        stays_in_range(*find(name).unwrap());
    }
}

#[test]
#[ignore = "large: a gigabyte of weights and some ten minutes; run with --ignored"]
fn activations_of_all_networks_stay_in_range_at_their_own_size() {
    ALL.into_iter().for_each(stays_in_range);
}
