//! Elementwise steps: what a fused epilogue and the stand-alone elementwise kernel both run.

use super::math;
use super::vector::{LANES, Simd, Task};

/// The most steps that one call takes.
pub const MAX_STEPS: usize = 8;

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// `0 > x ? 0 : x`: NaN and negative zero stay as they are.
    Relu,
    /// `x < 0 ? x * alpha : x`.
    LeakyRelu {
        /// The slope below zero.
        alpha: f32,
    },
    /// `y = min > x ? min : x`, then `max < y ? max : y`: NaN stays NaN.
    Clip {
        /// The lower bound.
        min: f32,
        /// The upper bound.
        max: f32,
    },
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `fma(alpha, x, beta)`, clipped to 0 and 1.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// The offset.
        beta: f32,
    },
    /// `x * HardSigmoid(x)` with slope 1/6 and offset 1/2.
    HardSwish,
    /// `x * Sigmoid(x)`: the bits of the two steps run one after the other.
    Silu,
    /// The hyperbolic tangent.
    Tanh,
    /// `e^x`.
    Exp,
    /// The square root.
    Sqrt,
    /// The sign flipped.
    Neg,
    /// The sign cleared.
    Abs,
    /// The error function.
    Erf,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
    /// The natural logarithm.
    Log,
    /// The nearest integer, of two the even one.
    Round,
    /// The greatest integer not above.
    Floor,
    /// The least integer not below.
    Ceil,
    /// `fma(x, scale, shift)`.
    MulAdd {
        /// The factor.
        scale: f32,
        /// The summand.
        shift: f32,
    },
}

/// A function of two values, `x` on the left and `y` on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `x + y`.
    Add,
    /// `x - y`.
    Sub,
    /// `x * y`.
    Mul,
    /// `x / y`.
    Div,
    /// `x > y ? x : y`; NaN on either side yields NaN.
    Max,
    /// `x < y ? x : y`; NaN on either side yields NaN.
    Min,
    /// `x < 0 ? x * y : x`.
    PRelu,
}

/// Where the second value of a binary step comes from.
///
/// Rows are the output pixels of the call, counted from its first; channels count from its first
/// channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// One value for everything.
    Scalar(f32),
    /// One value per channel, the same for every row. In a run of floats the channels are the
    /// elements of the run.
    Channels(*const f32),
    /// One pointer per row, to the value of the call's first channel.
    Rows(*const *const f32),
    /// Row `r` begins at `base + r * stride` floats.
    Strided {
        /// Row 0, first channel.
        base: *const f32,
        /// Floats from one row to the next.
        stride: usize,
    },
    /// One value per row, the same for every channel: row `r` has its own at `base + r * stride`.
    RowScalars {
        /// The value of row 0.
        base: *const f32,
        /// Floats from one row to the next.
        stride: usize,
    },
}

/// One elementwise step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// A function of the running value.
    Unary(Unary),
    /// A function of the running value and an operand.
    Binary {
        /// The function.
        op: Binary,
        /// The second value.
        operand: Operand,
        /// Puts the operand on the left: `operand op value`.
        swapped: bool,
    },
}

#[inline(always)]
pub(super) fn binary<S: Simd>(s: S, op: Binary, x: S::V, y: S::V) -> S::V {
    match op {
        Binary::Add => s.add(x, y),
        Binary::Sub => s.sub(x, y),
        Binary::Mul => s.mul(x, y),
        Binary::Div => s.div(x, y),
        // The instruction already yields a NaN on the right.
        Binary::Max => s.select_nan(x, x, s.max(x, y)),
        Binary::Min => s.select_nan(x, x, s.min(x, y)),
        Binary::PRelu => s.select_lt(x, s.splat(0.0), s.mul(x, y), x),
    }
}

/// The pointer to channel 0 of row `row`, for operands that have one per row.
///
/// # Safety
///
/// The operand covers row `row`.
#[inline(always)]
unsafe fn row_of(operand: &Operand, row: usize) -> *const f32 {
    match *operand {
        Operand::Scalar(_) => core::ptr::null(),
        Operand::Channels(p) => p,
        // SAFETY: the caller vouches that there is a pointer for this row.
        Operand::Rows(rows) => unsafe { rows.add(row).read() },
        Operand::Strided { base, stride } | Operand::RowScalars { base, stride } => {
            // SAFETY: the caller vouches that the operand covers this row.
            unsafe { base.add(row * stride) }
        }
    }
}

