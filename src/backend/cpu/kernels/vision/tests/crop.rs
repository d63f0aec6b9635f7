//! Crops against a reference that looks at one value at a time, written from the primitive's description alone.

use super::prepare::{parameters, pixels};
use super::{Image, Rig, Share, cast, random, shape};
use crate::ids::CameraId;
use crate::primitive::{ColorOrder, Crop, Fit, Primitive, Scalar};
use crate::task::PixelFormat;
use crate::tensor::{DType, Layout};
use half::f16;

const FORMATS: [PixelFormat; 4] = [PixelFormat::Rgb8, PixelFormat::Bgr8, PixelFormat::Gray8, PixelFormat::Nv12];

fn parameters_of(classes: u64, order: ColorOrder) -> Crop {
    Crop {
        camera: CameraId(0),
        classes,
        margin: Scalar(0.1),
        order,
        mean: [Scalar(10.0), Scalar(127.5), Scalar(-3.0)],
        std: [Scalar(3.0), Scalar(58.25), Scalar(-0.7)],
    }
}

/// Numbers in `0..below`.
fn numbers(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut all = random(seed);
    move |below| all.next().unwrap_or_default() % below
}

fn image(format: PixelFormat, width: u32, height: u32, seed: u64) -> Image {
    let stride = format.row_bytes(width) as u32 + 3;
    let bytes = format.image_bytes(width, height, stride).unwrap();
    let bytes = random(seed).map(|v| (v >> 7) as u8).take(bytes as usize).collect();
    Image::new(format, width, height, stride, bytes)
}

fn rig(crop: Crop, rows: &[[f32; 6]], count: i32, dtype: DType, crops: Layout) -> Rig {
    let batch = crops.shape.dim(0);
    Rig::new(Primitive::Crop(crop))
        .input::<u8>(DType::U8, Layout::contiguous(shape(&[1])), &[])
        .floats(&[rows.len() as u32, 6], rows.as_flattened())
        .input(DType::I32, Layout::contiguous(shape(&[1])), &[count])
        .output(dtype, crops)
        .output(DType::I32, Layout::contiguous(shape(&[batch])))
}

/// The rows that are shown, best first.
fn chosen(crop: Crop, rows: &[[f32; 6]], count: i32) -> Vec<usize> {
    let count = count.clamp(0, rows.len() as i32) as usize;
    let wanted = |class: f32| (0..64).any(|c| crop.classes & (1 << c) != 0 && class == c as f32);
    let mut found: Vec<usize> = (0..count)
        .filter(|&r| rows[r].iter().all(|v| v.is_finite()) && wanted(rows[r][5]))
        .collect();
    // A stable sort keeps lower rows first.
    found.sort_by(|&a, &b| rows[b][4].partial_cmp(&rows[a][4]).unwrap());
    found
}

/// Crop `row` as `[3, h, w]`, from the picture's colours in the crop's order, pixel by pixel.
fn reference(crop: Crop, row: &[f32; 6], colors: &[f32], size: (u32, u32), (w, h): (u32, u32)) -> Vec<f32> {
    let edge = |v: f32| v.clamp(-16_384.0, 32_768.0);
    let position = |low: f32, high: f32, i: u32, extent: u32| {
        let side = (edge(high) - edge(low)).max(0.0);
        let margin = crop.margin.0 * side;
        let step = (side + 2.0 * margin) / extent as f32;
        (edge(low) - margin + (i as f32 + 0.5) * step) - 0.5
    };
    let color = |x: i64, y: i64, c: usize| {
        let (x, y) = (x.clamp(0, i64::from(size.0) - 1), y.clamp(0, i64::from(size.1) - 1));
        colors[(y as usize * size.0 as usize + x as usize) * 3 + c]
    };
    let mut all = Vec::new();
    for c in 0..3 {
        for j in 0..h {
            for i in 0..w {
                let (x, y) = (position(row[0], row[2], i, w), position(row[1], row[3], j, h));
                let (left, top) = (x.floor() as i64, y.floor() as i64);
                let across = |y| {
                    let (a, b) = (color(left, y, c), color(left + 1, y, c));
                    a + (b - a) * (x - x.floor())
                };
                let (a, b) = (across(top), across(top + 1));
                all.push((a + (b - a) * (y - y.floor()) - crop.mean[c].0) / crop.std[c].0);
            }
        }
    }
    all
}

