//! Functions of angles and their kin, which no primitive computes: the importer's formulas against f64, in f32 and in plans of halves.

use crate::data::Chance;
use crate::network::{self, Tensors};
use crate::onnx::{Graph, int};
use platoon::planner::CompileOptions;
use platoon::tensor::{DType, Data, Tensor};
use std::path::Path;

/// Numbers of one test.
const COUNT: usize = 4096;

/// What every function is asked for besides numbers of its range.
const SPECIAL: [f32; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-42,
    -1e-7,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    1.000_000_1,
    -0.999_999_94,
];

/// An operator, what it is in f64, the numbers it is asked for, and the errors it may make: absolute, and relative to the result.
type Function = (&'static str, fn(f64) -> f64, [f32; 2], f64, f64);

const FUNCTIONS: [Function; 13] = [
    ("Sin", f64::sin, [-9_999.873, 9_999.873], 1.6e-7, 0.0),
    ("Sin", f64::sin, [-0.01, 0.01], 0.0, 2e-7),
    ("Cos", f64::cos, [-9_999.873, 9_999.873], 2e-7, 0.0),
    ("Tan", f64::tan, [-9_999.873, 9_999.873], 2e-7, 1e-5),
    ("Atan", f64::atan, [-10.0, 10.0], 1e-10, 3e-7),
    ("Atan", f64::atan, [-1e9, 1e9], 0.0, 2e-7),
    ("Asin", f64::asin, [-1.1, 1.1], 1e-10, 4e-7),
    ("Acos", f64::acos, [-1.1, 1.1], 1e-10, 4e-7),
    ("Sinh", f64::sinh, [-90.0, 90.0], 1e-10, 1e-6),
    ("Cosh", f64::cosh, [-90.0, 90.0], 0.0, 1e-6),
    ("Asinh", f64::asinh, [-1e3, 1e3], 1e-10, 6e-7),
    ("Acosh", f64::acosh, [0.0, 1e3], 1e-10, 6e-7),
    ("Atanh", f64::atanh, [-1.1, 1.1], 1e-10, 6e-7),
];

fn run(graph: Graph, options: &CompileOptions, inputs: &[(&str, Vec<f32>)]) -> Tensors {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.onnx");
    std::fs::write(&model, graph.file()).unwrap();
    let compiled = compiled(&model, options);
    let tensor = |port: &platoon::plan::format::Port| {
        let values = inputs.iter().find(|(name, _)| *name == port.name).unwrap().1.clone();
        (port.name.clone(), Tensor::new(port.view.layout.shape, Data::F32(values)).unwrap())
    };
    let inputs = compiled.plan.tenants[0].inputs.iter().map(tensor).collect();
    network::run(compiled, &inputs, 2).unwrap()
}

fn compiled(model: &Path, options: &CompileOptions) -> platoon::planner::Compiled {
    network::compile(model, options).unwrap_or_else(|e| panic!("{}", network::told(&*e)))
}

/// Special numbers first, then numbers between `low` and `high`.
fn numbers(seed: u64, [low, high]: [f32; 2]) -> Vec<f32> {
    let mut random = Chance::new(seed);
    let middle = (low + high) / 2.0;
    let mut all = SPECIAL.to_vec();
    all.resize_with(COUNT, || middle + random.signed() * (high - middle));
    all
}

/// True where a function has no number, or an endless one, or `found` is as near as `absolute` and `relative` ask for.
fn agrees(found: f32, expected: f64, absolute: f64, relative: f64) -> bool {
    let nearest = expected as f32;
    if nearest.is_nan() || nearest.is_infinite() {
        return (found.is_nan() && nearest.is_nan()) || found == nearest;
    }
    (f64::from(found) - expected).abs() <= absolute + relative * expected.abs() + 1e-37
}

#[test]
fn functions_of_angles_and_their_kin_are_those_of_f64() {
    for (op, exact, range, absolute, relative) in FUNCTIONS {
        let graph = Graph::default().input("x", &[COUNT as i64]).node(op, "x", "y", &[]).output("y");
        let x = numbers(7, range);
        let outputs = run(graph, &CompileOptions::default(), &[("x", x.clone())]);
        let wrong = x
            .iter()
            .zip(outputs["y"].as_f32().unwrap())
            .find(|&(&x, &y)| !agrees(y, exact(f64::from(x)), absolute, relative));
        if let Some((x, y)) = wrong {
            panic!("{op} of {x} is {y} instead of {}", exact(f64::from(*x)));
        }
    }
}

#[test]
fn a_large_angle_keeps_its_digits_in_a_plan_of_halves() {
    // Sixteen frequencies of an embedding, whose angles halves hold to a quarter of a turn at best.
    let mut power = 0.0f32;
    let graph = Graph::default()
        .input("x", &[COUNT as i64, 1])
        .constant("frequencies", &[1, 16], || {
            power += 0.25;
            1_234.567 * (-power).exp2()
        })
        .node("Mul", "x frequencies", "angles", &[])
        .node("Sin", "angles", "sines", &[])
        .node("Cos", "angles", "cosines", &[])
        .node("Concat", "sines cosines", "both", &[int("axis", 1)])
        .output("both");
    let mut random = Chance::new(3);
    let x: Vec<f32> = (0..COUNT).map(|_| random.signed()).collect();
    let options = CompileOptions {
        dtype: DType::F16,
        ..CompileOptions::default()
    };
    let outputs = run(graph, &options, &[("x", x.clone())]);
    let both = outputs["both"].as_f32().unwrap();
    for (row, &x) in both.chunks(32).zip(&x) {
        for k in 0..16 {
            let angle = x * (1_234.567 * (-0.25 * (k + 1) as f32).exp2());
            let expected = [angle.sin(), angle.cos()];
            let found = [row[k], row[16 + k]];
            assert!(
                found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 6e-4),
                "{found:?} of {angle} instead of {expected:?}"
            );
        }
    }
}

#[test]
fn remainders_of_floats_are_those_of_the_definition() {
    let graph = Graph::default()
        .input("x", &[COUNT as i64])
        .input("d", &[COUNT as i64])
        .constant("turn", &[], || std::f32::consts::TAU)
        .node("Mod", "x d", "y", &[int("fmod", 1)])
        .node("Mod", "x turn", "wrapped", &[int("fmod", 1)])
        .output("y")
        .output("wrapped");
    let mut random = Chance::new(5);
    let (mut x, mut d) = (Vec::new(), Vec::new());
    for place in 0..COUNT {
        let divisor = random.signed() * 4.123_456_7;
        let quotient = random.signed() * 1_999.123_5;
        // Every other dividend is a multiple, but for rounding.
        let quotient = if place % 2 == 0 { quotient.round() } else { quotient };
        d.push(divisor);
        x.push(quotient * divisor);
    }
    (x[0], d[0]) = (7.5, f32::INFINITY);
    let outputs = run(graph, &CompileOptions::default(), &[("x", x.clone()), ("d", d.clone())]);
    let turns = vec![std::f32::consts::TAU; COUNT];
    for (name, divisors) in [("y", &d), ("wrapped", &turns)] {
        for ((&x, &d), &found) in x.iter().zip(divisors).zip(outputs[name].as_f32().unwrap()) {
            let expected = x % d;
            let unit = d.abs() * f32::EPSILON;
            assert!(
                (found - expected).abs() <= if unit.is_finite() { unit } else { 0.0 },
                "{x} % {d} is {found} instead of {expected}"
            );
        }
    }
}
