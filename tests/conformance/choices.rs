//! What no primitive computes by itself: comparisons, choices, orders and places, written as arithmetic by the importer; lines
//! computed as pictures; and networks that are cut in front of what is not supported.

use crate::data::Chance;
use crate::network::{self, Tensors};
use crate::onnx::{Graph, int, ints};
use platoon::plan::format::Kernel;
use platoon::planner::CompileOptions;
use platoon::planner::passes::PassSet;
use platoon::primitive::{Binary, Primitive};
use platoon::tensor::{DType, Data, Tensor};
use std::path::{Path, PathBuf};

const ROWS: i64 = 5;
const COLUMNS: i64 = 33;

fn written(folder: &Path, graph: Graph) -> PathBuf {
    let path = folder.join("model.onnx");
    std::fs::write(&path, graph.file()).unwrap();
    path
}

fn run(model: &Path, options: &CompileOptions, value: impl FnMut() -> f32) -> (Tensors, Tensors) {
    let compiled = network::compile(model, options).unwrap_or_else(|e| panic!("{}", network::told(&*e)));
    let inputs = network::inputs_of(&compiled, value);
    let outputs = network::run(compiled, &inputs, 2).unwrap();
    (inputs, outputs)
}

/// Numbers that meet often, among them both zeros and both infinities, and what is no number.
fn meeting(seed: u64) -> impl FnMut() -> f32 {
    const SPECIAL: [f32; 9] = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1.0, -1.0, 1e-42, 3.0e38, f32::NAN];
    let mut random = Chance::new(seed);
    move || match random.below(3) {
        0 => random.signed(),
        _ => SPECIAL[random.below(SPECIAL.len())],
    }
}

fn floats<'t>(tensors: &'t Tensors, name: &str) -> &'t [f32] {
    tensors[name].as_f32().unwrap()
}

fn expect(outputs: &Tensors, name: &str, expected: impl Iterator<Item = f32>) {
    let found = floats(outputs, name);
    let expected: Vec<f32> = expected.collect();
    assert_eq!(found.len(), expected.len(), "{name}");
    for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
        assert!(f == e || f.is_nan() && e.is_nan(), "{name}: element {i} is {f} instead of {e}");
    }
}

