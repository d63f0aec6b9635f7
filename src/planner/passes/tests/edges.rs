//! Padding, which becomes concatenations, and what stays padding.

use super::*;

/// Of a picture large enough for launches of its edges.
const LARGE: [u32; 4] = [1, 4, 130, 130];
/// The same of four edges.
const LARGER: [u32; 4] = [1, 32, 130, 130];

/// What is padded, as of a function or of the network itself, by so many elements before and behind along each axis.
fn edges(x: [u32; 4], made: bool, before: [i32; 4], behind: [u32; 4], value: f32) -> (Graph, Tensor) {
    let (mut net, mut draw) = (Net::default(), Draw::new(1));
    let tensor = draw.tensor(&x);
    let x = net.input(&x);
    let x_of = if made { net.unary(Unary::Relu, x) } else { x };
    let mut begin = [0; MAX_RANK];
    begin[..4].copy_from_slice(&before);
    let dims = [0, 1, 2, 3].map(|a| (net.dims(x)[a] as i32 + before[a]) as u32 + behind[a]);
    let mode = PadMode::Constant(Scalar(value));
    let padded = net.node(Op::Primitive(Primitive::Pad { mode, begin }), &[x_of], &dims);
    net.output(padded);
    (net.graph, tensor)
}

#[test]
fn padding_becomes_concatenations() {
    let cases = [
        ([0, 1, 0, 0], [0, 2, 0, 0], 0.0),
        ([0, 0, 3, 0], [0; 4], -2.5),
        ([0; 4], [2, 0, 0, 0], f32::NEG_INFINITY),
        ([0; 4], [0, 0, 1, 3], 1.0),
        ([0, 0, 2, 1], [0, 0, 1, 3], 1.0),
    ];
    for (before, behind, value) in cases {
        let shape = if before[3] > 0 { LARGER } else { LARGE };
        let (graph, input) = edges(shape, true, before, behind, value);
        let inputs = [input];
        let expected = evaluate(&graph, &inputs);
        let passed = run(graph, PassSet::EDGES).unwrap();
        assert!(passed.nodes.iter().all(|n| !matches!(n.op, Op::Primitive(Primitive::Pad { .. }))));
        assert_eq!(evaluate(&passed, &inputs), expected, "{before:?} and {behind:?}");
    }
}

#[test]
fn other_padding_stays() {
    let stays = |(graph, _): (Graph, Tensor)| {
        let passed = run(graph, PassSet::EDGES).unwrap();
        passed.nodes.iter().any(|n| matches!(n.op, Op::Primitive(Primitive::Pad { .. })))
    };
    assert!(stays(edges(LARGE, false, [0, 1, 0, 0], [0; 4], 0.0)), "of an input");
    assert!(
        stays(edges(LARGE, true, [0, 0, 1, 1], [0, 0, 1, 1], 0.0)),
        "of four edges and few elements"
    );
    assert!(stays(edges(LARGER, true, [0, 1, 1, 1], [0, 0, 1, 1], 0.0)), "of five edges");
    assert!(stays(edges(LARGE, true, [0, -1, 0, 0], [0, 2, 0, 0], 0.0)), "cropping");
    assert!(stays(edges([1, 4, 6, 6], true, [0, 1, 0, 0], [0; 4], 0.0)), "of few elements");
}
