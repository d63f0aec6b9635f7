//! Views in a row that cut axes, change their order and join them again.

use super::*;

/// A step of such views.
#[derive(Clone, Copy)]
enum Step {
    Turn(&'static [usize]),
    Cut(&'static [u32]),
}
use Step::{Cut, Turn};

/// A network of these steps over what a function makes of its input.
fn chain(from: &[u32], steps: &[Step]) -> (Graph, Tensor) {
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let x = net.input(from);
    let mut value = net.unary(Unary::Relu, x);
    for step in steps {
        value = match *step {
            Turn(perm) => {
                let dims: Vec<u32> = perm.iter().map(|&axis| net.dims(value)[axis]).collect();
                let turn = ViewOp::Transpose { perm: perm.to_vec() };
                net.node(Op::View(turn), &[value], &dims)
            }
            Cut(dims) => net.node(Op::View(ViewOp::Reshape), &[value], dims),
        };
    }
    let value = net.unary(Unary::Sigmoid, value);
    net.output(value);
    (net.graph, draw.tensor(from))
}

fn views(graph: &Graph) -> usize {
    graph.nodes.iter().filter(|n| matches!(n.op, Op::View(_))).count()
}

#[test]
fn several_orders_of_the_same_factors_are_one() {
    // Patches of 2 x 2 are unfolded, and folded again; pixels are shuffled by way of one axis too many; an order is taken back.
    let unfold: &[Step] = &[
        Cut(&[24, 2, 3, 2]),
        Turn(&[0, 2, 1, 3]),
        Cut(&[1, 6, 12, 4]),
        Turn(&[0, 3, 2, 1]),
        Cut(&[4, 12, 6]),
    ];
    let fold: &[Step] = &[
        Cut(&[1, 4, 12, 6]),
        Turn(&[0, 3, 2, 1]),
        Cut(&[24, 3, 2, 2]),
        Turn(&[0, 2, 1, 3]),
        Cut(&[1, 6, 8, 6]),
    ];
    let cases: [(&[u32], &[Step], usize); 5] = [
        (&[1, 6, 8, 6], unfold, 3),
        (&[4, 12, 6], fold, 3),
        (
            &[2, 6, 4],
            &[Cut(&[12, 4]), Turn(&[1, 0]), Cut(&[2, 2, 12]), Turn(&[2, 0, 1]), Cut(&[12, 4])],
            1,
        ),
        (&[2, 6, 4], &[Turn(&[2, 0, 1]), Cut(&[4, 12]), Turn(&[1, 0]), Cut(&[2, 3, 8])], 1),
        (
            &[8, 1, 9],
            &[Cut(&[2, 36]), Turn(&[1, 0]), Cut(&[4, 9, 2, 1]), Turn(&[1, 2, 3, 0]), Cut(&[72])],
            3,
        ),
    ];
    for (number, (from, steps, left)) in cases.into_iter().enumerate() {
        let (graph, input) = chain(from, steps);
        let inputs = [input];
        let expected = evaluate(&graph, &inputs);
        let passed = run(graph, PassSet::REARRANGED).unwrap();
        assert_eq!(views(&passed), left, "case {number}");
        assert_eq!(evaluate(&passed, &inputs), expected, "case {number}");
    }
}

#[test]
fn axes_that_begin_inside_of_others_stay() {
    // Six and four have no factors that make them both; and cut, turn, join is as short as it gets.
    let inside = [Cut(&[4, 6]), Turn(&[1, 0]), Cut(&[4, 6]), Turn(&[1, 0])];
    let short = [Cut(&[2, 3, 4]), Turn(&[1, 0, 2]), Cut(&[6, 4])];
    for (steps, from) in [(&inside[..], [6, 4]), (&short[..], [6, 4])] {
        let (graph, _) = chain(&from, steps);
        let before = views(&graph);
        assert_eq!(views(&run(graph, PassSet::REARRANGED).unwrap()), before);
    }
}
