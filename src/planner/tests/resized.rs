//! Pictures of classes that a resize makes larger and a copy turns into planes: where both are one operator, and that its bits are those of
//! two.

use super::nets::{Draw, Net};
use super::oracle::{compile, run, same_bits};
use crate::plan::format::{Kernel, Plan};
use crate::plan::tactic::{Target, menu};
use crate::planner::graph::{Graph, Op};
use crate::planner::passes::PassSet;
use crate::planner::{CompileOptions, Ports};
use crate::primitive::{Coordinates, Primitive, Resize, ResizeMode, Scalar};
use crate::tensor::{DType, Data, Tensor};

/// A convolution whose results a resize makes `times` as large.
fn network(mode: ResizeMode, times: u32) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(11));
    let x = net.input(&[2, 16, 6, 7]);
    let y = net.conv(&mut draw, x, 21, 1, 1, 1, true);
    let mut scales = [Scalar(1.0); 6];
    (scales[2], scales[3]) = (Scalar(times as f32), Scalar(times as f32));
    let coordinates = Coordinates::HalfPixel;
    let resize = Resize { mode, coordinates, scales };
    let z = net.node(Op::Primitive(Primitive::Resize(resize)), &[y], &[2, 21, 6 * times, 7 * times]);
    net.output(z);
    (net.graph, vec![draw.tensor(&[2, 16, 6, 7])])
}

fn halves(x: &Tensor) -> Tensor {
    let elements = x.as_f32().unwrap().iter().map(|&v| half::f16::from_f32(v)).collect();
    Tensor::new(x.shape(), Data::F16(elements)).unwrap()
}

fn joined(plan: &Plan) -> Vec<usize> {
    let resizes = |p: &Primitive| matches!(p, Primitive::Resize(_));
    let both = |i: &usize| plan.operators[*i].calls.len() == 2 && resizes(&plan.operators[*i].calls[0].primitive);
    (0..plan.operators.len()).filter(both).collect()
}

#[test]
fn a_resize_of_halves_stores_the_planes_that_a_copy_would() {
    let linear = ResizeMode::Linear { antialias: false };
    let (graph, inputs) = network(linear, 8);
    let with = |graph: &Graph, dtype, passes, ports| {
        let options = CompileOptions {
            dtype,
            passes,
            ports,
            ..CompileOptions::default()
        };
        compile(std::slice::from_ref(graph), &options)
    };
    for ports in [Ports::Declared, Ports::Half] {
        let together = with(&graph, DType::F16, PassSet::ALL, ports);
        let apart = with(&graph, DType::F16, PassSet::ALL.without(PassSet::GROUP), ports);
        let found = joined(&together.plan);
        assert_eq!((found.len(), joined(&apart.plan).len()), (1, 0), "{ports:?}");
        let inputs: Vec<Tensor> = inputs
            .iter()
            .map(|x| if ports == Ports::Half { halves(x) } else { x.clone() })
            .collect();
        let results = |compiled| run(compiled, std::slice::from_ref(&inputs), 2);
        same_bits(&together.plan, &results(&together)[0], &results(&apart)[0], "joined");
        // Every GPU has a kernel for both.
        for wgmma in [false, true] {
            let all = menu(&together.plan, &together.plan.operators[found[0]], Target::Cuda { wgmma });
            assert_eq!(all.first().map(|t| t.kernel), Some(Kernel::Resize));
        }
    }
    let of = |graph: &Graph, dtype, passes| with(graph, dtype, passes, Ports::Declared);
    // Not of single precision, of other taps, or of pictures that do not grow.
    assert!(joined(&of(&graph, DType::F32, PassSet::ALL).plan).is_empty());
    let widened = ResizeMode::Linear { antialias: true };
    assert!(joined(&of(&network(widened, 8).0, DType::F16, PassSet::ALL).plan).is_empty());
    assert!(joined(&of(&network(linear, 1).0, DType::F16, PassSet::ALL).plan).is_empty());
}