#[test]
fn comparisons_and_choices_are_exact_for_all_numbers() {
    type Comparison = fn(f32, f32) -> bool;
    let comparisons: [(&str, Comparison); 5] = [
        ("Equal", |a, b| a == b),
        ("Greater", |a, b| a > b),
        ("GreaterOrEqual", |a, b| a >= b),
        ("Less", |a, b| a < b),
        ("LessOrEqual", |a, b| a <= b),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut g = Graph::default()
        .input("a", &[ROWS, COLUMNS])
        .input("b", &[ROWS, COLUMNS])
        .constant("half", &[], || 0.5);
    for (op, _) in comparisons {
        let (pair, edge) = (format!("{op}.pair"), format!("{op}.edge"));
        g = g
            .node(op, "a b", &pair, &[])
            .node("Cast", &pair, &format!("{op}.between"), &[int("to", 1)])
            .node(op, "a half", &edge, &[])
            .node("Cast", &edge, &format!("{op}.of"), &[int("to", 1)])
            .node("Where", &format!("{pair} a b"), &format!("{op}.where"), &[])
            .output(&format!("{op}.between"))
            .output(&format!("{op}.of"))
            .output(&format!("{op}.where"));
    }
    g = g
        .node("And", "Less.pair Less.edge", "both", &[])
        .node("Or", "Less.pair Less.edge", "either", &[])
        .node("Xor", "Less.pair Less.edge", "one", &[])
        .node("Not", "Less.pair", "none", &[])
        .node("Sign", "a", "sign", &[])
        .node("IsInf", "a", "endless", &[])
        .output("sign");
    for name in ["both", "either", "one", "none", "endless"] {
        g = g
            .node("Cast", name, &format!("{name}.f"), &[int("to", 1)])
            .output(&format!("{name}.f"));
    }
    let model = written(folder.path(), g);
    for seed in 1..5 {
        let (inputs, outputs) = run(&model, &CompileOptions::default(), meeting(seed));
        let (a, b) = (floats(&inputs, "a"), floats(&inputs, "b"));
        let pairs = || a.iter().zip(b).map(|(&a, &b)| (a, b));
        let truth = |t: bool| if t { 1.0 } else { 0.0 };
        for (op, holds) in comparisons {
            expect(&outputs, &format!("{op}.between"), pairs().map(|(a, b)| truth(holds(a, b))));
            expect(&outputs, &format!("{op}.of"), pairs().map(|(a, _)| truth(holds(a, 0.5))));
            expect(
                &outputs,
                &format!("{op}.where"),
                pairs().map(|(a, b)| if holds(a, b) { a } else { b }),
            );
        }
        let (less, edge) = (|(a, b): (f32, f32)| a < b, |a: f32| a < 0.5);
        expect(&outputs, "both.f", pairs().map(|p| truth(less(p) && edge(p.0))));
        expect(&outputs, "either.f", pairs().map(|p| truth(less(p) || edge(p.0))));
        expect(&outputs, "one.f", pairs().map(|p| truth(less(p) != edge(p.0))));
        expect(&outputs, "none.f", pairs().map(|p| truth(!less(p))));
        expect(&outputs, "endless.f", a.iter().map(|a| truth(a.is_infinite())));
        let sign = |a: f32| if a.is_nan() { a } else { truth(a > 0.0) - truth(a < 0.0) };
        expect(&outputs, "sign", a.iter().map(|&a| sign(a)));
    }
}

#[test]
fn what_is_scattered_to_computed_places_is_found_there() {
    let folder = tempfile::tempdir().unwrap();
    let g = Graph::default()
        .input("x", &[ROWS, COLUMNS])
        .constant("nines", &[ROWS, 1], || 9.0)
        .constant("zeros", &[COLUMNS], || 0.0)
        .integers("rows", &[ROWS])
        .node("ArgMin", "x", "least", &[int("axis", 1), int("keepdims", 1)])
        .node("ScatterElements", "x least nines", "raised", &[int("axis", 1)])
        .node("GatherElements", "x least", "smallest", &[int("axis", 1)])
        .node("Reshape", "smallest rows", "flat", &[])
        .node("ScatterND", "zeros least flat", "marked", &[])
        .output("raised")
        .output("marked");
    let model = written(folder.path(), g);
    let mut random = Chance::new(4);
    // Steep, so that several rows have their smallest at one place.
    let mut i = 0.0;
    let (inputs, outputs) = run(&model, &CompileOptions::default(), || {
        i += 1.0;
        random.signed() - if i as i64 % COLUMNS < 2 { 2.0 } else { 0.0 }
    });
    let x = floats(&inputs, "x");
    let columns = COLUMNS as usize;
    let (mut raised, mut marked) = (x.to_vec(), vec![0.0; columns]);
    for row in 0..ROWS as usize {
        let line = &x[row * columns..(row + 1) * columns];
        let least = (0..columns).min_by(|&a, &b| line[a].total_cmp(&line[b])).unwrap();
        raised[row * columns + least] = 9.0;
        marked[least] = line[least];
    }
    assert!(marked.iter().filter(|m| **m != 0.0).count() < ROWS as usize, "no two rows meet");
    expect(&outputs, "raised", raised.into_iter());
    expect(&outputs, "marked", marked.into_iter());
}

#[test]
fn a_guard_against_rows_that_a_mask_empties_goes_where_no_row_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    for empty in [false, true] {
        // The first row is masked in all places but one, or in all.
        let mut place = 0;
        let masked = || {
            place += 1;
            if place < 4 || (empty && place == 4) {
                f32::NEG_INFINITY
            } else {
                0.25
            }
        };
        let g = Graph::default()
            .input("x", &[4, 8])
            .constant("mask", &[4, 4], masked)
            .constant("zero", &[], || 0.0)
            .node("Transpose", "x", "keys", &[ints("perm", &[1, 0])])
            .node("MatMul", "x keys", "scores", &[])
            .node("Add", "scores mask", "masked", &[])
            .node("Softmax", "masked", "weights", &[int("axis", -1)])
            .node("IsNaN", "weights", "nothing", &[])
            .node("Where", "nothing zero weights", "guarded", &[])
            .node("MatMul", "guarded x", "y", &[])
            .output("y");
        let model = written(folder.path(), g);
        let options = CompileOptions::default();
        let compiled = network::compile(&model, &options).unwrap();
        let guards = |p: &Primitive| matches!(p, Primitive::Binary(Binary::PRelu));
        let guarded = compiled.plan.operators.iter().flat_map(|o| &o.calls).any(|c| guards(&c.primitive));
        assert_eq!(guarded, empty);
        if !empty {
            let mut random = Chance::new(2);
            let (inputs, outputs) = run(&model, &options, || random.signed());
            // The first row is the last one's.
            let (x, y) = (floats(&inputs, "x"), floats(&outputs, "y"));
            assert!(y[..8].iter().zip(&x[24..]).all(|(y, x)| (y - x).abs() < 1e-5), "{y:?}");
        }
    }
}

