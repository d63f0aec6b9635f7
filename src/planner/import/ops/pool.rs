//! MaxPool and AveragePool.

use super::super::builder::{Builder, Operand};
use super::super::error::{Fallible, malformed};
use super::super::host::{Elem, shape_of};
use super::super::node::OnnxNode;
use super::window;
use crate::primitive::{PoolKind, Primitive, Window};
use crate::tensor::Shape;

/// The window over the node's only input, and the output's shape.
fn read(node: &OnnxNode<'_>) -> Fallible<(Window, Shape)> {
    node.arity(1, 1)?;
    let x = node.input(0)?.shape();
    let (mut window, auto) = window::read(node, x.rank(), None)?;
    let ceil = node.flag("ceil_mode", false)?;
    window::set_same_pads(&mut window, auto, x);
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
