//! What lowering does not copy: operators and views of hand-made graphs, as they stand in the plan.

use super::nets::{Draw, Net};
use super::oracle::{close, compile_with, evaluate, run, same_bits};
use crate::plan::format::{Kernel, Operand, Plan, Space, View};
use crate::planner::graph::{Op, ViewOp};
use crate::planner::passes::PassSet;
use crate::primitive::{Binary, Primitive, ReduceKind, Unary};

pub(super) fn copies(plan: &Plan) -> usize {
    let is_copy = |o: &&crate::plan::format::Operator| o.calls[0].primitive == Primitive::Copy;
    plan.operators.iter().filter(is_copy).count()
}

/// The plan with all passes, whose result is the oracle's.
fn compiled(net: Net, inputs: &[&[u32]]) -> Plan {
    let mut draw = Draw::new(1);
    let inputs: Vec<_> = inputs.iter().map(|dims| draw.tensor(dims)).collect();
    let expected = evaluate(&net.graph, &inputs);
    let compiled = compile_with(&net.graph, PassSet::ALL);
    let found = run(&compiled, &[inputs], 2);
    same_bits(&compiled.plan, &found[0], &expected, "all passes");
    compiled.plan
}

pub(super) fn input(plan: &Plan, operator: usize, call: usize, k: usize) -> View {
    match plan.operators[operator].calls[call].inputs[k] {
        Operand::View(view) => view,
        Operand::Inner(_) => panic!("operand {k} of call {call} of operator {operator} never lies in memory"),
    }
}

#[test]
fn inputs_of_nested_concatenations_are_born_in_their_bands() {
    let (mut net, mut draw) = (Net::default(), Draw::new(2));
    let x = net.input(&[1, 4, 6, 6]);
    let a = net.conv(&mut draw, x, 3, 3, 1, 1, true);
    let b = net.conv(&mut draw, x, 5, 1, 1, 1, true);
    let inner = net.concat(1, &[a, b]);
    let c = net.conv(&mut draw, x, 2, 3, 1, 1, false);
    let outer = net.concat(1, &[inner, c]);
    let y = net.conv(&mut draw, outer, 4, 1, 1, 1, false);
    net.output(y);
    let plan = compiled(net, &[&[1, 4, 6, 6]]);
    // The input's pixels are brought into order once, and so is the result; nothing in between is copied.
    assert_eq!((plan.operators.len(), copies(&plan)), (6, 2));
    let bands: Vec<View> = (1..4).map(|i| plan.operators[i].outputs[0]).collect();
    let read = input(&plan, 4, 0, 0);
    assert!(
        bands
            .iter()
            .all(|b| b.buffer == read.buffer && b.layout.strides() == [360, 1, 60, 10])
    );
    assert_eq!(bands.iter().map(|b| b.origin).collect::<Vec<_>>(), [0, 3, 8]);
    assert_eq!(read.layout.strides(), [360, 1, 60, 10]);
}

#[test]
fn the_concatenations_of_a_dense_block_copy_nothing_however_they_are_written() {
    let (mut net, mut draw) = (Net::default(), Draw::new(2));
    let x = net.input(&[1, 4, 6, 6]);
    let mut parts = vec![net.conv(&mut draw, x, 6, 3, 1, 1, true)];
    for _ in 0..4 {
        let all = if parts.len() > 1 { net.concat(1, &parts) } else { parts[0] };
        parts.push(net.conv(&mut draw, all, 2, 3, 1, 1, true));
    }
    let all = net.concat(1, &parts);
    let y = net.conv(&mut draw, all, 4, 1, 1, 1, false);
    net.output(y);
    let plan = compiled(net, &[&[1, 4, 6, 6]]);
    assert_eq!((plan.operators.len(), copies(&plan)), (8, 2), "its input and its result are");
}

