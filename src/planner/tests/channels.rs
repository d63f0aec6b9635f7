//! Constants of channels that go through views and concatenations into products, before and behind them, and shares of a value
//! that are joined again; results are the oracle's but for rounding.

use super::nets::{Draw, Net};
use super::oracle::{close, compile_with, evaluate, run};
use crate::planner::graph::{Op, ValueId, ViewOp};
use crate::planner::passes::PassSet;
use crate::primitive::{Binary, Primitive, Unary};

const DIMS: [u32; 4] = [2, 8, 6, 5];

/// The compiled network's primitives but for views, those of each operator together. Windows of several sizes stay several.
fn compiled(block: impl Fn(&mut Net, &mut Draw, ValueId) -> ValueId) -> Vec<Vec<Primitive>> {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let x = net.input(&DIMS);
    let y = block(&mut net, &mut draw, x);
    net.output(y);
    let inputs = vec![draw.tensor(&DIMS)];
    let expected = evaluate(&net.graph, &inputs);
    let compiled = compile_with(&net.graph, PassSet::ALL.without(PassSet::MIXED));
    let found = run(&compiled, &[inputs], 2);
    close(&found[0], &expected, 1e-5, "channels");
    let calls = |o: &crate::plan::format::Operator| o.calls.iter().map(|c| c.primitive).collect();
    compiled.plan.operators.iter().map(calls).collect()
}

fn binaries(operators: &[Vec<Primitive>]) -> usize {
    operators.iter().flatten().filter(|p| matches!(p, Primitive::Binary(_))).count()
}

/// `x` scaled and shifted along `axis`, as a normalisation of batches is.
fn normalised(net: &mut Net, draw: &mut Draw, x: ValueId, axis: usize) -> ValueId {
    let mut dims = vec![1; net.dims(x).len()];
    dims[axis] = net.dims(x)[axis];
    let (scale, shift) = (net.constant(draw.tensor(&dims)), net.constant(draw.tensor(&dims)));
    let x = net.binary(Binary::Mul, x, scale);
    net.binary(Binary::Add, x, shift)
}

/// The channels from `first` on, `count` of them.
fn share(net: &mut Net, x: ValueId, first: u32, count: u32) -> ValueId {
    let d = net.dims(x);
    let slice = ViewOp::Slice {
        start: vec![0, i64::from(first), 0, 0],
        step: vec![1; 4],
    };
    net.view(slice, x, &[d[0], count, d[2], d[3]])
}

#[test]
fn constants_behind_views_of_a_product_go_into_it() {
    // A layer of rows, which its normalisation sees as one batch.
    let found = compiled(|net, draw, x| {
        let rows = net.view(ViewOp::Reshape, x, &[2, 48, 5]);
        let w = net.constant(draw.tensor(&[5, 7]));
        let w = net.view(ViewOp::Broadcast, w, &[2, 5, 7]);
        let y = net.node(Op::Primitive(Primitive::MatMul), &[rows, w], &[2, 48, 7]);
        let y = net.view(ViewOp::Reshape, y, &[96, 7]);
        normalised(net, draw, y, 1)
    });
    assert_eq!((found.len(), binaries(&found)), (1, 0));
    // Channels last, as converters from other frameworks write.
    let found = compiled(|net, draw, x| {
        let y = net.conv(draw, x, 6, 3, 1, 1, true);
        let y = net.transpose(y, &[0, 2, 3, 1]);
        let y = normalised(net, draw, y, 3);
        net.transpose(y, &[0, 3, 1, 2])
    });
    assert_eq!(binaries(&found), 0);
    // Channels that a view mixes with the rows, and a view that is read twice.
    let found = compiled(|net, draw, x| {
        let y = net.conv(draw, x, 6, 3, 1, 1, true);
        let y = net.view(ViewOp::Reshape, y, &[2, 36, 5]);
        normalised(net, draw, y, 1)
    });
    assert_eq!(binaries(&found), 2);
    let found = compiled(|net, draw, x| {
        let y = net.conv(draw, x, 6, 3, 1, 1, true);
        let y = net.view(ViewOp::Reshape, y, &[2, 6, 30]);
        let z = normalised(net, draw, y, 1);
        net.binary(Binary::Mul, z, y)
    });
    assert_eq!(binaries(&found), 3);
}

