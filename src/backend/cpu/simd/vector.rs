//! The vector type that every kernel is written against.

use super::Isa;

/// Adding this to a float of small magnitude leaves the nearest integer in its low mantissa bits.
pub(super) const ROUND_MAGIC: f32 = 12_582_912.0;

/// Lanes of every vector, on every instruction set.
pub(super) const LANES: usize = 16;

/// Repeats a block with a literal index, so that arrays of vectors are indexed by constants only
/// and stay in registers at every optimisation level.
macro_rules! unroll {
    ($limit:expr, $i:ident => $body:block) => {
        unroll!(@ $limit, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    (@ $limit:expr, $i:ident, $body:block, $($k:literal)*) => {
        {$(if $k < $limit { let $i: usize = $k; $body })*}
    };
}
pub(super) use unroll;

/// Work that is compiled once per instruction set.
pub(super) trait Task {
    /// What the work yields.
    type Out;
    /// Does the work. Implementations are `#[inline(always)]`, so that the body lands inside a
    /// function compiled for the instruction set.
    fn run<S: Simd>(self, s: S) -> Self::Out;
}

/// Sixteen virtual lanes of `f32` on one instruction set.
///
/// A value of the implementing type is the proof that the processor has the instructions, which is
/// why arithmetic is safe; only memory access carries a contract of its own. Every operation is
/// either exact or correctly rounded, so all implementations agree bit for bit (NaN payloads
/// excepted).
pub(super) trait Simd: Copy {
    /// The sixteen lanes.
    type V: Copy;
    /// The lower half of the lanes, or all of them where one register holds them.
    type H: Copy;
    /// Which instruction set this is.
    const ISA: Isa;
    /// Lanes of `H`. Where they are half, `MR` is 6.
    const H_LANES: usize;
    /// Pixels of a full `igemm` tile.
    const MR: usize;
    /// Vectors across a full `igemm` tile.
    const NV: usize;

    /// Makes the proof.
    ///
    /// # Safety
    ///
    /// The processor must have the instruction set.
    unsafe fn new() -> Self;

    /// Runs `task` inside a function of its own that is compiled for the instruction set.
    fn call<T: Task>(self, task: T) -> T::Out;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::V;
    /// Sixteen contiguous floats.
    ///
    /// # Safety
    ///
    /// `p` is valid for reading sixteen floats.
    unsafe fn load(self, p: *const f32) -> Self::V;
    /// Writes sixteen contiguous floats.
    ///
    /// # Safety
    ///
    /// `p` is valid for writing sixteen floats.
    unsafe fn store(self, p: *mut f32, v: Self::V);
    /// The first `n` floats at `p`; the other lanes come from `fill`.
    ///
    /// # Safety
    ///
    /// `p` is valid for reading `n` floats, and `n <= 16`.
    unsafe fn load_tail(self, p: *const f32, n: usize, fill: Self::V) -> Self::V;
    /// Writes the first `n` lanes.
    ///
    /// # Safety
    ///
    /// `p` is valid for writing `n` floats, and `n <= 16`.
    unsafe fn store_tail(self, p: *mut f32, n: usize, v: Self::V);
    /// The lower lanes.
    fn lower(self, v: Self::V) -> Self::H;
    /// The lower lanes, with any values above them.
    fn widen_lower(self, h: Self::H) -> Self::V;
    /// `x` in every lane of the lower ones.
    fn splat_lower(self, x: f32) -> Self::H;
    /// Contiguous floats in the lower lanes.
    ///
    /// # Safety
    ///
    /// `p` is valid for reading `H_LANES` floats.
    unsafe fn load_lower(self, p: *const f32) -> Self::H;
    /// `a * b + c` of the lower lanes, rounded once.
    fn fma_lower(self, a: Self::H, b: Self::H, c: Self::H) -> Self::H;
    /// Four times four contiguous floats.
    ///
    /// # Safety
    ///
    /// Each pointer is valid for reading four floats.
    unsafe fn load_quads(self, p: [*const f32; 4]) -> Self::V;
    /// Each value four times.
    fn splat_quads(self, x: [f32; 4]) -> Self::V;
    /// Sixteen bytes as floats.
    ///
    /// # Safety
    ///
    /// `p` is valid for reading sixteen bytes.
    unsafe fn load_u8(self, p: *const u8) -> Self::V;
    /// Sixteen half-precision values as floats.
    ///
    /// # Safety
    ///
    /// `p` is valid for reading sixteen half-precision values.
    unsafe fn load_f16(self, p: *const u16) -> Self::V;
    /// Writes sixteen half-precision values, rounded to nearest even.
    ///
    /// # Safety
    ///
    /// `p` is valid for writing sixteen half-precision values.
    unsafe fn store_f16(self, p: *mut u16, v: Self::V);

    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The square root.
    fn sqrt(self, a: Self::V) -> Self::V;
    /// `if a > b { a } else { b }`: a NaN on either side yields `b`.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `if a < b { a } else { b }`: a NaN on either side yields `b`.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// The sign bit flipped.
    fn neg(self, a: Self::V) -> Self::V;
    /// The sign bit cleared.
    fn abs(self, a: Self::V) -> Self::V;
    /// `a`, whose sign bit is clear, with the sign bit of `sign`.
    fn with_sign(self, a: Self::V, sign: Self::V) -> Self::V;
    /// `if a < b { yes } else { no }`.
    fn select_lt(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// `if a is NaN { yes } else { no }`.
    fn select_nan(self, a: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// `p * 2^n`, rounded once, where `t = n + ROUND_MAGIC`, `-152 <= n <= 128` and `p` is near 1; also where `p` is normal and
    /// the result is near 1. Any value otherwise.
    fn scale_pow2(self, p: Self::V, t: Self::V) -> Self::V;
    /// The integer `n` with `2^n <= a < 2^(n + 1)`, for normal positive `a`; any value for others.
    fn exponent(self, a: Self::V) -> Self::V;
    /// Bit `i` is set where lane `i` of `a` equals that of `b`.
    fn eq_bits(self, a: Self::V, b: Self::V) -> u32;
    /// The sum of the lanes: lane `i` with `i + 8`, then with `i + 4`, `i + 2` and `i + 1`.
    fn fold_add(self, a: Self::V) -> f32;
    /// The maximum of the lanes, by the tree of [`Simd::fold_add`] and the rule of [`Simd::max`].
    fn fold_max(self, a: Self::V) -> f32;

    /// Loads a whole vector, or the first `n` floats with zeros behind them.
    ///
    /// # Safety
    ///
    /// `p` is valid for reading `min(n, 16)` floats.
    #[inline(always)]
    unsafe fn load_upto(self, p: *const f32, n: usize) -> Self::V {
        if n >= LANES {
            // SAFETY: the caller vouches for sixteen floats.
            unsafe { self.load(p) }
        } else {
            // SAFETY: the caller vouches for `n` floats, and `n` is below sixteen.
            unsafe { self.load_tail(p, n, self.splat(0.0)) }
        }
    }

    /// Writes a whole vector, or its first `n` lanes.
    ///
    /// # Safety
    ///
    /// `p` is valid for writing `min(n, 16)` floats.
    #[inline(always)]
    unsafe fn store_upto(self, p: *mut f32, n: usize, v: Self::V) {
        if n >= LANES {
            // SAFETY: the caller vouches for sixteen floats.
            unsafe { self.store(p, v) }
        } else {
            // SAFETY: the caller vouches for `n` floats, and `n` is below sixteen.
            unsafe { self.store_tail(p, n, v) }
        }
    }
}
