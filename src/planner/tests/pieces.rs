//! Where pixels and rows begin in halves: at multiples of 16 bytes, as copy engines and wide loads take them, or copied there.

use super::nets::{Draw, Net};
use super::oracle::{compile, run, same_bits};
use super::views::{copies, input};
use crate::plan::format::{Operator, Plan};
use crate::planner::CompileOptions;
use crate::planner::graph::{Op, ViewOp};
use crate::planner::passes::PassSet;
use crate::primitive::{Binary, Primitive, Unary};
use crate::tensor::{DType, Tensor};

/// The plan of halves after such passes, and what it gives.
fn halves(net: &Net, inputs: &[Tensor], passes: PassSet) -> (Plan, Vec<Vec<Tensor>>) {
    planned(net, inputs, DType::F16, passes)
}

fn planned(net: &Net, inputs: &[Tensor], dtype: DType, passes: PassSet) -> (Plan, Vec<Vec<Tensor>>) {
    let options = CompileOptions {
        dtype,
        passes,
        ..CompileOptions::default()
    };
    let compiled = compile(std::slice::from_ref(&net.graph), &options);
    let found = run(&compiled, &[inputs.to_vec()], 2);
    (compiled.plan, found)
}

#[test]
fn pixels_that_convolutions_read_begin_at_multiples_of_16_bytes() {
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let x = net.input(&[2, 4, 6, 6]);
    let a = net.conv(&mut draw, x, 13, 3, 1, 1, true);
    let b = net.conv(&mut draw, a, 16, 1, 1, 1, true);
    let c = net.conv(&mut draw, a, 3, 3, 1, 1, true);
    let joined = net.concat(1, &[b, c]);
    let d = net.conv(&mut draw, joined, 5, 3, 1, 1, true);
    let y = net.unary(Unary::Sigmoid, d);
    net.output(y);
    let inputs = vec![draw.tensor(&[2, 4, 6, 6])];
    let plan = |dtype, passes| planned(&net, &inputs, dtype, passes);
    let strides = |plan: &Plan, channels: u32| {
        let outputs = plan.operators.iter().flat_map(|o| &o.outputs);
        let made = outputs.filter(|v| v.layout.shape.dims() == [2, channels, 6, 6]);
        made.map(|v| v.layout.strides().to_vec()).next().unwrap()
    };
    let (half, found) = plan(DType::F16, PassSet::ALL);
    assert_eq!(strides(&half, 13), [576, 1, 96, 16]);
    // Parts of a concatenation that a convolution reads lie in its pixels; nobody convolves the last values.
    assert_eq!([16, 3].map(|part| strides(&half, part)), [[864, 1, 144, 24]; 2]);
    assert_eq!(strides(&half, 5), [180, 1, 30, 5]);
    let (plain, expected) = plan(DType::F16, PassSet::ALL.without(PassSet::LAYOUT));
    same_bits(&half, &found[0], &expected[0], "beside plain storage");
    let (single, _) = plan(DType::F32, PassSet::ALL);
    assert_eq!(strides(&single, 13), [468, 1, 78, 13]);
    assert_eq!(strides(&plain, 13), [468, 36, 6, 1]);
}

#[test]
fn results_are_made_of_pixels_in_whole_pieces() {
    for (channels, side, pitch) in [(19, 64, 24), (19, 12, 19), (24, 64, 24), (7, 128, 8), (4, 128, 4)] {
        let (mut net, mut draw) = (Net::default(), Draw::new(9));
        let x = net.input(&[1, 16, side, side]);
        let a = net.conv(&mut draw, x, channels, 3, 1, 1, false);
        let y = net.unary(Unary::Sigmoid, a);
        net.output(y);
        let inputs = vec![draw.tensor(&[1, 16, side, side])];
        let (plan, found) = halves(&net, &inputs, PassSet::ALL);
        let made = plan.operators.iter().rev().flat_map(|o| &o.outputs).find(|v| v.dtype == DType::F16);
        let made = made.unwrap().layout;
        let lines = i64::from(pitch * side);
        assert_eq!(
            made.strides(),
            [lines * i64::from(side), 1, lines, i64::from(pitch)],
            "{channels} of {side}"
        );
        let (plain, expected) = halves(&net, &inputs, PassSet::ALL.without(PassSet::LAYOUT));
        same_bits(
            &plan,
            &found[0],
            &expected[0],
            &format!("{channels} beside {} operators", plain.operators.len()),
        );
    }
}

#[test]
fn parts_of_pixels_that_begin_between_pieces_are_copied_for_windows_of_several_taps() {
    let (mut net, mut draw) = (Net::default(), Draw::new(13));
    let x = net.input(&[1, 8, 6, 6]);
    let all = net.conv(&mut draw, x, 52, 1, 1, 1, true);
    let mut part = |net: &mut Net, first: i64, taps: u32| {
        let (start, step) = (vec![0, first, 0, 0], vec![1; 4]);
        let part = net.view(ViewOp::Slice { start, step }, all, &[1, 12, 6, 6]);
        net.conv(&mut draw, part, 8, taps, 1, 1, true)
    };
    // At whole pieces, between them and read once, between them under nine taps.
    let parts = [part(&mut net, 16, 3), part(&mut net, 26, 1), part(&mut net, 26, 3)];
    let joined = net.concat(1, &parts);
    let y = net.conv(&mut draw, joined, 4, 1, 1, 1, false);
    net.output(y);
    let inputs = vec![draw.tensor(&[1, 8, 6, 6])];
    let (with, found) = halves(&net, &inputs, PassSet::ALL);
    let (without, expected) = halves(&net, &inputs, PassSet::ALL.without(PassSet::PAIRS));
    assert_eq!(copies(&with), copies(&without) + 1);
    let copy = with
        .operators
        .iter()
        .find(|o| o.calls[0].primitive == Primitive::Copy && o.outputs[0].layout.shape.dims() == [1, 12, 6, 6]);
    assert_eq!(copy.map(|o| o.outputs[0].layout.strides().to_vec()), Some(vec![576, 1, 96, 16]));
    same_bits(&with, &found[0], &expected[0], "beside parts that are read as they lie");
}

