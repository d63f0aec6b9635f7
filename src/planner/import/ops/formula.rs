//! Functions of single elements that are formulas over others.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::Elem;
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, between, convert, loose_mask, with};
use super::hyperbolic::signed;
use super::logic::{self, Comparison};
use crate::primitive::{Binary, Scalar, Unary};

fn float_input<'n>(node: &'n OnnxNode<'_>) -> Fallible<&'n Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if x.elem().is_float() {
        Ok(x)
    } else {
        Err(malformed(format!("elements of {:?}", x.elem())))
    }
}

/// Mish: `x * tanh(ln(1 + exp(x)))`.
///
/// With `s = sigmoid(x)` and `u = s * (2 - s)` the hyperbolic tangent is `u / (2 - u)`: no logarithm, nothing that overflows
/// even in f16, nothing that cancels for negative x.
pub(super) fn mish(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    let two = b.scalar(x.elem(), 2.0)?;
    let s = apply(b, Unary::Sigmoid, x)?;
    let rest = b.binary(Binary::Sub, &two, &s)?;
    let u = b.binary(Binary::Mul, &s, &rest)?;
    let below = b.binary(Binary::Sub, &two, &u)?;
    let tangent = b.binary(Binary::Div, &u, &below)?;
    b.binary(Binary::Mul, x, &tangent)
}

/// Gelu, exact or by the hyperbolic tangent.
pub(super) fn gelu(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    match node.string("approximate")?.unwrap_or("none") {
        "none" => apply(b, Unary::Gelu, x),
        "tanh" => apply(b, Unary::GeluTanh, x),
        other => Err(unsupported(format!("`{other}`")).at("approximate")),
    }
}

/// Reciprocal: `1 / x`.
pub(super) fn reciprocal(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    let one = b.scalar(x.elem(), 1.0)?;
    b.binary(Binary::Div, &one, x)
}

/// Mod of integers: the remainder with the sign of the divisor, or with `fmod` that of the dividend. Of floats there is but the
/// latter.
pub(super) fn modulo(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (x, divisor) = (node.input(0)?, node.input(1)?);
    let signed = match x.elem() {
        Elem::I32 | Elem::I64 | Elem::I8 => true,
        Elem::U8 => false,
        elem if elem.is_float() && node.flag("fmod", false)? => return float_remainder(b, x, divisor),
        elem if elem.is_float() => return Err(malformed("0, of floats").at("fmod")),
        _ => {
            return Err(unsupported(format!(
                "remainders of {:?}: Cast the operands to FLOAT, INT32 or INT64",
                x.elem()
            )));
        }
    };
    let follows_dividend = node.flag("fmod", false)?;
    let remainder = remainder(b, x, divisor)?;
    if follows_dividend || !signed {
        return Ok(remainder);
    }
    // Between the divisor and its negative: one divisor more, and what is then too much off again.
    let moved = b.binary(Binary::Add, &remainder, divisor)?;
    self::remainder(b, &moved, divisor)
}

/// `x - d * trunc(x / d)`.
fn remainder(b: &mut Builder, x: &Operand, divisor: &Operand) -> Fallible<Operand> {
    let quotient = b.binary(Binary::Div, x, divisor)?;
    let whole = b.binary(Binary::Mul, &quotient, divisor)?;
    b.binary(Binary::Sub, x, &whole)
}

/// Mod of floats, with the sign of the dividend: to a unit in the last place of the divisor for quotients up to 2048.
///
/// Halves of the divisor's digits times a quotient are exact (Dekker 1971), and so is what they leave of the dividend.
fn float_remainder(b: &mut Builder, x: &Operand, divisor: &Operand) -> Fallible<Operand> {
    let elem = x.elem();
    let result = b.in_single(|b| {
        let (x, divisor) = (convert(b, x, Elem::F32)?, convert(b, divisor, Elem::F32)?);
        let size = apply(b, Unary::Abs, &x)?;
        // An endless divisor leaves the dividend, as a large one does.
        let divisor = apply(b, Unary::Abs, &divisor)?;
        let divisor = between(b, &divisor, 0.0, 2f32.powi(100))?;
        let quotient = b.binary(Binary::Div, &size, &divisor)?;
        let whole = apply(b, Unary::Floor, &quotient)?;
        let wide = with(b, Binary::Mul, &divisor, 4097.0)?;
        let rest = b.binary(Binary::Sub, &wide, &divisor)?;
        let high = b.binary(Binary::Sub, &wide, &rest)?;
        let low = b.binary(Binary::Sub, &divisor, &high)?;
        let mut left = size.clone();
        for part in [&high, &low] {
            let taken = b.binary(Binary::Mul, &whole, part)?;
            left = b.binary(Binary::Sub, &left, &taken)?;
        }
        // A rounded quotient may be one too large, or one too small: steps from 0 to 1 at 0 from either side.
        let below = apply(b, Unary::HardSigmoid(Scalar(-f32::MAX), Scalar(0.0)), &left)?;
        let back = b.binary(Binary::Mul, &below, &divisor)?;
        let left = b.binary(Binary::Add, &left, &back)?;
        let over = b.binary(Binary::Sub, &left, &divisor)?;
        let over = apply(b, Unary::HardSigmoid(Scalar(f32::MAX), Scalar(1.0)), &over)?;
        let more = b.binary(Binary::Mul, &over, &divisor)?;
        let left = b.binary(Binary::Sub, &left, &more)?;
        signed(b, &left, &x)
    })?;
    convert(b, &result, elem)
}