#[test]
fn heads_are_concatenated_through_their_reshapes() {
    // Two levels of a detector: `[1,C,H,W]` to `[1,C,HW]`, side by side, then `[1,HW,C]`.
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let x = net.input(&[1, 4, 6, 6]);
    let fine = net.conv(&mut draw, x, 7, 3, 1, 1, true);
    let coarse = net.conv(&mut draw, x, 7, 3, 2, 1, true);
    let fine = net.view(ViewOp::Reshape, fine, &[1, 7, 36]);
    let coarse = net.view(ViewOp::Reshape, coarse, &[1, 7, 9]);
    let all = net.concat(2, &[fine, coarse]);
    let rows = net.transpose(all, &[0, 2, 1]);
    net.output(rows);
    let plan = compiled(net, &[&[1, 4, 6, 6]]);
    // One copy orders the input's pixels; both levels are written straight into the result.
    assert_eq!((plan.operators.len(), copies(&plan)), (3, 1));
    let place = |i: usize| {
        let view = plan.operators[i].outputs[0];
        (plan.buffers[view.buffer.index()].space, view.origin)
    };
    assert_eq!(place(1), (Space::Output { offset: 0 }, 0));
    assert_eq!(place(2), (Space::Output { offset: 0 }, 36 * 7));
}

#[test]
fn what_attention_finds_is_stored_as_the_pixels_that_it_becomes() {
    // Two heads of 8 elements for each of 3 by 5 pixels, brought back as 16 channels.
    let (mut net, mut draw) = (Net::default(), Draw::new(4));
    let x = net.input(&[1, 16, 3, 5]);
    let mut head = |net: &mut Net, perm: &[usize; 4], dims: &[u32; 4]| {
        let y = net.conv(&mut draw, x, 16, 1, 1, 1, true);
        let y = net.view(ViewOp::Reshape, y, &[1, 2, 8, 15]);
        let seen = net.transpose(y, perm);
        assert_eq!(net.dims(seen), dims);
        seen
    };
    let (q, k, v) = (
        head(&mut net, &[0, 1, 3, 2], &[1, 2, 15, 8]),
        head(&mut net, &[0, 1, 2, 3], &[1, 2, 8, 15]),
        head(&mut net, &[0, 1, 3, 2], &[1, 2, 15, 8]),
    );
    let scores = net.node(Op::Primitive(Primitive::MatMul), &[q, k], &[1, 2, 15, 15]);
    let shares = net.same(Primitive::Softmax { axis: 3 }, &[scores]);
    let y = net.node(Op::Primitive(Primitive::MatMul), &[shares, v], &[1, 2, 15, 8]);
    let y = net.transpose(y, &[0, 1, 3, 2]);
    let y = net.view(ViewOp::Reshape, y, &[1, 16, 3, 5]);
    let y = net.conv(&mut draw, y, 8, 3, 1, 1, true);
    net.output(y);
    let inputs = vec![draw.tensor(&[1, 16, 3, 5])];
    let compiled = compile_with(&net.graph, PassSet::ALL);
    let found = run(&compiled, std::slice::from_ref(&inputs), 2);
    close(&found[0], &evaluate(&net.graph, &inputs), 1e-4, "attention");
    let plan = compiled.plan;
    let attends = plan
        .operators
        .iter()
        .find(|o| matches!(o.calls[0].primitive, Primitive::Attention { .. }));
    assert_eq!(attends.unwrap().outputs[0].layout.strides()[1..], [8, 16, 1]);
    // The input's pixels and the result's are brought into order, nothing between.
    assert_eq!(copies(&plan), 2);
}

#[test]
fn products_of_computed_matrices_are_stored_as_the_transpose_that_reads_them() {
    // Two heads of 8 elements for each of 6 rows, side by side behind the product.
    let mut net = Net::default();
    let (a, b) = (net.input(&[1, 2, 6, 5]), net.input(&[1, 2, 5, 8]));
    let heads = net.node(Op::Primitive(Primitive::MatMul), &[a, b], &[1, 2, 6, 8]);
    let rows = net.transpose(heads, &[0, 2, 1, 3]);
    let rows = net.view(ViewOp::Reshape, rows, &[1, 6, 16]);
    let shares = net.same(Primitive::Softmax { axis: 2 }, &[rows]);
    net.output(shares);
    let plan = compiled(net, &[&[1, 2, 6, 5], &[1, 2, 5, 8]]);
    assert_eq!((plan.operators.len(), copies(&plan)), (2, 0));
    assert_eq!(plan.operators[0].outputs[0].layout.strides()[1..], [8, 16, 1]);
    // Columns side by side are few, or rows are.
    let strides = |n: u32| {
        let mut net = Net::default();
        let (a, b) = (net.input(&[1, n, 4]), net.input(&[1, 4, n]));
        let scores = net.node(Op::Primitive(Primitive::MatMul), &[a, b], &[1, n, n]);
        let turned = net.transpose(scores, &[0, 2, 1]);
        let shares = net.same(Primitive::Softmax { axis: 2 }, &[turned]);
        net.output(shares);
        let plan = compiled(net, &[&[1, n, 4], &[1, 4, n]]);
        plan.operators[0].outputs[0].layout.strides()[1..].to_vec()
    };
    assert_eq!(strides(40), [1, 40]);
    assert_eq!(strides(800), [800, 1]);
}

