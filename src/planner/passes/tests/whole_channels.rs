//! Pictures whose channels fill no whole pieces, and get channels of zeros behind them.

use super::*;
use crate::primitive::{Coordinates, Resize, ResizeMode};

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
        let passed = run(net.graph.clone(), PassSet::WHOLE_CHANNELS).unwrap();
        assert_eq!(channels(&passed), 24);
        assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs), "{transposed}, {bounded}");
    }
}

#[test]
fn other_channels_stay() {
    for (number, side, read) in [(24, 64, false), (4, 128, false), (19, 12, false), (19, 64, true)] {
        let (net, _) = classes(number, side, false, false, read);
        assert_eq!(channels(&run(net.graph, PassSet::WHOLE_CHANNELS).unwrap()), number);
    }
}

/// The same to a convolution, behind a function with a slope and a shift of each channel, of a picture that what knows no channels of zeros reads,
/// too, if `read`.
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
        let more = net.unary(Unary::Log, y);
        net.output(more);
    }
    (net, vec![draw.tensor(&dims)])
}

#[test]
fn channels_between_convolutions_fill_whole_pieces() {
    for (number, side) in [(5, 128), (19, 64), (131, 64)] {
        let (net, inputs) = between(number, side, false);
        let passed = run(net.graph.clone(), PassSet::WHOLE_CHANNELS).unwrap();
        assert_eq!(channels(&passed), number.next_multiple_of(8));
        assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs), "{number}");
    }
    let (net, _) = between(19, 64, true);
    assert_eq!(
        channels(&run(net.graph, PassSet::WHOLE_CHANNELS).unwrap()),
        19,
        "of zeros a logarithm makes infinities"
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
        channels(&run(net.graph, PassSet::WHOLE_CHANNELS).unwrap()) == 24
    };
    assert!(widened(Unary::Exp));
    assert!(!widened(Unary::Log));
    assert!(!widened(Unary::Sqrt));
    assert!(!widened(Unary::Clip(Scalar(1e5), Scalar(2e5))));
}

/// A block as networks for phones have it, of so many channels inside: expanded, convolved channel by channel, gated by what their means
/// give, summed up with themselves and brought back.
fn block(channels: u32, side: u32) -> (Net, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(4));
    let dims = [1, 4, side, side];
    let x = net.input(&dims);
    let whole = [1, channels, side, side];
    let wide = net.conv(&mut draw, x, channels, 1, 1, 1, true);
    let wide = net.unary(Unary::Silu, wide);
    let own = net.conv(&mut draw, wide, channels, 3, 1, channels, true);
    let mean = Primitive::Reduce {
        kind: ReduceKind::Mean,
        axes: 0b1100,
    };
    let means = net.node(Op::Primitive(mean), &[own], &[1, channels, 1, 1]);
    let few = net.conv(&mut draw, means, 6, 1, 1, 1, true);
    let few = net.unary(Unary::Relu, few);
    let gate = net.conv(&mut draw, few, channels, 1, 1, 1, true);
    let gate = net.unary(Unary::Sigmoid, gate);
    let gate = net.node(Op::View(ViewOp::Broadcast), &[gate], &whole);
    let gated = net.binary(Binary::Mul, own, gate);
    let sum = net.binary(Binary::Add, gated, wide);
    let y = net.conv(&mut draw, sum, 4, 1, 1, 1, true);
    net.output(y);
    (net, vec![draw.tensor(&dims)])
}

/// The channels of all pictures that are no views, each number once.
fn all_channels(graph: &Graph) -> Vec<u32> {
    let made = graph.nodes.iter().filter(|n| matches!(n.op, Op::Primitive(_)));
    let mut all: Vec<u32> = made.map(|n| graph.value(n.outputs[0]).shape.dim(1)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn channels_fill_whole_pieces_from_convolution_to_convolution() {
    for (channels, side) in [(19, 64), (162, 24), (27, 56)] {
        let (net, inputs) = block(channels, side);
        let passed = run(net.graph.clone(), PassSet::WHOLE_CHANNELS).unwrap();
        // What the squeeze has inside is small.
        assert_eq!(all_channels(&passed), [4, 6, channels.next_multiple_of(8)]);
        assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs), "{channels}");
    }
    let (net, _) = block(19, 12);
    assert_eq!(
        all_channels(&run(net.graph, PassSet::WHOLE_CHANNELS).unwrap()),
        [4, 6, 19],
        "too small"
    );
}

