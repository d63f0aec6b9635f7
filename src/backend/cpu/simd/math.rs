//! Elementary functions from correctly rounded steps, so that they agree on every instruction set.

use super::vector::{ROUND_MAGIC, Simd};

/// `e^x` within one unit in the last place; overflow gives infinity, underflow is gradual, NaN
/// stays NaN.
#[inline(always)]
pub(super) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    // Below the lower bound the result rounds to zero, above the upper it is infinite; the operand
    // order lets a NaN through.
    let x = s.max(s.splat(-104.0), x);
    let x = s.min(s.splat(89.0), x);
    let t = s.fma(x, s.splat(core::f32::consts::LOG2_E), s.splat(ROUND_MAGIC));
    let n = s.sub(t, s.splat(ROUND_MAGIC));
    // ln 2 in two parts; the first fused step is exact.
    let r = s.fma(n, s.splat(-core::f32::consts::LN_2), x);
    let r = s.fma(n, s.splat(1.904_654_2e-9), r);
    // (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2].
    let q = s.fma(s.splat(1.989_101_7e-4), r, s.splat(0.001_393_367_4));
    let q = s.fma(q, r, s.splat(0.008_333_310_5));
    let q = s.fma(q, r, s.splat(0.041_666_463));
    let q = s.fma(q, r, s.splat(0.166_666_67));
    let q = s.fma(q, r, s.splat(0.5));
    let p = s.fma(s.mul(r, r), q, r);
    s.scale_pow2(s.add(p, s.splat(1.0)), t)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.neg(x))))
}

/// The hyperbolic tangent, within two units in the last place also near zero.
#[inline(always)]
pub(super) fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let a = s.abs(x);
    // Small arguments: x + x^3 P(x^2), which loses nothing to cancellation.
    let z = s.mul(a, a);
    let p = s.fma(s.splat(0.002_292_557_6), z, s.splat(-0.008_343_78));
    let p = s.fma(p, z, s.splat(0.021_768_868));
    let p = s.fma(p, z, s.splat(-0.053_959_254));
    let p = s.fma(p, z, s.splat(0.133_333_04));
    let p = s.fma(p, z, s.splat(-0.333_333_34));
    let small = s.fma(s.mul(p, z), a, a);
    let one = s.splat(1.0);
    let two = s.splat(2.0);
    let large = s.sub(one, s.div(two, s.add(exp(s, s.add(a, a)), one)));
    s.with_sign(s.select_lt(a, s.splat(0.625), small, large), x)
}

/// The error function, within two units in the last place.
///
/// Up to 0.9 it is `x + x P(x^2)`, beyond `1 - exp(-x Q(x))`, which is 1 from 4 on. Both polynomials are minimax fits (by
/// Lawson's reweighted least squares) of `erf(x) / x - 1` and `-ln(erfc(x)) / x`, each weighted by its share in the result.
#[inline(always)]
pub(super) fn erf<S: Simd>(s: S, x: S::V) -> S::V {
    // The operand order lets a NaN through.
    let a = s.min(s.splat(4.0), s.abs(x));
    let z = s.mul(a, a);
    let p = s.fma(s.splat(-6.090_369e-4), z, s.splat(0.005_011_965));
    let p = s.fma(p, z, s.splat(-0.026_778_91));
    let p = s.fma(p, z, s.splat(0.112_821_41));
    let p = s.fma(p, z, s.splat(-0.376_125_25));
    let p = s.fma(p, z, s.splat(0.128_379_15));
    let small = s.fma(p, a, a);
    let q = s.fma(s.splat(1.043_287e-5), a, s.splat(-3.148_557_7e-4));
    let q = s.fma(q, a, s.splat(0.003_610_333));
    let q = s.fma(q, a, s.splat(-0.023_694_549));
    let q = s.fma(q, a, s.splat(0.106_159_03));
    let q = s.fma(q, a, s.splat(0.635_198_06));
    let q = s.fma(q, a, s.splat(1.128_637_1));
    let large = s.sub(s.splat(1.0), exp(s, s.neg(s.mul(a, q))));
    s.with_sign(s.select_lt(a, s.splat(0.9), small, large), x)
}

