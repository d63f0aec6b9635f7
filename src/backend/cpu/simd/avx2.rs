//! Sixteen lanes as two 256-bit registers.

use super::Isa;
use super::vector::{ROUND_MAGIC, Simd, Task};
use core::arch::x86_64::*;

/// The proof that the processor has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Lanes 0 to 7 and 8 to 15.
#[derive(Clone, Copy)]
pub(super) struct V(__m256, __m256);

/// Eight ones, then eight zeros: the window that starts `n` entries before the zeros selects `n` lanes.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// Defines operations that work on each half alike.
macro_rules! ops {
    ($($name:ident($($a:ident),*) => $e:expr;)*) => {
        $(#[inline(always)]
        fn $name(self, $($a: V),*) -> V {
            #[inline(always)]
            fn half($($a: __m256),*) -> __m256 {
                // SAFETY: only reached through a value of `Avx2`, which exists only where the
                // instructions do.
                unsafe { $e }
            }
            V(half($($a.0),*), half($($a.1),*))
        })*
    };
}

/// The first `n` of eight floats at `p`; the other lanes come from `fill`.
///
/// # Safety
///
/// The processor has AVX2, `p` is valid for reading `n` floats, and `n <= 8`.
#[inline(always)]
unsafe fn load_part(p: *const f32, n: usize, fill: __m256) -> __m256 {
    debug_assert!(n <= 8);
    if n == 0 {
        return fill;
    }
    // SAFETY: the window of eight starts at most eight entries into sixteen; masked-out lanes are not accessed and the
    // caller vouches for the `n` others. The loads need no alignment.
    unsafe {
        let mask = _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast());
        _mm256_blendv_ps(fill, _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask))
    }
}

