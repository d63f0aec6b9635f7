//! Sequences of tensors whose places are known while importing: they are lists of operands, of which no plan knows.

use super::builder::Builder;
use super::error::{Fallible, limit, malformed, unsupported};
use super::host::{Host, shape_of};
use super::node::OnnxNode;
use super::values::Operand;
use crate::limits::MAX_OPERATORS;
use crate::tensor::Shape;

/// What a node of sequences gives.
pub(super) enum Given {
    /// A sequence.
    Sequence(Vec<Operand>),
    /// A tensor.
    Tensor(Operand),
}

/// True for operators that [`import`] knows.
pub(super) fn is_one(op: &str) -> bool {
    matches!(
        op,
        "SequenceEmpty"
            | "SequenceConstruct"
            | "SequenceInsert"
            | "SequenceErase"
            | "SequenceAt"
            | "SequenceLength"
            | "SplitToSequence"
            | "ConcatFromSequence"
    )
}

/// Imports a node that makes or reads a sequence; `sequence` is its first input, where that is one.
pub(super) fn import(b: &mut Builder, node: &OnnxNode<'_>, sequence: Option<&[Operand]>) -> Fallible<Given> {
    let parts = || sequence.ok_or_else(|| malformed("its first input is no sequence"));
    Ok(match node.op {
        "SequenceEmpty" => {
            node.arity(0, 0)?;
            // The tensors that come into it bring their own type.
            node.ignore("dtype");
            Given::Sequence(Vec::new())
        }
        "SequenceConstruct" => Given::Sequence(node.all_inputs()?.into_iter().cloned().collect()),
        "SequenceInsert" => {
            node.arity(2, 3)?;
            let mut parts = parts()?.to_vec();
            let place = place(node, 2, parts.len() + 1)?.unwrap_or(parts.len());
            parts.insert(place, node.input(1)?.clone());
            Given::Sequence(parts)
        }
        "SequenceErase" => {
            node.arity(1, 2)?;
            let mut parts = parts()?.to_vec();
            let place = place(node, 1, parts.len())?.or(parts.len().checked_sub(1));
            parts.remove(place.ok_or_else(|| malformed("an empty sequence"))?);
            Given::Sequence(parts)
        }
        "SequenceAt" => {
            node.arity(2, 2)?;
            let parts = parts()?;
            let place = place(node, 1, parts.len())?.ok_or_else(|| malformed("missing").at("position"))?;
            Given::Tensor(parts[place].clone())
        }
        "SequenceLength" => {
            node.arity(1, 1)?;
            let length = Host::i64s(Shape::SCALAR, vec![parts()?.len() as i64])?;
            Given::Tensor(b.constant(length))
        }
        "SplitToSequence" => Given::Sequence(split(b, node)?),
        _ => Given::Tensor(join(b, node, parts()?)?),
    })
}

/// The place in a sequence of `length` places that input `index` names, where it is there.
fn place(node: &OnnxNode<'_>, index: usize, length: usize) -> Fallible<Option<usize>> {
    let Some(place) = node.int_input(index, "position")? else {
        return Ok(None);
    };
    let &[place] = place.as_slice() else {
        return Err(malformed("not one number").at("position"));
    };
    OnnxNode::axis(place, length, "position")
        .map(Some)
        .map_err(|_| malformed(format!("place {place} of a sequence with {length}")).at("position"))
}

/// SplitToSequence: parts of the given sizes, of one size, or of single elements, which then may lose the axis.
fn split(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(1, 2)?;
    let x = node.input(0)?;
    let rank = x.shape().rank();
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(0), rank, "axis")?;
    let keeps = node.flag("keepdims", true)?;
    let extent = i64::from(x.shape().dim(axis));
    let too_many = |count: i64| {
        if count > MAX_OPERATORS as i64 {
            return Err(limit(format!("{count} parts (at most {MAX_OPERATORS})")).at("split"));
        }
        Ok(())
    };
    let sizes = match (node.int_input(1, "split")?, node.optional(1)) {
        (Some(sizes), Some(given)) if given.shape().rank() > 0 => sizes,
        (Some(size), _) => match size[..] {
            [size] if size > 0 => {
                too_many(extent / size)?;
                (0..extent).step_by(size as usize).map(|at| size.min(extent - at)).collect()
            }
            _ => return Err(malformed(format!("{size:?}")).at("split")),
        },
        (None, _) => {
            too_many(extent)?;
            vec![1; extent as usize]
        }
    };
    too_many(sizes.len() as i64)?;
    let total = sizes.iter().try_fold(0i64, |n, &s| if s < 0 { None } else { n.checked_add(s) });
    if total != Some(extent) {
        return Err(malformed(format!("{} parts for {extent} elements", sizes.len())).at("split"));
    }
    let mut parts = Vec::with_capacity(sizes.len());
    let mut at = 0;
    for size in sizes {
        let mut dims: Vec<i64> = x.shape().dims().iter().map(|&d| i64::from(d)).collect();
        dims[axis] = size;
        let mut start = vec![0; rank];
        start[axis] = if size == 0 { 0 } else { at };
        let part = b.slice(x, start, vec![1; rank], shape_of(&dims)?)?;
        parts.push(if keeps || node.optional(1).is_some() {
            part
        } else {
            dims.remove(axis);
            b.reshape(&part, shape_of(&dims)?)?
        });
        at += size;
    }
    Ok(parts)
}

/// ConcatFromSequence: the tensors side by side along an axis, or along a new one.
fn join(b: &mut Builder, node: &OnnxNode<'_>, parts: &[Operand]) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let first = parts.first().ok_or_else(|| malformed("an empty sequence"))?;
    let new = node.flag("new_axis", false)?;
    let axis = node.int("axis")?.ok_or_else(|| malformed("missing").at("axis"))?;
    let axis = OnnxNode::axis(axis, first.shape().rank() + usize::from(new), "axis")?;
    let mut pieces = Vec::with_capacity(parts.len());
    for part in parts {
        let mut dims: Vec<i64> = part.shape().dims().iter().map(|&d| i64::from(d)).collect();
        if new {
            dims.insert(axis, 1);
        }
        pieces.push(b.reshape(part, shape_of(&dims)?)?);
    }
    let shape = pieces[0].shape();
    let mut joined = 0i64;
    for piece in &pieces {
        if piece.elem() != first.elem() || piece.shape().with_dim(axis, shape.dim(axis)) != Some(shape) {
            return Err(malformed(format!(
                "{} of {:?} cannot be joined to {shape} of {:?}",
                piece.shape(),
                piece.elem(),
                first.elem()
            )));
        }
        joined += i64::from(piece.shape().dim(axis));
    }
    let mut dims: Vec<i64> = shape.dims().iter().map(|&d| i64::from(d)).collect();
    dims[axis] = joined;
    b.concat(&pieces.iter().collect::<Vec<_>>(), axis, shape_of(&dims)?)
}

/// Why an operator that knows tensors alone does not take a sequence.
pub(super) fn refused(name: &str) -> super::error::Reason {
    unsupported(format!(
        "reads the sequence `{name}`: sequences are imported where SequenceAt or ConcatFromSequence makes tensors of them again"
    ))
}
