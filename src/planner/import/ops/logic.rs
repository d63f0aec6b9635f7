//! Comparisons, logic, and choices between values.
//!
//! No primitive compares or chooses. A truth value is computed as the float 0 or 1 by arithmetic that is exact for all
//! numbers, and remembered beside the truth value made of it: what reads it goes on from the float, and the truth value
//! itself is made where something else reads it. A NaN on either side of a comparison stays one in that float, and stands for
//! false: And keeps it, and everything else reads a float that was an integer in between, where it is 0.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::{Elem, Host};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, convert, loose_mask, loose_truth, mask, truth};
use super::reduce;
use crate::planner::graph::{ViewOp, broadcast};
use crate::primitive::{Binary, ReduceKind, Scalar, Unary};
use crate::tensor::{Data, Layout, Shape};

/// The five comparisons.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// Functions of two truth values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
}

/// The shape of two operands broadcast together.
fn joint(x: &Operand, y: &Operand) -> Fallible<Shape> {
    broadcast(x.shape(), y.shape()).ok_or_else(|| malformed(format!("{} and {} cannot be broadcast together", x.shape(), y.shape())))
}

/// A constant repeated to `shape`, which it can be broadcast to.
fn spread(x: &Host, shape: Shape) -> Fallible<Host> {
    let (layout, offset) = ViewOp::Broadcast
        .apply(&Layout::contiguous(x.shape()), shape)
        .ok_or_else(|| malformed(format!("{} cannot be broadcast to {shape}", x.shape())))?;
    x.strided(&layout, offset)
}

/// A choice or comparison among constants, of results with this many elements, is made at once: shapes are.
pub(super) fn constants<const N: usize>(operands: [&Operand; N], shape: Shape) -> Fallible<Option<[Host; N]>> {
    const MAX_AT_ONCE: u64 = 1 << 22;
    let Some(hosts) = operands.iter().map(|x| x.host()).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    if shape.elements() > MAX_AT_ONCE {
        return Ok(None);
    }
    let spread = hosts.into_iter().map(|x| spread(x, shape)).collect::<Fallible<Vec<_>>>()?;
    Ok(spread.try_into().ok())
}

/// `1 - x` of a truth value 0 or 1.
const NOT: Unary = Unary::HardSigmoid(Scalar(-1.0), Scalar(1.0));

/// 1 where `x` is below 0, 0 where it is 0: a slope without end, cut at 1.
fn below_zero(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let steep = apply(b, Unary::LeakyRelu(Scalar(f32::NEG_INFINITY)), x)?;
    apply(b, Unary::Clip(Scalar(0.0), Scalar(1.0)), &steep)
}

/// A finite constant: nothing that is subtracted from it gives a NaN but a NaN.
fn is_finite(x: &Operand) -> bool {
    x.host().is_some_and(|h| h.as_f64s().iter().all(|v| v.is_finite()))
}

/// Below 0 where `x` is above the constant `c`, 0 where it is not.
fn above(b: &mut Builder, x: &Operand, c: &Operand) -> Fallible<Operand> {
    let larger = b.binary(Binary::Max, x, c)?;
    b.binary(Binary::Sub, c, &larger)
}

/// 1 where `x > y`.
fn greater(b: &mut Builder, x: &Operand, y: &Operand) -> Fallible<Operand> {
    if !x.elem().is_float() {
        let (x, y) = (convert(b, x, Elem::I32)?, convert(b, y, Elem::I32)?);
        let larger = b.binary(Binary::Max, &x, &y)?;
        let more = b.binary(Binary::Sub, &larger, &y)?;
        let truth = convert(b, &more, Elem::Bool)?;
        return convert(b, &truth, Elem::F32);
    }
    // The difference of two equal infinities is no number, so they are made finite where neither side is known to be.
    let finite = Unary::Clip(Scalar(-f32::MAX), Scalar(f32::MAX));
    let below = if is_finite(y) {
        above(b, x, y)?
    } else {
        let x = if is_finite(x) { x.clone() } else { apply(b, finite, x)? };
        let y = if is_finite(&x) { y.clone() } else { apply(b, finite, y)? };
        let smaller = b.binary(Binary::Min, &x, &y)?;
        b.binary(Binary::Sub, &smaller, &x)?
    };
    below_zero(b, &below)
}

