//! Sixteen lanes as two 256-bit registers.

use super::Isa;
use super::vector::{LANES, ROUND_MAGIC, Simd, Task};
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

/// The masks of the two halves for the first `n` lanes.
#[inline(always)]
fn masks(n: usize) -> (__m256i, __m256i) {
    debug_assert!(n <= LANES);
    let (lo, hi) = (n.min(8), n.saturating_sub(8).min(8));
    // SAFETY: both windows of eight start at most eight entries into sixteen, and the loads need no
    // alignment; only reached through a value of `Avx2`.
    unsafe {
        (
            _mm256_loadu_si256(MASKS.as_ptr().add(8 - lo).cast()),
            _mm256_loadu_si256(MASKS.as_ptr().add(8 - hi).cast()),
        )
    }
}

impl Simd for Avx2 {
    type V = V;
    const ISA: Isa = Isa::Avx2;
    const MR: usize = 6;
    const NV: usize = 1;
    const DW: usize = 2;

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
        let (lo, hi) = masks(n);
        // SAFETY: masked-out lanes are not accessed and the caller vouches for the `n` others;
        // `wrapping_add` forms the second address without claiming that it lies inside.
        unsafe {
            V(
                _mm256_blendv_ps(fill.0, _mm256_maskload_ps(p, lo), _mm256_castsi256_ps(lo)),
                _mm256_blendv_ps(fill.1, _mm256_maskload_ps(p.wrapping_add(8), hi), _mm256_castsi256_ps(hi)),
            )
        }
    }
    #[inline(always)]
    unsafe fn store_tail(self, p: *mut f32, n: usize, v: V) {
        let (lo, hi) = masks(n);
        // SAFETY: masked-out lanes are not accessed and the caller vouches for the `n` others;
        // `wrapping_add` forms the second address without claiming that it lies inside.
        unsafe {
            _mm256_maskstore_ps(p, lo, v.0);
            _mm256_maskstore_ps(p.wrapping_add(8), hi, v.1);
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
