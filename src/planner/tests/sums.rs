//! Sums that f16 does not hold in networks of halves, whose results it holds.

use super::nets::{Draw, Net};
use super::oracle::{close, compile, evaluate, run};
use crate::plan::format::Kernel;
use crate::plan::tactic::{Target, menu};
use crate::planner::graph::{Op, ValueId, ViewOp};
use crate::planner::passes::PassSet;
use crate::planner::{CompileOptions, Ports, attach, half_floats};
use crate::primitive::{Binary, Primitive, ReduceKind, Scalar, Unary};
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

/// `x` as a product of the network's own makes it, `[.., columns]`.
fn own(net: &mut Net, x: ValueId, dims: &[u32]) -> ValueId {
    let columns = dims[dims.len() - 1];
    let ones = (0..columns * columns).map(|i| f32::from(u8::from(i % columns == i / columns)));
    let identity = net.constant(Tensor::new(Shape::new(&[columns, columns]).unwrap(), Data::F32(ones.collect())).unwrap());
    let repeated = [&dims[..dims.len() - 2], &[columns; 2]].concat();
    let identity = net.view(ViewOp::Broadcast, identity, &repeated);
    net.node(Op::Primitive(Primitive::MatMul), &[x, identity], dims)
}

#[test]
fn sums_of_few_elements_hold_as_much_as_those_of_many() {
    same_in_halves(&[2, 3, 32], 900.0, "a quotient by a root of three squares", |net, x| {
        let x = own(net, x, &[2, 3, 32]);
        let squares = net.binary(Binary::Mul, x, x);
        let sum = reduce(net, ReduceKind::Sum, 0b10, squares, &[2, 1, 32]);
        let root = net.unary(Unary::Sqrt, sum);
        net.binary(Binary::Div, x, root)
    });
    same_in_halves(&[2, 8, 32], 20.0, "the logarithm of eight exponentials", |net, x| {
        let x = own(net, x, &[2, 8, 32]);
        let powers = net.unary(Unary::Exp, x);
        let sum = reduce(net, ReduceKind::Sum, 0b10, powers, &[2, 1, 32]);
        let sum = net.view(ViewOp::Reshape, sum, &[2, 32]);
        net.unary(Unary::Log, sum)
    });
    same_in_halves(&[2, 4, 32], 1e3, "a fourth of four", |net, x| {
        let far = number(net, 3e4);
        let high = net.binary(Binary::Add, x, far);
        let high = own(net, high, &[2, 4, 32]);
        let sum = reduce(net, ReduceKind::Sum, 0b10, high, &[2, 1, 32]);
        let fourth = number(net, 0.25);
        net.binary(Binary::Mul, sum, fourth)
    });
}

#[test]
fn what_grows_beyond_halves_may_come_back_by_a_quotient_a_root_or_a_logarithm() {
    let dims = [3, 4, 32];
    same_in_halves(&dims, 300.0, "the length of two sides", |net, x| {
        let x = own(net, x, &dims);
        let y = net.unary(Unary::Neg, x);
        let y = own(net, y, &dims);
        let (a, b) = (net.binary(Binary::Mul, x, x), net.binary(Binary::Mul, y, y));
        let sum = net.binary(Binary::Add, a, b);
        net.unary(Unary::Sqrt, sum)
    });
    same_in_halves(&dims, 30.0, "a softplus", |net, x| {
        let x = own(net, x, &dims);
        let one = number(net, 1.0);
        let powers = net.unary(Unary::Exp, x);
        let more = net.binary(Binary::Add, powers, one);
        net.unary(Unary::Log, more)
    });
    same_in_halves(&dims, 15.0, "a mish of exponentials", |net, x| {
        let x = own(net, x, &dims);
        let two = number(net, 2.0);
        let power = net.unary(Unary::Exp, x);
        let (square, twice) = (net.binary(Binary::Mul, power, power), net.binary(Binary::Mul, power, two));
        let n = net.binary(Binary::Add, square, twice);
        let (above, below) = (net.binary(Binary::Mul, x, n), net.binary(Binary::Add, n, two));
        net.binary(Binary::Div, above, below)
    });
    same_in_halves(&dims, 30.0, "shares of exponentials", |net, x| {
        let x = own(net, x, &dims);
        let powers = net.unary(Unary::Exp, x);
        let sum = reduce(net, ReduceKind::Sum, 0b100, powers, &[3, 4, 1]);
        net.binary(Binary::Div, powers, sum)
    });
    same_in_halves(&dims, 1.0, "the inverse of a logistic function", |net, x| {
        let x = own(net, x, &dims);
        let one = number(net, 1.0);
        let p = net.unary(Unary::Clip(Scalar(0.0), Scalar(1.0)), x);
        let ones = net.view(ViewOp::Broadcast, one, &dims);
        let rest = net.binary(Binary::Sub, ones, p);
        let least = Unary::Clip(Scalar(1e-5), Scalar(f32::INFINITY));
        let (p, rest) = (net.unary(least, p), net.unary(least, rest));
        let odds = net.binary(Binary::Div, p, rest);
        net.unary(Unary::Log, odds)
    });
    same_in_halves(&[2, 64, 32], 10.0, "a mean of what a mask leaves", |net, x| {
        let (x, shape) = (own(net, x, &[2, 64, 32]), [2, 1, 1]);
        let far = number(net, 300.0);
        let high = net.binary(Binary::Add, x, far);
        let mask = net.unary(Unary::Clip(Scalar(0.0), Scalar(1.0)), x);
        let masked = net.binary(Binary::Mul, high, mask);
        let (sum, count) = (
            reduce(net, ReduceKind::Sum, 0b110, masked, &shape),
            reduce(net, ReduceKind::Sum, 0b110, mask, &shape),
        );
        net.binary(Binary::Div, sum, count)
    });
}

#[test]
fn what_something_else_reads_stays_in_halves() {
    let mut net = Net::default();
    let dims = [3, 4, 32];
    let x = net.input(&dims);
    let x = own(&mut net, x, &dims);
    let square = net.binary(Binary::Mul, x, x);
    let root = net.unary(Unary::Sqrt, square);
    let product = own(&mut net, square, &dims);
    net.output(root);
    net.output(product);
    let halved = half_floats::convert(attach::tensors(net.graph), Ports::Half).graph;
    assert!(halved.values.iter().all(|v| v.dtype == DType::F16));
}