#[test]
fn a_single_channel_is_written_between_the_others() {
    // Boxes, objectness, classes: the parts of one level of a detector's head.
    let (mut net, mut draw) = (Net::default(), Draw::new(10));
    let x = net.input(&[1, 6, 6, 4]);
    let x = net.transpose(x, &[0, 3, 1, 2]);
    let boxes = net.conv(&mut draw, x, 4, 1, 1, 1, true);
    let object = net.conv(&mut draw, x, 1, 1, 1, 1, true);
    let object = net.unary(Unary::Sigmoid, object);
    let classes = net.conv(&mut draw, x, 3, 1, 1, 1, true);
    let classes = net.unary(Unary::Sigmoid, classes);
    let all = net.concat(1, &[boxes, object, classes]);
    let rows = net.transpose(all, &[0, 2, 3, 1]);
    net.output(rows);
    let plan = compiled(net, &[&[1, 6, 6, 4]]);
    assert_eq!((plan.operators.len(), copies(&plan)), (3, 0));
    assert!(plan.operators.iter().all(|o| o.tactic.kernel == Kernel::ConvIgemm));
}

#[test]
fn what_is_left_of_the_channels_of_pixels_is_written_between_other_such() {
    // Spatial attention: the mean and the greatest of each pixel's channels, of which a convolution makes a gate.
    let (mut net, mut draw) = (Net::default(), Draw::new(10));
    let x = net.input(&[1, 6, 6, 4]);
    let x = net.transpose(x, &[0, 3, 1, 2]);
    let x = net.conv(&mut draw, x, 8, 3, 1, 1, true);
    let reduced = [ReduceKind::Mean, ReduceKind::Max]
        .map(|kind| net.node(Op::Primitive(Primitive::Reduce { kind, axes: 0b10 }), &[x], &[1, 1, 6, 6]));
    let both = net.concat(1, &reduced);
    let gate = net.conv(&mut draw, both, 1, 3, 1, 1, false);
    net.output(gate);
    let plan = compiled(net, &[&[1, 6, 6, 4]]);
    assert_eq!((plan.operators.len(), copies(&plan)), (4, 0));
}

#[test]
fn a_part_that_is_an_input_or_used_twice_is_copied() {
    let (mut net, mut draw) = (Net::default(), Draw::new(4));
    let x = net.input(&[1, 4, 6, 6]);
    let a = net.conv(&mut draw, x, 4, 3, 1, 1, true);
    let y = net.concat(1, &[x, a, a]);
    let y = net.unary(Unary::Relu, y);
    net.output(y);
    let plan = compiled(net, &[&[1, 4, 6, 6]]);
    // The input as pixels, the input's band, the second band of `a`, the result in C order.
    assert_eq!(copies(&plan), 4);
}

#[test]
fn channels_last_networks_need_no_copy_at_their_edges() {
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let x = net.input(&[1, 6, 8, 3]);
    let y = net.transpose(x, &[0, 3, 1, 2]);
    let y = net.conv(&mut draw, y, 5, 3, 2, 1, true);
    let y = net.transpose(y, &[0, 2, 3, 1]);
    net.output(y);
    let plan = compiled(net, &[&[1, 6, 8, 3]]);
    assert_eq!((plan.operators.len(), copies(&plan)), (1, 0));
    let result = plan.operators[0].outputs[0];
    assert!(matches!(plan.buffers[result.buffer.index()].space, Space::Output { .. }));
    assert_eq!(plan.operators[0].tactic.kernel, Kernel::ConvIgemm);
}

#[test]
fn what_follows_a_convolution_alone_joins_it() {
    let (mut net, mut draw) = (Net::default(), Draw::new(6));
    let x = net.input(&[1, 6, 8, 4]);
    let x4 = net.transpose(x, &[0, 3, 1, 2]);
    let y = net.conv(&mut draw, x4, 4, 3, 1, 1, true);
    let y = net.unary(Unary::LeakyRelu(crate::primitive::Scalar(0.125)), y);
    let y = net.binary(Binary::Add, y, x4);
    let y = net.unary(Unary::Relu, y);
    let y = net.transpose(y, &[0, 2, 3, 1]);
    net.output(y);
    let plan = compiled(net, &[&[1, 6, 8, 4]]);
    assert_eq!(plan.operators.len(), 1);
    assert_eq!(plan.operators[0].calls.len(), 4);
    // The residual is read where the network's input lies.
    assert!(matches!(
        plan.buffers[input(&plan, 0, 2, 1).buffer.index()].space,
        Space::Input { .. }
    ));
}