/// A block of running values, on which steps are run.
///
/// Lane `i` of `values[r * vectors + j]` is row `row + r`, channel `channel + 16 * j + i`.
pub(super) struct Block<'a, S: Simd> {
    pub values: &'a mut [S::V],
    /// Vectors per row.
    pub vectors: usize,
    pub row: usize,
    pub channel: usize,
    /// Valid channels per row: above `16 * (vectors - 1)`, at most `16 * vectors`.
    pub n: usize,
    pub steps: &'a [Step],
}

/// Runs the steps on a block.
///
/// # Safety
///
/// Every operand covers the rows and valid channels of the block.
#[inline(always)]
pub(super) unsafe fn apply<S: Simd>(s: S, block: Block<'_, S>) {
    struct Apply<'a, S: Simd>(Block<'a, S>);
    impl<S0: Simd> Task for Apply<'_, S0> {
        type Out = ();
        #[inline(always)]
        fn run<S: Simd>(self, _: S) {
            // SAFETY: there is a value of this type in the caller of `apply`, so the instructions
            // are there.
            let s = unsafe { S0::new() };
            // SAFETY: the contract of `apply`.
            unsafe { apply_here(s, self.0) }
        }
    }
    // A function of its own: the elementary functions are big, and one copy serves every kernel.
    s.call(Apply(block));
}

/// The body of [`apply`].
///
/// # Safety
///
/// As [`apply`].
#[inline(always)]
unsafe fn apply_here<S: Simd>(s: S, block: Block<'_, S>) {
    let Block {
        values,
        vectors,
        row,
        channel,
        n,
        steps,
    } = block;
    for step in steps {
        match *step {
            Step::Unary(op) => apply_unary(s, op, values),
            Step::Binary { op, operand, swapped } => {
                macro_rules! each {
                    ($op:expr) => {
                        for (r, values) in values.chunks_exact_mut(vectors).enumerate() {
                            // SAFETY: the caller vouches for the rows of the block.
                            let p = unsafe { row_of(&operand, row + r) };
                            for (j, v) in values.iter_mut().enumerate() {
                                let y = match operand {
                                    Operand::Scalar(y) => s.splat(y),
                                    // SAFETY: the row's own value.
                                    Operand::RowScalars { .. } => s.splat(unsafe { p.read() }),
                                    // SAFETY: the caller vouches for the valid channels, of which
                                    // `n - 16 j` remain here.
                                    _ => unsafe { s.load_upto(p.add(channel + LANES * j), n - LANES * j) },
                                };
                                *v = if swapped {
                                    binary(s, $op, y, *v)
                                } else {
                                    binary(s, $op, *v, y)
                                };
                            }
                        }
                    };
                }
                match op {
                    Binary::Add => each!(Binary::Add),
                    Binary::Sub => each!(Binary::Sub),
                    Binary::Mul => each!(Binary::Mul),
                    Binary::Div => each!(Binary::Div),
                    Binary::Max => each!(Binary::Max),
                    Binary::Min => each!(Binary::Min),
                    Binary::PRelu => each!(Binary::PRelu),
                }
            }
        }
    }
}

#[inline(always)]
fn apply_unary<S: Simd>(s: S, op: Unary, values: &mut [S::V]) {
    macro_rules! each {
        ($x:ident => $e:expr) => {
            for v in values {
                let $x = *v;
                *v = $e;
            }
        };
    }
    match op {
        Unary::Relu => each!(x => math::relu(s, x)),
        Unary::LeakyRelu { alpha } => {
            let (zero, alpha) = (s.splat(0.0), s.splat(alpha));
            each!(x => s.select_lt(x, zero, s.mul(x, alpha), x));
        }
        Unary::Clip { min, max } => {
            let (min, max) = (s.splat(min), s.splat(max));
            each!(x => math::clip(s, x, min, max));
        }
        Unary::Sigmoid => each!(x => math::sigmoid(s, x)),
        Unary::HardSigmoid { alpha, beta } => each!(x => math::hard_sigmoid(s, x, alpha, beta)),
        Unary::HardSwish => {
            each!(x => s.mul(x, math::hard_sigmoid(s, x, 1.0 / 6.0, 0.5)));
        }
        Unary::Silu => each!(x => s.mul(x, math::sigmoid(s, x))),
        Unary::Tanh => each!(x => math::tanh(s, x)),
        Unary::Exp => each!(x => math::exp(s, x)),
        Unary::Sqrt => each!(x => s.sqrt(x)),
        Unary::Neg => each!(x => s.neg(x)),
        Unary::Abs => each!(x => s.abs(x)),
        Unary::Erf => each!(x => math::erf(s, x)),
        Unary::Gelu => each!(x => math::gelu(s, x)),
        Unary::GeluTanh => each!(x => math::gelu_tanh(s, x)),
        Unary::Log => each!(x => math::log(s, x)),
        Unary::Round => each!(x => math::round(s, x)),
        Unary::Floor => each!(x => math::floor(s, x)),
        Unary::Ceil => each!(x => math::ceil(s, x)),
        Unary::MulAdd { scale, shift } => {
            let (scale, shift) = (s.splat(scale), s.splat(shift));
            each!(x => s.fma(x, scale, shift));
        }
    }
}

