//! Rows that are gathered at once.

use super::*;

const SET: PassSet = PassSet::ROWS;

/// Rolls `[N, H, W, C]` by `by` positions along `axis`.
fn rolled(net: &mut Net, x: ValueId, axis: usize, by: u32) -> ValueId {
    let dims = net.dims(x);
    let mut part = |start: u32, extent: u32| {
        let mut shape = dims.clone();
        shape[axis] = extent;
        net.view(ViewOp::band(4, axis, start.into()), x, &shape)
    };
    let parts = [part(by, dims[axis] - by), part(0, by)];
    net.concat(axis, &parts)
}

/// A picture that is computed of tokens: `[N, H, W, C]` of `[N, H W, C]`.
fn tokens(net: &mut Net, dims: [u32; 4]) -> ValueId {
    let [n, h, w, c] = dims;
    let x = net.input(&[n, h * w, c]);
    net.view(ViewOp::Reshape, x, &dims)
}

/// Windows of 2x2 pixels of two pictures of 4x6 pixels: `[2 * 6, 4, C]`.
fn windows(net: &mut Net, x: ValueId, channels: u32) -> ValueId {
    let y = net.view(ViewOp::Reshape, x, &[2, 2, 2, 3, 2, channels]);
    let y = net.transpose(y, &[0, 1, 3, 2, 4, 5]);
    net.view(ViewOp::Reshape, y, &[12, 4, channels])
}

/// The pictures of windows.
fn pictures(net: &mut Net, x: ValueId, channels: u32) -> ValueId {
    let y = net.view(ViewOp::Reshape, x, &[2, 2, 3, 2, 2, channels]);
    let y = net.transpose(y, &[0, 1, 3, 2, 4, 5]);
    net.view(ViewOp::Reshape, y, &[2, 4, 6, channels])
}

/// What the pass leaves of the primitives and concatenations, in order; the results are the same bits.
fn left(mut net: Net, draw: &mut Draw, output: ValueId) -> (Vec<Primitive>, usize) {
    net.output(output);
    let graph = run(net.graph.clone(), SET).unwrap();
    let inputs: Vec<Tensor> = net.graph.inputs.iter().map(|n| draw.tensor(&net.dims(n.value))).collect();
    close(&evaluate(&graph, &inputs), &evaluate(&net.graph, &inputs), 0.0, "gathered rows");
    let primitives = graph.nodes.iter().filter_map(|n| match n.op {
        Op::Primitive(p) => Some(p),
        _ => None,
    });
    let concats = graph.nodes.iter().filter(|n| matches!(n.op, Op::Concat { .. })).count();
    (primitives.collect(), concats)
}

const GATHER: Primitive = Primitive::Gather { axis: 1 };
const RELU: Primitive = Primitive::Unary(Unary::Relu);
const ADD: Primitive = Primitive::Binary(Binary::Add);

#[test]
fn a_shifted_window_is_one_gathering_there_and_one_back() {
    let (mut net, mut draw) = (Net::default(), Draw::new(1));
    let x = tokens(&mut net, [2, 4, 6, 8]);
    let y = net.unary(Unary::Relu, x);
    let y = rolled(&mut net, y, 1, 1);
    let y = rolled(&mut net, y, 2, 1);
    let y = windows(&mut net, y, 8);
    let weights = net.input(&[12, 8, 8]);
    let y = net.node(Op::Primitive(Primitive::MatMul), &[y, weights], &[12, 4, 8]);
    let y = pictures(&mut net, y, 8);
    let y = rolled(&mut net, y, 1, 3);
    let y = rolled(&mut net, y, 2, 5);
    let y = net.binary(Binary::Add, x, y);
    assert_eq!(left(net, &mut draw, y), (vec![RELU, GATHER, Primitive::MatMul, GATHER, ADD], 0));
}

#[test]
fn windows_are_gathered_where_something_is_added() {
    for (added, found) in [(true, vec![RELU, GATHER, ADD]), (false, vec![RELU, RELU])] {
        let (mut net, mut draw) = (Net::default(), Draw::new(2));
        let x = net.input(&[48, 8]);
        let x = net.view(ViewOp::Reshape, x, &[12, 4, 8]);
        let residual = net.input(&[2, 4, 6, 8]);
        let y = net.unary(Unary::Relu, x);
        let y = pictures(&mut net, y, 8);
        let y = if added {
            net.binary(Binary::Add, residual, y)
        } else {
            net.unary(Unary::Relu, y)
        };
        assert_eq!(left(net, &mut draw, y).0, found);
    }
}

