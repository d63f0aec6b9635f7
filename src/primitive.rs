//! The primitives: single mathematical operators with all their attributes fixed.
//!
//! A primitive says *what* is computed on logical shapes (ONNX axis order); layouts, buffers and kernels are
//! the plan's and the backend's business. Inputs of elementwise primitives have the output's shape exactly:
//! broadcasting is a layout with stride 0, made by whoever writes the operand.
//!
//! | primitive | inputs | outputs |
//! |---|---|---|
//! | `Conv` | x `[N,C,s..]`, w `[O,C/g,k..]`, optional bias `[O]` | `[N,O,s'..]` |
//! | `ConvTranspose` | x `[N,C,s..]`, w `[C,O/g,k..]`, optional bias `[O]` | `[N,O,s'..]` |
//! | `MatMul` | a `[..,M,K]`, b `[..,K,N]` (same leading axes), optional bias `[..,M,N]` | `[..,M,N]` |
//! | `Unary`, `Binary`, `Copy` | shape of the output | any |
//! | `Pool` | x `[N,C,s..]` | `[N,C,s'..]`, for max optionally the winners' flat indices (i32) |
//! | `Reduce` | x | x's shape with the reduced axes at 1 |
//! | `Softmax`, `Normalise`, `RmsNormalise` | x | same |
//! | `Expectation` | x, values `[n]` of the axis's extent | x's shape with the axis at 1 |
//! | `GroupNormalise` | x `[N,C,s..]` | same |
//! | `Attention` | queries `[..,M,D]`, keys `[..,D,K]`, values `[..,K,E]` (same leading axes), optional mask `[..,M,K]` | `[..,M,E]` |
//! | `Pad`, `Resize` | x | same rank |
//! | `Gather` | data, indices (i32) | data's axis replaced by the indices' axes |
//! | `Prepare` | camera bytes `[B]` (u8) | `[1,3,H,W]` |
//! | `DecodeYolox` | head `[1,A,5+C]` | boxes `[A,4]`, scores `[A,C]` |
//! | `Nms` | boxes `[A,4]`, scores `[A,C]` | detections `[max,6]`, count `[1]` (i32) |
//! | `TopK` | x `[B,C]` | values `[B,k]`, indices `[B,k]` (i32) |
//! | `ArgMax` | x | x's shape with the axis at 1 (u8 or i32) |
//! | `Crop` | camera bytes `[B]` (u8), detections `[R,6]`, count `[1]` (i32) | crops `[N,3,H,W]`, their detections' rows `[N]` (i32) |
//! | `Sample` | x `[N,C,H,W]`, grid `[N,H',W',2]`, or moves of `T` taps in `G` groups `[N,2GT,H',W']` and optionally factors `[N,GT,H',W']` | `[N,C,H',W']`, or `[N,CT,H',W']` |
//! | `Sources` | places of updates `[K]` (i32) | sources of rows `[R]` (i32) |
//! | `Lstm` | gate pre-activations `[T,B,4H]`, R `[4H,H]`, optionally h0 and c0 `[B,H]` | y `[T,B,H]`, optionally c `[B,H]` after the last step |
//! | `Gru` | gate pre-activations `[T,B,4H]`, R `[4H,H]`, optionally h0 `[B,H]` | y `[T,B,H]` |

use crate::limits::MAX_RANK;
use serde::{Deserialize, Serialize};

/// A sliding window over up to three spatial axes (axes 2.. of `[N, C, spatial..]`); entries beyond `axes` are 1, 1, 1, 0, 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Number of spatial axes, 1 to 3.
    pub axes: u8,
    /// Taps per axis, at least 1.
    pub kernel: [u32; 3],
    /// Step between neighbouring outputs, at least 1.
    pub stride: [u32; 3],
    /// Step between neighbouring taps, at least 1.
    pub dilation: [u32; 3],
    /// Padding before the first element.
    pub pad_begin: [u32; 3],
    /// Padding after the last element.
    pub pad_end: [u32; 3],
}

