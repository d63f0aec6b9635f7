//! Preparation against stored results of `cv2.resize` and `cv2.cvtColor` (OpenCV 5.0.0), and its properties.

use super::{Image, Rig, Share, cast, shape};
use crate::ids::CameraId;
use crate::primitive::{self, ColorOrder, Fit, Primitive, Scalar};
use crate::task::PixelFormat;
use crate::tensor::{DType, Layout};
use half::f16;

/// A picture made by [`picture`] and what `cv2.resize(.., INTER_LINEAR)` makes of it.
struct Case {
    source: (u32, u32),
    target: (u32, u32),
    rgb: &'static [u8],
}

/// Shrinking, growing, exact halving, a single pixel, a single column.
const CASES: [Case; 5] = [
    Case {
        source: (7, 5),
        target: (5, 4),
        rgb: &[
            15, 98, 174, 68, 151, 202, 121, 172, 31, 161, 135, 84, 195, 54, 137, 90, 173, 128, 156, 181, 66, 125, 48, 131, 126, 113, 158,
            95, 178, 165, 166, 89, 76, 147, 109, 153, 65, 148, 71, 142, 162, 110, 92, 143, 130, 197, 68, 151, 88, 158, 107, 165, 24, 75,
            165, 101, 165, 95, 171, 75,
        ],
    },
    Case {
        source: (5, 4),
        target: (9, 6),
        rgb: &[
            0, 83, 166, 12, 95, 178, 33, 116, 199, 53, 136, 219, 74, 157, 240, 94, 177, 118, 115, 198, 25, 136, 218, 46, 148, 231, 58, 30,
            113, 196, 43, 126, 166, 65, 148, 118, 88, 171, 126, 111, 194, 149, 133, 145, 100, 155, 110, 65, 178, 133, 88, 192, 147, 102,
            69, 152, 192, 84, 167, 136, 109, 192, 43, 134, 198, 44, 159, 199, 69, 160, 106, 94, 167, 36, 119, 192, 61, 144, 207, 76, 159,
            108, 191, 61, 125, 208, 63, 152, 235, 67, 180, 168, 90, 208, 77, 118, 117, 81, 145, 50, 90, 173, 77, 118, 201, 94, 134, 217,
            148, 103, 58, 166, 121, 76, 196, 151, 106, 169, 124, 136, 129, 84, 167, 88, 114, 125, 61, 144, 99, 91, 174, 129, 110, 193, 148,
            177, 4, 87, 196, 23, 106, 228, 55, 138, 147, 88, 171, 37, 120, 203, 69, 152, 93, 101, 184, 11, 134, 217, 44, 153, 236, 63,
        ],
    },
    Case {
        source: (10, 8),
        target: (5, 4),
        rgb: &[
            50, 133, 152, 131, 150, 105, 148, 103, 122, 101, 120, 139, 118, 137, 156, 175, 130, 85, 92, 111, 130, 137, 156, 111, 118, 137,
            156, 99, 118, 137, 108, 127, 146, 181, 72, 91, 126, 145, 164, 135, 90, 109, 144, 99, 118, 169, 124, 79, 78, 161, 180, 179, 134,
            153, 152, 171, 126, 125, 144, 163,
        ],
    },
    Case {
        source: (1, 1),
        target: (3, 2),
        rgb: &[0, 83, 166, 0, 83, 166, 0, 83, 166, 0, 83, 166, 0, 83, 166, 0, 83, 166],
    },
    Case {
        source: (16, 3),
        target: (1, 2),
        rgb: &[49, 132, 151, 121, 108, 127],
    },
];

/// `cv2.cvtColor(.., COLOR_YUV2RGB_NV12)` of the 4 x 4 picture whose byte `i` is `53 i` modulo 256.
const NV12: [u8; 48] = [
    8, 15, 0, 51, 58, 0, 255, 0, 222, 255, 54, 255, 236, 243, 131, 8, 15, 0, 231, 0, 171, 255, 2, 232, 115, 245, 0, 176, 255, 53, 109, 0,
    31, 171, 4, 92, 63, 193, 0, 125, 255, 2, 255, 189, 255, 120, 0, 41,
];

/// The test picture: value `37 x + 59 y + 83 c + 7 x y` modulo 256.
fn picture(width: u32, height: u32) -> Vec<u8> {
    let value = |x: u32, y: u32, c: u32| (x * 37 + y * 59 + c * 83 + x * y * 7) as u8;
    let pixel = |y| move |x| (0..3).map(move |c| value(x, y, c));
    (0..height).flat_map(|y| (0..width).flat_map(pixel(y))).collect()
}

fn rgb(width: u32, height: u32) -> Image {
    Image::new(PixelFormat::Rgb8, width, height, width * 3, picture(width, height))
}

pub(super) fn parameters(fit: Fit, order: ColorOrder) -> primitive::Prepare {
    primitive::Prepare {
        camera: CameraId(0),
        fit,
        fill: 114,
        order,
        mean: [Scalar(0.0); 3],
        std: [Scalar(1.0); 3],
    }
}

