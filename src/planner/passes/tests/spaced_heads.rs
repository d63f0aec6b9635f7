//! Heads that get room behind them.

use super::*;

const TOKENS: u32 = 10;

/// Attention of two heads of so many elements, of what one product makes; its columns are seen as one run of three kinds, or kind by
/// kind. A function reads them where nothing attends.
fn attention(head: u32, by_kind: bool, attends: bool) -> (Net, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(8));
    let columns = 3 * 2 * head;
    let x = net.input(&[1, TOKENS, 24]);
    let weights = net.constant(draw.tensor(&[1, 24, columns]));
    let bias = net.constant(draw.tensor(&[columns]));
    let bias = net.view(ViewOp::Broadcast, bias, &[1, TOKENS, columns]);
    let made = net.node(Op::Primitive(Primitive::MatMul), &[x, weights, bias], &[1, TOKENS, columns]);
    let kind = |net: &mut Net, kind: u32| {
        let heads = [1, TOKENS, 2, head];
        let seen = if by_kind {
            let own = net.node(
                Op::View(ViewOp::band(3, 2, i64::from(kind * 2 * head))),
                &[made],
                &[1, TOKENS, 2 * head],
            );
            net.view(ViewOp::Reshape, own, &heads)
        } else {
            let all = net.view(ViewOp::Reshape, made, &[1, TOKENS, 3, 2, head]);
            let own = net.node(Op::View(ViewOp::band(5, 2, i64::from(kind))), &[all], &[1, TOKENS, 1, 2, head]);
            net.view(ViewOp::Reshape, own, &heads)
        };
        net.transpose(seen, &[0, 2, 1, 3])
    };
    let [q, k, v] = [0, 1, 2].map(|number| kind(&mut net, number));
    let y = if attends {
        let k = net.transpose(k, &[0, 1, 3, 2]);
        let attention = Primitive::Attention { scale: Scalar(0.25) };
        net.node(Op::Primitive(attention), &[q, k, v], &[1, 2, TOKENS, head])
    } else {
        let sum = net.binary(Binary::Add, q, k);
        net.binary(Binary::Mul, sum, v)
    };
    net.output(y);
    (net, vec![draw.tensor(&[1, TOKENS, 24])])
}

fn columns(graph: &Graph) -> u32 {
    let product = graph.nodes.iter().find(|n| n.op == Op::Primitive(Primitive::MatMul)).unwrap();
    graph.value(product.outputs[0]).shape.dim(2)
}

#[test]
fn heads_between_pieces_get_room_behind_them() {
    for (head, pitch) in [(12, 16), (36, 40), (60, 64), (19, 24)] {
        for by_kind in [false, true] {
            let (net, inputs) = attention(head, by_kind, true);
            let passed = run(net.graph.clone(), PassSet::SPACED_HEADS).unwrap();
            assert_eq!(columns(&passed), 6 * pitch, "{head}");
            assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs), "{head}");
        }
    }
}

#[test]
fn other_heads_stay_as_they_are() {
    for (head, attends) in [(16, true), (64, true), (6, true), (132, true), (36, false)] {
        let (net, _) = attention(head, true, attends);
        assert_eq!(columns(&run(net.graph, PassSet::SPACED_HEADS).unwrap()), 6 * head);
    }
}
