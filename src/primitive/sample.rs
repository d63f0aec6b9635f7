//! Sampling of pictures at places that a frame computes.

use super::Window;
use serde::{Deserialize, Serialize};

/// How many elements around a place a sample is made of, and their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Sampling {
    /// The nearest one, halves to the even one.
    Nearest,
    /// The two next to it along each axis, linearly.
    Linear,
    /// Four along each axis, by cubic convolution with the coefficient -0.75 (Keys 1981).
    Cubic,
}

/// What lies outside a sampled picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outside {
    /// Zeros.
    Zero,
    /// The nearest element.
    Border,
    /// The picture's mirror image: about the outermost elements' centres where these are the grid's corners, else about their edges.
    Reflection,
}

/// Where the samples of an output pixel lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Places {
    /// A column and a row for each pixel, from -1 to 1 (Jaderberg et al. 2015, section 3.3).
    Grid {
        /// -1 and 1 are the centres of the outermost elements, instead of their edges.
        align_corners: bool,
    },
    /// The taps of a window, each moved by a row and a column (Dai et al. 2017). Output channel `(part * taps + tap) * n + c` is
    /// input channel `part * n + c` at the tap, `n` being the channels of a part: what a 1x1 convolution with as many groups
    /// makes of it is the deformable convolution.
    Taps {
        /// The window, over rows and columns.
        window: Window,
        /// Ranges of channels that are moved alike; divides the channels.
        groups: u32,
        /// Ranges of channels whose taps lie together; divides the channels.
        parts: u32,
    },
    /// Several for each output pixel, whose samples are weighed and added (Zhu et al. 2020, equation 2: one level of deformable
    /// attention). Of a picture `[N, C, H, W]`, places `[N, Q, P, 2]` as a grid's and factors `[N, 1, Q, P]` the output is `[N, C, Q, 1]`:
    /// from 0, or from what a fourth input has there, one fused multiply-add for each of the `P` samples in their order, in f32.
    Sums {
        /// -1 and 1 are the centres of the outermost elements, instead of their edges.
        align_corners: bool,
    },
}

/// Sampling of a picture.
///
/// All of it in f32: along each axis the place in elements, `p`, with one rounding an operation as they are written
///
/// ```text
/// p = (g + 1) * 0.5 * (extent - 1)    or    ((g + 1) * extent - 1) * 0.5       of a grid's g, corners aligned or not
/// p = first element of the tap + move                                           of a tap
/// ```
///
/// then its mirror image or border if it is outside, the weights of its elements, and over the rows' weights `v` and the columns'
/// weights `w`, each sum by fused multiply-adds from 0 in ascending order:
///
/// ```text
/// y = sum over rows of v * (sum over columns of w * x)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sample {
    /// The elements around a place.
    pub sampling: Sampling,
    /// The elements outside.
    pub outside: Outside,
    /// The places.
    pub places: Places,
}
