//! Which patterns each pass knows, and which look-alikes it leaves alone. That results stay what they were is tested with
//! whole networks, in `planner::tests`.

mod averages;
mod collected;
mod columns;
mod common;
mod deformable;
mod edges;
mod expectation;
mod integers;
mod maxima;
mod mixed;
mod norms;
mod rearranged;
mod reduced;
mod rotary;
mod rows;
mod scores;
mod spaced_heads;
mod spellings;
mod spread;
mod through_views;
mod unsplit;
mod whole_channels;

use super::{PassSet, run};
use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::tests::nets::{Draw, Net};
use crate::planner::tests::oracle::{close, evaluate};
use crate::primitive::{Binary, PadMode, PoolKind, Primitive, ReduceKind, Scalar, Unary, Window};
use crate::tensor::{DType, Data, Shape, Tensor};

/// The primitives left after `set`, in order.
fn primitives(net: Net, output: ValueId, set: PassSet) -> Vec<Primitive> {
    let graph = passed(net, output, set);
    let primitive = |op: &Op| match op {
        Op::Primitive(p) => Some(*p),
        _ => None,
    };
    graph.nodes.iter().filter_map(|n| primitive(&n.op)).collect()
}

fn passed(mut net: Net, output: ValueId, set: PassSet) -> Graph {
    net.output(output);
    run(net.graph, set).unwrap()
}

fn scalar(net: &mut Net, value: f32) -> ValueId {
    net.constant(Tensor::new(Shape::SCALAR, Data::F32(vec![value])).unwrap())
}

fn picture() -> (Net, Draw, ValueId) {
    let mut net = Net::default();
    let x = net.input(&[1, 4, 6, 6]);
    (net, Draw::new(1), x)
}

fn pad(net: &mut Net, x: ValueId, channels: i32, value: f32) -> ValueId {
    let mut begin = [0; MAX_RANK];
    (begin[1], begin[2], begin[3]) = (channels, 1, 2);
    let d = net.dims(x);
    let mode = PadMode::Constant(Scalar(value));
    let dims = [d[0], d[1] + channels as u32, d[2] + 2, d[3] + 3];
    net.node(Op::Primitive(Primitive::Pad { mode, begin }), &[x], &dims)
}

#[test]
fn scale_and_shift_fold_into_every_kind_of_product() {
    let (mut net, mut draw, x) = picture();
    let y = net.conv(&mut draw, x, 4, 3, 1, 2, false);
    let scale = net.constant(draw.tensor(&[1, 4, 1, 1]));
    let shift = net.constant(draw.tensor(&[4, 1, 1]));
    let y = net.binary(Binary::Mul, y, scale);
    let y = net.binary(Binary::Sub, y, shift);
    let left = primitives(net, y, PassSet::FOLD_BATCHNORM);
    assert!(matches!(left[..], [Primitive::Conv { groups: 2, .. }]), "{left:?}");

    let mut net = Net::default();
    let x = net.input(&[5, 4]);
    let w = net.constant(draw.tensor(&[4, 3]));
    let y = net.node(Op::Primitive(Primitive::MatMul), &[x, w], &[5, 3]);
    let scale = net.constant(draw.tensor(&[3]));
    let shift = net.constant(draw.tensor(&[1, 3]));
    let y = net.binary(Binary::Mul, y, scale);
    let y = net.binary(Binary::Add, y, shift);
    assert_eq!(primitives(net, y, PassSet::FOLD_BATCHNORM), [Primitive::MatMul]);
}

