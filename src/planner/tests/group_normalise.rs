//! Group normalisation between convolutions: one operator on pictures as they are stored, with the bits of the flattened one.

use super::nets::{Draw, Net};
use super::oracle::{close, compile, evaluate, run, same_bits};
use crate::plan::tactic::Target;
use crate::planner::CompileOptions;
use crate::planner::graph::{Graph, Op, ValueId, ViewOp};
use crate::planner::passes::PassSet;
use crate::primitive::{Binary, Primitive, ReduceKind, Unary};
use crate::tensor::{Data, Shape, Tensor};

fn constant(net: &mut Net, dims: &[u32], value: f32) -> ValueId {
    let shape = Shape::new(dims).unwrap();
    net.constant(Tensor::new(shape, Data::F32(vec![value; shape.elements() as usize])).unwrap())
}

/// Convolution, normalisation of 24 channels in three groups as PyTorch exports it, relu, convolution.
fn network() -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(11));
    let x = net.input(&[2, 16, 6, 7]);
    let x = net.conv(&mut draw, x, 24, 3, 1, 1, true);
    let flat = net.view(ViewOp::Reshape, x, &[2, 3, 8 * 6 * 7]);
    let mean = Op::Primitive(Primitive::Reduce {
        kind: ReduceKind::Mean,
        axes: 0b100,
    });
    let middle = net.node(mean.clone(), &[flat], &[2, 3, 1]);
    let centred = net.binary(Binary::Sub, flat, middle);
    let squared = net.binary(Binary::Mul, centred, centred);
    let variance = net.node(mean, &[squared], &[2, 3, 1]);
    let epsilon = constant(&mut net, &[], 1e-5);
    let shifted = net.binary(Binary::Add, variance, epsilon);
    let deviation = net.unary(Unary::Sqrt, shifted);
    let mut y = net.binary(Binary::Div, centred, deviation);
    for (kind, value) in [(Binary::Mul, 1.0), (Binary::Add, 0.0)] {
        let same = constant(&mut net, &[3, 1], value);
        y = net.binary(kind, y, same);
    }
    let d = net.dims(x);
    let mut y = net.view(ViewOp::Reshape, y, &d);
    for kind in [Binary::Mul, Binary::Add] {
        let channels = net.constant(draw.tensor(&[24, 1, 1]));
        y = net.binary(kind, y, channels);
    }
    let y = net.unary(Unary::Relu, y);
    let y = net.conv(&mut draw, y, 8, 1, 1, 1, true);
    net.output(y);
    (net.graph, vec![draw.tensor(&[2, 16, 6, 7])])
}

#[test]
fn pictures_are_normalised_as_they_are_stored() {
    let (graph, inputs) = network();
    let plan = |passes| {
        let options = CompileOptions {
            passes,
            ..CompileOptions::default()
        };
        compile(std::slice::from_ref(&graph), &options)
    };
    let (stored, flat) = (plan(PassSet::ALL), plan(PassSet::ALL.without(PassSet::GROUP_NORMALISE)));
    let heads = |compiled: &crate::planner::Compiled| -> Vec<(Primitive, usize)> {
        let operators = compiled.plan.operators.iter();
        operators.map(|o| (o.calls[0].primitive, o.calls.len())).collect()
    };
    let copies = |all: &[(Primitive, usize)]| all.iter().filter(|(p, _)| *p == Primitive::Copy).count();
    let normalises = |(p, calls): &(Primitive, usize)| matches!(p, Primitive::GroupNormalise { groups: 3, .. }) && *calls == 4;
    let (found, before) = (heads(&stored), heads(&flat));
    assert!(found.iter().any(normalises), "{found:?}");
    assert!(copies(&found) < copies(&before), "{found:?} {before:?}");
    let results = |compiled| run(compiled, std::slice::from_ref(&inputs), 2);
    same_bits(&stored.plan, &results(&stored)[0], &results(&flat)[0], "stored");
    close(&results(&stored)[0], &evaluate(&graph, &inputs), 1e-5, "normalised");
}

#[test]
fn processors_which_share_out_a_sample_keep_its_rows() {
    for target in Target::ALL {
        let whole = PassSet::ALL.on(target).has(PassSet::GROUP_NORMALISE);
        assert_eq!(whole, target != Target::Cpu, "{target:?}");
    }
}