/// 1 where `x` differs from `y`.
fn differs(b: &mut Builder, x: &Operand, y: &Operand) -> Fallible<Operand> {
    if !x.elem().is_float() {
        let (x, y) = (convert(b, x, Elem::I32)?, convert(b, y, Elem::I32)?);
        let difference = b.binary(Binary::Sub, &x, &y)?;
        let truth = convert(b, &difference, Elem::Bool)?;
        return convert(b, &truth, Elem::F32);
    }
    if is_finite(x) || is_finite(y) {
        // More or less than the constant, each as comparisons are spelled: halves know what they are compared with.
        let (x, c) = if is_finite(y) { (x, y) } else { (y, x) };
        let more = above(b, x, c)?;
        let smaller = b.binary(Binary::Min, c, x)?;
        let less = b.binary(Binary::Sub, &smaller, c)?;
        let apart = b.binary(Binary::Add, &more, &less)?;
        return below_zero(b, &apart);
    }
    let finite = Unary::Clip(Scalar(-f32::MAX), Scalar(f32::MAX));
    let (x, y) = (apply(b, finite, x)?, apply(b, finite, y)?);
    let difference = b.binary(Binary::Sub, &x, &y)?;
    let size = apply(b, Unary::Abs, &difference)?;
    let below = apply(b, Unary::Neg, &size)?;
    below_zero(b, &below)
}

pub(super) fn compare(b: &mut Builder, node: &OnnxNode<'_>, comparison: Comparison) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (x, y) = (node.input(0)?, node.input(1)?);
    if x.elem() != y.elem() {
        return Err(malformed(format!("operands of types {:?} and {:?}", x.elem(), y.elem())));
    }
    compared(b, x, y, comparison)
}

/// Compares two operands of one type.
pub(super) fn compared(b: &mut Builder, x: &Operand, y: &Operand, comparison: Comparison) -> Fallible<Operand> {
    let shape = joint(x, y)?;
    if let Some([x, y]) = constants([x, y], shape)? {
        let holds = |order: Option<std::cmp::Ordering>| match comparison {
            Comparison::Equal => order.is_some_and(|o| o.is_eq()),
            Comparison::Greater => order.is_some_and(|o| o.is_gt()),
            Comparison::GreaterOrEqual => order.is_some_and(|o| o.is_ge()),
            Comparison::Less => order.is_some_and(|o| o.is_lt()),
            Comparison::LessOrEqual => order.is_some_and(|o| o.is_le()),
        };
        let truths: Vec<u8> = match (x.as_i64s(), y.as_i64s()) {
            (Some(x), Some(y)) => x.iter().zip(&y).map(|(x, y)| u8::from(holds(Some(x.cmp(y))))).collect(),
            _ => (x.as_f64s().iter().zip(&y.as_f64s()))
                .map(|(x, y)| u8::from(holds(x.partial_cmp(y))))
                .collect(),
        };
        return Ok(b.constant(Host::tensor(shape, Data::Bool(truths))?));
    }
    let mask = match comparison {
        Comparison::Equal => {
            let differs = differs(b, x, y)?;
            apply(b, NOT, &differs)?
        }
        Comparison::Greater => greater(b, x, y)?,
        Comparison::Less => greater(b, y, x)?,
        Comparison::LessOrEqual => {
            let greater = greater(b, x, y)?;
            apply(b, NOT, &greater)?
        }
        Comparison::GreaterOrEqual => {
            let less = greater(b, y, x)?;
            apply(b, NOT, &less)?
        }
    };
    if x.elem().is_float() {
        loose_truth(b, mask)
    } else {
        truth(b, mask)
    }
}

fn truths<'n>(node: &'n OnnxNode<'_>, index: usize) -> Fallible<&'n Operand> {
    let x = node.input(index)?;
    match x.elem() {
        Elem::Bool => Ok(x),
        other => Err(malformed(format!("elements of {other:?} where truth values are expected"))),
    }
}

