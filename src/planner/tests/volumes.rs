//! Networks over volumes, as of stereo, occupancy and video: that no window over three axes is left, and that results stay.

use super::nets::{Draw, Net};
use super::oracle::{close, compile, evaluate, run};
use crate::planner::CompileOptions;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::planner::passes::{self, PassSet};
use crate::primitive::{Binary, Coordinates, Nearest, PoolKind, Primitive, Resize, ResizeMode, Scalar, Unary, Window};
use crate::tensor::{Shape, Tensor};

/// A convolution with a bias.
fn convolution(net: &mut Net, draw: &mut Draw, x: ValueId, outputs: u32, window: Window, groups: u32) -> ValueId {
    let dims = net.dims(x);
    let [depth, rows, columns] = window.kernel;
    let weights = net.constant(draw.tensor(&[outputs, dims[1] / groups, depth, rows, columns]));
    let bias = net.constant(draw.tensor(&[outputs]));
    let extent = |axis: usize| window.output(axis, dims[axis + 2]).unwrap();
    let out = [dims[0], outputs, extent(0), extent(1), extent(2)];
    net.node(Op::Primitive(Primitive::Conv { window, groups }), &[x, weights, bias], &out)
}

fn padded(kernel: [u32; 3]) -> Window {
    let mut window = Window::new(&kernel);
    window.pad_begin = kernel.map(|k| k / 2);
    window.pad_end = window.pad_begin;
    window
}

fn network(samples: u32) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let dims = [samples, 3, 7, 6, 8];
    let x = net.input(&dims);
    let mut first = padded([3, 3, 3]);
    // More in front than behind, and every other slice.
    (first.pad_begin[0], first.stride[0], first.stride[2]) = (2, 2, 2);
    let a = convolution(&mut net, &mut draw, x, 8, first, 1);
    let a = net.unary(Unary::Relu, a);
    let b = convolution(&mut net, &mut draw, a, 8, padded([3, 3, 3]), 8);
    let sum = net.binary(Binary::Add, a, b);
    let sum = net.unary(Unary::Relu, sum);
    let mut dilated = padded([2, 1, 3]);
    (dilated.dilation[0], dilated.pad_begin[0], dilated.pad_end[0]) = (2, 0, 0);
    let c = convolution(&mut net, &mut draw, sum, 6, dilated, 2);
    net.output(c);
    let mut halved = Window::new(&[2, 2, 2]);
    halved.stride = [2; 3];
    let kind = PoolKind::Max { column_major: false };
    let dims_of = net.dims(sum);
    let out = [dims_of[0], 8, dims_of[2] / 2, dims_of[3] / 2, dims_of[4] / 2];
    let pooled = net.node(Op::Primitive(Primitive::Pool { kind, window: halved }), &[sum], &out);
    let last = convolution(&mut net, &mut draw, pooled, 4, Window::new(&[1, 1, 1]), 1);
    net.output(last);
    // Maxima of the input itself, by overlapping windows whose padding and whose last step reach over its ends, and means of pictures.
    let mut steps = padded([3, 3, 3]);
    steps.stride = [3, 2, 1];
    let maxima = net.node(Op::Primitive(Primitive::Pool { kind, window: steps }), &[x], &[samples, 3, 3, 3, 8]);
    net.output(maxima);
    let kind = PoolKind::Average { count_pad: false };
    let window = padded([1, 3, 3]);
    let means = net.node(Op::Primitive(Primitive::Pool { kind, window }), &[maxima], &[samples, 3, 3, 3, 8]);
    net.output(means);
    (net.graph, vec![draw.tensor(&dims)])
}

#[test]
fn windows_over_volumes_become_those_of_pictures() {
    for samples in [1, 2] {
        let (graph, inputs) = network(samples);
        let expected = evaluate(&graph, &inputs);
        for set in [PassSet::LINES, PassSet::ALL] {
            let passed = passes::run(graph.clone(), set).unwrap();
            close(
                &evaluate(&passed, &inputs),
                &expected,
                1e-5,
                &format!("{samples} samples, passes {set:?}"),
            );
            let deep = |op: &Op| {
                matches!(
                    op,
                    Op::Primitive(Primitive::Conv { window, .. } | Primitive::Pool { window, .. }) if window.axes == 3
                )
            };
            assert!(!passed.nodes.iter().any(|n| deep(&n.op)));
            // The functions are those of pictures too, so that they join the convolutions.
            let function = |op: &Op| matches!(op, Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)));
            let mut functions = passed.nodes.iter().filter(|n| function(&n.op));
            assert!(functions.all(|n| passed.value(n.outputs[0]).shape.rank() == 4));
        }
        let compiled = compile(std::slice::from_ref(&graph), &CompileOptions::default());
        let found = run(&compiled, std::slice::from_ref(&inputs), 2);
        close(&found[0], &expected, 1e-5, "compiled");
    }
}

