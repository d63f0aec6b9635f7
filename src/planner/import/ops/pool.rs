//! MaxPool, AveragePool, LpPool and GlobalLpPool.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed};
use super::super::host::{Elem, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, convert, with};
use super::{reduce, window};
use crate::primitive::{Binary, PoolKind, Primitive, ReduceKind, Unary, Window};
use crate::tensor::Shape;

/// The window over the node's only input, and the output's shape.
fn read(node: &OnnxNode<'_>) -> Fallible<(Window, Shape)> {
    node.arity(1, 1)?;
    let x = node.input(0)?.shape();
    let (mut window, auto) = window::read(node, x.rank(), None)?;
    let ceil = node.flag("ceil_mode", false)?;
    window::set_same_pads(&mut window, auto, x);
    if ceil {
        window::cut_to_input(&mut window, x);
    }
    let mut dims = vec![i64::from(x.dim(0)), i64::from(x.dim(1))];
    for a in 0..x.rank() - 2 {
        dims.push(window::output_extent(&window, a, x.dim(a + 2), ceil)?.into());
    }
    Ok((window, shape_of(&dims)?))
}

pub(super) fn max_pool(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    let (window, shape) = read(node)?;
    let column_major = node.flag("storage_order", false)?;
    let x = node.input(0)?;
    let kind = PoolKind::Max { column_major };
    let mut outputs = vec![(x.elem(), shape)];
    if node.wants(1) {
        outputs.push((Elem::I64, shape));
    }
    b.primitive(Primitive::Pool { kind, window }, &[x], &outputs)
}

pub(super) fn average_pool(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let (window, shape) = read(node)?;
    let count_pad = node.flag("count_include_pad", false)?;
    let x = node.input(0)?;
    if !x.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    let kind = PoolKind::Average { count_pad };
    b.one(Primitive::Pool { kind, window }, &[x], x.elem(), shape)
}

/// The node's only input and the order of its norm, which is at least 1.
fn norm<'n>(node: &'n OnnxNode<'_>) -> Fallible<(&'n Operand, i64)> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if !x.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    match node.int("p")?.unwrap_or(2) {
        order @ 1.. => Ok((x, order)),
        order => Err(malformed(format!("{order}: a norm's order is at least 1")).at("p")),
    }
}

/// `|x|^order`.
fn power(b: &mut Builder, x: &Operand, order: i64) -> Fallible<Operand> {
    if order == 2 {
        return b.binary(Binary::Mul, x, x);
    }
    let size = apply(b, Unary::Abs, x)?;
    if order == 1 {
        Ok(size)
    } else {
        with(b, Binary::Pow, &size, order as f64)
    }
}

/// `x^(1 / order)` of what is not negative.
fn root(b: &mut Builder, x: &Operand, order: i64) -> Fallible<Operand> {
    match order {
        1 => Ok(x.clone()),
        2 => apply(b, Unary::Sqrt, x),
        _ => with(b, Binary::Pow, x, 1.0 / order as f64),
    }
}

/// LpPool: of each window the root of the sum of `|x|^p`, where padding counts 0.
///
/// The sum is the mean over all taps times their number. Powers stay f32 in plans of halves, which hold few of them.
pub(super) fn lp_pool(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let (mut window, shape) = read(node)?;
    let (x, order) = norm(node)?;
    // A last window of `ceil_mode` may reach past the declared padding, and a mean leaves such taps out: the padding is made
    // as long as the window, so that all means are over as many.
    for a in 0..usize::from(window.axes) {
        let last = u64::from(shape.dim(a + 2).saturating_sub(1)) * u64::from(window.stride[a]);
        let end = last + u64::from(window.reach(a).unwrap_or(1));
        let inside = u64::from(x.shape().dim(a + 2)) + u64::from(window.pad_begin[a]);
        let missing = u32::try_from(end.saturating_sub(inside)).map_err(|_| limit("a window larger than any input"))?;
        window.pad_end[a] = window.pad_end[a].max(missing);
    }
    let pooled = b.in_single(|b| {
        let wide = convert(b, x, Elem::F32)?;
        let powers = power(b, &wide, order)?;
        let kind = PoolKind::Average { count_pad: true };
        let mean = b.one(Primitive::Pool { kind, window }, &[&powers], Elem::F32, shape)?;
        let sum = with(b, Binary::Mul, &mean, window.taps() as f64)?;
        root(b, &sum, order)
    })?;
    convert(b, &pooled, x.elem())
}

/// GlobalLpPool: LpPool over whole channels.
pub(super) fn global_lp_pool(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let (x, order) = norm(node)?;
    if x.shape().rank() < 3 {
        return Err(malformed(format!("an input {} without spatial axes", x.shape())));
    }
    let axes: Vec<usize> = (2..x.shape().rank()).collect();
    if order == 2 {
        return reduce::over(b, x, ReduceKind::Norm, &axes);
    }
    let pooled = b.in_single(|b| {
        let wide = convert(b, x, Elem::F32)?;
        let powers = power(b, &wide, order)?;
        let sum = reduce::over(b, &powers, ReduceKind::Sum, &axes)?;
        root(b, &sum, order)
    })?;
    convert(b, &pooled, x.elem())
}
