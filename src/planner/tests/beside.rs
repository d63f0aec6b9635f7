//! Transposed convolutions of windows side by side: their parts are written where they lie in the result, and nothing is copied.

use super::nets::{Draw, Net};
use super::oracle::{close, compile, evaluate, run, same_bits};
use crate::plan::format::{Kernel, Operator, Plan};
use crate::plan::tactic::product::Pixels;
use crate::plan::tactic::{Target, menu_on};
use crate::planner::graph::{Graph, Op, ValueId};
use crate::planner::passes::{self, PassSet};
use crate::planner::{CompileOptions, Searcher, boards, compile_graph};
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

/// What a decoder's step makes of a picture `dims`: larger by `kernel`, of `outputs` channels; with `skip` beside a larger picture's.
fn decoder(dims: [u32; 4], outputs: u32, kernel: [u32; 2], skip: bool) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let x = net.input(&dims);
    let y = net.conv(&mut draw, x, dims[1], 1, 1, 1, true);
    let y = transposed(&mut net, &mut draw, y, outputs, kernel, kernel);
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
        ([2, 8, 160, 400], [4, 2], false, 4),
        ([1, 8, 128, 256], [2, 8], false, 2),
        ([1, 8, 512, 832], [2, 2], true, 4),
    ];
    for (dims, kernel, skip, parts) in cases {
        let (graph, inputs) = decoder(dims, 8, kernel, skip);
        for dtype in [DType::F32, DType::F16] {
            let [whole, apart] = [WITHOUT, PassSet::ALL].map(|set| plan(&graph, set, dtype));
            let [copies, transposed, convolutions] = counts(&whole.plan);
            assert_eq!(transposed, 1);
            assert_eq!(counts(&apart.plan), [copies, 0, convolutions + parts], "{dims:?} {kernel:?}");
            let expected = run(&whole, std::slice::from_ref(&inputs), 2);
            let found = run(&apart, std::slice::from_ref(&inputs), 2);
            same_bits(&apart.plan, &found[0], &expected[0], "beside");
        }
    }
}

#[test]
fn parts_are_products_of_warpgroups() {
    let board = boards::load("h200").unwrap();
    let options = CompileOptions {
        dtype: DType::F16,
        searcher: Searcher::Sequential,
        ..CompileOptions::default()
    };
    for (skip, parts) in [(false, 2), (true, 4)] {
        let (graph, _) = decoder([1, 64, 256, 512], 32, [2, 2], skip);
        let compiled = compile_graph("decoder", graph, &board, &options).unwrap();
        assert_eq!(counts(&compiled.plan)[1], 0);
        let lies_apart = |o: &&Operator| Pixels::of(&o.outputs[0]).is_some_and(|p| p.channels_last() && p.flat_step().is_none());
        let found: Vec<_> = compiled.plan.operators.iter().filter(lies_apart).collect();
        assert_eq!(found.len(), parts);
        for operator in found {
            let tactics = menu_on(&compiled.plan, operator, &board);
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
    // Phases want a larger picture than rows.
    let (graph, _) = decoder([1, 8, 256, 256], 8, [2, 2], true);
    let graph = passes::run(graph, PassSet::BESIDE).unwrap();
    assert!(
        graph
            .nodes
            .iter()
            .any(|n| matches!(n.op, Op::Primitive(Primitive::ConvTranspose { .. })))
    );
    // By the shape of one sample, whatever the batch.
    assert!(left([16, 8, 64, 64], [2, 2], false));
}

#[test]
fn the_rewritten_graph_computes_the_same() {
    let (graph, inputs) = decoder([1, 8, 592, 592], 8, [1, 2], true);
    let rewritten = passes::run(graph.clone(), PassSet::BESIDE).unwrap();
    let transposed = |op: &Op| matches!(op, Op::Primitive(Primitive::ConvTranspose { .. }));
    assert!(!rewritten.nodes.iter().any(|n| transposed(&n.op)));
    let [found, expected] = [&rewritten, &graph].map(|g| evaluate(g, &inputs));
    assert_eq!(found[0].bytes(), expected[0].bytes());
}

#[test]
fn few_channels_are_rows_of_overlapping_windows_or_one_convolution() {
    // Kernel, padding before and behind, channels of the result; windows of the convolutions that are left.
    let cases = [
        ([4, 4], [1, 1], [1, 1], 16, vec![[2, 3], [2, 3]]),
        ([3, 3], [1, 1], [0, 0], 16, vec![[1, 2], [2, 2]]),
        ([2, 6], [0, 2], [0, 2], 16, vec![[1, 3], [1, 3]]),
        ([2, 2], [0, 0], [0, 0], 2, vec![[1, 1]]),
        ([4, 4], [1, 1], [1, 1], 1, vec![[3, 3]]),
        ([4, 4], [1, 1], [1, 1], 24, vec![]),
    ];
    for (kernel, begin, end, outputs, left) in cases {
        let (mut net, mut draw) = (Net::default(), Draw::new(7));
        let dims = [1, 8, 160, 272];
        let x = net.input(&dims);
        let mut window = Window::new(&kernel);
        window.stride[..2].fill(2);
        window.pad_begin[..2].copy_from_slice(&begin);
        window.pad_end[..2].copy_from_slice(&end);
        let weights = net.constant(draw.tensor(&[8, outputs, kernel[0], kernel[1]]));
        let bias = net.constant(draw.tensor(&[outputs]));
        let op = Op::Primitive(Primitive::ConvTranspose { window, groups: 1 });
        let y = net.node(op, &[x, weights, bias], &[1, outputs, 320, 544]);
        let y = net.unary(Unary::Relu, y);
        net.output(y);
        let graph = passes::run(net.graph.clone(), PassSet::BESIDE).unwrap();
        let windows = graph.nodes.iter().filter_map(|n| match n.op {
            Op::Primitive(Primitive::Conv { window, .. }) => Some([window.kernel[0], window.kernel[1]]),
            _ => None,
        });
        assert_eq!(windows.collect::<Vec<_>>(), left, "{kernel:?} {outputs}");
        let inputs = [draw.tensor(&dims)];
        close(&evaluate(&graph, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "few channels");
    }
}

#[test]
fn only_boards_of_warpgroups_take_parts_and_of_halves() {
    for target in [Target::Cpu, Target::Cuda { wgmma: false }, Target::Cuda { wgmma: true }] {
        for dtype in [DType::F32, DType::F16] {
            let set = PassSet::ALL.of(dtype, target);
            let takes = set.has(PassSet::BESIDE);
            assert_eq!(takes, set.has(PassSet::FULLER));
            assert_eq!(takes, target == Target::Cuda { wgmma: true } && dtype == DType::F16, "{target:?}");
        }
    }
}