/// Softplus: `ln(1 + exp(x))`, as `max(x, 0) + ln(1 + exp(-|x|))`, which overflows nowhere.
pub(super) fn softplus(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    let one = b.scalar(x.elem(), 1.0)?;
    let size = apply(b, Unary::Abs, x)?;
    let falling = apply(b, Unary::Neg, &size)?;
    let power = apply(b, Unary::Exp, &falling)?;
    let sum = b.binary(Binary::Add, &power, &one)?;
    let bent = apply(b, Unary::Log, &sum)?;
    let straight = apply(b, Unary::Relu, x)?;
    b.binary(Binary::Add, &bent, &straight)
}

/// Softsign: `x / (1 + |x|)`.
pub(super) fn softsign(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    let one = b.scalar(x.elem(), 1.0)?;
    let size = apply(b, Unary::Abs, x)?;
    let sum = b.binary(Binary::Add, &size, &one)?;
    b.binary(Binary::Div, x, &sum)
}

/// Elu `x < 0 ? alpha * (exp(x) - 1) : x`; Celu with `x / alpha` in the exponent; Selu with all of it times gamma.
pub(super) fn elu(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    let (alpha, inner, gamma) = match node.op {
        "Elu" => (node.float("alpha")?.unwrap_or(1.0), 1.0, 1.0),
        "Celu" => {
            let alpha = node.float("alpha")?.unwrap_or(1.0);
            (alpha, 1.0 / alpha, 1.0)
        }
        _ => (
            node.float("alpha")?.unwrap_or(1.673_263_2),
            1.0,
            node.float("gamma")?.unwrap_or(1.050_701),
        ),
    };
    let one = b.scalar(x.elem(), 1.0)?;
    let mut below = apply(b, Unary::Clip(Scalar(f32::NEG_INFINITY), Scalar(0.0)), x)?;
    below = scaled(b, &below, inner)?;
    let power = apply(b, Unary::Exp, &below)?;
    let mut result = b.binary(Binary::Sub, &power, &one)?;
    result = scaled(b, &result, alpha)?;
    let above = apply(b, Unary::Relu, x)?;
    result = b.binary(Binary::Add, &result, &above)?;
    scaled(b, &result, gamma)
}

/// ThresholdedRelu: `x` above alpha, else 0.
pub(super) fn thresholded(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    let alpha = b.scalar(x.elem(), f64::from(node.float("alpha")?.unwrap_or(1.0)))?;
    let above = logic::compared(b, x, &alpha, Comparison::Greater)?;
    let mask = loose_mask(b, &above)?;
    let mask = convert(b, &mask, x.elem())?;
    b.binary(Binary::Mul, x, &mask)
}

/// Shrink: `x - bias` above lambda, `x + bias` below its negative, 0 between.
pub(super) fn shrink(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    let (bias, lambda) = (node.float("bias")?.unwrap_or(0.0), node.float("lambd")?.unwrap_or(0.5));
    let mut total: Option<Operand> = None;
    for (side, comparison) in [(1.0, Comparison::Greater), (-1.0, Comparison::Less)] {
        let edge = b.scalar(x.elem(), f64::from(lambda * side))?;
        let outside = logic::compared(b, x, &edge, comparison)?;
        let mask = loose_mask(b, &outside)?;
        let mask = convert(b, &mask, x.elem())?;
        let bias = b.scalar(x.elem(), f64::from(bias * side))?;
        let moved = b.binary(Binary::Sub, x, &bias)?;
        let kept = b.binary(Binary::Mul, &moved, &mask)?;
        total = Some(match total {
            Some(total) => b.binary(Binary::Add, &total, &kept)?,
            None => kept,
        });
    }
    total.ok_or_else(|| malformed("no result"))
}

/// Swish: `x * sigmoid(alpha * x)`.
pub(super) fn swish(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = float_input(node)?;
    let alpha = node.float("alpha")?.unwrap_or(1.0);
    let inner = scaled(b, x, alpha)?;
    let gate = apply(b, Unary::Sigmoid, &inner)?;
    b.binary(Binary::Mul, x, &gate)
}

/// Mean of one or more inputs.
pub(super) fn mean(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let inputs = node.all_inputs()?;
    let mut total = inputs[0].clone();
    if !total.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", total.elem())));
    }
    for x in &inputs[1..] {
        total = b.binary(Binary::Add, &total, x)?;
    }
    let count = b.scalar(total.elem(), inputs.len() as f64)?;
    b.binary(Binary::Div, &total, &count)
}

fn scaled(b: &mut Builder, x: &Operand, factor: f32) -> Fallible<Operand> {
    if factor == 1.0 {
        return Ok(x.clone());
    }
    let factor = b.scalar(x.elem(), f64::from(factor))?;
    b.binary(Binary::Mul, x, &factor)
}