#[test]
fn rows_that_a_mask_empties_in_a_frame_get_what_their_guard_chooses() {
    let folder = tempfile::tempdir().unwrap();
    // As exporters guard attention: by the weights, and by the scores.
    let by_weights = |g: Graph| g.node("IsNaN", "weights", "empty", &[]);
    let by_scores = |g: Graph| {
        g.node("ReduceMax", "masked", "greatest", &[ints("axes", &[1])])
            .node("Equal", "greatest endless", "empty", &[])
    };
    for (guard, dtype) in [(0, DType::F32), (1, DType::F32), (0, DType::F16), (1, DType::F16)] {
        let g = Graph::default()
            .input("x", &[4, 8])
            .input("kept", &[4, 4])
            .constant("zero", &[], || 0.0)
            .constant("endless", &[], || f32::NEG_INFINITY)
            .node("Transpose", "x", "keys", &[ints("perm", &[1, 0])])
            .node("MatMul", "x keys", "scores", &[])
            .node("Greater", "kept zero", "seen", &[])
            .node("Where", "seen zero endless", "mask", &[])
            .node("Add", "scores mask", "masked", &[])
            .node("Softmax", "masked", "weights", &[int("axis", -1)]);
        let g = if guard == 0 { by_weights(g) } else { by_scores(g) };
        let g = g
            .node("Where", "empty zero weights", "guarded", &[])
            .node("MatMul", "guarded x", "y", &[])
            .output("y");
        let options = CompileOptions {
            dtype,
            ..CompileOptions::default()
        };
        let mut random = Chance::new(5);
        let model = written(folder.path(), g);
        let compiled = network::compile(&model, &options).unwrap_or_else(|e| panic!("{}", network::told(&*e)));
        let mut inputs = network::inputs_of(&compiled, || random.signed());
        // The second row sees nothing, the third its last place alone.
        let seen = (0..16).map(|place| if (4..11).contains(&place) { -1.0 } else { 1.0 }).collect();
        let shape = inputs["kept"].shape();
        inputs.insert("kept".into(), Tensor::new(shape, Data::F32(seen)).unwrap());
        let outputs = network::run(compiled, &inputs, 2).unwrap();
        let (x, y) = (floats(&inputs, "x"), floats(&outputs, "y"));
        assert!(y.iter().all(|y| y.is_finite()), "{dtype}: {y:?}");
        assert!(y[8..16].iter().all(|y| *y == 0.0), "{dtype}: {y:?}");
        assert!(y[16..24].iter().zip(&x[24..]).all(|(y, x)| (y - x).abs() < 1e-3), "{dtype}: {y:?}");
    }
}

