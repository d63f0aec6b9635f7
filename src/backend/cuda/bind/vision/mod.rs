//! Pictures in, results out: preparation of camera images, crops, and decoding of what the networks say.
//!
//! Each operator here has exactly one primitive, with operands of any layout. What depends on a picture's size is computed on
//! the device, from the slot's block.

mod boxes;
mod picture;
mod ranks;
mod source;

#[cfg(test)]
mod tests;

use super::{BindError, Kernel};
use crate::plan::format::{Operand, Operator, View};
use crate::primitive::Primitive;
use crate::tensor::DType;

/// Compiles an operator whose only primitive is `Prepare`, `Crop`, `DecodeYolox`, `Nms`, `TopK` or `ArgMax`.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let [call] = operator.calls.as_slice() else {
        return Err(BindError::Tactic("a picture or result primitive has no tail"));
    };
    let view = |operand: &Operand| match operand {
        Operand::View(view) => Ok(*view),
        Operand::Inner(_) => Err(BindError::Reference),
    };
    let inputs = call.inputs.iter().map(view).collect::<Result<Vec<View>, BindError>>()?;
    let types = |views: &[View]| -> Vec<_> { views.iter().map(|v| (v.dtype, v.layout.shape)).collect() };
    call.primitive.check(&types(&inputs), &types(&operator.outputs))?;
    Ok(match (call.primitive, inputs.as_slice(), operator.outputs.as_slice()) {
        (Primitive::Prepare(prepare), _, &[output]) => Box::new(picture::Prepare { prepare, output }),
        (Primitive::Crop(crop), &[_, detections, count], &[crops, rows]) => Box::new(picture::Crops {
            crop,
            detections,
            count,
            crops,
            rows,
        }),
        (Primitive::DecodeYolox { input }, &[head], &[boxes, scores]) => Box::new(boxes::DecodeYolox {
            input,
            head,
            boxes,
            scores,
        }),
        (Primitive::Nms(nms), &[boxes, scores], &[detections, count]) => Box::new(boxes::NonMaximum {
            nms,
            boxes,
            scores,
            detections,
            count,
        }),
        (Primitive::TopK, &[input], &[values, indices]) => Box::new(ranks::TopK { input, values, indices }),
        (Primitive::ArgMax { axis }, &[input], &[output]) => Box::new(ranks::ArgMax {
            axis: usize::from(axis),
            input,
            output,
        }),
        _ => return Err(BindError::Tactic("not a picture or result primitive")),
    })
}

/// How kernels' names say an element type; truth values are bytes.
fn suffix(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F16 => "f16",
        DType::I32 => "i32",
        DType::U8 | DType::Bool => "u8",
    }
}
