//! Conv and ConvTranspose.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed};
use super::super::host::shape_of;
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::window::{self, AutoPad};
use crate::primitive::Primitive;
use crate::tensor::Shape;

/// The group attribute.
fn groups(node: &OnnxNode<'_>) -> Fallible<u32> {
    let group = node.int("group")?.unwrap_or(1);
    u32::try_from(group)
        .ok()
        .filter(|&g| g >= 1)
        .ok_or_else(|| malformed(format!("{group}")).at("group"))
}

/// The operands, with the bias where there is one.
fn operands<'a>(node: &'a OnnxNode<'_>) -> Fallible<Vec<&'a Operand>> {
    node.arity(2, 3)?;
    let mut operands = vec![node.input(0)?, node.input(1)?];
    operands.extend(node.optional(2));
    Ok(operands)
}

/// Input and weights, of one rank.
fn shapes(operands: &[&Operand]) -> Fallible<(Shape, Shape)> {
    let (x, w) = (operands[0].shape(), operands[1].shape());
    if x.rank() != w.rank() {
        return Err(malformed(format!("an input {x} with weights {w}")));
    }
    Ok((x, w))
}

pub(super) fn conv(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    convolution(b, node, &operands(node)?)
}

/// The convolution of an input with weights, and a bias if there are three operands, by the node's attributes.
pub(super) fn convolution(b: &mut Builder, node: &OnnxNode<'_>, operands: &[&Operand]) -> Fallible<Operand> {
    let groups = groups(node)?;
    let (x, w) = shapes(operands)?;
    let (mut window, auto) = window::read(node, x.rank(), w.dims().get(2..))?;
    window::set_same_pads(&mut window, auto, x);
    if u64::from(w.dim(1)) * u64::from(groups) != u64::from(x.dim(1)) || !w.dim(0).is_multiple_of(groups) {
        return Err(malformed(format!("an input {x} with weights {w} in {groups} groups")).at("group"));
    }
    let mut dims = vec![i64::from(x.dim(0)), i64::from(w.dim(0))];
    for a in 0..x.rank() - 2 {
        dims.push(window::output_extent(&window, a, x.dim(a + 2), false)?.into());
    }
    b.one(Primitive::Conv { window, groups }, operands, operands[0].elem(), shape_of(&dims)?)
}

pub(super) fn conv_transpose(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let (groups, operands) = (groups(node)?, operands(node)?);
    let (x, w) = shapes(&operands)?;
    let (mut window, auto) = window::read(node, x.rank(), w.dims().get(2..))?;
    if w.dim(0) != x.dim(1) || !x.dim(1).is_multiple_of(groups) {
        return Err(malformed(format!("an input {x} with weights {w} in {groups} groups")).at("group"));
    }
    let axes = x.rank() - 2;
    let extra = match node.ints("output_padding")? {
        Some(v) => window::numbers(v, axes, 0, "output_padding")?,
        None => vec![0; axes],
    };
    let wanted = match node.ints("output_shape")? {
        // Some exporters list batch and channels too.
        Some(v) if v.len() == axes + 2 => Some(window::numbers(&v[2..], axes, 1, "output_shape")?),
        Some(v) => Some(window::numbers(v, axes, 1, "output_shape")?),
        None => None,
    };
    let channels = u64::from(w.dim(1)) * u64::from(groups);
    let mut dims = vec![
        i64::from(x.dim(0)),
        i64::try_from(channels).map_err(|_| limit("too many channels"))?,
    ];
    for a in 0..axes {
        let (extent, stride) = (u64::from(x.dim(a + 2)), u64::from(window.stride[a]));
        let Some(before_last) = extent.checked_sub(1) else {
            return Err(malformed("an input of extent 0"));
        };
        let full = before_last * stride + u64::from(window.reach(a).unwrap_or(1)) + u64::from(extra[a]);
        let same = matches!(auto, AutoPad::SameUpper | AutoPad::SameLower);
        let output = match &wanted {
            Some(wanted) => Some(u64::from(wanted[a])),
            None if same => Some(extent * stride),
            None => None,
        };
        dims.push(if let Some(output) = output {
            // A result shorter than the output is filled up at its end (bias only), as by output padding.
            let (half, rest) = window::halves(full.saturating_sub(output));
            (window.pad_begin[a], window.pad_end[a]) = if auto == AutoPad::SameUpper { (half, rest) } else { (rest, half) };
            output as i64
        } else {
            let pads = u64::from(window.pad_begin[a]) + u64::from(window.pad_end[a]);
            full.checked_sub(pads)
                .filter(|&n| n > 0)
                .ok_or_else(|| malformed("larger than the result").at("pads"))? as i64
        });
    }
    b.one(
        Primitive::ConvTranspose { window, groups },
        &operands,
        operands[0].elem(),
        shape_of(&dims)?,
    )
}