/// Detections of every kind: inside, over the edges, outside, without area, turned over, huge, and no numbers at all.
fn detections(next: &mut impl FnMut(u32) -> u32, rows: usize, (w, h): (u32, u32)) -> Vec<[f32; 6]> {
    let mut edge = |side: u32| next(side * 8) as f32 / 4.0 - side as f32 / 2.0;
    let mut all: Vec<[f32; 6]> = (0..rows).map(|_| [edge(w), edge(h), edge(w), edge(h), 0.0, 0.0]).collect();
    for row in &mut all {
        if next(5) > 0 {
            *row = [
                row[0].min(row[2]),
                row[1].min(row[3]),
                row[0].max(row[2]),
                row[1].max(row[3]),
                0.0,
                0.0,
            ];
        }
        // Few scores and classes, so that there are ties and every class has boxes.
        row[4] = next(6) as f32 / 8.0;
        row[5] = next(8) as f32;
        let wild = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1e30, 1e9, -1.0, 1.5, 64.0];
        match next(6) {
            0 => row[next(6) as usize] = wild[next(9) as usize],
            1 => row[2] = row[0],
            _ => {}
        }
    }
    all
}

#[test]
fn every_crop_equals_the_reference_bit_for_bit() {
    let mut next = numbers(5);
    let (mut filled, mut empty) = (0, 0);
    for round in 0..120u64 {
        let format = FORMATS[round as usize % 4];
        let size = (2 * (1 + next(20)), 2 * (1 + next(15)));
        let image = image(format, size.0, size.1, round);
        let order = [ColorOrder::Rgb, ColorOrder::Bgr][next(2) as usize];
        let crop = parameters_of(1 + u64::from(next(255)), order);
        let rows = 1 + next(30) as usize;
        let rows = detections(&mut next, rows, size);
        let count = next(rows.len() as u32 + 6) as i32 - 3;
        let (batch, w, h) = (1 + next(9), 1 + next(12), 1 + next(9));
        let dims = shape(&[batch, 3, h, w]);
        let outputs = rig(crop, &rows, count, DType::F32, Layout::channels_last(dims)).run(Some(&image), Share::Whole);
        let (values, shown): (Vec<f32>, Vec<i32>) = (cast(&outputs[0]), cast(&outputs[1]));
        let colors = pixels(parameters(Fit::Stretch, order), Some(&image), size);
        let chosen = chosen(crop, &rows, count);
        for (i, found) in values.chunks((3 * w * h) as usize).enumerate() {
            let about = format!("round {round}, crop {i}, {:?}", chosen.get(i).map(|&r| rows[r]));
            let expected = chosen
                .get(i)
                .map_or(vec![0.0; found.len()], |&r| reference(crop, &rows[r], &colors, size, (w, h)));
            assert_eq!(shown[i], chosen.get(i).map_or(-1, |&r| r as i32), "{about}");
            let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(found), bits(&expected), "{about}");
        }
        let here = chosen.len().min(batch as usize);
        (filled, empty) = (filled + here, empty + batch as usize - here);
    }
    assert!(filled > 100 && empty > 100, "{filled} filled, {empty} empty");
}

