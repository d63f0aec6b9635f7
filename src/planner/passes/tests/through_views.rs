//! Functions behind views of products.

use super::*;

const SET: PassSet = PassSet::THROUGH_VIEWS;

/// A convolution of a picture of `channels` channels and 4x6 pixels, as rows of tokens.
fn tokens(net: &mut Net, draw: &mut Draw, channels: u32) -> ValueId {
    let x = net.input(&[2, channels, 4, 6]);
    let y = net.conv(draw, x, channels, 3, 1, channels, true);
    let y = net.view(ViewOp::Reshape, y, &[2, channels, 24]);
    net.transpose(y, &[0, 2, 1])
}

/// The primitives left, in order, each with the shape of its result; results are held against those before.
fn left(mut net: Net, draw: &mut Draw, output: ValueId) -> Vec<(Primitive, Vec<u32>)> {
    net.output(output);
    let graph = run(net.graph.clone(), SET).unwrap();
    let inputs: Vec<Tensor> = net.graph.inputs.iter().map(|n| draw.tensor(&net.dims(n.value))).collect();
    close(&evaluate(&graph, &inputs), &evaluate(&net.graph, &inputs), 0.0, "through views");
    let primitive = |n: &Node| match &n.op {
        Op::Primitive(p) => Some((*p, graph.value(n.outputs[0]).shape.dims().to_vec())),
        _ => None,
    };
    graph.nodes.iter().filter_map(primitive).collect()
}

const PICTURE: [u32; 4] = [2, 8, 4, 6];
const ROWS: [u32; 3] = [2, 24, 8];

#[test]
fn a_function_of_tokens_that_a_convolution_made_is_one_of_its_pixels() {
    let (mut net, mut draw) = (Net::default(), Draw::new(1));
    let y = tokens(&mut net, &mut draw, 8);
    let y = net.unary(Unary::Gelu, y);
    let found = left(net, &mut draw, y);
    assert_eq!(found[1], (Primitive::Unary(Unary::Gelu), PICTURE.to_vec()));
}

#[test]
fn tokens_are_added_to_pixels_where_both_lie_alike() {
    let (mut net, mut draw) = (Net::default(), Draw::new(2));
    let y = tokens(&mut net, &mut draw, 8);
    let residual = net.input(&ROWS);
    let y = net.binary(Binary::Add, y, residual);
    let y = net.unary(Unary::Relu, y);
    let found = left(net, &mut draw, y);
    assert_eq!(found[1], (Primitive::Binary(Binary::Add), PICTURE.to_vec()));
    assert_eq!(found[2], (Primitive::Unary(Unary::Relu), PICTURE.to_vec()), "and so on");

    // A constant is stored as it is read.
    let mut net = Net::default();
    let y = tokens(&mut net, &mut draw, 8);
    let positions = net.constant(draw.tensor(&ROWS));
    let y = net.binary(Binary::Sub, positions, y);
    let found = left(net, &mut draw, y);
    assert_eq!(found[1], (Primitive::Binary(Binary::Sub), PICTURE.to_vec()));
}

#[test]
fn what_would_be_read_across_its_order_stays_behind_the_views() {
    let added = (Primitive::Binary(Binary::Add), ROWS.to_vec());
    // The other operand lies in planes: as pixels it would be read with steps.
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let y = tokens(&mut net, &mut draw, 8);
    let planes = net.input(&[2, 8, 24]);
    let turned = net.transpose(planes, &[0, 2, 1]);
    let y = net.binary(Binary::Add, y, turned);
    assert_eq!(left(net, &mut draw, y)[1], added);

    // Pixels of five channels begin elsewhere than rows of five.
    let mut net = Net::default();
    let y = tokens(&mut net, &mut draw, 5);
    let residual = net.input(&[2, 24, 5]);
    let y = net.binary(Binary::Add, y, residual);
    assert_eq!(left(net, &mut draw, y)[1].1, [2, 24, 5]);
}

#[test]
fn what_is_read_more_than_once_or_in_part_stays() {
    let function = |rows: u32| (Primitive::Unary(Unary::Relu), vec![2, rows, 8]);
    let (mut net, mut draw) = (Net::default(), Draw::new(4));
    let seen = tokens(&mut net, &mut draw, 8);
    let y = net.unary(Unary::Relu, seen);
    net.output(seen);
    assert_eq!(left(net, &mut draw, y)[1], function(24));

    let mut net = Net::default();
    let seen = tokens(&mut net, &mut draw, 8);
    let part = net.view(ViewOp::band(3, 1, 4), seen, &[2, 12, 8]);
    let y = net.unary(Unary::Relu, part);
    assert_eq!(left(net, &mut draw, y)[1], function(12));
}