pub(super) fn logic(b: &mut Builder, node: &OnnxNode<'_>, logic: Logic) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (x, y) = (truths(node, 0)?, truths(node, 1)?);
    let shape = joint(x, y)?;
    if let Some([x, y]) = constants([x, y], shape)? {
        let (x, y) = (x.as_i64s().unwrap_or_default(), y.as_i64s().unwrap_or_default());
        let of = |(&x, &y): (&i64, &i64)| match logic {
            Logic::And => u8::from(x != 0 && y != 0),
            Logic::Or => u8::from(x != 0 || y != 0),
            Logic::Xor => u8::from((x != 0) != (y != 0)),
        };
        let truths = x.iter().zip(&y).map(of).collect();
        return Ok(b.constant(Host::tensor(shape, Data::Bool(truths))?));
    }
    if logic == Logic::And && (b.doubted(x).is_some() || b.doubted(y).is_some()) {
        // What is false as no number makes the result false as no number.
        let (x, y) = (loose_mask(b, x)?, loose_mask(b, y)?);
        let y = convert(b, &y, x.elem())?;
        let both = b.binary(Binary::Min, &x, &y)?;
        return loose_truth(b, both);
    }
    let (x, y) = (mask(b, x)?, mask(b, y)?);
    let y = convert(b, &y, x.elem())?;
    let result = match logic {
        Logic::And => b.binary(Binary::Min, &x, &y)?,
        Logic::Or => b.binary(Binary::Max, &x, &y)?,
        Logic::Xor => {
            let difference = b.binary(Binary::Sub, &x, &y)?;
            apply(b, Unary::Abs, &difference)?
        }
    };
    truth(b, result)
}

pub(super) fn not(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let mask = mask(b, truths(node, 0)?)?;
    let result = apply(b, NOT, &mask)?;
    truth(b, result)
}

/// Sign: 1 above 0, -1 below, 0 at it.
pub(super) fn sign(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if !x.elem().is_float() {
        let (low, high) = (b.scalar(x.elem(), -1.0)?, b.scalar(x.elem(), 1.0)?);
        let above = b.binary(Binary::Max, x, &low)?;
        return b.binary(Binary::Min, &above, &high);
    }
    // The slope without end on both sides: what is not 0 becomes an infinity, cut at 1.
    let mirrored = apply(b, Unary::Neg, x)?;
    let positive = below_zero_signed(b, &mirrored)?;
    let negative = below_zero_signed(b, x)?;
    b.binary(Binary::Sub, &positive, &negative)
}

/// [`below_zero`] of any number: what is above 0 is cut off first.
fn below_zero_signed(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let falling = apply(b, Unary::Clip(Scalar(f32::NEG_INFINITY), Scalar(0.0)), x)?;
    below_zero(b, &falling)
}

/// IsNaN: what subtracted from itself is not 0, with what is large cut off first.
pub(super) fn is_nan(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if !x.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    if b.weighs(x) {
        // Exporters guard attention against rows that a mask empties, which none here does.
        let truths = vec![0; x.shape().elements() as usize];
        return Ok(b.constant(Host::tensor(x.shape(), Data::Bool(truths))?));
    }
    if let Some((scores, axis)) = b.masked_scores(x) {
        // A row of weights is no number where the greatest score is none, or an infinity.
        let greatest = reduce::over(b, &scores, ReduceKind::Max, &[usize::from(axis)])?;
        let difference = b.binary(Binary::Sub, &greatest, &greatest)?;
        let nan = convert(b, &difference, Elem::Bool)?;
        return b.broadcast(&nan, x.shape());
    }
    let small = apply(b, Unary::Clip(Scalar(-1.0), Scalar(1.0)), x)?;
    let difference = b.binary(Binary::Sub, &small, &small)?;
    convert(b, &difference, Elem::Bool)
}

/// IsInf: what times 0 is not 0, but a NaN; of one sign alone if the attributes say so.
pub(super) fn is_inf(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let (positive, negative) = (node.flag("detect_positive", true)?, node.flag("detect_negative", true)?);
    let nan = is_nan(b, node)?;
    let x = node.input(0)?;
    // A side that does not count is cut off first.
    let (low, high) = (
        if negative { f32::NEG_INFINITY } else { 0.0 },
        if positive { f32::INFINITY } else { 0.0 },
    );
    let counted = apply(b, Unary::Clip(Scalar(low), Scalar(high)), x)?;
    let difference = b.binary(Binary::Sub, &counted, &counted)?;
    let endless = convert(b, &difference, Elem::Bool)?;
    let (endless, nan) = (mask(b, &endless)?, mask(b, &nan)?);
    let only = b.binary(Binary::Sub, &endless, &nan)?;
    truth(b, only)
}

/// Where: `x` where the condition holds, else `y`. Of floats what is not chosen has no part in the result, be it a NaN.
pub(super) fn choose(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 3)?;
    choice(b, truths(node, 0)?, node.input(1)?, node.input(2)?)
}

