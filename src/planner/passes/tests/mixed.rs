//! Depthwise convolutions by windows of several sizes, which become one where shares of channels begin between whole pieces.

use super::*;

/// Shares of a picture's channels under square windows around each pixel, joined.
fn mixed(shares: &[(u32, u32)]) -> (Graph, Tensor) {
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let channels: u32 = shares.iter().map(|s| s.0).sum();
    let x = net.input(&[2, channels + 8, 9, 7]);
    let picture = net.unary(Unary::Relu, x);
    let (mut start, mut parts) = (8, Vec::new());
    for &(count, taps) in shares {
        let view = ViewOp::band(4, 1, start);
        let share = net.node(Op::View(view), &[picture], &[2, count, 9, 7]);
        parts.push(net.conv(&mut draw, share, count, taps, 1, count, true));
        start += i64::from(count);
    }
    let joined = net.node(Op::Concat { axis: 1 }, &parts, &[2, channels, 9, 7]);
    net.output(joined);
    (net.graph, draw.tensor(&[2, channels + 8, 9, 7]))
}

fn convolutions(graph: &Graph) -> Vec<(Window, u32)> {
    let conv = |n: &Node| match n.op {
        Op::Primitive(Primitive::Conv { window, groups }) => Some((window, groups)),
        _ => None,
    };
    graph.nodes.iter().filter_map(conv).collect()
}

#[test]
fn windows_of_several_sizes_become_the_largest() {
    for shares in [&[(3, 3), (5, 5), (4, 7)][..], &[(6, 7), (6, 3)]] {
        let (graph, input) = mixed(shares);
        let inputs = [input];
        let expected = evaluate(&graph, &inputs);
        let passed = run(graph, PassSet::MIXED).unwrap();
        let all: u32 = shares.iter().map(|s| s.0).sum();
        let [(window, groups)] = convolutions(&passed)[..] else {
            panic!("one convolution is left")
        };
        assert_eq!((window.kernel, groups), ([7, 7, 1], all));
        close(&evaluate(&passed, &inputs), &expected, 1e-6, "mixed");
    }
}

#[test]
fn others_stay_apart() {
    let left = |shares: &[(u32, u32)]| convolutions(&run(mixed(shares).0, PassSet::MIXED).unwrap()).len();
    assert_eq!(left(&[(8, 3), (16, 5)]), 2, "shares of whole pieces");
    assert_eq!(left(&[(6, 3), (6, 9)]), 2, "large windows");
    assert_eq!(left(&[(60, 3), (4, 7)]), 2, "where taps of zeros cost too much");
}
