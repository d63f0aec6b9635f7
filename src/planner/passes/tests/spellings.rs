//! Functions that networks spell in pieces: SiLU, Gelu and hard swish.

use super::*;

#[test]
fn a_product_with_ones_own_sigmoid_is_silu() {
    let (mut net, _, x) = picture();
    let gate = net.unary(Unary::Sigmoid, x);
    let y = net.binary(Binary::Mul, gate, x);
    assert_eq!(primitives(net, y, PassSet::SILU), [Primitive::Unary(Unary::Silu)]);

    let (mut net, _, x) = picture();
    let z = net.unary(Unary::Neg, x);
    let gate = net.unary(Unary::Sigmoid, z);
    let y = net.binary(Binary::Mul, x, gate);
    assert_eq!(primitives(net, y, PassSet::SILU).len(), 3);
}

#[test]
fn every_spelling_of_gelu_is_known() {
    let gate = |net: &mut Net, x: ValueId, root: f32| {
        let root = scalar(net, root);
        let scaled = net.binary(Binary::Div, x, root);
        let erf = net.unary(Unary::Erf, scaled);
        let one = scalar(net, 1.0);
        net.binary(Binary::Add, erf, one)
    };
    let gelu = [Primitive::Unary(Unary::Gelu)];

    let (mut net, _, x) = picture();
    let sum = gate(&mut net, x, std::f32::consts::SQRT_2);
    let y = net.binary(Binary::Mul, x, sum);
    let half = scalar(&mut net, 0.5);
    let y = net.binary(Binary::Mul, y, half);
    assert_eq!(primitives(net, y, PassSet::GELU), gelu);

    let (mut net, _, x) = picture();
    let sum = gate(&mut net, x, std::f32::consts::SQRT_2);
    let half = scalar(&mut net, 0.5);
    let y = net.binary(Binary::Mul, x, half);
    let y = net.binary(Binary::Mul, sum, y);
    assert_eq!(primitives(net, y, PassSet::GELU), gelu);

    // Another scale, and another value in the product.
    let (mut net, _, x) = picture();
    let sum = gate(&mut net, x, 1.5);
    let half = scalar(&mut net, 0.5);
    let y = net.binary(Binary::Mul, x, half);
    let y = net.binary(Binary::Mul, sum, y);
    assert_eq!(primitives(net, y, PassSet::GELU).len(), 5);
    let (mut net, _, x) = picture();
    let z = net.unary(Unary::Neg, x);
    let sum = gate(&mut net, x, std::f32::consts::SQRT_2);
    let half = scalar(&mut net, 0.5);
    let y = net.binary(Binary::Mul, z, half);
    let y = net.binary(Binary::Mul, sum, y);
    assert_eq!(primitives(net, y, PassSet::GELU).len(), 6);
}

#[test]
fn gelu_with_a_hyperbolic_tangent_is_known_as_a_cube_a_power_or_nested() {
    let root = (2.0f32 / std::f32::consts::PI).sqrt();
    let gated = |net: &mut Net, x: ValueId, inside: ValueId| {
        let bent = net.unary(Unary::Tanh, inside);
        let (one, half) = (scalar(net, 1.0), scalar(net, 0.5));
        let sum = net.binary(Binary::Add, bent, one);
        let y = net.binary(Binary::Mul, x, half);
        net.binary(Binary::Mul, y, sum)
    };
    let cubes: [fn(&mut Net, ValueId) -> ValueId; 2] = [
        |net, x| {
            let square = net.binary(Binary::Mul, x, x);
            net.binary(Binary::Mul, x, square)
        },
        |net, x| {
            let three = scalar(net, 3.0);
            net.binary(Binary::Pow, x, three)
        },
    ];
    for cube in cubes {
        for (factor, known) in [(0.044_715, true), (0.05, false)] {
            let (mut net, _, x) = picture();
            let (cube, factor, root) = (cube(&mut net, x), scalar(&mut net, factor), scalar(&mut net, root));
            let bend = net.binary(Binary::Mul, cube, factor);
            let inside = net.binary(Binary::Add, x, bend);
            let inside = net.binary(Binary::Mul, inside, root);
            let y = gated(&mut net, x, inside);
            let left = primitives(net, y, PassSet::GELU);
            assert_eq!(left == [Primitive::Unary(Unary::GeluTanh)], known, "{left:?}");
        }
    }
    // x * (root + root * 0.044715 * x^2)
    let (mut net, _, x) = picture();
    let (factor, root) = (scalar(&mut net, root * 0.044_715), scalar(&mut net, root));
    let square = net.binary(Binary::Mul, x, x);
    let bend = net.binary(Binary::Mul, square, factor);
    let sum = net.binary(Binary::Add, bend, root);
    let inside = net.binary(Binary::Mul, x, sum);
    let y = gated(&mut net, x, inside);
    assert_eq!(primitives(net, y, PassSet::GELU), [Primitive::Unary(Unary::GeluTanh)]);
}

#[test]
fn every_spelling_of_hard_swish_is_known() {
    let shifted = |net: &mut Net, x: ValueId, top: f32| {
        let three = scalar(net, 3.0);
        let y = net.binary(Binary::Add, x, three);
        net.unary(Unary::Clip(Scalar(0.0), Scalar(top)), y)
    };
    let six = |net: &mut Net| scalar(net, 6.0);
    let hard_swish = [Primitive::Unary(Unary::HardSwish)];

    let (mut net, _, x) = picture();
    let gate = net.unary(Unary::HardSigmoid(Scalar(1.0 / 6.0), Scalar(0.5)), x);
    let y = net.binary(Binary::Mul, gate, x);
    assert_eq!(primitives(net, y, PassSet::HARDSWISH), hard_swish);

    let (mut net, _, x) = picture();
    let gate = shifted(&mut net, x, 6.0);
    let six_ = six(&mut net);
    let gate = net.binary(Binary::Div, gate, six_);
    let y = net.binary(Binary::Mul, x, gate);
    assert_eq!(primitives(net, y, PassSet::HARDSWISH), hard_swish);

    let (mut net, _, x) = picture();
    let gate = shifted(&mut net, x, 6.0);
    let y = net.binary(Binary::Mul, x, gate);
    let sixth = scalar(&mut net, 1.0 / 6.0);
    let y = net.binary(Binary::Mul, y, sixth);
    assert_eq!(primitives(net, y, PassSet::HARDSWISH), hard_swish);

    // Clipped elsewhere, it is another function.
    let (mut net, _, x) = picture();
    let gate = shifted(&mut net, x, 5.0);
    let y = net.binary(Binary::Mul, x, gate);
    let six_ = six(&mut net);
    let y = net.binary(Binary::Div, y, six_);
    assert_eq!(primitives(net, y, PassSet::HARDSWISH).len(), 4);

    // PyTorch's default slope of hard sigmoid in ONNX, 0.2, does not make a hard swish either.
    let (mut net, _, x) = picture();
    let gate = net.unary(Unary::HardSigmoid(Scalar(0.2), Scalar(0.5)), x);
    let y = net.binary(Binary::Mul, gate, x);
    assert_eq!(primitives(net, y, PassSet::HARDSWISH).len(), 2);
}
