//! The Vision Transformer (Dosovitskiy et al. 2021), its base size over patches of 16 by 16 pixels.

use super::build::{Net, Signal};
use super::layers::Conv;
use super::sequence::attention;
use super::weights::Draw;
use crate::primitive::{Binary, Unary};

/// Side of a patch.
const PATCH: u32 = 16;
/// Features of a patch.
const WIDTH: u32 = 768;
const LAYERS: u32 = 12;
const HEADS: u32 = 12;
/// Inner features of the position-wise layers.
const FORWARD: u32 = 3072;
const CLASSES: u32 = 1000;
const EPSILON: f32 = 1e-6;
/// Mean square that Gelu leaves of a normal signal.
const GELU: f32 = 0.43;

/// `logits` `[N, 1000]` of pictures whose sides are multiples of 16.
pub fn vit_b16(net: &mut Net, image: Signal) {
    let batch = net.shape(image).dim(0);
    let patches = net.conv("conv_proj", image, Conv::new(WIDTH, PATCH).stride(PATCH).pad(0).bias());
    let (rows, columns) = (net.shape(patches).dim(2), net.shape(patches).dim(3));
    let patches = net.reshape(patches, &[batch, WIDTH, rows * columns]);
    let patches = net.transpose(patches, &[0, 2, 1]);
    let class = net.parameter("class_token", &[1, 1, WIDTH], Draw::around(0.0, 1.0));
    let class = net.broadcast(class, &[batch, 1, WIDTH]);
    let tokens = net.concat("tokens", &[class, patches], 1);
    let positions = [1, rows * columns + 1, WIDTH];
    let positions = net.parameter("encoder.pos_embedding", &positions, Draw::around(0.0, 0.5));
    let mut x = net.binary("placed", Binary::Add, tokens, positions);
    for layer in 0..LAYERS {
        x = block(net, &format!("encoder.layers.encoder_layer_{layer}"), x);
    }
    let x = net.layer_norm("encoder.ln", x, EPSILON);
    let class = net.slice(x, 1, 0, 1);
    let class = net.reshape(class, &[batch, WIDTH]);
    let logits = net.linear("heads.head", class, CLASSES);
    net.output("logits", logits);
}

/// One encoder layer, normalised before each half.
fn block(net: &mut Net, name: &str, x: Signal) -> Signal {
    let normal = net.layer_norm(&format!("{name}.ln_1"), x, EPSILON);
    let attended = attention(net, &format!("{name}.self_attention"), normal, HEADS);
    let x = net.binary(&format!("{name}.attended"), Binary::Add, attended, x);
    let normal = net.layer_norm(&format!("{name}.ln_2"), x, EPSILON);
    let inner = net.linear(&format!("{name}.mlp.0"), normal, FORWARD);
    let inner = net.unary(&format!("{name}.mlp.1"), Unary::Gelu, inner, inner.power * GELU);
    let inner = net.linear(&format!("{name}.mlp.3"), inner, WIDTH);
    net.binary(&format!("{name}.forwarded"), Binary::Add, x, inner)
}