/// `x / 2 * (1 + erf(x / sqrt(2)))`, the sum and the product rounded once; minus infinity gives NaN.
#[inline(always)]
pub(super) fn gelu<S: Simd>(s: S, x: S::V) -> S::V {
    let half = s.mul(x, s.splat(0.5));
    s.fma(half, erf(s, s.mul(x, s.splat(core::f32::consts::FRAC_1_SQRT_2))), half)
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`, the sum and the product rounded once; minus infinity gives NaN.
#[inline(always)]
pub(super) fn gelu_tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let half = s.mul(x, s.splat(0.5));
    // sqrt(2 / pi), and 0.044715 times that.
    let factor = s.fma(s.mul(x, x), s.splat(0.035_677_407), s.splat(0.797_884_6));
    s.fma(half, tanh(s, s.mul(x, factor)), half)
}

/// The natural logarithm, within two units in the last place; -inf of zero, NaN of less.
///
/// `x = 2^e m` with m between `sqrt(1/2)` and `sqrt(2)`; with `f = m - 1` it is `e ln 2 + f - f^2 / 2 + f^3 R(f)`, where R is
/// a minimax fit as in [`erf`]. ln 2 is in two parts, the first short enough for its product with e to be exact.
#[inline(always)]
pub(super) fn log<S: Simd>(s: S, x: S::V) -> S::V {
    let (zero, one) = (s.splat(0.0), s.splat(1.0));
    // Subnormal numbers are made normal first.
    let least = s.splat(f32::MIN_POSITIVE);
    let normal = s.select_lt(x, least, s.mul(x, s.splat(8_388_608.0)), x);
    let e = s.exponent(normal);
    let m = s.scale_pow2(normal, s.sub(s.splat(ROUND_MAGIC), e));
    let high = s.splat(core::f32::consts::SQRT_2);
    let f = s.sub(s.select_lt(high, m, s.mul(m, s.splat(0.5)), m), one);
    let e = s.add(e, s.select_lt(high, m, one, zero));
    let e = s.sub(e, s.select_lt(x, least, s.splat(23.0), zero));
    let r = s.fma(s.splat(-0.076_345_01), f, s.splat(0.127_615_81));
    let r = s.fma(r, f, s.splat(-0.131_601_83));
    let r = s.fma(r, f, s.splat(0.142_017_57));
    let r = s.fma(r, f, s.splat(-0.166_233_57));
    let r = s.fma(r, f, s.splat(0.200_012_27));
    let r = s.fma(r, f, s.splat(-0.250_008_2));
    let r = s.fma(r, f, s.splat(0.333_333_3));
    let tail = s.mul(s.fma(r, f, s.splat(-0.5)), s.mul(f, f));
    let tail = s.fma(e, s.splat(-2.121_944_4e-4), tail);
    let y = s.fma(e, s.splat(0.693_359_4), s.add(f, tail));
    let y = s.select_lt(s.splat(f32::MAX), x, x, y);
    let rest = s.select_lt(x, zero, s.splat(f32::NAN), s.select_nan(x, x, s.splat(f32::NEG_INFINITY)));
    s.select_lt(zero, x, y, rest)
}

/// The nearest integer, of two the even one; the sign stays.
#[inline(always)]
pub(super) fn round<S: Simd>(s: S, x: S::V) -> S::V {
    // From 2^23 on every float is an integer; below, adding that leaves no place for a fraction.
    let (a, limit) = (s.abs(x), s.splat(8_388_608.0));
    let near = s.sub(s.add(a, limit), limit);
    s.with_sign(s.select_lt(a, limit, near, a), x)
}

/// The greatest integer that is not above `x`; the sign stays.
#[inline(always)]
pub(super) fn floor<S: Simd>(s: S, x: S::V) -> S::V {
    let near = round(s, x);
    let below = s.select_lt(x, near, s.sub(near, s.splat(1.0)), near);
    s.with_sign(s.abs(below), x)
}

/// The least integer that is not below `x`; the sign stays.
#[inline(always)]
pub(super) fn ceil<S: Simd>(s: S, x: S::V) -> S::V {
    s.neg(floor(s, s.neg(x)))
}

/// `0 > x ? 0 : x`: NaN and negative zero stay.
#[inline(always)]
pub(super) fn relu<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(s.splat(0.0), x)
}

/// `x` held between two bounds; NaN stays.
#[inline(always)]
pub(super) fn clip<S: Simd>(s: S, x: S::V, lo: S::V, hi: S::V) -> S::V {
    s.min(hi, s.max(lo, x))
}

/// `clip(alpha * x + beta, 0, 1)` with one rounding before the clip.
#[inline(always)]
pub(super) fn hard_sigmoid<S: Simd>(s: S, x: S::V, alpha: f32, beta: f32) -> S::V {
    let y = s.fma(x, s.splat(alpha), s.splat(beta));
    clip(s, y, s.splat(0.0), s.splat(1.0))
}
