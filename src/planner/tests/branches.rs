//! Branches of one input that become one convolution, and look-alikes that do not.

use super::nets::{Draw, Net};
use super::oracle::{close, compile_with, evaluate, run};
use crate::planner::graph::ValueId;
use crate::planner::passes::PassSet;
use crate::primitive::{Binary, Primitive, Unary};

/// Convolutions of the compiled network, and all its functions of two operands; its result is the oracle's but for rounding.
fn compiled(channels: u32, block: impl Fn(&mut Net, &mut Draw, ValueId) -> ValueId) -> (usize, usize) {
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let x = net.input(&[2, channels, 9, 7]);
    let y = block(&mut net, &mut draw, x);
    net.output(y);
    let inputs = vec![draw.tensor(&[2, channels, 9, 7])];
    let expected = evaluate(&net.graph, &inputs);
    let compiled = compile_with(&net.graph, PassSet::ALL);
    let found = run(&compiled, &[inputs], 2);
    close(&found[0], &expected, 1e-5, "branches");
    let calls = || compiled.plan.operators.iter().flat_map(|o| &o.calls);
    let convolutions = calls().filter(|c| matches!(c.primitive, Primitive::Conv { .. })).count();
    (
        convolutions,
        calls().filter(|c| matches!(c.primitive, Primitive::Binary(_))).count(),
    )
}

/// `x` scaled and shifted by channels, as a normalisation of batches is.
fn normalised(net: &mut Net, draw: &mut Draw, x: ValueId) -> ValueId {
    let channels = net.dims(x)[1];
    let (scale, shift) = (
        net.constant(draw.tensor(&[channels, 1, 1])),
        net.constant(draw.tensor(&[1, channels, 1, 1])),
    );
    let x = net.binary(Binary::Mul, x, scale);
    net.binary(Binary::Add, x, shift)
}

#[test]
fn a_block_of_three_branches_is_one_convolution() {
    for groups in [1, 2, 8] {
        let found = compiled(8, |net, draw, x| {
            let wide = net.conv(draw, x, 8, 3, 1, groups, false);
            let wide = normalised(net, draw, wide);
            let narrow = net.conv(draw, x, 8, 1, 1, groups, true);
            let narrow = normalised(net, draw, narrow);
            let same = normalised(net, draw, x);
            let sum = net.binary(Binary::Add, narrow, wide);
            let sum = net.binary(Binary::Add, same, sum);
            net.unary(Unary::Relu, sum)
        });
        assert_eq!(found, (1, 0), "{groups} groups");
    }
}

#[test]
fn what_is_left_of_an_input_is_scaled_and_added_to_it() {
    let found = compiled(6, |net, draw, x| {
        let wide = net.conv(draw, x, 6, 5, 1, 6, true);
        let narrow = net.conv(draw, x, 6, 3, 1, 6, true);
        let mixed = net.binary(Binary::Add, wide, narrow);
        let normal = normalised(net, draw, x);
        let left = net.binary(Binary::Sub, mixed, normal);
        let scale = net.constant(draw.tensor(&[6, 1, 1]));
        let left = net.binary(Binary::Mul, left, scale);
        net.binary(Binary::Add, x, left)
    });
    assert_eq!(found, (1, 0));
}

#[test]
fn windows_that_step_are_joined_where_one_lies_within_the_other() {
    let found = compiled(4, |net, draw, x| {
        let wide = net.conv(draw, x, 10, 3, 2, 1, false);
        let narrow = net.conv(draw, x, 10, 1, 2, 1, false);
        net.binary(Binary::Sub, narrow, wide)
    });
    assert_eq!(found, (1, 0));
}

#[test]
fn branches_that_another_reads_or_of_other_groups_or_inputs_stay() {
    let found = compiled(4, |net, draw, x| {
        let wide = net.conv(draw, x, 4, 3, 1, 1, false);
        let narrow = net.conv(draw, x, 4, 1, 1, 4, false);
        net.binary(Binary::Add, narrow, wide)
    });
    assert_eq!(found, (2, 1), "of other groups");
    let found = compiled(4, |net, draw, x| {
        let wide = net.conv(draw, x, 4, 3, 1, 1, false);
        let sum = net.binary(Binary::Add, x, wide);
        net.binary(Binary::Mul, sum, wide)
    });
    assert_eq!(found, (1, 2), "read twice");
    let found = compiled(4, |net, draw, x| {
        let first = net.conv(draw, x, 4, 3, 1, 1, false);
        let first = net.unary(Unary::Relu, first);
        let second = net.conv(draw, first, 4, 3, 1, 1, false);
        net.binary(Binary::Add, x, second)
    });
    assert_eq!(found, (2, 1), "a residual");
    let found = compiled(4, |net, draw, x| {
        let wide = net.conv(draw, x, 4, 3, 1, 1, false);
        let scale = net.constant(draw.tensor(&[9, 1]));
        let rows = net.binary(Binary::Mul, x, scale);
        net.binary(Binary::Add, rows, wide)
    });
    assert_eq!(found.0, 1, "scaled by rows");
    assert_eq!(found.1, 2, "scaled by rows");
}
