//! An operator's tail as the kernels read it: `Tail` of `kernels/tail.cuh`.

use super::views::{dtype_number, strides};
use super::{Addresses, BindError};
use crate::limits::{MAX_PRIMITIVES, MAX_RANK};
use crate::plan::format::{Call, Operand, Operator, Rounding};
use crate::plan::tactic::product::Product;
use crate::primitive::{Binary, Primitive, Unary};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Most calls behind the head.
pub const MAX_TAIL: usize = MAX_PRIMITIVES - 1;

/// [`TailOperand::source`] of a tensor in memory.
pub const FROM_MEMORY: u32 = u32::MAX;

/// The number of the function that bounds a value.
const CLIP: u32 = 2;

/// An input of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct TailOperand {
    /// Device address of element `[0, .., 0]`; 0 for a value of the operator.
    pub address: u64,
    /// [`FROM_MEMORY`], or the number of the call whose value it is, the head being 0.
    pub source: u32,
    /// Number of the element type.
    pub dtype: u32,
    /// In elements.
    pub strides: [i64; MAX_RANK],
}

/// A function and its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct TailCall {
    /// [`unary_number`] or [`binary_number`].
    pub function: u32,
    /// 1 if the value is rounded to f16 before it is read.
    pub rounded: u32,
    /// 1 if a call behind the next reads the value.
    pub kept: u32,
    /// Number of the value's type.
    pub dtype: u32,
    /// First attribute.
    pub first: f32,
    /// Second attribute.
    pub second: f32,
    /// First input.
    pub a: TailOperand,
    /// Second input of functions of two values.
    pub b: TailOperand,
}

/// All calls behind the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Tail {
    /// How many there are.
    pub calls: u32,
    /// As [`TailCall::rounded`], of the head's value.
    pub head_rounded: u32,
    /// As [`TailCall::kept`], of the head's value.
    pub head_kept: u32,
    /// Number of the type of the head's value.
    pub head_dtype: u32,
    /// The calls, in order.
    pub call: [TailCall; MAX_TAIL],
}

impl Tail {
    /// The tail of an operator whose later calls are elementwise functions.
    pub fn new(at: &Addresses<'_>, operator: &Operator) -> Result<Tail, BindError> {
        let (head, later) = operator.calls.split_first().ok_or(BindError::Reference)?;
        if later.len() > MAX_TAIL {
            return Err(BindError::Tactic("its tail is too long"));
        }
        let mut tail = Tail {
            calls: later.len() as u32,
            head_rounded: rounded(head, later.is_empty()),
            head_kept: kept(operator, 0),
            head_dtype: dtype_number(head.dtype),
            call: Zeroable::zeroed(),
        };
        for (index, call) in later.iter().enumerate() {
            tail.call[index] = TailCall {
                rounded: rounded(call, index + 1 == later.len()),
                kept: kept(operator, index + 1),
                ..function(at, call)?
            };
        }
        Ok(tail)
    }

    /// The tail of a product. The kernels count [sample, channel, row, pixel]; of matrices of three axes the channel is the last one.
    pub fn of_product(at: &Addresses<'_>, operator: &Operator, product: &Product<'_>) -> Result<Tail, BindError> {
        let mut tail = Tail::new(at, operator)?;
        if product.matrix && product.output.layout.shape.rank() == 3 {
            for call in &mut tail.call {
                call.a.strides.swap(1, 2);
                call.b.strides.swap(1, 2);
            }
        }
        Ok(tail)
    }
}

/// 1 if the call's value is rounded before it is read; storing rounds the last one.
fn rounded(call: &Call, last: bool) -> u32 {
    u32::from(!last && call.dtype == DType::F16 && call.rounding == Rounding::Rounded)
}

/// 1 if a call behind the next one reads value `index`.
fn kept(operator: &Operator, index: usize) -> u32 {
    let reads = |call: &Call| call.inputs.contains(&Operand::Inner(index as u8));
    u32::from(operator.calls.iter().skip(index + 2).any(reads))
}

/// The function of a call with its inputs; `rounded` and `kept` are left 0.
pub fn function(at: &Addresses<'_>, call: &Call) -> Result<TailCall, BindError> {
    let (function, first, second, inputs) = match call.primitive {
        Primitive::Unary(kind) => {
            let (first, second) = attributes(kind);
            (unary_number(kind), first, second, 1)
        }
        Primitive::Binary(kind) => (binary_number(kind), 0.0, 0.0, 2),
        // A copy changes no value: bounds that nothing meets.
        Primitive::Copy if call.dtype.is_float() => (CLIP, f32::NEG_INFINITY, f32::INFINITY, 1),
        _ => return Err(BindError::Tactic("a later primitive is not elementwise")),
    };
    if call.inputs.len() != inputs {
        return Err(BindError::Reference);
    }
    Ok(TailCall {
        function,
        dtype: dtype_number(call.dtype),
        first,
        second,
        a: operand(at, call, 0)?,
        b: if inputs > 1 {
            operand(at, call, 1)?
        } else {
            TailOperand::default()
        },
        ..TailCall::default()
    })
}

fn operand(at: &Addresses<'_>, call: &Call, index: usize) -> Result<TailOperand, BindError> {
    match &call.inputs[index] {
        Operand::Inner(source) => Ok(TailOperand {
            source: u32::from(*source),
            ..TailOperand::default()
        }),
        Operand::View(view) => Ok(TailOperand {
            address: at.view(view)?,
            source: FROM_MEMORY,
            dtype: dtype_number(view.dtype),
            strides: strides(view),
        }),
    }
}

/// The number of a function in `kernels/tail.cuh`.
pub fn unary_number(kind: Unary) -> u32 {
    match kind {
        Unary::Relu => 0,
        Unary::LeakyRelu(_) => 1,
        Unary::Clip(..) => CLIP,
        Unary::Sigmoid => 3,
        Unary::HardSigmoid(..) => 4,
        Unary::HardSwish => 5,
        Unary::Silu => 6,
        Unary::Tanh => 7,
        Unary::Exp => 8,
        Unary::Sqrt => 9,
        Unary::Neg => 10,
        Unary::Erf => 11,
        Unary::Gelu => 12,
        Unary::GeluTanh => 13,
        Unary::Round => 14,
        Unary::Log => 15,
        Unary::Abs => 16,
        Unary::Floor => 17,
        Unary::Ceil => 18,
    }
}

/// A function's attributes, 0 where it has none.
pub fn attributes(kind: Unary) -> (f32, f32) {
    match kind {
        Unary::LeakyRelu(alpha) => (alpha.0, 0.0),
        Unary::Clip(low, high) => (low.0, high.0),
        Unary::HardSigmoid(alpha, beta) => (alpha.0, beta.0),
        _ => (0.0, 0.0),
    }
}

/// The number of a function in `kernels/tail.cuh`.
pub fn binary_number(kind: Binary) -> u32 {
    match kind {
        Binary::Add => 32,
        Binary::Sub => 33,
        Binary::Mul => 34,
        Binary::Div => 35,
        Binary::Pow => 36,
        Binary::Min => 37,
        Binary::Max => 38,
        Binary::PRelu => 39,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!((size_of::<TailOperand>(), size_of::<TailCall>()), (64, 152));
        assert_eq!(size_of::<Tail>(), 16 + 152 * MAX_TAIL);
        assert_eq!(
            (offset_of!(TailOperand, strides), offset_of!(TailCall, a), offset_of!(TailCall, b)),
            (16, 24, 88)
        );
        assert_eq!(offset_of!(Tail, call), 16);
    }
}