#[test]
fn what_varies_along_another_axis_or_is_read_twice_does_not_fold() {
    let (mut net, mut draw, x) = picture();
    let y = net.conv(&mut draw, x, 4, 3, 1, 1, true);
    let along_rows = net.constant(draw.tensor(&[6, 1]));
    let y = net.binary(Binary::Mul, y, along_rows);
    assert_eq!(primitives(net, y, PassSet::FOLD_BATCHNORM).len(), 2);

    let (mut net, mut draw, x) = picture();
    let y = net.conv(&mut draw, x, 4, 3, 1, 1, true);
    let scale = net.constant(draw.tensor(&[4, 1, 1]));
    let z = net.binary(Binary::Mul, y, scale);
    let y = net.binary(Binary::Add, z, y);
    assert_eq!(primitives(net, y, PassSet::FOLD_BATCHNORM).len(), 3);

    // A constant minus the product is no scale and shift of this form.
    let (mut net, mut draw, x) = picture();
    let y = net.conv(&mut draw, x, 4, 3, 1, 1, true);
    let one = scalar(&mut net, 1.0);
    let dims = net.dims(y);
    let one = net.view(ViewOp::Broadcast, one, &dims);
    let y = net.same(Primitive::Binary(Binary::Sub), &[one, y]);
    assert_eq!(primitives(net, y, PassSet::FOLD_BATCHNORM).len(), 2);
}

#[test]
fn zero_padding_moves_into_the_window_behind_it() {
    let (mut net, mut draw, x) = picture();
    let y = pad(&mut net, x, 0, 0.0);
    let y = net.conv(&mut draw, y, 4, 3, 2, 1, true);
    let left = primitives(net, y, PassSet::FOLD_PAD);
    let [Primitive::Conv { window, .. }] = left[..] else {
        panic!("{left:?}")
    };
    assert_eq!((window.pad_begin, window.pad_end), ([2, 3, 0], [2, 2, 0]));

    for (channels, value) in [(1, 0.0), (0, 1.0)] {
        let (mut net, mut draw, x) = picture();
        let y = pad(&mut net, x, channels, value);
        let y = net.conv(&mut draw, y, 4, 3, 2, 1, true);
        assert_eq!(primitives(net, y, PassSet::FOLD_PAD).len(), 2, "{channels} {value}");
    }

    // A maximum over padding sees the zeros, a window's own padding it does not.
    let (mut net, _, x) = picture();
    let y = pad(&mut net, x, 0, 0.0);
    let kind = PoolKind::Max { column_major: false };
    let window = Window::new(&[2, 2]);
    let y = net.node(Op::Primitive(Primitive::Pool { kind, window }), &[y], &[1, 4, 7, 8]);
    assert_eq!(primitives(net, y, PassSet::FOLD_PAD).len(), 2);
}

#[test]
fn averages_count_the_padding_that_moved_into_them() {
    let (mut net, _, x) = picture();
    let y = pad(&mut net, x, 0, 0.0);
    let kind = PoolKind::Average { count_pad: false };
    let window = Window::new(&[4, 4]);
    let y = net.node(Op::Primitive(Primitive::Pool { kind, window }), &[y], &[1, 4, 5, 6]);
    let left = primitives(net, y, PassSet::FOLD_PAD);
    let counted = PoolKind::Average { count_pad: true };
    assert!(matches!(left[..], [Primitive::Pool { kind, .. }] if kind == counted), "{left:?}");
}

#[test]
fn what_changes_nothing_goes() {
    let (mut net, _, x) = picture();
    let y = net.transpose(x, &[0, 2, 3, 1]);
    let y = net.transpose(y, &[0, 3, 1, 2]);
    let y = net.view(ViewOp::Reshape, y, &[4, 36]);
    let y = net.view(ViewOp::Reshape, y, &[1, 4, 6, 6]);
    let y = net.same(Primitive::Copy, &[y]);
    let all = ViewOp::Slice {
        start: vec![0; 4],
        step: vec![1; 4],
    };
    let y = net.view(all, y, &[1, 4, 6, 6]);
    let y = net.concat(1, &[y]);
    let graph = passed(net, y, PassSet::DROP_NOOPS);
    assert!(graph.nodes.is_empty(), "{:?}", graph.nodes);
    assert_eq!(graph.outputs[0].value, graph.inputs[0].value);

    // Reversed or turned, it stays.
    let (mut net, _, x) = picture();
    let flip = ViewOp::Slice {
        start: vec![0, 3, 0, 0],
        step: vec![1, -1, 1, 1],
    };
    let y = net.view(flip, x, &[1, 4, 6, 6]);
    let y = net.transpose(y, &[0, 1, 3, 2]);
    assert_eq!(passed(net, y, PassSet::DROP_NOOPS).nodes.len(), 2);
}

