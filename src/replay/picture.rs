//! Pictures in memory: RGB, eight bits, decoded from JPEG or PNG and written as PNG. Used around the loop, never in it.

use crate::limits::MAX_IMAGE_SIDE;
use crate::plan::regular;
use std::fs::File;
use std::io::{BufWriter, Cursor, Write};
use std::path::{Path, PathBuf};
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Bytes of the largest picture file that is read.
const MAX_FILE: u64 = 256 << 20;
/// Bytes a PNG may take while it is decoded.
const MAX_PNG_MEMORY: u64 = 1 << 30;

/// An RGB picture, rows without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

/// Why a picture file gives no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The file cannot be read.
    #[error("{file}: cannot be read", file = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file starts neither like a JPEG nor like a PNG.
    #[error("{file}: neither a JPEG nor a PNG picture", file = .path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged, or of a kind that is not supported.
    #[error("{file}: does not decode: {reason}", file = .path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        reason: String,
    },
}

/// Why a picture cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{file}: cannot be written", file = .path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: image::ImageError,
}

impl Picture {
    /// A picture from its bytes; `None` where they are not `3 * width * height`, or a side is 0 or above [`MAX_IMAGE_SIDE`].
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Option<Picture> {
        let sides = [width, height].iter().all(|s| (1..=MAX_IMAGE_SIDE).contains(s));
        (sides && rgb.len() as u64 == 3 * u64::from(width) * u64::from(height)).then_some(Picture { width, height, rgb })
    }

    /// A picture of one colour; `None` where a side is 0 or above [`MAX_IMAGE_SIDE`].
    pub fn filled(width: u32, height: u32, color: [u8; 3]) -> Option<Picture> {
        if width > MAX_IMAGE_SIDE || height > MAX_IMAGE_SIDE {
            return None;
        }
        Picture::new(width, height, color.repeat(width as usize * height as usize))
    }

    /// Reads and decodes a JPEG or PNG file, told by its first bytes. Truncated or damaged files are errors.
    pub fn read(path: &Path) -> Result<Picture, PictureError> {
        let unreadable = |source| PictureError::Read { path: path.into(), source };
        let bytes = regular::read(path, MAX_FILE).map_err(unreadable)?;
        let decoded = match bytes.as_slice() {
            [0xff, 0xd8, ..] => decode_jpeg(&bytes),
            [0x89, b'P', b'N', b'G', ..] => decode_png(&bytes),
            _ => return Err(PictureError::Format { path: path.into() }),
        };
        decoded.map_err(|reason| PictureError::Decode { path: path.into(), reason })
    }

    /// Writes the picture as PNG.
    pub fn write_png(&self, path: &Path) -> Result<(), WriteError> {
        write(path, &self.rgb, self.size(), image::ExtendedColorType::Rgb8)
    }

    /// Width in pixels.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// The bytes, red first, row by row.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// The pixel in column `x` of row `y`.
    pub fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        let at = 3 * (y * self.width as usize + x);
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }

    /// The pixel in column `x` of row `y`, for drawing.
    pub fn pixel_mut(&mut self, x: usize, y: usize) -> &mut [u8; 3] {
        let at = y * self.width as usize + x;
        &mut self.rgb.as_chunks_mut().0[at]
    }

    /// All pixels, row by row, for drawing.
    pub fn pixels_mut(&mut self) -> impl Iterator<Item = &mut [u8; 3]> {
        self.rgb.as_chunks_mut().0.iter_mut()
    }

    /// The picture made smaller to `width` columns, its shape kept: each pixel is the mean of those it covers.
    /// The picture itself where it is not wider.
    pub fn thumbnail(&self, width: u32) -> Picture {
        let (w, h) = (u64::from(self.width), u64::from(self.height));
        let width = u64::from(width.max(1));
        if width >= w {
            return self.clone();
        }
        let height = (h * width / w).max(1);
        let mut rgb = Vec::with_capacity((3 * width * height) as usize);
        for y in 0..height {
            let rows = (y * h / height) as usize..((y + 1) * h / height) as usize;
            for x in 0..width {
                let columns = (x * w / width) as usize..((x + 1) * w / width) as usize;
                let mut sum = [0u64; 3];
                for (row, column) in rows.clone().flat_map(|r| columns.clone().map(move |c| (r, c))) {
                    let pixel = self.pixel(column, row);
                    (0..3).for_each(|c| sum[c] += u64::from(pixel[c]));
                }
                let n = (rows.len() * columns.len()) as u64;
                rgb.extend(sum.map(|s| ((s + n / 2) / n) as u8));
            }
        }
        Picture {
            width: width as u32,
            height: height as u32,
            rgb,
        }
    }
}

/// Writes a map of one byte a pixel as a grey PNG. `map` holds `width * height` bytes.
pub fn write_map(path: &Path, map: &[u8], size: (u32, u32)) -> Result<(), WriteError> {
    write(path, map, size, image::ExtendedColorType::L8)
}

