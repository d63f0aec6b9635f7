//! Sums that f16 does not hold in networks of halves, whose results it holds.

use super::nets::{Draw, Net};
use super::oracle::{close, compile, evaluate, run};
use crate::plan::format::Kernel;
use crate::plan::tactic::{Target, menu};
use crate::planner::graph::{Op, ValueId, ViewOp};
use crate::planner::passes::PassSet;
use crate::planner::{CompileOptions, Ports};
use crate::primitive::{Binary, Primitive, ReduceKind, Unary};
use crate::tensor::{DType, Data, Shape, Tensor};
use half::f16;

fn number(net: &mut Net, number: f32) -> ValueId {
    net.constant(Tensor::new(Shape::SCALAR, Data::F32(vec![number])).unwrap())
}

fn reduce(net: &mut Net, kind: ReduceKind, axes: u8, x: ValueId, dims: &[u32]) -> ValueId {
    net.node(Op::Primitive(Primitive::Reduce { kind, axes }), &[x], dims)
}

fn halves(tensor: &Tensor) -> Tensor {
    let numbers = tensor.as_f32().unwrap().iter().map(|&v| f16::from_f32(v));
    Tensor::new(tensor.shape(), Data::F16(numbers.collect())).unwrap()
}

/// `x` drawn from -1 to 1, times `scale`, and what the network makes of it in halves and in floats.
fn same_in_halves(dims: &[u32], scale: f32, about: &str, make: impl Fn(&mut Net, ValueId) -> ValueId) {
    let (mut net, mut draw) = (Net::default(), Draw::new(77));
    let x = net.input(dims);
    let y = make(&mut net, x);
    net.output(y);
    let drawn = draw.tensor(dims);
    let numbers = drawn.as_f32().unwrap().iter().map(|v| v * scale).collect();
    let inputs = vec![Tensor::new(drawn.shape(), Data::F32(numbers)).unwrap()];
    let expected = evaluate(&net.graph, &inputs);
    assert!(
        expected[0].as_f32().unwrap().iter().all(|v| v.is_finite() && v.abs() < 6e4),
        "{about}"
    );
    for ports in [Ports::Declared, Ports::Half] {
        for passes in [PassSet::ALL, PassSet::NONE] {
            let options = CompileOptions {
                dtype: DType::F16,
                ports,
                passes,
                ..CompileOptions::default()
            };
            let compiled = compile(std::slice::from_ref(&net.graph), &options);
            let half = |t: &Tensor| match ports {
                Ports::Declared => t.clone(),
                Ports::Half => halves(t),
            };
            let inputs: Vec<Tensor> = inputs.iter().map(half).collect();
            let found = run(&compiled, std::slice::from_ref(&inputs), 2);
            let expected: Vec<Tensor> = expected.iter().map(half).collect();
            close(&found[0], &expected, 3e-3, about);
            for operator in compiled.plan.operators.iter().filter(|_| passes == PassSet::ALL) {
                let kernels = menu(&compiled.plan, operator, Target::Cuda { wgmma: true });
                let kernel = kernels.first().map(|t| t.kernel);
                assert!(kernel.is_some_and(|k| k != Kernel::Generic), "{kernel:?} for {:?}", operator.calls);
            }
        }
    }
}

#[test]
fn squares_are_summed_beyond_what_halves_hold_also_behind_views() {
    // Root mean squares and lengths, the axis looked away and back between the parts.
    for kind in [ReduceKind::Sum, ReduceKind::Mean] {
        same_in_halves(&[2, 8, 32], 900.0, "a quotient by a root of squares", |net, x| {
            let squares = net.binary(Binary::Mul, x, x);
            let rows = net.view(ViewOp::Reshape, squares, &[16, 32]);
            let sum = reduce(net, kind, 0b10, rows, &[16, 1]);
            let sum = net.view(ViewOp::Reshape, sum, &[2, 8, 1]);
            let epsilon = number(net, 1e-12);
            let shifted = net.binary(Binary::Add, sum, epsilon);
            let root = net.unary(Unary::Sqrt, shifted);
            net.binary(Binary::Div, x, root)
        });
        same_in_halves(&[2, 8, 32], 900.0, "scaled squares of turned channels", |net, x| {
            let two = number(net, 2.0);
            let squares = net.binary(Binary::Pow, x, two);
            let turned = net.transpose(squares, &[0, 2, 1]);
            let sum = reduce(net, kind, 0b10, turned, &[2, 1, 8]);
            let scale = number(net, 1e-6);
            net.binary(Binary::Mul, sum, scale)
        });
    }
}

#[test]
fn the_logarithm_of_a_sum_of_exponentials_is_finite_where_they_are_not() {
    same_in_halves(&[4, 3, 16], 40.0, "logarithms of sums of exponentials", |net, x| {
        let powers = net.unary(Unary::Exp, x);
        let sum = reduce(net, ReduceKind::Sum, 0b100, powers, &[4, 3, 1]);
        let sum = net.view(ViewOp::Reshape, sum, &[4, 3]);
        net.unary(Unary::Log, sum)
    });
}

#[test]
fn sums_that_are_scaled_to_means_are_means() {
    for (kind, by) in [(Binary::Div, 512.0), (Binary::Mul, 1.0 / 1024.0), (Binary::Div, 9000.0)] {
        same_in_halves(&[2, 3, 512], 1.0, "scaled sums", |net, x| {
            let far = number(net, 3000.0);
            let high = net.binary(Binary::Add, x, far);
            let sum = reduce(net, ReduceKind::Sum, 0b100, high, &[2, 3, 1]);
            let sum = net.view(ViewOp::Reshape, sum, &[2, 3]);
            let by = number(net, by);
            net.binary(kind, sum, by)
        });
    }
}
