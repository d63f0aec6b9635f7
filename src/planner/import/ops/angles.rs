//! Sin, Cos, Tan and their inverses, of values that a frame computes.
//!
//! No primitive computes them, so each is written as arithmetic: the argument is brought near zero, where a polynomial in its square
//! is as exact as f32. All of it stays f32 in plans of halves, for what is left of a large angle would be lost.
//!
//! The coefficients are those of the least largest error (Remez's exchange, in 40 digits), with the first term of the series given;
//! behind each row stands what is left between it and the function.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed};
use super::super::host::{Elem, Host};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, between, convert, of, with};
use super::hyperbolic;
use crate::primitive::{Binary, Scalar, Unary};

/// Pi in three parts (Cody and Waite 1980). The first two have 8 and 11 bits, so that their products with the turns of angles up to
/// 10 000 are exact, and so is what is subtracted.
const PI_PARTS: [f64; 3] = [3.140625, 0.000_967_502_593_994_140_6, 1.509_957_990_978_376_5e-7];

/// `(sin r - r) / r` by powers of `r^2`, for `|r|` up to pi / 2: 5e-9 of `sin r`.
const SINE: [f64; 4] = [-0.166_666_570_9, 0.008_333_017_104, -0.000_198_066_014_5, 2.600_024_082e-6];
/// `cos r - 1` by powers of `r^2`, for `|r|` up to pi / 2: 3e-10.
const COSINE: [f64; 5] = [
    -0.499_999_995_5,
    0.041_666_640_71,
    -0.001_388_840_322,
    2.476_187_076e-5,
    -2.607_681_819e-7,
];
/// As [`SINE`], for `|r|` up to pi / 4: 4e-9.
const SHORT_SINE: [f64; 3] = [-0.166_666_549_4, 0.008_332_177_687, -0.000_195_172_346_9];
/// As [`COSINE`], for `|r|` up to pi / 4: 4e-8.
const SHORT_COSINE: [f64; 3] = [-0.499_998_947_2, 0.041_656_290_46, -0.001_359_776_55];
/// `(atan u - u) / u` by powers of `u^2`, for `|u|` up to 1: 2e-8.
const ARC_TANGENT: [f64; 8] = [
    -0.333_331_669_8,
    0.199_941_375_4,
    -0.142_142_114_8,
    0.106_789_482_5,
    -0.075_805_927_7,
    0.043_553_687_2,
    -0.016_581_260_6,
    0.002_974_606_16,
];

/// One of these functions, or of the hyperbolic ones: of a constant at once and in f64, of others by arithmetic in f32.
pub(super) fn function(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if !x.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    type Formula = fn(&mut Builder, &Operand) -> Fallible<Operand>;
    let (exact, formula): (fn(f64) -> f64, Formula) = match node.op {
        "Sin" => (f64::sin, sine),
        "Cos" => (f64::cos, cosine),
        "Tan" => (f64::tan, tangent),
        "Asin" => (f64::asin, arc_sine),
        "Acos" => (f64::acos, arc_cosine),
        "Atan" => (f64::atan, arc_tangent),
        "Sinh" => (f64::sinh, hyperbolic::sine),
        "Cosh" => (f64::cosh, hyperbolic::cosine),
        "Asinh" => (f64::asinh, hyperbolic::arc_sine),
        "Acosh" => (f64::acosh, hyperbolic::arc_cosine),
        _ => (f64::atanh, hyperbolic::arc_tangent),
    };
    if let Some(host) = x.host() {
        let values = host.as_f64s().iter().map(|&v| exact(v)).collect();
        let host = Host::from_f64s(x.elem(), x.shape(), values)?;
        return Ok(b.constant(host));
    }
    let result = b.in_single(|b| {
        let single = convert(b, x, Elem::F32)?;
        formula(b, &single)
    })?;
    convert(b, &result, x.elem())
}

/// `z * (c[0] + z * (c[1] + ..))`.
fn series(b: &mut Builder, z: &Operand, coefficients: &[f64]) -> Fallible<Operand> {
    let (last, rest) = coefficients.split_last().ok_or_else(|| malformed("no series"))?;
    let mut sum = with(b, Binary::Mul, z, *last)?;
    for &c in rest.iter().rev() {
        let inner = with(b, Binary::Add, &sum, c)?;
        sum = b.binary(Binary::Mul, &inner, z)?;
    }
    Ok(sum)
}

/// `r * (1 + series of r^2)`.
fn odd(b: &mut Builder, r: &Operand, coefficients: &[f64]) -> Fallible<Operand> {
    let square = b.binary(Binary::Mul, r, r)?;
    let sum = series(b, &square, coefficients)?;
    let rest = b.binary(Binary::Mul, &sum, r)?;
    b.binary(Binary::Add, &rest, r)
}

/// `1 + series of r^2`.
fn even(b: &mut Builder, r: &Operand, coefficients: &[f64]) -> Fallible<Operand> {
    let square = b.binary(Binary::Mul, r, r)?;
    let sum = series(b, &square, coefficients)?;
    with(b, Binary::Add, &sum, 1.0)
}