#[test]
fn regions_end_where_channels_are_not_known() {
    // A sum with an input, which has no channels of zeros; a quotient of two pictures, whose zeros would be none.
    for divided in [false, true] {
        let (mut net, mut draw) = (Net::default(), Draw::new(5));
        let dims = [1, 19, 64, 64];
        let x = net.input(&dims);
        let a = net.conv(&mut draw, x, 19, 3, 1, 1, true);
        let a = net.unary(Unary::Exp, a);
        let b = if divided { net.conv(&mut draw, x, 19, 1, 1, 1, true) } else { x };
        let kind = if divided { Binary::Div } else { Binary::Add };
        let joined = net.binary(kind, b, a);
        let y = net.conv(&mut draw, joined, 4, 1, 1, 1, true);
        net.output(y);
        let inputs = vec![draw.tensor(&dims)];
        let passed = run(net.graph.clone(), PassSet::WHOLE_CHANNELS).unwrap();
        assert_eq!(all_channels(&passed), [4, 19]);
        assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs));
    }
}

#[test]
fn results_behind_a_window_keep_their_channels() {
    let mut scales = [Scalar(1.0); MAX_RANK];
    scales[2..4].copy_from_slice(&[Scalar(2.0); 2]);
    let resize = Primitive::Resize(Resize {
        mode: ResizeMode::Linear { antialias: false },
        coordinates: Coordinates::HalfPixel,
        scales,
    });
    for read in [false, true] {
        let (mut net, mut draw) = (Net::default(), Draw::new(7));
        let dims = [1, 4, 64, 64];
        let x = net.input(&dims);
        let a = net.conv(&mut draw, x, 19, 3, 1, 1, true);
        let large = net.node(Op::Primitive(resize), &[a], &[1, 19, 128, 128]);
        let large = net.unary(Unary::Sigmoid, large);
        let y = if read {
            net.conv(&mut draw, large, 4, 1, 1, 1, true)
        } else {
            large
        };
        net.output(y);
        let inputs = vec![draw.tensor(&dims)];
        let passed = run(net.graph.clone(), PassSet::WHOLE_CHANNELS).unwrap();
        let expected: &[u32] = if read { &[4, 24] } else { &[19, 24] };
        assert_eq!(all_channels(&passed), expected);
        assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs));
    }
}

#[test]
fn quotients_by_constants_are_by_one_in_channels_of_zeros() {
    let (mut net, mut draw) = (Net::default(), Draw::new(6));
    let dims = [1, 4, 64, 64];
    let x = net.input(&dims);
    let a = net.conv(&mut draw, x, 19, 3, 1, 1, true);
    let by = (0..19).map(|channel| [2.0, -4.0, 0.5][channel % 3]).collect();
    let by = net.constant(Tensor::new(Shape::new(&[1, 19, 1, 1]).unwrap(), Data::F32(by)).unwrap());
    let by = net.node(Op::View(ViewOp::Broadcast), &[by], &[1, 19, 64, 64]);
    let a = net.binary(Binary::Div, a, by);
    let y = net.conv(&mut draw, a, 4, 1, 1, 1, true);
    net.output(y);
    let inputs = vec![draw.tensor(&dims)];
    let passed = run(net.graph.clone(), PassSet::WHOLE_CHANNELS).unwrap();
    assert_eq!(all_channels(&passed), [4, 24]);
    let found = evaluate(&passed, &inputs);
    assert_eq!(found, evaluate(&net.graph, &inputs));
}