/// A step list that needs no operands from memory, or only one per channel, run while values are still in registers.
#[derive(Clone, Copy)]
pub(super) enum Fast {
    /// No steps.
    Plain,
    /// `Relu` alone.
    Relu,
    /// `Clip` alone.
    Clip(f32, f32),
    /// `PRelu` alone, with a slope per channel.
    PRelu(*const f32),
    /// Anything else goes through [`apply`].
    General,
}

impl Fast {
    #[inline(always)]
    pub(super) fn of(steps: &[Step]) -> Fast {
        match steps {
            [] => Fast::Plain,
            [Step::Unary(Unary::Relu)] => Fast::Relu,
            [Step::Unary(Unary::Clip { min, max })] => Fast::Clip(*min, *max),
            [
                Step::Binary {
                    op: Binary::PRelu,
                    operand: Operand::Channels(slopes),
                    swapped: false,
                },
            ] => Fast::PRelu(*slopes),
            _ => Fast::General,
        }
    }
}

/// Steps over rows of floats.
#[derive(Clone, Copy, Debug)]
pub struct MapRows<'a> {
    /// Row 0 of the input.
    pub src: *const f32,
    /// Floats from one input row to the next.
    pub src_stride: usize,
    /// Row 0 of the output; may be `src` when the strides agree.
    pub dst: *mut f32,
    /// Floats from one output row to the next.
    pub dst_stride: usize,
    /// How many rows.
    pub rows: usize,
    /// Floats per row.
    pub n: usize,
    /// What to do, at most [`MAX_STEPS`].
    pub steps: &'a [Step],
}

/// Runs [`MapRows`].
///
/// # Safety
///
/// As [`super::Kernels::map_rows`].
#[inline(always)]
pub(super) unsafe fn map_rows<S: Simd>(s: S, a: &MapRows<'_>) {
    const VECTORS: usize = 16;
    if a.steps.is_empty() {
        // SAFETY: the caller's contract.
        return unsafe { copy_rows(s, a) };
    }
    // Short rows share a block, so that the steps are looked up once for all of them.
    let together = (VECTORS / a.n.div_ceil(LANES).max(1)).max(1);
    let mut r = 0;
    while r < a.rows {
        let rows = (a.rows - r).min(together);
        // SAFETY: the caller vouches for row `r` of both, and for those behind it.
        let (src, dst) = unsafe { (a.src.add(r * a.src_stride), a.dst.add(r * a.dst_stride)) };
        let mut i = 0;
        while i < a.n {
            let n = (a.n - i).min(VECTORS * LANES);
            let vectors = n.div_ceil(LANES);
            let mut values = [s.splat(0.0); VECTORS];
            let values = &mut values[..rows * vectors];
            for (row, values) in values.chunks_exact_mut(vectors).enumerate() {
                for (j, v) in values.iter_mut().enumerate() {
                    // SAFETY: `i + 16 j` lies inside the row, and `n - 16 j` floats of it remain.
                    *v = unsafe { s.load_upto(src.add(row * a.src_stride + i + LANES * j), n - LANES * j) };
                }
            }
            // SAFETY: the caller vouches for the operands on every row and channel.
            unsafe {
                apply(
                    s,
                    Block {
                        values,
                        vectors,
                        row: r,
                        channel: i,
                        n,
                        steps: a.steps,
                    },
                );
            }
            for (row, values) in values.chunks_exact(vectors).enumerate() {
                for (j, v) in values.iter().enumerate() {
                    // SAFETY: as for the loads.
                    unsafe { s.store_upto(dst.add(row * a.dst_stride + i + LANES * j), n - LANES * j, *v) };
                }
            }
            i += n;
        }
        r += rows;
    }
}

/// [`MapRows`] without steps.
///
/// # Safety
///
/// As [`super::Kernels::map_rows`].
#[inline(always)]
unsafe fn copy_rows<S: Simd>(s: S, a: &MapRows<'_>) {
    for r in 0..a.rows {
        for i in (0..a.n).step_by(LANES) {
            // SAFETY: the caller vouches for row `r` of both, of which `n - i` floats remain.
            unsafe {
                let v = s.load_upto(a.src.add(r * a.src_stride + i), a.n - i);
                s.store_upto(a.dst.add(r * a.dst_stride + i), a.n - i, v);
            }
        }
    }
}