/// What is left of an angle when the nearest multiple of `share * pi` is taken off, and half of 1 where that multiple is odd, else 0.
///
/// An angle that is too large for its turns to be counted leaves any number of the range; an endless one leaves a NaN.
fn reduced(b: &mut Builder, x: &Operand, share: f64) -> Fallible<(Operand, Operand)> {
    let period = share * std::f64::consts::PI;
    let turns = with(b, Binary::Mul, x, 1.0 / period)?;
    let turns = apply(b, Unary::Round, &turns)?;
    let mut left = x.clone();
    for part in PI_PARTS {
        let taken = with(b, Binary::Mul, &turns, share * part)?;
        left = b.binary(Binary::Sub, &left, &taken)?;
    }
    // A rounded quotient may leave a little more than half a period.
    let most = (period / 2.0 * 1.02) as f32;
    let left = between(b, &left, -most, most)?;
    let pairs = with(b, Binary::Mul, &turns, 0.5)?;
    let whole = apply(b, Unary::Floor, &pairs)?;
    let half = b.binary(Binary::Sub, &pairs, &whole)?;
    Ok((left, half))
}

/// The negative of `y` where `half` is a half, `y` where it is 0.
fn turned(b: &mut Builder, y: &Operand, half: &Operand) -> Fallible<Operand> {
    let twice = with(b, Binary::Mul, half, -4.0)?;
    let sign = with(b, Binary::Add, &twice, 1.0)?;
    b.binary(Binary::Mul, y, &sign)
}

fn sine(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let (left, half) = reduced(b, x, 1.0)?;
    let y = odd(b, &left, &SINE)?;
    turned(b, &y, &half)
}

fn cosine(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let (left, half) = reduced(b, x, 1.0)?;
    let y = even(b, &left, &COSINE)?;
    turned(b, &y, &half)
}

/// The quotient of sine and cosine, which trade places at every quarter turn: neither of them cancels near a pole.
fn tangent(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let (left, half) = reduced(b, x, 0.5)?;
    let sine = odd(b, &left, &SHORT_SINE)?;
    let cosine = even(b, &left, &SHORT_COSINE)?;
    let traded = with(b, Binary::Mul, &half, 2.0)?;
    let kept = of(b, 1.0, Binary::Sub, &traded)?;
    let above = [b.binary(Binary::Mul, &sine, &kept)?, b.binary(Binary::Mul, &cosine, &traded)?];
    let above = b.binary(Binary::Sub, &above[0], &above[1])?;
    let below = [b.binary(Binary::Mul, &cosine, &kept)?, b.binary(Binary::Mul, &sine, &traded)?];
    let below = b.binary(Binary::Add, &below[0], &below[1])?;
    b.binary(Binary::Div, &above, &below)
}

/// Of `u = x`, or of `u = 1 / x` where `|x|` is above 1: there a right angle less.
fn arc_tangent(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let small = between(b, x, -1.0, 1.0)?;
    let size = apply(b, Unary::Abs, x)?;
    let large = between(b, &size, 1.0, f32::INFINITY)?;
    let u = b.binary(Binary::Div, &small, &large)?;
    let y = odd(b, &u, &ARC_TANGENT)?;
    // The least number above 1 is 1 + 2^-23.
    let steep = (1 << 24) as f32;
    let beyond = apply(b, Unary::HardSigmoid(Scalar(steep), Scalar(-steep)), &size)?;
    let twice = with(b, Binary::Mul, &beyond, -2.0)?;
    let sign = with(b, Binary::Add, &twice, 1.0)?;
    let turned = b.binary(Binary::Mul, &y, &sign)?;
    let side = b.binary(Binary::Mul, &small, &beyond)?;
    let right = with(b, Binary::Mul, &side, std::f64::consts::FRAC_PI_2)?;
    b.binary(Binary::Add, &turned, &right)
}

/// `atan(x / sqrt(1 - x^2))`, of which the root has no number beyond 1.
fn arc_sine(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let (below, above) = (of(b, 1.0, Binary::Sub, x)?, with(b, Binary::Add, x, 1.0)?);
    let product = b.binary(Binary::Mul, &below, &above)?;
    let root = apply(b, Unary::Sqrt, &product)?;
    let ratio = b.binary(Binary::Div, x, &root)?;
    arc_tangent(b, &ratio)
}

/// `2 atan(sqrt((1 - x) / (1 + x)))`, which is exact near 1 too.
fn arc_cosine(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let (below, above) = (of(b, 1.0, Binary::Sub, x)?, with(b, Binary::Add, x, 1.0)?);
    let ratio = b.binary(Binary::Div, &below, &above)?;
    let root = apply(b, Unary::Sqrt, &ratio)?;
    let half = arc_tangent(b, &root)?;
    with(b, Binary::Mul, &half, 2.0)
}