fn rig(prepare: primitive::Prepare, dtype: DType, layout: Layout) -> Rig {
    let bytes = Layout::contiguous(shape(&[1]));
    Rig::new(Primitive::Prepare(prepare))
        .input::<u8>(DType::U8, bytes, &[])
        .output(dtype, layout)
}

/// Prepares to `target`, channels last in f32, and gives the values pixel by pixel.
pub(super) fn pixels(prepare: primitive::Prepare, image: Option<&Image>, target: (u32, u32)) -> Vec<f32> {
    let layout = Layout::channels_last(shape(&[1, 3, target.1, target.0]));
    let planes: Vec<f32> = cast(&rig(prepare, DType::F32, layout).run(image, Share::Whole)[0]);
    let plane = (target.0 * target.1) as usize;
    (0..plane)
        .flat_map(|i| [planes[i], planes[plane + i], planes[2 * plane + i]])
        .collect()
}

#[test]
fn resampling_equals_opencv_bit_for_bit() {
    for case in &CASES {
        let image = rgb(case.source.0, case.source.1);
        let found = pixels(parameters(Fit::Stretch, ColorOrder::Rgb), Some(&image), case.target);
        let expected: Vec<f32> = case.rgb.iter().map(|&v| f32::from(v)).collect();
        assert_eq!(found, expected, "{:?} to {:?}", case.source, case.target);
    }
}

#[test]
fn nv12_equals_opencv_bit_for_bit() {
    let image = Image::new(PixelFormat::Nv12, 4, 4, 4, (0..24).map(|i: u32| (i * 53) as u8).collect());
    let found = pixels(parameters(Fit::Stretch, ColorOrder::Rgb), Some(&image), (4, 4));
    assert_eq!(found, NV12.map(f32::from));
}

#[test]
fn a_picture_of_its_own_size_passes_unchanged_in_either_order() {
    let image = rgb(6, 5);
    let straight = pixels(parameters(Fit::Stretch, ColorOrder::Rgb), Some(&image), (6, 5));
    assert!(straight.iter().zip(&image.bytes).all(|(f, b)| *f == f32::from(*b)));
    let swapped = pixels(parameters(Fit::Stretch, ColorOrder::Bgr), Some(&image), (6, 5));
    assert!(swapped.chunks(3).zip(straight.chunks(3)).all(|(s, p)| s == [p[2], p[1], p[0]]));
    let blue_first = Image::new(PixelFormat::Bgr8, 6, 5, 18, image.bytes.clone());
    assert_eq!(
        pixels(parameters(Fit::Stretch, ColorOrder::Bgr), Some(&blue_first), (6, 5)),
        straight
    );
}

#[test]
fn all_formats_agree_on_grey_pictures() {
    let (w, h) = (10, 8);
    let luma: Vec<u8> = (0..w * h).map(|i| 16 + (i * 31 % 220) as u8).collect();
    let run = |format, stride, bytes: Vec<u8>| {
        let image = Image::new(format, w, h, stride, bytes);
        pixels(parameters(Fit::LetterboxCentred, ColorOrder::Bgr), Some(&image), (7, 9))
    };
    let grey = run(PixelFormat::Gray8, w, luma.clone());
    let triple = |values: &[u8]| -> Vec<u8> { values.iter().flat_map(|&v| [v; 3]).collect() };
    assert_eq!(run(PixelFormat::Rgb8, 3 * w, triple(&luma)), grey);
    assert_eq!(run(PixelFormat::Bgr8, 3 * w, triple(&luma)), grey);
    // Limited range: luma 16..=235 stands for 0..=255, as one pixel at a time shows.
    let nv12 = run(PixelFormat::Nv12, w, [luma.clone(), vec![128; (w * h / 2) as usize]].concat());
    let full = luma
        .iter()
        .map(|&v| (((i32::from(v) - 16) * 1_220_542 + (1 << 19)) >> 20).min(255) as u8);
    assert_eq!(nv12, run(PixelFormat::Gray8, w, full.collect()));
}

#[test]
fn bytes_between_rows_are_not_seen() {
    let (w, h) = (6, 4);
    for format in [PixelFormat::Rgb8, PixelFormat::Bgr8, PixelFormat::Gray8, PixelFormat::Nv12] {
        let row = format.row_bytes(w) as usize;
        let rows = format.image_bytes(w, h, row as u32).unwrap() as usize / row;
        let packed: Vec<u8> = (0..rows * row).map(|i| (i * 89) as u8).collect();
        let mut padded: Vec<u8> = packed.chunks(row).flat_map(|r| [r, &[255; 5]].concat()).collect();
        padded.truncate(padded.len() - 5);
        let run = |stride, bytes| {
            let image = Image::new(format, w, h, stride, bytes);
            pixels(parameters(Fit::Stretch, ColorOrder::Rgb), Some(&image), (5, 7))
        };
        assert_eq!(run(row as u32 + 5, padded), run(row as u32, packed), "{format:?}");
    }
}

