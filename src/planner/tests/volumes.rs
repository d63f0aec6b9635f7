//! Networks over volumes, as of stereo, occupancy and video: that no window over three axes is left, and that results stay.

use super::nets::{Draw, Net};
use super::oracle::{close, compile, evaluate, run};
use crate::planner::CompileOptions;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::planner::passes::{self, PassSet};
use crate::primitive::{Binary, PoolKind, Primitive, Unary, Window};
use crate::tensor::Tensor;

/// A convolution with a bias.
fn convolution(net: &mut Net, draw: &mut Draw, x: ValueId, outputs: u32, window: Window, groups: u32) -> ValueId {
    let dims = net.dims(x);
    let [depth, rows, columns] = window.kernel;
    let weights = net.constant(draw.tensor(&[outputs, dims[1] / groups, depth, rows, columns]));
    let bias = net.constant(draw.tensor(&[outputs]));
    let extent = |axis: usize| window.output(axis, dims[axis + 2]).unwrap();
    let out = [dims[0], outputs, extent(0), extent(1), extent(2)];
    net.node(Op::Primitive(Primitive::Conv { window, groups }), &[x, weights, bias], &out)
}

fn padded(kernel: [u32; 3]) -> Window {
    let mut window = Window::new(&kernel);
    window.pad_begin = kernel.map(|k| k / 2);
    window.pad_end = window.pad_begin;
    window
}

fn network(samples: u32) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let dims = [samples, 3, 7, 6, 8];
    let x = net.input(&dims);
    let mut first = padded([3, 3, 3]);
    // More in front than behind, and every other slice.
    (first.pad_begin[0], first.stride[0], first.stride[2]) = (2, 2, 2);
    let a = convolution(&mut net, &mut draw, x, 8, first, 1);
    let a = net.unary(Unary::Relu, a);
    let b = convolution(&mut net, &mut draw, a, 8, padded([3, 3, 3]), 8);
    let sum = net.binary(Binary::Add, a, b);
    let sum = net.unary(Unary::Relu, sum);
    let mut dilated = padded([2, 1, 3]);
    (dilated.dilation[0], dilated.pad_begin[0], dilated.pad_end[0]) = (2, 0, 0);
    let c = convolution(&mut net, &mut draw, sum, 6, dilated, 2);
    net.output(c);
    let mut halved = Window::new(&[2, 2, 2]);
    halved.stride = [2; 3];
    let kind = PoolKind::Max { column_major: false };
    let dims_of = net.dims(sum);
    let out = [dims_of[0], 8, dims_of[2] / 2, dims_of[3] / 2, dims_of[4] / 2];
    let pooled = net.node(Op::Primitive(Primitive::Pool { kind, window: halved }), &[sum], &out);
    let last = convolution(&mut net, &mut draw, pooled, 4, Window::new(&[1, 1, 1]), 1);
    net.output(last);
    // Maxima of the input itself, by overlapping windows whose padding and whose last step reach over its ends, and means of pictures.
    let mut steps = padded([3, 3, 3]);
    steps.stride = [3, 2, 1];
    let maxima = net.node(Op::Primitive(Primitive::Pool { kind, window: steps }), &[x], &[samples, 3, 3, 3, 8]);
    net.output(maxima);
    let kind = PoolKind::Average { count_pad: false };
    let window = padded([1, 3, 3]);
    let means = net.node(Op::Primitive(Primitive::Pool { kind, window }), &[maxima], &[samples, 3, 3, 3, 8]);
    net.output(means);
    (net.graph, vec![draw.tensor(&dims)])
}

#[test]
fn windows_over_volumes_become_those_of_pictures() {
    for samples in [1, 2] {
        let (graph, inputs) = network(samples);
        let expected = evaluate(&graph, &inputs);
        for set in [PassSet::LINES, PassSet::ALL] {
            let passed = passes::run(graph.clone(), set).unwrap();
            close(
                &evaluate(&passed, &inputs),
                &expected,
                1e-5,
                &format!("{samples} samples, passes {set:?}"),
            );
            let deep = |op: &Op| {
                matches!(
                    op,
                    Op::Primitive(Primitive::Conv { window, .. } | Primitive::Pool { window, .. }) if window.axes == 3
                )
            };
            assert!(!passed.nodes.iter().any(|n| deep(&n.op)));
            // The functions are those of pictures too, so that they join the convolutions.
            let function = |op: &Op| matches!(op, Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)));
            let mut functions = passed.nodes.iter().filter(|n| function(&n.op));
            assert!(functions.all(|n| passed.value(n.outputs[0]).shape.rank() == 4));
        }
        let compiled = compile(std::slice::from_ref(&graph), &CompileOptions::default());
        let found = run(&compiled, std::slice::from_ref(&inputs), 2);
        close(&found[0], &expected, 1e-5, "compiled");
    }
}
