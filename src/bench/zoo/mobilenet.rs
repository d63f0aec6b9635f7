//! MobileNetV3-Large (Howard et al. 2019), and its features with the last stage dilated, as DeepLab takes them.

use super::build::{Net, Signal};
use super::layers::Conv;
use crate::primitive::{Binary, Scalar, Unary};

/// Of all batch normalisations of this network.
const EPSILON: f32 = 1e-3;
/// Gain of the normalisation that ends a block's branch where the block adds its input.
const BRANCH: f32 = 0.5;
/// Mean square of a hard sigmoid of a signal of mean square one: `1/4 + 1/36`.
const GATED: f32 = 10.0 / 36.0;

/// The function behind a convolution.
#[derive(Clone, Copy, PartialEq)]
enum Activation {
    None,
    Relu,
    HardSwish,
}

/// A bottleneck: side of the depthwise window, inner channels, channels of the result, squeeze and excite, function, stride.
struct Block(u32, u32, u32, bool, Activation, u32);

/// Table 1 of the paper. The blocks from [`LAST_STAGE`] on are the last stage.
const BLOCKS: [Block; 15] = {
    use Activation::{HardSwish, Relu};
    [
        Block(3, 16, 16, false, Relu, 1),
        Block(3, 64, 24, false, Relu, 2),
        Block(3, 72, 24, false, Relu, 1),
        Block(5, 72, 40, true, Relu, 2),
        Block(5, 120, 40, true, Relu, 1),
        Block(5, 120, 40, true, Relu, 1),
        Block(3, 240, 80, false, HardSwish, 2),
        Block(3, 200, 80, false, HardSwish, 1),
        Block(3, 184, 80, false, HardSwish, 1),
        Block(3, 184, 80, false, HardSwish, 1),
        Block(3, 480, 112, true, HardSwish, 1),
        Block(3, 672, 112, true, HardSwish, 1),
        Block(5, 672, 160, true, HardSwish, 2),
        Block(5, 960, 160, true, HardSwish, 1),
        Block(5, 960, 160, true, HardSwish, 1),
    ]
};
const LAST_STAGE: usize = 12;

/// The classes' scores: `logits` `[N, 1000]`.
pub fn mobilenet_v3_large(net: &mut Net, x: Signal) {
    let mut x = features(net, "features", x, 1);
    x = net.global_mean("avgpool", x);
    x = net.flatten(x);
    x = net.linear("classifier.0", x, 1280);
    x = net.hard_swish("classifier.1", x);
    x = net.linear("classifier.3", x, 1000);
    net.output("logits", x);
}

/// All but the classifier, under `prefix`: 960 channels, at a 32nd of the picture's size. With a `dilation` above 1 the last
/// stage's windows are spread by it and lose their stride: a 16th.
pub fn features(net: &mut Net, prefix: &str, x: Signal, dilation: u32) -> Signal {
    let mut x = unit(
        net,
        &format!("{prefix}.0"),
        x,
        Conv::new(16, 3).stride(2),
        Activation::HardSwish,
        1.0,
    );
    for (index, block) in BLOCKS.iter().enumerate() {
        let dilation = if index < LAST_STAGE { 1 } else { dilation };
        x = bottleneck(net, &format!("{prefix}.{}.block", index + 1), x, block, dilation);
    }
    let channels = 6 * net.shape(x).dim(1);
    let last = format!("{prefix}.{}", BLOCKS.len() + 1);
    unit(net, &last, x, Conv::new(channels, 1), Activation::HardSwish, 1.0)
}

fn bottleneck(net: &mut Net, name: &str, x: Signal, block: &Block, dilation: u32) -> Signal {
    let &Block(side, inner, channels, excites, activation, stride) = block;
    // A torchvision block numbers the layers it has.
    let mut layers = (0..).map(|layer| format!("{name}.{layer}"));
    let mut next = || layers.next().unwrap_or_default();
    let inputs = net.shape(x).dim(1);
    let mut y = x;
    if inner != inputs {
        y = unit(net, &next(), y, Conv::new(inner, 1), activation, 1.0);
    }
    let strides = if dilation > 1 { 1 } else { stride };
    let depthwise = Conv::new(inner, side).stride(strides).dilation(dilation).groups(inner);
    y = unit(net, &next(), y, depthwise, activation, 1.0);
    if excites {
        y = squeeze_and_excite(net, &next(), y);
    }
    let adds = stride == 1 && inputs == channels;
    let gain = if adds { BRANCH } else { 1.0 };
    y = unit(net, &next(), y, Conv::new(channels, 1), Activation::None, gain);
    if adds { net.binary(name, Binary::Add, y, x) } else { y }
}

/// Convolution `NAME.0`, batch normalisation `NAME.1`, function.
fn unit(net: &mut Net, name: &str, x: Signal, conv: Conv, activation: Activation, gain: f32) -> Signal {
    let x = net.conv(&format!("{name}.0"), x, conv);
    let x = net.batch_norm(&format!("{name}.1"), x, EPSILON, gain);
    match activation {
        Activation::None => x,
        Activation::Relu => net.relu(&format!("{name}.2"), x),
        Activation::HardSwish => net.hard_swish(&format!("{name}.2"), x),
    }
}

/// Each channel times a gate between 0 and 1 that two small layers compute from the means of all channels.
fn squeeze_and_excite(net: &mut Net, name: &str, x: Signal) -> Signal {
    let channels = net.shape(x).dim(1);
    let mean = net.global_mean(&format!("{name}.avgpool"), x);
    let squeezed = net.conv(&format!("{name}.fc1"), mean, Conv::new(divisible(channels / 4), 1).bias());
    let squeezed = net.relu(&format!("{name}.activation"), squeezed);
    let excited = net.conv(&format!("{name}.fc2"), squeezed, Conv::new(channels, 1).bias());
    let function = Unary::HardSigmoid(Scalar(1.0 / 6.0), Scalar(0.5));
    let gate = net.unary(&format!("{name}.scale_activation"), function, excited, GATED);
    net.binary(name, Binary::Mul, x, gate)
}

/// The multiple of 8 that is nearest to `channels`, or the next one if that would lose more than a tenth.
fn divisible(channels: u32) -> u32 {
    let nearest = ((channels + 4) / 8 * 8).max(8);
    if 10 * nearest < 9 * channels { nearest + 8 } else { nearest }
}
