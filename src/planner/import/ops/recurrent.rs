//! Recurrent layers: LSTM, GRU and RNN.
//!
//! What does not depend on the step before (inputs times weights, and the biases) is one matrix product over all steps. The
//! rest of an LSTM in its usual form is the primitive [`Primitive::Lstm`], of a GRU that resets behind its recurrence
//! [`Primitive::Gru`], see `gates`; every other layer is unrolled step by step, see `steps`.

mod gates;
mod layer;
mod steps;

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use crate::primitive::Primitive;
use layer::{Direction, Layer};
use steps::{Function, Masks};

/// Steps up to which a layer is unrolled.
const MAX_UNROLLED: u32 = 256;

/// An LSTM: Y, Y_h and Y_c.
pub(super) fn lstm(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(3, 8)?;
    let layer = Layer::read(b, node, 4)?;
    if node.flag("input_forget", false)? {
        return Err(unsupported(
            "coupled gates: export the layer with a forget gate of its own, whose weights are the input gate's with the other sign",
        )
        .at("input_forget"));
    }
    let usual = [Function::Sigmoid, Function::Tanh, Function::Tanh];
    let functions = steps::functions(node, &usual, layer.directions.len())?;
    let masks = Masks::read(node, &layer)?;
    let (mut ys, mut hs, mut cs) = (vec![], vec![], vec![]);
    for (index, &direction) in layer.directions.iter().enumerate() {
        let weights = layer.weights(b, node, index)?;
        let gates = layer.projected(b, &weights, true)?;
        let h = layer.state(b, node, 5, "initial_h", index)?;
        let c = layer.state(b, node, 6, "initial_c", index)?;
        let own = &functions[3 * index..3 * index + 3];
        if own == usual && masks.is_none() && node.optional(7).is_none() {
            let mut operands = vec![gates, weights.recurrence];
            if h.is_some() || c.is_some() {
                operands.push(layer.or_zeros(b, h)?);
                operands.push(layer.or_zeros(b, c)?);
            }
            let reverse = direction == Direction::Reverse;
            let outputs = [(layer.elem, layer.output_shape()?), (layer.elem, layer.state_shape()?)];
            let outputs = &outputs[..if node.wants(2) { 2 } else { 1 }];
            let mut made = b
                .primitive(Primitive::Lstm { reverse }, &operands.iter().collect::<Vec<_>>(), outputs)?
                .into_iter();
            let y = made.next().ok_or_else(|| malformed("no result"))?;
            hs.push(layer.last(b, &y, direction)?);
            ys.push(y);
            cs.extend(made);
            continue;
        }
        layer.limited(MAX_UNROLLED)?;
        let peepholes = layer.peepholes(b, node, index)?;
        let states = [layer.or_zeros(b, h)?, layer.or_zeros(b, c)?];
        let across = b.transpose(&weights.recurrence, &[1, 0])?;
        let unrolled = steps::unroll(b, &layer, &gates, direction, states, masks.as_ref(), |b, x, [h, c]| {
            steps::lstm(b, &layer, x, [h, c], &across, peepholes.as_ref(), own)
        })?;
        let (y, [h, c]) = unrolled;
        ys.push(y);
        hs.push(h);
        cs.push(c);
    }
    let mut outputs = vec![layer.join(b, &ys)?, layer.join_states(b, &hs)?];
    if node.wants(2) {
        outputs.push(layer.join_states(b, &cs)?);
    }
    Ok(outputs)
}

/// A GRU: Y and Y_h.
pub(super) fn gru(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(3, 6)?;
    let layer = Layer::read(b, node, 3)?;
    let reset_after = node.flag("linear_before_reset", false)?;
    let usual = [Function::Sigmoid, Function::Tanh];
    let functions = steps::functions(node, &usual, layer.directions.len())?;
    if reset_after && functions.chunks_exact(2).all(|own| own == usual) && Masks::read(node, &layer)?.is_none() {
        return whole_gru(b, node, &layer);
    }
    gated(b, node, &layer, |b, index| {
        let weights = layer.weights(b, node, index)?;
        // The recurrent bias of the hidden gate is inside what the reset gate multiplies.
        let gates = layer.projected(b, &weights, false)?;
        let own = functions[2 * index..2 * index + 2].to_vec();
        let step = steps::Gru::new(b, &layer, &weights, reset_after, own)?;
        let layer = &layer;
        let advance = move |b: &mut Builder, x: &Operand, [h]: [&Operand; 1]| Ok([step.step(b, layer, x, h)?]);
        Ok((gates, Box::new(advance) as Step<'_>))
    })
}

/// A GRU in its usual form.
fn whole_gru(b: &mut Builder, node: &OnnxNode<'_>, layer: &Layer) -> Fallible<Vec<Operand>> {
    let (mut ys, mut hs) = (vec![], vec![]);
    for (index, &direction) in layer.directions.iter().enumerate() {
        let weights = layer.weights(b, node, index)?;
        let (gates, recurrence) = gates::four(b, layer, &weights)?;
        let h = layer.state(b, node, 5, "initial_h", index)?;
        let reverse = direction == Direction::Reverse;
        let operands: Vec<&Operand> = [&gates, &recurrence].into_iter().chain(&h).collect();
        let y = b.one(Primitive::Gru { reverse }, &operands, layer.elem, layer.output_shape()?)?;
        hs.push(layer.last(b, &y, direction)?);
        ys.push(y);
    }
    Ok(vec![layer.join(b, &ys)?, layer.join_states(b, &hs)?])
}

/// A plain recurrent layer: Y and Y_h.
pub(super) fn rnn(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(3, 6)?;
    let layer = Layer::read(b, node, 1)?;
    let functions = steps::functions(node, &[Function::Tanh], layer.directions.len())?;
    gated(b, node, &layer, |b, index| {
        let weights = layer.weights(b, node, index)?;
        let gates = layer.projected(b, &weights, true)?;
        let across = b.transpose(&weights.recurrence, &[1, 0])?;
        let function = functions[index];
        let layer = &layer;
        let advance = move |b: &mut Builder, x: &Operand, [h]: [&Operand; 1]| {
            let sum = layer.recurrent(b, h, &across, Some(x))?;
            Ok([function.apply(b, &sum)?])
        };
        Ok((gates, Box::new(advance) as Step<'_>))
    })
}

/// From a step's projected inputs and h to the next h.
type Step<'s> = Box<dyn Fn(&mut Builder, &Operand, [&Operand; 1]) -> Fallible<[Operand; 1]> + 's>;

/// The frame of the layers with h alone: `direction` gives, for each, the projected inputs and the step.
fn gated<'s>(
    b: &mut Builder,
    node: &OnnxNode<'_>,
    layer: &Layer,
    direction: impl Fn(&mut Builder, usize) -> Fallible<(Operand, Step<'s>)>,
) -> Fallible<Vec<Operand>> {
    layer.limited(MAX_UNROLLED)?;
    let masks = Masks::read(node, layer)?;
    let (mut ys, mut hs) = (vec![], vec![]);
    for (index, &way) in layer.directions.iter().enumerate() {
        let (gates, step) = direction(b, index)?;
        let h = layer.state(b, node, 5, "initial_h", index)?;
        let h = layer.or_zeros(b, h)?;
        let (y, [h]) = steps::unroll(b, layer, &gates, way, [h], masks.as_ref(), step)?;
        ys.push(y);
        hs.push(h);
    }
    Ok(vec![layer.join(b, &ys)?, layer.join_states(b, &hs)?])
}
