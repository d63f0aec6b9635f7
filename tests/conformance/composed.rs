//! Operators that are written as several primitives, beside what their definitions give: pools of a norm, scattering that combines,
//! rotary embeddings.

use crate::data::Chance;
use crate::network::{self, Tensors};
use crate::onnx::{Attribute, Graph, graph, int, ints, string};
use platoon::planner::{self, CompileOptions, Ports, boards};
use platoon::tensor::{DType, Data, Tensor};
use std::collections::BTreeMap;
use std::path::Path;

/// The operator set that all of these are in.
const OPSET: i64 = 23;

/// What a network gives for the inputs `given` on this processor. A GPU's plan of it is made too.
fn run(folder: &Path, graph: Graph, dtype: DType, given: &[(&str, Vec<f32>)]) -> Tensors {
    let path = folder.join("model.onnx");
    std::fs::write(&path, graph.file_of(OPSET)).unwrap();
    let options = CompileOptions {
        dtype,
        // What is between f32 ports alone would stay f32.
        ports: if dtype == DType::F16 { Ports::Half } else { Ports::Declared },
        ..CompileOptions::default()
    };
    let gpu = boards::load("h200").unwrap();
    planner::compile_network(&path, BTreeMap::new(), BTreeMap::new(), &gpu, &options).unwrap_or_else(|e| panic!("{}", network::told(&e)));
    let compiled = network::compile(&path, &options).unwrap_or_else(|e| panic!("{}", network::told(&*e)));
    let mut inputs = network::inputs_of(&compiled, || 0.0);
    for (name, values) in given {
        let shape = inputs[*name].shape();
        inputs.insert((*name).into(), Tensor::new(shape, Data::F32(values.clone())).unwrap());
    }
    network::run(compiled, &inputs, 2).unwrap()
}

fn refused(folder: &Path, graph: Graph) -> String {
    let path = folder.join("model.onnx");
    std::fs::write(&path, graph.file_of(OPSET)).unwrap();
    let error = network::compile(&path, &CompileOptions::default()).err();
    network::told(&*error.expect("it is refused"))
}

/// What plans of halves may be off by, of themselves and of 1.
fn near(outputs: &Tensors, name: &str, expected: &[f32], dtype: DType) {
    let found: Vec<f64> = (0..outputs[name].len()).map(|i| outputs[name].get_f64(i).unwrap()).collect();
    assert_eq!(found.len(), expected.len(), "{name}");
    let off = if dtype == DType::F16 { 4e-3 } else { 2e-6 };
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let e = f64::from(e);
        assert!(
            (f - e).abs() <= off * e.abs().max(1.0),
            "{name}, {dtype}: element {i} is {f} instead of {e}"
        );
    }
}

fn signed(seed: u64, count: i64) -> Vec<f32> {
    let mut random = Chance::new(seed);
    (0..count).map(|_| random.signed()).collect()
}

/// Along one axis of a picture: positions, and the elements of each window.
fn windows(extent: i64, [kernel, stride, dilation, begin, end]: [i64; 5], ceil: bool) -> Vec<Vec<usize>> {
    let free = extent + begin + end - (kernel - 1) * dilation - 1;
    let mut count = free / stride + 1;
    if ceil && free % stride != 0 && count * stride < extent + begin {
        count += 1;
    }
    let window = |i: i64| (0..kernel).map(move |k| i * stride + k * dilation - begin);
    (0..count)
        .map(|i| window(i).filter(|at| (0..extent).contains(at)).map(|at| at as usize).collect())
        .collect()
}

