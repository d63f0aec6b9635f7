//! Real driving frames: preparation against the pictures that `cv2.resize` made of them (`refs/*/*.input.png`), and decoding of
//! a detector's stored output against the boxes decoded from it (`refs/decoded.json`).

use super::{Image, Rig, Share, cast, shape};
use crate::ids::CameraId;
use crate::primitive::{ColorOrder, Fit, Nms, Prepare, Primitive, Scalar};
use crate::task::PixelFormat;
use crate::tensor::{DType, Layout};
use std::path::{Path, PathBuf};

/// Says loudly that a test did not run.
#[allow(clippy::print_stderr)]
fn skipped(test: &str) {
    eprintln!("SKIPPED {test}: set PLATOON_AV_DATA to the folder of frames and references");
}

/// The folder of real frames and references: `PLATOON_AV_DATA`, else `shared/av-data` beside the repository.
fn data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/av-data");
    let folder = std::env::var_os("PLATOON_AV_DATA").map_or(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// Width, height and RGB pixels of a PNG or JPEG.
fn decode(path: &Path) -> (u32, u32, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|e| e == "png") {
        let picture = image::load_from_memory(&bytes).unwrap().to_rgb8();
        return (picture.width(), picture.height(), picture.into_raw());
    }
    let mut decoder = zune_jpeg::JpegDecoder::new(zune_jpeg::zune_core::bytestream::ZCursor::new(bytes));
    let pixels = decoder.decode().unwrap();
    let (width, height) = decoder.dimensions().unwrap();
    (width as u32, height as u32, pixels)
}

/// The largest difference from the reference, in pixel values, and the share of values that are equal.
fn compare(frame: &Path, reference: &Path, fit: Fit) -> (f32, f64) {
    let (width, height, pixels) = decode(frame);
    let (target_width, target_height, expected) = decode(reference);
    let image = Image::new(PixelFormat::Rgb8, width, height, 3 * width, pixels);
    let prepare = Prepare {
        camera: CameraId(0),
        fit,
        fill: 114,
        order: ColorOrder::Rgb,
        mean: [Scalar(0.0); 3],
        std: [Scalar(1.0); 3],
    };
    let channels_last = shape(&[1, 3, target_height, target_width]);
    let rig = Rig::new(Primitive::Prepare(prepare)).input::<u8>(DType::U8, Layout::contiguous(shape(&[1])), &[]);
    let found: Vec<f32> = cast(
        &rig.output(DType::F32, Layout::channels_last(channels_last))
            .run(Some(&image), Share::Whole)[0],
    );
    let plane = expected.len() / 3;
    let pairs = || (0..expected.len()).map(|i| (found[i % 3 * plane + i / 3], f32::from(expected[i])));
    let equal = pairs().filter(|(f, e)| f == e).count();
    let largest = pairs().map(|(f, e)| (f - e).abs()).fold(0.0, f32::max);
    (largest, equal as f64 / expected.len() as f64)
}

#[test]
fn real_frames_are_prepared_as_opencv_does() {
    let Some(data) = data() else {
        return skipped("real_frames_are_prepared_as_opencv_does");
    };
    let classified = ["kitten_224", "bird_chickadee", "advlane_test1_carcrop"];
    for name in classified {
        let frame = data.join("frames/classify").join(name).with_extension("png");
        let reference = data.join(format!("refs/classifiers_224/{name}.input.png"));
        assert_eq!(compare(&frame, &reference, Fit::Stretch), (0.0, 1.0), "{name}");
    }
    let frames = [
        ("advlane_test1", "udacity/advlane_test1.jpg"),
        ("advlane_test6", "udacity/advlane_test6.jpg"),
        ("seq_0020", "seq_vehicle/0020.jpg"),
    ];
    let networks = [
        ("yolox_nano_416", Fit::LetterboxTopLeft),
        ("road_segmentation_adas_0001", Fit::Stretch),
        ("twinlitenet_360x640", Fit::Stretch),
        ("deeplab_edgetpu_cityscapes_513", Fit::Stretch),
        ("classifiers_224", Fit::Stretch),
    ];
    for (name, file) in frames {
        for (network, fit) in networks {
            let reference = data.join(format!("refs/{network}/{name}.input.png"));
            if !reference.exists() {
                continue;
            }
            let (largest, equal) = compare(&data.join("frames").join(file), &reference, fit);
            // JPEG decoders may differ: libjpeg-turbo, which the references came through, and the one here give values up to 4
            // apart, a tenth of them unequal, before anything is resampled. A resampling that rounded in another way would
            // leave another tenth unequal, one that were a quarter of a pixel off would differ by tens.
            assert!(largest <= 4.0 && equal > 0.89, "{network} {name}: {largest}, {equal}");
        }
    }
}

/// The elements of a NumPy file of f32 in C order: after the header, whose length stands in bytes 8 and 9 (format version 1).
fn npy(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    cast(&bytes[start..])
}

#[test]
fn a_stored_head_gives_the_stored_boxes() {
    let Some(data) = data() else {
        return skipped("a_stored_head_gives_the_stored_boxes");
    };
    let text = std::fs::read_to_string(data.join("refs/decoded.json")).unwrap();
    let decoded: serde_json::Value = serde_json::from_str(&text).unwrap();
    for name in ["advlane_test1", "advlane_test6"] {
        let head = npy(&data.join(format!("refs/yolox_nano_416/{name}.output.npy")));
        let (boxes, scores) = (Layout::contiguous(shape(&[3549, 4])), Layout::contiguous(shape(&[3549, 80])));
        let rig = Rig::new(Primitive::DecodeYolox { input: (416, 416) }).floats(&[1, 3549, 85], &head);
        let decoding = rig.output(DType::F32, boxes).output(DType::F32, scores).run(None, Share::Tiles);
        let nms = Nms {
            score: Scalar(0.3),
            iou: Scalar(0.45),
            camera: CameraId(0),
            fit: Fit::LetterboxTopLeft,
            input: (416, 416),
        };
        let image = Image::new(PixelFormat::Gray8, 1280, 720, 1280, vec![0; 1280 * 720]);
        let rig = Rig::new(Primitive::Nms(nms)).input::<f32>(DType::F32, boxes, &cast(&decoding[0]));
        let rig = rig.input::<f32>(DType::F32, scores, &cast(&decoding[1]));
        let rig = rig.output(DType::F32, Layout::contiguous(shape(&[100, 6])));
        let found = rig
            .output(DType::I32, Layout::contiguous(shape(&[1])))
            .run(Some(&image), Share::Whole);
        let rows: Vec<[f32; 6]> = cast(&found[0]);
        let expected = decoded["yolox_nano_416"][name].as_array().unwrap();
        assert_eq!(cast::<i32>(&found[1]), [expected.len() as i32]);
        for (row, expected) in rows.iter().zip(expected) {
            let number = |v: &serde_json::Value| v.as_f64().unwrap();
            assert_eq!(f64::from(row[5]), number(&expected["id"]));
            // The file holds four digits of scores and two of pixels.
            assert!((f64::from(row[4]) - number(&expected["score"])).abs() <= 0.000_051);
            for (edge, expected) in row.iter().zip(expected["box_xyxy"].as_array().unwrap()) {
                assert!((f64::from(*edge) - number(expected)).abs() <= 0.0052, "{row:?} {expected}");
            }
        }
    }
}
