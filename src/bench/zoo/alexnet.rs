//! AlexNet in the form of Krizhevsky 2014 ("One weird trick for parallelizing convolutional neural networks"), for pictures of
//! 224 by 224.

use super::build::{Net, Signal};
use super::layers::Conv;

/// The classes' scores: `logits` `[N, 1000]`.
pub fn alexnet(net: &mut Net, x: Signal) {
    let mut x = conv(net, 0, x, Conv::new(64, 11).stride(4).pad(2));
    x = net.max_pool("features.2", x, 3, 2, 0);
    x = conv(net, 3, x, Conv::new(192, 5));
    x = net.max_pool("features.5", x, 3, 2, 0);
    x = conv(net, 6, x, Conv::new(384, 3));
    x = conv(net, 8, x, Conv::new(256, 3));
    x = conv(net, 10, x, Conv::new(256, 3));
    x = net.max_pool("features.12", x, 3, 2, 0);
    x = net.flatten(x);
    for layer in [1, 4] {
        x = net.linear(&format!("classifier.{layer}"), x, 4096);
        x = net.relu(&format!("classifier.{}", layer + 1), x);
    }
    x = net.linear("classifier.6", x, 1000);
    net.output("logits", x);
}

fn conv(net: &mut Net, layer: u32, x: Signal, conv: Conv) -> Signal {
    let x = net.conv(&format!("features.{layer}"), x, conv.bias());
    net.relu(&format!("features.{}", layer + 1), x)
}
