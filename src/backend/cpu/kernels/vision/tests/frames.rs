//! Preparation of real driving frames against the pictures that `cv2.resize` made of them (`refs/*/*.input.png`).

use super::{Image, Rig, Share, cast, shape};
use crate::ids::CameraId;
use crate::primitive::{ColorOrder, Fit, Prepare, Primitive, Scalar};
use crate::task::PixelFormat;
use crate::tensor::{DType, Layout};
use std::path::{Path, PathBuf};

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
#[allow(clippy::print_stderr)]
fn real_frames_are_prepared_as_opencv_does() {
    let Some(data) = data() else {
        eprintln!("SKIPPED real_frames_are_prepared_as_opencv_does: set PLATOON_AV_DATA to the folder of frames and references");
        return;
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
