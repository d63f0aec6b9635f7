//! RotaryEmbedding: pairs of features turned by the angles of their positions (Su et al. 2021).

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed};
use super::super::host::{Elem, Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::reshape::extents;
use crate::primitive::{Binary, Primitive};

/// The node's inputs by name, as far as they are caches.
const CACHES: [&str; 3] = ["", "cos_cache", "sin_cache"];

/// `count` features of the last axis from `start` on, in steps of `step`.
fn features(b: &mut Builder, x: &Operand, start: i64, step: i64, count: i64) -> Fallible<Operand> {
    let (rank, mut dims) = (x.shape().rank(), extents(x.shape()));
    let (mut starts, mut steps) = (vec![0; rank], vec![1; rank]);
    (starts[rank - 1], steps[rank - 1], dims[rank - 1]) = (start, step, count);
    b.slice(x, starts, steps, shape_of(&dims)?)
}

/// A cache's rows for `[batch, steps]`, each of `half` cosines or sines: by position where there are positions.
fn rows(b: &mut Builder, node: &OnnxNode<'_>, index: usize, [batch, steps, half]: [i64; 3]) -> Fallible<Operand> {
    let (cache, whole) = (node.input(index)?, shape_of(&[batch, steps, half])?);
    let wrong = |what: &str| malformed(format!("shape {} where {what} is expected", cache.shape())).at(CACHES[index]);
    let Some(positions) = node.optional(3) else {
        return if cache.shape() == whole {
            Ok(cache.clone())
        } else {
            Err(wrong(&whole.to_string()))
        };
    };
    if !matches!(positions.elem(), Elem::I32 | Elem::I64) || positions.shape() != shape_of(&[batch, steps])? {
        return Err(malformed(format!("{:?} of shape {}", positions.elem(), positions.shape())).at("position_ids"));
    }
    if cache.shape().rank() != 2 || i64::from(cache.shape().dim(1)) != half {
        return Err(wrong(&format!("[positions, {half}]")));
    }
    let count = i64::from(cache.shape().dim(0));
    let known = positions.host().and_then(Host::as_i64s).unwrap_or_default();
    if let Some(beyond) = known.iter().find(|position| !(0..count).contains(*position)) {
        return Err(malformed(format!("position {beyond} of {count}")).at("position_ids"));
    }
    b.one(Primitive::Gather { axis: 0 }, &[cache, positions], cache.elem(), whole)
}

/// RotaryEmbedding: of each pair `(a, b)` of features `(a cos - b sin, a sin + b cos)`. Pairs are neighbours where `interleaved`, else
/// of the two halves of what is turned; features behind `rotary_embedding_dim` stay.
pub(super) fn rotary_embedding(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 4)?;
    let x = node.input(0)?;
    let interleaved = node.flag("interleaved", false)?;
    let (heads, turned) = (node.int("num_heads")?.unwrap_or(0), node.int("rotary_embedding_dim")?.unwrap_or(0));
    if !x.elem().is_float() {
        return Err(malformed(format!("elements of {:?}", x.elem())));
    }
    // The axis of heads stands behind that of steps, or in front of it; the caches' rows are the same for all heads.
    let (wide, across) = match (&extents(x.shape())[..], heads) {
        (&[n, h, s, _], heads) => {
            if heads != 0 && heads != h {
                return Err(malformed(format!("{heads} of an input of {h} heads")).at("num_heads"));
            }
            (x.clone(), [n, 1, s])
        }
        (&[n, s, d], 1..) if d % heads == 0 => (b.reshape(x, shape_of(&[n, s, heads, d / heads])?)?, [n, s, 1]),
        (&[_, _, d], _) => return Err(malformed(format!("{d} features in {heads} heads")).at("num_heads")),
        _ => return Err(malformed(format!("an input {}: 3 or 4 axes are turned", x.shape()))),
    };
    let dims = extents(wide.shape());
    let size = dims[3];
    let turned = if turned == 0 { size } else { turned };
    if turned < 2 || turned > size || turned % 2 != 0 {
        return Err(malformed(format!("{turned} of {size} features, where an even number is turned")).at("rotary_embedding_dim"));
    }
    let half = turned / 2;
    let steps = across[1] * across[2];
    let mut angles = Vec::with_capacity(2);
    for index in [1, 2] {
        if node.input(index)?.elem() != x.elem() {
            return Err(malformed(format!("{:?} for {:?}", node.input(index)?.elem(), x.elem())).at(CACHES[index]));
        }
        let rows = rows(b, node, index, [across[0], steps, half])?;
        angles.push(b.reshape(&rows, shape_of(&[across[0], across[1], across[2], half])?)?);
    }
    let (cos, sin) = (&angles[0], &angles[1]);
    let (first, second) = match interleaved {
        true => (features(b, &wide, 0, 2, half)?, features(b, &wide, 1, 2, half)?),
        false => (features(b, &wide, 0, 1, half)?, features(b, &wide, half, 1, half)?),
    };
    let mut product = |x: &Operand, by: &Operand| b.binary(Binary::Mul, x, by);
    let (first_cos, second_sin) = (product(&first, cos)?, product(&second, sin)?);
    let (first_sin, second_cos) = (product(&first, sin)?, product(&second, cos)?);
    let real = b.binary(Binary::Sub, &first_cos, &second_sin)?;
    let imaginary = b.binary(Binary::Add, &first_sin, &second_cos)?;
    let [n, one, two] = [dims[0], dims[1], dims[2]];
    let mut result = match interleaved {
        true => {
            let column = shape_of(&[n, one, two, half, 1])?;
            let (real, imaginary) = (b.reshape(&real, column)?, b.reshape(&imaginary, column)?);
            let pairs = b.concat(&[&real, &imaginary], 4, shape_of(&[n, one, two, half, 2])?)?;
            b.reshape(&pairs, shape_of(&[n, one, two, turned])?)?
        }
        false => b.concat(&[&real, &imaginary], 3, shape_of(&[n, one, two, turned])?)?,
    };
    if turned < size {
        let rest = features(b, &wide, turned, 1, size - turned)?;
        result = b.concat(&[&result, &rest], 3, wide.shape())?;
    }
    b.reshape(&result, x.shape())
}
