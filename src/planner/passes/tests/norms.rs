//! Spellings of layer, group and instance normalisation.

use super::*;

/// The mean over the last axis, and the shape of one.
fn row_mean(dims: &[u32]) -> (Primitive, Vec<u32>) {
    let last = dims.len() - 1;
    let mut reduced = dims.to_vec();
    reduced[last] = 1;
    let kind = ReduceKind::Mean;
    (Primitive::Reduce { kind, axes: 1 << last }, reduced)
}

/// `x` less its mean over the last axis, by the root of the mean of `square` of that, plus epsilon.
fn layer_norm(net: &mut Net, x: ValueId, squared: impl FnOnce(&mut Net, ValueId) -> ValueId) -> ValueId {
    let (mean, reduced) = row_mean(&net.dims(x));
    let epsilon = scalar(net, 1e-5);
    let middle = net.node(Op::Primitive(mean), &[x], &reduced);
    let centred = net.binary(Binary::Sub, x, middle);
    let squared = squared(net, centred);
    let variance = net.node(Op::Primitive(mean), &[squared], &reduced);
    let shifted = net.binary(Binary::Add, variance, epsilon);
    let deviation = net.unary(Unary::Sqrt, shifted);
    net.binary(Binary::Div, centred, deviation)
}

#[test]
fn both_spellings_of_layer_normalisation_become_one_primitive() {
    let normalise = Primitive::Normalise {
        axis: 2,
        epsilon: Scalar(1e-5),
    };
    let mut net = Net::default();
    let x = net.input(&[2, 3, 8]);
    let y = layer_norm(&mut net, x, |net, centred| net.binary(Binary::Mul, centred, centred));
    assert_eq!(primitives(net, y, PassSet::NORMALISE), [normalise]);
    let mut net = Net::default();
    let x = net.input(&[2, 3, 8]);
    let y = layer_norm(&mut net, x, |net, centred| {
        let two = scalar(net, 2.0);
        net.binary(Binary::Pow, centred, two)
    });
    assert_eq!(primitives(net, y, PassSet::NORMALISE), [normalise]);
    // The mean of something else is no variance.
    let mut net = Net::default();
    let x = net.input(&[2, 3, 8]);
    let y = layer_norm(&mut net, x, |net, centred| net.binary(Binary::Mul, centred, x));
    assert!(primitives(net, y, PassSet::NORMALISE).len() > 1);
}

/// `x` over the root of the mean of its squares over the last axis, plus epsilon, as a quotient or by the reciprocal.
fn root_mean_square(net: &mut Net, x: ValueId, reciprocal: bool) -> ValueId {
    let (mean, reduced) = row_mean(&net.dims(x));
    let (two, epsilon) = (scalar(net, 2.0), scalar(net, 1e-6));
    let squared = net.binary(Binary::Pow, x, two);
    let mean = net.node(Op::Primitive(mean), &[squared], &reduced);
    let shifted = net.binary(Binary::Add, mean, epsilon);
    let size = net.unary(Unary::Sqrt, shifted);
    if !reciprocal {
        return net.binary(Binary::Div, x, size);
    }
    let one = scalar(net, 1.0);
    let ones = net.view(ViewOp::Broadcast, one, &reduced);
    let factor = net.binary(Binary::Div, ones, size);
    net.binary(Binary::Mul, x, factor)
}

#[test]
fn squares_are_products_and_other_powers_stay() {
    let spelled = |exponent: f32, set: PassSet| {
        let mut net = Net::default();
        let x = net.input(&[1, 3, 2, 2]);
        let by = scalar(&mut net, exponent);
        let y = net.binary(Binary::Pow, x, by);
        primitives(net, y, set)
    };
    let [product, power] = [Binary::Mul, Binary::Pow].map(Primitive::Binary);
    assert_eq!(spelled(2.0, PassSet::SQUARES), std::slice::from_ref(&product));
    assert_eq!(spelled(2.0, PassSet::ALL), [product]);
    assert_eq!(spelled(3.0, PassSet::ALL), std::slice::from_ref(&power));
    assert_eq!(spelled(-2.0, PassSet::ALL), [power]);
}

