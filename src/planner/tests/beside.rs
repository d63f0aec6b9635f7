//! Transposed convolutions of windows side by side: their parts are written where they lie in the result, and nothing is copied.

use super::nets::{Draw, Net};
use super::oracle::{compile, evaluate, run, same_bits};
use crate::plan::format::{Kernel, Plan};
use crate::plan::tactic::{Target, menu};
use crate::planner::CompileOptions;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::planner::passes::{self, PassSet};
use crate::primitive::{Binary, Primitive, Unary, Window};
use crate::tensor::{DType, Tensor};

const WITHOUT: PassSet = PassSet::ALL.without(PassSet::BESIDE);

/// A transposed convolution to `outputs` channels by windows of `kernel`, `stride` apart.
fn transposed(net: &mut Net, draw: &mut Draw, x: ValueId, outputs: u32, kernel: [u32; 2], stride: [u32; 2]) -> ValueId {
    let [n, channels, h, w] = net.dims(x)[..] else { unreachable!() };
    let mut window = Window::new(&kernel);
    window.stride = [stride[0], stride[1], 1];
    let weights = net.constant(draw.tensor(&[channels, outputs, kernel[0], kernel[1]]));
    let bias = net.constant(draw.tensor(&[outputs]));
    let extent = |a: usize, n: u32| (n - 1) * stride[a] + kernel[a];
    let op = Op::Primitive(Primitive::ConvTranspose { window, groups: 1 });
    net.node(op, &[x, weights, bias], &[n, outputs, extent(0, h), extent(1, w)])
}

/// What a decoder's step makes of a picture `dims`: twice as large, of 8 channels; with `skip` beside a larger picture's.
fn decoder(dims: [u32; 4], kernel: [u32; 2], skip: bool) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let x = net.input(&dims);
    let y = net.conv(&mut draw, x, 8, 1, 1, 1, true);
    let y = transposed(&mut net, &mut draw, y, 8, kernel, kernel);
    let mut y = net.unary(Unary::Relu, y);
    let mut inputs = vec![draw.tensor(&dims)];
    if skip {
        let larger = [dims[0], 8, dims[2] * kernel[0], dims[3] * kernel[1]];
        let other = net.input(&larger);
        inputs.push(draw.tensor(&larger));
        let other = net.conv(&mut draw, other, 16, 1, 1, 1, false);
        y = net.concat(1, &[other, y]);
    }
    let y = net.conv(&mut draw, y, 8, 1, 2, 1, true);
    net.output(y);
    (net.graph, inputs)
}

fn plan(graph: &Graph, passes: PassSet, dtype: DType) -> crate::planner::Compiled {
    let options = CompileOptions {
        passes,
        dtype,
        ..CompileOptions::default()
    };
    compile(std::slice::from_ref(graph), &options)
}

fn count(plan: &Plan, wanted: impl Fn(&Primitive) -> bool) -> usize {
    plan.operators.iter().filter(|o| wanted(&o.calls[0].primitive)).count()
}

/// Counts of copies, transposed convolutions and ordinary ones.
fn counts(plan: &Plan) -> [usize; 3] {
    [
        count(plan, |p| *p == Primitive::Copy),
        count(plan, |p| matches!(p, Primitive::ConvTranspose { .. })),
        count(plan, |p| matches!(p, Primitive::Conv { .. })),
    ]
}

#[test]
fn parts_are_written_where_they_lie() {
    // Rows of windows where pixels lie side by side; phases where a concatenation keeps them apart.
    let cases = [
        ([1, 8, 256, 256], [2, 2], false, 2),
        ([2, 8, 128, 256], [4, 2], false, 4),
        ([1, 8, 128, 256], [2, 8], false, 2),
        ([1, 8, 320, 320], [2, 2], true, 4),
    ];
    for (dims, kernel, skip, parts) in cases {
        let (graph, inputs) = decoder(dims, kernel, skip);
        let [whole, apart] = [WITHOUT, PassSet::ALL].map(|set| plan(&graph, set, DType::F32));
        let [copies, transposed, convolutions] = counts(&whole.plan);
        assert_eq!(transposed, 1);
        assert_eq!(counts(&apart.plan), [copies, 0, convolutions + parts], "{dims:?} {kernel:?}");
        let expected = run(&whole, std::slice::from_ref(&inputs), 2);
        let found = run(&apart, std::slice::from_ref(&inputs), 2);
        same_bits(&apart.plan, &found[0], &expected[0], "beside");
    }
}

#[test]
fn parts_are_products_of_warpgroups() {
    for skip in [false, true] {
        let (graph, _) = decoder([1, 8, 320, 320], [2, 2], skip);
        let compiled = plan(&graph, PassSet::ALL, DType::F16);
        let convolves = |p: &Primitive| matches!(p, Primitive::Conv { .. });
        for operator in compiled.plan.operators.iter().filter(|o| convolves(&o.calls[0].primitive)) {
            let tactics = menu(&compiled.plan, operator, Target::Cuda { wgmma: true });
            assert!(tactics.iter().any(|t| t.kernel == Kernel::ConvWgmma), "{tactics:?}");
        }
    }
}

#[test]
fn small_pictures_overlapping_windows_and_joined_results_stay() {
    let left = |dims: [u32; 4], kernel: [u32; 2], joined: bool| {
        let (mut net, mut draw) = (Net::default(), Draw::new(8));
        let x = net.input(&dims);
        let mut y = transposed(&mut net, &mut draw, x, 8, kernel, [2, 2]);
        if joined {
            let residual = net.input(&net.dims(y));
            y = net.binary(Binary::Add, y, residual);
        }
        net.output(y);
        let graph = passes::run(net.graph, PassSet::BESIDE).unwrap();
        let stays = |op: &Op| matches!(op, Op::Primitive(Primitive::ConvTranspose { .. }));
        graph.nodes.iter().any(|n| stays(&n.op))
    };
    assert!(!left([1, 8, 256, 256], [2, 2], false));
    assert!(left([1, 8, 256, 256], [2, 2], true));
    assert!(left([1, 8, 256, 256], [3, 3], false));
    assert!(left([1, 12, 256, 256], [2, 2], false), "pixels are no whole pieces");
    // By the shape of one sample, whatever the batch.
    assert!(left([16, 8, 64, 64], [2, 2], false));
}

#[test]
fn the_rewritten_graph_computes_the_same() {
    let (graph, inputs) = decoder([1, 8, 320, 320], [2, 2], true);
    let rewritten = passes::run(graph.clone(), PassSet::BESIDE).unwrap();
    let [found, expected] = [&rewritten, &graph].map(|g| evaluate(g, &inputs));
    assert_eq!(found[0].bytes(), expected[0].bytes());
}

#[test]
fn only_boards_of_warpgroups_take_parts_and_of_halves() {
    for target in [Target::Cpu, Target::Cuda { wgmma: false }, Target::Cuda { wgmma: true }] {
        for dtype in [DType::F32, DType::F16] {
            let takes = PassSet::ALL.of(dtype, target).has(PassSet::BESIDE);
            assert_eq!(takes, target == Target::Cuda { wgmma: true } && dtype == DType::F16, "{target:?}");
        }
    }
}