#[test]
fn subnormal_weights_and_slopes_are_zeros() {
    let tiny = f32::MIN_POSITIVE / 4.0;
    let row = |values: &[f32], dims: &[u32]| Tensor::new(Shape::new(dims).unwrap(), Data::F32(values.to_vec())).unwrap();
    let mut net = Net::default();
    let x = net.input(&[1, 2, 3, 3]);
    let weights = net.constant(row(&[1.0, -tiny, tiny, f32::MIN_POSITIVE], &[2, 2, 1, 1]));
    let conv = Primitive::Conv {
        window: Window::new(&[1, 1]),
        groups: 1,
    };
    let y = net.node(Op::Primitive(conv), &[x, weights], &[1, 2, 3, 3]);
    let slopes = net.constant(row(&[tiny, 0.5], &[1, 2, 1, 1]));
    let spread = net.view(ViewOp::Broadcast, slopes, &[1, 2, 3, 3]);
    let y = net.binary(Binary::PRelu, y, spread);
    // What is read by anything else stays what it is.
    let least = net.constant(row(&[tiny, 2.0], &[1, 2, 1, 1]));
    let least_of_all = net.view(ViewOp::Broadcast, least, &[1, 2, 3, 3]);
    let y = net.binary(Binary::Mul, y, least_of_all);
    let y = net.binary(Binary::Max, y, least_of_all);
    let graph = passed(net, y, PassSet::SUBNORMALS);
    let elements = |value| graph.value(value).data.as_ref().unwrap().as_f32().unwrap().to_vec();
    assert_eq!(elements(weights), [1.0, 0.0, 0.0, f32::MIN_POSITIVE]);
    assert_eq!(elements(slopes), [0.0, 0.5]);
    assert_eq!(elements(least), [tiny, 2.0]);
}

#[test]
fn large_results_are_computed_ahead_where_each_element_is_of_many() {
    let (mut net, mut draw, _) = picture();
    // 4.8 million elements: a product, what a constant of as many gives, and what repeating a row gives.
    let column = net.constant(draw.tensor(&[2200, 1]));
    let row = net.constant(draw.tensor(&[1, 2200]));
    let product = net.node(Op::Primitive(Primitive::MatMul), &[column, row], &[2200, 2200]);
    let negated = net.unary(Unary::Neg, product);
    let repeated = net.view(ViewOp::Broadcast, row, &[2200, 2200]);
    let repeated = net.unary(Unary::Neg, repeated);
    let sum = net.binary(Binary::Add, negated, repeated);
    let graph = passed(net, sum, PassSet::FOLD_CONSTANTS.with(PassSet::DROP_DEAD));
    assert_eq!(graph.nodes.len(), 3, "{:?}", graph.nodes);
    assert!(graph.value(negated).data.is_some());
    assert!(graph.value(repeated).data.is_none());
}

#[test]
fn constants_are_computed_and_dead_nodes_go() {
    let (mut net, mut draw, x) = picture();
    let a = net.constant(draw.tensor(&[4, 1, 1]));
    let b = net.constant(draw.tensor(&[4, 1, 1]));
    let sum = net.binary(Binary::Add, a, b);
    let joined = net.concat(0, &[sum, a]);
    let turned = net.transpose(joined, &[1, 2, 0]);
    let half = ViewOp::Slice {
        start: vec![0, 0, 0],
        step: vec![1, 1, 2],
    };
    let half = net.view(half, turned, &[1, 1, 4]);
    let factor = net.view(ViewOp::Reshape, half, &[4, 1, 1]);
    let y = net.binary(Binary::Mul, x, factor);
    let unread = net.unary(Unary::Exp, x);
    net.unary(Unary::Neg, unread);
    let graph = passed(net, y, PassSet::FOLD_CONSTANTS.with(PassSet::DROP_DEAD));
    // The broadcast of the factor is a stride, not data.
    assert_eq!(graph.nodes.len(), 2, "{:?}", graph.nodes);
    let factor = graph.value(graph.nodes[0].inputs[0]).data.as_ref().unwrap();
    let (a, b) = (graph.value(a).data.clone().unwrap(), graph.value(b).data.clone().unwrap());
    let at = |t: &Tensor, i: usize| t.get_f64(i).unwrap();
    let expected = [at(&a, 0) + at(&b, 0), at(&a, 2) + at(&b, 2), at(&a, 0), at(&a, 2)];
    assert_eq!((0..4).map(|i| at(factor, i)).collect::<Vec<_>>(), expected);
}