#[test]
fn orders_and_places_are_those_of_the_definition() {
    let folder = tempfile::tempdir().unwrap();
    let g = Graph::default()
        .input("x", &[ROWS, COLUMNS])
        .integers("three", &[3])
        .integers("last", &[-1])
        .node("ArgMin", "x", "least", &[int("axis", 1), int("keepdims", 1)])
        .node("GatherElements", "x least", "smallest", &[int("axis", 1)])
        .node("TopK", "x three", "low order", &[int("axis", 0), int("largest", 0)])
        .node("GatherElements", "x order", "again", &[int("axis", 0)])
        .node("Unsqueeze", "order last", "tuples", &[])
        .node("GatherND", "x tuples", "rows", &[])
        .node("ReduceMin", "x", "lowest", &[ints("axes", &[1])])
        .node("ReduceProd", "x", "product", &[ints("axes", &[0])])
        .output("smallest")
        .output("low")
        .output("again")
        .output("rows")
        .output("lowest")
        .output("product");
    let model = written(folder.path(), g);
    let mut random = Chance::new(9);
    let (inputs, outputs) = run(&model, &CompileOptions::default(), || random.signed());
    let x = floats(&inputs, "x");
    let (rows, columns) = (ROWS as usize, COLUMNS as usize);
    let least = x.chunks(columns).map(|row| row.iter().copied().fold(f32::INFINITY, f32::min));
    expect(&outputs, "smallest", least.clone());
    expect(&outputs, "lowest", least);
    // The positions of the three smallest of each column, smallest first.
    let sorted: Vec<Vec<usize>> = (0..columns)
        .map(|c| {
            let mut order: Vec<usize> = (0..rows).collect();
            order.sort_by(|&i, &j| x[i * columns + c].total_cmp(&x[j * columns + c]));
            order
        })
        .collect();
    let low = || (0..3).flat_map(|k| (0..columns).map(move |c| (k, c)));
    expect(&outputs, "low", low().map(|(k, c)| x[sorted[c][k] * columns + c]));
    expect(&outputs, "again", low().map(|(k, c)| x[sorted[c][k] * columns + c]));
    let picked = low().flat_map(|(k, c)| x[sorted[c][k] * columns..][..columns].to_vec());
    expect(&outputs, "rows", picked);
    let products: Vec<f32> = (0..columns).map(|c| (0..rows).map(|r| x[r * columns + c]).product()).collect();
    for (found, expected) in floats(&outputs, "product").iter().zip(products) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs());
    }
}

#[test]
fn lines_are_computed_as_pictures_of_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Chance::new(4);
    let mut g = Graph::default().input("x", &[2, 6, 40]);
    for (name, dims) in [("w", &[8, 6, 5][..]), ("bias", &[8]), ("slope", &[1, 8, 1]), ("v", &[16, 4, 4])] {
        g = g.constant(name, dims, || random.signed());
    }
    let g = g
        .node("Conv", "x w bias", "c", &[ints("pads", &[2, 2]), ints("dilations", &[1])])
        .node("Mul", "c slope", "m", &[])
        .node("Relu", "m", "r", &[])
        .node("Concat", "r m", "both", &[int("axis", 1)])
        .node("MaxPool", "both", "p", &[ints("kernel_shape", &[3]), ints("strides", &[2])])
        .node("ConvTranspose", "p v", "wide", &[ints("strides", &[2])])
        .node("ReduceMean", "wide", "mean", &[ints("axes", &[2])])
        .output("wide")
        .output("mean");
    let model = written(folder.path(), g);
    let of = |passes| CompileOptions {
        passes,
        ..CompileOptions::default()
    };
    let mut data = Chance::new(8);
    let numbers: Vec<f32> = (0..2 * 6 * 40).map(|_| data.signed()).collect();
    let outputs = |passes| {
        let mut numbers = numbers.iter().copied();
        run(&model, &of(passes), || numbers.next().unwrap()).1
    };
    let (pictures, lines) = (outputs(PassSet::ALL), outputs(PassSet::ALL.without(PassSet::LINES)));
    for (name, expected) in &lines {
        let found: &Tensor = &pictures[name];
        assert_eq!(network::difference(found, expected, 1e-5, 1e-6), None, "{name}");
    }
    let plan = network::compile(&model, &of(PassSet::ALL)).unwrap().plan;
    let convolutions: Vec<_> = plan
        .operators
        .iter()
        .filter(|o| matches!(o.calls[0].primitive, Primitive::Conv { .. } | Primitive::ConvTranspose { .. }))
        .collect();
    assert_eq!(convolutions.len(), 2);
    assert!(convolutions.iter().all(|o| o.tactic.kernel != Kernel::Generic));
}