/// `x` where the truth value `condition` holds, `y` where it does not, in the shape that the three are broadcast to.
pub(in crate::planner::import) fn choice(b: &mut Builder, condition: &Operand, x: &Operand, y: &Operand) -> Fallible<Operand> {
    if x.elem() != y.elem() {
        return Err(malformed(format!("a choice between {:?} and {:?}", x.elem(), y.elem())));
    }
    let shape = broadcast(joint(x, y)?, condition.shape())
        .ok_or_else(|| malformed(format!("a condition {} for {} and {}", condition.shape(), x.shape(), y.shape())))?;
    if let Some([condition, x, y]) = constants([condition, x, y], shape)? {
        return chosen(b, &condition, &x, &y);
    }
    if let Some(known) = condition.host().and_then(Host::as_i64s)
        && let Some(&first) = known.first()
        && known.iter().all(|&k| k == first)
    {
        return b.broadcast(if first != 0 { x } else { y }, shape);
    }
    let mask = mask(b, condition)?;
    chosen_by(b, &mask, x, y, shape)
}

/// `x` where the float `mask` is 1, `y` where it is 0, in the shape that the three are broadcast to.
pub(super) fn chosen_by(b: &mut Builder, mask: &Operand, x: &Operand, y: &Operand, shape: Shape) -> Fallible<Operand> {
    if !x.elem().is_float() {
        return chosen_integer(b, mask, x, y, shape);
    }
    let mask = convert(b, mask, x.elem())?;
    // A slope is looked at below 0 alone: -1 gives its negative, and 0 nothing of it, whatever it is.
    let zero = |x: &Operand| x.host().is_some_and(|h| h.as_f64s().iter().all(|&v| v == 0.0));
    let negative = |b: &mut Builder, mask: &Operand, x: &Operand| {
        let side = apply(b, Unary::Neg, mask)?;
        b.binary(Binary::PRelu, &side, x)
    };
    let chosen = match zero(x) {
        true => None,
        false => {
            let x = negative(b, &mask, x)?;
            Some(apply(b, Unary::Neg, &x)?)
        }
    };
    let result = match chosen {
        Some(x) if zero(y) => x,
        chosen => {
            let other = apply(b, NOT, &mask)?;
            let y = negative(b, &other, y)?;
            match chosen {
                Some(x) => b.binary(Binary::Sub, &x, &y)?,
                None => apply(b, Unary::Neg, &y)?,
            }
        }
    };
    b.broadcast(&result, shape)
}

/// Of integers: `y + condition * (x - y)`, which is exact with numbers that wrap around.
fn chosen_integer(b: &mut Builder, mask: &Operand, x: &Operand, y: &Operand, shape: Shape) -> Fallible<Operand> {
    let elem = x.elem();
    if elem == Elem::Bool {
        let (x, y) = (self::mask(b, x)?, self::mask(b, y)?);
        let other = apply(b, NOT, mask)?;
        let left = b.binary(Binary::Min, mask, &x)?;
        let right = b.binary(Binary::Min, &other, &y)?;
        let result = b.binary(Binary::Max, &left, &right)?;
        let result = truth(b, result)?;
        return b.broadcast(&result, shape);
    }
    let wide = if elem == Elem::I64 { Elem::I64 } else { Elem::I32 };
    let (x, y) = (convert(b, x, wide)?, convert(b, y, wide)?);
    let mask = convert(b, mask, wide)?;
    let difference = b.binary(Binary::Sub, &x, &y)?;
    let moved = b.binary(Binary::Mul, &mask, &difference)?;
    let result = b.binary(Binary::Add, &y, &moved)?;
    let result = convert(b, &result, elem)?;
    b.broadcast(&result, shape)
}

/// The choice among constants of one shape.
fn chosen(b: &mut Builder, condition: &Host, x: &Host, y: &Host) -> Fallible<Operand> {
    let (elem, shape) = (x.elem(), x.shape());
    let condition = condition
        .as_i64s()
        .ok_or_else(|| unsupported("a condition that is no truth value"))?;
    let host = match (x.as_i64s(), y.as_i64s()) {
        (Some(x), Some(y)) => {
            let picked = condition
                .iter()
                .zip(x.iter().zip(&y))
                .map(|(&c, (&x, &y))| if c != 0 { x } else { y });
            Host::i64s(shape, picked.collect())?.cast(elem)?
        }
        _ => {
            let (x, y) = (x.as_f64s(), y.as_f64s());
            let picked = condition
                .iter()
                .zip(x.iter().zip(&y))
                .map(|(&c, (&x, &y))| if c != 0 { x } else { y });
            Host::from_f64s(elem, shape, picked.collect())?
        }
    };
    Ok(b.constant(host))
}