/// Attention of `[2, 4, 5, 6]` to `keys` keys, both factors and a quotient around the scores, and perhaps a mask.
fn attention(keys: u32, read_twice: bool, masked: bool, set: PassSet) -> Vec<Primitive> {
    let mut net = Net::default();
    let (q, k) = (net.input(&[2, 4, 5, 6]), net.input(&[2, 4, 6, keys]));
    let v = net.input(&[2, 4, keys, 7]);
    let (quarter, half, two) = (scalar(&mut net, 0.25), scalar(&mut net, 0.5), scalar(&mut net, 2.0));
    let q = net.binary(Binary::Mul, q, quarter);
    let k = net.binary(Binary::Mul, k, half);
    let scores = net.node(Op::Primitive(Primitive::MatMul), &[q, k], &[2, 4, 5, keys]);
    let mut scores = net.binary(Binary::Div, scores, two);
    if masked {
        let mask = net.input(&[2, 4, 5, keys]);
        scores = net.binary(Binary::Add, mask, scores);
    }
    let shares = net.node(Op::Primitive(Primitive::Softmax { axis: 3 }), &[scores], &[2, 4, 5, keys]);
    if read_twice {
        net.output(shares);
    }
    let y = net.node(Op::Primitive(Primitive::MatMul), &[shares, v], &[2, 4, 5, 7]);
    primitives(net, y, set)
}

#[test]
fn products_around_a_softmax_become_attention_unless_somebody_reads_the_shares_or_they_are_long() {
    let fused = [Primitive::Attention { scale: Scalar(0.0625) }];
    let (short, long) = (PassSet::ATTENTION, PassSet::LONG_ATTENTION);
    assert_eq!(attention(9, false, false, short), fused);
    assert!(attention(9, true, false, short).len() > 1);
    assert!(attention(5000, false, false, short).len() > 1);
    assert!(attention(9, false, true, short).len() > 1);
    assert!(attention(9, true, false, long).len() > 1);
    for masked in [false, true] {
        assert_eq!(attention(5000, false, masked, long), fused);
    }
}

#[test]
fn masks_that_are_added_in_steps_are_one() {
    let attention = |constant: bool| {
        let (mut net, mut draw) = (Net::default(), Draw::new(1));
        let (q, k) = (net.input(&[4, 2, 5, 6]), net.input(&[4, 2, 6, 5]));
        let v = net.input(&[4, 2, 5, 7]);
        let scores = net.node(Op::Primitive(Primitive::MatMul), &[q, k], &[4, 2, 5, 5]);
        let (bias, apart) = (draw.tensor(&[2, 5, 5]), draw.tensor(&[4, 1, 5, 5]));
        let expected: Vec<f32> = (0..200)
            .map(|i| apart.as_f32().unwrap()[i / 50 * 25 + i % 25] + bias.as_f32().unwrap()[i % 50])
            .collect();
        let bias = net.constant(bias);
        let scores = net.binary(Binary::Add, scores, bias);
        let windows = net.node(Op::View(ViewOp::Reshape), &[scores], &[1, 4, 2, 5, 5]);
        let apart = if constant { net.constant(apart) } else { net.input(&[4, 1, 5, 5]) };
        let windows = net.binary(Binary::Add, windows, apart);
        let scores = net.node(Op::View(ViewOp::Reshape), &[windows], &[4, 2, 5, 5]);
        let shares = net.node(Op::Primitive(Primitive::Softmax { axis: 3 }), &[scores], &[4, 2, 5, 5]);
        let y = net.node(Op::Primitive(Primitive::MatMul), &[shares, v], &[4, 2, 5, 7]);
        let graph = passed(net, y, PassSet::LONG_ATTENTION);
        let fused = |n: &&Node| matches!(n.op, Op::Primitive(Primitive::Attention { .. }));
        let mask = graph
            .nodes
            .iter()
            .find(fused)
            .map(|n| graph.value(n.inputs[3]).data.clone().unwrap());
        (mask, expected)
    };
    let (mask, expected) = attention(true);
    assert_eq!(mask.unwrap().as_f32().unwrap(), expected);
    assert!(attention(false).0.is_none(), "what is computed is no constant");
}

