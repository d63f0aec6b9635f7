//! What each kernel of the CUDA backend takes.
//!
//! On a GPU an operator is a head and a tail: its later primitives are elementwise functions of earlier values. Kernels
//! other than the generic one are listed before it.

use super::forms::need;
use super::{FMA, Misfit};
use crate::plan::format::{ArithmeticClass, Family, Kernel, Operand, Operator, Plan, Tactic};
use crate::primitive::Primitive;

/// The class of an operator: tensor cores for what they compute, else sequential fused multiply-adds.
pub(super) fn class(_plan: &Plan, _operator: &Operator, _wgmma: bool) -> ArithmeticClass {
    FMA
}

/// All tactics that can run the operator in its class, best first.
pub(super) fn menu(plan: &Plan, operator: &Operator) -> Vec<Tactic> {
    candidates()
        .into_iter()
        .filter(|&tactic| fits(tactic, plan, operator).is_ok())
        .collect()
}

/// Every tactic of the backend, in the order in which the menu prefers them.
fn candidates() -> Vec<Tactic> {
    [Kernel::Prepare, Kernel::Decode, Kernel::Generic].map(Tactic::of).to_vec()
}

/// The table.
pub(super) fn fits(tactic: Tactic, _plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let first = operator.calls.first().ok_or(Misfit::Primitive)?;
    tail(operator)?;
    need(family(tactic.kernel) == operator.class.family, Misfit::Class)?;
    use Primitive as P;
    match (tactic.kernel, &first.primitive) {
        (Kernel::Prepare, P::Prepare(_) | P::Crop(_))
        | (Kernel::Decode, P::DecodeYolox { .. } | P::Nms(_) | P::TopK | P::ArgMax { .. }) => {
            need(tactic == Tactic::of(tactic.kernel), Misfit::Tile)?;
            need(operator.calls.len() == 1, Misfit::Tail)
        }
        (Kernel::Generic, P::Prepare(_) | P::Crop(_) | P::DecodeYolox { .. } | P::Nms(_) | P::TopK | P::ArgMax { .. }) => {
            Err(Misfit::Primitive)
        }
        (Kernel::Generic, _) => need(tactic == Tactic::of(Kernel::Generic), Misfit::Tile),
        _ => Err(Misfit::Primitive),
    }
}

/// The instruction family that a kernel computes in.
fn family(kernel: Kernel) -> Family {
    match kernel {
        Kernel::ConvMma => Family::TensorCore,
        Kernel::ConvWgmma => Family::Wgmma,
        _ => Family::Fma,
    }
}

/// Every call behind the first is an elementwise function, and only such calls read inner values.
fn tail(operator: &Operator) -> Result<(), Misfit> {
    let inner = |o: &Operand| matches!(o, Operand::Inner(_));
    let (first, later) = operator.calls.split_first().ok_or(Misfit::Primitive)?;
    need(!first.inputs.iter().any(inner), Misfit::Tail)?;
    let elementwise = later
        .iter()
        .all(|c| matches!(c.primitive, Primitive::Unary(_) | Primitive::Binary(_)) && c.shape == first.shape);
    need(elementwise && (later.is_empty() || operator.outputs.len() == 1), Misfit::Tail)
}
