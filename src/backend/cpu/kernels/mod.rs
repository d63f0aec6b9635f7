//! The CPU backend's kernels, and the compiler that picks one for an operator.

pub mod generic;
pub mod vision;

use super::arena::ReadSpan;
use super::kernel::Kernel;
use super::simd::operators::{self, Context, Packings};
use super::simd::{Isa, Kernels};
use crate::board::BackendKind;
use crate::plan::format::{Kernel as Named, Operator, Plan};
use crate::plan::tactic;
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
    /// A picture or result operator with operands that its kernel does not take.
    #[error(transparent)]
    Vision(#[from] vision::CompileError),
    /// The tactic's kernel does not serve the operator, or memory for its packed weights is short.
    #[error("the kernel {0:?} does not serve the operator, or there is no memory for its packed weights")]
    Tactic(Named),
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

/// Compiles operators for one instruction set, packing each weight section once per packing.
pub struct Compiler {
    kernels: &'static Kernels,
    packings: Packings,
}

impl Compiler {
    /// A compiler for `isa`, or for the portable kernels where the processor has it not.
    pub fn new(isa: Isa) -> Compiler {
        let portable = || Kernels::for_isa(Isa::Portable);
        Compiler {
            kernels: Kernels::for_isa(isa).or_else(portable).unwrap_or_else(Kernels::get),
            packings: Packings::default(),
        }
    }

    /// The instruction set compiled for.
    pub fn isa(&self) -> Isa {
        self.kernels.isa()
    }

    /// Compiles `operator` with the kernel that its tactic names. `sections` holds the plan's weight sections.
    ///
    /// # Errors
    /// [`CompileError`]; after the plan was checked, `Scratch`, or `Tactic` for want of memory.
    pub fn compile(&mut self, plan: &Plan, operator: &Operator, sections: &[ReadSpan<'_>]) -> Result<Box<dyn Kernel>, CompileError> {
        // A plan for a GPU names kernels that are not here: its operators run primitive by primitive.
        let here = tactic::fits_on(BackendKind::Cpu, plan, operator).is_ok();
        match operator.tactic.kernel {
            _ if !here && vision::takes(operator) => Ok(vision::compile(plan, operator)?),
            _ if !here => Ok(Box::new(Generic::compile(plan, operator)?)),
            Named::Prepare | Named::Decode => Ok(vision::compile(plan, operator)?),
            Named::Generic if vision::takes(operator) => Ok(vision::compile(plan, operator)?),
            Named::Generic => Ok(Box::new(Generic::compile(plan, operator)?)),
            named => {
                let context = Context {
                    kernels: self.kernels,
                    plan,
                    sections,
                };
                operators::compile(&context, operator, &mut self.packings).ok_or(CompileError::Tactic(named))
            }
        }
    }
}
