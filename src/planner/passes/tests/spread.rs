//! Functions behind concatenations, and functions that several operators read.

use super::*;

fn functions(graph: &Graph) -> usize {
    let function = |n: &&Node| matches!(n.op, Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)));
    graph.nodes.iter().filter(function).count()
}

/// Corners of boxes from distances, their centres and sizes, joined and scaled by what varies along `axis`, as detectors spell it.
fn boxes(count: u32, axis: usize) -> (Net, ValueId) {
    let (mut net, mut draw) = (Net::default(), Draw::new(2));
    let x = net.input(&[1, 4, count]);
    let [near, far] = [0, 2].map(|first| net.view(ViewOp::band(3, 1, first), x, &[1, 2, count]));
    let anchors = net.constant(draw.tensor(&[1, 2, count]));
    let low = net.binary(Binary::Sub, anchors, near);
    let high = net.binary(Binary::Add, anchors, far);
    let sum = net.binary(Binary::Add, low, high);
    let half = scalar(&mut net, 0.5);
    let centre = net.binary(Binary::Mul, sum, half);
    let size = net.binary(Binary::Sub, high, low);
    let joined = net.concat(1, &[centre, size]);
    let mut dims = [1, 1, 1];
    dims[axis] = [1, 4, count][axis];
    let scale = net.constant(draw.tensor(&dims));
    let y = net.binary(Binary::Mul, joined, scale);
    (net, y)
}

#[test]
fn each_part_of_a_box_is_functions_of_its_own() {
    for axis in [1, 2] {
        let (mut net, y) = boxes(30, axis);
        net.output(y);
        let passed = run(net.graph.clone(), PassSet::SPREAD).unwrap();
        // Centres: two corners, their sum, its half, the scale; sizes: two corners, their difference, the scale.
        assert_eq!((functions(&net.graph), functions(&passed)), (6, 9));
        assert!(passed.nodes.iter().any(|n| matches!(n.op, Op::Concat { .. }) && n.outputs[0] == y));
        let inputs = [Draw::new(7).tensor(&[1, 4, 30])];
        assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs));
    }
}

#[test]
fn functions_of_many_elements_are_computed_once() {
    let (mut net, y) = boxes(70_000, 2);
    net.output(y);
    let passed = run(net.graph.clone(), PassSet::SPREAD).unwrap();
    assert_eq!(functions(&passed), 7, "the scale of each part is all that is added");
}

#[test]
fn functions_that_meet_in_one_operator_are_computed_once() {
    let mut net = Net::default();
    let x = net.input(&[2, 8]);
    let y = net.unary(Unary::Exp, x);
    let (a, b) = (net.unary(Unary::Neg, y), net.unary(Unary::Sqrt, y));
    let y = net.binary(Binary::Add, a, b);
    net.output(y);
    let passed = run(net.graph.clone(), PassSet::SPREAD).unwrap();
    assert_eq!(functions(&passed), functions(&net.graph));
}

/// Scores of two maps, one of them convolved, the other so or as it comes, as rows, and a function of both.
fn scores(convolved: [bool; 2], function: Unary) -> (Net, Vec<Vec<u32>>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(8));
    let mut dims = Vec::new();
    let rows = [(4, convolved[0]), (3, convolved[1])].map(|(side, convolved)| {
        dims.push(vec![2, 3, side, side]);
        let x = net.input(&[2, 3, side, side]);
        let y = if convolved { net.conv(&mut draw, x, 3, 1, 1, 1, true) } else { x };
        net.view(ViewOp::Reshape, y, &[2, 3, side * side])
    });
    let all = net.concat(2, &rows);
    let y = net.unary(function, all);
    net.output(y);
    (net, dims)
}

#[test]
fn scores_of_convolutions_have_their_function_each() {
    let (net, dims) = scores([true, true], Unary::Sigmoid);
    let passed = run(net.graph.clone(), PassSet::SPREAD).unwrap();
    assert_eq!(functions(&passed), 2);
    let mut draw = Draw::new(1);
    let inputs: Vec<_> = dims.iter().map(|d| draw.tensor(d)).collect();
    assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs));
    // What no convolution makes would be a launch of its own, and so would a function that their kernels have no path for.
    for (convolved, function) in [([true, false], Unary::Sigmoid), ([true, true], Unary::Erf)] {
        let (net, _) = scores(convolved, function);
        let passed = run(net.graph.clone(), PassSet::SPREAD).unwrap();
        assert_eq!(functions(&passed), 1, "{convolved:?} {function:?}");
    }
}
