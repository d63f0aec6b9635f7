//! The table of kernels of one instruction set.

use super::convert::{self, BilinearRow};
use super::igemm::{self, Gemm, Igemm};
use super::pack;
use super::recurrent::{self, RecurrentCell};
use super::step::{self, Binary, MAX_STEPS, MapRows, Operand, Step, Unary};
use super::vector::{LANES, Simd, Task};
use super::window::{self, Depthwise, Pool};
use super::{Isa, portable};
use core::ops::Range;
use half::f16;

/// The kernels of one instruction set.
///
/// The `unsafe` methods trust pointers and counts; the others take slices and check them.
#[derive(Debug)]
pub struct Kernels {
    isa: Isa,
    mr: usize,
    nr: usize,
    igemm: unsafe fn(&Igemm<'_>),
    gemm: unsafe fn(&Gemm<'_>),
    map_rows: unsafe fn(&MapRows<'_>),
    depthwise: unsafe fn(&Depthwise<'_>),
    pool: unsafe fn(&Pool<'_>),
    bilinear_row: unsafe fn(&BilinearRow<'_>),
    sum: unsafe fn(&[f32]) -> f32,
    max: unsafe fn(&[f32]) -> f32,
    argmax: unsafe fn(&ArgmaxRows<'_>),
    add_rows: unsafe fn(&AddRows),
    add_products: unsafe fn(&AddProducts<'_>),
    softmax: unsafe fn(&Softmax),
    lstm_cell: unsafe fn(&RecurrentCell),
    gru_cell: unsafe fn(&RecurrentCell),
    u8_to_f32: unsafe fn(&FromBytes<'_>),
    widen: unsafe fn(&mut Widen<'_>),
    narrow: unsafe fn(&mut Narrow<'_>),
}

/// Arguments of [`Kernels::add_rows`].
struct AddRows {
    src: *const f32,
    stride: usize,
    rows: usize,
    c: usize,
    dst: *mut f32,
}

/// Arguments of [`Kernels::add_products`].
struct AddProducts<'a> {
    weights: &'a [f32],
    rows: *const f32,
    stride: usize,
    n: usize,
    sums: *mut f32,
}

/// Arguments of the softmax kernels: down columns where `columns` is set.
struct Softmax {
    src: *const f32,
    dst: *mut f32,
    rows: usize,
    c: usize,
    stride: usize,
    columns: bool,
}

/// Arguments of [`Kernels::u8_to_f32`].
struct FromBytes<'a> {
    src: *const u8,
    dst: *mut f32,
    n: usize,
    mean: &'a [f32],
    inv: &'a [f32],
    swap: bool,
}

/// Arguments of the argmax kernels.
struct ArgmaxRows<'a> {
    src: &'a [f32],
    c: usize,
    out: Indices,
}

/// Where indices go, one per row.
enum Indices {
    Byte(*mut u8),
    Word(*mut i32),
}

struct Widen<'a>(&'a [f16], &'a mut [f32]);
struct Narrow<'a>(&'a [f32], &'a mut [f16]);

/// Defines, for one instruction set each, the function that a table points to.
macro_rules! entries {
    ($($name:ident($args:ident: $ty:ty, $s:ident) $(-> $out:ty)? $body:block)*) => {
        $(
            /// # Safety
            ///
            /// The processor has the instruction set, and the arguments keep the kernel's contract.
            unsafe fn $name<S: Simd>($args: $ty) $(-> $out)? {
                struct Run<T>(T);
                impl Task for Run<$ty> {
                    type Out = entries!(@ $($out)?);
                    #[inline(always)]
                    #[allow(unused_unsafe, reason = "some of the kernels are safe")]
                    fn run<S: Simd>(self, $s: S) -> Self::Out {
                        let $args = self.0;
                        // SAFETY: made only by the function around, whose contract this is.
                        unsafe { $body }
                    }
                }
                // SAFETY: the caller vouches for the processor.
                let s = unsafe { S::new() };
                s.call(Run($args))
            }
        )*
    };
    (@ $out:ty) => { $out };
    (@) => { () };
}

entries! {
    run_igemm(a: &Igemm<'_>, s) { igemm::igemm(s, a) }
    run_gemm(a: &Gemm<'_>, s) { igemm::gemm(s, a) }
    run_map_rows(a: &MapRows<'_>, s) { step::map_rows(s, a) }
    run_depthwise(a: &Depthwise<'_>, s) { window::depthwise(s, a) }
    run_pool(a: &Pool<'_>, s) { window::pool(s, a) }
    run_bilinear_row(a: &BilinearRow<'_>, s) { convert::bilinear_row(s, a) }
    run_sum(a: &[f32], s) -> f32 { super::reduce::sum(s, a.as_ptr(), a.len()) }
    run_max(a: &[f32], s) -> f32 { super::reduce::max(s, a.as_ptr(), a.len()) }
    run_argmax(a: &ArgmaxRows<'_>, s) {
        for (r, row) in a.src.chunks_exact(a.c).enumerate() {
            let at = super::reduce::argmax(s, row.as_ptr(), row.len());
            match a.out {
                Indices::Byte(p) => p.add(r).write(at as u8),
                Indices::Word(p) => p.add(r).write(at as i32),
            }
        }
    }
    run_add_rows(a: &AddRows, s) {
        super::reduce::add_rows(s, a.src, a.stride, a.rows, a.c, a.dst);
    }
    run_add_products(a: &AddProducts<'_>, s) {
        super::reduce::add_products(s, a.weights, a.rows, a.stride, a.n, a.sums);
    }
    run_softmax(a: &Softmax, s) {
        if a.columns {
            super::reduce::softmax_columns(s, a.src, a.dst, a.rows, a.stride, a.c);
        } else {
            let together = if a.c <= super::reduce::SHORT { a.rows / LANES * LANES } else { 0 };
            for r in (0..together).step_by(LANES) {
                let (src, dst) = (a.src.add(r * a.stride), a.dst.add(r * a.stride));
                super::reduce::softmax_short(s, src, dst, a.c, a.stride);
            }
            for r in together..a.rows {
                let (src, dst) = (a.src.add(r * a.stride), a.dst.add(r * a.stride));
                super::reduce::softmax(s, src, dst, a.c);
            }
        }
    }
    run_lstm_cell(a: &RecurrentCell, s) { recurrent::lstm_cell(s, a) }
    run_gru_cell(a: &RecurrentCell, s) { recurrent::gru_cell(s, a) }
    run_u8_to_f32(a: &FromBytes<'_>, s) {
        convert::u8_to_f32(s, a.src, a.dst, a.n, a.mean, a.inv, a.swap);
    }
    run_widen(a: &mut Widen<'_>, s) { convert::f16_to_f32(s, a.0, a.1) }
    run_narrow(a: &mut Narrow<'_>, s) { convert::f32_to_f16(s, a.0, a.1) }
}

const fn table<S: Simd>() -> Kernels {
    Kernels {
        isa: S::ISA,
        mr: S::MR,
        nr: S::NV * LANES,
        igemm: run_igemm::<S>,
        gemm: run_gemm::<S>,
        map_rows: run_map_rows::<S>,
        depthwise: run_depthwise::<S>,
        pool: run_pool::<S>,
        bilinear_row: run_bilinear_row::<S>,
        sum: run_sum::<S>,
        max: run_max::<S>,
        argmax: run_argmax::<S>,
        add_rows: run_add_rows::<S>,
        add_products: run_add_products::<S>,
        softmax: run_softmax::<S>,
        lstm_cell: run_lstm_cell::<S>,
        gru_cell: run_gru_cell::<S>,
        u8_to_f32: run_u8_to_f32::<S>,
        widen: run_widen::<S>,
        narrow: run_narrow::<S>,
    }
}

static PORTABLE: Kernels = table::<portable::Portable>();
#[cfg(target_arch = "x86_64")]
static AVX2: Kernels = table::<super::avx2::Avx2>();
#[cfg(target_arch = "x86_64")]
static AVX512: Kernels = table::<super::avx512::Avx512>();
#[cfg(target_arch = "aarch64")]
static NEON: Kernels = table::<super::neon::Neon>();

impl Kernels {
    /// The kernels of the best instruction set that this processor has.
    #[must_use]
    pub fn get() -> &'static Kernels {
        Kernels::for_isa(Isa::detect()).unwrap_or(&PORTABLE)
    }

    /// The kernels of one instruction set, if this processor has it.
    #[must_use]
    pub fn for_isa(isa: Isa) -> Option<&'static Kernels> {
        if !isa.is_available() {
            return None;
        }
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Some(&AVX512),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Some(&AVX2),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => Some(&NEON),
            Isa::Portable => Some(&PORTABLE),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }

    /// The instruction set.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Pixels of a full tile, and the pitch of the pointer table of [`Igemm`].
    #[must_use]
    pub fn mr(&self) -> usize {
        self.mr
    }

    /// Channels of a full panel. Calls that take part of the channels begin at a multiple of this,
    /// and end at one or at the last channel.
    #[must_use]
    pub fn nr(&self) -> usize {
        self.nr
    }

    /// Slots in the pointer table for `m` pixels.
    #[must_use]
    pub fn row_slots(&self, m: usize, taps: usize) -> usize {
        m.div_ceil(self.mr) * self.mr * taps
    }

    /// The slot of pixel `pixel`, tap `tap` in the pointer table.
    #[must_use]
    #[inline]
    pub fn row_slot(&self, pixel: usize, tap: usize, taps: usize) -> usize {
        (pixel / self.mr * taps + tap) * self.mr + pixel % self.mr
    }

    /// Packs convolution weights from `[channel][tap][input channel]` for [`Kernels::igemm`];
    /// `k` is taps times input channels, and `dst` has [`super::packed_len`]`(k, n)` floats.
    ///
    /// # Panics
    ///
    /// Panics where a slice is too short.
    pub fn pack(&self, src: &[f32], k: usize, n: usize, dst: &mut [f32]) {
        pack::pack(self.nr, src, (1, k), (k, n), 0..n, dst);
    }

    /// Packs the columns `columns` of a `k` by `n` matrix whose element `(i, j)` is
    /// `src[i * strides.0 + j * strides.1]`; `dst` is the packed buffer of the whole matrix.
    ///
    /// # Panics
    ///
    /// Panics where a slice is too short, or where `columns` does not begin at a multiple of
    /// [`Kernels::nr`] or end at one or at `n`.
    pub fn pack_b(&self, src: &[f32], strides: (usize, usize), (k, n): (usize, usize), columns: Range<usize>, dst: &mut [f32]) {
        pack::pack(self.nr, src, strides, (k, n), columns, dst);
    }

    /// Indirect convolution of a group of output pixels; see [`Igemm`].
    ///
    /// # Safety
    ///
    /// Every slot of `rows` that belongs to a valid pixel points to `cin` readable floats, for a tap
    /// in the padding to zeros. `weights` holds the packed panels of `n` channels as packed for this
    /// table, `bias` is null or holds `n` floats, and each of the `m` pointers of `out` is valid for
    /// writing `n` floats that overlap neither the inputs nor each other. `n` is a multiple of
    /// [`Kernels::nr`] or reaches the last channel that was packed. There are at most
    /// [`MAX_STEPS`] steps, whose operands cover `m` rows of `n` channels and overlap the output
    /// only where they are the same element.
    pub unsafe fn igemm(&self, args: &Igemm<'_>) {
        debug_assert!(args.steps.len() <= MAX_STEPS);
        // SAFETY: a table is handed out only where the processor has its instruction set, and the
        // contract is the same.
        unsafe { (self.igemm)(args) }
    }

    /// A matrix product; see [`Gemm`]. Each output is the bias, then one fused multiply-add per
    /// step of `k` in order: the bits of [`Kernels::igemm`] with one tap.
    ///
    /// # Safety
    ///
    /// Row `r < m` of `a` is valid for reading `k` floats and of `out` for writing `n`; where there is
    /// a stride of the bias, row `r` of it holds `n` floats, and without a bias the stride is 0; the rest
    /// as for [`Kernels::igemm`].
    pub unsafe fn gemm(&self, args: &Gemm<'_>) {
        debug_assert!(args.steps.len() <= MAX_STEPS);
        // SAFETY: as in `igemm`.
        unsafe { (self.gemm)(args) }
    }

    /// Steps over rows; see [`MapRows`]. The bits are those of the same steps fused to a kernel.
    ///
    /// # Safety
    ///
    /// Every row of `src` is valid for reading `n` floats and of `dst` for writing as many, and the
    /// operands cover `rows` rows of `n` channels. Input and operands overlap the output only where
    /// they are the same element. There are at most [`MAX_STEPS`] steps.
    pub unsafe fn map_rows(&self, args: &MapRows<'_>) {
        debug_assert!(args.steps.len() <= MAX_STEPS);
        // SAFETY: as in `igemm`.
        unsafe { (self.map_rows)(args) }
    }

    /// One step of a row of an LSTM; see [`RecurrentCell`].
    ///
    /// # Safety
    ///
    /// `gates` is valid for reading `4 n` floats, `state` for reading and writing `n`, `h` for writing `n`, and none overlaps another.
    pub unsafe fn lstm_cell(&self, args: &RecurrentCell) {
        // SAFETY: as in `igemm`.
        unsafe { (self.lstm_cell)(args) }
    }

    /// One step of a row of a GRU.
    ///
    /// # Safety
    ///
    /// As [`Kernels::lstm_cell`].
    pub unsafe fn gru_cell(&self, args: &RecurrentCell) {
        // SAFETY: as in `igemm`.
        unsafe { (self.gru_cell)(args) }
    }

    /// Depthwise convolution along an output row; see [`Depthwise`].
    ///
    /// # Safety
    ///
    /// Row pointers that are not null have `in_w` pixels, `pixel_stride` apart, of `c` readable
    /// floats. `kw`, `stride` and `dilation` are at least one. `weights` has `kh * kw` groups,
    /// `weight_pitch` apart, of `c` floats rounded up to sixteen; `bias` is null or has `c` floats.
    /// The `n` output pixels are valid for writing `c` floats and do not overlap the input. There
    /// are at most [`MAX_STEPS`] steps, whose operands cover `n` rows of `c` channels and overlap
    /// the output only where they are the same element.
    pub unsafe fn depthwise(&self, args: &Depthwise<'_>) {
        debug_assert!(args.steps.len() <= MAX_STEPS);
        // SAFETY: as in `igemm`.
        unsafe { (self.depthwise)(args) }
    }

    /// Pooling along an output row; see [`Pool`].
    ///
    /// # Safety
    ///
    /// As for [`Kernels::depthwise`], without weights and bias.
    pub unsafe fn pool(&self, args: &Pool<'_>) {
        debug_assert!(args.steps.len() <= MAX_STEPS);
        // SAFETY: as in `igemm`.
        unsafe { (self.pool)(args) }
    }

    /// One output row of a bilinear resize; see [`BilinearRow`]. The shortest of the three tables
    /// says how many pixels.
    ///
    /// # Safety
    ///
    /// The pixels named by `left` and `right` are valid for reading `c` floats in both rows, and
    /// the output pixels for writing `c` floats that do not overlap them.
    pub unsafe fn bilinear_row(&self, args: &BilinearRow<'_>) {
        // SAFETY: as in `igemm`.
        unsafe { (self.bilinear_row)(args) }
    }

    /// Adds `rows` rows of `c` floats to `dst`, row by row in order; `dst` starts with what it holds.
    ///
    /// # Safety
    ///
    /// Row `r` at `src + r * stride` is valid for reading `c` floats, `dst` for reading and writing
    /// as many, and they do not overlap.
    pub unsafe fn add_rows(&self, src: *const f32, stride: usize, rows: usize, c: usize, dst: *mut f32) {
        // SAFETY: as in `igemm`.
        unsafe { (self.add_rows)(&AddRows { src, stride, rows, c, dst }) }
    }

    /// Softmax of each of `rows` rows of `c` floats, `stride` apart.
    ///
    /// # Safety
    ///
    /// The rows of `src` are valid for reading and those of `dst` for reading and writing; the two
    /// are equal or apart.
    pub unsafe fn softmax_rows(&self, src: *const f32, dst: *mut f32, rows: usize, c: usize, stride: usize) {
        let args = Softmax {
            src,
            dst,
            rows,
            c,
            stride,
            columns: false,
        };
        // SAFETY: as in `igemm`.
        unsafe { (self.softmax)(&args) }
    }

    /// Softmax down each of `c` columns of `rows` rows, `stride` apart.
    ///
    /// # Safety
    ///
    /// As for [`Kernels::softmax_rows`].
    pub unsafe fn softmax_columns(&self, src: *const f32, dst: *mut f32, rows: usize, c: usize, stride: usize) {
        let args = Softmax {
            src,
            dst,
            rows,
            c,
            stride,
            columns: true,
        };
        // SAFETY: as in `igemm`.
        unsafe { (self.softmax)(&args) }
    }

    /// Applies a function to every element.
    ///
    /// # Panics
    ///
    /// Panics where the lengths differ.
    pub fn unary(&self, op: Unary, src: &[f32], dst: &mut [f32]) {
        self.map(src, &[Step::Unary(op)], dst);
    }

    /// Applies a function to every element, in place.
    pub fn unary_in_place(&self, op: Unary, data: &mut [f32]) {
        let p = data.as_mut_ptr();
        let steps = [Step::Unary(op)];
        let n = data.len();
        let args = MapRows {
            src: p,
            src_stride: n,
            dst: p,
            dst_stride: n,
            rows: 1,
            n,
            steps: &steps,
        };
        // SAFETY: one row, which is the slice, onto itself.
        unsafe { self.map_rows(&args) }
    }

    /// Applies a function of two values to every pair of elements.
    ///
    /// # Panics
    ///
    /// Panics where the lengths differ.
    pub fn binary(&self, op: Binary, a: &[f32], b: &[f32], dst: &mut [f32]) {
        assert_eq!(a.len(), b.len());
        let operand = Operand::Channels(b.as_ptr());
        self.map(
            a,
            &[Step::Binary {
                op,
                operand,
                swapped: false,
            }],
            dst,
        );
    }

    /// Applies a function to every element and one value: `x op y`, or `y op x` where `swapped`.
    ///
    /// # Panics
    ///
    /// Panics where the lengths differ.
    pub fn binary_scalar(&self, op: Binary, a: &[f32], y: f32, swapped: bool, dst: &mut [f32]) {
        let operand = Operand::Scalar(y);
        self.map(a, &[Step::Binary { op, operand, swapped }], dst);
    }

    /// Runs steps over a slice. Private, because operands may hold pointers; those that reach here
    /// cover `src.len()` elements.
    fn map(&self, src: &[f32], steps: &[Step], dst: &mut [f32]) {
        assert_eq!(src.len(), dst.len());
        let n = src.len();
        let args = MapRows {
            src: src.as_ptr(),
            src_stride: n,
            dst: dst.as_mut_ptr(),
            dst_stride: n,
            rows: 1,
            n,
            steps,
        };
        // SAFETY: one row of as many elements as both slices have, which cannot overlap; the
        // operands cover as many, too.
        unsafe { self.map_rows(&args) }
    }

    /// The sum of a run.
    #[must_use]
    pub fn sum(&self, data: &[f32]) -> f32 {
        // SAFETY: the processor has the instruction set.
        unsafe { (self.sum)(data) }
    }

    /// The greatest value of a run: NaN never wins, and nothing gives negative infinity.
    #[must_use]
    pub fn max(&self, data: &[f32]) -> f32 {
        // SAFETY: the processor has the instruction set.
        unsafe { (self.max)(data) }
    }

    /// Softmax of a run.
    ///
    /// # Panics
    ///
    /// Panics where the lengths differ.
    pub fn softmax(&self, src: &[f32], dst: &mut [f32]) {
        assert_eq!(src.len(), dst.len());
        let n = src.len();
        // SAFETY: one row of as many elements as both slices have, which cannot overlap.
        unsafe { self.softmax_rows(src.as_ptr(), dst.as_mut_ptr(), 1, n, n) }
    }

    /// Adds rows, `stride` apart in `rows`, each times its weight, to `sums`: one fused multiply-add for each row, in order.
    ///
    /// # Panics
    ///
    /// Panics where `rows` does not hold a row of as many floats as `sums` for each weight.
    pub fn add_products(&self, weights: &[f32], rows: &[f32], stride: usize, sums: &mut [f32]) {
        let n = sums.len();
        let Some(last) = weights.len().checked_sub(1) else { return };
        let end = last.checked_mul(stride).and_then(|at| at.checked_add(n));
        assert!(end.is_some_and(|end| end <= rows.len()));
        let args = AddProducts {
            weights,
            rows: rows.as_ptr(),
            stride,
            n,
            sums: sums.as_mut_ptr(),
        };
        // SAFETY: the last row ends inside `rows`, and a slice that is written overlaps no other.
        unsafe { (self.add_products)(&args) }
    }

    /// Per row of `c` values, the first position of the greatest; NaN never wins, and 0 where
    /// nothing does.
    ///
    /// # Panics
    ///
    /// Panics where `src` does not hold `c` values per element of `dst`, or `c` is 0.
    pub fn argmax(&self, src: &[f32], c: usize, dst: &mut [i32]) {
        assert!(c > 0 && i32::try_from(c).is_ok() && src.len() == dst.len() * c);
        let args = ArgmaxRows {
            src,
            c,
            out: Indices::Word(dst.as_mut_ptr()),
        };
        // SAFETY: the processor has the instruction set, and `dst` has one element per row.
        unsafe { (self.argmax)(&args) }
    }

    /// As [`Kernels::argmax`], into bytes.
    ///
    /// # Panics
    ///
    /// Panics where `src` does not hold `c` values per element of `dst`, or `c` is 0 or above 256.
    pub fn argmax_u8(&self, src: &[f32], c: usize, dst: &mut [u8]) {
        assert!(c > 0 && c <= 256 && src.len() == dst.len() * c);
        let args = ArgmaxRows {
            src,
            c,
            out: Indices::Byte(dst.as_mut_ptr()),
        };
        // SAFETY: the processor has the instruction set, and `dst` has one element per row.
        unsafe { (self.argmax)(&args) }
    }

    /// Turns interleaved bytes into `(x - mean[channel]) * inv[channel]`. `swap` exchanges the first
    /// and third channel of the bytes before that; it needs at least three.
    ///
    /// # Panics
    ///
    /// Panics where the lengths differ, where there are not 1 to 4 channels, or where the bytes are
    /// not whole pixels.
    pub fn u8_to_f32(&self, src: &[u8], mean: &[f32], inv: &[f32], swap: bool, dst: &mut [f32]) {
        assert!((1..=4).contains(&mean.len()) && mean.len() == inv.len());
        assert!(src.len() == dst.len() && src.len().is_multiple_of(mean.len()));
        let (n, src, dst) = (src.len(), src.as_ptr(), dst.as_mut_ptr());
        // SAFETY: the processor has the instruction set, and the assertions are the contract.
        unsafe {
            (self.u8_to_f32)(&FromBytes {
                src,
                dst,
                n,
                mean,
                inv,
                swap,
            })
        }
    }

    /// Widens half precision.
    ///
    /// # Panics
    ///
    /// Panics where the lengths differ.
    pub fn f16_to_f32(&self, src: &[f16], dst: &mut [f32]) {
        assert_eq!(src.len(), dst.len());
        // SAFETY: the processor has the instruction set.
        unsafe { (self.widen)(&mut Widen(src, dst)) }
    }

    /// Narrows to half precision, to nearest even.
    ///
    /// # Panics
    ///
    /// Panics where the lengths differ.
    pub fn f32_to_f16(&self, src: &[f32], dst: &mut [f16]) {
        assert_eq!(src.len(), dst.len());
        // SAFETY: the processor has the instruction set.
        unsafe { (self.narrow)(&mut Narrow(src, dst)) }
    }
}
