//! The elementwise primitives behind an operator's first one, fused into its kernel.

use super::site::{Pixels, Site};
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::simd::{self, MAX_STEPS, Step};
use crate::plan::format::{Call, Operand, Operator, Plan};
use crate::primitive::{Binary, Primitive, Unary};

/// The vector kernels' name for an elementwise function.
pub fn unary(function: Unary) -> simd::Unary {
    match function {
        Unary::Relu => simd::Unary::Relu,
        Unary::LeakyRelu(alpha) => simd::Unary::LeakyRelu { alpha: alpha.0 },
        Unary::Clip(low, high) => simd::Unary::Clip { min: low.0, max: high.0 },
        Unary::Sigmoid => simd::Unary::Sigmoid,
        Unary::HardSigmoid(alpha, beta) => simd::Unary::HardSigmoid {
            alpha: alpha.0,
            beta: beta.0,
        },
        Unary::HardSwish => simd::Unary::HardSwish,
        Unary::Silu => simd::Unary::Silu,
        Unary::Tanh => simd::Unary::Tanh,
        Unary::Exp => simd::Unary::Exp,
        Unary::Sqrt => simd::Unary::Sqrt,
        Unary::Neg => simd::Unary::Neg,
        Unary::Erf => simd::Unary::Erf,
        Unary::Gelu => simd::Unary::Gelu,
        Unary::GeluTanh => simd::Unary::GeluTanh,
        Unary::Round => simd::Unary::Round,
        Unary::Log => simd::Unary::Log,
        Unary::Abs => simd::Unary::Abs,
        Unary::Floor => simd::Unary::Floor,
        Unary::Ceil => simd::Unary::Ceil,
    }
}

/// The vector kernels' name for a function of two values; `None` for a power.
pub fn binary(function: Binary) -> Option<simd::Binary> {
    Some(match function {
        Binary::Add => simd::Binary::Add,
        Binary::Sub => simd::Binary::Sub,
        Binary::Mul => simd::Binary::Mul,
        Binary::Div => simd::Binary::Div,
        Binary::Min => simd::Binary::Min,
        Binary::Max => simd::Binary::Max,
        Binary::PRelu => simd::Binary::PRelu,
        Binary::Pow => return None,
    })
}

/// One primitive behind the first.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// Of the running value alone.
    Unary(simd::Unary),
    /// Of the running value and a tensor of the same shape.
    Binary {
        /// The function.
        op: simd::Binary,
        /// The tensor.
        site: Site,
        /// The tensor stands on the left.
        swapped: bool,
    },
}

/// Reads `call`, number `index` of its operator, as a link on the call before it.
pub fn link(plan: &Plan, call: &Call, index: usize) -> Option<Link> {
    let previous = Operand::Inner(u8::try_from(index.checked_sub(1)?).ok()?);
    match call.primitive {
        Primitive::Unary(function) if call.inputs == [previous] => Some(Link::Unary(unary(function))),
        Primitive::Binary(function) => {
            let (swapped, other) = match call.inputs.as_slice() {
                [a, other] if *a == previous && *other != previous => (false, other),
                [other, b] if *b == previous && *other != previous => (true, other),
                _ => return None,
            };
            Some(Link::Binary {
                op: binary(function)?,
                site: Site::of_operand(plan, other)?,
                swapped,
            })
        }
        _ => None,
    }
}

/// One link with its tensor in channels-last form.
#[derive(Clone, Copy, Debug)]
enum Fused {
    Unary(simd::Unary),
    Binary { op: simd::Binary, pixels: Pixels, swapped: bool },
}

/// A fused tail over `[N, C, H, W]` outputs.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    links: Vec<Fused>,
}

impl Tail {
    /// The tail of `operator` behind its first primitive, if every link can be fused.
    pub fn of(plan: &Plan, operator: &Operator) -> Option<Tail> {
        let mut links = Vec::new();
        for (index, call) in operator.calls.iter().enumerate().skip(1) {
            links.push(match link(plan, call, index)? {
                Link::Unary(op) => Fused::Unary(op),
                Link::Binary { op, site, swapped } => Fused::Binary {
                    op,
                    pixels: Pixels::of(site)?,
                    swapped,
                },
            });
        }
        (links.len() <= MAX_STEPS).then_some(Tail { links })
    }

    /// True if all tensors of the tail can be walked over a whole image as one run of pixels.
    pub fn rows_merge(&self) -> bool {
        self.links
            .iter()
            .all(|l| !matches!(l, Fused::Binary { pixels, .. } if !pixels.rows_merge()))
    }

    /// The steps for a run of pixels that starts at image `n`, row `y`, column `x`, channel `c`.
    pub fn steps<'s>(&self, memory: &Memory<'_>, at: [usize; 4], steps: &'s mut [Step; MAX_STEPS]) -> &'s [Step] {
        self.steps_every(memory, at, 1, steps)
    }

    /// As [`Tail::steps`], for every `apart`-th pixel of the row.
    pub fn steps_every<'s>(
        &self,
        memory: &Memory<'_>,
        [n, y, x, c]: [usize; 4],
        apart: usize,
        steps: &'s mut [Step; MAX_STEPS],
    ) -> &'s [Step] {
        for (step, link) in steps.iter_mut().zip(&self.links) {
            *step = match link {
                Fused::Unary(op) => Step::Unary(*op),
                Fused::Binary { op, pixels: p, swapped } => {
                    let channel = if p.repeated || p.c == 1 { 0 } else { c };
                    let offset = n * p.image + y * p.row + x * p.pixel + channel;
                    let base = p.site.pointer(memory).wrapping_add(offset).cast_const();
                    let operand = if p.repeated {
                        simd::Operand::RowScalars {
                            base,
                            stride: p.pixel * apart,
                        }
                    } else if p.pixel == 0 {
                        simd::Operand::Channels(base)
                    } else {
                        simd::Operand::Strided {
                            base,
                            stride: p.pixel * apart,
                        }
                    };
                    Step::Binary {
                        op: *op,
                        operand,
                        swapped: *swapped,
                    }
                }
            };
        }
        &steps[..self.links.len()]
    }
}

/// A step list to fill.
pub fn blank() -> [Step; MAX_STEPS] {
    [Step::Unary(simd::Unary::Relu); MAX_STEPS]
}