#[test]
fn sums_of_few_that_do_not_lie_side_by_side_are_additions() {
    let sums = |shape: [u32; 4], axes: u8, kind: ReduceKind| {
        let mut net = Net::default();
        let x = net.input(&shape);
        let dims: Vec<u32> = shape
            .iter()
            .zip(0..)
            .map(|(&d, a)| if axes >> a & 1 == 1 { 1 } else { d })
            .collect();
        let y = net.node(Op::Primitive(Primitive::Reduce { kind, axes }), &[x], &dims);
        primitives(net, y, PassSet::SHORT_SUMS)
    };
    let add = Primitive::Binary(Binary::Add);
    assert_eq!(sums([1, 2, 3, 2], 0b0010, ReduceKind::Sum), [add]);
    assert_eq!(sums([4, 1, 3, 2], 0b0001, ReduceKind::Sum), [add, add, add]);
    for (axes, kind) in [
        (0b0100, ReduceKind::Sum),
        (0b1000, ReduceKind::Sum),
        (0b1010, ReduceKind::Sum),
        (0b0010, ReduceKind::Mean),
    ] {
        assert_eq!(sums([1, 2, 9, 2], axes, kind), [Primitive::Reduce { kind, axes }]);
    }
}

#[test]
fn a_product_with_turned_shares_becomes_turned_attention() {
    let mut net = Net::default();
    let (q, k) = (net.input(&[1, 50, 4]), net.input(&[1, 4, 60]));
    let v = net.input(&[1, 7, 60]);
    let scores = net.node(Op::Primitive(Primitive::MatMul), &[q, k], &[1, 50, 60]);
    let shares = net.node(Op::Primitive(Primitive::Softmax { axis: 2 }), &[scores], &[1, 50, 60]);
    let perm = vec![0, 2, 1];
    let turned = net.node(Op::View(ViewOp::Transpose { perm }), &[shares], &[1, 60, 50]);
    let y = net.node(Op::Primitive(Primitive::MatMul), &[v, turned], &[1, 7, 50]);
    assert_eq!(
        primitives(net, y, PassSet::LONG_ATTENTION),
        [Primitive::Attention { scale: Scalar(1.0) }]
    );
}

#[test]
fn factors_that_each_head_has_of_its_own_are_those_of_its_queries() {
    let scores = |factors: &[u32]| {
        let (mut net, mut draw) = (Net::default(), Draw::new(8));
        let (q, k) = (net.input(&[2, 3, 50, 8]), net.input(&[2, 3, 8, 60]));
        let v = net.input(&[2, 3, 60, 8]);
        let scores = net.node(Op::Primitive(Primitive::MatMul), &[q, k], &[2, 3, 50, 60]);
        let factors = net.constant(draw.tensor(factors));
        let scores = net.binary(Binary::Mul, scores, factors);
        let mask = net.constant(draw.tensor(&[3, 50, 60]));
        let scores = net.binary(Binary::Add, scores, mask);
        let shares = net.same(Primitive::Softmax { axis: 3 }, &[scores]);
        let y = net.node(Op::Primitive(Primitive::MatMul), &[shares, v], &[2, 3, 50, 8]);
        net.output(y);
        let passed = run(net.graph.clone(), PassSet::LONG_ATTENTION).unwrap();
        let inputs = [[2, 3, 50, 8], [2, 3, 8, 60], [2, 3, 60, 8]].map(|dims| draw.tensor(&dims));
        close(
            &evaluate(&passed, &inputs),
            &evaluate(&net.graph, &inputs),
            1e-5,
            "factors of heads",
        );
        let attends = |op: &Op| matches!(op, Op::Primitive(Primitive::Attention { .. }));
        passed.nodes.iter().filter(|n| attends(&n.op)).count()
    };
    assert_eq!(scores(&[3, 1, 1]), 1);
    assert_eq!(scores(&[2, 1, 1, 1]), 1, "of each sample");
    assert_eq!(scores(&[3, 1, 60]), 0, "of each key");
    assert_eq!(scores(&[50, 1]), 0, "of each query");
}

