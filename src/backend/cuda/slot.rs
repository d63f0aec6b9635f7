//! The slot's block: what a frame knows of itself and of its images. Mirrors `kernels/slot.cuh`.

use crate::backend::cpu::arena::ImageParams;
use crate::limits::MAX_CAMERAS;
use crate::task::PixelFormat;
use bytemuck::{Pod, Zeroable};

/// A camera's newest image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Camera {
    /// The frame it was submitted with.
    pub frame: u64,
    /// Pixels, 0 before the first image.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// Bytes from row to row.
    pub stride: u32,
    /// The number of the pixel format, 0 before the first image.
    pub format: u32,
    padding: u64,
}

/// The block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SlotBlock {
    /// The frame.
    pub frame: u64,
    /// Bit set of tenants without input.
    pub skip: u32,
    padding: u32,
    /// The images.
    pub cameras: [Camera; MAX_CAMERAS],
}

/// Bytes of a block.
pub const SLOT_BLOCK_BYTES: u64 = size_of::<SlotBlock>() as u64;

impl From<ImageParams> for Camera {
    fn from(p: ImageParams) -> Camera {
        Camera {
            frame: p.frame,
            width: p.width,
            height: p.height,
            stride: p.stride,
            format: p.format.map_or(0, |f| f as u32),
            padding: 0,
        }
    }
}

impl From<Camera> for ImageParams {
    fn from(c: Camera) -> ImageParams {
        ImageParams {
            frame: c.frame,
            width: c.width,
            height: c.height,
            stride: c.stride,
            format: PixelFormat::from_number(c.format),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_block_is_laid_out_as_the_kernels_read_it() {
        assert_eq!((size_of::<Camera>(), size_of::<SlotBlock>()), (32, 16 + 32 * 16));
        assert_eq!(offset_of!(SlotBlock, skip), 8);
        assert_eq!(offset_of!(SlotBlock, cameras), 16);
        let places = [
            offset_of!(Camera, frame),
            offset_of!(Camera, width),
            offset_of!(Camera, height),
            offset_of!(Camera, stride),
            offset_of!(Camera, format),
        ];
        assert_eq!(places, [0, 8, 12, 16, 20]);
        let params = ImageParams {
            frame: 7,
            width: 3,
            height: 2,
            stride: 9,
            format: Some(PixelFormat::Bgr8),
        };
        assert_eq!(ImageParams::from(Camera::from(params)), params);
        assert_eq!(ImageParams::from(Camera::default()), ImageParams::default());
    }
}
