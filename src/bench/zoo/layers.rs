//! Layers with parameters, as PyTorch defines and names them: convolution, batch and layer normalisation, linear, embedding.

use super::build::{Net, Signal, square};
use super::weights::Draw;
use crate::primitive::{Binary, PoolKind, Primitive, Scalar, Unary};

/// Half the spread of biases and of a normalisation's shift.
const SHIFT: f32 = 0.1;
/// Mean square that a rectified linear unit leaves of a signal around zero.
const RECTIFIED: f32 = 0.5;
/// Mean square that hard swish leaves of a normal signal: a third of a small one, `E[(z (z + 3) / 6)^2]`, half of a large one.
const HARD_SWISHED: f32 = 0.4;
/// Mean square that averaging a whole picture leaves of a rectified signal: from a third of independent pixels to all of it deep
/// in a network, where pixels are much alike.
const AVERAGED: f32 = 0.6;

/// Pooling by maximum; nobody asks for the winners' indices.
const MAX: PoolKind = PoolKind::Max { column_major: false };

/// A square convolution.
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    channels: u32,
    side: u32,
    stride: u32,
    pad: u32,
    dilation: u32,
    groups: u32,
    bias: bool,
}

impl Conv {
    /// `channels` outputs from a window of `side` by `side`, padded so that a stride of 1 keeps the picture's size.
    pub fn new(channels: u32, side: u32) -> Conv {
        Conv {
            channels,
            side,
            stride: 1,
            pad: side / 2,
            dilation: 1,
            groups: 1,
            bias: false,
        }
    }

    /// Steps of `stride` pixels.
    pub fn stride(self, stride: u32) -> Conv {
        Conv { stride, ..self }
    }

    /// `pad` pixels of zeros on each side.
    pub fn pad(self, pad: u32) -> Conv {
        Conv { pad, ..self }
    }

    /// Taps `dilation` pixels apart, padded so that a stride of 1 keeps the picture's size.
    pub fn dilation(self, dilation: u32) -> Conv {
        Conv {
            dilation,
            pad: self.side / 2 * dilation,
            ..self
        }
    }

    /// Channels in `groups` that do not see each other.
    pub fn groups(self, groups: u32) -> Conv {
        Conv { groups, ..self }
    }

    /// With a bias.
    pub fn bias(self) -> Conv {
        Conv { bias: true, ..self }
    }
}

impl Net {
    /// A convolution with `NAME.weight` and, if it has one, `NAME.bias`.
    pub fn conv(&mut self, name: &str, x: Signal, conv: Conv) -> Signal {
        let from = self.shape(x);
        let inputs = from.dim(1) / conv.groups;
        let fan_in = u64::from(inputs) * u64::from(conv.side) * u64::from(conv.side);
        let dims = [conv.channels, inputs, conv.side, conv.side];
        let mut operands = vec![x, self.parameter(&format!("{name}.weight"), &dims, Draw::weights(fan_in, x.power))];
        if conv.bias {
            operands.push(self.parameter(&format!("{name}.bias"), &[conv.channels], Draw::around(0.0, SHIFT)));
        }
        let mut window = square(conv.side, conv.stride, conv.pad);
        window.dilation[..2].fill(conv.dilation);
        let extent = |a: usize| {
            window
                .output(a, from.dim(a + 2))
                .unwrap_or_else(|| panic!("{name}: a window larger than its input"))
        };
        let result = [from.dim(0), conv.channels, extent(0), extent(1)];
        let groups = conv.groups;
        self.primitive(name, Primitive::Conv { window, groups }, &operands, &result, 1.0)
    }

    /// Batch normalisation at inference with `NAME.weight`, `NAME.bias`, `NAME.running_mean` and `NAME.running_var`:
    /// `(x - mean) / sqrt(var + epsilon) * weight + bias` per channel, written as one product and one sum with constants that the
    /// passes compute. The statistics lie around what is estimated of `x`; the weights lie around `gain`.
    pub fn batch_norm(&mut self, name: &str, x: Signal, epsilon: f32, gain: f32) -> Signal {
        let channels = self.shape(x).dim(1);
        let mut parameter = |what: &str, draw| self.parameter(&format!("{name}.{what}"), &[channels], draw);
        let weight = parameter("weight", Draw::around(gain, 0.2 * gain));
        let bias = parameter("bias", Draw::around(0.0, SHIFT * gain));
        let mean = parameter("running_mean", Draw::around(0.0, 0.2 * x.power.sqrt()));
        let variance = parameter("running_var", Draw::around(x.power, 0.25 * x.power));
        let epsilon = self.number(&format!("{name}.eps"), epsilon);
        let shifted = self.binary(&format!("{name}.shifted_var"), Binary::Add, variance, epsilon);
        let deviation = self.unary(&format!("{name}.deviation"), Unary::Sqrt, shifted, shifted.power.sqrt());
        let factor = self.binary(&format!("{name}.factor"), Binary::Div, weight, deviation);
        let moved = self.binary(&format!("{name}.moved"), Binary::Mul, mean, factor);
        let offset = self.binary(&format!("{name}.offset"), Binary::Sub, bias, moved);
        let (factor, offset) = (
            self.reshape(factor, &[1, channels, 1, 1]),
            self.reshape(offset, &[1, channels, 1, 1]),
        );
        let scaled = self.binary(&format!("{name}.scaled"), Binary::Mul, x, factor);
        self.binary(name, Binary::Add, scaled, offset).with_power(gain * gain)
    }

