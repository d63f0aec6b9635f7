//! Sinh, Cosh and the inverses of the hyperbolic functions, as arithmetic over exponentials and logarithms, in f32 throughout.

use super::super::builder::Builder;
use super::super::error::Fallible;
use super::super::values::Operand;
use super::elementwise::{apply, between, of, with};
use crate::primitive::{Binary, Unary};

/// `(e^|x| + e^-|x|) / 2`, of which the first power is a square, so that it overflows no sooner than the result.
pub(super) fn cosine(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let size = apply(b, Unary::Abs, x)?;
    let half = with(b, Binary::Mul, &size, 0.5)?;
    let root = apply(b, Unary::Exp, &half)?;
    let halved = with(b, Binary::Mul, &root, 0.5)?;
    let grown = b.binary(Binary::Mul, &root, &halved)?;
    let fallen = of(b, 0.25, Binary::Div, &grown)?;
    b.binary(Binary::Add, &grown, &fallen)
}

/// `tanh(x) cosh(x)`: the difference of two powers would cancel near 0.
pub(super) fn sine(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let tangent = apply(b, Unary::Tanh, x)?;
    let cosine = cosine(b, x)?;
    b.binary(Binary::Mul, &tangent, &cosine)
}

/// `ln(1 + u)` for `u` from 0 on: with what rounding takes from `1 + u` put back, as a share of it.
fn logarithm_beyond_one(b: &mut Builder, u: &Operand) -> Fallible<Operand> {
    let sum = with(b, Binary::Add, u, 1.0)?;
    let logarithm = apply(b, Unary::Log, &sum)?;
    // Where the 1 vanishes beside it there is nothing to put back.
    let u = between(b, u, 0.0, (1 << 24) as f32)?;
    let sum = with(b, Binary::Add, &u, 1.0)?;
    let found = with(b, Binary::Sub, &sum, 1.0)?;
    let lost = b.binary(Binary::Sub, &u, &found)?;
    let share = b.binary(Binary::Div, &lost, &sum)?;
    b.binary(Binary::Add, &logarithm, &share)
}

/// `y` with the sign of `x`, or 0 where `x` is.
pub(super) fn signed(b: &mut Builder, y: &Operand, x: &Operand) -> Fallible<Operand> {
    // All but numbers next to 0 become more than 1.
    let steep = with(b, Binary::Mul, x, 2f64.powi(126))?;
    let sign = between(b, &steep, -1.0, 1.0)?;
    b.binary(Binary::Mul, y, &sign)
}

/// `ln(1 + |x| + x^2 / (1 + sqrt(x^2 + 1)))` with the sign of `x`.
pub(super) fn arc_sine(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let size = apply(b, Unary::Abs, x)?;
    // Beyond 1e15 the root is its argument's; so its square does not overflow.
    let bounded = between(b, &size, 0.0, 1e15)?;
    let square = b.binary(Binary::Mul, &bounded, &bounded)?;
    let sum = with(b, Binary::Add, &square, 1.0)?;
    let root = apply(b, Unary::Sqrt, &sum)?;
    let below = with(b, Binary::Add, &root, 1.0)?;
    let tangent = b.binary(Binary::Div, &bounded, &below)?;
    let more = b.binary(Binary::Mul, &size, &tangent)?;
    let u = b.binary(Binary::Add, &size, &more)?;
    let y = logarithm_beyond_one(b, &u)?;
    signed(b, &y, x)
}

/// `ln(1 + t + sqrt(t) sqrt(t + 2))` with `t = x - 1`, of which the root has no number below 1.
pub(super) fn arc_cosine(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let t = with(b, Binary::Sub, x, 1.0)?;
    let root = apply(b, Unary::Sqrt, &t)?;
    let sum = with(b, Binary::Add, &t, 2.0)?;
    let other = apply(b, Unary::Sqrt, &sum)?;
    let product = b.binary(Binary::Mul, &root, &other)?;
    let u = b.binary(Binary::Add, &t, &product)?;
    logarithm_beyond_one(b, &u)
}

/// `ln(1 + 2 |x| / (1 - |x|)) / 2` with the sign of `x`; beyond 1 the logarithm has no number.
pub(super) fn arc_tangent(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let size = apply(b, Unary::Abs, x)?;
    let twice = with(b, Binary::Mul, &size, 2.0)?;
    let below = of(b, 1.0, Binary::Sub, &size)?;
    let u = b.binary(Binary::Div, &twice, &below)?;
    let logarithm = logarithm_beyond_one(b, &u)?;
    let y = with(b, Binary::Mul, &logarithm, 0.5)?;
    signed(b, &y, x)
}
