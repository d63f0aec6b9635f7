//! Gemm, MatMul, Softmax, LogSoftmax.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::shape_of;
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::apply;
use super::reduce;
use super::reshape::{as_matrix, extents};
use crate::limits::MAX_RANK;
use crate::planner::graph::broadcast;
use crate::primitive::{Binary, Primitive, ReduceKind, Unary};
use crate::tensor::Shape;

/// `alpha * A' * B' + beta * C`; the plain product takes C as its bias.
pub(super) fn gemm(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 3)?;
    let (alpha, beta) = (node.float("alpha")?.unwrap_or(1.0), node.float("beta")?.unwrap_or(1.0));
    let mut factor = |index: usize, flag: &'static str| {
        let (x, transposed) = (node.input(index)?, node.int(flag)?.unwrap_or(0) != 0);
        if x.shape().rank() != 2 {
            return Err(malformed(format!("a matrix of shape {}", x.shape())));
        }
        if !x.elem().is_float() {
            return Err(unsupported(format!(
                "matrices of {:?}: Cast them to FLOAT, or take MatMulInteger for quantized ones",
                x.elem()
            )));
        }
        if transposed { b.transpose(x, &[1, 0]) } else { Ok(x.clone()) }
    };
    let (left, right) = (factor(0, "transA")?, factor(1, "transB")?);
    let (m, k, n) = (left.shape().dim(0), left.shape().dim(1), right.shape().dim(1));
    if right.shape().dim(0) != k {
        return Err(malformed(format!("matrices {} and {}", left.shape(), right.shape())));
    }
    let shape = shape_of(&[m.into(), n.into()])?;
    let elem = left.elem();
    let mut bias = node.optional(2).filter(|_| beta != 0.0).cloned();
    if let Some(c) = &mut bias {
        if broadcast(c.shape(), shape) != Some(shape) {
            return Err(malformed(format!("shape {} for a result {shape}", c.shape())).at("C"));
        }
        if beta != 1.0 {
            let beta = b.scalar(elem, f64::from(beta))?;
            *c = b.binary(Binary::Mul, c, &beta)?;
        }
    }
    if alpha == 1.0 {
        let mut operands = vec![left, right];
        if let Some(c) = bias {
            operands.push(b.broadcast(&c, shape)?);
        }
        return b.one(Primitive::MatMul, &operands.iter().collect::<Vec<_>>(), elem, shape);
    }
    let product = b.one(Primitive::MatMul, &[&left, &right], elem, shape)?;
    let alpha = b.scalar(elem, f64::from(alpha))?;
    let scaled = b.binary(Binary::Mul, &product, &alpha)?;
    match bias {
        Some(c) => b.binary(Binary::Add, &scaled, &c),
        None => Ok(scaled),
    }
}

/// NumPy's matmul: vectors count as a row on the left and a column on the right, leading axes are broadcast.
pub(super) fn mat_mul(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    product(b, node.input(0)?, node.input(1)?)
}

/// The product of two operands, each a vector, a matrix or several.
pub(super) fn product(b: &mut Builder, a: &Operand, w: &Operand) -> Fallible<Operand> {
    let (a_shape, w_shape) = (a.shape(), w.shape());
    if a_shape.rank() == 0 || w_shape.rank() == 0 {
        return Err(malformed("a scalar operand"));
    }
    if !a.elem().is_float() {
        return Err(unsupported(format!(
            "matrices of {:?}: Cast them to FLOAT, or take MatMulInteger for quantized ones",
            a.elem()
        )));
    }
    let (mut left, mut right) = (extents(a_shape), extents(w_shape));
    if left.len() == 1 {
        left.insert(0, 1);
    }
    if right.len() == 1 {
        right.push(1);
    }
    let (m, k) = (left[left.len() - 2], left[left.len() - 1]);
    let (k2, n) = (right[right.len() - 2], right[right.len() - 1]);
    if k != k2 {
        return Err(malformed(format!("operands {a_shape} and {w_shape}")));
    }
    let batch_of = |dims: &[i64]| shape_of(&dims[..dims.len() - 2]);
    let batch = broadcast(batch_of(&left)?, batch_of(&right)?).ok_or_else(|| malformed(format!("operands {a_shape} and {w_shape}")))?;
    let full = |rows: i64, columns: i64| {
        let mut dims = extents(batch);
        dims.extend([rows, columns]);
        shape_of(&dims)
    };
    let matrix = b.reshape(a, shape_of(&left)?)?;
    let matrix = b.broadcast(&matrix, full(m, k)?)?;
    let other = b.reshape(w, shape_of(&right)?)?;
    let other = b.broadcast(&other, full(k, n)?)?;
    let product = b.one(Primitive::MatMul, &[&matrix, &other], a.elem(), full(m, n)?)?;
    let mut dims = extents(batch);
    dims.extend((a_shape.rank() > 1).then_some(m));
    dims.extend((w_shape.rank() > 1).then_some(n));
    b.reshape(&product, shape_of(&dims)?)
}

/// Softmax along an axis since operator set 13; before, over all axes from `axis` on as one.
pub(super) fn softmax(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let shape = x.shape();
    let flattens = node.opset < 13;
    let axis = node.int("axis")?.unwrap_or(if flattens { 1 } else { -1 });
    if flattens && axis == shape.rank() as i64 {
        // Runs of one element each.
        return rows(b, x, as_matrix(shape, axis)?);
    }
    let axis = OnnxNode::axis(axis, shape.rank(), "axis")?;
    let trailing = shape.dims()[axis + 1..].iter().all(|&d| d == 1);
    if !flattens || trailing {
        debug_assert!(axis < MAX_RANK);
        return b.one(Primitive::Softmax { axis: axis as u8 }, &[x], x.elem(), shape);
    }
    rows(b, x, as_matrix(shape, axis as i64)?)
}

/// LogSoftmax: the logarithm of the sum is taken off, not the logarithm of the quotient, which may have become 0.
pub(super) fn log_softmax(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    if !x.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    let rank = x.shape().rank();
    let flattens = node.opset < 13;
    let axis = node.int("axis")?.unwrap_or(if flattens { 1 } else { -1 });
    let axes: Vec<usize> = if flattens && axis == rank as i64 {
        vec![]
    } else {
        let axis = OnnxNode::axis(axis, rank, "axis")?;
        (axis..if flattens { rank } else { axis + 1 }).collect()
    };
    let greatest = reduce::over(b, x, ReduceKind::Max, &axes)?;
    let below = b.binary(Binary::Sub, x, &greatest)?;
    let powers = apply(b, Unary::Exp, &below)?;
    let sum = reduce::over(b, &powers, ReduceKind::Sum, &axes)?;
    let sum = apply(b, Unary::Log, &sum)?;
    b.binary(Binary::Sub, &below, &sum)
}

/// Softmax of the rows of `x` seen as a matrix.
fn rows(b: &mut Builder, x: &Operand, runs: Shape) -> Fallible<Operand> {
    let flat = b.reshape(x, runs)?;
    let result = b.one(Primitive::Softmax { axis: 1 }, &[&flat], x.elem(), runs)?;
    b.reshape(&result, x.shape())
}
