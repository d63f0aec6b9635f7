//! Pairs of features that are turned.

use super::*;

/// `x cos + turned sin`, with one angle a row and feature.
fn turned_by(net: &mut Net, draw: &mut Draw, x: ValueId, turned: ValueId) -> ValueId {
    let dims = net.dims(x);
    let [cosines, sines] = [0; 2].map(|_| net.constant(draw.tensor(&dims[dims.len() - 2..])));
    let kept = net.binary(Binary::Mul, x, cosines);
    let added = net.binary(Binary::Mul, turned, sines);
    net.binary(Binary::Add, kept, added)
}

/// Every `step`-th of the last axis's features from `start` on.
fn features(net: &mut Net, x: ValueId, start: i64, step: i64) -> ValueId {
    let mut dims = net.dims(x);
    let last = dims.len() - 1;
    dims[last] /= 2;
    let (mut from, mut steps) = (vec![0; last + 1], vec![1; last + 1]);
    (from[last], steps[last]) = (start, step);
    net.view(ViewOp::Slice { start: from, step: steps }, x, &dims)
}

/// The halves changed round, `negated` of them with its sign changed.
fn halves(net: &mut Net, x: ValueId, negated: usize) -> ValueId {
    let (last, half) = (net.dims(x).len() - 1, i64::from(net.dims(x)[net.dims(x).len() - 1] / 2));
    let mut parts = [features(net, x, half, 1), features(net, x, 0, 1)];
    parts[negated] = net.unary(Unary::Neg, parts[negated]);
    net.concat(last, &parts)
}

/// The neighbours changed round, the first of each pair with its sign changed.
fn neighbours(net: &mut Net, x: ValueId) -> ValueId {
    let dims = net.dims(x);
    let [odd, even] = [features(net, x, 1, 2), features(net, x, 0, 2)];
    let odd = net.unary(Unary::Neg, odd);
    let stacked = [odd, even].map(|part| {
        let one = [&net.dims(part)[..], &[1]].concat();
        net.view(ViewOp::Reshape, part, &one)
    });
    let pairs = net.concat(dims.len(), &stacked);
    net.view(ViewOp::Reshape, pairs, &dims)
}

#[test]
fn pairs_side_by_side_are_joined_along_an_axis_that_their_shares_have_not() {
    let (mut net, mut draw) = (Net::default(), Draw::new(6));
    let x = net.input(&[1, 2, 5, 8]);
    let turned = neighbours(&mut net, x);
    let y = turned_by(&mut net, &mut draw, x, turned);
    net.output(y);
    let inputs = [draw.tensor(&[1, 2, 5, 8])];
    for set in [PassSet::UNSPLIT, PassSet::MIXED, PassSet::REJOINED, PassSet::ALL] {
        let graph = run(net.graph.clone(), set).unwrap();
        close(&evaluate(&graph, &inputs), &evaluate(&net.graph, &inputs), 0.0, "joined");
    }
}

/// What is left of a network after the pass, its results held against those before.
fn left(mut net: Net, draw: &mut Draw, output: ValueId) -> Vec<Op> {
    net.output(output);
    let dims = net.dims(net.graph.inputs[0].value);
    let graph = run(net.graph.clone(), PassSet::ROTARY).unwrap();
    let input = [draw.tensor(&dims)];
    // The products are the same, and so are their signs.
    close(&evaluate(&graph, &input), &evaluate(&net.graph, &input), 0.0, "turned");
    graph
        .nodes
        .into_iter()
        .map(|n| n.op)
        .filter(|op| !matches!(op, Op::View(_)))
        .collect()
}

fn is_one_function(left: &[Op]) -> bool {
    let binary = |kind| Op::Primitive(Primitive::Binary(kind));
    left == [binary(Binary::Mul), binary(Binary::Mul), binary(Binary::Add)]
}

#[test]
fn halves_and_neighbours_are_turned_without_being_stored() {
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let x = net.input(&[2, 3, 5, 8]);
    let turned = halves(&mut net, x, 0);
    let y = turned_by(&mut net, &mut draw, x, turned);
    assert!(is_one_function(&left(net, &mut draw, y)), "halves");

    let mut net = Net::default();
    let x = net.input(&[2, 3, 5, 8]);
    let turned = neighbours(&mut net, x);
    let y = turned_by(&mut net, &mut draw, x, turned);
    assert!(is_one_function(&left(net, &mut draw, y)), "neighbours");
}

#[test]
fn heads_that_lie_among_others_are_turned_where_they_are() {
    let (mut net, mut draw) = (Net::default(), Draw::new(4));
    let joined = net.input(&[1, 6, 48]);
    let query = net.view(ViewOp::band(3, 2, 16), joined, &[1, 6, 16]);
    let heads = net.view(ViewOp::Reshape, query, &[1, 6, 2, 8]);
    let heads = net.transpose(heads, &[0, 2, 1, 3]);
    let turned = halves(&mut net, heads, 0);
    let y = turned_by(&mut net, &mut draw, heads, turned);
    assert!(is_one_function(&left(net, &mut draw, y)));
}

/// Two rows without a position in front of those that have one, joined again; `swapped` behind them.
fn among_others(net: &mut Net, draw: &mut Draw, swapped: bool) -> ValueId {
    let all = net.input(&[1, 2, 7, 8]);
    let first = net.view(ViewOp::band(4, 2, 0), all, &[1, 2, 2, 8]);
    let x = net.view(ViewOp::band(4, 2, 2), all, &[1, 2, 5, 8]);
    let turned = halves(net, x, 0);
    let turned = turned_by(net, draw, x, turned);
    net.concat(2, &if swapped { [turned, first] } else { [first, turned] })
}

#[test]
fn rows_without_a_position_stay_among_those_that_are_turned() {
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let y = among_others(&mut net, &mut draw, false);
    assert!(is_one_function(&left(net, &mut draw, y)), "nothing is joined any more");

    let mut net = Net::default();
    let y = among_others(&mut net, &mut draw, true);
    let ops = left(net, &mut draw, y);
    assert_eq!(ops.last(), Some(&Op::Concat { axis: 2 }), "{ops:?}");
    assert!(is_one_function(&ops[..3]), "elsewhere they are joined: {ops:?}");
}

#[test]
fn what_only_looks_like_turned_pairs_stays() {
    let (mut net, mut draw) = (Net::default(), Draw::new(6));
    let x = net.input(&[1, 2, 5, 8]);
    let turned = halves(&mut net, x, 1);
    let y = turned_by(&mut net, &mut draw, x, turned);
    let ops = left(net, &mut draw, y);
    assert!(ops.contains(&Op::Concat { axis: 3 }), "the other half is negated: {ops:?}");

    let mut net = Net::default();
    let x = net.input(&[1, 2, 5, 8]);
    let other = net.unary(Unary::Relu, x);
    let turned = halves(&mut net, other, 0);
    let y = turned_by(&mut net, &mut draw, x, turned);
    let ops = left(net, &mut draw, y);
    assert!(ops.contains(&Op::Concat { axis: 3 }), "halves of something else: {ops:?}");

    // Sines that a frame computes have no signs to take.
    let mut net = Net::default();
    let x = net.input(&[1, 2, 5, 8]);
    let turned = halves(&mut net, x, 0);
    let angle = net.unary(Unary::Tanh, x);
    let [kept, added] = [x, turned].map(|v| net.binary(Binary::Mul, v, angle));
    let y = net.binary(Binary::Add, kept, added);
    let ops = left(net, &mut draw, y);
    assert!(ops.contains(&Op::Concat { axis: 3 }), "computed sines: {ops:?}");
}
