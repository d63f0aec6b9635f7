//! Sixteen lanes as four 128-bit registers.

use super::Isa;
use super::vector::{LANES, ROUND_MAGIC, Simd, Task};
use core::arch::aarch64::*;
use half::f16;

/// The proof that the processor has Advanced SIMD.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

/// Lanes 0 to 3, 4 to 7, 8 to 11 and 12 to 15.
#[derive(Clone, Copy)]
pub(super) struct V(float32x4_t, float32x4_t, float32x4_t, float32x4_t);

/// Defines operations that work on each quarter alike.
macro_rules! ops {
    ($($name:ident($($a:ident),*) => $e:expr;)*) => {
        $(#[inline(always)]
        fn $name(self, $($a: V),*) -> V {
            #[inline(always)]
            fn quarter($($a: float32x4_t),*) -> float32x4_t {
                // SAFETY: only reached through a value of `Neon`, which exists only where the
                // instructions do.
                unsafe { $e }
            }
            V(
                quarter($($a.0),*),
                quarter($($a.1),*),
                quarter($($a.2),*),
                quarter($($a.3),*),
            )
        })*
    };
}

impl Simd for Neon {
    type V = V;
    type H = (float32x4_t, float32x4_t);
    const ISA: Isa = Isa::Neon;
    const H_LANES: usize = 8;
    const MR: usize = 6;
    const NV: usize = 1;

