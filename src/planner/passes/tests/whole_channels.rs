//! Pictures of classes, which get channels of zeros behind them.

use super::*;

/// A convolution to so many channels of a square picture, a function of them if `bounded`, and a result; `read` by something else, too.
fn classes(channels: u32, side: u32, transposed: bool, bounded: bool, read: bool) -> (Net, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(2));
    let dims = [1, 4, side, side];
    let x = net.input(&dims);
    let mut y = if transposed {
        let mut window = Window::new(&[2, 2]);
        window.stride[..2].copy_from_slice(&[2, 2]);
        let weights = net.constant(draw.tensor(&[4, channels, 2, 2]));
        let transposed = Primitive::ConvTranspose { window, groups: 1 };
        net.node(Op::Primitive(transposed), &[x, weights], &[1, channels, 2 * side, 2 * side])
    } else {
        net.conv(&mut draw, x, channels, 3, 1, 1, true)
    };
    if bounded {
        y = net.unary(Unary::Sigmoid, y);
    }
    net.output(y);
    if read {
        let more = net.unary(Unary::Relu, y);
        net.output(more);
    }
    (net, vec![draw.tensor(&dims)])
}

fn channels(graph: &Graph) -> u32 {
    let product = |n: &&Node| matches!(n.op, Op::Primitive(Primitive::Conv { .. } | Primitive::ConvTranspose { .. }));
    let product = graph.nodes.iter().find(product).unwrap();
    graph.value(product.outputs[0]).shape.dim(1)
}

#[test]
fn channels_of_a_result_fill_whole_pieces() {
    for (transposed, bounded) in [(false, false), (false, true), (true, false), (true, true)] {
        let (net, inputs) = classes(19, 64, transposed, bounded, false);
        let passed = run(net.graph.clone(), PassSet::CLASSES).unwrap();
        assert_eq!(channels(&passed), 24);
        assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs), "{transposed}, {bounded}");
    }
}

#[test]
fn other_channels_stay() {
    for (number, side, read) in [(24, 64, false), (4, 128, false), (19, 16, false), (19, 64, true)] {
        let (net, _) = classes(number, side, false, false, read);
        assert_eq!(channels(&run(net.graph, PassSet::CLASSES).unwrap()), number);
    }
}

/// The same to a convolution, behind a function with a slope and a shift of each channel, of a picture that something else reads if `read`.
fn between(channels: u32, side: u32, read: bool) -> (Net, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let dims = [1, 4, side, side];
    let x = net.input(&dims);
    let whole = [1, channels, side, side];
    let mut y = net.conv(&mut draw, x, channels, 3, 1, 1, true);
    for kind in [Binary::PRelu, Binary::Mul, Binary::Sub] {
        let each = net.constant(draw.tensor(&[1, channels, 1, 1]));
        let each = net.node(Op::View(ViewOp::Broadcast), &[each], &whole);
        let operands = if kind == Binary::Sub { [each, y] } else { [y, each] };
        y = net.node(Op::Primitive(Primitive::Binary(kind)), &operands, &whole);
    }
    let z = net.conv(&mut draw, y, 3, 3, 1, 1, true);
    net.output(z);
    if read {
        let more = net.unary(Unary::Relu, y);
        net.output(more);
    }
    (net, vec![draw.tensor(&dims)])
}

#[test]
fn channels_between_convolutions_fill_whole_pieces() {
    for (number, side) in [(5, 128), (19, 64), (131, 64)] {
        let (net, inputs) = between(number, side, false);
        let passed = run(net.graph.clone(), PassSet::CLASSES).unwrap();
        assert_eq!(channels(&passed), number.next_multiple_of(8));
        assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs), "{number}");
    }
    let (net, _) = between(19, 64, true);
    assert_eq!(
        channels(&run(net.graph, PassSet::CLASSES).unwrap()),
        19,
        "functions read single elements"
    );
}

#[test]
fn functions_that_make_zeros_infinite_keep_channels_as_they_are() {
    let widened = |function| {
        let (mut net, mut draw) = (Net::default(), Draw::new(3));
        let x = net.input(&[1, 4, 64, 64]);
        let mut y = net.conv(&mut draw, x, 19, 3, 1, 1, true);
        y = net.unary(function, y);
        let z = net.conv(&mut draw, y, 3, 3, 1, 1, true);
        net.output(z);
        channels(&run(net.graph, PassSet::CLASSES).unwrap()) == 24
    };
    assert!(widened(Unary::Exp));
    assert!(!widened(Unary::Log));
    assert!(!widened(Unary::Clip(Scalar(1e5), Scalar(2e5))));
}
