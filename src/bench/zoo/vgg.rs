//! VGG-16 (Simonyan and Zisserman 2015, configuration D) for pictures of 224 by 224, and the part of it that SSD stands on.

use super::build::{Net, Signal};
use super::layers::Conv;

/// Channels of the convolutions, stage after stage.
const STAGES: [&[u32]; 5] = [&[64, 64], &[128, 128], &[256, 256, 256], &[512, 512, 512], &[512, 512, 512]];

/// The classes' scores: `logits` `[N, 1000]`.
pub fn vgg16(net: &mut Net, x: Signal) {
    let mut x = x;
    let mut layer = 0;
    for channels in STAGES {
        x = stage(net, "features", layer, x, channels);
        layer += 2 * channels.len();
        x = net.max_pool(&format!("features.{layer}"), x, 2, 2, 0);
        layer += 1;
    }
    x = net.flatten(x);
    for layer in [0, 3] {
        x = net.linear(&format!("classifier.{layer}"), x, 4096);
        x = net.relu(&format!("classifier.{}", layer + 1), x);
    }
    x = net.linear("classifier.6", x, 1000);
    net.output("logits", x);
}

/// The first four stages under `prefix`, without the last one's pool: conv4_3. The third pool rounds its extents up.
pub fn to_conv4_3(net: &mut Net, prefix: &str, x: Signal) -> Signal {
    let mut x = x;
    let mut layer = 0;
    for (index, channels) in STAGES[..4].iter().enumerate() {
        x = stage(net, prefix, layer, x, channels);
        layer += 2 * channels.len();
        let name = format!("{prefix}.{layer}");
        match index {
            0 | 1 => x = net.max_pool(&name, x, 2, 2, 0),
            2 => x = net.max_pool_ceil(&name, x, 2, 2),
            _ => {}
        }
        layer += 1;
    }
    x
}

/// Convolutions of 3 by 3 with `channels`, each rectified: layers `PREFIX.FIRST` and on, two a convolution.
pub fn stage(net: &mut Net, prefix: &str, first: usize, x: Signal, channels: &[u32]) -> Signal {
    channels.iter().enumerate().fold(x, |x, (index, &channels)| {
        let layer = first + 2 * index;
        let x = net.conv(&format!("{prefix}.{layer}"), x, Conv::new(channels, 3).bias());
        net.relu(&format!("{prefix}.{}", layer + 1), x)
    })
}