#[test]
fn a_network_is_cut_in_front_of_what_is_not_supported() {
    let folder = tempfile::tempdir().unwrap();
    let g = Graph::default()
        .input("boxes", &[1, 9, 4])
        .input("scores", &[1, 2, 9])
        .node("Sigmoid", "scores", "likely", &[])
        .node("NonMaxSuppression", "boxes likely", "picked", &[])
        .node("Cast", "picked", "result", &[int("to", 1)])
        .output("result");
    let model = written(folder.path(), g);
    let refused = network::compile(&model, &CompileOptions::default())
        .err()
        .map(|e| network::told(&*e));
    let refused = refused.expect("boxes of an unknown number are refused");
    assert!(refused.contains("NonMaxSuppression") && refused.contains("--output"), "{refused}");
    let cut = |outputs: &[&str]| CompileOptions {
        outputs: outputs.iter().map(|o| (*o).to_owned()).collect(),
        ..CompileOptions::default()
    };
    let mut random = Chance::new(3);
    let (inputs, outputs) = run(&model, &cut(&["likely", "boxes"]), || random.signed());
    assert_eq!(floats(&outputs, "boxes"), floats(&inputs, "boxes"));
    let likely = floats(&inputs, "scores").iter().map(|x| 1.0 / (1.0 + (-x).exp()));
    assert!(floats(&outputs, "likely").iter().zip(likely).all(|(f, e)| (f - e).abs() < 1e-6));
    let unknown = network::compile(&model, &cut(&["nothing"]))
        .err()
        .map(|e| network::told(&*e))
        .unwrap();
    assert!(unknown.contains("`nothing`") && unknown.contains("result"), "{unknown}");
}

#[test]
fn what_is_not_chosen_does_not_come_through() {
    let folder = tempfile::tempdir().unwrap();
    let g = Graph::default()
        .input("x", &[ROWS, COLUMNS])
        .input("other", &[ROWS, COLUMNS])
        .constant("zero", &[], || 0.0)
        .constant("one", &[], || 1.0)
        .constant("endless", &[], || f32::NEG_INFINITY)
        .node("IsNaN", "x", "none", &[])
        .node("Where", "none zero x", "zeroed", &[])
        .node("Where", "none one x", "filled", &[])
        .node("Where", "none endless x", "masked", &[])
        .node("Where", "none other x", "other.or", &[])
        .node("Not", "none", "some", &[])
        .node("Where", "some x zero", "zeroed.2", &[])
        .node("Where", "some x other", "other.or.2", &[]);
    let names = ["zeroed", "filled", "masked", "other.or", "zeroed.2", "other.or.2"];
    let model = written(folder.path(), names.iter().fold(g, |g, name| g.output(name)));
    for (seed, dtype) in [(1, DType::F32), (2, DType::F16)] {
        let options = CompileOptions {
            dtype,
            ..CompileOptions::default()
        };
        let (mut random, mut place) = (Chance::new(seed), 0);
        // Eighths are exact in halves; every third is no number, and others are as large as numbers get.
        let drawn = || {
            place += 1;
            match place % 9 {
                1 | 4 | 7 => f32::NAN,
                2 => f32::INFINITY,
                3 => f32::NEG_INFINITY,
                _ => (random.signed() * 8.0).round() / 8.0,
            }
        };
        let compiled = network::compile(&model, &options).unwrap_or_else(|e| panic!("{}", network::told(&*e)));
        let inputs = network::inputs_of(&compiled, drawn);
        let outputs = network::run(compiled, &inputs, 2).unwrap();
        // What the other one is where it is chosen is its own: a NaN too.
        let (x, other) = (floats(&inputs, "x"), floats(&inputs, "other"));
        let fill = |value: f32| x.iter().map(move |x| if x.is_nan() { value } else { *x });
        for (name, value) in [("zeroed", 0.0), ("zeroed.2", 0.0), ("filled", 1.0), ("masked", f32::NEG_INFINITY)] {
            expect(&outputs, name, fill(value));
        }
        for name in ["other.or", "other.or.2"] {
            let expected = x.iter().zip(other).map(|(x, o)| if x.is_nan() { *o } else { *x });
            for (i, (found, expected)) in floats(&outputs, name).iter().zip(expected).enumerate() {
                let same = *found == expected || found.is_nan() && expected.is_nan();
                assert!(same, "{name} of {dtype}: element {i} is {found} instead of {expected}");
            }
        }
    }
}