#[test]
fn root_mean_square_normalisation_holds_squares_that_f16_does_not() {
    for reciprocal in [false, true] {
        let mut net = Net::default();
        let x = net.input(&[2, 3, 8]);
        let y = root_mean_square(&mut net, x, reciprocal);
        let axis = 2;
        let found = primitives(net, y, PassSet::NORMALISE);
        assert_eq!(
            found,
            [Primitive::RmsNormalise {
                axis,
                epsilon: Scalar(1e-6)
            }]
        );
    }
    let mut net = Net::default();
    let x = net.input(&[2, 3, 8]);
    let y = root_mean_square(&mut net, x, true);
    net.output(y);
    let graph = run(net.graph.clone(), PassSet::NORMALISE).unwrap();
    let inputs = [Draw::new(4).tensor(&[2, 3, 8])];
    close(
        &evaluate(&graph, &inputs),
        &evaluate(&net.graph, &inputs),
        1e-5,
        "root mean squares",
    );
}

#[test]
fn a_root_of_a_sum_without_its_axis_is_a_norm() {
    let mut net = Net::default();
    let x = net.input(&[2, 3, 8]);
    let squared = net.binary(Binary::Mul, x, x);
    let sum = Primitive::Reduce {
        kind: ReduceKind::Sum,
        axes: 0b100,
    };
    let sum = net.node(Op::Primitive(sum), &[squared], &[2, 3, 1]);
    let seen = net.view(ViewOp::Reshape, sum, &[2, 3]);
    let y = net.unary(Unary::Sqrt, seen);
    let norm = Primitive::Reduce {
        kind: ReduceKind::Norm,
        axes: 0b100,
    };
    assert_eq!(primitives(net, y, PassSet::NORMS), [norm]);
}

/// Both passes of normalisation.
const NORMALISE: PassSet = PassSet::NORMALISE.with(PassSet::GROUP_NORMALISE);

/// A picture of six channels normalised in three groups, as exporters spell it: flattened, scaled and shifted by group, and with
/// its own axes again by channel.
fn group_norm(net: &mut Net, x: ValueId, scale: [f32; 3], shift: [f32; 3]) -> ValueId {
    let flat = net.view(ViewOp::Reshape, x, &[2, 3, 40]);
    let mut y = layer_norm(net, flat, |net, centred| net.binary(Binary::Mul, centred, centred));
    for (kind, values) in [(Binary::Mul, scale), (Binary::Add, shift)] {
        let constant = Tensor::new(Shape::new(&[1, 3, 1]).unwrap(), Data::F32(values.to_vec())).unwrap();
        let constant = net.constant(constant);
        y = net.binary(kind, y, constant);
    }
    let y = net.view(ViewOp::Reshape, y, &[2, 6, 4, 5]);
    let channels = net.constant(Draw::new(3).tensor(&[6, 1, 1]));
    net.binary(Binary::Mul, y, channels)
}