/// Writes the first `n` of eight lanes, in pieces of four, two and one: a masked store takes some processors as long as
/// forty ordinary instructions.
///
/// # Safety
///
/// The processor has AVX2, `p` is valid for writing `n` floats, and `n <= 8`.
#[inline(always)]
unsafe fn store_part(p: *mut f32, n: usize, v: __m256) {
    debug_assert!(n <= 8);
    // SAFETY: the caller vouches for `n` floats, the sum of the pieces. The stores need no alignment beyond that of floats.
    unsafe {
        if n == 8 {
            return _mm256_storeu_ps(p, v);
        }
        let (mut p, mut v, above) = (p, _mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        if n & 4 != 0 {
            _mm_storeu_ps(p, v);
            (p, v) = (p.add(4), above);
        }
        if n & 2 != 0 {
            _mm_storel_epi64(p.cast(), _mm_castps_si128(v));
            (p, v) = (p.add(2), _mm_movehl_ps(v, v));
        }
        if n & 1 != 0 {
            _mm_store_ss(p, v);
        }
    }
}

impl Simd for Avx2 {
    type V = V;
    type H = __m256;
    const ISA: Isa = Isa::Avx2;
    const H_LANES: usize = 8;
    const MR: usize = 6;
    const NV: usize = 1;

    #[inline(always)]
    unsafe fn new() -> Self {
        Avx2(())
    }
    #[inline(always)]
    fn call<T: Task>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        #[inline(never)]
        fn inner<T: Task>(task: T, s: Avx2) -> T::Out {
            task.run(s)
        }
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe { inner(task, self) }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> V {
        // SAFETY: a value of this type exists only where the instructions do.
        let v = unsafe { _mm256_set1_ps(x) };
        V(v, v)
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> V {
        // SAFETY: the caller vouches for sixteen floats; the loads need no alignment.
        unsafe { V(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: V) {
        // SAFETY: the caller vouches for sixteen floats; the stores need no alignment.
        unsafe {
            _mm256_storeu_ps(p, v.0);
            _mm256_storeu_ps(p.add(8), v.1);
        }
    }
    #[inline(always)]
    unsafe fn load_tail(self, p: *const f32, n: usize, fill: V) -> V {
        // SAFETY: the caller vouches for `n` floats, which are as many as the halves read.
        unsafe {
            if n >= 8 {
                V(_mm256_loadu_ps(p), load_part(p.wrapping_add(8), n - 8, fill.1))
            } else {
                V(load_part(p, n, fill.0), fill.1)
            }
        }
    }
    #[inline(always)]
    unsafe fn store_tail(self, p: *mut f32, n: usize, v: V) {
        // SAFETY: the caller vouches for `n` floats, which are as many as the halves write.
        unsafe {
            if n >= 8 {
                _mm256_storeu_ps(p, v.0);
                store_part(p.wrapping_add(8), n - 8, v.1);
            } else {
                store_part(p, n, v.0);
            }
        }
    }
    #[inline(always)]
    fn lower(self, v: V) -> __m256 {
        v.0
    }
    #[inline(always)]
    fn widen_lower(self, h: __m256) -> V {
        V(h, h)
    }
    #[inline(always)]
    fn splat_lower(self, x: f32) -> __m256 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load_lower(self, p: *const f32) -> __m256 {
        // SAFETY: the caller vouches for eight floats; the load needs no alignment.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    fn fma_lower(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn load_quads(self, p: [*const f32; 4]) -> V {
        // SAFETY: the caller vouches for four floats at each; the loads need no alignment.
        unsafe { V(_mm256_loadu2_m128(p[1], p[0]), _mm256_loadu2_m128(p[3], p[2])) }
    }
    #[inline(always)]
    fn splat_quads(self, x: [f32; 4]) -> V {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe {
            let [a, b, c, d] = x.map(|x| _mm_set1_ps(x));
            V(_mm256_set_m128(b, a), _mm256_set_m128(d, c))
        }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> V {
        // SAFETY: the caller vouches for sixteen bytes; the load needs no alignment.
        unsafe {
            let b = _mm_loadu_si128(p.cast());
            V(
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(b, b))),
            )
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> V {
        // SAFETY: the caller vouches for sixteen values; the loads need no alignment.
        unsafe {
            V(
                _mm256_cvtph_ps(_mm_loadu_si128(p.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(p.add(8).cast())),
            )
        }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, v: V) {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;
        // SAFETY: the caller vouches for sixteen values; the stores need no alignment.
        unsafe {
            _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<NEAREST>(v.0));
            _mm_storeu_si128(p.add(8).cast(), _mm256_cvtps_ph::<NEAREST>(v.1));
        }
    }
    ops! {
        add(a, b) => _mm256_add_ps(a, b);
        sub(a, b) => _mm256_sub_ps(a, b);
        mul(a, b) => _mm256_mul_ps(a, b);
        div(a, b) => _mm256_div_ps(a, b);
        fma(a, b, c) => _mm256_fmadd_ps(a, b, c);
        sqrt(a) => _mm256_sqrt_ps(a);
        max(a, b) => _mm256_max_ps(a, b);
        min(a, b) => _mm256_min_ps(a, b);
        neg(a) => _mm256_xor_ps(a, _mm256_set1_ps(-0.0));
        abs(a) => _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        with_sign(a, sign) => _mm256_or_ps(a, _mm256_and_ps(sign, _mm256_set1_ps(-0.0)));
        select_lt(a, b, yes, no) => _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        select_nan(a, yes, no) => _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a));
        // The first product is exact, because both factors are normal and far from the limits; so
        // the whole rounds once, at the second.
        scale_pow2(p, t) => {
            let magic = _mm256_set1_epi32(ROUND_MAGIC.to_bits() as i32);
            let n = _mm256_sub_epi32(_mm256_castps_si256(t), magic);
            let first = _mm256_srai_epi32::<1>(n);
            let second = _mm256_sub_epi32(n, first);
            let bias = _mm256_set1_epi32(127);
            let first = _mm256_slli_epi32::<23>(_mm256_add_epi32(first, bias));
            let second = _mm256_slli_epi32::<23>(_mm256_add_epi32(second, bias));
            let p = _mm256_mul_ps(p, _mm256_castsi256_ps(first));
            _mm256_mul_ps(p, _mm256_castsi256_ps(second))
        };
        exponent(a) => {
            let biased = _mm256_srli_epi32::<23>(_mm256_castps_si256(a));
            _mm256_sub_ps(_mm256_cvtepi32_ps(biased), _mm256_set1_ps(127.0))
        };
    }
    #[inline(always)]
    fn eq_bits(self, a: V, b: V) -> u32 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe {
            let lo = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(a.0, b.0));
            let hi = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(a.1, b.1));
            (lo | (hi << 8)) as u32
        }
    }
    #[inline(always)]
    fn fold_add(self, a: V) -> f32 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe {
            let a = _mm256_add_ps(a.0, a.1);
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        }
    }
    #[inline(always)]
    fn fold_max(self, a: V) -> f32 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe {
            let a = _mm256_max_ps(a.0, a.1);
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        }
    }
}
