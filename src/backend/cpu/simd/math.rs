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
