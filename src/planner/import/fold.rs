//! Evaluation of primitives on constants while importing.

use super::error::{Fallible, malformed};
use super::host::{Elem, Host};
use crate::backend::cpu::eval::eval;
use crate::primitive::{Primitive, Unary};
use crate::tensor::{DType, Layout, Shape, Tensor};

/// An upper bound of the multiplications (or reads) that evaluating the primitive on these constants takes.
pub(super) fn work(primitive: &Primitive, inputs: &[&Host], outputs: &[(Elem, Shape)]) -> u64 {
    let results: u64 = outputs.iter().map(|(_, s)| s.elements()).sum();
    let read: u64 = inputs.iter().map(|x| x.shape().elements()).sum();
    let per_result = match primitive {
        // Every result reads at most as many weights as there are.
        Primitive::Conv { .. } | Primitive::ConvTranspose { .. } => inputs.get(1).map_or(0, |w| w.shape().elements()),
        Primitive::Lstm { .. } => inputs.get(1).map_or(0, |r| u64::from(r.shape().dim(0))),
        Primitive::MatMul => u64::from(inputs.first().map_or(0, |a| a.shape().dims().last().copied().unwrap_or(0))),
        Primitive::Pool { window, .. } => window.kernel.iter().fold(1, |n: u64, &k| n.saturating_mul(u64::from(k))),
        // A widened filter looks at the whole input along each axis at most.
        Primitive::Resize(_) => read.max(64),
        _ => 1,
    };
    results.saturating_mul(per_result).saturating_add(read)
}

/// The primitive's results on constants; `None` where it cannot be evaluated here and has to stay a node.
pub(super) fn evaluate(primitive: &Primitive, inputs: &[&Host], outputs: &[(Elem, Shape)]) -> Fallible<Option<Vec<Host>>> {
    if let Some(host) = wide(primitive, inputs, outputs)? {
        return Ok(Some(vec![host]));
    }
    let tensors = inputs.iter().map(|x| x.narrowed()).collect::<Fallible<Vec<_>>>()?;
    let tensors: Vec<&Tensor> = tensors.iter().map(|t| t.as_ref()).collect();
    let stored: Vec<(DType, Shape)> = outputs.iter().map(|(e, s)| Ok((e.stored()?, *s))).collect::<Fallible<_>>()?;
    let ins: Vec<_> = tensors.iter().map(|t| (t.dtype(), t.shape())).collect();
    if let Err(e) = primitive.check(&ins, &stored) {
        return Err(malformed(format!("{e}: {ins:?} -> {stored:?}")));
    }
    let Ok(results) = eval(primitive, &tensors, &stored) else {
        return Ok(None);
    };
    let widen = |(tensor, (elem, _)): (Tensor, &(Elem, Shape))| Host::Tensor(tensor.into()).cast(*elem);
    results.into_iter().zip(outputs).map(widen).collect::<Fallible<Vec<_>>>().map(Some)
}

/// What is computed without narrowing: arithmetic on wide constants, conversions, look-ups.
fn wide(primitive: &Primitive, inputs: &[&Host], outputs: &[(Elem, Shape)]) -> Fallible<Option<Host>> {
    let Some(&(elem, shape)) = outputs.first() else {
        return Ok(None);
    };
    match (primitive, inputs) {
        (Primitive::Binary(kind), [a, b]) if a.shape() == b.shape() => Host::wide_binary(*kind, a, b).transpose(),
        (Primitive::Unary(Unary::Neg), [Host::I64(s, v)]) => Host::i64s(*s, v.iter().map(|x| x.wrapping_neg()).collect()).map(Some),
        (Primitive::Copy, [x]) => x.cast(elem).map(Some),
        (Primitive::Gather { axis }, [data, indices]) => gather(data, indices, usize::from(*axis), shape).map(Some),
        _ => Ok(None),
    }
}

/// Elements of `data` along `axis`; negative indices count from the end, others outside are an error.
fn gather(data: &Host, indices: &Host, axis: usize, shape: Shape) -> Fallible<Host> {
    let source = data.shape();
    if axis >= source.rank() {
        return Err(malformed("the axis does not exist"));
    }
    let extent = i64::from(source.dim(axis));
    let indices = indices.as_i64s().ok_or_else(|| malformed("indices that are no integers"))?;
    let one = source.with_dim(axis, 1).ok_or_else(|| malformed("data too large"))?;
    let base = Layout::contiguous(source);
    let picked = Layout::new(one, base.strides()).ok_or_else(|| malformed("data too large"))?;
    let mut parts = Vec::with_capacity(indices.len());
    for i in indices {
        let at = checked_index(i, extent)?;
        parts.push(data.strided(&picked, at * base.stride(axis))?);
    }
    let joined = source
        .with_dim(axis, parts.len() as u32)
        .ok_or_else(|| malformed("result too large"))?;
    let result = if parts.is_empty() {
        data.strided(&Layout::contiguous(joined), 0)?
    } else {
        Host::concat(&parts, axis, joined)?
    };
    result.strided(
        &Layout::contiguous(joined)
            .reshaped(shape)
            .ok_or_else(|| malformed("indices of another shape"))?,
        0,
    )
}

/// A Gather index of an axis of `extent` elements, counted from the start.
pub(super) fn checked_index(index: i64, extent: i64) -> Fallible<i64> {
    let at = if index < 0 { index.saturating_add(extent) } else { index };
    if (0..extent).contains(&at) {
        Ok(at)
    } else {
        Err(malformed(format!("index {index} of an axis of {extent} elements")).at("indices"))
    }
}
