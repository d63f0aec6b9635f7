//! Chains of elementwise functions that meet: which become one operator, and that its bits are those of several.

use super::nets::{Draw, Net};
use super::oracle::{compile, run, same_bits};
use crate::plan::tactic::Target;
use crate::planner::CompileOptions;
use crate::planner::graph::ValueId;
use crate::planner::passes::PassSet;
use crate::primitive::{Binary, Scalar, Unary};
use crate::tensor::DType;

/// Operators with the pass and without it, whose bits are the same, of a function of what a convolution makes.
fn operators(function: impl Fn(&mut Net, ValueId) -> ValueId) -> (usize, usize) {
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let x = net.input(&[1, 8, 7, 5]);
    let y = net.conv(&mut draw, x, 8, 3, 1, 1, true);
    let y = function(&mut net, y);
    let y = net.conv(&mut draw, y, 8, 1, 1, 1, true);
    net.output(y);
    let inputs = vec![draw.tensor(&[1, 8, 7, 5])];
    let compiled = [PassSet::ALL, PassSet::ALL.without(PassSet::MEETING)].map(|passes| {
        let options = CompileOptions {
            dtype: DType::F16,
            passes,
            ..CompileOptions::default()
        };
        compile(std::slice::from_ref(&net.graph), &options)
    });
    let [together, apart] = [0, 1].map(|i| run(&compiled[i], std::slice::from_ref(&inputs), 2));
    same_bits(&compiled[0].plan, &together[0], &apart[0], "meeting");
    let count = |i: usize| compiled[i].plan.operators.len();
    (count(0), count(1))
}

/// `max(x, 0) + (exp(min(x, 0)) - x)`, whose both terms read what the convolution made.
fn bent(net: &mut Net, x: ValueId) -> [ValueId; 2] {
    let above = net.unary(Unary::Relu, x);
    let below = net.unary(Unary::Clip(Scalar(f32::NEG_INFINITY), Scalar(0.0)), x);
    let below = net.unary(Unary::Exp, below);
    [above, net.binary(Binary::Sub, below, x)]
}

#[test]
fn chains_that_one_function_joins_are_one_operator() {
    let found = operators(|net, x| {
        let [above, below] = bent(net, x);
        net.binary(Binary::Add, above, below)
    });
    assert_eq!(found.0 + 1, found.1);
    // A value that the chain behind it reads more than once.
    let found = operators(|net, x| {
        let e = net.unary(Unary::Exp, x);
        let (root, square) = (net.unary(Unary::Sqrt, e), net.binary(Binary::Mul, e, x));
        net.binary(Binary::Add, root, square)
    });
    assert_eq!(found.0 + 2, found.1);
}

#[test]
fn chains_that_others_read_or_that_are_too_long_stay() {
    let found = operators(|net, x| {
        let [above, below] = bent(net, x);
        net.output(above);
        net.binary(Binary::Add, above, below)
    });
    assert_eq!(found.0, found.1, "a result");
    let found = operators(|net, x| {
        let [above, below] = bent(net, x);
        let long = (0..4).fold(below, |v, _| net.unary(Unary::Sigmoid, v));
        let long = net.binary(Binary::Add, above, long);
        net.unary(Unary::Tanh, long)
    });
    assert_eq!(found.0, found.1, "of nine");
}

#[test]
fn only_kernels_that_take_any_tail_have_them() {
    for target in Target::ALL {
        assert_eq!(PassSet::ALL.on(target).has(PassSet::MEETING), target != Target::Cpu, "{target:?}");
    }
}