#[test]
fn windows_side_by_side_are_seen_as_channels_of_lines() {
    let patches = |stride: u32| {
        let (mut net, mut draw) = (Net::default(), Draw::new(1));
        let x = net.input(&[2, 3, 32, 48]);
        let weights = net.constant(draw.tensor(&[5, 3, 16, 16]));
        let mut window = Window::new(&[16, 16]);
        window.stride[..2].fill(stride);
        let dims = [2, 5, 16 / stride + 1, 32 / stride + 1];
        let y = net.node(Op::Primitive(Primitive::Conv { window, groups: 1 }), &[x, weights], &dims);
        primitives(net, y, PassSet::PATCHES)
    };
    let window = Window::new(&[16, 1]);
    assert_eq!(patches(16), [Primitive::Conv { window, groups: 1 }]);
    assert_ne!(patches(8), [Primitive::Conv { window, groups: 1 }], "windows that overlap");
}

#[test]
fn windows_side_by_side_that_begin_in_the_padding_are_those_of_a_padded_picture() {
    // Of 20 rows the last two are under no window, and the last column of windows is half in the padding.
    let (mut net, mut draw) = (Net::default(), Draw::new(1));
    let x = net.input(&[2, 3, 20, 36]);
    let weights = net.constant(draw.tensor(&[5, 3, 8, 8]));
    let mut window = Window::new(&[8, 8]);
    window.stride[..2].fill(8);
    (window.pad_begin, window.pad_end) = ([1, 2, 0], [1, 4, 0]);
    let y = net.node(Op::Primitive(Primitive::Conv { window, groups: 1 }), &[x, weights], &[2, 5, 2, 5]);
    net.output(y);
    let passed = run(net.graph.clone(), PassSet::PATCHES).unwrap();
    let read = |n: &&Node| matches!(n.op, Op::Primitive(Primitive::Conv { .. }));
    let convolution = passed.nodes.iter().find(read).unwrap();
    assert_eq!(passed.value(convolution.inputs[0]).shape.dims(), [4, 24, 8, 5]);
    let inputs = [draw.tensor(&[2, 3, 20, 36])];
    close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "padded patches");
}

#[test]
fn rows_of_windows_that_are_no_whole_pieces_get_channels_of_zeros() {
    let (mut net, mut draw) = (Net::default(), Draw::new(1));
    let x = net.input(&[2, 3, 28, 42]);
    let weights = net.constant(draw.tensor(&[5, 3, 14, 14]));
    let mut window = Window::new(&[14, 14]);
    window.stride[..2].fill(14);
    let y = net.node(Op::Primitive(Primitive::Conv { window, groups: 1 }), &[x, weights], &[2, 5, 2, 3]);
    net.output(y);
    let passed = run(net.graph.clone(), PassSet::PATCHES).unwrap();
    let convolution = passed
        .nodes
        .iter()
        .find(|n| matches!(n.op, Op::Primitive(Primitive::Conv { .. })))
        .unwrap();
    // 14 pixels of 4 channels: seven pieces of eight.
    assert_eq!(passed.value(convolution.inputs[0]).shape.dims(), [4, 56, 14, 3]);
    let inputs = [draw.tensor(&[2, 3, 28, 42])];
    close(
        &evaluate(&passed, &inputs),
        &evaluate(&net.graph, &inputs),
        1e-5,
        "windows of 14 pixels",
    );
}