/// Extents of a transposed window's result, with so much beside the last whole one.
fn stretched(window: &Window, extents: [u32; 3], beyond: [u32; 3]) -> [u32; 3] {
    [0, 1, 2].map(|a| {
        let whole = (extents[a] - 1) * window.stride[a] + window.reach(a).unwrap() + beyond[a];
        whole - window.pad_begin[a] - window.pad_end[a]
    })
}

/// A transposed convolution with a bias, and perhaps functions behind it: of itself, and of it and something that is as large.
fn transposed(samples: u32, window: Window, groups: u32, beyond: [u32; 3], functions: bool) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let extents = [4, 3, 5];
    let dims = [samples, 4, extents[0], extents[1], extents[2]];
    let x = net.input(&dims);
    let [depth, rows, columns] = window.kernel;
    let weights = net.constant(draw.tensor(&[4, 6 / groups, depth, rows, columns]));
    let bias = net.constant(draw.tensor(&[6]));
    let [depth, rows, columns] = stretched(&window, extents, beyond);
    let out = [samples, 6, depth, rows, columns];
    let mut inputs = vec![draw.tensor(&dims)];
    let mut y = net.node(
        Op::Primitive(Primitive::ConvTranspose { window, groups }),
        &[x, weights, bias],
        &out,
    );
    if functions {
        let other = net.input(&out);
        inputs.push(draw.tensor(&out));
        let scale = net.constant(draw.tensor(&[6, 1, 1, 1]));
        y = net.binary(Binary::Mul, y, scale);
        y = net.binary(Binary::Add, other, y);
        y = net.unary(Unary::Relu, y);
        let last = convolution(&mut net, &mut draw, y, 4, padded([3, 3, 3]), 1);
        net.output(last);
    }
    net.output(y);
    (net.graph, inputs)
}

/// A window with the same padding before and behind, and dilations alike.
fn window(kernel: [u32; 3], stride: [u32; 3], pad: [u32; 3], dilation: u32) -> Window {
    Window {
        stride,
        dilation: [dilation; 3],
        pad_begin: pad,
        pad_end: pad,
        ..Window::new(&kernel)
    }
}

#[test]
fn transposed_convolutions_over_volumes_become_those_of_pictures() {
    // Windows, and what their results have besides.
    let cases = [
        (window([3; 3], [2; 3], [1; 3], 1), [1; 3]),
        (window([3; 3], [2; 3], [1; 3], 1), [0; 3]),
        (window([4; 3], [2; 3], [1; 3], 1), [0; 3]),
        (window([2; 3], [2; 3], [0; 3], 1), [0; 3]),
        (window([3; 3], [1; 3], [1; 3], 1), [0; 3]),
        (window([3; 3], [3, 2, 1], [0, 1, 2], 1), [2, 0, 0]),
        (window([5, 3, 3], [2; 3], [2, 1, 1], 1), [1, 1, 0]),
        (window([1, 4, 4], [1, 2, 2], [0, 1, 1], 1), [0; 3]),
        (window([5, 2, 2], [3, 1, 2], [4, 0, 1], 2), [1, 0, 1]),
        (window([4, 1, 3], [2, 1, 1], [3, 0, 1], 1), [1, 0, 0]),
    ];
    for (number, (window, beyond)) in cases.into_iter().enumerate() {
        for (samples, groups, functions) in [(1, 1, false), (1, 2, true), (2, 1, true), (1, 1, true)] {
            let (graph, inputs) = transposed(samples, window, groups, beyond, functions);
            let expected = evaluate(&graph, &inputs);
            let case = format!("case {number}, {samples} samples, {groups} groups, functions {functions}");
            for set in [PassSet::LINES, PassSet::ALL] {
                let passed = passes::run(graph.clone(), set).unwrap();
                close(&evaluate(&passed, &inputs), &expected, 1e-5, &format!("{case}, passes {set:?}"));
                let deep = |op: &Op| matches!(op, Op::Primitive(Primitive::ConvTranspose { window, .. }) if window.axes == 3);
                assert!(!passed.nodes.iter().any(|n| deep(&n.op)), "{case}");
            }
            let compiled = compile(std::slice::from_ref(&graph), &CompileOptions::default());
            let found = run(&compiled, std::slice::from_ref(&inputs), 2);
            close(&found[0], &expected, 1e-5, &case);
        }
    }
}

