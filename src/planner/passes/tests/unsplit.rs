//! Shares that go through the same functions before they are joined again.

use super::*;

/// Columns and rows of places, each times a number, less another and bounded, joined; `second` says what the second share goes through.
fn places(order: [i64; 2], second: Binary) -> (Graph, Tensor) {
    let (mut net, mut draw) = (Net::default(), Draw::new(4));
    let x = net.input(&[2, 5, 2]);
    let all = net.unary(Unary::Relu, x);
    let mut share = |start: i64, numbers: [f32; 2], last: Binary| {
        let y = net.node(Op::View(ViewOp::band(3, 2, start)), &[all], &[2, 5, 1]);
        let y = net.node(Op::View(ViewOp::Reshape), &[y], &[10]);
        let [scale, shift] = numbers.map(|number| scalar(&mut net, number));
        let y = net.binary(Binary::Mul, y, scale);
        let shift = net.view(ViewOp::Broadcast, shift, &[10]);
        let y = net.binary(last, shift, y);
        let y = net.unary(Unary::Clip(Scalar(-1.0), Scalar(1.0)), y);
        net.node(Op::View(ViewOp::Reshape), &[y], &[2, 5, 1])
    };
    let parts = [share(order[0], [0.7, 0.25], Binary::Sub), share(order[1], [1.9, -0.5], second)];
    let joined = net.node(Op::Concat { axis: 2 }, &parts, &[2, 5, 2]);
    net.output(joined);
    (net.graph, draw.tensor(&[2, 5, 2]))
}

fn concatenations(graph: &Graph) -> usize {
    graph.nodes.iter().filter(|n| matches!(n.op, Op::Concat { .. })).count()
}

#[test]
fn the_same_functions_by_several_numbers_are_one() {
    let (graph, input) = places([0, 1], Binary::Sub);
    let inputs = [input];
    let expected = evaluate(&graph, &inputs);
    let passed = run(graph, PassSet::UNSPLIT).unwrap();
    assert_eq!(concatenations(&passed), 0);
    let functions = passed.nodes.iter().filter(|n| matches!(n.op, Op::Primitive(_))).count();
    assert_eq!(functions, 4, "one of each");
    assert_eq!(evaluate(&passed, &inputs), expected);
}

#[test]
fn other_shares_stay_apart() {
    for (order, second) in [([1, 0], Binary::Sub), ([0, 0], Binary::Sub), ([0, 1], Binary::Add)] {
        let (graph, _) = places(order, second);
        assert_eq!(concatenations(&run(graph, PassSet::UNSPLIT).unwrap()), 1, "{order:?}, {second:?}");
    }
}
