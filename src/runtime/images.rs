//! Camera images on their way into slots, and where each camera's newest one is.
//!
//! A camera that misses a frame contributes its newest earlier image. That image lies in the slot it came with, and is
//! copied from there; only when that slot's image memory is about to be written by hand is it saved in a spare room. An image
//! that was given in the device's memory stays there, and is copied on the device.

use crate::backend::cpu::arena::ImageParams;
use crate::backend::{PrepareError, Prepared};
use crate::error::{ImageFault, RunError};
use crate::ids::{CameraId, SlotId};
use crate::limits::MAX_CAMERAS;
use crate::plan::format::Camera;
use crate::task::PixelFormat;

/// A camera image to copy from.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The bytes, row by row.
    pub data: &'a [u8],
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Bytes from row to row.
    pub stride: u32,
    /// Pixel format.
    pub format: PixelFormat,
}

/// What is said of an image whose bytes were written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Bytes from row to row.
    pub stride: u32,
    /// Pixel format.
    pub format: PixelFormat,
}

impl Image<'_> {
    pub(super) fn header(&self) -> ImageHeader {
        ImageHeader {
            width: self.width,
            height: self.height,
            stride: self.stride,
            format: self.format,
        }
    }
}

/// Where each camera's newest image is.
pub(super) struct Newest {
    place: [NewestPlace; MAX_CAMERAS],
    /// Per camera, room for an image whose slot is being written anew.
    spare: Vec<Box<[u8]>>,
    pub(super) cameras: Vec<Camera>,
}

#[derive(Clone, Copy)]
enum NewestPlace {
    /// None has come.
    Nowhere,
    /// In this slot's image memory, under the slot's parameters.
    Slot(SlotId),
    /// In the spare room.
    Spare(ImageParams),
    /// In the device's memory of this slot, whose parameters may be another image's by now.
    Device(SlotId, ImageParams),
}

/// Zeros whose pages are at hand: written, so that no frame pays for them. Refused where the system has not that much; `what`
/// they are for.
pub(super) fn touched(what: &'static str, bytes: u64) -> Result<Box<[u8]>, PrepareError> {
    let refused = || PrepareError::Memory { what, bytes };
    let length = usize::try_from(bytes).map_err(|_| refused())?;
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(length).map_err(|_| refused())?;
    zeros.resize(length, 0);
    let mut zeros = zeros.into_boxed_slice();
    // Hidden from the compiler, which would take the writing for done.
    std::hint::black_box(&mut zeros).fill(0);
    Ok(zeros)
}

impl Newest {
    pub(super) fn new(cameras: &[Camera]) -> Result<Newest, PrepareError> {
        let spare = cameras.iter().map(|c| touched("newest images", c.bytes));
        Ok(Newest {
            place: [NewestPlace::Nowhere; MAX_CAMERAS],
            spare: spare.collect::<Result<_, _>>()?,
            cameras: cameras.to_vec(),
        })
    }

    /// The parameters and the length of an image with this header, if it fits the camera.
    pub(super) fn check(&self, camera: CameraId, header: &ImageHeader, frame: u64) -> Result<(ImageParams, usize), RunError> {
        let limits = self.cameras.get(camera.index()).ok_or(RunError::Unknown)?;
        let bytes = fitting(limits, header).map_err(|fault| RunError::Image(camera, fault))?;
        let params = ImageParams {
            frame,
            width: header.width,
            height: header.height,
            stride: header.stride,
            format: Some(header.format),
        };
        Ok((params, bytes as usize))
    }

    /// Before a slot's image memory is written by hand: saves the camera's newest image, if it lies there.
    pub(super) fn keep(&mut self, prepared: &dyn Prepared, slot: SlotId, camera: CameraId) -> Result<(), RunError> {
        let c = camera.index();
        if c >= self.cameras.len() {
            return Err(RunError::Unknown);
        }
        if let NewestPlace::Slot(at) = self.place[c]
            && at == slot
        {
            if prepared.is_on_device(slot, camera) {
                // What the host writes does not touch it; only what is said of it would be lost.
                self.place[c] = NewestPlace::Device(slot, prepared.params(slot, camera)?);
                return Ok(());
            }
            let (image, params) = (prepared.image(slot, camera)?, prepared.params(slot, camera)?);
            let bytes = image_bytes(&params).min(image.len());
            self.spare[c][..bytes].copy_from_slice(&image[..bytes]);
            self.place[c] = NewestPlace::Spare(params);
        }
        Ok(())
    }