#[test]
fn products_of_one_matrix_that_views_read_are_computed_at_once() {
    let products = |function: bool| {
        let (mut net, mut draw) = (Net::default(), Draw::new(1));
        let x = net.input(&[2, 5, 8]);
        let mut parts = Vec::new();
        for columns in [16, 24] {
            let weights = net.constant(draw.tensor(&[8, columns]));
            let weights = net.node(Op::View(ViewOp::Broadcast), &[weights], &[2, 8, columns]);
            let y = net.node(Op::Primitive(Primitive::MatMul), &[x, weights], &[2, 5, columns]);
            let y = if function { net.unary(Unary::Relu, y) } else { y };
            parts.push(net.node(Op::View(ViewOp::Reshape), &[y], &[2, 5, columns / 8, 8]));
        }
        net.output(parts[0]);
        primitives(net, parts[1], PassSet::SIBLINGS)
    };
    assert_eq!(products(false), [Primitive::MatMul]);
    assert_eq!(products(true).len(), 4, "each with its function");
}

#[test]
fn products_that_several_nodes_read_are_computed_at_once() {
    // Queries and keys by their lengths (Shaker et al. 2023): no function of one reader can follow its product.
    let products = |normalised: bool| {
        let (mut net, mut draw) = (Net::default(), Draw::new(1));
        let x = net.input(&[2, 5, 8]);
        for _ in 0..2 {
            let weights = net.constant(draw.tensor(&[8, 16]));
            let weights = net.view(ViewOp::Broadcast, weights, &[2, 8, 16]);
            let y = net.node(Op::Primitive(Primitive::MatMul), &[x, weights], &[2, 5, 16]);
            let y = if normalised {
                let kind = ReduceKind::Norm;
                let length = net.node(Op::Primitive(Primitive::Reduce { kind, axes: 4 }), &[y], &[2, 5, 1]);
                net.binary(Binary::Div, y, length)
            } else {
                net.unary(Unary::Gelu, y)
            };
            net.output(y);
        }
        let output = net.graph.outputs.pop().unwrap().value;
        let left = primitives(net, output, PassSet::SIBLINGS);
        left.iter().filter(|p| **p == Primitive::MatMul).count()
    };
    assert_eq!((products(true), products(false)), (1, 2));
}

#[test]
fn constants_of_constants_are_computed_up_to_a_limit_or_their_own_size() {
    let left = |net: Net, y: ValueId| primitives(net, y, PassSet::FOLD_CONSTANTS).len();
    let large = |dims: &[u32]| Tensor::zeros(DType::F32, Shape::new(dims).unwrap());
    // Standardised weights are as large as those that a file has.
    let mut net = Net::default();
    let weights = net.constant(large(&[2049, 2048]));
    let y = net.unary(Unary::Relu, weights);
    assert_eq!(left(net, y), 0);
    let mut net = Net::default();
    let [row, column] = [[1, 2049], [2049, 1]].map(|dims| net.constant(large(&dims)));
    let [row, column] = [row, column].map(|v| net.view(ViewOp::Broadcast, v, &[2049, 2049]));
    let y = net.binary(Binary::Add, row, column);
    assert_eq!(left(net, y), 1, "an outer sum is larger than what it is made of");
}

#[test]
fn a_product_of_pictures_with_channels_last_is_one_of_rows() {
    let shapes = |set: PassSet| {
        let (mut net, mut draw) = (Net::default(), Draw::new(1));
        let x = net.input(&[2, 5, 7, 8]);
        let weights = net.constant(draw.tensor(&[8, 16]));
        let weights = net.node(Op::View(ViewOp::Broadcast), &[weights], &[2, 5, 8, 16]);
        let bias = net.constant(draw.tensor(&[16]));
        let bias = net.node(Op::View(ViewOp::Broadcast), &[bias], &[2, 5, 7, 16]);
        let y = net.node(Op::Primitive(Primitive::MatMul), &[x, weights], &[2, 5, 7, 16]);
        let y = net.node(Op::Primitive(Primitive::Binary(Binary::Add)), &[y, bias], &[2, 5, 7, 16]);
        let y = net.unary(Unary::Gelu, y);
        net.output(y);
        let graph = super::run(net.graph, set).unwrap();
        let primitive = |n: &&Node| matches!(n.op, Op::Primitive(_));
        let shape = |n: &Node| graph.value(n.outputs[0]).shape.dims().to_vec();
        let inner: Vec<Vec<u32>> = graph.nodes.iter().filter(primitive).map(shape).collect();
        (inner, graph.value(graph.outputs[0].value).shape.dims().to_vec())
    };
    let picture = vec![2, 5, 7, 16];
    assert_eq!(shapes(PassSet::NONE), (vec![picture.clone(); 3], picture.clone()));
    assert_eq!(shapes(PassSet::MERGED_AXES), (vec![vec![2, 35, 16]; 3], picture));
}

