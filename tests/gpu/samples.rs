//! Samples of pictures by grids: the bits of the processor, however picture and result lie, in whole and in shares.

use crate::data::{self, Chance};
use crate::gpu::Beside;
use crate::network::{self, Tensors};
use crate::onnx::{Graph, int, string};
use platoon::plan::check;
use platoon::plan::format::{Operand, Operator, Plan, Space, View};
use platoon::planner::{CompileOptions, Compiled, Ports, Searcher};
use platoon::primitive::Primitive;
use platoon::tensor::{DType, Data, Layout, Tensor};

/// A picture, and the rows and columns of two grids whose samples are joined; of one grid where the second has none.
type Case = ([i64; 4], i64, [i64; 2]);

const CASES: [Case; 13] = [
    ([8, 32, 20, 30], 300, [4, 0]),
    ([2, 32, 9, 7], 7, [3, 0]),
    ([2, 16, 5, 5], 1, [1, 0]),
    ([2, 40, 12, 10], 30, [13, 0]),
    ([1, 8, 31, 17], 25, [40, 0]),
    ([3, 5, 9, 8], 11, [6, 0]),
    ([2, 1, 16, 15], 33, [5, 0]),
    ([1, 72, 1, 6], 64, [2, 0]),
    ([2, 24, 6, 1], 130, [1, 0]),
    // Many tiles.
    ([17, 8, 6, 5], 130, [31, 0]),
    ([8, 40, 5, 6], 132, [31, 0]),
    // Joined, so that a result has a part of the columns.
    ([4, 32, 10, 8], 30, [4, 8]),
    ([1, 16, 10, 8], 21, [3, 6]),
];
const OUTSIDE: [&str; 3] = ["zeros", "border", "reflection"];

/// Every case under everything that may lie outside, corners aligned and not. Pictures are made by functions, so that plans may choose
/// how they lie.
fn model(mode: &str) -> (Vec<u8>, usize) {
    let (mut graph, mut samples) = (Graph::default(), 0);
    for (i, &(x, rows, columns)) in CASES.iter().enumerate() {
        let (picture, value) = (format!("x{i}"), format!("v{i}"));
        graph = graph.input(&picture, &x).node("Neg", &picture, &value, &[]);
        let grids: Vec<i64> = columns.into_iter().filter(|&c| c > 0).collect();
        for (k, &columns) in grids.iter().enumerate() {
            graph = graph.input(&format!("g{i}_{k}"), &[x[0], rows, columns, 2]);
        }
        for (outside, align) in OUTSIDE.iter().flat_map(|o| [0, 1].map(|align| (o, align))) {
            let result = format!("y{i}_{outside}_{align}");
            let attributes = [string("mode", mode), string("padding_mode", outside), int("align_corners", align)];
            let parts: Vec<String> = (0..grids.len()).map(|k| format!("{result}_{k}")).collect();
            for (k, part) in parts.iter().enumerate() {
                let name = if parts.len() > 1 { part } else { &result };
                graph = graph.node("GridSample", &format!("{value} g{i}_{k}"), name, &attributes);
                samples += 1;
            }
            if parts.len() > 1 {
                graph = graph.node("Concat", &parts.join(" "), &result, &[int("axis", 3)]);
            }
            graph = graph.output(&result);
        }
    }
    (graph.file_of(16), samples)
}

/// Random pictures, and places in and around them, of which some are nowhere.
fn inputs_of(compiled: &Compiled, random: &mut Chance) -> Tensors {
    let mut inputs = network::inputs_of(compiled, || random.signed());
    for (_, grid) in inputs.iter_mut().filter(|(name, _)| name.starts_with('g')) {
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e4, -3e4, 1.0, -1.0, 0.0];
        let place = |_| match random.below(24) {
            k if k < special.len() => special[k],
            _ => random.signed() * 1.25,
        };
        let places = (0..grid.len()).map(place).collect();
        *grid = Tensor::new(grid.shape(), Data::F32(places)).unwrap();
    }
    inputs
}

fn is_sample(operator: &Operator) -> bool {
    matches!(operator.calls[0].primitive, Primitive::Sample(_))
}

fn views(plan: &mut Plan) -> impl Iterator<Item = &mut View> {
    plan.operators.iter_mut().flat_map(|o| {
        let inputs = o.calls.iter_mut().flat_map(|c| &mut c.inputs).filter_map(|operand| match operand {
            Operand::View(view) => Some(view),
            Operand::Inner(_) => None,
        });
        inputs.chain(&mut o.outputs)
    })
}