#[test]
fn pools_of_a_norm_count_padding_as_nothing() {
    const H: i64 = 9;
    const W: i64 = 12;
    let folder = tempfile::tempdir().unwrap();
    // Kernel, stride, dilation, and padding in front and behind; the last two with `ceil_mode` have windows that stick out.
    let shapes = [
        ([3, 1, 1, 0, 0], false),
        ([3, 2, 1, 1, 1], false),
        ([2, 2, 2, 1, 0], false),
        ([4, 3, 1, 1, 2], true),
        ([2, 5, 2, 0, 1], true),
    ];
    // Large enough that halves hold no power of them.
    let x: Vec<f32> = signed(3, 2 * H * W).into_iter().map(|x| 300.0 * x).collect();
    for (shape, ceil) in shapes {
        for p in [1i64, 2, 3, 5] {
            let [kernel, stride, dilation, begin, end] = shape;
            let attributes = [
                int("p", p),
                int("ceil_mode", ceil.into()),
                ints("kernel_shape", &[kernel; 2]),
                ints("strides", &[stride; 2]),
                ints("dilations", &[dilation; 2]),
                ints("pads", &[begin, begin, end, end]),
            ];
            let graph = || {
                Graph::default()
                    .input("x", &[1, 2, H, W])
                    .node("LpPool", "x", "y", &attributes)
                    .node("GlobalLpPool", "x", "whole", &[int("p", p)])
                    .output("y")
                    .output("whole")
            };
            let norm = |elements: &mut dyn Iterator<Item = f32>| {
                let sum: f64 = elements.map(|x| f64::from(x).abs().powi(p as i32)).sum();
                sum.powf(1.0 / p as f64) as f32
            };
            let mut expected = Vec::new();
            let mut whole = Vec::new();
            for channel in x.chunks((H * W) as usize) {
                whole.push(norm(&mut channel.iter().copied()));
                for rows in windows(H, shape, ceil) {
                    for columns in windows(W, shape, ceil) {
                        let places = rows.iter().flat_map(|r| columns.iter().map(move |c| r * W as usize + c));
                        expected.push(norm(&mut places.map(|at| channel[at])));
                    }
                }
            }
            for dtype in [DType::F32, DType::F16] {
                let outputs = run(folder.path(), graph(), dtype, &[("x", x.clone())]);
                near(&outputs, "y", &expected, dtype);
                near(&outputs, "whole", &whole, dtype);
            }
        }
    }
    let wrong = Graph::default()
        .input("x", &[1, 2, H, W])
        .node("LpPool", "x", "y", &[int("p", 0), ints("kernel_shape", &[2, 2])])
        .output("y");
    assert!(refused(folder.path(), wrong).contains("attribute `p`"));
}