/// Writes the whole file or says why not; then none is left of it.
fn write(path: &Path, bytes: &[u8], (width, height): (u32, u32), color: image::ExtendedColorType) -> Result<(), WriteError> {
    let encode = || {
        let mut file = BufWriter::new(File::create(path)?);
        image::write_buffer_with_format(&mut file, bytes, width, height, color, image::ImageFormat::Png)?;
        // `image::save_buffer` leaves this to `drop`, which would lose the error of a small picture on a full disk.
        file.flush().map_err(image::ImageError::from)
    };
    encode().map_err(|source| {
        if path.symlink_metadata().is_ok_and(|m| m.is_file()) {
            let _ = std::fs::remove_file(path);
        }
        WriteError { path: path.into(), source }
    })
}

fn decode_jpeg(bytes: &[u8]) -> Result<Picture, String> {
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_strict_mode(true)
        .set_max_width(MAX_IMAGE_SIDE as usize)
        .set_max_height(MAX_IMAGE_SIDE as usize);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let rgb = decoder.decode().map_err(|e| one_line(&e))?;
    let info = decoder.info().ok_or("no frame header")?;
    if !is_complete(bytes) {
        return Err("the file ends before the picture does".into());
    }
    Picture::new(info.width.into(), info.height.into(), rgb).ok_or_else(|| "not an RGB, grey or YCbCr picture".into())
}

/// True if the JPEG's end marker stands somewhere in its last bytes: decoders fill what a truncated file lacks with grey.
fn is_complete(bytes: &[u8]) -> bool {
    bytes.windows(2).rev().take(MAX_JPEG_TAIL).any(|w| w == [0xff, 0xd9])
}

/// Bytes that programs are known to append after a JPEG's end marker, generously.
const MAX_JPEG_TAIL: usize = 64 << 10;

fn decode_png(bytes: &[u8]) -> Result<Picture, String> {
    let mut reader = image::ImageReader::with_format(Cursor::new(bytes), image::ImageFormat::Png);
    let mut limits = image::Limits::no_limits();
    limits.max_image_width = Some(MAX_IMAGE_SIDE);
    limits.max_image_height = Some(MAX_IMAGE_SIDE);
    limits.max_alloc = Some(MAX_PNG_MEMORY);
    reader.limits(limits);
    let rgb = reader.decode().map_err(|e| one_line(&e))?.into_rgb8();
    let (width, height) = rgb.dimensions();
    Picture::new(width, height, rgb.into_raw()).ok_or_else(|| "an empty picture".into())
}

/// A decoder's message without line breaks.
fn one_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient() -> Picture {
        let rgb = (0..40 * 30u32).flat_map(|i| [(i % 40 * 6) as u8, (i / 40 * 8) as u8, 77]).collect();
        Picture::new(40, 30, rgb).unwrap()
    }

    #[test]
    fn png_survives_a_round_trip_and_damage_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        gradient().write_png(&path).unwrap();
        assert_eq!(Picture::read(&path).unwrap(), gradient());
        let bytes = std::fs::read(&path).unwrap();
        for keep in [0, 1, 7, 20, bytes.len() / 2, bytes.len() - 20] {
            std::fs::write(&path, &bytes[..keep]).unwrap();
            let error = Picture::read(&path).unwrap_err().to_string();
            assert!(error.contains("a.png") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_small_picture_that_does_not_fit_on_its_disk_is_an_error() {
        let refused = write_map(Path::new("/dev/full"), &[1, 2, 3, 4], (2, 2)).unwrap_err();
        assert!(matches!(refused.source, image::ImageError::IoError(_)), "{:?}", refused.source);
        assert!(Path::new("/dev/full").exists());
    }

    #[test]
    fn a_file_that_is_no_picture_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.jpg");
        std::fs::write(&path, "hello").unwrap();
        assert!(matches!(Picture::read(&path), Err(PictureError::Format { .. })));
        std::fs::write(&path, [0xff, 0xd8, 0xff, 0xe0, 0, 16]).unwrap();
        assert!(matches!(Picture::read(&path), Err(PictureError::Decode { .. })));
        assert!(matches!(
            Picture::read(&dir.path().join("none.png")),
            Err(PictureError::Read { .. })
        ));
    }

    #[test]
    fn a_thumbnail_averages_what_it_covers() {
        let picture = Picture::new(4, 2, [[0u8; 3], [100; 3], [10; 3], [30; 3]].repeat(2).concat()).unwrap();
        let small = picture.thumbnail(2);
        assert_eq!((small.size(), small.rgb()), ((2, 1), &[50, 50, 50, 20, 20, 20][..]));
        assert_eq!(picture.thumbnail(9), picture);
    }

    #[test]
    fn sizes_and_bytes_must_agree() {
        assert!(Picture::new(0, 4, vec![]).is_none());
        assert!(Picture::new(2, 2, vec![0; 11]).is_none());
        assert!(Picture::filled(MAX_IMAGE_SIDE + 1, 1, [0; 3]).is_none());
    }
}