#[test]
fn normalisation_of_flattened_groups_becomes_that_of_the_picture() {
    let normalise = Primitive::GroupNormalise {
        groups: 3,
        epsilon: Scalar(1e-5),
    };
    let [mul, add] = [Binary::Mul, Binary::Add].map(Primitive::Binary);
    let mut net = Net::default();
    let x = net.input(&[2, 6, 4, 5]);
    let y = group_norm(&mut net, x, [1.0; 3], [0.0; 3]);
    assert_eq!(primitives(net, y, NORMALISE), [normalise, mul]);
    // Constants of groups become those of their channels.
    let mut net = Net::default();
    let x = net.input(&[2, 6, 4, 5]);
    let y = group_norm(&mut net, x, [1.0, 2.0, 3.0], [0.5; 3]);
    let graph = passed(net, y, NORMALISE);
    let found: Vec<_> = graph.nodes.iter().map(|n| n.op.clone()).collect();
    let repeat = Op::View(ViewOp::Broadcast);
    let [normalise_op, mul_op, add_op] = [normalise, mul, add].map(Op::Primitive);
    assert_eq!(found.iter().filter(|op| **op != repeat).count(), 4, "{found:?}");
    assert!([normalise_op, mul_op, add_op].iter().all(|op| found.contains(op)), "{found:?}");
    let wide = graph
        .values
        .iter()
        .filter(|v| v.shape.dims() == [1, 6, 1, 1])
        .find_map(|v| v.data.clone());
    let wide: Vec<_> = (0..6).map(|i| wide.as_ref().unwrap().get_f64(i).unwrap()).collect();
    assert_eq!(wide, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
}

#[test]
fn groups_of_a_picture_that_comes_under_other_axes_are_normalised_as_its_own() {
    let mut net = Net::default();
    let x = net.input(&[2, 6, 2, 2, 5]);
    let y = group_norm(&mut net, x, [1.0; 3], [0.0; 3]);
    let graph = passed(net, y, NORMALISE);
    let normalises = |n: &&Node| matches!(n.op, Op::Primitive(Primitive::GroupNormalise { groups: 3, .. }));
    let found = graph.nodes.iter().find(normalises).unwrap();
    assert_eq!(graph.value(found.inputs[0]).shape.dims(), [2, 6, 4, 5]);
}

#[test]
fn other_flattened_rows_and_values_that_are_read_flat_stay() {
    // Samples and channels together are no groups of a sample.
    let mut net = Net::default();
    let x = net.input(&[2, 6, 4, 5]);
    let flat = net.view(ViewOp::Reshape, x, &[1, 12, 20]);
    let y = layer_norm(&mut net, flat, |net, centred| net.binary(Binary::Mul, centred, centred));
    let y = net.view(ViewOp::Reshape, y, &[2, 6, 4, 5]);
    let left = primitives(net, y, NORMALISE);
    assert!(matches!(left[..], [Primitive::Normalise { axis: 2, .. }]), "{left:?}");
    let mut net = Net::default();
    let x = net.input(&[2, 6, 4, 5]);
    let flat = net.view(ViewOp::Reshape, x, &[2, 3, 40]);
    let y = layer_norm(&mut net, flat, |net, centred| net.binary(Binary::Mul, centred, centred));
    net.output(y);
    let y = net.view(ViewOp::Reshape, y, &[2, 6, 4, 5]);
    let left = primitives(net, y, NORMALISE);
    assert!(matches!(left[..], [Primitive::Normalise { axis: 2, .. }]), "{left:?}");
}

#[test]
fn means_over_places_or_channels_and_places_are_of_groups() {
    let found = |axes: u8, reduced: &[u32]| {
        let mut net = Net::default();
        let x = net.input(&[2, 6, 4, 5]);
        let mean = Op::Primitive(Primitive::Reduce {
            kind: ReduceKind::Mean,
            axes,
        });
        let middle = net.node(mean.clone(), &[x], reduced);
        let centred = net.binary(Binary::Sub, x, middle);
        let squared = net.binary(Binary::Mul, centred, centred);
        let variance = net.node(mean, &[squared], reduced);
        let epsilon = scalar(&mut net, 1e-5);
        let shifted = net.binary(Binary::Add, variance, epsilon);
        let deviation = net.unary(Unary::Sqrt, shifted);
        let y = net.binary(Binary::Div, centred, deviation);
        primitives(net, y, NORMALISE)
    };
    let of = |groups| {
        let epsilon = Scalar(1e-5);
        Primitive::GroupNormalise { groups, epsilon }
    };
    assert_eq!(found(0b1100, &[2, 6, 1, 1]), [of(6)]);
    assert_eq!(found(0b1110, &[2, 1, 1, 1]), [of(1)]);
    assert!(found(0b1101, &[1, 6, 1, 1]).len() > 1);
}