type Combination = (&'static str, fn(f32, f32) -> f32);
const COMBINATIONS: [Combination; 4] = [("add", |a, b| a + b), ("mul", |a, b| a * b), ("max", f32::max), ("min", f32::min)];

#[test]
fn updates_are_combined_with_what_is_at_their_places() {
    const ROWS: i64 = 7;
    const COUNT: i64 = 23;
    const RUN: i64 = 3;
    let folder = tempfile::tempdir().unwrap();
    let mut random = Chance::new(6);
    // Most updates go to one row, some to none; one counts from the end.
    let mut rows: Vec<i64> = (0..COUNT).map(|i| if i % 2 == 0 { 4 } else { random.below(4) as i64 }).collect();
    rows[3] = -ROWS;
    let (data, updates) = (signed(7, ROWS * RUN), signed(8, COUNT * RUN));
    for (name, combine) in COMBINATIONS {
        let (mut runs, mut elements) = (data.clone(), data.clone());
        for (update, &row) in rows.iter().enumerate() {
            let row = row.rem_euclid(ROWS) as usize;
            for column in 0..RUN as usize {
                let (at, from) = (row * RUN as usize + column, update * RUN as usize + column);
                runs[at] = combine(runs[at], updates[from]);
                // Of the elements, each column's updates are turned by as many rows.
                let turned = (row + column) % ROWS as usize * RUN as usize + column;
                elements[turned] = combine(elements[turned], updates[from]);
            }
        }
        let turned = rows.iter().flat_map(|row| (0..RUN).map(move |c| (row.rem_euclid(ROWS) + c) % ROWS));
        let turned: Vec<i64> = turned.collect();
        for computed in [false, true] {
            for dtype in [DType::F32, DType::F16] {
                let mut g = Graph::default()
                    .input("data", &[ROWS, RUN])
                    .input("updates", &[COUNT, RUN])
                    .integers("tuples", &[COUNT, 1])
                    .integers("table", &[COUNT, RUN]);
                if computed {
                    g = g
                        .input("rows.f", &[COUNT])
                        .input("turned.f", &[COUNT * RUN])
                        .node("Cast", "rows.f", "rows", &[int("to", 7)])
                        .node("Cast", "turned.f", "turned", &[int("to", 7)]);
                } else {
                    g = g.integers("rows", &rows).integers("turned", &turned);
                }
                let by = string("reduction", name);
                let g = g
                    .node("Reshape", "rows tuples", "indices", &[])
                    .node("ScatterND", "data indices updates", "runs", std::slice::from_ref(&by))
                    .node("Reshape", "turned table", "places", &[])
                    .node("ScatterElements", "data places updates", "elements", &[by, int("axis", 0)])
                    .output("runs")
                    .output("elements");
                let mut given = vec![("data", data.clone()), ("updates", updates.clone())];
                if computed {
                    given.push(("rows.f", rows.iter().map(|&r| r as f32).collect()));
                    given.push(("turned.f", turned.iter().map(|&r| r as f32).collect()));
                }
                let outputs = run(folder.path(), g, dtype, &given);
                near(&outputs, "runs", &runs, dtype);
                near(&outputs, "elements", &elements, dtype);
            }
        }
    }
}

#[test]
fn integers_are_combined_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let places = [3i64, 0, 3, 3, -1, 0];
    let (data, updates) = ([7.0f32, -4.0, 9.0, 2.0, -8.0], [5.0f32, -6.0, 3.0, -2.0, 11.0, 13.0]);
    for (name, combine) in COMBINATIONS {
        let mut expected = data;
        for (&place, &update) in places.iter().zip(&updates) {
            let at = place.rem_euclid(data.len() as i64) as usize;
            expected[at] = combine(expected[at], update);
        }
        for (computed, to) in [(false, 6), (true, 6), (false, 7), (true, 7)] {
            let mut g = Graph::default().input("x", &[5]).input("u", &[6]);
            g = match computed {
                true => g.input("p", &[6]).node("Cast", "p", "places", &[int("to", to)]),
                false => g.integers("places", &places),
            };
            let g = g
                .node("Cast", "x", "data", &[int("to", to)])
                .node("Cast", "u", "updates", &[int("to", to)])
                .node("ScatterElements", "data places updates", "whole", &[string("reduction", name)])
                .node("Cast", "whole", "y", &[int("to", 1)])
                .output("y");
            let mut given = vec![("x", data.to_vec()), ("u", updates.to_vec())];
            if computed {
                given.push(("p", places.iter().map(|&p| p as f32).collect()));
            }
            let outputs = run(folder.path(), g, DType::F32, &given);
            assert_eq!(outputs["y"].as_f32().unwrap(), expected, "{name}, computed: {computed}");
        }
    }
}

#[test]
fn what_cannot_be_combined_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let scatter = |count: i64, reduction: &str| {
        Graph::default()
            .input("data", &[count])
            .input("updates", &[count])
            .node("ArgMax", "updates", "place", &[int("axis", 0), int("keepdims", 1)])
            .integers("many", &[count])
            .node("Expand", "place many", "places", &[])
            .node("ScatterElements", "data places updates", "y", &[string("reduction", reduction)])
            .output("y")
    };
    let many = refused(folder.path(), scatter(1 << 12, "add"));
    assert!(
        many.contains("`indices`") && many.contains("constants") && many.contains("--output"),
        "{many}"
    );
    let factors = refused(folder.path(), scatter(1 << 9, "mul"));
    assert!(
        factors.contains("`indices`") && factors.contains("256") && factors.contains("--output"),
        "{factors}"
    );
    let unknown = refused(folder.path(), scatter(4, "mean"));
    assert!(unknown.contains("`reduction`") && unknown.contains("`mean`"), "{unknown}");
    let logical = Graph::default()
        .input("x", &[4])
        .integers("places", &[0, 1, 1, 2])
        .node("Cast", "x", "truths", &[int("to", 9)])
        .node("ScatterElements", "truths places truths", "z", &[string("reduction", "max")])
        .node("Cast", "z", "y", &[int("to", 1)])
        .output("y");
    let logical = refused(folder.path(), logical);
    assert!(logical.contains("`reduction`") && logical.contains("Cast"), "{logical}");
}

