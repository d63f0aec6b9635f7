//! What is written anew for GPUs' tensor cores: convolutions in groups, and of windows side by side.

use super::nets::{Draw, Net};
use super::oracle::evaluate;
use crate::plan::tactic::Target;
use crate::planner::graph::{Graph, Op};
use crate::planner::passes::{self, PassSet};
use crate::primitive::{Primitive, Window};
use crate::tensor::{DType, Tensor};

fn convolutions(graph: &Graph) -> Vec<u32> {
    let groups = |op: &Op| match op {
        Op::Primitive(Primitive::Conv { groups, .. }) => Some(*groups),
        _ => None,
    };
    graph.nodes.iter().filter_map(|n| groups(&n.op)).collect()
}

fn near(found: &[Tensor], expected: &[Tensor], tolerance: f32) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.shape(), expected.shape());
        let pairs = found.as_f32().unwrap().iter().zip(expected.as_f32().unwrap());
        for (f, e) in pairs {
            assert!((f - e).abs() <= tolerance * e.abs().max(1.0), "{f} instead of {e}");
        }
    }
}

#[test]
fn groups_are_joined_with_zeros_between_them() {
    // Channels in and out, groups, batch, side, and the convolutions that are left: one of all groups where it is small, blocks of at
    // least 64 channels where it is large, and depthwise ones as they are.
    let cases = [
        (24, 36, 3, 2, 7, vec![1]),
        (16, 32, 16, 1, 5, vec![1]),
        (256, 256, 4, 1, 64, vec![1, 1]),
        (16, 16, 16, 1, 5, vec![16]),
    ];
    for (inputs, outputs, groups, batch, side, left) in cases {
        let (mut net, mut draw) = (Net::default(), Draw::new(u64::from(inputs + groups)));
        let x = net.input(&[batch, inputs, side, side]);
        let y = net.conv(&mut draw, x, outputs, 3, 1, groups, true);
        net.output(y);
        let written = passes::run(net.graph.clone(), PassSet::GROUPED).unwrap();
        assert_eq!(convolutions(&written), left, "{groups} groups");
        // The large one is compared by its form alone: node by node it takes too long.
        if side < 64 {
            let data = [draw.tensor(&[batch, inputs, side, side])];
            near(&evaluate(&written, &data), &evaluate(&net.graph, &data), 0.0);
        }
    }
}

#[test]
fn patches_become_rows_of_a_matrix() {
    for bias in [false, true] {
        let (mut net, mut draw) = (Net::default(), Draw::new(3));
        let x = net.input(&[2, 3, 16, 24]);
        let mut window = Window::new(&[8, 8]);
        window.stride = [8, 8, 1];
        let mut inputs = vec![x, net.constant(draw.tensor(&[10, 3, 8, 8]))];
        if bias {
            inputs.push(net.constant(draw.tensor(&[10])));
        }
        let y = net.node(Op::Primitive(Primitive::Conv { window, groups: 1 }), &inputs, &[2, 10, 2, 3]);
        net.output(y);
        let written = passes::run(net.graph.clone(), PassSet::PATCHES).unwrap();
        assert!(convolutions(&written).is_empty());
        let data = [draw.tensor(&[2, 3, 16, 24])];
        near(&evaluate(&written, &data), &evaluate(&net.graph, &data), 1e-5);
    }
}

#[test]
fn only_halves_on_gpus_are_written_so() {
    let both = PassSet::GROUPED.with(PassSet::PATCHES);
    for target in Target::ALL {
        let set = PassSet::ALL.on(target);
        assert_eq!(set.in_type(DType::F16).has(both), target != Target::Cpu);
        assert!(!set.in_type(DType::F32).has(PassSet::GROUPED) && !set.in_type(DType::F32).has(PassSet::PATCHES));
    }
}
