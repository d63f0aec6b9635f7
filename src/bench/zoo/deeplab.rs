//! DeepLabV3 (Chen et al. 2017) on MobileNetV3-Large: a class for each pixel.

use super::build::{Net, Signal};
use super::layers::Conv;
use super::mobilenet;
use crate::limits::MAX_RANK;
use crate::primitive::{Coordinates, Primitive, Resize, ResizeMode, Scalar};

const EPSILON: f32 = 1e-5;
/// Dilations of the pyramid's windows.
const RATES: [u32; 3] = [12, 24, 36];
/// Channels of the pyramid's levels and of the head.
const CHANNELS: u32 = 256;
/// Classes of Pascal VOC, the background included.
const CLASSES: u32 = 21;

/// `out` `[N, 21, H, W]` for pictures of H by W, each a multiple of 16 or not.
pub fn deeplab_v3(net: &mut Net, x: Signal) {
    let picture = net.shape(x);
    let x = mobilenet::features(net, "backbone", x, 2);
    let mut x = pyramid(net, x);
    x = unit(net, "classifier.1", "classifier.2", x, Conv::new(CHANNELS, 3));
    x = net.conv("classifier.4", x, Conv::new(CLASSES, 1).bias());
    x = resized(net, "out", x, picture.dim(2), picture.dim(3));
    net.output("out", x);
}

/// Atrous spatial pyramid pooling: windows of several reaches and the whole picture's mean, side by side, then mixed.
fn pyramid(net: &mut Net, x: Signal) -> Signal {
    let mut convolutions = vec![Conv::new(CHANNELS, 1)];
    convolutions.extend(RATES.map(|rate| Conv::new(CHANNELS, 3).dilation(rate)));
    let mut levels = Vec::new();
    for (index, conv) in convolutions.into_iter().enumerate() {
        let name = format!("classifier.0.convs.{index}");
        levels.push(unit(net, &format!("{name}.0"), &format!("{name}.1"), x, conv));
    }
    let name = format!("classifier.0.convs.{}", levels.len());
    let mean = net.global_mean(&format!("{name}.0"), x);
    let mean = unit(net, &format!("{name}.1"), &format!("{name}.2"), mean, Conv::new(CHANNELS, 1));
    // Interpolating one pixel repeats it.
    let (batch, height, width) = (net.shape(x).dim(0), net.shape(x).dim(2), net.shape(x).dim(3));
    levels.push(net.broadcast(mean, &[batch, CHANNELS, height, width]));
    let all = net.concat("classifier.0.convs", &levels, 1);
    unit(net, "classifier.0.project.0", "classifier.0.project.1", all, Conv::new(CHANNELS, 1))
}

/// Convolution, batch normalisation, rectification.
fn unit(net: &mut Net, conv_name: &str, norm_name: &str, x: Signal, conv: Conv) -> Signal {
    let x = net.conv(conv_name, x, conv);
    let x = net.batch_norm(norm_name, x, EPSILON, 1.0);
    net.relu(&format!("{norm_name}.relu"), x)
}

/// Bilinear interpolation between pixels' centres.
fn resized(net: &mut Net, name: &str, x: Signal, height: u32, width: u32) -> Signal {
    let from = net.shape(x);
    let mut scales = [Scalar(1.0); MAX_RANK];
    scales[2] = Scalar(height as f32 / from.dim(2) as f32);
    scales[3] = Scalar(width as f32 / from.dim(3) as f32);
    let resize = Resize {
        mode: ResizeMode::Linear { antialias: false },
        coordinates: Coordinates::HalfPixel,
        scales,
    };
    let dims = [from.dim(0), from.dim(1), height, width];
    net.primitive(name, Primitive::Resize(resize), &[x], &dims, x.power)
}
