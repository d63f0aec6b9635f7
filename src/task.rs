//! Words about tasks: what runs how often, how urgently, and what kind of result it gives.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// How often a tenant runs: in the frames `f` with `f % divisor == phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Every how many frames, at least 1.
    pub divisor: u16,
    /// In which of them, below the divisor.
    pub phase: u16,
}

impl Rate {
    /// Every frame.
    pub const EVERY_FRAME: Rate = Rate { divisor: 1, phase: 0 };

    /// True if the tenant is due in `frame`.
    pub fn due(self, frame: u64) -> bool {
        frame % u64::from(self.divisor.max(1)) == u64::from(self.phase)
    }

    /// True if a tenant of rate `other` is due in every frame in which one of this rate is.
    pub fn within(self, other: Rate) -> bool {
        let divisor = other.divisor.max(1);
        self.divisor.max(1).is_multiple_of(divisor) && self.phase % divisor == other.phase
    }
}

/// What a tenant promises the vehicle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Urgency {
    /// Higher goes first; streams of more urgent tenants get higher priority.
    pub priority: u8,
    /// Longest time from the start of a frame's work to the tenant's result, if it has one.
    pub deadline: Option<Nanos>,
}

/// The kind of result a tenant's outputs are read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResultKind {
    /// Boxes with class and score, in pixels of the source picture.
    Detection,
    /// One or more label maps.
    Segmentation,
    /// The k best classes with their scores.
    Classification,
    /// The network's outputs as they are.
    Tensors,
}

impl ResultKind {
    /// The kind's name in results and cards.
    pub const fn name(self) -> &'static str {
        match self {
            ResultKind::Detection => "detection",
            ResultKind::Segmentation => "segmentation",
            ResultKind::Classification => "classification",
            ResultKind::Tensors => "tensors",
        }
    }
}

/// How current a tenant's result is. The numbers are stable: they cross the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Status {
    /// There has been no result yet.
    None = 0,
    /// Computed from this frame.
    Fresh = 1,
    /// Not due in this frame; the last result, of an earlier frame, is repeated.
    Held = 2,
    /// Due, but late, missing its input or hit by a fault; the last result is repeated.
    Stale = 3,
}

impl Status {
    /// The status as results write it.
    pub const fn name(self) -> &'static str {
        match self {
            Status::None => "none",
            Status::Fresh => "fresh",
            Status::Held => "held",
            Status::Stale => "stale",
        }
    }
}

/// The pixel format of a camera image. The numbers are stable: they stand in parameter blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u32)]
pub enum PixelFormat {
    /// Three bytes a pixel, red first.
    Rgb8 = 1,
    /// Three bytes a pixel, blue first.
    Bgr8 = 2,
    /// One byte a pixel.
    Gray8 = 3,
    /// A full-size plane of luma, then a half-size plane of interleaved chroma (Cb, Cr); BT.601 limited range.
    Nv12 = 4,
}

impl PixelFormat {
    /// The format with this number.
    pub const fn from_number(n: u32) -> Option<PixelFormat> {
        match n {
            1 => Some(PixelFormat::Rgb8),
            2 => Some(PixelFormat::Bgr8),
            3 => Some(PixelFormat::Gray8),
            4 => Some(PixelFormat::Nv12),
            _ => None,
        }
    }

    /// Bytes of one row of `width` pixels without padding (of the luma plane for NV12).
    pub const fn row_bytes(self, width: u32) -> u64 {
        match self {
            PixelFormat::Rgb8 | PixelFormat::Bgr8 => width as u64 * 3,
            PixelFormat::Gray8 | PixelFormat::Nv12 => width as u64,
        }
    }

    /// Bytes of an image of this size with `stride` bytes from row to row; the last row may end without its padding.
    ///
    /// NV12's chroma rows have the same stride and follow the luma rows directly; width and height are even there.
    /// `None` where the stride is shorter than a row, a size is 0, or NV12's is odd.
    pub fn image_bytes(self, width: u32, height: u32, stride: u32) -> Option<u64> {
        let row = self.row_bytes(width);
        if width == 0 || height == 0 || u64::from(stride) < row {
            return None;
        }
        let rows = match self {
            PixelFormat::Nv12 if !width.is_multiple_of(2) || !height.is_multiple_of(2) => return None,
            PixelFormat::Nv12 => u64::from(height) + u64::from(height) / 2,
            _ => u64::from(height),
        };
        Some((rows - 1) * u64::from(stride) + row)
    }
}
