//! What transformers are made of, before and behind the passes that know it.

use super::nets::{Draw, Net};
use super::oracle::{close, evaluate};
use crate::planner::graph::{Graph, Op, ValueId, ViewOp};
use crate::planner::passes::{self, PassSet};
use crate::primitive::{Binary, Primitive, Scalar, Window};
use crate::tensor::{Data, Shape, Tensor};

fn product(net: &mut Net, a: ValueId, b: ValueId) -> ValueId {
    let mut dims = net.dims(a);
    let last = dims.len() - 1;
    dims[last] = net.dims(b)[last];
    net.node(Op::Primitive(Primitive::MatMul), &[a, b], &dims)
}

/// Patches of a picture as rows, their queries, keys and values as products of their own, attention with a mask to all of them,
/// and, from its result, position attention as it is exported the other way round.
fn network() -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let dims = [2, 3, 24, 40];
    let x = net.input(&dims);
    let weights = net.constant(draw.tensor(&[16, 3, 8, 8]));
    let mut window = Window::new(&[8, 8]);
    window.stride[..2].fill(8);
    let y = net.node(Op::Primitive(Primitive::Conv { window, groups: 1 }), &[x, weights], &[2, 16, 3, 5]);
    let y = net.view(ViewOp::Reshape, y, &[2, 16, 15]);
    let rows = net.transpose(y, &[0, 2, 1]);
    let mut part = |net: &mut Net, perm: &[usize]| {
        let w = net.constant(draw.tensor(&[16, 16]));
        let w = net.view(ViewOp::Broadcast, w, &[2, 16, 16]);
        let y = product(net, rows, w);
        let y = net.view(ViewOp::Reshape, y, &[2, 15, 2, 8]);
        net.transpose(y, perm)
    };
    let (q, k, v) = (
        part(&mut net, &[0, 2, 1, 3]),
        part(&mut net, &[0, 2, 3, 1]),
        part(&mut net, &[0, 2, 1, 3]),
    );
    let scores = product(&mut net, q, k);
    let scale = net.constant(Tensor::new(Shape::SCALAR, Data::F32(vec![0.02])).unwrap());
    let scores = net.binary(Binary::Mul, scores, scale);
    let mask = net.constant(draw.tensor(&[1, 2, 15, 15]));
    let scores = net.binary(Binary::Add, scores, mask);
    let shares = net.same(Primitive::Softmax { axis: 3 }, &[scores]);
    let y = product(&mut net, shares, v);
    let y = net.transpose(y, &[0, 2, 1, 3]);
    let y = net.view(ViewOp::Reshape, y, &[2, 15, 16]);
    net.output(y);
    let columns = net.transpose(y, &[0, 2, 1]);
    let energy = product(&mut net, y, columns);
    let small = net.constant(Tensor::new(Shape::SCALAR, Data::F32(vec![0.01])).unwrap());
    let energy = net.binary(Binary::Mul, energy, small);
    let shares = net.same(Primitive::Softmax { axis: 2 }, &[energy]);
    let turned = net.transpose(shares, &[0, 2, 1]);
    let y = product(&mut net, columns, turned);
    net.output(y);
    (net.graph, vec![draw.tensor(&dims)])
}

#[test]
fn passes_keep_what_transformers_compute() {
    let (graph, inputs) = network();
    let expected = evaluate(&graph, &inputs);
    for set in [PassSet::PATCHES, PassSet::SIBLINGS, PassSet::LONG_ATTENTION, PassSet::ALL] {
        let passed = passes::run(graph.clone(), set).unwrap();
        close(&evaluate(&passed, &inputs), &expected, 1e-4, &format!("passes {set:?}"));
    }
    let passed = passes::run(graph, PassSet::ALL).unwrap();
    let count = |wanted: fn(&Primitive) -> bool| {
        let of_kind = |op: &Op| matches!(op, Op::Primitive(p) if wanted(p));
        passed.nodes.iter().filter(|n| of_kind(&n.op)).count()
    };
    assert_eq!(count(|p| matches!(p, Primitive::Attention { scale: Scalar(s) } if *s > 0.0)), 2);
    assert_eq!(count(|p| *p == Primitive::MatMul), 1);
    assert_eq!(
        count(|p| matches!(p, Primitive::Conv { window, .. } if window.kernel == [8, 1, 1])),
        1
    );
}
