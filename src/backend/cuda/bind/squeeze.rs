//! Squeeze and excitation in two launches: `kernels/squeeze.cu`.

use super::constants::{Constant, floats};
use super::generic::{check, output};
use super::tail::{attributes, unary_number};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, count};
use crate::plan::format::Operator;
use crate::plan::tactic::squeeze::{Squeeze as Form, range, span};
use crate::primitive::{Region, Unary};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block that averages the channels of a range.
const MEAN_THREADS: u32 = 512;
/// Threads of a block of the second layer, and its channels.
const GATE_THREADS: u32 = 256;
const GATES: u32 = 64;
/// Inputs of a layer are packed in multiples of this.
const PIECE: u32 = 8;

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct LayerParams {
    weights: u64,
    bias: u64,
    function: u32,
    first: f32,
    second: f32,
    padding: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    x: DeviceView,
    layers: [LayerParams; 2],
    parts: u64,
    ranges: Divisor,
    slabs: Divisor,
    width: Divisor,
    channels: u32,
    hidden: u32,
    pixels: u32,
    first_batch: u32,
    samples: u32,
    span: u32,
    padding: u32,
}

/// A fully connected layer's packed constants and its function.
struct Layer {
    weights: PackId,
    bias: PackId,
    function: Unary,
}

struct Squeeze {
    operator: Operator,
    layers: [Layer; 2],
    /// Bytes of the first layer's sums by samples and ranges.
    parts: u64,
    /// Samples that a block computes with the same weights.
    span: u32,
}

const MISFIT: BindError = BindError::Tactic("it is no squeeze and excitation of halves");

/// Compiles the mean of all pixels with the two layers behind it.
pub fn compile(packer: &mut Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let form = Form::of(packer.plan, operator).map_err(|_| MISFIT)?;
    let channels = form.x.layout.shape.dim(1);
    let mut layer = |index: usize, outputs: u32, inputs: u32| -> Result<Layer, BindError> {
        let (weights, bias, function) = form.layers[index];
        let padded = inputs.next_multiple_of(PIECE);
        let weights = Constant::new(packer, weights)?.pack(packer, "rows of a small layer", |read| {
            let value = |n: u32, k: u32| if k < inputs { read(&[n, k, 0, 0]) } else { 0.0 };
            floats(
                DType::F16,
                (0..outputs)
                    .flat_map(|n| (0..padded).map(move |k| (n, k)))
                    .map(|(n, k)| value(n, k)),
            )
        })?;
        let bias = match bias {
            None => packer.table(format!("{outputs} zeros"), || floats(DType::F32, (0..outputs).map(|_| 0.0))),
            Some(view) => {
                let values = |read: &dyn Fn(&[u32]) -> f32| floats(DType::F32, (0..outputs).map(|n| read(&[n])));
                Constant::new(packer, view)?.pack(packer, "f32 bias of a small layer", values)?
            }
        };
        Ok(Layer { weights, bias, function })
    };
    let layers = [layer(0, form.hidden, channels)?, layer(1, channels, form.hidden)?];
    let sums = u64::from(form.x.layout.shape.dim(0)) * u64::from(channels.div_ceil(range(channels))) * u64::from(form.hidden);
    Ok(Box::new(Squeeze {
        operator: operator.clone(),
        layers,
        parts: sums * 4,
        span: span(operator.tactic).ok_or(MISFIT)?,
    }))
}

impl Squeeze {
    fn layer(&self, at: &Addresses<'_>, index: usize) -> Result<LayerParams, BindError> {
        let layer = &self.layers[index];
        let (first, second) = attributes(layer.function);
        Ok(LayerParams {
            weights: at.pack(layer.weights)?.address,
            bias: at.pack(layer.bias)?.address,
            function: unary_number(layer.function),
            first,
            second,
            padding: 0,
        })
    }
}

impl Kernel for Squeeze {
    fn workspace(&self) -> u64 {
        self.parts
    }

    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let form = Form::of(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let x = DeviceView::new(at, form.x)?;
        let range = range(x.extents[1]);
        let [ranges, slabs] = [range, GATES].map(|some| Divisor::new(x.extents[1].div_ceil(some)));
        let params = Params {
            y: DeviceView::new(at, output(&self.operator, 0)?)?,
            x,
            layers: [self.layer(at, 0)?, self.layer(at, 1)?],
            parts: at.workspace.part(0, self.parts).ok_or(BindError::Reference)?.address,
            ranges,
            slabs,
            width: Divisor::new(x.extents[3]),
            channels: x.extents[1],
            hidden: form.hidden,
            pixels: x.extents[2].checked_mul(x.extents[3]).ok_or(BindError::Large("a picture"))?,
            first_batch: region.batch.start,
            samples: region.batch.len() as u32,
            span: self.span,
            padding: 0,
        };
        let launch = |function: String, parts: Divisor, threads| -> Result<Launch, BindError> {
            let tiles = count([params.samples.div_ceil(params.span), parts.divisor], "a batch")?;
            Ok(Launch::new("squeeze", function, tiles, width, threads, &params))
        };
        Ok(vec![
            launch(format!("squeeze_means_{range}"), ranges, MEAN_THREADS)?,
            launch("squeeze_gates".into(), slabs, GATE_THREADS)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!(size_of::<LayerParams>(), 32);
        assert_eq!(size_of::<Params>(), 2 * 88 + 2 * 32 + 72);
    }
}
