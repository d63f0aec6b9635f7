//! Camera images of any pixel format as rows of colours.
//!
//! NV12 is converted as OpenCV's `cvtColor` does: BT.601 limited range in fixed point of 20 bits, each chroma sample for the
//! two by two pixels it stands in (nearest, no interpolation). A Cb of 128 and a Cr of 128 are grey.

use crate::backend::cpu::arena::{Bytes, ImageParams};
use crate::task::PixelFormat;

/// An image that lies inside its camera's bytes.
#[derive(Clone, Copy)]
pub(super) struct Picture<'a> {
    bytes: &'a [u8],
    /// Width in pixels, at least 1.
    pub(super) width: u32,
    /// Height in pixels, at least 1.
    pub(super) height: u32,
    stride: usize,
    /// Pixel format.
    pub(super) format: PixelFormat,
}

impl<'a> Picture<'a> {
    /// The image that `params` describes in `bytes`; `None` before the first image, and where it would reach beyond its bytes.
    pub(super) fn of(params: &ImageParams, bytes: Bytes<'a>) -> Option<Picture<'a>> {
        let format = params.format?;
        let needed = format.image_bytes(params.width, params.height, params.stride)?;
        if needed > bytes.len() as u64 {
            return None;
        }
        Some(Picture {
            bytes: bytes.slice(0, needed as usize),
            width: params.width,
            height: params.height,
            stride: params.stride as usize,
            format,
        })
    }

    /// The bytes of row `y` (of luma for NV12).
    fn bytes_of(&self, y: u32) -> &'a [u8] {
        let start = y as usize * self.stride;
        &self.bytes[start..start + self.format.row_bytes(self.width) as usize]
    }

    /// Row `y` of an image of three bytes a pixel.
    pub(super) fn packed(&self, y: u32) -> Packed<'a> {
        Packed(self.bytes_of(y))
    }

    /// Row `y` of an image of one byte a pixel.
    pub(super) fn grey(&self, y: u32) -> Grey<'a> {
        Grey(self.bytes_of(y))
    }

    /// Row `y` of an NV12 image.
    pub(super) fn nv12(&self, y: u32) -> Nv12<'a> {
        let start = (self.height as usize + y as usize / 2) * self.stride;
        Nv12 {
            luma: self.bytes_of(y),
            chroma: &self.bytes[start..start + self.width as usize],
        }
    }
}

/// A row of pixels with `N` values each.
pub(super) trait Pixels<const N: usize>: Copy {
    /// The pixel at `x`.
    fn at(self, x: usize) -> [i32; N];
}

/// Three bytes a pixel, in stored order.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a>(&'a [u8]);

impl Pixels<3> for Packed<'_> {
    #[inline]
    fn at(self, x: usize) -> [i32; 3] {
        let pixel = &self.0[3 * x..3 * x + 3];
        [i32::from(pixel[0]), i32::from(pixel[1]), i32::from(pixel[2])]
    }
}

/// One byte a pixel.
#[derive(Clone, Copy)]
pub(super) struct Grey<'a>(&'a [u8]);

impl Pixels<1> for Grey<'_> {
    #[inline]
    fn at(self, x: usize) -> [i32; 1] {
        [i32::from(self.0[x])]
    }
}

/// Luma of one row and the chroma it shares with its neighbour; gives red, green, blue.
#[derive(Clone, Copy)]
pub(super) struct Nv12<'a> {
    luma: &'a [u8],
    chroma: &'a [u8],
}

impl Pixels<3> for Nv12<'_> {
    #[inline]
    fn at(self, x: usize) -> [i32; 3] {
        let pair = &self.chroma[x & !1..(x & !1) + 2];
        rgb(i32::from(self.luma[x]), i32::from(pair[0]), i32::from(pair[1]))
    }
}

/// Red, green and blue of a BT.601 limited-range colour, each 0..=255: the standard's matrix
/// (1.164, 1.596, 0.813, 0.391, 2.018) times 2^20, rounded to nearest.
#[inline]
fn rgb(luma: i32, cb: i32, cr: i32) -> [i32; 3] {
    const HALF: i32 = 1 << 19;
    let y = (luma - 16).max(0) * 1_220_542 + HALF;
    let (u, v) = (cb - 128, cr - 128);
    let red = y + 1_673_527 * v;
    let green = y - 852_492 * v - 409_993 * u;
    let blue = y + 2_116_026 * u;
    [red, green, blue].map(|c| (c >> 20).clamp(0, 255))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_range_black_white_and_primaries() {
        assert_eq!(rgb(16, 128, 128), [0, 0, 0]);
        assert_eq!(rgb(235, 128, 128), [255, 255, 255]);
        assert_eq!(rgb(0, 128, 128), [0, 0, 0]);
        // Red, green and blue of full saturation as BT.601 codes them.
        assert_eq!(rgb(81, 90, 240), [254, 0, 0]);
        assert_eq!(rgb(145, 54, 34), [0, 255, 1]);
        assert_eq!(rgb(41, 240, 110), [0, 0, 255]);
    }

    #[test]
    fn an_image_beyond_its_bytes_is_no_image() {
        let bytes = [0u8; 100];
        let of = |width, height, stride, format| {
            let params = ImageParams {
                frame: 0,
                width,
                height,
                stride,
                format,
            };
            Picture::of(&params, Bytes::Constant(crate::backend::cpu::arena::ReadSpan::new(&bytes))).is_some()
        };
        assert!(of(10, 10, 10, Some(PixelFormat::Gray8)));
        assert!(!of(10, 10, 11, Some(PixelFormat::Gray8)));
        assert!(!of(10, 10, 10, None));
        assert!(!of(10, 10, 9, Some(PixelFormat::Gray8)));
        assert!(!of(0, 10, 10, Some(PixelFormat::Gray8)));
        assert!(!of(u32::MAX, u32::MAX, u32::MAX, Some(PixelFormat::Rgb8)));
        assert!(of(8, 8, 8, Some(PixelFormat::Nv12)) && !of(7, 8, 8, Some(PixelFormat::Nv12)));
    }
}
