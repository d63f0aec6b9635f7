//! ResNets (He et al. 2016) as torchvision has them: strides in the 3x3 convolution of a bottleneck ("v1.5").

use super::build::{Net, Signal};
use super::layers::Conv;

/// Of all batch normalisations here.
const EPSILON: f32 = 1e-5;
/// Gain of a branch's last normalisation: each block adds a quarter of a normalised signal's mean square, so that the deepest
/// network stays small.
const BRANCH: f32 = 0.5;
/// Channels of a bottleneck's result for each of its inner ones.
const EXPANSION: u32 = 4;

/// Blocks of each stage, and whether they are bottlenecks.
struct Depth {
    blocks: [usize; 4],
    bottleneck: bool,
}

/// ResNet-18: `logits` `[N, 1000]`.
pub fn resnet18(net: &mut Net, x: Signal) {
    let depth = Depth {
        blocks: [2, 2, 2, 2],
        bottleneck: false,
    };
    resnet(net, x, &depth);
}

/// ResNet-34.
pub fn resnet34(net: &mut Net, x: Signal) {
    let depth = Depth {
        blocks: [3, 4, 6, 3],
        bottleneck: false,
    };
    resnet(net, x, &depth);
}

/// ResNet-50.
pub fn resnet50(net: &mut Net, x: Signal) {
    let depth = Depth {
        blocks: [3, 4, 6, 3],
        bottleneck: true,
    };
    resnet(net, x, &depth);
}

/// ResNet-101.
pub fn resnet101(net: &mut Net, x: Signal) {
    let depth = Depth {
        blocks: [3, 4, 23, 3],
        bottleneck: true,
    };
    resnet(net, x, &depth);
}

fn resnet(net: &mut Net, x: Signal, depth: &Depth) {
    let mut x = net.conv("conv1", x, Conv::new(64, 7).stride(2));
    x = net.batch_norm("bn1", x, EPSILON, 1.0);
    x = net.relu("relu", x);
    x = net.max_pool("maxpool", x, 3, 2, 1);
    for (stage, &blocks) in depth.blocks.iter().enumerate() {
        for block in 0..blocks {
            let name = format!("layer{}.{block}", stage + 1);
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = residual(net, &name, x, 64 << stage, stride, depth.bottleneck);
        }
    }
    x = net.global_mean("avgpool", x);
    x = net.flatten(x);
    x = net.linear("fc", x, 1000);
    net.output("logits", x);
}

fn residual(net: &mut Net, name: &str, x: Signal, width: u32, stride: u32, bottleneck: bool) -> Signal {
    let convolutions: &[Conv] = if bottleneck {
        &[
            Conv::new(width, 1),
            Conv::new(width, 3).stride(stride),
            Conv::new(width * EXPANSION, 1),
        ]
    } else {
        &[Conv::new(width, 3).stride(stride), Conv::new(width, 3)]
    };
    let mut branch = x;
    for (index, &conv) in convolutions.iter().enumerate() {
        let number = index + 1;
        let last = number == convolutions.len();
        branch = net.conv(&format!("{name}.conv{number}"), branch, conv);
        branch = net.batch_norm(&format!("{name}.bn{number}"), branch, EPSILON, if last { BRANCH } else { 1.0 });
        if !last {
            branch = net.relu(&format!("{name}.relu{number}"), branch);
        }
    }
    let channels = net.shape(branch).dim(1);
    let straight = if stride == 1 && net.shape(x).dim(1) == channels {
        x
    } else {
        let x = net.conv(&format!("{name}.downsample.0"), x, Conv::new(channels, 1).stride(stride));
        net.batch_norm(&format!("{name}.downsample.1"), x, EPSILON, 1.0)
    };
    net.relu_of_sum(name, branch, straight)
}
