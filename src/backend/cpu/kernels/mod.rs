//! The CPU backend's kernels, and the compiler that picks one for an operator.

pub mod generic;

use super::arena::ReadSpan;
use super::kernel::Kernel;
use super::simd::Isa;
use crate::plan::format::{Kernel as Named, Operator, Plan};
use crate::primitive::PrimitiveError;
use generic::operator::Generic;

/// Why an operator cannot be compiled. An operator of a checked plan fails only for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A primitive does not fit its operands (P6).
    #[error("primitive {0} of the operator: {1}")]
    Primitive(usize, PrimitiveError),
    /// The operator refers to a buffer or an inner value that is not there, or has more parts than the limits allow (P1, P6).
    #[error("the operator refers to a buffer or an inner value that is not there, or has too many parts")]
    Reference,
    /// The intermediate values of one tile are larger than the largest buffer.
    #[error("the operator's intermediate values need too much memory: cut the operator into smaller ones")]
    Scratch,
}

impl CompileError {
    /// The same error, found in primitive `index`.
    fn at(self, index: usize) -> CompileError {
        match self {
            CompileError::Primitive(_, error) => CompileError::Primitive(index, error),
            other => other,
        }
    }
}

/// Compiles operators for one instruction set.
pub struct Compiler {
    isa: Isa,
}

impl Compiler {
    /// A compiler for `isa`, which the processor has.
    pub fn new(isa: Isa) -> Compiler {
        Compiler { isa }
    }

    /// The instruction set compiled for.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Compiles `operator` with the kernel that its tactic names. `sections` holds the plan's weight sections.
    ///
    /// # Errors
    /// [`CompileError`]; after the plan was checked, `Scratch` alone.
    pub fn compile(&mut self, plan: &Plan, operator: &Operator, _sections: &[ReadSpan<'_>]) -> Result<Box<dyn Kernel>, CompileError> {
        Ok(match operator.tactic.kernel {
            Named::Generic
            | Named::ConvIgemm
            | Named::ConvDepthwise
            | Named::ConvTranspose
            | Named::MatMul
            | Named::Elementwise
            | Named::Pool
            | Named::Reduce
            | Named::Softmax
            | Named::Resize
            | Named::Copy
            | Named::Prepare
            | Named::Decode => Box::new(Generic::compile(plan, operator)?),
        })
    }
}