#[test]
fn pairs_of_features_are_turned_by_their_positions() {
    const BATCH: i64 = 2;
    const HEADS: i64 = 3;
    const STEPS: i64 = 5;
    const SIZE: i64 = 8;
    const POSITIONS: i64 = 11;
    let folder = tempfile::tempdir().unwrap();
    let [batch, heads, steps, size] = [BATCH, HEADS, STEPS, SIZE].map(|n| n as usize);
    let x = signed(1, BATCH * HEADS * STEPS * SIZE);
    let mut random = Chance::new(2);
    let positions: Vec<i64> = (0..BATCH * STEPS).map(|_| random.below(POSITIONS as usize) as i64).collect();
    for case in 0..16 {
        let [interleaved, partial, by_position, flat] = [1, 2, 4, 8].map(|bit| case & bit != 0);
        let turned = if partial { 6 } else { size };
        let half = turned / 2;
        let rows = if by_position { POSITIONS } else { BATCH * STEPS };
        let angles: Vec<f32> = signed(9, rows * half as i64).iter().map(|a| 3.0 * a).collect();
        let (cos, sin) = (
            angles.iter().map(|a| a.cos()).collect::<Vec<f32>>(),
            angles.iter().map(|a| a.sin()).collect::<Vec<f32>>(),
        );
        // Where the features of a step of a head begin.
        let begin = |n: usize, h: usize, s: usize| match flat {
            true => ((n * steps + s) * heads + h) * size,
            false => ((n * heads + h) * steps + s) * size,
        };
        let mut expected = x.clone();
        for (n, h, s) in (0..batch).flat_map(|n| (0..heads).flat_map(move |h| (0..steps).map(move |s| (n, h, s)))) {
            let row = n * steps + s;
            let row = if by_position { positions[row] as usize } else { row };
            for pair in 0..half {
                let (first, second) = if interleaved {
                    (2 * pair, 2 * pair + 1)
                } else {
                    (pair, pair + half)
                };
                let (cos, sin) = (cos[row * half + pair], sin[row * half + pair]);
                let (a, b) = (begin(n, h, s) + first, begin(n, h, s) + second);
                expected[a] = x[a] * cos - x[b] * sin;
                expected[b] = x[a] * sin + x[b] * cos;
            }
        }
        let half = half as i64;
        let cache: &[i64] = if by_position { &[POSITIONS, half] } else { &[BATCH, STEPS, half] };
        let mut attributes: Vec<Attribute> = vec![int("interleaved", interleaved.into())];
        if partial {
            attributes.push(int("rotary_embedding_dim", turned as i64));
        }
        if flat {
            attributes.push(int("num_heads", HEADS));
        }
        let dims: &[i64] = if flat {
            &[BATCH, STEPS, HEADS * SIZE]
        } else {
            &[BATCH, HEADS, STEPS, SIZE]
        };
        let mut g = Graph::default().input("x", dims).input("cos", cache).input("sin", cache);
        let mut names = "x cos sin";
        let mut given = vec![("x", x.clone()), ("cos", cos), ("sin", sin)];
        if by_position {
            names = "x cos sin positions";
            g = g.input("at", &[BATCH, STEPS]).node("Cast", "at", "positions", &[int("to", 7)]);
            given.push(("at", positions.iter().map(|&p| p as f32).collect()));
        }
        let g = || g.clone().node("RotaryEmbedding", names, "y", &attributes).output("y");
        for dtype in [DType::F32, DType::F16] {
            near(&run(folder.path(), g(), dtype, &given), "y", &expected, dtype);
        }
    }
    let odd = Graph::default()
        .input("x", &[1, 2, 3, 8])
        .input("cos", &[1, 3, 4])
        .input("sin", &[1, 3, 4])
        .node("RotaryEmbedding", "x cos sin", "y", &[int("rotary_embedding_dim", 5)])
        .output("y");
    assert!(refused(folder.path(), odd).contains("`rotary_embedding_dim`"));
    let headless = Graph::default()
        .input("x", &[1, 3, 16])
        .input("cos", &[1, 3, 4])
        .input("sin", &[1, 3, 4])
        .node("RotaryEmbedding", "x cos sin", "y", &[])
        .output("y");
    assert!(refused(folder.path(), headless).contains("`num_heads`"));
}

