//! Shares that go through the same functions before they are joined again.

use super::*;

/// Columns and rows of so many places, each times a number, less another and bounded, joined; `second` says what the second share goes
/// through.
fn places(count: u32, order: [i64; 2], second: Binary) -> (Graph, Tensor) {
    let (mut net, mut draw) = (Net::default(), Draw::new(4));
    let x = net.input(&[2, count, 2]);
    let all = net.unary(Unary::Relu, x);
    let mut share = |start: i64, numbers: [f32; 2], last: Binary| {
        let y = net.node(Op::View(ViewOp::band(3, 2, start)), &[all], &[2, count, 1]);
        let y = net.node(Op::View(ViewOp::Reshape), &[y], &[2 * count]);
        let [scale, shift] = numbers.map(|number| scalar(&mut net, number));
        let y = net.binary(Binary::Mul, y, scale);
        let shift = net.view(ViewOp::Broadcast, shift, &[2 * count]);
        let y = net.binary(last, shift, y);
        let y = net.unary(Unary::Clip(Scalar(-1.0), Scalar(1.0)), y);
        net.node(Op::View(ViewOp::Reshape), &[y], &[2, count, 1])
    };
    let parts = [share(order[0], [0.7, 0.25], Binary::Sub), share(order[1], [1.9, -0.5], second)];
    let joined = net.node(Op::Concat { axis: 2 }, &parts, &[2, count, 2]);
    net.output(joined);
    (net.graph, draw.tensor(&[2, count, 2]))
}

fn concatenations(graph: &Graph) -> usize {
    graph.nodes.iter().filter(|n| matches!(n.op, Op::Concat { .. })).count()
}

#[test]
fn the_same_functions_by_several_numbers_are_one() {
    // Six places fill three pieces, five none.
    for (count, pieces) in [(6, true), (5, false)] {
        let (graph, input) = places(count, [0, 1], Binary::Sub);
        let inputs = [input];
        let expected = evaluate(&graph, &inputs);
        let passed = run(graph, PassSet::UNSPLIT).unwrap();
        assert_eq!(concatenations(&passed), 0);
        let functions: Vec<&Node> = passed.nodes.iter().filter(|n| matches!(n.op, Op::Primitive(_))).collect();
        assert_eq!(functions.len(), 4, "one of each");
        let last = passed.value(functions[3].outputs[0]).shape;
        assert_eq!(last.dims(), if pieces { &[3, 8][..] } else { &[2, 5, 2] });
        assert_eq!(evaluate(&passed, &inputs), expected);
    }
}

#[test]
fn other_shares_stay_apart() {
    for (order, second) in [([1, 0], Binary::Sub), ([0, 0], Binary::Sub), ([0, 1], Binary::Add)] {
        let (graph, _) = places(6, order, second);
        assert_eq!(concatenations(&run(graph, PassSet::UNSPLIT).unwrap()), 1, "{order:?}, {second:?}");
    }
}