impl Window {
    /// A window of `kernel` with unit strides and dilations and no padding. `kernel` holds 1 to 3 extents.
    pub fn new(kernel: &[u32]) -> Window {
        let mut w = Window {
            axes: kernel.len() as u8,
            kernel: [1; 3],
            stride: [1; 3],
            dilation: [1; 3],
            pad_begin: [0; 3],
            pad_end: [0; 3],
        };
        w.kernel[..kernel.len()].copy_from_slice(kernel);
        w
    }

    /// The same window over so many axes: `of` arranges what each axis has, and is given what an axis has along which nothing happens.
    pub fn over(self, axes: u8, of: impl Fn([u32; 3], u32) -> [u32; 3]) -> Window {
        Window {
            axes,
            kernel: of(self.kernel, 1),
            stride: of(self.stride, 1),
            dilation: of(self.dilation, 1),
            pad_begin: of(self.pad_begin, 0),
            pad_end: of(self.pad_end, 0),
        }
    }

    /// Extent of the input that one output looks at along `axis`: `(kernel - 1) * dilation + 1`; `None` on overflow.
    pub fn reach(&self, axis: usize) -> Option<u32> {
        (self.kernel[axis].checked_sub(1)?).checked_mul(self.dilation[axis])?.checked_add(1)
    }

    /// Taps in all.
    pub fn taps(&self) -> u64 {
        self.kernel.iter().map(|&k| u64::from(k)).product()
    }

    /// Output extent of a forward window along `axis` for an input of `extent`, rounded down (ONNX `floor` mode);
    /// `None` where the padded input is smaller than the window or a number overflows.
    pub fn output(&self, axis: usize, extent: u32) -> Option<u32> {
        let padded = extent.checked_add(self.pad_begin[axis])?.checked_add(self.pad_end[axis])?;
        Some(padded.checked_sub(self.reach(axis)?)? / self.stride[axis].max(1) + 1)
    }

    /// True if strides, dilations and kernel are at least 1 and the unused entries hold their fixed values.
    pub fn is_valid(&self) -> bool {
        (1..=3).contains(&self.axes)
            && (0..3).all(|a| self.kernel[a] >= 1 && self.stride[a] >= 1 && self.dilation[a] >= 1 && self.reach(a).is_some())
            && (usize::from(self.axes)..3)
                .all(|a| (self.kernel[a], self.stride[a], self.dilation[a], self.pad_begin[a], self.pad_end[a]) == (1, 1, 1, 0, 0))
    }
}

/// A float that is compared, ordered and hashed by its bits, for attributes of primitives.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Scalar(pub f32);

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for Scalar {}
impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, h: &mut H) {
        self.0.to_bits().hash(h);
    }
}
impl std::fmt::Debug for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Elementwise functions of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Unary {
    /// `max(x, 0)`.
    Relu,
    /// `x < 0 ? alpha * x : x`.
    LeakyRelu(Scalar),
    /// `min(max(x, low), high)`.
    Clip(Scalar, Scalar),
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `min(max(alpha * x + beta, 0), 1)`.
    HardSigmoid(Scalar, Scalar),
    /// `x * min(max(x / 6 + 0.5, 0), 1)`.
    HardSwish,
    /// `x * sigmoid(x)`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// Natural exponential.
    Exp,
    /// Square root.
    Sqrt,
    /// `-x`.
    Neg,
    /// The error function, `2 / sqrt(pi)` times the integral of `exp(-t^2)` from 0 to `x`.
    Erf,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.
    GeluTanh,
    /// To the nearest integer, halves to the even one.
    Round,
    /// Natural logarithm; -inf of zero, NaN of less.
    Log,
    /// `|x|`.
    Abs,
    /// To the nearest integer that is not greater.
    Floor,
    /// To the nearest integer that is not less.
    Ceil,
}

