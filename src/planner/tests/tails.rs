//! What follows products: which functions their kernels store with the sums, and that the bits are the same either way.

use super::nets::{Draw, Net};
use super::oracle::{compile, run, same_bits};
use crate::plan::tactic::Target;
use crate::planner::CompileOptions;
use crate::planner::graph::ValueId;
use crate::planner::passes::PassSet;
use crate::primitive::{Binary, Primitive, Scalar, Unary};
use crate::tensor::DType;

/// Of a picture large enough for a launch to be worth it: 32 channels of 32 by 33 pixels.
const LARGE: [u32; 4] = [1, 32, 32, 33];

/// Most channels that a convolution reads.
const READ: u32 = 32;

/// Operators with the pass and without it, whose bits are the same, of a function of what a convolution of `groups` makes: a tensor of
/// the extents `y`.
fn operators(y: [u32; 4], groups: u32, function: impl Fn(&mut Net, &mut Draw, ValueId) -> ValueId) -> (usize, usize) {
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let x = [y[0], y[1].min(READ), y[2], y[3]];
    let input = net.input(&x);
    let y = net.conv(&mut draw, input, y[1], 3, 1, groups, true);
    let y = function(&mut net, &mut draw, y);
    let y = net.conv(&mut draw, y, 8, 1, 1, 1, true);
    net.output(y);
    let inputs = vec![draw.tensor(&x)];
    let compiled = [PassSet::ALL, PassSet::ALL.without(PassSet::SHORT_TAILS)].map(|passes| {
        let options = CompileOptions {
            dtype: DType::F16,
            passes,
            ..CompileOptions::default()
        };
        compile(std::slice::from_ref(&net.graph), &options)
    });
    let [short, whole] = [0, 1].map(|i| run(&compiled[i], std::slice::from_ref(&inputs), 2));
    same_bits(&compiled[0].plan, &short[0], &whole[0], "short tails");
    let count = |i: usize| compiled[i].plan.operators.len();
    (count(0), count(1))
}

/// What a function of the picture's shape is added to.
fn other(net: &mut Net, draw: &mut Draw) -> ValueId {
    let tensor = draw.tensor(&LARGE);
    net.constant(tensor)
}

/// A scale and a shift for each channel.
fn affine(net: &mut Net, draw: &mut Draw, x: ValueId) -> ValueId {
    let [scale, shift] = [0, 1].map(|_| {
        let factors = draw.tensor(&[1, LARGE[1], 1, 1]);
        net.constant(factors)
    });
    let y = net.binary(Binary::Mul, x, scale);
    net.binary(Binary::Add, y, shift)
}

#[test]
fn what_kernels_have_a_path_for_stays_with_its_product() {
    let found = operators(LARGE, 1, |net, draw, y| {
        let (y, more) = (net.unary(Unary::Silu, y), other(net, draw));
        let y = net.binary(Binary::Add, more, y);
        net.unary(Unary::Relu, y)
    });
    assert_eq!(found.0, found.1, "a function, a sum and a relu");
    let found = operators(LARGE, LARGE[1], |net, _, y| net.unary(Unary::Gelu, y));
    assert_eq!(found.0, found.1, "a function of each channel's own");
}

#[test]
fn what_they_would_ask_for_at_every_value_is_an_operator_of_its_own() {
    let found = operators(LARGE, 1, |net, draw, y| {
        let y = net.unary(Unary::Gelu, y);
        let y = affine(net, draw, y);
        net.unary(Unary::Abs, y)
    });
    assert_eq!(found.0, found.1 + 1, "scale and shift behind a function");
    let found = operators(LARGE, 1, |net, draw, y| {
        let more = other(net, draw);
        let y = net.binary(Binary::Add, y, more);
        net.unary(Unary::Silu, y)
    });
    assert_eq!(found.0, found.1 + 1, "a function of a sum");
    let found = operators(LARGE, LARGE[1], |net, draw, y| {
        let more = other(net, draw);
        net.binary(Binary::Add, y, more)
    });
    assert_eq!(found.0, found.1 + 1, "a sum with each channel's own");
}

#[test]
fn rows_are_normalised_scaled_and_shifted_at_once_and_no_more() {
    let (mut net, mut draw) = (Net::default(), Draw::new(6));
    let x = net.input(&[1, 5, 16]);
    let [scale, shift] = [0, 1].map(|_| {
        let factors = draw.tensor(&[16]);
        net.constant(factors)
    });
    let normal = Primitive::Normalise {
        axis: 2,
        epsilon: Scalar(1e-5),
    };
    let y = net.same(normal, &[x]);
    let y = net.binary(Binary::Mul, y, scale);
    let y = net.binary(Binary::Add, y, shift);
    let y = net.unary(Unary::Relu, y);
    net.output(y);
    let count = |passes| {
        let options = CompileOptions {
            dtype: DType::F16,
            passes,
            ..CompileOptions::default()
        };
        let plan = compile(std::slice::from_ref(&net.graph), &options).plan;
        plan.operators
            .iter()
            .filter(|o| o.calls.len() > 1 || o.calls[0].primitive != Primitive::Copy)
            .count()
    };
    let short = count(PassSet::ALL);
    assert_eq!(short, count(PassSet::ALL.without(PassSet::SHORT_TAILS)) + 1);
}

#[test]
fn groups_of_channels_are_normalised_scaled_shifted_and_bounded_at_once_and_no_more() {
    let normalised = |net: &mut Net, y: ValueId| {
        let epsilon = Scalar(1e-5);
        net.same(Primitive::GroupNormalise { groups: 32, epsilon }, &[y])
    };
    let found = operators(LARGE, 1, |net, draw, y| {
        let y = normalised(net, y);
        let y = affine(net, draw, y);
        net.unary(Unary::Relu, y)
    });
    assert_eq!(found.0, found.1);
    // As in a block whose last normalisation is added to what the block was given.
    let found = operators(LARGE, 1, |net, draw, y| {
        let (y, more) = (normalised(net, y), other(net, draw));
        let y = net.unary(Unary::Relu, y);
        let y = net.binary(Binary::Add, more, y);
        net.unary(Unary::Relu, y)
    });
    assert_eq!(found.0, found.1 + 1);
}

#[test]
fn few_values_are_asked_for() {
    let found = operators([1, 32, 11, 11], 1, affine);
    assert_eq!(found.0, found.1);
    let found = operators([1, 5000, 1, 1], 1, |net, _, y| {
        net.unary(Unary::HardSigmoid(Scalar(0.2), Scalar(0.5)), y)
    });
    assert_eq!(found.0, found.1, "of one pixel");
}

#[test]
fn only_kernels_on_gpus_are_asked() {
    for target in Target::ALL {
        assert_eq!(
            PassSet::ALL.on(target).has(PassSet::SHORT_TAILS),
            target != Target::Cpu,
            "{target:?}"
        );
    }
}
