//! Whole vectors or their lower halves, for kernels that are written over either.

use super::vector::Simd;

/// What a kernel keeps of each vector of channels.
pub(super) trait Part<S: Simd> {
    /// The lanes.
    type A: Copy;
    /// Of a whole vector.
    fn of(s: S, v: S::V) -> Self::A;
    /// The lanes as a whole vector; any values in the others.
    fn whole(s: S, a: Self::A) -> S::V;
    /// `x` in every lane.
    fn splat(s: S, x: f32) -> Self::A;
    /// Contiguous floats; zeros behind the first `n` where those are fewer than the lanes.
    ///
    /// # Safety
    ///
    /// `p` is valid for reading `n` floats or as many as there are lanes, whichever is less. Of [`Lower`], `n` is not less.
    unsafe fn load(s: S, p: *const f32, n: usize) -> Self::A;
    /// `a * b + c`, rounded once.
    fn fma(s: S, a: Self::A, b: Self::A, c: Self::A) -> Self::A;
}

/// All lanes.
pub(super) struct All;

impl<S: Simd> Part<S> for All {
    type A = S::V;
    #[inline(always)]
    fn of(_: S, v: S::V) -> S::V {
        v
    }
    #[inline(always)]
    fn whole(_: S, a: S::V) -> S::V {
        a
    }
    #[inline(always)]
    fn splat(s: S, x: f32) -> S::V {
        s.splat(x)
    }
    #[inline(always)]
    unsafe fn load(s: S, p: *const f32, n: usize) -> S::V {
        // SAFETY: the same contract.
        unsafe { s.load_upto(p, n) }
    }
    #[inline(always)]
    fn fma(s: S, a: S::V, b: S::V, c: S::V) -> S::V {
        s.fma(a, b, c)
    }
}

/// The lower half, or all lanes where one register holds them.
pub(super) struct Lower;

impl<S: Simd> Part<S> for Lower {
    type A = S::H;
    #[inline(always)]
    fn of(s: S, v: S::V) -> S::H {
        s.lower(v)
    }
    #[inline(always)]
    fn whole(s: S, a: S::H) -> S::V {
        s.widen_lower(a)
    }
    #[inline(always)]
    fn splat(s: S, x: f32) -> S::H {
        s.splat_lower(x)
    }
    #[inline(always)]
    unsafe fn load(s: S, p: *const f32, _: usize) -> S::H {
        // SAFETY: the caller vouches for all lanes.
        unsafe { s.load_lower(p) }
    }
    #[inline(always)]
    fn fma(s: S, a: S::H, b: S::H, c: S::H) -> S::H {
        s.fma_lower(a, b, c)
    }
}
