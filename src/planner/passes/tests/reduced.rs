//! Reductions of reductions.

use super::*;

/// `inner` along the third axis, without the axis where `squeezed`, and `outer` along what was the last.
fn twice(inner: ReduceKind, outer: ReduceKind, squeezed: bool, also_read: bool) -> Vec<Primitive> {
    let (mut net, mut draw) = (Net::default(), Draw::new(1));
    let x = net.input(&[2, 3, 4, 5]);
    let rows = net.node(Op::Primitive(Primitive::Reduce { kind: inner, axes: 1 << 2 }), &[x], &[2, 3, 1, 5]);
    let y = if squeezed {
        let rows = net.view(ViewOp::Reshape, rows, &[2, 3, 5]);
        net.node(Op::Primitive(Primitive::Reduce { kind: outer, axes: 1 << 2 }), &[rows], &[2, 3, 1])
    } else {
        net.node(
            Op::Primitive(Primitive::Reduce { kind: outer, axes: 1 << 3 }),
            &[rows],
            &[2, 3, 1, 1],
        )
    };
    if also_read {
        net.output(rows);
    }
    let (before, input) = (net.graph.clone(), [draw.tensor(&[2, 3, 4, 5])]);
    let graph = passed(net, y, PassSet::REDUCED);
    let last = graph.outputs.last().cloned().unwrap();
    let mut before = before;
    before.outputs = vec![crate::planner::graph::Named { value: y, ..last.clone() }];
    let mut after = graph.clone();
    after.outputs = vec![last];
    close(&evaluate(&after, &input), &evaluate(&before, &input), 1e-6, "reduced twice");
    let primitive = |n: &Node| match n.op {
        Op::Primitive(p) => Some(p),
        _ => None,
    };
    graph.nodes.iter().filter_map(primitive).collect()
}

#[test]
fn reductions_of_one_kind_along_other_axes_become_one() {
    for kind in [ReduceKind::Mean, ReduceKind::Sum, ReduceKind::Max, ReduceKind::Norm] {
        for squeezed in [false, true] {
            let whole = Primitive::Reduce { kind, axes: 0b1100 };
            assert_eq!(twice(kind, kind, squeezed, false), [whole], "{kind:?} squeezed {squeezed}");
        }
    }
}

#[test]
fn reductions_of_two_kinds_and_those_that_are_read_in_between_stay() {
    assert_eq!(twice(ReduceKind::Max, ReduceKind::Mean, true, false).len(), 2);
    assert_eq!(twice(ReduceKind::Mean, ReduceKind::Sum, false, false).len(), 2);
    assert_eq!(twice(ReduceKind::Mean, ReduceKind::Mean, false, true).len(), 2);
}
