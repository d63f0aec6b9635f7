//! The reductions and the global pools.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::{Elem, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, convert, mask, truth};
use super::reshape::extents;
use crate::primitive::{Binary, Primitive, ReduceKind, Scalar, Unary};

/// Reduces `axes` of `x` to extent 1.
pub(super) fn over(b: &mut Builder, x: &Operand, kind: ReduceKind, axes: &[usize]) -> Fallible<Operand> {
    let bits = axes.iter().fold(0u8, |bits, &a| bits | 1 << a);
    let dims: Vec<i64> = (0..x.shape().rank())
        .map(|a| if axes.contains(&a) { 1 } else { i64::from(x.shape().dim(a)) })
        .collect();
    b.one(Primitive::Reduce { kind, axes: bits }, &[x], x.elem(), shape_of(&dims)?)
}

pub(super) fn global(b: &mut Builder, node: &OnnxNode<'_>, kind: ReduceKind) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if x.shape().rank() < 3 {
        return Err(malformed(format!("an input {} without spatial axes", x.shape())));
    }
    let axes: Vec<usize> = (2..x.shape().rank()).collect();
    over(b, x, kind, &axes)
}

/// What a reduction computes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    Of(ReduceKind),
    Min,
    /// The product.
    Product,
    /// The sum of sizes.
    Sizes,
    /// The root of the sum of squares.
    Length,
    /// The sum of squares.
    Squares,
    /// The logarithm of the sum.
    LogSum,
    /// The logarithm of the sum of exponentials.
    LogSumExp,
}

/// Elements along reduced axes up to which a product is written out.
pub(super) const MAX_FACTORS: i64 = 256;

/// A reduction; the axes are an attribute before operator set 13 (ReduceSum) or 18 (the others), an input since.
pub(super) fn reduce(b: &mut Builder, node: &OnnxNode<'_>, kind: Reduction) -> Fallible<Operand> {
    let since = if kind == Reduction::Of(ReduceKind::Sum) { 13 } else { 18 };
    let x = node.input(0)?;
    let (axes, nothing_without_axes) = if node.opset < since {
        node.arity(1, 1)?;
        (node.ints("axes")?.map(<[i64]>::to_vec), false)
    } else {
        node.arity(1, 2)?;
        (node.int_input(1, "axes")?, node.flag("noop_with_empty_axes", false)?)
    };
    let keep = node.flag("keepdims", true)?;
    let rank = x.shape().rank();
    let axes = match axes.filter(|a| !a.is_empty()) {
        Some(axes) => OnnxNode::axes(&axes, rank, "axes")?,
        None if nothing_without_axes => Vec::new(),
        None => (0..rank).collect(),
    };
    if axes.is_empty() {
        return alone(b, x, kind);
    }
    let reduced = reduced(b, x, kind, &axes)?;
    if keep {
        return Ok(reduced);
    }
    let left: Vec<i64> = (0..rank)
        .filter(|a| !axes.contains(a))
        .map(|a| i64::from(x.shape().dim(a)))
        .collect();
    b.reshape(&reduced, shape_of(&left)?)
}

/// `x` reduced along no axis: each element is what the reduction makes of it alone.
fn alone(b: &mut Builder, x: &Operand, kind: Reduction) -> Fallible<Operand> {
    match kind {
        Reduction::Sizes | Reduction::Length => apply(b, Unary::Abs, x),
        Reduction::Squares => b.binary(Binary::Mul, x, x),
        Reduction::LogSum if !x.elem().is_float() => Err(unsupported(format!("of elements of {:?}: Cast the input to FLOAT", x.elem()))),
        Reduction::LogSum => apply(b, Unary::Log, x),
        Reduction::Of(_) | Reduction::Min | Reduction::Product | Reduction::LogSumExp => Ok(x.clone()),
    }
}

/// `axes` of `x` reduced to extent 1.
pub(super) fn reduced(b: &mut Builder, x: &Operand, kind: Reduction, axes: &[usize]) -> Fallible<Operand> {
    if x.elem() == Elem::Bool {
        // Any and all of truth values are maxima and minima.
        let mask = mask(b, x)?;
        let mask = reduced(b, &mask, kind, axes)?;
        return truth(b, mask);
    }
    match kind {
        Reduction::Of(kind) => over(b, x, kind, axes),
        Reduction::Min => {
            let wide = match x.elem() {
                Elem::U8 | Elem::I8 => convert(b, x, Elem::I32)?,
                _ => x.clone(),
            };
            let negative = apply(b, Unary::Neg, &wide)?;
            let largest = over(b, &negative, ReduceKind::Max, axes)?;
            let smallest = apply(b, Unary::Neg, &largest)?;
            convert(b, &smallest, x.elem())
        }
        Reduction::Product => product(b, x, axes),
        Reduction::Sizes => {
            let sizes = apply(b, Unary::Abs, x)?;
            over(b, &sizes, ReduceKind::Sum, axes)
        }
        Reduction::Squares => {
            let squares = b.binary(Binary::Mul, x, x)?;
            over(b, &squares, ReduceKind::Sum, axes)
        }
        _ if !x.elem().is_float() => Err(unsupported(format!("of elements of {:?}: Cast the input to FLOAT", x.elem()))),
        Reduction::Length => over(b, x, ReduceKind::Norm, axes),
        Reduction::LogSum => {
            let sum = over(b, x, ReduceKind::Sum, axes)?;
            apply(b, Unary::Log, &sum)
        }
        Reduction::LogSumExp => {
            // The largest is taken off first, so that no power overflows; infinities would leave no number.
            let largest = over(b, x, ReduceKind::Max, axes)?;
            let largest = apply(b, Unary::Clip(Scalar(-f32::MAX), Scalar(f32::MAX)), &largest)?;
            let below = b.binary(Binary::Sub, x, &largest)?;
            let powers = apply(b, Unary::Exp, &below)?;
            let sum = over(b, &powers, ReduceKind::Sum, axes)?;
            let log = apply(b, Unary::Log, &sum)?;
            b.binary(Binary::Add, &log, &largest)
        }
    }
}

/// The product, halved along each axis until one element is left.
fn product(b: &mut Builder, x: &Operand, axes: &[usize]) -> Fallible<Operand> {
    let mut x = x.clone();
    for &axis in axes {
        let mut n = i64::from(x.shape().dim(axis));
        if n == 0 || (n > MAX_FACTORS && x.host().is_none()) {
            return Err(unsupported(format!(
                "a product of {n} factors (1 to {MAX_FACTORS} are imported): Split the axis and multiply the parts' products, or cut the \
                 network in front of this node with --output NAME"
            )));
        }
        while n > 1 {
            let half = n / 2;
            let part = |b: &mut Builder, first: i64, count: i64| {
                let (mut start, mut dims) = (vec![0; x.shape().rank()], extents(x.shape()));
                (start[axis], dims[axis]) = (first, count);
                b.slice(&x, start, vec![1; dims.len()], shape_of(&dims)?)
            };
            let (left, right) = (part(b, 0, half)?, part(b, half, half)?);
            let rest = if n % 2 == 1 { Some(part(b, n - 1, 1)?) } else { None };
            let mut halved = b.binary(Binary::Mul, &left, &right)?;
            n = half;
            if let Some(rest) = rest {
                let mut dims = extents(halved.shape());
                dims[axis] += 1;
                halved = b.concat(&[&halved, &rest], axis, shape_of(&dims)?)?;
                n += 1;
            }
            x = halved;
        }
    }
    Ok(x)
}