#[test]
fn shares_types_and_layouts_give_the_same_values() {
    let mut next = numbers(9);
    let image = image(PixelFormat::Bgr8, 40, 30, 1);
    let crop = parameters_of(0xff, ColorOrder::Rgb);
    let rows = detections(&mut next, 20, (40, 30));
    let of = shape(&[7, 3, 5, 6]);
    // Planar, channels last, four values a pixel, crops innermost.
    let layouts = [
        Layout::contiguous(of),
        Layout::channels_last(of),
        Layout::new(of, &[4 * 30, 1, 4 * 6, 4]).unwrap(),
        Layout::ordered(of, &[1, 2, 3, 0]),
    ];
    let first = rig(crop, &rows, 20, DType::F32, layouts[0]).run(Some(&image), Share::Whole);
    let half: Vec<f16> = cast::<f32>(&first[0]).iter().map(|&v| f16::from_f32(v)).collect();
    for layout in layouts {
        for share in [Share::Whole, Share::Tiles, Share::Chunks] {
            assert_eq!(rig(crop, &rows, 20, DType::F32, layout).run(Some(&image), share), first);
            let found = rig(crop, &rows, 20, DType::F16, layout).run(Some(&image), share);
            assert_eq!(cast::<f16>(&found[0]), half);
            assert_eq!(found[1], first[1]);
        }
    }
}

#[test]
fn the_best_eight_of_many_are_shown_and_ties_go_to_the_lower_row() {
    let image = image(PixelFormat::Rgb8, 16, 16, 2);
    let crop = parameters_of(0b11_0000, ColorOrder::Rgb);
    let row = |score: f32, class: u32| [1.0, 2.0, 9.0, 12.0, score, class as f32];
    let mut rows = vec![row(0.5, 4); 12];
    (rows[3], rows[7], rows[9], rows[11]) = (row(0.9, 0), row(0.9, 5), row(0.6, 4), row(f32::NAN, 4));
    let shown = |rows: &[[f32; 6]], count| -> Vec<i32> {
        let layout = Layout::channels_last(shape(&[8, 3, 2, 2]));
        cast(&rig(crop, rows, count, DType::F32, layout).run(Some(&image), Share::Whole)[1])
    };
    assert_eq!(shown(&rows, 12), [7, 9, 0, 1, 2, 4, 5, 6]);
    assert_eq!(shown(&rows, 3), [0, 1, 2, -1, -1, -1, -1, -1]);
    assert_eq!(shown(&rows, i32::MAX), shown(&rows, 12));
    for none in [0, -1, i32::MIN] {
        assert_eq!(shown(&rows, none), [-1; 8]);
    }
}

#[test]
fn before_the_first_picture_all_crops_are_empty() {
    let crop = parameters_of(1, ColorOrder::Rgb);
    let layout = Layout::contiguous(shape(&[2, 3, 4, 4]));
    let rig = rig(crop, &[[0.0, 0.0, 4.0, 4.0, 0.9, 0.0]], 1, DType::F32, layout);
    // A parameter block that promises more bytes than there are is no picture either.
    let mut short = image(PixelFormat::Rgb8, 6, 6, 3);
    short.params.height = 7;
    for none in [None, Some(&short)] {
        let outputs = rig.run(none, Share::Whole);
        assert!(cast::<f32>(&outputs[0]).iter().all(|v| v.to_bits() == 0));
        assert_eq!(cast::<i32>(&outputs[1]), [-1, -1]);
    }
}

#[test]
fn a_whole_picture_of_the_crops_size_passes_unchanged() {
    let image = image(PixelFormat::Gray8, 12, 8, 4);
    let crop = Crop {
        margin: Scalar(0.0),
        mean: [Scalar(0.0); 3],
        std: [Scalar(1.0); 3],
        ..parameters_of(1, ColorOrder::Rgb)
    };
    let rig = rig(
        crop,
        &[[0.0, 0.0, 12.0, 8.0, 0.5, 0.0]],
        1,
        DType::F32,
        Layout::contiguous(shape(&[1, 3, 8, 12])),
    );
    let found: Vec<f32> = cast(&rig.run(Some(&image), Share::Whole)[0]);
    let rows: Vec<f32> = image
        .bytes
        .chunks(15)
        .flat_map(|row| row[..12].iter().map(|&v| f32::from(v)))
        .collect();
    assert_eq!(found, [rows.clone(), rows.clone(), rows].concat());
}
