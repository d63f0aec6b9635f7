//! Functions of single elements: activations, arithmetic, Clip, Cast; and what other importers write of them: a value beside a number, truth
//! values as floats.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::Elem;
use super::super::node::OnnxNode;
use super::super::values::Operand;
use crate::planner::graph::broadcast;
use crate::primitive::{Binary, Primitive, Scalar, Unary};

pub(super) fn apply(b: &mut Builder, function: Unary, x: &Operand) -> Fallible<Operand> {
    b.one(Primitive::Unary(function), &[x], x.elem(), x.shape())
}

/// An activation or function of one input, by the node's operator.
pub(super) fn unary(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let function = match node.op {
        "Relu" => Unary::Relu,
        "LeakyRelu" => Unary::LeakyRelu(Scalar(node.float("alpha")?.unwrap_or(0.01))),
        "Sigmoid" => Unary::Sigmoid,
        "HardSigmoid" => Unary::HardSigmoid(
            Scalar(node.float("alpha")?.unwrap_or(0.2)),
            Scalar(node.float("beta")?.unwrap_or(0.5)),
        ),
        "HardSwish" => Unary::HardSwish,
        "Tanh" => Unary::Tanh,
        "Exp" => Unary::Exp,
        "Sqrt" => Unary::Sqrt,
        "Neg" => Unary::Neg,
        "Erf" => Unary::Erf,
        "Log" => Unary::Log,
        "Round" => Unary::Round,
        "Abs" => Unary::Abs,
        "Floor" => Unary::Floor,
        "Ceil" => Unary::Ceil,
        _ => return Err(unsupported("this operator is not imported")),
    };
    let of_integers = matches!(function, Unary::Relu | Unary::Neg | Unary::Abs) && matches!(x.elem(), Elem::I32 | Elem::I64);
    if !x.elem().is_float() && !of_integers {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    apply(b, function, x)
}

fn arithmetic(x: &Operand) -> Fallible<()> {
    match x.elem() {
        Elem::Bool => Err(malformed("arithmetic on truth values")),
        _ => Ok(()),
    }
}

/// INT8 is stored in 32 bits, so that what wraps around in 8 bits would not.
pub(super) fn wrapping(x: &Operand) -> Fallible<()> {
    match x.elem() {
        Elem::I8 => Err(unsupported(
            "arithmetic that wraps around in INT8: Cast the operands to INT32 or FLOAT",
        )),
        _ => Ok(()),
    }
}

pub(super) fn binary(b: &mut Builder, node: &OnnxNode<'_>, kind: Binary) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (x, y) = (node.input(0)?, node.input(1)?);
    arithmetic(x)?;
    arithmetic(y)?;
    wrapping(x)?;
    b.binary(kind, x, y)
}

/// Min, Max and Sum of one or more inputs.
pub(super) fn fold(b: &mut Builder, node: &OnnxNode<'_>, kind: Binary) -> Fallible<Operand> {
    let inputs = node.all_inputs()?;
    let mut result = inputs[0].clone();
    arithmetic(&result)?;
    if kind == Binary::Add {
        wrapping(&result)?;
    }
    for x in &inputs[1..] {
        result = b.binary(kind, &result, x)?;
    }
    Ok(result)
}

pub(super) fn prelu(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (x, slope) = (node.input(0)?, node.input(1)?);
    if broadcast(x.shape(), slope.shape()) != Some(x.shape()) {
        return Err(malformed(format!("a slope {} for an input {}", slope.shape(), x.shape())).at("slope"));
    }
    b.binary(Binary::PRelu, x, slope)
}

/// Clip: bounds are attributes before operator set 11, optional scalar inputs since.
pub(super) fn clip(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = node.input(0)?;
    arithmetic(x)?;
    if node.opset < 11 {
        node.arity(1, 1)?;
        let (low, high) = (
            node.float("min")?.unwrap_or(f32::NEG_INFINITY),
            node.float("max")?.unwrap_or(f32::INFINITY),
        );
        return clip_between(b, x, low, high);
    }
    node.arity(1, 3)?;
    let bounds = [(1, "min", f32::NEG_INFINITY), (2, "max", f32::INFINITY)];
    let mut fixed = [f32::NEG_INFINITY, f32::INFINITY];
    let mut constant = x.elem().is_float();
    for (index, name, none) in bounds {
        let Some(bound) = node.optional(index) else { continue };
        if bound.shape().elements() != 1 || bound.elem() != x.elem() {
            return Err(malformed(format!("a bound of shape {} and type {:?}", bound.shape(), bound.elem())).at(name));
        }
        match bound.host() {
            Some(host) => fixed[index - 1] = host.as_f64s().first().map_or(none, |&v| v as f32),
            None => constant = false,
        }
    }
    if constant {
        return clip_between(b, x, fixed[0], fixed[1]);
    }
    // Integer bounds do not fit a float exactly, computed ones are operands.
    let mut result = x.clone();
    for (index, kind) in [(1, Binary::Max), (2, Binary::Min)] {
        if let Some(bound) = node.optional(index) {
            let scalar = b.reshape(bound, crate::tensor::Shape::SCALAR)?;
            result = b.binary(kind, &result, &scalar)?;
        }
    }
    Ok(result)
}

fn clip_between(b: &mut Builder, x: &Operand, low: f32, high: f32) -> Fallible<Operand> {
    if low == f32::NEG_INFINITY && high == f32::INFINITY {
        return Ok(x.clone());
    }
    apply(b, Unary::Clip(Scalar(low), Scalar(high)), x)
}

pub(super) fn cast(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let to = node.int("to")?.ok_or_else(|| malformed("missing").at("to"))?;
    // They concern 8-bit floats only, which are not imported.
    node.ignore("saturate");
    node.ignore("round_mode");
    let to = Elem::from_onnx(i32::try_from(to).unwrap_or(-1)).map_err(|e| e.at("to"))?;
    cast_to(b, x, to)
}

/// CastLike: to the type of the second input, whose elements do not matter.
pub(super) fn cast_like(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    node.ignore("saturate");
    node.ignore("round_mode");
    cast_to(b, node.input(0)?, node.input(1)?.elem())
}

fn cast_to(b: &mut Builder, x: &Operand, to: Elem) -> Fallible<Operand> {
    if to == Elem::I8 && x.elem() != Elem::I8 {
        return Err(unsupported("INT8 but by QuantizeLinear: Cast to INT32, which holds the same numbers, or quantise").at("to"));
    }
    // A truth value that was computed as a float goes on from there; to an integer what is no number is 0 in any case.
    let x = match x.elem() == Elem::Bool && to != Elem::Bool {
        true if to.is_float() && b.known_float(x).is_some() => mask(b, x)?,
        true => b.doubted(x).or_else(|| b.known_float(x)).unwrap_or_else(|| x.clone()),
        false => x.clone(),
    };
    convert(b, &x, to)
}

/// `x` with elements of another type; errors about that type are of the attribute `to`.
pub(super) fn convert(b: &mut Builder, x: &Operand, to: Elem) -> Fallible<Operand> {
    if to == x.elem() {
        return Ok(x.clone());
    }
    match x {
        // i64 is stored as i32: only the declared type changes.
        Operand::Computed { id, elem, shape } if to.stored().map_err(|e| e.at("to"))? == elem.stored()? => Ok(Operand::Computed {
            id: *id,
            elem: to,
            shape: *shape,
        }),
        _ => b.one(Primitive::Copy, &[x], to, x.shape()),
    }
}

/// `x` and a number.
pub(super) fn with(b: &mut Builder, kind: Binary, x: &Operand, number: f64) -> Fallible<Operand> {
    let number = b.scalar(x.elem(), number)?;
    b.binary(kind, x, &number)
}

/// A number and `x`.
pub(super) fn of(b: &mut Builder, number: f64, kind: Binary, x: &Operand) -> Fallible<Operand> {
    let number = b.scalar(x.elem(), number)?;
    b.binary(kind, &number, x)
}

/// `x` between two numbers; a NaN stays one.
pub(super) fn between(b: &mut Builder, x: &Operand, low: f32, high: f32) -> Fallible<Operand> {
    apply(b, Unary::Clip(Scalar(low), Scalar(high)), x)
}

/// The truth value as a float 0 or 1.
pub(super) fn mask(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    let loose = loose_mask(b, x)?;
    let Some(integers) = b.doubted(x) else { return Ok(loose) };
    let mask = convert(b, &integers, loose.elem())?;
    // Whoever asks next finds a number.
    b.remember_float(x, mask.clone());
    Ok(mask)
}

/// The truth value as a float 0 or 1, or no number in place of 0.
pub(super) fn loose_mask(b: &mut Builder, x: &Operand) -> Fallible<Operand> {
    match b.known_float(x) {
        Some(mask) => Ok(mask),
        None => convert(b, x, Elem::F32),
    }
}

/// The truth value that the float 0 or 1 stands for.
pub(super) fn truth(b: &mut Builder, mask: Operand) -> Fallible<Operand> {
    let truth = convert(b, &mask, Elem::Bool)?;
    b.remember_float(&truth, mask);
    Ok(truth)
}

/// The truth value that the float 0 or 1 stands for, or what is no number for false.
pub(super) fn loose_truth(b: &mut Builder, mask: Operand) -> Fallible<Operand> {
    // No float function makes a number of a NaN; as an integer it is 0.
    let integers = convert(b, &mask, Elem::I32)?;
    let truth = convert(b, &integers, Elem::Bool)?;
    b.remember_loose_float(&truth, mask, integers);
    Ok(truth)
}
