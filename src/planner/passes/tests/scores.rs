//! Attention whose windows are an axis of their own.

use super::*;

/// Queries, keys and values of two heads in three windows, scores with the windows' axis in front, positions added there, and a product
/// of the shares; `along` is the axis of the softmax.
fn windows(along: u8, positions: &[u32], also_read: bool) -> (Net, Draw) {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let parts = [(); 3].map(|()| net.input(&[3, 2, 8, 4]));
    let keys = net.transpose(parts[1], &[0, 1, 3, 2]);
    let scores = net.node(Op::Primitive(Primitive::MatMul), &[parts[0], keys], &[3, 2, 8, 8]);
    let apart = net.view(ViewOp::Reshape, scores, &[1, 3, 2, 8, 8]);
    let added = net.constant(draw.tensor(positions));
    let masked = net.binary(Binary::Add, apart, added);
    let shares = net.same(Primitive::Softmax { axis: along }, &[masked]);
    if also_read {
        net.output(masked);
    }
    let shares = net.view(ViewOp::Reshape, shares, &[3, 2, 8, 8]);
    let y = net.node(Op::Primitive(Primitive::MatMul), &[shares, parts[2]], &[3, 2, 8, 4]);
    net.output(y);
    (net, draw)
}

/// The primitives left, the results held against those before.
fn left((net, mut draw): (Net, Draw)) -> Vec<Primitive> {
    let graph = run(net.graph.clone(), PassSet::LONG_ATTENTION).unwrap();
    let inputs = [(); 3].map(|()| draw.tensor(&[3, 2, 8, 4]));
    close(&evaluate(&graph, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "windows");
    let primitive = |n: &Node| match n.op {
        Op::Primitive(p) => Some(p),
        _ => None,
    };
    graph.nodes.iter().filter_map(primitive).collect()
}

#[test]
fn positions_of_windows_are_attentions_mask() {
    let attention = Primitive::Attention { scale: Scalar(1.0) };
    assert_eq!(left(windows(4, &[1, 1, 2, 8, 8], false)), [attention], "of heads");
    assert_eq!(left(windows(4, &[1, 3, 2, 8, 8], false)), [attention], "of windows and heads");
}

#[test]
fn scores_that_somebody_else_reads_or_that_are_shared_along_another_axis_stay() {
    assert_eq!(left(windows(4, &[1, 1, 2, 8, 8], true)).len(), 4);
    assert_eq!(left(windows(3, &[1, 1, 2, 8, 8], false)).len(), 4);
}

/// A product by constant weights, with a bias or not, times a factor for each matrix, and shares of that.
fn tempered(bias: bool) -> (Net, Draw) {
    let (mut net, mut draw) = (Net::default(), Draw::new(9));
    let x = net.input(&[1, 4, 6, 8]);
    let mut operands = vec![x, net.constant(draw.tensor(&[1, 4, 8, 6]))];
    if bias {
        let bias = net.constant(draw.tensor(&[6]));
        operands.push(net.view(ViewOp::Broadcast, bias, &[1, 4, 6, 6]));
    }
    let scores = net.node(Op::Primitive(Primitive::MatMul), &operands, &[1, 4, 6, 6]);
    let factors = net.constant(draw.tensor(&[4, 1, 1]));
    let scaled = net.binary(Binary::Mul, scores, factors);
    let shares = net.same(Primitive::Softmax { axis: 3 }, &[scaled]);
    net.output(shares);
    (net, draw)
}

#[test]
fn temperatures_move_to_queries_of_products_without_a_bias_alone() {
    for bias in [false, true] {
        let (net, mut draw) = tempered(bias);
        let graph = run(net.graph.clone(), PassSet::LONG_ATTENTION).unwrap();
        let inputs = [draw.tensor(&[1, 4, 6, 8])];
        close(&evaluate(&graph, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "temperatures");
        let last = graph.nodes.iter().rposition(|n| n.op == Op::Primitive(Primitive::MatMul)).unwrap();
        let behind = graph.nodes[last..]
            .iter()
            .any(|n| n.op == Op::Primitive(Primitive::Binary(Binary::Mul)));
        assert_eq!(behind, bias, "scores are multiplied");
    }
}