#[test]
fn concatenations_take_what_an_earlier_one_made_of_their_first_or_last_parts() {
    let parts = |lists: &[&[usize]]| {
        let (mut net, _, x) = picture();
        let maps: Vec<ValueId> = (0..4).map(|_| net.unary(Unary::Relu, x)).collect();
        for list in lists {
            let list: Vec<ValueId> = list.iter().map(|&part| maps[part]).collect();
            let made = net.concat(1, &list);
            net.output(made);
        }
        let graph = run(net.graph, PassSet::NESTED).unwrap();
        let made: Vec<ValueId> = graph.outputs.iter().map(|o| o.value).collect();
        // A part by its number, a whole by 100 and its own.
        let name = |v: &ValueId| {
            maps.iter()
                .position(|m| m == v)
                .or_else(|| Some(100 + made.iter().position(|m| m == v)?))
        };
        let joins = graph.nodes.iter().filter(|n| matches!(n.op, Op::Concat { .. }));
        joins
            .map(|n| n.inputs.iter().filter_map(name).collect())
            .collect::<Vec<Vec<usize>>>()
    };
    assert_eq!(
        parts(&[&[0, 1], &[0, 1, 2], &[0, 1, 2, 3]]),
        [vec![0, 1], vec![100, 2], vec![101, 3]],
        "a dense block"
    );
    assert_eq!(parts(&[&[1, 0], &[2, 1, 0]]), [vec![1, 0], vec![2, 100]], "new ones first");
    assert_eq!(parts(&[&[0, 1], &[1, 2], &[0, 1, 2]]), [vec![0, 1], vec![1, 2], vec![100, 2]]);
    assert_eq!(parts(&[&[0, 1], &[0, 1]]), [vec![0, 1], vec![100]], "the same again");
    for apart in [
        [&[0, 1, 2][..], &[0, 1]],
        [&[0, 1], &[1, 0]],
        [&[0, 2], &[0, 1, 2]],
        [&[1, 2], &[0, 1, 2, 3]],
    ] {
        assert_eq!(parts(&apart), apart, "as they are");
    }
}

#[test]
fn roots_of_sums_of_squares_are_norms() {
    let spelled = |kind: ReduceKind, square: Binary, exponent: f32| {
        let mut net = Net::default();
        let x = net.input(&[1, 3, 2, 2]);
        let by = if square == Binary::Mul { x } else { scalar(&mut net, exponent) };
        let squares = net.binary(square, x, by);
        let sum = net.node(Op::Primitive(Primitive::Reduce { kind, axes: 2 }), &[squares], &[1, 1, 2, 2]);
        let y = net.unary(Unary::Sqrt, sum);
        primitives(net, y, PassSet::NORMS)
    };
    let norm = Primitive::Reduce {
        kind: ReduceKind::Norm,
        axes: 2,
    };
    assert_eq!(spelled(ReduceKind::Sum, Binary::Mul, 0.0), std::slice::from_ref(&norm));
    assert_eq!(spelled(ReduceKind::Sum, Binary::Pow, 2.0), [norm]);
    assert_eq!(spelled(ReduceKind::Sum, Binary::Pow, 3.0).len(), 3);
    assert_eq!(spelled(ReduceKind::Mean, Binary::Mul, 0.0).len(), 3);
}
