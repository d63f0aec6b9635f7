//! What every convolution is compiled from, whichever way it is computed.

use super::Context;
use super::site::{Pixels, Site};
use super::tail::Tail;
use crate::plan::format::{Operand, Operator, View};
use crate::primitive::Window;

/// The resolved operands of a convolution over channels-last images.
pub struct Parts<'o> {
    /// The input.
    pub x: Pixels,
    /// The output.
    pub out: Pixels,
    /// The weights, to be packed.
    pub weights: &'o View,
    /// The bias, if there is one.
    pub bias: Option<Vec<f32>>,
    /// What follows, fused.
    pub tail: Tail,
}

impl<'o> Parts<'o> {
    /// The parts of an operator that begins with a convolution of `window`; `None` if they do not have the form.
    pub fn of(context: &Context<'_>, operator: &'o Operator, window: &Window) -> Option<Parts<'o>> {
        if window.axes != 2 {
            return None;
        }
        let plan = context.plan;
        let call = operator.calls.first()?;
        let (Operand::View(x), Operand::View(weights)) = (call.inputs.first()?, call.inputs.get(1)?) else {
            return None;
        };
        let bias = match call.inputs.get(2) {
            None => None,
            Some(operand) => Some(Site::of_operand(plan, operand)?.gather(context.sections)?),
        };
        Some(Parts {
            x: Pixels::dense(plan, x)?,
            out: Pixels::dense(plan, operator.outputs.first()?)?,
            weights,
            bias,
            tail: Tail::of(plan, operator)?,
        })
    }
}