#[test]
fn letterboxes_fill_what_the_picture_leaves() {
    // 8 x 4 into 6 x 7: scaled by 0.75 to 6 x 3, rows 0..3 or 2..5.
    let image = rgb(8, 4);
    let inner = pixels(parameters(Fit::Stretch, ColorOrder::Rgb), Some(&image), (6, 3));
    let top = pixels(parameters(Fit::LetterboxTopLeft, ColorOrder::Rgb), Some(&image), (6, 7));
    let row = 6 * 3;
    assert_eq!(top[..3 * row], inner);
    assert!(top[3 * row..].iter().all(|&v| v == 114.0));
    let centred = pixels(parameters(Fit::LetterboxCentred, ColorOrder::Rgb), Some(&image), (6, 7));
    assert_eq!(centred[2 * row..5 * row], inner);
    assert!(centred[..2 * row].iter().chain(&centred[5 * row..]).all(|&v| v == 114.0));
    // On its side: 4 x 8 into 7 x 6 stands in columns 2..5.
    let upright = rgb(4, 8);
    let inner = pixels(parameters(Fit::Stretch, ColorOrder::Rgb), Some(&upright), (3, 6));
    let found = pixels(parameters(Fit::LetterboxCentred, ColorOrder::Rgb), Some(&upright), (7, 6));
    for (row, inner) in found.chunks(7 * 3).zip(inner.chunks(3 * 3)) {
        assert_eq!(row[6..15], *inner);
        assert!(row[..6].iter().chain(&row[15..]).all(|&v| v == 114.0));
    }
}

#[test]
fn without_a_picture_all_is_fill() {
    let found = pixels(parameters(Fit::Stretch, ColorOrder::Rgb), None, (6, 9));
    assert!(found.iter().all(|&v| v == 114.0));
    // A parameter block that promises more bytes than there are is no picture either.
    let mut image = rgb(6, 5);
    image.params.height = 6;
    let found = pixels(parameters(Fit::Stretch, ColorOrder::Rgb), Some(&image), (6, 9));
    assert!(found.iter().all(|&v| v == 114.0));
}

#[test]
fn tiles_chunks_types_and_layouts_give_the_same_values() {
    let mut prepare = parameters(Fit::LetterboxCentred, ColorOrder::Bgr);
    prepare.mean = [Scalar(127.0), Scalar(1.5), Scalar(-3.0)];
    prepare.std = [Scalar(128.0), Scalar(0.3), Scalar(-7.0)];
    let of = shape(&[1, 3, 37, 21]);
    // Planar, channels last, four values a pixel, columns before rows.
    let layouts = [
        Layout::contiguous(of),
        Layout::channels_last(of),
        Layout::new(of, &[0, 1, 4 * 21, 4]).unwrap(),
        Layout::ordered(of, &[0, 3, 1, 2]),
    ];
    for image in [rgb(50, 31), rgb(9, 70)] {
        let first = rig(prepare, DType::F32, layouts[0]).run(Some(&image), Share::Whole);
        let normal: Vec<f32> = cast(&first[0]);
        let half: Vec<f16> = normal.iter().map(|&v| f16::from_f32(v)).collect();
        for layout in layouts {
            for share in [Share::Whole, Share::Tiles, Share::Chunks] {
                assert_eq!(rig(prepare, DType::F32, layout).run(Some(&image), share), first);
                let found: Vec<f16> = cast(&rig(prepare, DType::F16, layout).run(Some(&image), share)[0]);
                assert_eq!(found, half);
            }
        }
        // The fill of the first channel (blue): (114 - 127) / 128; of the picture something else too.
        let corner = (114.0 - 127.0) / 128.0;
        assert_eq!(normal[0], corner);
        assert!(normal[..37 * 21].iter().any(|&v| v != corner));
    }
}

#[test]
fn degenerate_sizes_are_prepared() {
    for fit in [Fit::Stretch, Fit::LetterboxTopLeft, Fit::LetterboxCentred] {
        for source in [(1, 1), (2, 1), (1, 2), (1, 16_384), (16_384, 1), (3, 1000)] {
            for target in [(1, 1), (1, 9), (9, 1), (32, 32)] {
                let image = Image::new(
                    PixelFormat::Gray8,
                    source.0,
                    source.1,
                    source.0,
                    vec![200; (source.0 * source.1) as usize],
                );
                let found = pixels(parameters(fit, ColorOrder::Rgb), Some(&image), target);
                // A flat picture stays flat; at least one pixel of it is seen.
                assert!(found.iter().all(|&v| v == 200.0 || (v == 114.0 && fit != Fit::Stretch)));
                assert!(found.contains(&200.0), "{fit:?} {source:?} {target:?}");
            }
        }
    }
}