#[test]
fn what_is_no_number_compares_as_false() {
    let folder = tempfile::tempdir().unwrap();
    let g = Graph::default()
        .input("x", &[ROWS, COLUMNS])
        .constant("zero", &[], || 0.0)
        .constant("low", &[], || -9.0)
        .integers("last", &[1])
        .node("Less", "x zero", "less", &[])
        .node("GreaterOrEqual", "x zero", "rest", &[])
        .node("Equal", "x x", "same", &[])
        .node("Not", "same", "none", &[])
        .node("Or", "less rest", "some", &[])
        .node("IsInf", "x", "endless", &[])
        .node("And", "less endless", "lowest", &[])
        .node("And", "lowest same", "lowest.2", &[])
        .node("Where", "lowest.2 low x", "raised", &[])
        .node("Cast", "less", "numbers", &[int("to", 1)])
        .node("ReduceSum", "numbers last", "count", &[int("keepdims", 0)])
        .node("Cast", "less", "integers", &[int("to", 6)])
        .node("Unsqueeze", "less last", "looked.at", &[])
        .node("Where", "looked.at zero low", "chosen", &[]);
    let truths = ["less", "rest", "same", "none", "some", "lowest", "integers"];
    let outputs = || truths.iter().chain(&["raised", "count", "chosen"]);
    // The file declares floats alone, which truth values are not.
    let model = written(folder.path(), g.output("raised"));
    for (seed, dtype) in [(1, DType::F32), (2, DType::F16)] {
        let options = CompileOptions {
            dtype,
            outputs: outputs().map(|o| (*o).to_owned()).collect(),
            ..CompileOptions::default()
        };
        let (mut random, mut place) = (Chance::new(seed), 0);
        // Eighths are exact in halves.
        let drawn = || {
            place += 1;
            match place % 6 {
                1 | 4 => f32::NAN,
                2 => f32::INFINITY,
                3 => f32::NEG_INFINITY,
                _ => (random.signed() * 8.0).round() / 8.0,
            }
        };
        let (inputs, outputs) = run(&model, &options, drawn);
        let x = floats(&inputs, "x");
        let holds: [fn(f32) -> bool; 7] = [
            |x| x < 0.0,
            |x| x >= 0.0,
            |x| !x.is_nan(),
            f32::is_nan,
            |x| !x.is_nan(),
            |x| x == f32::NEG_INFINITY,
            |x| x < 0.0,
        ];
        for (name, holds) in truths.iter().zip(holds) {
            for (i, &x) in x.iter().enumerate() {
                let found = outputs[*name].get_f64(i).unwrap();
                assert_eq!(found, f64::from(u8::from(holds(x))), "{name} of {dtype} for {x}");
            }
        }
        let below = |x: &f32| if *x < 0.0 { 1.0 } else { 0.0 };
        expect(&outputs, "raised", x.iter().map(|&x| if x == f32::NEG_INFINITY { -9.0 } else { x }));
        expect(&outputs, "count", x.chunks(COLUMNS as usize).map(|row| row.iter().map(below).sum()));
        expect(&outputs, "chosen", x.iter().map(|&x| if x < 0.0 { 0.0 } else { -9.0 }));
    }
}