    /// Layer normalisation over the last axis with `NAME.weight` and `NAME.bias`.
    pub fn layer_norm(&mut self, name: &str, x: Signal, epsilon: f32) -> Signal {
        let rank = self.shape(x).rank();
        let extent = self.shape(x).dim(rank - 1);
        let weight = self.parameter(&format!("{name}.weight"), &[extent], Draw::around(1.0, 0.2));
        let bias = self.parameter(&format!("{name}.bias"), &[extent], Draw::around(0.0, SHIFT));
        let epsilon = self.number(&format!("{name}.eps"), epsilon);
        let mean = self.mean(&format!("{name}.mean"), x, &[rank - 1], 0.0);
        let centred = self.binary(&format!("{name}.centred"), Binary::Sub, x, mean);
        let squared = self.binary(&format!("{name}.squared"), Binary::Mul, centred, centred);
        let variance = self.mean(&format!("{name}.variance"), squared, &[rank - 1], squared.power);
        let shifted = self.binary(&format!("{name}.shifted"), Binary::Add, variance, epsilon);
        let deviation = self.unary(&format!("{name}.deviation"), Unary::Sqrt, shifted, x.power);
        let normal = self.binary(&format!("{name}.normal"), Binary::Div, centred, deviation);
        let scaled = self.binary(&format!("{name}.scaled"), Binary::Mul, normal, weight);
        self.binary(name, Binary::Add, scaled, bias).with_power(1.0)
    }

    /// A linear layer over the last axis with `NAME.weight` and `NAME.bias`.
    pub fn linear(&mut self, name: &str, x: Signal, outputs: u32) -> Signal {
        let from = self.shape(x);
        let inputs = from.dim(from.rank() - 1);
        let weight = self.parameter(
            &format!("{name}.weight"),
            &[outputs, inputs],
            Draw::weights(u64::from(inputs), x.power),
        );
        let bias = self.parameter(&format!("{name}.bias"), &[outputs], Draw::around(0.0, SHIFT));
        self.affine(name, x, weight, bias)
    }

    /// `x * weight^T + bias` over the last axis; `weight` is `[outputs, inputs]`.
    pub fn affine(&mut self, name: &str, x: Signal, weight: Signal, bias: Signal) -> Signal {
        let mut dims = self.shape(x).dims().to_vec();
        let last = dims.len() - 1;
        let (outputs, inputs) = (self.shape(weight).dim(0), self.shape(weight).dim(1));
        let weight = self.transpose(weight, &[1, 0]);
        // The same matrix for every position of the leading axes.
        let repeated = [&dims[..last - 1], &[inputs, outputs]].concat();
        let weight = self.broadcast(weight, &repeated);
        dims[last] = outputs;
        let bias = self.broadcast(bias, &dims);
        self.primitive(name, Primitive::MatMul, &[x, weight, bias], &dims, 1.0)
    }

    /// The rows of the table `NAME.weight` `[entries, width]` at the indices `x`.
    pub fn embedding(&mut self, name: &str, x: Signal, entries: u32, width: u32) -> Signal {
        let table = self.parameter(&format!("{name}.weight"), &[entries, width], Draw::weights(1, 1.0));
        let mut dims = self.shape(x).dims().to_vec();
        dims.push(width);
        self.primitive(name, Primitive::Gather { axis: 0 }, &[table, x], &dims, table.power)
    }

    /// Rectified linear unit of a signal around zero.
    pub fn relu(&mut self, name: &str, x: Signal) -> Signal {
        self.unary(name, Unary::Relu, x, x.power * RECTIFIED)
    }

    /// The end of a residual block: the sum, rectified. Most of it is positive already, so its size stays.
    pub fn relu_of_sum(&mut self, name: &str, a: Signal, b: Signal) -> Signal {
        let sum = self.binary(&format!("{name}.sum"), Binary::Add, a, b);
        self.unary(name, Unary::Relu, sum, sum.power)
    }

    /// Hard swish.
    pub fn hard_swish(&mut self, name: &str, x: Signal) -> Signal {
        self.unary(name, Unary::HardSwish, x, x.power * HARD_SWISHED)
    }

    /// Leaky rectified linear unit.
    pub fn leaky_relu(&mut self, name: &str, x: Signal, slope: f32) -> Signal {
        self.unary(name, Unary::LeakyRelu(Scalar(slope)), x, x.power * RECTIFIED)
    }

    /// The largest of each window, padding aside.
    pub fn max_pool(&mut self, name: &str, x: Signal, side: u32, stride: u32, pad: u32) -> Signal {
        self.pool(name, x, MAX, square(side, stride, pad), false)
    }

    /// The largest of each window, a last one that sticks out of the picture included.
    pub fn max_pool_ceil(&mut self, name: &str, x: Signal, side: u32, stride: u32) -> Signal {
        self.pool(name, x, MAX, square(side, stride, 0), true)
    }

    /// The mean of each window of `side` by `side`, side by side.
    pub fn average_pool(&mut self, name: &str, x: Signal, side: u32) -> Signal {
        self.pool(name, x, PoolKind::Average { count_pad: true }, square(side, side, 0), false)
    }

    /// The mean of each channel: `[N, C, 1, 1]`.
    pub fn global_mean(&mut self, name: &str, x: Signal) -> Signal {
        self.mean(name, x, &[2, 3], x.power * AVERAGED)
    }

    /// Everything but the batch as one axis.
    pub fn flatten(&mut self, x: Signal) -> Signal {
        let from = self.shape(x);
        let width = (from.elements() / u64::from(from.dim(0)).max(1)) as u32;
        self.reshape(x, &[from.dim(0), width])
    }
}