#[test]
fn merged_patches_are_one_gathering() {
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let x = tokens(&mut net, [2, 4, 6, 8]);
    let y = net.unary(Unary::Relu, x);
    let mut patch = |row: i64, column: i64| {
        let (start, step) = (vec![0, row, column, 0], vec![1, 2, 2, 1]);
        net.view(ViewOp::Slice { start, step }, y, &[2, 2, 3, 8])
    };
    let parts = [patch(0, 0), patch(1, 0), patch(0, 1), patch(1, 1)];
    let y = net.concat(3, &parts);
    let y = net.unary(Unary::Relu, y);
    assert_eq!(left(net, &mut draw, y), (vec![RELU, GATHER, RELU], 0));
}

#[test]
fn what_is_no_whole_rows_of_one_value_stays() {
    // Rows of no whole pieces.
    let (mut net, mut draw) = (Net::default(), Draw::new(4));
    let x = tokens(&mut net, [2, 4, 6, 5]);
    let y = net.unary(Unary::Relu, x);
    let y = rolled(&mut net, y, 1, 1);
    let y = net.unary(Unary::Relu, y);
    assert_eq!(left(net, &mut draw, y), (vec![RELU, RELU], 1));

    // Channels themselves are rolled.
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let x = tokens(&mut net, [2, 4, 6, 8]);
    let y = net.unary(Unary::Relu, x);
    let y = rolled(&mut net, y, 3, 1);
    let y = net.unary(Unary::Relu, y);
    assert_eq!(left(net, &mut draw, y), (vec![RELU, RELU], 1));

    // The pictures change places.
    let (mut net, mut draw) = (Net::default(), Draw::new(6));
    let x = tokens(&mut net, [3, 4, 6, 8]);
    let y = net.unary(Unary::Relu, x);
    let y = rolled(&mut net, y, 0, 1);
    let y = net.unary(Unary::Relu, y);
    assert_eq!(left(net, &mut draw, y), (vec![RELU, RELU], 1));

    // A convolution's pictures lie channels-last, whose rows along the last axis are none.
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let x = tokens(&mut net, [2, 4, 6, 8]);
    let y = net.conv(&mut draw, x, 4, 1, 1, 1, false);
    let y = net.unary(Unary::Relu, y);
    let y = rolled(&mut net, y, 2, 1);
    let y = net.unary(Unary::Relu, y);
    assert_eq!(left(net, &mut draw, y).1, 1);

    // Another function reads a part.
    let (mut net, mut draw) = (Net::default(), Draw::new(8));
    let x = tokens(&mut net, [2, 4, 6, 8]);
    let y = net.unary(Unary::Relu, x);
    let rolled_once = rolled(&mut net, y, 1, 1);
    let other = net.unary(Unary::Abs, rolled_once);
    let y = rolled(&mut net, rolled_once, 2, 1);
    net.output(other);
    let y = net.unary(Unary::Relu, y);
    assert_eq!(left(net, &mut draw, y).0[1..], [GATHER, Primitive::Unary(Unary::Abs), RELU]);
}

#[test]
fn rows_that_are_cut_apart_are_taken_whole() {
    // Two of four rows, each as two: as many positions along the first axis as the base has, of half as many rows. The first sample
    // of two has a row of the second one.
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let x = net.input(&[64]);
    let x = net.view(ViewOp::Reshape, x, &[4, 16]);
    let y = net.unary(Unary::Relu, x);
    let mut halves = |start: u32| {
        let row = net.view(ViewOp::band(2, 0, start.into()), y, &[1, 16]);
        net.view(ViewOp::Reshape, row, &[2, 8])
    };
    let parts = [halves(2), halves(0)];
    let y = net.concat(0, &parts);
    let weights = net.input(&[8, 8]);
    let y = net.node(Op::Primitive(Primitive::MatMul), &[y, weights], &[4, 8]);
    assert_eq!(left(net, &mut draw, y), (vec![RELU, Primitive::MatMul], 1));

    // One row of one axis, which has no sample but itself.
    let (mut net, mut draw) = (Net::default(), Draw::new(10));
    let x = net.input(&[1, 8]);
    let x = net.view(ViewOp::Reshape, x, &[8]);
    let y = net.unary(Unary::Relu, x);
    let y = net.view(ViewOp::Reshape, y, &[8, 1]);
    let parts = [0, 4].map(|start| net.view(ViewOp::band(2, 0, start), y, &[4, 1]));
    let y = net.concat(0, &parts);
    let y = net.unary(Unary::Relu, y);
    assert_eq!(left(net, &mut draw, y), (vec![RELU, GATHER, RELU], 0));
}
