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
    for (number, side, read) in [(24, 64, false), (7, 128, false), (19, 16, false), (19, 64, true)] {
        let (net, _) = classes(number, side, false, false, read);
        assert_eq!(channels(&run(net.graph, PassSet::CLASSES).unwrap()), number);
    }
}
