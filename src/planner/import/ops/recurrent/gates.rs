//! The three gates z, r, h of a GRU as the four z, r, n, x of [`crate::primitive::Primitive::Gru`]: of the hidden gate, n is what
//! the reset gate multiplies, and x the rest.

use super::super::super::builder::Builder;
use super::super::super::error::Fallible;
use super::super::super::host::shape_of;
use super::super::super::values::Operand;
use super::layer::{Layer, Weights};
use crate::primitive::Binary;

/// The pre-activations `[T, B, 4H]` of one direction, and the recurrent weights `[4H, H]`.
pub(super) fn four(b: &mut Builder, layer: &Layer, weights: &Weights) -> Fallible<(Operand, Operand)> {
    let n = i64::from(layer.hidden);
    let inputs = i64::from(weights.inputs.shape().dim(0));
    let none = layer.zeros(b, shape_of(&[inputs, n])?)?;
    let across = {
        let both = b.slice(&weights.inputs, vec![0, 0], vec![1, 1], shape_of(&[inputs, 2 * n])?)?;
        let own = b.slice(&weights.inputs, vec![0, 2 * n], vec![1, 1], shape_of(&[inputs, n])?)?;
        b.concat(&[&both, &none, &own], 1, shape_of(&[inputs, 4 * n])?)?
    };
    let bias = match &weights.biases {
        None => None,
        Some([input, recurrent]) => {
            let mut part = |of: &Operand, from: i64, count: i64| b.slice(of, vec![from], vec![1], shape_of(&[count])?);
            let gates = [part(input, 0, 2 * n)?, part(recurrent, 0, 2 * n)?];
            let (hidden, own) = (part(recurrent, 2 * n, n)?, part(input, 2 * n, n)?);
            let gates = b.binary(Binary::Add, &gates[0], &gates[1])?;
            Some(b.concat(&[&gates, &hidden, &own], 0, shape_of(&[4 * n])?)?)
        }
    };
    let none = layer.zeros(b, shape_of(&[n, n])?)?;
    let recurrence = b.concat(&[&weights.recurrence, &none], 0, shape_of(&[4 * n, n])?)?;
    Ok((layer.project(b, &across, bias.as_ref())?, recurrence))
}