/// Elementwise functions of two values of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Binary {
    /// `a + b`; integers wrap.
    Add,
    /// `a - b`; integers wrap.
    Sub,
    /// `a * b`; integers wrap.
    Mul,
    /// `a / b`; integers truncate toward zero, by zero gives 0.
    Div,
    /// `a` to the power `b`. The exponent may have another type than the base; the result has the base's.
    Pow,
    /// The smaller; NaN if either is NaN.
    Min,
    /// The larger; NaN if either is NaN.
    Max,
    /// `a < 0 ? a * b : a`: `b` is the slope.
    PRelu,
}

/// How a pooling window becomes one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PoolKind {
    /// The largest of the elements inside the input. With a second output, also its flat index
    /// in the logical tensor (row-major over `[N,C,s..]`, or column-major over the spatial axes if `column_major`).
    Max {
        /// ONNX `storage_order = 1`.
        column_major: bool,
    },
    /// The mean; over the elements inside the input, or inside the padded input.
    Average {
        /// Count padding (inside the declared pads) as zeros.
        count_pad: bool,
    },
}

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReduceKind {
    /// Arithmetic mean.
    Mean,
    /// Maximum; of nothing, the type's lowest value (-inf for floats).
    Max,
    /// Sum; of nothing, 0.
    Sum,
    /// The root of the sum of squares, of floats: the Euclidean norm. Squares and their sum are f32 throughout, so that a norm that
    /// f16 holds is found where f16 does not hold its square.
    Norm,
}

/// What lies outside a padded tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PadMode {
    /// A constant.
    Constant(Scalar),
    /// Mirror without repeating the edge.
    Reflect,
    /// The nearest element.
    Edge,
    /// Periodic continuation.
    Wrap,
}

/// Interpolation of a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ResizeMode {
    /// One source element, chosen by rounding.
    Nearest(Nearest),
    /// Separable linear; `antialias` widens the filter when shrinking.
    Linear {
        /// Widen the filter by the scale when shrinking.
        antialias: bool,
    },
    /// Separable cubic convolution.
    Cubic {
        /// The coefficient `a`, often -0.75 or -0.5.
        coefficient: Scalar,
        /// Drop taps outside the input and renormalise, instead of repeating the edge.
        exclude_outside: bool,
        /// Widen the filter by the scale when shrinking.
        antialias: bool,
    },
    /// Separable linear, widened when shrinking, of the taps inside the input alone, as PyTorch and Pillow do it.
    LinearInside,
}

/// How a nearest resize rounds a source coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Nearest {
    /// To nearest, halves down.
    RoundPreferFloor,
    /// To nearest, halves up.
    RoundPreferCeil,
    /// Down.
    Floor,
    /// Up.
    Ceil,
}

/// From an output coordinate to a source coordinate (ONNX `coordinate_transformation_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Coordinates {
    /// `(x + 0.5) / scale - 0.5`.
    HalfPixel,
    /// Half pixel, centred over the part of the output that the scale accounts for.
    HalfPixelSymmetric,
    /// Half pixel; 0 where the output has one element.
    PytorchHalfPixel,
    /// `x * (in - 1) / (out - 1)`.
    AlignCorners,
    /// `x / scale`.
    Asymmetric,
    /// A region of interest given as fractions `[start, end]` per axis; outside it, the extrapolation value.
    CropAndResize {
        /// First corner, as a fraction of the extent, per axis.
        start: [Scalar; MAX_RANK],
        /// Last corner, as a fraction of the extent, per axis.
        end: [Scalar; MAX_RANK],
        /// The value outside the input.
        outside: Scalar,
    },
}

/// A resize of some axes of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resize {
    /// Interpolation.
    pub mode: ResizeMode,
    /// Coordinate rule.
    pub coordinates: Coordinates,
    /// Output over input extent, per axis of the tensor; exactly 1 on the axes that are left alone.
    pub scales: [Scalar; MAX_RANK],
}

