//! Averages of windows that lie side by side, as means.

use super::*;
use crate::primitive::{PoolKind, ReduceKind};

#[test]
fn large_windows_side_by_side_are_means() {
    let cases = [
        ([32, 48], [16, 24], [16, 24], 0, true),
        ([12, 13], [12, 13], [12, 13], 0, true),
        // Windows that overlap, leave pixels over, lie over the edge, or have few pixels.
        ([32, 48], [16, 24], [8, 24], 0, false),
        ([33, 48], [16, 24], [16, 24], 0, false),
        ([30, 46], [16, 24], [16, 24], 1, false),
        ([32, 48], [8, 12], [8, 12], 0, false),
    ];
    for (size, kernel, stride, pad, mean) in cases {
        let (mut net, mut draw) = (Net::default(), Draw::new(3));
        let dims = [2, 5, size[0], size[1]];
        let x = net.input(&dims);
        let mut window = Window::new(&kernel);
        window.stride = [stride[0], stride[1], 1];
        (window.pad_begin, window.pad_end) = ([pad, pad, 0], [pad, pad, 0]);
        let extents = [0, 1].map(|axis| window.output(axis, dims[axis + 2]).unwrap());
        let kind = PoolKind::Average { count_pad: true };
        let pool = Op::Primitive(Primitive::Pool { kind, window });
        let y = net.node(pool, &[x], &[2, 5, extents[0], extents[1]]);
        net.output(y);
        let passed = run(net.graph.clone(), PassSet::AVERAGES).unwrap();
        let inputs = [draw.tensor(&dims)];
        close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "means");
        let means = |n: &Node| {
            matches!(
                n.op,
                Op::Primitive(Primitive::Reduce {
                    kind: ReduceKind::Mean,
                    ..
                })
            )
        };
        assert_eq!(passed.nodes.iter().any(means), mean, "{size:?} by {kernel:?}");
    }
}
