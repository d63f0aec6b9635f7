//! Operators that join, cut, pick and pad: Concat, Split, Slice, Gather, Pad.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed, unsupported};
use super::super::fold;
use super::super::host::{Elem, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::reshape::extents;
use crate::limits::MAX_RANK;
use crate::primitive::{PadMode, Primitive, Scalar};

pub(super) fn concat(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let parts = node.all_inputs()?;
    let first = parts[0];
    let axis = node.int("axis")?.ok_or_else(|| malformed("missing").at("axis"))?;
    let axis = OnnxNode::axis(axis, first.shape().rank(), "axis")?;
    let mut joined = 0i64;
    for part in &parts {
        if part.elem() != first.elem() || part.shape().with_dim(axis, first.shape().dim(axis)) != Some(first.shape()) {
            return Err(malformed(format!(
                "{} of {:?} cannot be joined to {} of {:?} along axis {axis}",
                part.shape(),
                part.elem(),
                first.shape(),
                first.elem()
            )));
        }
        joined += i64::from(part.shape().dim(axis));
    }
    let mut dims = extents(first.shape());
    dims[axis] = joined;
    b.concat(&parts, axis, shape_of(&dims)?)
}

/// Sizes are an attribute before operator set 13, an input since; without them the parts are equal
/// (since 18, the last may be smaller).
pub(super) fn split(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    let x = node.input(0)?;
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(0), x.shape().rank(), "axis")?;
    let extent = i64::from(x.shape().dim(axis));
    let count = node.output_count() as i64;
    let sizes = if node.opset < 13 {
        node.arity(1, 1)?;
        node.ints("split")?.map(<[i64]>::to_vec)
    } else {
        node.arity(1, 2)?;
        node.int_input(1, "split")?
    };
    let sizes = match (sizes, node.opset >= 18) {
        (Some(sizes), _) => sizes,
        (None, true) => {
            let n = node.int("num_outputs")?.unwrap_or(count);
            if n != count || n < 1 {
                return Err(malformed(format!("{n} of {count} outputs")).at("num_outputs"));
            }
            let size = extent / n + i64::from(extent % n != 0);
            (0..n).map(|i| (extent - i * size).clamp(0, size)).collect()
        }
        (None, false) => {
            if count < 1 || extent % count != 0 {
                return Err(malformed(format!("{extent} elements in {count} equal parts")).at("split"));
            }
            vec![extent / count; count as usize]
        }
    };
    let total = sizes.iter().try_fold(0i64, |n, &s| if s < 0 { None } else { n.checked_add(s) });
    if sizes.len() as i64 != count || total != Some(extent) {
        return Err(malformed(format!("{sizes:?} for {extent} elements and {count} outputs")).at("split"));
    }
    let rank = x.shape().rank();
    let mut parts = Vec::with_capacity(sizes.len());
    let mut at = 0;
    for (index, &size) in sizes.iter().enumerate() {
        let mut dims = extents(x.shape());
        dims[axis] = size;
        let mut start = vec![0; rank];
        start[axis] = if size == 0 { 0 } else { at };
        // A part without a name is nobody's; the input stands in its place.
        parts.push(if node.wants(index) {
            b.slice(x, start, vec![1; rank], shape_of(&dims)?)?
        } else {
            x.clone()
        });
        at += size;
    }
    Ok(parts)
}

/// Starts and ends beyond the input are cut to it; negative ones count from the end; steps may be negative.
pub(super) fn slice(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = node.input(0)?;
    let rank = x.shape().rank();
    let missing = |name: &'static str| move || malformed("missing").at(name);
    let (starts, ends, axes, steps) = if node.opset < 10 {
        node.arity(1, 1)?;
        (
            node.ints("starts")?.map(<[i64]>::to_vec).ok_or_else(missing("starts"))?,
            node.ints("ends")?.map(<[i64]>::to_vec).ok_or_else(missing("ends"))?,
            node.ints("axes")?.map(<[i64]>::to_vec),
            None,
        )
    } else {
        node.arity(3, 5)?;
        (
            node.int_input(1, "starts")?.ok_or_else(missing("starts"))?,
            node.int_input(2, "ends")?.ok_or_else(missing("ends"))?,
            node.int_input(3, "axes")?,
            node.int_input(4, "steps")?,
        )
    };
    let axes = match axes {
        Some(axes) => OnnxNode::axes(&axes, rank, "axes")?,
        None if starts.len() <= rank => (0..starts.len()).collect(),
        None => return Err(malformed("more than the input's axes").at("starts")),
    };
    let steps = steps.unwrap_or_else(|| vec![1; axes.len()]);
    if [starts.len(), ends.len(), steps.len()] != [axes.len(); 3] {
        return Err(malformed("starts, ends, axes and steps of different lengths"));
    }
    let (mut start, mut step, mut dims) = (vec![0; rank], vec![1; rank], extents(x.shape()));
    for (i, &axis) in axes.iter().enumerate() {
        let extent = dims[axis];
        let from_end = |v: i64| if v < 0 { v.saturating_add(extent) } else { v };
        let (first, stop) = (from_end(starts[i]), from_end(ends[i]));
        let length = match steps[i] {
            0 => return Err(malformed("a step of 0").at("steps")),
            s @ 1.. => {
                start[axis] = first.clamp(0, extent);
                let span = (stop.clamp(0, extent) - start[axis]).max(0);
                span / s + i64::from(span % s != 0)
            }
            s => {
                start[axis] = first.clamp(-1, extent - 1);
                let span = (start[axis] - stop.clamp(-1, extent - 1)).max(0);
                // `span` is at most the extent, so a step of i64::MIN needs no negation.
                let size = s.unsigned_abs().min(1 << 40) as i64;
                span / size + i64::from(span % size != 0)
            }
        };
        if length <= 1 {
            // The step over a single element says nothing and may be out of all bounds.
            step[axis] = 1;
        } else {
            step[axis] = steps[i];
        }
        if length == 0 {
            start[axis] = 0;
        }
        dims[axis] = length;
    }
    b.slice(x, start, step, shape_of(&dims)?)
}

