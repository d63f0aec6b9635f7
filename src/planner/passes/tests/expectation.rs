//! Shares of a softmax that weigh constants and are added, as expectations.

use super::*;

/// How the shares are weighed and added.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spelling {
    /// By a convolution to so many channels, with a bias of that.
    Convolution(u32, Option<f32>),
    /// The same of lines.
    Lines,
    /// The same of pixels padded by one.
    Padded,
    /// By a matrix of one column, or of two.
    Matrix(u32),
    /// By a product with one number a bin, and a sum along an axis.
    Sum(usize),
    /// By a product with numbers that are one for each place, too.
    Places,
}
use Spelling::*;

/// An expectation of so many bins along `axis`, which the shares' reader sums along; with `again` the shares are read once more.
fn net(spelling: Spelling, bins: u32, axis: usize, again: bool) -> (Net, Vec<u32>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let mut dims = match spelling {
        Lines => vec![2, 0, 21],
        _ => vec![2, 5, 4, 7],
    };
    dims[axis] = bins;
    let x = net.input(&dims);
    let shares = net.same(Primitive::Softmax { axis: axis as u8 }, &[x]);
    let spread = |axis: usize| -> Vec<u32> { (0..dims.len()).map(|a| if a == axis { dims[a] } else { 1 }).collect() };
    let mut kept = dims.clone();
    let y = match spelling {
        Convolution(..) | Lines | Padded => {
            let mut window = Window::new(if spelling == Lines { &[1] } else { &[1, 1] });
            let channels = if let Convolution(channels, _) = spelling { channels } else { 1 };
            kept[1] = channels;
            if spelling == Padded {
                (window.pad_begin, kept[2]) = ([1, 0, 0], kept[2] + 1);
            }
            let mut weights = vec![channels, dims[1]];
            weights.resize(dims.len(), 1);
            let mut inputs = vec![shares, net.constant(draw.tensor(&weights))];
            if let Convolution(_, Some(bias)) = spelling {
                let bias = Tensor::new(Shape::new(&[channels]).unwrap(), Data::F32(vec![bias; channels as usize]));
                inputs.push(net.constant(bias.unwrap()));
            }
            net.node(Op::Primitive(Primitive::Conv { window, groups: 1 }), &inputs, &kept)
        }
        Matrix(columns) => {
            let column = net.constant(draw.tensor(&[dims[3], columns]));
            let all = net.view(ViewOp::Broadcast, column, &[dims[0], dims[1], dims[3], columns]);
            kept[3] = columns;
            net.node(Op::Primitive(Primitive::MatMul), &[shares, all], &kept)
        }
        Sum(_) | Places => {
            let along = if let Sum(along) = spelling { along } else { axis };
            let numbers = draw.tensor(&if spelling == Places { dims.clone() } else { spread(axis) });
            let numbers = net.constant(numbers);
            let weighed = net.binary(Binary::Mul, shares, numbers);
            kept[along] = 1;
            let kind = ReduceKind::Sum;
            net.node(Op::Primitive(Primitive::Reduce { kind, axes: 1 << along }), &[weighed], &kept)
        }
    };
    net.output(y);
    if again {
        net.output(shares);
    }
    (net, dims)
}

fn expects(graph: &Graph) -> bool {
    graph
        .nodes
        .iter()
        .any(|n| matches!(n.op, Op::Primitive(Primitive::Expectation { .. })))
}

#[test]
fn weighed_shares_are_expectations_in_every_spelling() {
    for (spelling, axis) in [
        (Convolution(1, None), 1),
        (Convolution(1, Some(0.0)), 1),
        (Lines, 1),
        (Matrix(1), 3),
        (Sum(1), 1),
        (Sum(3), 3),
        (Sum(0), 0),
    ] {
        for bins in [1, 16, 17] {
            let (net, dims) = net(spelling, bins, axis, false);
            let passed = run(net.graph.clone(), PassSet::EXPECTATION).unwrap();
            assert!(expects(&passed) && passed.nodes.len() == 1, "{spelling:?}: {:?}", passed.nodes);
            let inputs = [Draw::new(8).tensor(&dims)];
            close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-5, "expectations");
            // No other pass takes a part of it before.
            assert!(bins == 1 || expects(&run(net.graph, PassSet::ALL).unwrap()), "{spelling:?}");
        }
    }
}

#[test]
fn look_alikes_are_no_expectations() {
    for (spelling, bins, axis, again) in [
        (Convolution(2, None), 16, 1, false),
        (Convolution(1, Some(0.5)), 16, 1, false),
        (Convolution(1, None), 16, 1, true),
        (Convolution(1, None), 16, 2, false),
        (Padded, 16, 1, false),
        (Matrix(2), 16, 3, false),
        (Matrix(1), 16, 2, false),
        (Sum(2), 16, 1, false),
        (Places, 16, 1, false),
        // Long rows, and few of them.
        (Sum(1), 33, 1, false),
    ] {
        let (net, _) = net(spelling, bins, axis, again);
        let passed = run(net.graph.clone(), PassSet::EXPECTATION).unwrap();
        assert_eq!(passed.nodes.len(), net.graph.nodes.len(), "{spelling:?}, {again}");
        assert!(!expects(&passed), "{spelling:?}, {again}");
    }
}
