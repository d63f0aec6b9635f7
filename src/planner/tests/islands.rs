//! Coordinates and counts in a network of halves keep the bits of single precision, the network's own values some digits.

use super::nets::{Draw, Net};
use super::oracle::{close, compile, evaluate, run, same_bits};
use crate::plan::format::{Kernel, Operator};
use crate::plan::tactic::{Target, menu};
use crate::planner::graph::{Op, ViewOp};
use crate::planner::{CompileOptions, Ports};
use crate::primitive::{Binary, Outside, Places, Primitive, Sample, Sampling, Unary};
use crate::tensor::{DType, Data, Shape, Tensor};

fn tensor(dims: &[u32], number: impl Fn(usize) -> f32) -> Tensor {
    let shape = Shape::new(dims).unwrap();
    Tensor::new(shape, Data::F32((0..shape.elements() as usize).map(number).collect())).unwrap()
}

fn halves() -> CompileOptions {
    CompileOptions {
        dtype: DType::F16,
        ports: Ports::Declared,
        ..CompileOptions::default()
    }
}

/// Sixteen points before a camera of 1600 by 900 pixels.
fn points() -> Tensor {
    tensor(&[1, 16, 4], |i| match (i / 4, i % 4) {
        (point, 0) => point as f32 * 1.37 - 9.0,
        (point, 1) => 1.0 - point as f32 * 0.11,
        (point, 2) => 20.0 + point as f32 * 1.9,
        _ => 1.0,
    })
}

#[test]
fn projected_points_have_the_bits_of_single_precision_and_pictures_are_sampled_there() {
    let (mut net, mut draw) = (Net::default(), Draw::new(31));
    let (x, picture) = (net.input(&[1, 16, 4]), net.input(&[1, 3, 24, 40]));
    let matrix = [[1266.0, 0.0, 0.0], [0.0, 1266.0, 0.0], [816.0, 491.0, 1.0], [0.0; 3]];
    let camera = net.constant(tensor(&[1, 4, 3], |i| matrix[i / 3][i % 3]));
    let seen = net.node(Op::Primitive(Primitive::MatMul), &[x, camera], &[1, 16, 3]);
    let place = net.view(ViewOp::band(3, 2, 0), seen, &[1, 16, 2]);
    let depth = net.view(ViewOp::band(3, 2, 2), seen, &[1, 16, 1]);
    let place = net.binary(Binary::Div, place, depth);
    net.output(place);
    let half = net.constant(tensor(&[1, 1, 2], |i| [800.0, 450.0][i]));
    let place = net.binary(Binary::Div, place, half);
    let one = net.constant(tensor(&[1, 1, 1], |_| 1.0));
    let grid = net.binary(Binary::Sub, place, one);
    let grid = net.view(ViewOp::Reshape, grid, &[1, 4, 4, 2]);
    let features = net.conv(&mut draw, picture, 8, 3, 1, 1, true);
    let sample = Sample {
        sampling: Sampling::Linear,
        outside: Outside::Zero,
        places: Places::Grid { align_corners: false },
    };
    let sampled = net.node(Op::Primitive(Primitive::Sample(sample)), &[features, grid], &[1, 8, 4, 4]);
    net.output(sampled);
    let inputs = vec![points(), draw.tensor(&[1, 3, 24, 40])];
    let expected = evaluate(&net.graph, &inputs);
    let compiled = compile(std::slice::from_ref(&net.graph), &halves());
    let found = run(&compiled, std::slice::from_ref(&inputs), 2);
    same_bits(&compiled.plan, &found[0][..1], &expected[..1], "places");
    // Every GPU has kernels for what is computed in f32 and for pictures of halves with grids of it.
    let convolves = |o: &&Operator| o.calls.iter().any(|c| matches!(c.primitive, Primitive::Conv { .. }));
    for operator in compiled.plan.operators.iter().filter(|o| !convolves(o)) {
        let kernels = menu(&compiled.plan, operator, Target::Cuda { wgmma: true });
        let kernel = kernels.first().map(|t| t.kernel);
        assert!(kernel.is_some_and(|k| k != Kernel::Generic), "{kernel:?} for {:?}", operator.calls);
    }
    close(&found[0][1..], &expected[1..], 2e-3, "samples");
}

#[test]
fn counts_go_into_the_network_as_the_nearest_halves() {
    let (mut net, mut draw) = (Net::default(), Draw::new(32));
    let (x, counts) = (net.input(&[4, 9]), net.input(&[4, 1]));
    net.graph.values[counts.index()].dtype = DType::I32;
    let place = net.graph.add_value("place", DType::F32, Shape::new(&[4, 1]).unwrap());
    net.graph
        .add_node("place", Op::Primitive(Primitive::Copy), vec![counts], vec![place]);
    let width = net.constant(tensor(&[1, 1], |_| 100.0));
    let row = net.binary(Binary::Div, place, width);
    let row = net.unary(Unary::Floor, row);
    let before = net.binary(Binary::Mul, row, width);
    let column = net.binary(Binary::Sub, place, before);
    net.output(column);
    let far = net.constant(tensor(&[1, 1], |_| -1e9));
    let far = net.binary(Binary::Mul, column, far);
    let own = net.same(Primitive::Softmax { axis: 1 }, &[x]);
    let masked = net.binary(Binary::Add, own, far);
    let weights = net.same(Primitive::Softmax { axis: 1 }, &[masked]);
    net.output(weights);
    let counts = Tensor::new(Shape::new(&[4, 1]).unwrap(), Data::I32(vec![8999, 4100, 70_049, 77])).unwrap();
    let inputs = vec![draw.tensor(&[4, 9]), counts];
    let expected = evaluate(&net.graph, &inputs);
    assert_eq!(expected[0].as_f32(), Some(&[99.0, 0.0, 49.0, 77.0][..]));
    let compiled = compile(std::slice::from_ref(&net.graph), &halves());
    let found = run(&compiled, std::slice::from_ref(&inputs), 2);
    same_bits(&compiled.plan, &found[0][..1], &expected[..1], "columns");
    close(&found[0][1..], &expected[1..], 1e-3, "weights");
}