#[test]
fn channels_that_are_shuffled_before_a_convolution_are_brought_into_pixels_that_begin_at_such_multiples() {
    let (mut net, mut draw) = (Net::default(), Draw::new(12));
    let x = net.input(&[2, 4, 6, 6]);
    let x = net.conv(&mut draw, x, 40, 3, 1, 1, true);
    let groups = net.view(ViewOp::Reshape, x, &[2, 2, 20, 6, 6]);
    let turned = net.transpose(groups, &[0, 2, 1, 3, 4]);
    let shuffled = net.view(ViewOp::Reshape, turned, &[2, 40, 6, 6]);
    let (start, step) = (vec![0, 20, 0, 0], vec![1; 4]);
    let half = net.view(ViewOp::Slice { start, step }, shuffled, &[2, 20, 6, 6]);
    let y = net.conv(&mut draw, half, 12, 1, 1, 1, true);
    net.output(y);
    let inputs = vec![draw.tensor(&[2, 4, 6, 6])];
    let (plan, found) = halves(&net, &inputs, PassSet::ALL);
    let (_, expected) = halves(&net, &inputs, PassSet::ALL.without(PassSet::LAYOUT));
    same_bits(&plan, &found[0], &expected[0], "beside plain storage");
    let convolves = |o: &crate::plan::format::Operator| matches!(o.calls[0].primitive, Primitive::Conv { .. });
    let reader = plan.operators.iter().rposition(convolves).unwrap();
    assert_eq!(input(&plan, reader, 0, 0).layout.strides(), [864, 1, 144, 24]);
}

#[test]
fn rows_of_products_by_constants_begin_at_multiples_of_16_bytes() {
    let (mut net, mut draw) = (Net::default(), Draw::new(14));
    // Tokens are mixed: of each channel 140 and then 44 of them, which are no whole pieces.
    let x = net.input(&[1, 140, 24]);
    let x = net.unary(Unary::Relu, x);
    let turned = net.transpose(x, &[0, 2, 1]);
    let product = |net: &mut Net, draw: &mut Draw, x, from: u32, to: u32| {
        let weights = net.constant(draw.tensor(&[1, from, to]));
        net.node(Op::Primitive(Primitive::MatMul), &[x, weights], &[1, 24, to])
    };
    let first = product(&mut net, &mut draw, turned, 140, 44);
    let first = net.unary(Unary::Tanh, first);
    let second = product(&mut net, &mut draw, first, 44, 140);
    let back = net.transpose(second, &[0, 2, 1]);
    let y = net.binary(Binary::Add, x, back);
    net.output(y);
    let inputs = [draw.tensor(&[1, 140, 24])];
    let (plan, found) = halves(&net, &inputs, PassSet::ALL);
    let products = (0..plan.operators.len()).filter(|&o| plan.operators[o].calls[0].primitive == Primitive::MatMul);
    let rows: Vec<_> = products.map(|o| input(&plan, o, 0, 0).layout.strides().to_vec()).collect();
    assert_eq!(rows, [vec![24 * 144, 144, 1], vec![24 * 48, 48, 1]]);
    let (plain, expected) = halves(&net, &inputs, PassSet::ALL.without(PassSet::PAIRS));
    assert_eq!(copies(&plan), copies(&plain), "rows of tokens become rows of channels either way");
    same_bits(&plan, &found[0], &expected[0], "beside rows as they come");
    let row = |plan: &Plan| {
        plan.operators
            .iter()
            .any(|o: &Operator| o.outputs[0].layout.strides().contains(&144))
    };
    assert!(row(&plan) && !row(&plain));
}

#[test]
fn many_short_rows_of_products_by_constants_begin_at_multiples_of_16_bytes() {
    let strides = |rows: u32| {
        let (mut net, mut draw) = (Net::default(), Draw::new(6));
        let dims = [rows, 32, 9];
        let x = net.input(&dims);
        let weights = net.constant(draw.tensor(&[1, 9, 16]));
        let weights = net.view(ViewOp::Broadcast, weights, &[rows, 9, 16]);
        let y = net.node(Op::Primitive(Primitive::MatMul), &[x, weights], &[rows, 32, 16]);
        let y = net.unary(Unary::Relu, y);
        net.output(y);
        let inputs = [draw.tensor(&dims)];
        let (plan, found) = halves(&net, &inputs, PassSet::ALL);
        let (plain, expected) = halves(&net, &inputs, PassSet::ALL.without(PassSet::LAYOUT));
        same_bits(&plan, &found[0], &expected[0], "beside rows as they come");
        assert_eq!(plain.operators.len(), plan.operators.len());
        let made = plan.operators.iter().flat_map(|o| &o.outputs);
        let made = made.filter(|v| v.layout.shape.dims() == dims);
        made.map(|v| v.layout.strides().to_vec()).next().unwrap()
    };
    assert_eq!(strides(1024), [512, 16, 1], "read in pieces");
    assert_eq!(strides(64), [288, 9, 1], "read one by one");
}