#[test]
fn volumes_of_few_channels_are_pictures_of_all_slices() {
    for (dims, outputs, window) in [
        ([1, 1, 12, 6, 8], 8, padded([3, 3, 3])),
        ([2, 2, 9, 5, 6], 3, {
            let mut steps = padded([3, 1, 3]);
            (steps.stride, steps.pad_begin[0], steps.dilation[0]) = ([2, 1, 2], 2, 2);
            steps
        }),
        // So many slices that blocks of them are samples.
        ([2, 1, 384, 3, 4], 8, {
            let mut ahead = padded([3, 3, 3]);
            (ahead.pad_begin[0], ahead.pad_end[0]) = (2, 0);
            ahead
        }),
        // One column wide: columns are samples.
        ([2, 20, 5, 6, 7], 4, padded([3, 5, 1])),
    ] {
        let (mut net, mut draw) = (Net::default(), Draw::new(8));
        let x = net.input(&dims);
        let y = convolution(&mut net, &mut draw, x, outputs, window, 1);
        let y = net.unary(Unary::Relu, y);
        net.output(y);
        let inputs = [draw.tensor(&dims)];
        let passed = passes::run(net.graph.clone(), PassSet::FULLER.with(PassSet::LINES)).unwrap();
        close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "pictures");
        let windows = passed.nodes.iter().filter_map(|n| match n.op {
            Op::Primitive(Primitive::Conv { window, groups }) => Some((window.axes, groups)),
            _ => None,
        });
        assert_eq!(windows.collect::<Vec<_>>(), [(2, 1)], "one convolution of pictures");
    }
}

#[test]
fn functions_of_transposed_convolutions_follow_each_phase() {
    let (graph, _) = transposed(1, window([3; 3], [2; 3], [1; 3], 1), 1, [1; 3], true);
    let passed = passes::run(graph, PassSet::ALL).unwrap();
    let relus = passed.nodes.iter().filter(|n| n.op == Op::Primitive(Primitive::Unary(Unary::Relu)));
    let shapes: Vec<Vec<u32>> = relus.map(|n| passed.value(n.outputs[0]).shape.dims().to_vec()).collect();
    assert_eq!(shapes, [[4, 6, 6, 10]; 2], "half of the slices each");
}

#[test]
fn phases_that_meet_nothing_stay_in_the_volume() {
    let (graph, inputs) = transposed(1, window([1, 3, 3], [2; 3], [0; 3], 1), 1, [0; 3], true);
    let expected = evaluate(&graph, &inputs);
    let passed = passes::run(graph, PassSet::ALL).unwrap();
    close(&evaluate(&passed, &inputs), &expected, 1e-5, "a window thinner than its step");
}

/// A resize of a volume, and a function of what it makes.
fn resized(from: [u32; 5], to: [u32; 3], mode: ResizeMode, coordinates: Coordinates) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let x = net.input(&from);
    let x = convolution(&mut net, &mut draw, x, from[1], padded([3, 1, 1]), 1);
    let mut scales = [Scalar(1.0); crate::limits::MAX_RANK];
    for axis in 0..3 {
        scales[axis + 2] = Scalar((f64::from(to[axis]) / f64::from(from[axis + 2])) as f32);
    }
    let out = [from[0], from[1], to[0], to[1], to[2]];
    let resize = Resize { mode, coordinates, scales };
    let y = net.node(Op::Primitive(Primitive::Resize(resize)), &[x], &out);
    net.output(y);
    let shares = net.node(Op::Primitive(Primitive::Softmax { axis: 2 }), &[y], &out);
    net.output(shares);
    let y = net.unary(Unary::Relu, y);
    let last = convolution(&mut net, &mut draw, y, 2, padded([3, 3, 3]), 1);
    net.output(last);
    (net.graph, vec![draw.tensor(&from)])
}

