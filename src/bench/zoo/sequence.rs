//! Networks over sequences of tokens.
//!
//! The text classifier is an embedding, two LSTM layers (Hochreiter and Schmidhuber 1997) and a linear layer on the last step.
//!
//! The Behaviour Sequence Transformer (Chen et al. 2019) scores the last of 21 items by the 20 before it: one encoder layer,
//! normalised after each sum, then fully connected layers over all positions.

use super::build::{Net, Signal};
use super::weights::Draw;
use crate::primitive::{Binary, Primitive};

/// Words that the text classifier knows.
pub const WORDS: u32 = 20_000;
/// Words of its texts.
pub const WORDS_OF_TEXT: u32 = 32;
/// Items that the transformer knows.
pub const ITEMS: u32 = 50_000;
/// Positions of its sequences.
pub const POSITIONS: u32 = 21;

/// Features of a word, and of an LSTM layer's state.
const STATE: u32 = 256;
const LSTM_LAYERS: u32 = 2;
/// Emotions that a text is sorted into.
const EMOTIONS: u32 = 6;
/// Mean square of an LSTM's result, a sigmoid times a hyperbolic tangent.
const RECURRENT: f32 = 0.1;

/// Features of an item.
const WIDTH: u32 = 64;
const HEADS: u32 = 8;
/// Inner features of the encoder's position-wise layers.
const FORWARD: u32 = 256;
/// Features of the layers over all positions.
const LAYERS: [u32; 3] = [1024, 512, 256];
/// What is left of a negative number behind those.
const SLOPE: f32 = 0.01;
const EPSILON: f32 = 1e-5;

/// `logits` `[N, 6]` of word numbers `[N, 32]`.
pub fn lstm(net: &mut Net, words: Signal) {
    // Steps come first from here on.
    let words = net.transpose(words, &[1, 0]);
    let mut x = net.embedding("e", words, WORDS, STATE);
    for layer in 0..LSTM_LAYERS {
        x = recurrent(net, "l", layer, x);
    }
    let (steps, batch) = (net.shape(x).dim(0), net.shape(x).dim(1));
    let last = net.slice(x, 0, steps - 1, 1);
    let last = net.reshape(last, &[batch, STATE]);
    let logits = net.linear("f", last, EMOTIONS);
    net.output("logits", logits);
}

/// One LSTM layer over `[steps, N, inputs]`, its parameters named as PyTorch does: `NAME.weight_ih_lLAYER` and so on.
fn recurrent(net: &mut Net, name: &str, layer: u32, x: Signal) -> Signal {
    let (steps, batch, inputs) = (net.shape(x).dim(0), net.shape(x).dim(1), net.shape(x).dim(2));
    let mut parameter = |what: &str, dims: &[u32], draw| {
        let x = net.parameter(&format!("{name}.{what}_l{layer}"), dims, draw);
        gates(net, &format!("{name}.{what}_l{layer}.ordered"), x)
    };
    let outer = parameter("weight_ih", &[4 * STATE, inputs], Draw::weights(u64::from(inputs), x.power));
    let inner = parameter("weight_hh", &[4 * STATE, STATE], Draw::weights(u64::from(STATE), 1.0));
    let outer_bias = parameter("bias_ih", &[4 * STATE], Draw::around(0.0, 0.1));
    let inner_bias = parameter("bias_hh", &[4 * STATE], Draw::around(0.0, 0.1));
    let bias = net.binary(&format!("{name}.bias_l{layer}"), Binary::Add, outer_bias, inner_bias);
    let before = net.affine(&format!("{name}.gates_l{layer}"), x, outer, bias);
    let lstm = Primitive::Lstm { reverse: false };
    let dims = [steps, batch, STATE];
    net.primitive(&format!("{name}.states_l{layer}"), lstm, &[before, inner], &dims, RECURRENT)
}

/// The rows of the gates in the primitive's order (input, output, forget, cell); PyTorch has input, forget, cell, output.
fn gates(net: &mut Net, name: &str, x: Signal) -> Signal {
    let parts = [0, 3, 1, 2].map(|gate| net.slice(x, 0, gate * STATE, STATE));
    net.concat(name, &parts, 0)
}

/// `score` `[N, 1]` of item numbers `[N, 21]`.
pub fn bst(net: &mut Net, items: Signal) {
    let x = net.embedding("e", items, ITEMS, WIDTH);
    let positions = net.parameter("p", &[POSITIONS, WIDTH], Draw::around(0.0, 0.5));
    let x = net.binary("placed", Binary::Add, x, positions);
    let attended = attention(net, "t.self_attn", x, HEADS);
    let x = net.binary("t.attended", Binary::Add, x, attended);
    let x = net.layer_norm("t.norm1", x, EPSILON);
    let inner = net.linear("t.linear1", x, FORWARD);
    let inner = net.relu("t.activation", inner);
    let inner = net.linear("t.linear2", inner, WIDTH);
    let x = net.binary("t.forwarded", Binary::Add, x, inner);
    let x = net.layer_norm("t.norm2", x, EPSILON);
    let mut x = net.flatten(x);
    for (index, width) in LAYERS.into_iter().enumerate() {
        x = net.linear(&format!("m.{}", 2 * index), x, width);
        x = net.leaky_relu(&format!("m.{}", 2 * index + 1), x, SLOPE);
    }
    x = net.linear("m.6", x, 1);
    net.output("score", x);
}

/// Attention of every position to every other (Vaswani et al. 2017), in heads side by side. `x` is `[N, positions, width]`.
pub(super) fn attention(net: &mut Net, name: &str, x: Signal, heads: u32) -> Signal {
    let (batch, positions, width) = (net.shape(x).dim(0), net.shape(x).dim(1), net.shape(x).dim(2));
    let each = width / heads;
    let draw = Draw::weights(u64::from(width), x.power);
    let weight = net.parameter(&format!("{name}.in_proj_weight"), &[3 * width, width], draw);
    let bias = net.parameter(&format!("{name}.in_proj_bias"), &[3 * width], Draw::around(0.0, 0.1));
    let projected = net.affine(&format!("{name}.in_proj"), x, weight, bias);
    let mut head = |part: u32, perm: &[usize]| {
        let x = net.slice(projected, 2, part * width, width);
        let x = net.reshape(x, &[batch, positions, heads, each]);
        net.transpose(x, perm)
    };
    let (query, key, value) = (head(0, &[0, 2, 1, 3]), head(1, &[0, 2, 3, 1]), head(2, &[0, 2, 1, 3]));
    let pairs = [batch, heads, positions, positions];
    let scale = net.number(&format!("{name}.scale"), 1.0 / (each as f32).sqrt());
    let query = net.binary(&format!("{name}.scaled"), Binary::Mul, query, scale);
    let scores = net.primitive(&format!("{name}.scores"), Primitive::MatMul, &[query, key], &pairs, 1.0);
    let shares = net.primitive(&format!("{name}.shares"), Primitive::Softmax { axis: 3 }, &[scores], &pairs, 0.01);
    let mixed = [batch, heads, positions, each];
    // The mean of about a quarter of the positions.
    let power = 4.2 / positions as f32;
    let mixed = net.primitive(&format!("{name}.mixed"), Primitive::MatMul, &[shares, value], &mixed, power);
    let together = net.transpose(mixed, &[0, 2, 1, 3]);
    let together = net.reshape(together, &[batch, positions, width]);
    net.linear(&format!("{name}.out_proj"), together, width)
}
