//! Primitives on host tensors: folds constants offline, and is the oracle that tests hold plans to.

use super::arena::{Bytes, ReadSpan, Span};
use super::kernels::generic::routine::Routine;
use super::kernels::generic::value::Value;
use crate::primitive::{Primitive, PrimitiveError, Region};
use crate::tensor::{DType, Data, Layout, Shape, Tensor};
use half::f16;

/// Computes `primitive` on `inputs`; `outputs` gives each output's type and shape. The bits are those of a plan's generic kernel.
///
/// # Errors
/// What [`Primitive::check`] finds, and `Unsupported` for the primitives of image preparation and decoding.
pub fn eval(primitive: &Primitive, inputs: &[&Tensor], outputs: &[(DType, Shape)]) -> Result<Vec<Tensor>, PrimitiveError> {
    let operands: Vec<(DType, Shape)> = inputs.iter().map(|t| (t.dtype(), t.shape())).collect();
    let routine = Routine::new(primitive, &operands, outputs)?;
    let values: Vec<Value<'_>> = inputs
        .iter()
        .map(|t| {
            let bytes = Bytes::Constant(ReadSpan::new(t.bytes()));
            Value::new(bytes, t.dtype(), 0, &Layout::contiguous(t.shape()))
        })
        .collect();
    let mut results: Vec<Data> = outputs.iter().map(|&(dtype, shape)| zeros(dtype, shape)).collect();
    {
        let targets: Vec<Value<'_>> = results
            .iter_mut()
            .zip(outputs)
            .map(|(data, &(dtype, shape))| {
                let bytes = Bytes::Shared(Span::of(bytes_of(data)));
                Value::new(bytes, dtype, 0, &Layout::contiguous(shape))
            })
            .collect();
        let mut work = vec![0.0f32; routine.work()];
        routine.run(&values, &targets, &Region::whole(outputs[0].1), &mut work);
    }
    let tensors = results.into_iter().zip(outputs).map(|(data, &(_, shape))| Tensor::new(shape, data));
    tensors.collect::<Option<Vec<Tensor>>>().ok_or(PrimitiveError::Shape)
}

fn zeros(dtype: DType, shape: Shape) -> Data {
    let n = shape.elements() as usize;
    match dtype {
        DType::F32 => Data::F32(vec![0.0; n]),
        DType::F16 => Data::F16(vec![f16::ZERO; n]),
        DType::I32 => Data::I32(vec![0; n]),
        DType::U8 => Data::U8(vec![0; n]),
        DType::Bool => Data::Bool(vec![0; n]),
    }
}

fn bytes_of(data: &mut Data) -> &mut [u8] {
    match data {
        Data::F32(v) => bytemuck::cast_slice_mut(v),
        Data::F16(v) => bytemuck::cast_slice_mut(v),
        Data::I32(v) => bytemuck::cast_slice_mut(v),
        Data::U8(v) | Data::Bool(v) => v,
    }
}