#[test]
fn functions_behind_joined_convolutions_go_into_each() {
    let joined = |net: &mut Net, draw: &mut Draw, x: ValueId| {
        let (a, b) = (share(net, x, 0, 4), share(net, x, 4, 4));
        let parts = [net.conv(draw, a, 4, 3, 1, 4, false), net.conv(draw, b, 4, 5, 1, 4, true)];
        (net.concat(1, &parts), parts)
    };
    let found = compiled(|net, draw, x| {
        let (y, _) = joined(net, draw, x);
        let y = normalised(net, draw, y, 1);
        net.unary(Unary::Relu, y)
    });
    assert_eq!(binaries(&found), 0);
    let relu = Primitive::Unary(Unary::Relu);
    assert_eq!(found.iter().filter(|calls| calls[1..] == [relu]).count(), 2, "{found:?}");
    // A part that is read elsewhere, and one that is no product.
    let found = compiled(|net, draw, x| {
        let (y, parts) = joined(net, draw, x);
        let y = normalised(net, draw, y, 1);
        net.concat(1, &[y, parts[0]])
    });
    assert_eq!(binaries(&found), 2);
    let found = compiled(|net, draw, x| {
        let part = net.conv(draw, x, 4, 3, 1, 1, false);
        let y = net.concat(1, &[part, x]);
        normalised(net, draw, y, 1)
    });
    assert_eq!(binaries(&found), 2);
}

#[test]
fn constants_in_front_of_a_convolution_go_into_it_where_nothing_is_padded() {
    for groups in [1, 2, 8] {
        let found = compiled(|net, draw, x| {
            let y = net.unary(Unary::Sigmoid, x);
            let z = normalised(net, draw, y, 1);
            let z = net.conv(draw, z, 8, 1, 1, groups, groups == 2);
            net.binary(Binary::Add, z, y)
        });
        assert_eq!(binaries(&found), 1, "{groups} groups");
    }
    // Of a window that reads beyond the edge, only what is scaled goes.
    let found = compiled(|net, draw, x| {
        let y = net.unary(Unary::Sigmoid, x);
        let y = normalised(net, draw, y, 1);
        let scale = net.constant(draw.tensor(&[8, 1, 1]));
        let y = net.binary(Binary::Div, y, scale);
        net.conv(draw, y, 4, 3, 1, 1, true)
    });
    assert_eq!(binaries(&found), 2);
}

#[test]
fn shares_of_a_value_that_follow_each_other_are_not_copied_to_their_join() {
    let all = |found: &[Vec<Primitive>]| found.iter().filter(|calls| calls[..] == [Primitive::Copy]).count();
    // Without those at the borders.
    let borders = all(&compiled(|net, draw, x| {
        let y = net.conv(draw, x, 8, 1, 1, 1, true);
        net.conv(draw, y, 4, 1, 1, 1, true)
    }));
    let copies = |found: &[Vec<Primitive>]| all(found) - borders;
    // A cross-stage block: both shares, and what the last one becomes.
    let found = compiled(|net, draw, x| {
        let y = net.conv(draw, x, 8, 1, 1, 1, true);
        let y = net.unary(Unary::Silu, y);
        let (a, b) = (share(net, y, 0, 4), share(net, y, 4, 4));
        let c = net.conv(draw, b, 4, 3, 1, 1, true);
        let z = net.concat(1, &[a, b, c]);
        net.conv(draw, z, 4, 1, 1, 1, true)
    });
    assert_eq!(copies(&found), 0, "{found:?}");
    // Of three shares the first two, which are no whole value.
    let found = compiled(|net, draw, x| {
        let y = net.conv(draw, x, 9, 1, 1, 1, true);
        let (a, b, c) = (share(net, y, 0, 3), share(net, y, 3, 3), share(net, y, 6, 3));
        let c = net.conv(draw, c, 3, 3, 1, 1, true);
        let z = net.concat(1, &[c, a, b]);
        net.conv(draw, z, 4, 1, 1, 1, true)
    });
    assert_eq!(copies(&found), 1, "{found:?}");
    // In another order they stay apart.
    let found = compiled(|net, draw, x| {
        let y = net.conv(draw, x, 8, 1, 1, 1, true);
        let (a, b) = (share(net, y, 0, 4), share(net, y, 4, 4));
        let z = net.concat(1, &[b, a]);
        net.conv(draw, z, 4, 1, 1, 1, true)
    });
    assert_eq!(copies(&found), 2, "{found:?}");
}