pub(super) fn gather(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let rank = data.shape().rank();
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(0), rank, "axis")?;
    if !matches!(indices.elem(), Elem::I32 | Elem::I64) {
        return Err(malformed(format!("elements of {:?}", indices.elem())).at("indices"));
    }
    let extent = i64::from(data.shape().dim(axis));
    let mut dims = extents(data.shape());
    dims.splice(axis..=axis, extents(indices.shape()));
    let shape = shape_of(&dims)?;
    if let Some(known) = indices.host().and_then(|h| h.as_i64s()) {
        for &i in &known {
            fold::checked_index(i, extent)?;
        }
        // One position is a view.
        if let [only] = known[..] {
            let mut start = vec![0; rank];
            start[axis] = fold::checked_index(only, extent)?;
            let mut one = extents(data.shape());
            one[axis] = 1;
            let picked = b.slice(data, start, vec![1; rank], shape_of(&one)?)?;
            return b.reshape(&picked, shape);
        }
    }
    b.one(Primitive::Gather { axis: axis as u8 }, &[data, indices], data.elem(), shape)
}

/// Pads are an attribute before operator set 11, an input since. Negative pads cut the input first.
pub(super) fn pad(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let x = node.input(0)?;
    let rank = x.shape().rank();
    let mode = node.string("mode")?.unwrap_or("constant");
    let (pads, value, axes) = if node.opset < 11 {
        node.arity(1, 1)?;
        let pads = node.ints("pads")?.map(<[i64]>::to_vec);
        (pads, node.float("value")?.map(f64::from), None)
    } else {
        node.arity(2, 4)?;
        let value = node.float_input(2, "constant_value")?;
        let axes = if node.opset < 18 { None } else { node.int_input(3, "axes")? };
        (node.int_input(1, "pads")?, value.and_then(|v| v.first().copied()), axes)
    };
    let pads = pads.ok_or_else(|| malformed("missing").at("pads"))?;
    let axes = match axes {
        Some(axes) => OnnxNode::axes(&axes, rank, "axes")?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(malformed(format!("{} numbers for {} axes", pads.len(), axes.len())).at("pads"));
    }
    let value = value.unwrap_or(0.0);
    if !x.elem().is_float() && f64::from(value as f32) != value {
        return Err(unsupported(format!("the integer {value}, beyond 24 bits: Concat a constant of it instead")).at("constant_value"));
    }
    let mode = match mode {
        "constant" => PadMode::Constant(Scalar(value as f32)),
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        other => return Err(malformed(format!("`{other}`")).at("mode")),
    };
    let (mut start, mut cut, mut dims) = (vec![0; rank], extents(x.shape()), vec![0; rank]);
    let mut begin = [0i32; MAX_RANK];
    for (i, &axis) in axes.iter().enumerate() {
        let (before, after) = (pads[i], pads[axes.len() + i]);
        start[axis] = before.min(0).checked_neg().ok_or_else(|| limit("out of range").at("pads"))?;
        cut[axis] = cut[axis]
            .checked_sub(start[axis])
            .and_then(|n| n.checked_add(after.min(0)))
            .filter(|&n| n >= 0)
            .ok_or_else(|| malformed(format!("{before} and {after} cut more than axis {axis} has")).at("pads"))?;
        if cut[axis] == 0 {
            start[axis] = 0;
        }
        begin[axis] = i32::try_from(before.max(0)).map_err(|_| limit(format!("{before}")).at("pads"))?;
    }
    for axis in 0..rank {
        let after = axes.iter().position(|&a| a == axis).map_or(0, |i| pads[axes.len() + i].max(0));
        dims[axis] = cut[axis]
            .checked_add(i64::from(begin[axis]))
            .and_then(|n| n.checked_add(after))
            .ok_or_else(|| limit("out of range").at("pads"))?;
    }
    let kept = b.slice(x, start, vec![1; rank], shape_of(&cut)?)?;
    let shape = shape_of(&dims).map_err(|e| e.at("pads"))?;
    if shape == kept.shape() {
        return Ok(kept);
    }
    b.one(Primitive::Pad { mode, begin }, &[&kept], x.elem(), shape)
        .map_err(|e| e.at("pads"))
}