/// One mathematical operator with its attributes. See the module's table for inputs and outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Primitive {
    /// Cross-correlation with `groups` groups of channels.
    Conv {
        /// Kernel, strides, dilations and pads.
        window: Window,
        /// Groups; divides the input and output channels.
        groups: u32,
    },
    /// Transposed convolution; the pads are cut off the full result, the output's extent is the output's shape.
    ConvTranspose {
        /// Kernel, strides, dilations and pads.
        window: Window,
        /// Groups; divides the input and output channels.
        groups: u32,
    },
    /// Matrix product over the last two axes.
    MatMul,
    /// Elementwise function of one input.
    Unary(Unary),
    /// Elementwise function of two inputs.
    Binary(Binary),
    /// Copy, converting to the output's type (floats to integers truncate and saturate; to bool, `x != 0`).
    Copy,
    /// Pooling.
    Pool {
        /// Maximum or average.
        kind: PoolKind,
        /// Kernel, strides, dilations and pads.
        window: Window,
    },
    /// Reduction over the axes whose bit is set (bit `a` = axis `a`); they stay as extent 1.
    Reduce {
        /// What is computed.
        kind: ReduceKind,
        /// Bit set of axes.
        axes: u8,
    },
    /// Softmax along one axis.
    Softmax {
        /// The axis.
        axis: u8,
    },
    /// Layer normalisation (Ba, Kiros and Hinton 2016) along one axis, without scale and shift, all of it in f32.
    ///
    /// ```text
    /// mean      = sum of x / n
    /// variance  = sum of (x - mean)^2 / n        one fma for each
    /// y         = (x - mean) / sqrt(variance + epsilon)
    /// ```
    ///
    /// Both sums go into sixteen partial sums by the position's remainder, folded in halves.
    Normalise {
        /// The axis.
        axis: u8,
        /// What is added to the variance.
        epsilon: Scalar,
    },
    /// Attention (Vaswani et al. 2017): for every query the mean of the values, weighed by `e^score`, all of it in f32.
    ///
    /// ```text
    /// score[k] = scale * sum over d of query[d] * keys[d][k]    one fma for each d, ascending; then the mask is added
    /// weight[k] = e^(score[k] - the greatest score)             summed in sixteen partial sums by k's remainder, folded in halves
    /// y[e]     = (sum over k of weight[k] * values[k][e]) / sum of weights    one fma for each k, ascending
    /// ```
    Attention {
        /// What the products of queries and keys are multiplied by.
        scale: Scalar,
    },
    /// Padding (or, negative, cropping) per axis.
    Pad {
        /// What lies outside.
        mode: PadMode,
        /// Elements added before the first, per axis; the output's shape says how many follow.
        begin: [i32; MAX_RANK],
    },
    /// Resampling.
    Resize(Resize),
    /// Elements of `data` along one axis by index; negative indices count from the end, indices outside are clamped.
    Gather {
        /// The axis of `data`.
        axis: u8,
    },
    /// Image preparation.
    Prepare(Prepare),
    /// Decoding of an anchor-free YOLOX head (activations already applied), Ge et al. 2021, section 2.1.
    DecodeYolox {
        /// Width and height of the network's input, in pixels; strides are 8, 16 and 32.
        input: (u32, u32),
    },
    /// Non-maximum suppression.
    Nms(Nms),
    /// The k largest along the last axis, largest first; equal values by lower index.
    TopK,
    /// Index of the largest along one axis; the first of equals.
    ArgMax {
        /// The axis.
        axis: u8,
    },
    /// Crops of detections.
    Crop(Crop),
    /// A layer of long short-term memory (Hochreiter and Schmidhuber 1997, with forget gates) over `T` steps, one direction.
    ///
    /// Gates lie in ONNX's order i, o, f, c along `4H`; the pre-activations hold everything but the recurrence (`x W^T` and
    /// both biases). For each step, with h and c of the step before (zeros before the first unless given):
    ///
    /// ```text
    /// z = pre-activation + sum over k of h[k] * R[z][k]     for each of the 4H gate values, one fma per k, ascending, in f32
    /// i, o, f = sigmoid(z_i), sigmoid(z_o), sigmoid(z_f);   g = tanh(z_c)
    /// c = fma(f, c, i * g)                                  kept in f32 between the steps, rounded in the output
    /// h = o * tanh(c)                                       rounded to the element type at every step: this is y
    /// ```
    ///
    /// Rows of the output (axis 1, the batch) do not depend on each other, steps do.
    Lstm {
        /// Walk from the last step to the first; y stays in the order of the input.
        reverse: bool,
    },
    /// Group normalisation (Wu and He 2018) without scale and shift: each sample's channels in ranges of as many, each
    /// normalised over its channels and all places as [`Primitive::Normalise`] does over an axis, positions in C order. One
    /// group is a layer's normalisation over pictures, as many as channels are instances (Ulyanov et al. 2016).
    GroupNormalise {
        /// Groups, at least 1; divides the channels.
        groups: u32,
        /// What is added to the variance.
        epsilon: Scalar,
    },
    /// Sampling of pictures at computed places.
    Sample(Sample),
    /// Where each row comes from when updates are scattered to places among them: from `first + k` for the last update `k` whose
    /// place it is, else from itself. Places that are no row are left out.
    Sources {
        /// All rows are alike: those without an update come from 0, and the updates begin at 1. Else they begin behind the rows.
        common: bool,
    },
    /// A layer of gated recurrent units (Cho et al. 2014) whose reset gates act behind the recurrence, as cuDNN and PyTorch have them
    /// (ONNX's `linear_before_reset`), over `T` steps, one direction.
    ///
    /// Gates lie in the order z, r, n, x along `4H`: of the hidden gate, n is what the reset gate multiplies (the recurrence and its
    /// bias), x the rest (the input and its bias), whose rows of R are zeros in what importers make. For each step, with h of the step
    /// before (zeros before the first unless given):
    ///
    /// ```text
    /// g = pre-activation + sum over k of h[k] * R[g][k]     for each of the 4H gate values, one fma per k, ascending, in f32
    /// z, r = sigmoid(g_z), sigmoid(g_r);   fresh = tanh(fma(r, g_n, g_x))
    /// h = fma(z, h - fresh, fresh)                          rounded to the element type at every step: this is y
    /// ```
    ///
    /// Rows of the output (axis 1, the batch) do not depend on each other, steps do.
    Gru {
        /// Walk from the last step to the first; y stays in the order of the input.
        reverse: bool,
    },
    /// Root mean square normalisation (Zhang and Sennrich 2019) along one axis, without a scale: [`Primitive::Normalise`] with 0 for the
    /// mean, `x / sqrt(sum of x^2 / n + epsilon)`.
    RmsNormalise {
        /// The axis.
        axis: u8,
        /// What is added to the mean of the squares.
        epsilon: Scalar,
    },
    /// The mean of values weighed by a softmax along one axis, all of it in f32: what a distribution over bins expects (Li et al.,
    /// "Generalized Focal Loss", 2020, equation 6), and a soft argmax.
    ///
    /// ```text
    /// weight[k] = e^(x[k] - the greatest x)      summed in sixteen partial sums by k's remainder, folded in halves
    /// y         = (sum over k of weight[k] * values[k]) / sum of weights    one fma for each k, ascending, from 0
    /// ```
    Expectation {
        /// The axis.
        axis: u8,
    },
}

/// Why a primitive does not fit its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrimitiveError {
    /// Too few or too many inputs or outputs.
    #[error("wrong number of inputs or outputs")]
    Arity,
    /// An operand has the wrong rank or extents.
    #[error("shapes that do not fit together")]
    Shape,
    /// An operand has a type the primitive does not take.
    #[error("element types that do not fit together")]
    Type,
    /// An attribute is out of its range.
    #[error("an attribute out of its range")]
    Attribute,
    /// The primitive cannot be computed where it was asked for: image preparation and decoding stand alone in their operators.
    #[error("image preparation and decoding stand alone in their operators")]
    Unsupported,
}

mod picture;
mod recurrence;
mod region;
mod rules;
mod sample;
mod split;

pub use picture::{ColorOrder, Crop, Fit, MAX_CROP_MARGIN, Nms, Placement, Prepare};
pub use recurrence::Cell;
pub use region::Region;
pub use sample::{Outside, Places, Sample, Sampling};
pub use split::Splits;
