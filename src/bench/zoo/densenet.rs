//! DenseNet-121 (Huang et al. 2017): every layer reads the results of all layers before it in its block.

use super::build::{Net, Signal};
use super::layers::Conv;

const EPSILON: f32 = 1e-5;
/// Channels that a layer adds.
const GROWTH: u32 = 32;
/// Channels inside a layer, for each that it adds.
const BOTTLENECK: u32 = 4;
/// Layers of each block.
const BLOCKS: [u32; 4] = [6, 12, 24, 16];

/// The classes' scores: `logits` `[N, 1000]`.
pub fn densenet121(net: &mut Net, x: Signal) {
    let mut x = net.conv("features.conv0", x, Conv::new(2 * GROWTH, 7).stride(2));
    x = normalised(net, "features.norm0", x);
    x = net.max_pool("features.pool0", x, 3, 2, 1);
    for (index, &layers) in BLOCKS.iter().enumerate() {
        let number = index + 1;
        for layer in 1..=layers {
            x = dense(net, &format!("features.denseblock{number}.denselayer{layer}"), x);
        }
        if number < BLOCKS.len() {
            x = transition(net, &format!("features.transition{number}"), x);
        }
    }
    x = normalised(net, "features.norm5", x);
    x = net.global_mean("avgpool", x);
    x = net.flatten(x);
    x = net.linear("classifier", x, 1000);
    net.output("logits", x);
}

/// Batch normalisation and rectification.
fn normalised(net: &mut Net, name: &str, x: Signal) -> Signal {
    let x = net.batch_norm(name, x, EPSILON, 1.0);
    net.relu(&format!("{name}.relu"), x)
}

/// What the layer computes from `x`, behind `x`.
fn dense(net: &mut Net, name: &str, x: Signal) -> Signal {
    let mut y = normalised(net, &format!("{name}.norm1"), x);
    y = net.conv(&format!("{name}.conv1"), y, Conv::new(BOTTLENECK * GROWTH, 1));
    y = normalised(net, &format!("{name}.norm2"), y);
    y = net.conv(&format!("{name}.conv2"), y, Conv::new(GROWTH, 3));
    net.concat(name, &[x, y], 1)
}

/// Half the channels at half the size.
fn transition(net: &mut Net, name: &str, x: Signal) -> Signal {
    let channels = net.shape(x).dim(1) / 2;
    let mut x = normalised(net, &format!("{name}.norm"), x);
    x = net.conv(&format!("{name}.conv"), x, Conv::new(channels, 1));
    net.average_pool(&format!("{name}.pool"), x, 2)
}