/// A reduction, and what it makes of an element alone.
type Alone = (&'static str, fn(f32) -> f32);

#[test]
fn reductions_along_no_axis_compute_each_element_alone() {
    let folder = tempfile::tempdir().unwrap();
    let x = [-3.0f32, 2.0, 0.5];
    let of: [Alone; 9] = [
        ("ReduceL1", f32::abs),
        ("ReduceL2", f32::abs),
        ("ReduceSumSquare", |x| x * x),
        ("ReduceLogSum", f32::ln),
        ("ReduceLogSumExp", |x| x),
        ("ReduceMean", |x| x),
        ("ReduceMax", |x| x),
        ("ReduceProd", |x| x),
        ("ReduceSum", |x| x),
    ];
    for (op, alone) in of {
        // Of no axes that are given, of none that are left out, and of a scalar, which has none; a logarithm of what has one.
        let log = op == "ReduceLogSum";
        let x: Vec<f32> = x.iter().map(|&x| if log { x.abs() } else { x }).collect();
        let expected: Vec<f32> = x.iter().map(|&x| alone(x)).collect();
        let graph = Graph::default()
            .input("x", &[3])
            .input("s", &[])
            .integers("none", &[])
            .node(op, "x none", "y", &[int("noop_with_empty_axes", 1)])
            .node(op, "x", "z", &[int("noop_with_empty_axes", 1), int("keepdims", 0)])
            .node(op, "s", "w", &[])
            .output("y")
            .output("z")
            .output("w");
        let outputs = run(folder.path(), graph, DType::F32, &[("x", x.clone()), ("s", vec![x[0]])]);
        near(&outputs, "y", &expected, DType::F32);
        near(&outputs, "z", &expected, DType::F32);
        near(&outputs, "w", &expected[..1], DType::F32);
    }
}

#[test]
fn nothing_in_halves_equals_what_is_no_half() {
    let folder = tempfile::tempdir().unwrap();
    let mut graph = Graph::default()
        .input("x", &[1, 1, 2, 2])
        .constant("one", &[1, 1, 1, 1], || 1.0)
        .constant("third", &[], || 0.3)
        .constant("fourth", &[], || 0.25)
        .node("Conv", "x one", "y", &[]);
    for number in ["third", "fourth"] {
        let (equal, of) = (format!("{number}.equal"), format!("{number}.of"));
        graph = graph
            .node("Equal", &format!("y {number}"), &equal, &[])
            .node("Cast", &equal, &of, &[int("to", 1)])
            .output(&of);
    }
    // The half next to 0.3.
    let x = vec![0.300_048_83, 0.25, f32::NAN, f32::INFINITY];
    let outputs = run(folder.path(), graph, DType::F16, &[("x", x)]);
    near(&outputs, "third.of", &[0.0; 4], DType::F16);
    near(&outputs, "fourth.of", &[0.0, 1.0, 0.0, 0.0], DType::F16);
}

/// The root of `x` if one of its elements is above 0, else what `other` makes of it.
fn rooted(other: Graph) -> Graph {
    let then = Graph::default().node("Sqrt", "x", "made", &[]).output("made");
    Graph::default()
        .input("x", &[1, 1, 2, 2])
        .constant("zero", &[], || 0.0)
        .constant("one", &[1, 1, 1, 1], || 1.0)
        .node("Conv", "x one", "seen", &[])
        .node("ReduceMax", "seen", "most", &[int("keepdims", 0)])
        .node("Greater", "most zero", "positive", &[])
        .node("If", "positive", "y", &[graph("then_branch", then), graph("else_branch", other)])
        .output("y")
}

#[test]
fn a_computed_condition_chooses_between_what_both_branches_give() {
    let folder = tempfile::tempdir().unwrap();
    let twice = || {
        let made = Graph::default().constant("two", &[], || 2.0).node("Mul", "x two", "made", &[]);
        made.output("made")
    };
    for dtype in [DType::F32, DType::F16] {
        for (x, y) in [
            ([4.0, 1.0, 0.25, 9.0], [2.0, 1.0, 0.5, 3.0]),
            ([-4.0, -1.0, -0.25, 0.0], [-8.0, -2.0, -0.5, 0.0]),
        ] {
            let outputs = run(folder.path(), rooted(twice()), dtype, &[("x", x.to_vec())]);
            near(&outputs, "y", &y, dtype);
        }
    }
    let row = Graph::default()
        .integers("row", &[4])
        .node("Reshape", "x row", "made", &[])
        .output("made");
    let said = refused(folder.path(), rooted(row));
    assert!(
        said.contains("[1,1,2,2]") && said.contains("[4]") && said.contains("--output"),
        "{said}"
    );
}
