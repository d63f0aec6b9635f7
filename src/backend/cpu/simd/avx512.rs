//! Sixteen lanes as one 512-bit register.

use super::Isa;
use super::vector::{LANES, ROUND_MAGIC, Simd, Task};
use core::arch::x86_64::*;

/// The proof that the processor has AVX-512 F, VL, BW and DQ.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// Defines operations that take and return whole vectors.
macro_rules! ops {
    ($($name:ident($($a:ident),*) => $e:expr;)*) => {
        $(#[inline(always)]
        fn $name(self, $($a: __m512),*) -> __m512 {
            // SAFETY: a value of this type exists only where the instructions do.
            unsafe { $e }
        })*
    };
}

#[inline(always)]
fn mask(n: usize) -> u16 {
    ((1u32 << n) - 1) as u16
}

impl Simd for Avx512 {
    type V = __m512;
    type H = __m512;
    const ISA: Isa = Isa::Avx512;
    const H_LANES: usize = 16;
    const MR: usize = 12;
    const NV: usize = 2;

    #[inline(always)]
    unsafe fn new() -> Self {
        Avx512(())
    }
    #[inline(always)]
    fn call<T: Task>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")]
        #[inline(never)]
        fn inner<T: Task>(task: T, s: Avx512) -> T::Out {
            task.run(s)
        }
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe { inner(task, self) }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        // SAFETY: the caller vouches for sixteen floats; the load needs no alignment.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m512) {
        // SAFETY: the caller vouches for sixteen floats; the store needs no alignment.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_tail(self, p: *const f32, n: usize, fill: __m512) -> __m512 {
        debug_assert!(n <= LANES);
        // SAFETY: masked-out lanes are not accessed; the caller vouches for the `n` others.
        unsafe { _mm512_mask_loadu_ps(fill, mask(n), p) }
    }
    #[inline(always)]
    unsafe fn store_tail(self, p: *mut f32, n: usize, v: __m512) {
        debug_assert!(n <= LANES);
        // SAFETY: masked-out lanes are not accessed; the caller vouches for the `n` others.
        unsafe { _mm512_mask_storeu_ps(p, mask(n), v) }
    }
    #[inline(always)]
    fn lower(self, v: __m512) -> __m512 {
        v
    }
    #[inline(always)]
    fn widen_lower(self, h: __m512) -> __m512 {
        h
    }
    #[inline(always)]
    fn splat_lower(self, x: f32) -> __m512 {
        self.splat(x)
    }
    #[inline(always)]
    unsafe fn load_lower(self, p: *const f32) -> __m512 {
        // SAFETY: the caller vouches for `H_LANES` floats, which are all.
        unsafe { self.load(p) }
    }
    #[inline(always)]
    fn fma_lower(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        self.fma(a, b, c)
    }
    #[inline(always)]
    unsafe fn load_quads(self, p: [*const f32; 4]) -> __m512 {
        // SAFETY: the caller vouches for four floats at each; the loads need no alignment.
        unsafe {
            let v = _mm512_castps128_ps512(_mm_loadu_ps(p[0]));
            let v = _mm512_insertf32x4::<1>(v, _mm_loadu_ps(p[1]));
            let v = _mm512_insertf32x4::<2>(v, _mm_loadu_ps(p[2]));
            _mm512_insertf32x4::<3>(v, _mm_loadu_ps(p[3]))
        }
    }
    #[inline(always)]
    fn splat_quads(self, x: [f32; 4]) -> __m512 {
        // SAFETY: a value of this type exists only where the instructions do; the array holds four floats.
        unsafe {
            let v = _mm512_castps128_ps512(_mm_loadu_ps(x.as_ptr()));
            let spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
            _mm512_permutexvar_ps(spread, v)
        }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> __m512 {
        // SAFETY: the caller vouches for sixteen bytes; the load needs no alignment.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> __m512 {
        // SAFETY: the caller vouches for sixteen values; the load needs no alignment.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, v: __m512) {
        // SAFETY: the caller vouches for sixteen values; the store needs no alignment.
        unsafe {
            let h = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v);
            _mm256_storeu_si256(p.cast(), h);
        }
    }
    ops! {
        add(a, b) => _mm512_add_ps(a, b);
        sub(a, b) => _mm512_sub_ps(a, b);
        mul(a, b) => _mm512_mul_ps(a, b);
        div(a, b) => _mm512_div_ps(a, b);
        fma(a, b, c) => _mm512_fmadd_ps(a, b, c);
        sqrt(a) => _mm512_sqrt_ps(a);
        max(a, b) => _mm512_max_ps(a, b);
        min(a, b) => _mm512_min_ps(a, b);
        neg(a) => _mm512_xor_ps(a, _mm512_set1_ps(-0.0));
        abs(a) => _mm512_andnot_ps(_mm512_set1_ps(-0.0), a);
        with_sign(a, sign) => _mm512_or_ps(a, _mm512_and_ps(sign, _mm512_set1_ps(-0.0)));
        select_lt(a, b, yes, no) =>
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), no, yes);
        select_nan(a, yes, no) =>
            _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), no, yes);
        scale_pow2(p, t) =>
            _mm512_scalef_ps(p, _mm512_sub_ps(t, _mm512_set1_ps(ROUND_MAGIC)));
        exponent(a) => {
            let biased = _mm512_srli_epi32::<23>(_mm512_castps_si512(a));
            _mm512_sub_ps(_mm512_cvtepi32_ps(biased), _mm512_set1_ps(127.0))
        };
    }
    #[inline(always)]
    fn eq_bits(self, a: __m512, b: __m512) -> u32 {
        // SAFETY: a value of this type exists only where the instructions do.
        u32::from(unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) })
    }
    #[inline(always)]
    fn fold_add(self, a: __m512) -> f32 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe {
            let (lo, hi) = (_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let a = _mm256_add_ps(lo, hi);
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        }
    }
    #[inline(always)]
    fn fold_max(self, a: __m512) -> f32 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe {
            let (lo, hi) = (_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let a = _mm256_max_ps(lo, hi);
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        }
    }
}
