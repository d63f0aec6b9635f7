//! Attention, as the two products and the softmax that it is.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::{Elem, Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use crate::planner::graph::ViewOp;
use crate::primitive::{Binary, Primitive, Unary};

/// `[B, H, S, D]` of an input of four axes, or of three with its heads in the last one.
fn heads(b: &mut Builder, x: &Operand, count: Option<i64>, name: &str) -> Fallible<Operand> {
    match (x.shape().rank(), count) {
        (4, _) => Ok(x.clone()),
        (3, Some(count)) => {
            let [n, s, d] = [0, 1, 2].map(|a| i64::from(x.shape().dim(a)));
            if count < 1 || d % count != 0 {
                return Err(malformed(format!("{d} features in {count} heads")).at(name));
            }
            let split = b.reshape(x, shape_of(&[n, s, count, d / count])?)?;
            b.transpose(&split, &[0, 2, 1, 3])
        }
        _ => Err(malformed(format!("an input {} without a number of heads", x.shape())).at(name)),
    }
}

/// Keys or values with every head repeated, so that there are as many as of queries.
fn repeated(b: &mut Builder, x: &Operand, count: i64) -> Fallible<Operand> {
    let [n, h, s, d] = [0, 1, 2, 3].map(|a| i64::from(x.shape().dim(a)));
    if h == count {
        return Ok(x.clone());
    }
    if h == 0 || count % h != 0 {
        return Err(malformed(format!("{count} heads of queries, {h} of keys")));
    }
    let one = b.reshape(x, shape_of(&[n, h, 1, s, d])?)?;
    let many = b.view(ViewOp::Broadcast, &one, shape_of(&[n, h, count / h, s, d])?)?;
    b.reshape(&many, shape_of(&[n, count, s, d])?)
}

/// Attention: `softmax(Q K' * scale + mask) V` for each head. Earlier keys and values, and outputs but the first, are refused.
pub(super) fn attention(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(3, 7)?;
    if (4..7).any(|i| node.optional(i).is_some()) {
        return Err(unsupported(
            "keys and values of earlier calls: export the network without a cache (use_cache=False), for whole sequences",
        )
        .at("past_key"));
    }
    if (1..node.output_count()).any(|i| node.wants(i)) {
        return Err(unsupported(
            "outputs but the first: a frame keeps no cache, and scores are not kept. Export the network without them",
        ));
    }
    node.ignore("softmax_precision");
    node.ignore("qk_matmul_output_mode");
    let cap = node.float("softcap")?.unwrap_or(0.0);
    let (q_heads, kv_heads) = (node.int("q_num_heads")?, node.int("kv_num_heads")?);
    let causal = node.flag("is_causal", false)?;
    let flat = node.input(0)?.shape().rank() == 3;
    if !node.input(0)?.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", node.input(0)?.elem())));
    }
    let q = heads(b, node.input(0)?, q_heads, "q_num_heads")?;
    let k = heads(b, node.input(1)?, kv_heads, "kv_num_heads")?;
    let v = heads(b, node.input(2)?, kv_heads, "kv_num_heads")?;
    let [n, h, s, d] = [0, 1, 2, 3].map(|a| i64::from(q.shape().dim(a)));
    let (k, v) = (repeated(b, &k, h)?, repeated(b, &v, h)?);
    let (l, e) = (i64::from(k.shape().dim(2)), i64::from(v.shape().dim(3)));
    if k.shape() != shape_of(&[n, h, l, d])? || v.shape() != shape_of(&[n, h, l, e])? {
        return Err(malformed(format!(
            "queries {}, keys {}, values {}",
            q.shape(),
            k.shape(),
            v.shape()
        )));
    }
    let scale = match node.float("scale")? {
        Some(scale) if scale != 0.0 => f64::from(scale),
        _ => 1.0 / (d.max(1) as f64).sqrt(),
    };
    let turned = b.transpose(&k, &[0, 1, 3, 2])?;
    let scores = b.one(Primitive::MatMul, &[&q, &turned], q.elem(), shape_of(&[n, h, s, l])?)?;
    let scale = b.scalar(q.elem(), scale)?;
    let mut scores = b.binary(Binary::Mul, &scores, &scale)?;
    if cap != 0.0 {
        let cap = b.scalar(q.elem(), f64::from(cap))?;
        scores = b.binary(Binary::Div, &scores, &cap)?;
        scores = super::elementwise::apply(b, Unary::Tanh, &scores)?;
        scores = b.binary(Binary::Mul, &scores, &cap)?;
    }
    if let Some(mask) = node.optional(3) {
        let mask = additive(b, mask, &q)?;
        scores = b.binary(Binary::Add, &scores, &mask)?;
    }
    if causal {
        let cells = (0..s).flat_map(|r| (0..l).map(move |c| if c <= r { 0.0 } else { f64::NEG_INFINITY }));
        let mask = Host::from_f64s(q.elem(), shape_of(&[s, l])?, cells.collect())?;
        let mask = b.constant(mask);
        scores = b.binary(Binary::Add, &scores, &mask)?;
    }
    if scores.shape() != shape_of(&[n, h, s, l])? {
        return Err(malformed(format!("a mask that widens the scores to {}", scores.shape())).at("attn_mask"));
    }
    let weights = b.one(Primitive::Softmax { axis: 3 }, &[&scores], scores.elem(), scores.shape())?;
    let mut y = b.one(Primitive::MatMul, &[&weights, &v], q.elem(), shape_of(&[n, h, s, e])?)?;
    if flat {
        y = b.transpose(&y, &[0, 2, 1, 3])?;
        y = b.reshape(&y, shape_of(&[n, s, h * e])?)?;
    }
    Ok(vec![y])
}

/// The mask as what is added to the scores: of truth values 0 where they hold, else minus infinity.
fn additive(b: &mut Builder, mask: &Operand, like: &Operand) -> Fallible<Operand> {
    if mask.elem() != Elem::Bool {
        return super::elementwise::convert(b, mask, like.elem());
    }
    let mask = super::elementwise::mask(b, mask)?;
    let mask = super::elementwise::convert(b, &mask, like.elem())?;
    // 0 and 1 less a half lie on both sides of 0: without end below, cut at 0 above.
    let half = b.scalar(like.elem(), 0.5)?;
    let endless = b.scalar(like.elem(), f64::INFINITY)?;
    let side = b.binary(Binary::Sub, &mask, &half)?;
    let side = b.binary(Binary::Mul, &side, &endless)?;
    let zero = b.scalar(like.elem(), 0.0)?;
    b.binary(Binary::Min, &side, &zero)
}