#[test]
fn a_value_read_twice_stays_in_memory() {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let x = net.input(&[1, 6, 8, 4]);
    let y = net.transpose(x, &[0, 3, 1, 2]);
    let y = net.conv(&mut draw, y, 4, 3, 1, 1, true);
    let a = net.unary(Unary::Relu, y);
    let b = net.unary(Unary::Neg, y);
    let y = net.binary(Binary::Add, a, b);
    let y = net.transpose(y, &[0, 2, 3, 1]);
    net.output(y);
    let plan = compiled(net, &[&[1, 6, 8, 4]]);
    let calls: Vec<usize> = plan.operators.iter().map(|o| o.calls.len()).collect();
    // What the convolution makes lies in memory; its two functions meet.
    assert_eq!(calls, [1, 3]);
}

#[test]
fn inputs_constants_and_repeated_values_can_be_results() {
    let (mut net, mut draw) = (Net::default(), Draw::new(8));
    let x = net.input(&[2, 3]);
    let c = net.constant(draw.tensor(&[4]));
    let y = net.unary(Unary::Exp, x);
    for value in [x, c, y, y] {
        net.output(value);
    }
    let plan = compiled(net, &[&[2, 3]]);
    assert_eq!((plan.operators.len(), copies(&plan)), (4, 3));
}

#[test]
fn empty_tensors_need_no_operator() {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let x = net.input(&[2, 0, 3]);
    let y = net.unary(Unary::Relu, x);
    let c = net.constant(draw.tensor(&[2, 1, 3]));
    let joined = net.concat(1, &[y, c]);
    net.output(y);
    net.output(joined);
    let plan = compiled(net, &[&[2, 0, 3]]);
    assert_eq!((plan.operators.len(), copies(&plan)), (1, 1));
}

#[test]
fn a_token_repeated_for_every_sample_does_not_turn_the_order_of_those_beside_it() {
    let (mut net, mut draw) = (Net::default(), Draw::new(11));
    let x = net.input(&[3, 4, 6, 6]);
    let patches = net.conv(&mut draw, x, 8, 3, 1, 1, true);
    let patches = net.view(ViewOp::Reshape, patches, &[3, 8, 36]);
    let patches = net.transpose(patches, &[0, 2, 1]);
    let class = net.constant(draw.tensor(&[1, 1, 8]));
    let class = net.view(ViewOp::Broadcast, class, &[3, 1, 8]);
    let tokens = net.concat(1, &[class, patches]);
    let positions = net.constant(draw.tensor(&[1, 37, 8]));
    let placed = net.binary(Binary::Add, tokens, positions);
    let y = net.same(Primitive::Softmax { axis: 2 }, &[placed]);
    net.output(y);
    let plan = compiled(net, &[&[3, 4, 6, 6]]);
    let softmax = |o: &crate::plan::format::Operator| matches!(o.calls[0].primitive, Primitive::Softmax { .. });
    let reader = plan.operators.iter().position(softmax).unwrap();
    assert_eq!(input(&plan, reader, 0, 0).layout.strides(), [37 * 8, 8, 1]);
}

#[test]
fn what_is_stored_anew_is_stored_once_for_all_that_look_at_it_so() {
    let copied = |third: &[u32]| {
        let mut net = Net::default();
        let x = net.input(&[2, 4, 6, 3]);
        let x = net.unary(Unary::Relu, x);
        let windows = net.transpose(x, &[0, 2, 1, 3]);
        // As windows and as rows; no strides say either.
        for dims in [&[2, 24, 3][..], third] {
            let seen = net.view(ViewOp::Reshape, windows, dims);
            let y = net.unary(Unary::Tanh, seen);
            net.output(y);
        }
        copies(&compiled(net, &[&[2, 4, 6, 3]]))
    };
    assert_eq!(copied(&[48, 3]), 1);
    assert_eq!(copied(&[2, 3, 24]), 1, "the same order under other axes");
}
