//! The operands of an operator: its head's inputs, and its outputs.

use super::BindError;
use crate::plan::format::{Call, Operand, Operator, View};
use crate::tensor::{DType, Shape};

/// Output `index` of an operator.
pub fn output(operator: &Operator, index: usize) -> Result<&View, BindError> {
    operator.outputs.get(index).ok_or(BindError::Reference)
}

/// Input `index` of an operator's head, which lies in memory.
pub fn input(operator: &Operator, index: usize) -> Result<&View, BindError> {
    match head(operator)?.inputs.get(index) {
        Some(Operand::View(view)) => Ok(view),
        _ => Err(BindError::Reference),
    }
}

/// The same where it is optional.
pub fn optional_input(operator: &Operator, index: usize) -> Option<&View> {
    input(operator, index).ok()
}

/// The first call.
pub fn head(operator: &Operator) -> Result<&Call, BindError> {
    operator.calls.first().ok_or(BindError::Reference)
}

/// Checks the head's operands (P6), on which the kernels rely.
pub fn check(operator: &Operator) -> Result<(), BindError> {
    let call = head(operator)?;
    let mut inputs: Vec<(DType, Shape)> = Vec::new();
    for index in 0..call.inputs.len() {
        let view = input(operator, index)?;
        inputs.push((view.dtype, view.layout.shape));
    }
    let mut outputs: Vec<(DType, Shape)> = operator.outputs.iter().map(|v| (v.dtype, v.layout.shape)).collect();
    if inputs.is_empty() || outputs.is_empty() {
        return Err(BindError::Reference);
    }
    if operator.calls.len() > 1 {
        outputs = vec![(call.dtype, call.shape)];
    }
    Ok(call.primitive.check(&inputs, &outputs)?)
}
