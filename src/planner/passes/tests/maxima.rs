//! Maxima of very many elements, in shares.

use super::*;
use crate::primitive::ReduceKind;

#[test]
fn few_maxima_of_very_many_elements_are_taken_in_shares() {
    let cases = [
        ([1, 5, 16384], 2, ReduceKind::Max, 2),
        ([4800, 3, 2], 0, ReduceKind::Max, 2),
        // Few elements, no shares of equal length, too many maxima, and what has an order.
        ([1, 5, 4000], 2, ReduceKind::Max, 1),
        ([1, 5, 5003], 2, ReduceKind::Max, 1),
        ([1, 5000, 4096], 2, ReduceKind::Max, 1),
        ([1, 5, 16384], 2, ReduceKind::Mean, 1),
    ];
    for (dims, axis, kind, count) in cases {
        let (mut net, mut draw) = (Net::default(), Draw::new(6));
        let x = net.input(&dims);
        let mut kept = dims;
        kept[axis] = 1;
        let y = net.node(Op::Primitive(Primitive::Reduce { kind, axes: 1 << axis }), &[x], &kept);
        net.output(y);
        let passed = run(net.graph.clone(), PassSet::MAXIMA).unwrap();
        let reductions = passed
            .nodes
            .iter()
            .filter(|n| matches!(n.op, Op::Primitive(Primitive::Reduce { .. })));
        assert_eq!(reductions.count(), count, "{kind:?} of {dims:?}");
        if count > 1 {
            let inputs = [draw.tensor(&dims)];
            close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-6, "maxima");
        }
    }
}
