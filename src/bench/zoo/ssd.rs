//! SSD300 on VGG-16 (Liu et al. 2016) up to its heads: boxes' regressions and classes' scores for every default box, not decoded.

use super::build::{Net, Signal};
use super::layers::Conv;
use super::vgg;
use super::weights::Draw;
use crate::primitive::{Binary, Scalar, Unary};

/// Default boxes at each pixel of each feature map.
const BOXES: [u32; 6] = [4, 6, 6, 6, 4, 4];
/// Classes of COCO as torchvision counts them, the background included.
const CLASSES: u32 = 91;
/// Layers behind VGG that halve or crop the map: inner channels, channels, stride and pad of the second convolution.
const EXTRAS: [(u32, u32, u32, u32); 4] = [(256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0)];
/// Smallest norm that a pixel is divided by.
const LEAST_NORM: f32 = 1e-12;

/// `bbox_regression` `[N, 8732, 4]` and `cls_logits` `[N, 8732, 91]` for pictures of 300 by 300.
pub fn ssd300(net: &mut Net, x: Signal) {
    let mut x = vgg::to_conv4_3(net, "backbone.features", x);
    let mut maps = vec![rescaled(net, "backbone.scale_weight", x)];
    // `extra.0` goes on inside VGG: pool4 is its layer 0, conv5 and its rectifications 1 to 6, the rest layer 7.
    x = net.max_pool("backbone.extra.0.0", x, 2, 2, 0);
    x = vgg::stage(net, "backbone.extra.0", 1, x, &[512, 512, 512]);
    x = net.max_pool("backbone.extra.0.7.0", x, 3, 1, 1);
    x = rectified(net, "backbone.extra.0.7.1", x, Conv::new(1024, 3).dilation(6));
    x = rectified(net, "backbone.extra.0.7.3", x, Conv::new(1024, 1));
    maps.push(x);
    for (index, (inner, channels, stride, pad)) in EXTRAS.into_iter().enumerate() {
        let name = format!("backbone.extra.{}", index + 1);
        x = rectified(net, &format!("{name}.0"), x, Conv::new(inner, 1));
        x = rectified(net, &format!("{name}.2"), x, Conv::new(channels, 3).stride(stride).pad(pad));
        maps.push(x);
    }
    let regression = head(net, "head.regression_head", &maps, 4);
    let scores = head(net, "head.classification_head", &maps, CLASSES);
    net.output("bbox_regression", regression);
    net.output("cls_logits", scores);
}

fn rectified(net: &mut Net, name: &str, x: Signal, conv: Conv) -> Signal {
    let x = net.conv(name, x, conv.bias());
    net.relu(&format!("{name}.relu"), x)
}

/// Every pixel's channels over their Euclidean norm, times a weight a channel.
fn rescaled(net: &mut Net, name: &str, x: Signal) -> Signal {
    let channels = net.shape(x).dim(1);
    let weight = net.parameter(name, &[channels], Draw::around(20.0, 2.0));
    let norm = net.norm(&format!("{name}.norm"), x, &[1]);
    let bounded = Unary::Clip(Scalar(LEAST_NORM), Scalar(f32::INFINITY));
    let norm = net.unary(&format!("{name}.bounded"), bounded, norm, norm.power);
    let normal = net.binary(&format!("{name}.normal"), Binary::Div, x, norm);
    let weight = net.reshape(weight, &[1, channels, 1, 1]);
    net.binary(&format!("{name}.rescaled"), Binary::Mul, normal, weight)
}

/// `columns` numbers for each default box of all maps: `[N, boxes, columns]`.
fn head(net: &mut Net, name: &str, maps: &[Signal], columns: u32) -> Signal {
    let mut parts = Vec::with_capacity(maps.len());
    for (index, (&map, boxes)) in maps.iter().zip(BOXES).enumerate() {
        let conv = Conv::new(boxes * columns, 3).bias();
        let x = net.conv(&format!("{name}.module_list.{index}"), map, conv);
        let (batch, pixels) = (net.shape(x).dim(0), net.shape(x).dim(2) * net.shape(x).dim(3));
        let x = net.transpose(x, &[0, 2, 3, 1]);
        parts.push(net.reshape(x, &[batch, pixels * boxes, columns]));
    }
    net.concat(name, &parts, 1)
}