    #[inline(always)]
    unsafe fn new() -> Self {
        Neon(())
    }
    #[inline(always)]
    fn call<T: Task>(self, task: T) -> T::Out {
        #[target_feature(enable = "neon")]
        #[inline(never)]
        fn inner<T: Task>(task: T, s: Neon) -> T::Out {
            task.run(s)
        }
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe { inner(task, self) }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> V {
        // SAFETY: a value of this type exists only where the instructions do.
        let v = unsafe { vdupq_n_f32(x) };
        V(v, v, v, v)
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> V {
        // SAFETY: the caller vouches for sixteen floats.
        unsafe { V(vld1q_f32(p), vld1q_f32(p.add(4)), vld1q_f32(p.add(8)), vld1q_f32(p.add(12))) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: V) {
        // SAFETY: the caller vouches for sixteen floats.
        unsafe {
            vst1q_f32(p, v.0);
            vst1q_f32(p.add(4), v.1);
            vst1q_f32(p.add(8), v.2);
            vst1q_f32(p.add(12), v.3);
        }
    }
    #[inline(always)]
    unsafe fn load_tail(self, p: *const f32, n: usize, fill: V) -> V {
        debug_assert!(n <= LANES);
        let mut lanes = [0.0f32; LANES];
        // SAFETY: the array holds sixteen floats, and the caller vouches for `n <= 16` at `p`,
        // which cannot overlap a local array.
        unsafe {
            self.store(lanes.as_mut_ptr(), fill);
            core::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            self.load(lanes.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn store_tail(self, p: *mut f32, n: usize, v: V) {
        debug_assert!(n <= LANES);
        let mut lanes = [0.0f32; LANES];
        // SAFETY: the array holds sixteen floats, and the caller vouches for `n <= 16` at `p`,
        // which cannot overlap a local array.
        unsafe {
            self.store(lanes.as_mut_ptr(), v);
            core::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
        }
    }
    #[inline(always)]
    fn lower(self, v: V) -> Self::H {
        (v.0, v.1)
    }
    #[inline(always)]
    fn widen_lower(self, h: Self::H) -> V {
        V(h.0, h.1, h.0, h.1)
    }
    #[inline(always)]
    fn splat_lower(self, x: f32) -> Self::H {
        // SAFETY: a value of this type exists only where the instructions do.
        let v = unsafe { vdupq_n_f32(x) };
        (v, v)
    }
    #[inline(always)]
    unsafe fn load_lower(self, p: *const f32) -> Self::H {
        // SAFETY: the caller vouches for eight floats.
        unsafe { (vld1q_f32(p), vld1q_f32(p.add(4))) }
    }
    #[inline(always)]
    fn fma_lower(self, a: Self::H, b: Self::H, c: Self::H) -> Self::H {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe { (vfmaq_f32(c.0, a.0, b.0), vfmaq_f32(c.1, a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn load_quads(self, p: [*const f32; 4]) -> V {
        // SAFETY: the caller vouches for four floats at each.
        unsafe { V(vld1q_f32(p[0]), vld1q_f32(p[1]), vld1q_f32(p[2]), vld1q_f32(p[3])) }
    }
    #[inline(always)]
    fn splat_quads(self, x: [f32; 4]) -> V {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe { V(vdupq_n_f32(x[0]), vdupq_n_f32(x[1]), vdupq_n_f32(x[2]), vdupq_n_f32(x[3])) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> V {
        // SAFETY: the caller vouches for sixteen bytes.
        unsafe {
            let b = vld1q_u8(p);
            let (lo, hi) = (vmovl_u8(vget_low_u8(b)), vmovl_u8(vget_high_u8(b)));
            V(
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(lo))),
                vcvtq_f32_u32(vmovl_u16(vget_high_u16(lo))),
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(hi))),
                vcvtq_f32_u32(vmovl_u16(vget_high_u16(hi))),
            )
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> V {
        // SAFETY: the caller vouches for sixteen values; an array has no alignment beyond theirs.
        let halves = unsafe { p.cast::<[u16; LANES]>().read() };
        let mut lanes = [0.0f32; LANES];
        for i in 0..LANES {
            lanes[i] = f16::from_bits(halves[i]).to_f32_const();
        }
        // SAFETY: the array holds sixteen floats.
        unsafe { self.load(lanes.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, v: V) {
        let mut lanes = [0.0f32; LANES];
        // SAFETY: the array holds sixteen floats.
        unsafe { self.store(lanes.as_mut_ptr(), v) };
        let mut halves = [0u16; LANES];
        for i in 0..LANES {
            halves[i] = f16::from_f32_const(lanes[i]).to_bits();
        }
        // SAFETY: the caller vouches for sixteen values; an array has no alignment beyond theirs.
        unsafe { p.cast::<[u16; LANES]>().write(halves) }
    }
    ops! {
        add(a, b) => vaddq_f32(a, b);
        sub(a, b) => vsubq_f32(a, b);
        mul(a, b) => vmulq_f32(a, b);
        div(a, b) => vdivq_f32(a, b);
        fma(a, b, c) => vfmaq_f32(c, a, b);
        sqrt(a) => vsqrtq_f32(a);
        // The instructions of the same name treat NaN and signed zeros otherwise.
        max(a, b) => vbslq_f32(vcgtq_f32(a, b), a, b);
        min(a, b) => vbslq_f32(vcltq_f32(a, b), a, b);
        neg(a) => vnegq_f32(a);
        abs(a) => vabsq_f32(a);
        with_sign(a, sign) => vbslq_f32(vdupq_n_u32(0x8000_0000), sign, a);
        select_lt(a, b, yes, no) => vbslq_f32(vcltq_f32(a, b), yes, no);
        select_nan(a, yes, no) => vbslq_f32(vceqq_f32(a, a), no, yes);
        // The first product is exact, because both factors are normal and far from the limits; so
        // the whole rounds once, at the second.
        scale_pow2(p, t) => {
            let magic = vdupq_n_s32(ROUND_MAGIC.to_bits() as i32);
            let n = vsubq_s32(vreinterpretq_s32_f32(t), magic);
            let first = vshrq_n_s32::<1>(n);
            let second = vsubq_s32(n, first);
            let bias = vdupq_n_s32(127);
            let first = vshlq_n_s32::<23>(vaddq_s32(first, bias));
            let second = vshlq_n_s32::<23>(vaddq_s32(second, bias));
            let p = vmulq_f32(p, vreinterpretq_f32_s32(first));
            vmulq_f32(p, vreinterpretq_f32_s32(second))
        };
        exponent(a) => {
            let biased = vshrq_n_u32::<23>(vreinterpretq_u32_f32(a));
            vsubq_f32(vcvtq_f32_u32(biased), vdupq_n_f32(127.0))
        };
    }
    #[inline(always)]
    fn eq_bits(self, a: V, b: V) -> u32 {
        static BITS: [u32; 4] = [1, 2, 4, 8];
        // SAFETY: a value of this type exists only where the instructions do, and the table holds
        // the four words that are loaded.
        unsafe {
            let bits = vld1q_u32(BITS.as_ptr());
            let quarter = |a, b| vaddvq_u32(vandq_u32(vceqq_f32(a, b), bits));
            quarter(a.0, b.0) | quarter(a.1, b.1) << 4 | quarter(a.2, b.2) << 8 | quarter(a.3, b.3) << 12
        }
    }
    #[inline(always)]
    fn fold_add(self, a: V) -> f32 {
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe {
            let a = vaddq_f32(vaddq_f32(a.0, a.2), vaddq_f32(a.1, a.3));
            let a = vadd_f32(vget_low_f32(a), vget_high_f32(a));
            vget_lane_f32::<0>(a) + vget_lane_f32::<1>(a)
        }
    }
    #[inline(always)]
    fn fold_max(self, a: V) -> f32 {
        let pick = |a: f32, b: f32| if a > b { a } else { b };
        let half = self.max(V(a.0, a.1, a.0, a.1), V(a.2, a.3, a.2, a.3));
        let quarter = self.max(V(half.0, half.0, half.0, half.0), V(half.1, half.1, half.1, half.1)).0;
        // SAFETY: a value of this type exists only where the instructions do.
        unsafe {
            pick(
                pick(vgetq_lane_f32::<0>(quarter), vgetq_lane_f32::<2>(quarter)),
                pick(vgetq_lane_f32::<1>(quarter), vgetq_lane_f32::<3>(quarter)),
            )
        }
    }
}