#[test]
fn resizes_of_volumes_become_those_of_pictures() {
    let shapes = [
        ([1, 1, 4, 3, 5], [16, 12, 20]),
        ([2, 1, 4, 3, 5], [8, 6, 11]),
        ([1, 1, 4, 3, 5], [9, 7, 10]),
        ([2, 3, 4, 3, 5], [8, 6, 10]),
        ([1, 3, 4, 3, 5], [4, 6, 10]),
        ([1, 3, 4, 3, 5], [7, 3, 5]),
        ([1, 2, 8, 6, 10], [4, 3, 4]),
        ([1, 1, 8, 6, 10], [16, 2, 3]),
    ];
    let modes = [
        ResizeMode::Linear { antialias: false },
        ResizeMode::Linear { antialias: true },
        ResizeMode::LinearInside,
        ResizeMode::Nearest(Nearest::Floor),
        ResizeMode::Cubic {
            coefficient: Scalar(-0.75),
            exclude_outside: true,
            antialias: false,
        },
    ];
    let rules = [
        Coordinates::HalfPixel,
        Coordinates::PytorchHalfPixel,
        Coordinates::AlignCorners,
        Coordinates::Asymmetric,
    ];
    for (from, to) in shapes {
        for mode in modes {
            for coordinates in rules {
                let (graph, inputs) = resized(from, to, mode, coordinates);
                let expected = evaluate(&graph, &inputs);
                let case = format!("{from:?} to {to:?}, {mode:?}, {coordinates:?}");
                for set in [PassSet::LINES, PassSet::ALL] {
                    let passed = passes::run(graph.clone(), set).unwrap();
                    close(&evaluate(&passed, &inputs), &expected, 1e-5, &format!("{case}, passes {set:?}"));
                    let resizes = passed.nodes.iter().filter(|n| matches!(n.op, Op::Primitive(Primitive::Resize(_))));
                    assert!(resizes.into_iter().all(|n| passed.value(n.outputs[0]).shape.rank() == 4), "{case}");
                }
            }
        }
    }
}

#[test]
fn other_resizes_of_volumes_stay() {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let dims = [1, 2, 4, 3, 5];
    let x = net.input(&dims);
    let mut scales = [Scalar(1.0); crate::limits::MAX_RANK];
    (scales[1], scales[2]) = (Scalar(2.0), Scalar(2.0));
    let resize = Resize {
        mode: ResizeMode::Nearest(Nearest::Floor),
        coordinates: Coordinates::Asymmetric,
        scales,
    };
    let y = net.node(Op::Primitive(Primitive::Resize(resize)), &[x], &[1, 4, 8, 3, 5]);
    net.output(y);
    let inputs = [draw.tensor(&dims)];
    let expected = evaluate(&net.graph, &inputs);
    let passed = passes::run(net.graph, PassSet::LINES).unwrap();
    assert_eq!(evaluate(&passed, &inputs), expected);
    assert_eq!(
        passed.value(passed.nodes[0].outputs[0]).shape,
        Shape::new(&[1, 4, 8, 3, 5]).unwrap()
    );
}

#[test]
fn what_is_added_to_a_sum_of_slices_is_added_to_the_first() {
    let (mut net, mut draw) = (Net::default(), Draw::new(11));
    let dims = [1, 4, 5, 6, 8];
    let (x, other) = (net.input(&dims), net.input(&dims));
    let y = convolution(&mut net, &mut draw, x, 4, padded([3, 3, 3]), 1);
    let y = net.binary(Binary::Add, other, y);
    let y = net.unary(Unary::Relu, y);
    net.output(y);
    // Read twice, the sum is there.
    let both = convolution(&mut net, &mut draw, x, 4, padded([3, 1, 1]), 1);
    let twice = net.binary(Binary::Add, both, both);
    net.output(twice);
    let inputs = [draw.tensor(&dims), draw.tensor(&dims)];
    let expected = evaluate(&net.graph, &inputs);
    let passed = passes::run(net.graph, PassSet::LINES).unwrap();
    close(&evaluate(&passed, &inputs), &expected, 1e-5, "sums");
    let product = |value: ValueId| {
        let node = passed.nodes.iter().find(|n| n.outputs.contains(&value));
        node.is_some_and(|n| matches!(n.op, Op::Primitive(Primitive::Conv { .. })))
    };
    let adds = passed
        .nodes
        .iter()
        .filter(|n| n.op == Op::Primitive(Primitive::Binary(Binary::Add)));
    let with_product: Vec<bool> = adds.map(|n| n.inputs.iter().any(|v| product(*v))).collect();
    // Three products and what is added; three products, and their sum twice.
    assert_eq!(with_product, [true, true, true, true, true, false]);
}

#[test]
fn volumes_whose_slices_are_read_as_pictures_stay_slices() {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let x = net.input(&[1, 1, 6, 5, 5]);
    let y = convolution(&mut net, &mut draw, x, 8, padded([3, 3, 3]), 1);
    let y = net.unary(Unary::Relu, y);
    let z = convolution(&mut net, &mut draw, y, 8, padded([3, 3, 3]), 1);
    net.output(z);
    let passed = passes::run(net.graph, PassSet::FULLER.with(PassSet::LINES)).unwrap();
    let convolutions = passed
        .nodes
        .iter()
        .filter(|n| matches!(n.op, Op::Primitive(Primitive::Conv { .. })));
    assert_eq!(convolutions.count(), 6);
}
