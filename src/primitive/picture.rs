//! Primitives between camera pictures and networks, and their attributes: how pictures come in, how boxes go back to them.

use super::Scalar;
use crate::ids::CameraId;
use serde::{Deserialize, Serialize};

/// Order of the colours in a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ColorOrder {
    /// Red first.
    Rgb,
    /// Blue first.
    Bgr,
}

/// How a picture of any size is fitted into a network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fit {
    /// Each axis scaled on its own.
    Stretch,
    /// Scaled by one factor to `(floor(w * r), floor(h * r))`, at the top left, the rest filled.
    LetterboxTopLeft,
    /// Scaled by one factor, centred (the odd pixel goes right and below), the rest filled.
    LetterboxCentred,
}

/// Where a picture of a given size lands in a network's input; shared by preparation and decoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Scaled picture's left edge in the input, in pixels.
    pub x: u32,
    /// Scaled picture's top edge in the input, in pixels.
    pub y: u32,
    /// Scaled picture's width in the input, at least 1.
    pub width: u32,
    /// Scaled picture's height in the input, at least 1.
    pub height: u32,
    /// Input pixels per source pixel along x, as decoding divides by it.
    pub scale_x: f32,
    /// Input pixels per source pixel along y.
    pub scale_y: f32,
}

impl Fit {
    /// Places a `source` picture (width, height, both at least 1) into a `target` input (width, height).
    pub fn place(self, source: (u32, u32), target: (u32, u32)) -> Placement {
        let (sw, sh) = (f64::from(source.0.max(1)), f64::from(source.1.max(1)));
        let (tw, th) = (f64::from(target.0), f64::from(target.1));
        if self == Fit::Stretch {
            let (x, y) = ((tw / sw) as f32, (th / sh) as f32);
            return Placement {
                x: 0,
                y: 0,
                width: target.0,
                height: target.1,
                scale_x: x,
                scale_y: y,
            };
        }
        let r = (tw / sw).min(th / sh);
        let width = ((sw * r) as u32).clamp(1, target.0.max(1));
        let height = ((sh * r) as u32).clamp(1, target.1.max(1));
        let (x, y) = match self {
            Fit::LetterboxCentred => ((target.0 - width.min(target.0)) / 2, (target.1 - height.min(target.1)) / 2),
            _ => (0, 0),
        };
        Placement {
            x,
            y,
            width,
            height,
            scale_x: r as f32,
            scale_y: r as f32,
        }
    }
}

/// Image preparation: a camera picture of any size and format to a network's input.
///
/// Bilinear as OpenCV's `INTER_LINEAR` (half-pixel centres, edge repeated), rounded to u8 before `(value - mean) / std`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Prepare {
    /// The camera whose newest picture is read.
    pub camera: CameraId,
    /// How the picture is fitted.
    pub fit: Fit,
    /// The value (0..=255) around a letterboxed picture, before normalisation.
    pub fill: u8,
    /// Colour order of the tensor.
    pub order: ColorOrder,
    /// Subtracted, per tensor channel.
    pub mean: [Scalar; 3],
    /// Divided by, per tensor channel; not 0.
    pub std: [Scalar; 3],
}

/// Non-maximum suppression per class, and the way back to source pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Nms {
    /// Lowest score kept.
    pub score: Scalar,
    /// Boxes of one class that overlap a better one by more than this intersection over union are dropped.
    pub iou: Scalar,
    /// The camera whose picture the boxes belong to; gives the source size.
    pub camera: CameraId,
    /// How that picture was fitted.
    pub fit: Fit,
    /// Width and height of the network's input, in pixels.
    pub input: (u32, u32),
}

/// Pictures of the best detections, cut out of a camera's picture: a network's batch, filled from another network's results.
///
/// # Which detections
/// Candidates are the first `count` rows of the detections (a negative count is 0, one beyond the rows is all of them) whose
/// six values are finite and whose class is one of `classes`. The crops show the best of them by score, best first, equal
/// scores by lower row. Crops beyond the candidates are empty: all values 0, row -1; so are all crops before the camera's
/// first picture.
///
/// # Which pixels
/// All in f32, each operation rounded on its own, in this order, so that every machine gives the same bits. Every edge of the
/// box is clamped to `-`[`MAX_IMAGE_SIDE`](crate::limits::MAX_IMAGE_SIDE)`..=2 *` that side, which no box of a picture notices.
/// Along x, with `w = max(x1 - x0, 0)` and a crop of `W` columns:
///
/// - `m = margin * w`, `left = x0 - m`, `step = (w + 2 * m) / W`;
/// - column `j` reads `x = (left + (j + 0.5) * step) - 0.5`, its weight is `x - floor(x)`, and its two source columns are
///   `floor(x)` and the next, each moved to the nearest column of the picture.
///
/// Along y alike. A value is blended as `a + (b - a) * weight`, in x first, then in y, and becomes `(value - mean) / std`,
/// which is rounded once more where the crops are f16. A box without area repeats the one point it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Crop {
    /// The camera whose newest picture is cut; the one the detections were made in.
    pub camera: CameraId,
    /// The classes of detections that are cut out: bit `c` stands for class `c`. Not 0.
    pub classes: u64,
    /// Share of its width and height by which a box is enlarged on each side, 0 to [`MAX_CROP_MARGIN`].
    pub margin: Scalar,
    /// Colour order of the crops.
    pub order: ColorOrder,
    /// Subtracted from values of 0..=255, per channel of the crops.
    pub mean: [Scalar; 3],
    /// Divided by, per channel of the crops; not 0.
    pub std: [Scalar; 3],
}

/// Largest margin of a [`Crop`], as a share of its box.
pub const MAX_CROP_MARGIN: f32 = 4.0;
