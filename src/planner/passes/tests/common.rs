//! Channels that are the same at all places.

use super::*;
use crate::primitive::{Coordinates, Resize, ResizeMode};

/// One vector of `common` channels repeated beside a picture, convolved by single pixels or windows of `kernel`.
fn net(order: [bool; 2], kernel: u32, side: u32, repeats: bool) -> (Net, [Vec<u32>; 2]) {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let dims = [vec![2, 3, side, 9], if repeats { vec![2, 5, 1, 1] } else { vec![2, 5, side, 9] }];
    let (picture, vector) = (net.input(&dims[0]), net.input(&dims[1]));
    let everywhere = net.view(ViewOp::Broadcast, vector, &[2, 5, side, 9]);
    let parts = order.map(|first| if first { everywhere } else { picture });
    let joined = net.concat(1, &parts);
    let y = net.conv(&mut draw, joined, 4, kernel, 1, 1, true);
    net.output(y);
    (net, dims)
}

fn convolutions(graph: &Graph) -> Vec<Vec<u32>> {
    let convolves = |n: &&Node| matches!(n.op, Op::Primitive(Primitive::Conv { .. }));
    let read = |n: &Node| graph.value(n.inputs[0]).shape.dims().to_vec();
    graph.nodes.iter().filter(convolves).map(read).collect()
}

#[test]
fn a_repeated_vector_is_multiplied_once() {
    for order in [[true, false], [false, true]] {
        let (net, dims) = net(order, 1, 8, true);
        let passed = run(net.graph.clone(), PassSet::COMMON).unwrap();
        assert_eq!(convolutions(&passed), [vec![2, 3, 8, 9], vec![2, 5, 1, 1]]);
        assert!(!passed.nodes.iter().any(|n| matches!(n.op, Op::Concat { .. })));
        let mut draw = Draw::new(3);
        let inputs = dims.map(|d| draw.tensor(&d));
        close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "a vector apart");
    }
}

#[test]
fn a_place_that_is_resized_is_repeated() {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let (picture, pooled) = (net.input(&[1, 3, 8, 9]), net.input(&[1, 5, 1, 1]));
    let mut scales = [Scalar(1.0); MAX_RANK];
    (scales[2], scales[3]) = (Scalar(8.0), Scalar(9.0));
    let resize = Resize {
        mode: ResizeMode::Linear { antialias: false },
        coordinates: Coordinates::HalfPixel,
        scales,
    };
    let everywhere = net.node(Op::Primitive(Primitive::Resize(resize)), &[pooled], &[1, 5, 8, 9]);
    let joined = net.concat(1, &[picture, everywhere]);
    let y = net.conv(&mut draw, joined, 4, 1, 1, 1, false);
    net.output(y);
    let passed = run(net.graph.clone(), PassSet::COMMON).unwrap();
    assert_eq!(convolutions(&passed), [[1, 3, 8, 9], [1, 5, 1, 1]]);
    let inputs = [draw.tensor(&[1, 3, 8, 9]), draw.tensor(&[1, 5, 1, 1])];
    close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "a pooled branch");
}

#[test]
fn a_small_share_stays_where_it_is() {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let (picture, vector) = (net.input(&[1, 5, 8, 9]), net.input(&[1, 4, 1, 1]));
    let everywhere = net.view(ViewOp::Broadcast, vector, &[1, 4, 8, 9]);
    let joined = net.concat(1, &[picture, everywhere]);
    let y = net.conv(&mut draw, joined, 4, 1, 1, 1, false);
    net.output(y);
    assert_eq!(convolutions(&run(net.graph, PassSet::COMMON).unwrap()), [[1, 9, 8, 9]]);
}

#[test]
fn what_differs_from_place_to_place_stays_together() {
    // Windows of several pixels see the picture's edge, few places are no more than a launch, and one convolution needs a picture.
    for (order, kernel, side, repeats) in [
        ([true, false], 3, 8, true),
        ([true, false], 1, 7, true),
        ([true, false], 1, 8, false),
        ([true, true], 1, 8, true),
    ] {
        let (net, _) = net(order, kernel, side, repeats);
        let passed = run(net.graph.clone(), PassSet::COMMON).unwrap();
        assert_eq!(convolutions(&passed).len(), 1, "{order:?} {kernel} {side} {repeats}");
    }
}
