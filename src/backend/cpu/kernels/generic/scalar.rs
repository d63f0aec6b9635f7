//! The elementwise functions on runs of f32, with the bits of the vector kernels.
//!
//! Functions of a few correctly rounded steps are written out; the exponential and its kin, which are the vector kernels'
//! own polynomials, are asked from them (every instruction set gives the same bits).

use crate::backend::cpu::simd::{self, Kernels};
use crate::primitive::{Binary, Unary};

/// `if a > b { a } else { b }`: a NaN on either side gives `b`.
#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// `if a < b { a } else { b }`: a NaN on either side gives `b`.
#[inline(always)]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[inline(always)]
fn clip(x: f32, low: f32, high: f32) -> f32 {
    lesser(high, greater(low, x))
}

#[inline(always)]
fn hard_sigmoid(x: f32, alpha: f32, beta: f32) -> f32 {
    clip(x.mul_add(alpha, beta), 0.0, 1.0)
}

/// Applies `kind` to every value. NaN stays NaN under every function.
pub fn unary(kind: Unary, values: &mut [f32]) {
    let each = |values: &mut [f32], f: &dyn Fn(f32) -> f32| values.iter_mut().for_each(|x| *x = f(*x));
    match kind {
        Unary::Relu => each(values, &|x| greater(0.0, x)),
        Unary::LeakyRelu(alpha) => each(values, &|x| if x < 0.0 { x * alpha.0 } else { x }),
        Unary::Clip(low, high) => each(values, &|x| clip(x, low.0, high.0)),
        Unary::HardSigmoid(alpha, beta) => each(values, &|x| hard_sigmoid(x, alpha.0, beta.0)),
        Unary::HardSwish => each(values, &|x| x * hard_sigmoid(x, 1.0 / 6.0, 0.5)),
        Unary::Sqrt => each(values, &f32::sqrt),
        Unary::Neg => each(values, &|x| -x),
        Unary::Sigmoid => Kernels::get().unary_in_place(simd::Unary::Sigmoid, values),
        Unary::Silu => Kernels::get().unary_in_place(simd::Unary::Silu, values),
        Unary::Tanh => Kernels::get().unary_in_place(simd::Unary::Tanh, values),
        Unary::Exp => Kernels::get().unary_in_place(simd::Unary::Exp, values),
        Unary::Abs => each(values, &f32::abs),
        Unary::Round => each(values, &f32::round_ties_even),
        Unary::Floor => each(values, &f32::floor),
        Unary::Ceil => each(values, &f32::ceil),
        Unary::Erf => Kernels::get().unary_in_place(simd::Unary::Erf, values),
        Unary::Gelu => Kernels::get().unary_in_place(simd::Unary::Gelu, values),
        Unary::GeluTanh => Kernels::get().unary_in_place(simd::Unary::GeluTanh, values),
        Unary::Log => Kernels::get().unary_in_place(simd::Unary::Log, values),
    }
}

/// `a[i] = kind(a[i], b[i])`. Powers are not here: their operands may have different types.
pub fn binary(kind: Binary, a: &mut [f32], b: &[f32]) {
    let mut each = |f: &dyn Fn(f32, f32) -> f32| a.iter_mut().zip(b).for_each(|(a, &b)| *a = f(*a, b));
    match kind {
        Binary::Add => each(&|a, b| a + b),
        Binary::Sub => each(&|a, b| a - b),
        Binary::Mul => each(&|a, b| a * b),
        Binary::Div => each(&|a, b| a / b),
        Binary::Min => each(&|a, b| if a.is_nan() { a } else { lesser(a, b) }),
        Binary::Max => each(&|a, b| if a.is_nan() { a } else { greater(a, b) }),
        Binary::PRelu => each(&|a, b| if a < 0.0 { a * b } else { a }),
        Binary::Pow => each(&|a, b| super::power::power(f64::from(a), f64::from(b)) as f32),
    }
}
