//! Sixteen lanes as an array: runs anywhere, and is what the other instruction sets are held to.

use super::Isa;
use super::vector::{LANES, ROUND_MAGIC, Simd, Task};
use half::f16;

/// The proof for plain Rust, which every processor can run.
#[derive(Clone, Copy)]
pub(super) struct Portable(());

type V = [f32; LANES];

#[inline(always)]
fn map2(a: V, b: V, f: impl Fn(f32, f32) -> f32) -> V {
    let mut out = a;
    for i in 0..LANES {
        out[i] = f(a[i], b[i]);
    }
    out
}

#[inline(always)]
fn map(a: V, f: impl Fn(f32) -> f32) -> V {
    map2(a, a, |x, _| f(x))
}

#[inline(always)]
fn fold(mut a: V, f: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            a[i] = f(a[i], a[i + half]);
        }
    }
    a[0]
}

/// `2^k` for `-126 <= k <= 127`.
#[inline(always)]
fn pow2(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

impl Simd for Portable {
    type V = V;
    type H = V;
    const ISA: Isa = Isa::Portable;
    const H_LANES: usize = 16;
    const MR: usize = 4;
    const NV: usize = 1;

    #[inline(always)]
    unsafe fn new() -> Self {
        Portable(())
    }
    #[inline(always)]
    fn call<T: Task>(self, task: T) -> T::Out {
        #[inline(never)]
        fn inner<T: Task>(task: T, s: Portable) -> T::Out {
            task.run(s)
        }
        inner(task, self)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> V {
        // SAFETY: the caller vouches for sixteen floats; an array has no alignment beyond theirs.
        unsafe { p.cast::<V>().read() }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: V) {
        // SAFETY: the caller vouches for sixteen floats; an array has no alignment beyond theirs.
        unsafe { p.cast::<V>().write(v) }
    }
    #[inline(always)]
    unsafe fn load_tail(self, p: *const f32, n: usize, fill: V) -> V {
        let mut v = fill;
        for (i, lane) in v.iter_mut().enumerate().take(n) {
            // SAFETY: `i < n`, and the caller vouches for `n` floats.
            *lane = unsafe { p.add(i).read() };
        }
        v
    }
    #[inline(always)]
    unsafe fn store_tail(self, p: *mut f32, n: usize, v: V) {
        for (i, lane) in v.iter().enumerate().take(n) {
            // SAFETY: `i < n`, and the caller vouches for `n` floats.
            unsafe { p.add(i).write(*lane) };
        }
    }
    #[inline(always)]
    fn lower(self, v: V) -> V {
        v
    }
    #[inline(always)]
    fn widen_lower(self, h: V) -> V {
        h
    }
    #[inline(always)]
    fn splat_lower(self, x: f32) -> V {
        self.splat(x)
    }
    #[inline(always)]
    unsafe fn load_lower(self, p: *const f32) -> V {
        // SAFETY: the caller vouches for `H_LANES` floats, which are all.
        unsafe { self.load(p) }
    }
    #[inline(always)]
    fn fma_lower(self, a: V, b: V, c: V) -> V {
        self.fma(a, b, c)
    }
    #[inline(always)]
    unsafe fn load_quads(self, p: [*const f32; 4]) -> V {
        let mut v = [0.0; LANES];
        for (quad, p) in v.as_chunks_mut::<4>().0.iter_mut().zip(p) {
            // SAFETY: the caller vouches for four floats; an array has no alignment beyond theirs.
            *quad = unsafe { p.cast::<[f32; 4]>().read() };
        }
        v
    }
    #[inline(always)]
    fn splat_quads(self, x: [f32; 4]) -> V {
        core::array::from_fn(|i| x[i / 4])
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> V {
        // SAFETY: the caller vouches for sixteen bytes.
        let bytes = unsafe { p.cast::<[u8; LANES]>().read() };
        let mut v = [0.0; LANES];
        for i in 0..LANES {
            v[i] = f32::from(bytes[i]);
        }
        v
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> V {
        // SAFETY: the caller vouches for sixteen values; an array has no alignment beyond theirs.
        let halves = unsafe { p.cast::<[u16; LANES]>().read() };
        let mut v = [0.0; LANES];
        for i in 0..LANES {
            v[i] = f16::from_bits(halves[i]).to_f32_const();
        }
        v
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, v: V) {
        let mut halves = [0u16; LANES];
        for i in 0..LANES {
            halves[i] = f16::from_f32_const(v[i]).to_bits();
        }
        // SAFETY: the caller vouches for sixteen values; an array has no alignment beyond theirs.
        unsafe { p.cast::<[u16; LANES]>().write(halves) }
    }
    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        map2(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        map2(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        map2(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        map2(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        let mut out = c;
        for i in 0..LANES {
            out[i] = a[i].mul_add(b[i], c[i]);
        }
        out
    }
    #[inline(always)]
    fn sqrt(self, a: V) -> V {
        map(a, f32::sqrt)
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        map2(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        map2(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn neg(self, a: V) -> V {
        map(a, |a| -a)
    }
    #[inline(always)]
    fn abs(self, a: V) -> V {
        map(a, f32::abs)
    }
    #[inline(always)]
    fn with_sign(self, a: V, sign: V) -> V {
        map2(a, sign, |a, s| f32::from_bits(a.to_bits() | (s.to_bits() & 0x8000_0000)))
    }
    #[inline(always)]
    fn select_lt(self, a: V, b: V, yes: V, no: V) -> V {
        let mut out = no;
        for i in 0..LANES {
            out[i] = if a[i] < b[i] { yes[i] } else { no[i] };
        }
        out
    }
    #[inline(always)]
    fn select_nan(self, a: V, yes: V, no: V) -> V {
        let mut out = no;
        for i in 0..LANES {
            out[i] = if a[i].is_nan() { yes[i] } else { no[i] };
        }
        out
    }
    #[inline(always)]
    fn scale_pow2(self, p: V, t: V) -> V {
        map2(p, t, |p, t| {
            let n = t.to_bits().wrapping_sub(ROUND_MAGIC.to_bits()) as i32;
            let first = n >> 1;
            p * pow2(first) * pow2(n.wrapping_sub(first))
        })
    }
    #[inline(always)]
    fn exponent(self, a: V) -> V {
        map(a, |a| (a.to_bits() >> 23) as f32 - 127.0)
    }
    #[inline(always)]
    fn eq_bits(self, a: V, b: V) -> u32 {
        let mut bits = 0;
        for i in 0..LANES {
            bits |= u32::from(a[i] == b[i]) << i;
        }
        bits
    }
    #[inline(always)]
    fn fold_add(self, a: V) -> f32 {
        fold(a, |a, b| a + b)
    }
    #[inline(always)]
    fn fold_max(self, a: V) -> f32 {
        fold(a, |a, b| if a > b { a } else { b })
    }
}