/// Lays what all views of a view's buffer see out as planes, or channels last, if each sees it whole or some of its columns. Says
/// whether it lies so.
fn lay(plan: &mut Plan, of: View, planes: bool) -> bool {
    if !matches!(plan.buffers[of.buffer.index()].space, Space::Arena { .. }) {
        return false;
    }
    let all: Vec<View> = views(plan).filter(|v| v.buffer == of.buffer).map(|v| *v).collect();
    let Some(&whole) = all.iter().max_by_key(|v| v.layout.shape.elements()) else {
        return false;
    };
    let shape = whole.layout.shape;
    let orders = [Layout::channels_last(shape), Layout::contiguous(shape)];
    let Some(order) = orders.into_iter().find(|o| o.strides() == whole.layout.strides()) else {
        return false;
    };
    let columns = |v: &View| {
        let band = Layout::new(v.layout.shape, order.strides()).is_some_and(|l| l == v.layout);
        let start = v.origin / order.stride(3) as u64;
        let fits = start + u64::from(v.layout.shape.dim(3)) <= u64::from(shape.dim(3));
        (band && fits && start * order.stride(3) as u64 == v.origin).then_some(start)
    };
    let starts: Option<Vec<u64>> = all.iter().map(columns).collect();
    let Some(starts) = starts.filter(|_| shape.rank() == 4 && whole.origin == 0) else {
        return false;
    };
    let to = orders[usize::from(planes)];
    let seen = views(plan).filter(|v| v.buffer == of.buffer);
    for (view, start) in seen.zip(starts) {
        view.origin = start * to.stride(3) as u64;
        view.layout = Layout::new(view.layout.shape, to.strides()).unwrap();
    }
    true
}

/// Lays all samples' pictures and results out so. Says how many of them lie so then.
fn lay_all(plan: &mut Plan, [picture, result]: [bool; 2]) -> usize {
    let mut laid = 0;
    for index in 0..plan.operators.len() {
        let operator = &plan.operators[index];
        if !is_sample(operator) {
            continue;
        }
        let Operand::View(x) = operator.calls[0].inputs[0] else { continue };
        let y = operator.outputs[0];
        laid += usize::from(lay(plan, x, picture)) + usize::from(lay(plan, y, result));
    }
    laid
}

fn check_samples(test: &str, mode: &str) {
    let (file, samples) = model(mode);
    let Some(beside) = Beside::of(test, &file) else { return };
    let Beside { machine, reference, .. } = &beside;
    let mut laid = 0;
    for (dtype, ports) in [
        (DType::F32, Ports::Declared),
        (DType::F16, Ports::Half),
        (DType::F16, Ports::Declared),
    ] {
        for (searcher, seed) in [(Searcher::Sequential, 0), (Searcher::Random, 3), (Searcher::Random, 4)] {
            let options = CompileOptions {
                dtype,
                ports,
                searcher,
                seed,
                ..CompileOptions::default()
            };
            let compiled = beside.compile(&options);
            let found = compiled.plan.operators.iter().filter(|o| is_sample(o)).count();
            assert_eq!(found, samples, "{dtype}, {ports:?}");
            let inputs = inputs_of(&compiled, &mut Chance::new(31 + seed));
            let expected = reference.run(compiled.clone(), &inputs).unwrap();
            for planes in [[false, false], [false, true], [true, false], [true, true]] {
                let mut changed = compiled.clone();
                laid += lay_all(&mut changed.plan, planes);
                // Few blocks, too, each with many tiles.
                if seed == 4 {
                    changed.plan.operators.iter_mut().for_each(|o| o.width = 2);
                }
                changed.plan = check::check(changed.plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
                let found = machine.run(changed, &inputs).unwrap();
                let how = format!("{dtype}, {ports:?}, {searcher:?} {seed}, planes {planes:?}");
                assert_eq!(network::bits_differ(&found, &expected), None, "{how}");
            }
        }
    }
    assert!(laid >= 9 * 4 * samples, "only {laid} pictures and results could be laid out");
    data::ran(test, &format!("{samples} samples under 9 plans and 4 layouts"));
}

#[test]
fn nearest_samples_have_the_processors_bits() {
    check_samples("gpu_nearest_samples_have_the_processors_bits", "nearest");
}

#[test]
fn linear_samples_have_the_processors_bits() {
    check_samples("gpu_linear_samples_have_the_processors_bits", "bilinear");
}

#[test]
fn cubic_samples_have_the_processors_bits() {
    check_samples("gpu_cubic_samples_have_the_processors_bits", "bicubic");
}
