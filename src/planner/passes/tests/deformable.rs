//! Samples that are weighed and added, as sums of samples.

use super::*;
use crate::primitive::{Binary, Outside, Places, ReduceKind, Sample, Sampling};

/// How the samples of the levels come together.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Together {
    /// There is one level.
    One,
    /// Side by side.
    Abreast,
    /// On an axis of their own, which is flattened.
    Stacked,
}

/// Deformable attention of 2 heads of 3 channels, 5 queries and 4 points a level; with `again` the samples are read once more.
fn attention(together: Together, again: bool) -> (Net, Vec<Vec<u32>>) {
    let mut net = Net::default();
    let sizes: &[[u32; 2]] = if together == Together::One {
        &[[6, 7]]
    } else {
        &[[6, 7], [3, 4], [2, 2]]
    };
    let all = 4 * sizes.len() as u32;
    let mut inputs: Vec<Vec<u32>> = Vec::new();
    let mut parts = Vec::new();
    for &[high, wide] in sizes {
        let dims = [2, 3, high, wide];
        let (x, grid) = (net.input(&dims), net.input(&[2, 5, 4, 2]));
        inputs.extend([dims.to_vec(), vec![2, 5, 4, 2]]);
        let sample = Sample {
            sampling: Sampling::Linear,
            outside: Outside::Zero,
            places: Places::Grid { align_corners: false },
        };
        let sampled = net.node(Op::Primitive(Primitive::Sample(sample)), &[x, grid], &[2, 3, 5, 4]);
        parts.push(match together {
            Together::Stacked => net.node(Op::View(ViewOp::Reshape), &[sampled], &[2, 3, 5, 1, 4]),
            _ => sampled,
        });
    }
    let levels = sizes.len() as u32;
    let samples = match together {
        Together::One => parts[0],
        Together::Abreast => net.node(Op::Concat { axis: 3 }, &parts, &[2, 3, 5, all]),
        Together::Stacked => {
            let stacked = net.node(Op::Concat { axis: 3 }, &parts, &[2, 3, 5, levels, 4]);
            net.node(Op::View(ViewOp::Reshape), &[stacked], &[2, 3, 5, all])
        }
    };
    let factors = net.input(&[2, 1, 5, all]);
    inputs.push(vec![2, 1, 5, all]);
    let repeated = net.node(Op::View(ViewOp::Broadcast), &[factors], &[2, 3, 5, all]);
    let weighed = net.node(Op::Primitive(Primitive::Binary(Binary::Mul)), &[samples, repeated], &[2, 3, 5, all]);
    let sum = Primitive::Reduce {
        kind: ReduceKind::Sum,
        axes: 1 << 3,
    };
    let y = net.node(Op::Primitive(sum), &[weighed], &[2, 3, 5, 1]);
    net.output(y);
    if again {
        net.output(samples);
    }
    (net, inputs)
}

#[test]
fn weighed_samples_are_sums_of_samples() {
    for together in [Together::One, Together::Abreast, Together::Stacked] {
        let (net, dims) = attention(together, false);
        let passed = run(net.graph.clone(), PassSet::DEFORMABLE).unwrap();
        let mut draw = Draw::new(5);
        let inputs: Vec<_> = dims.iter().map(|d| draw.tensor(d)).collect();
        close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "sums of samples");
        let computes = |n: &&Node| matches!(n.op, Op::Primitive(_) | Op::Concat { .. });
        let levels = if together == Together::One { 1 } else { 3 };
        assert_eq!(passed.nodes.iter().filter(computes).count(), levels, "{together:?}");
        let (net, _) = attention(together, true);
        let passed = run(net.graph.clone(), PassSet::DEFORMABLE).unwrap();
        assert_eq!(passed.nodes.len(), net.graph.nodes.len(), "samples that others read stay");
    }
}