    /// Gives a slot, whose frame was `given` images of some cameras, the newest image of each other one; the sets of cameras with an old
    /// one and with none.
    pub(super) fn complete(&mut self, prepared: &mut dyn Prepared, slot: SlotId, given: u32) -> Result<(u32, u32), RunError> {
        let (mut old, mut none) = (0, 0);
        for c in 0..self.cameras.len() {
            let camera = CameraId(c as u16);
            if given >> c & 1 != 0 {
                continue;
            }
            match self.place[c] {
                NewestPlace::Nowhere => {
                    prepared.set_params(slot, camera, ImageParams::default())?;
                    none |= 1 << c;
                    continue;
                }
                NewestPlace::Slot(from) => prepared.copy_image(camera, from, slot)?,
                NewestPlace::Device(from, params) => prepared.copy_on_device(camera, from, slot, params)?,
                NewestPlace::Spare(params) => {
                    let room = prepared.image_mut(slot, camera)?;
                    let bytes = image_bytes(&params).min(room.len());
                    room[..bytes].copy_from_slice(&self.spare[c][..bytes]);
                    prepared.set_params(slot, camera, params)?;
                    self.place[c] = NewestPlace::Slot(slot);
                }
            }
            old |= 1 << c;
        }
        Ok((old, none))
    }

    /// The images given in a slot's frame are the newest now.
    pub(super) fn remember(&mut self, slot: SlotId, given: u32) {
        for (c, place) in self.place.iter_mut().enumerate() {
            if given >> c & 1 != 0 {
                *place = NewestPlace::Slot(slot);
            }
        }
    }
}

/// The bytes of an image with this header, if it fits the camera.
fn fitting(limits: &Camera, header: &ImageHeader) -> Result<u64, ImageFault> {
    let &ImageHeader {
        width,
        height,
        stride,
        format,
    } = header;
    let (found, most, row) = ((width, height), (limits.max_width, limits.max_height), format.row_bytes(width));
    if width == 0 || height == 0 {
        return Err(ImageFault::Empty);
    }
    if width > most.0 || height > most.1 {
        return Err(ImageFault::Large { found, most });
    }
    if u64::from(stride) < row {
        return Err(ImageFault::Stride { stride, row });
    }
    let needed = format.image_bytes(width, height, stride).ok_or(ImageFault::Odd)?;
    if needed > limits.bytes {
        let room = limits.bytes;
        return Err(ImageFault::Room { room, needed });
    }
    Ok(needed)
}

fn image_bytes(params: &ImageParams) -> usize {
    let bytes = params
        .format
        .and_then(|f| f.image_bytes(params.width, params.height, params.stride));
    bytes.and_then(|b| usize::try_from(b).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_whose_stride_is_too_large_is_told_of_the_cameras_room() {
        let camera = Camera {
            name: "front".into(),
            max_width: 16,
            max_height: 16,
            bytes: 1024,
        };
        let image = |stride| ImageHeader {
            width: 16,
            height: 16,
            stride,
            format: PixelFormat::Rgb8,
        };
        assert_eq!(fitting(&camera, &image(48)), Ok(768));
        let refused = fitting(&camera, &image(1 << 20)).unwrap_err();
        assert!(
            matches!(refused, ImageFault::Room { room: 1024, needed } if needed > 1 << 20),
            "{refused}"
        );
        assert!(refused.to_string().contains("the camera's memory has 1024"), "{refused}");
    }

    #[test]
    fn memory_that_is_not_to_be_had_is_an_error() {
        assert_eq!(touched("results", 3).unwrap()[..], [0; 3]);
        for bytes in [1 << 62, u64::MAX] {
            let refused = touched("results", bytes);
            assert!(matches!(refused, Err(PrepareError::Memory { what: "results", bytes: b }) if b == bytes));
        }
        let camera = |bytes| Camera {
            name: "front".into(),
            max_width: 16,
            max_height: 16,
            bytes,
        };
        assert!(Newest::new(&[camera(1 << 10)]).is_ok() && Newest::new(&[camera(1 << 10), camera(1 << 62)]).is_err());
    }
}
