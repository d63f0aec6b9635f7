//! One primitive with everything decided that does not depend on memory.

use super::attention::Attention;
use super::conv::Convolution;
use super::matmul::Extents;
use super::pool::Pooling;
use super::recurrent::Recurrent;
use super::remap::{Gather, Remap};
use super::resample::Resample;
use super::sample::{self, Sampler};
use super::value::Value;
use super::walk::Bounds;
use super::{elementwise, matmul, reduce};
use crate::backend::taps::{is_identity, nearest};
use crate::primitive::{Binary, Cell, Coordinates, Primitive, PrimitiveError, ReduceKind, Region, Resize, ResizeMode, Unary};
use crate::tensor::{DType, Shape};

/// A primitive on given types and shapes: checked, its tables computed, ready to run on any memory.
pub struct Routine {
    body: Body,
    output: Shape,
}

enum Body {
    Convolution(Box<Convolution>),
    MatMul(Extents),
    Unary(Unary),
    Binary(Binary),
    Copy,
    Pooling(Box<Pooling>),
    Reduce {
        kind: ReduceKind,
        axes: u8,
        input: Shape,
    },
    Softmax {
        axis: usize,
        extent: usize,
    },
    Expectation {
        axis: usize,
        extent: usize,
    },
    Normalise(reduce::Normalisation),
    GroupNormalise {
        groups: u32,
        input: Shape,
        epsilon: f32,
    },
    Attention(Attention),
    Remap(Box<Remap>),
    Resample(Box<Resample>),
    Gather(Gather),
    Recurrent(Recurrent),
    Sample(Sampler),
    Sources {
        common: bool,
        count: u32,
    },
    /// The output has no elements.
    Nothing,
}

impl Routine {
    /// Checks the operands and computes the tables.
    ///
    /// # Errors
    /// What [`Primitive::check`] finds; `Unsupported` for the primitives that have kernels of their own only.
    pub fn new(primitive: &Primitive, inputs: &[(DType, Shape)], outputs: &[(DType, Shape)]) -> Result<Routine, PrimitiveError> {
        primitive.check(inputs, outputs)?;
        let (input, output) = (inputs[0].1, outputs[0].1);
        let convolution =
            |window, groups, transposed| Body::Convolution(Box::new(Convolution::new(window, groups, transposed, input, output)));
        let body = match *primitive {
            _ if output.elements() == 0 => Body::Nothing,
            Primitive::Conv { window, groups } => convolution(window, groups, false),
            Primitive::ConvTranspose { window, groups } => convolution(window, groups, true),
            Primitive::MatMul => Body::MatMul(Extents {
                rank: input.rank(),
                depth: input.dim(input.rank() - 1) as usize,
            }),
            Primitive::Unary(kind) => Body::Unary(kind),
            Primitive::Binary(kind) => Body::Binary(kind),
            Primitive::Copy => Body::Copy,
            Primitive::Pool { kind, window } => Body::Pooling(Box::new(Pooling { kind, window, input })),
            Primitive::Reduce { kind, axes } => Body::Reduce { kind, axes, input },
            Primitive::Softmax { axis } => Body::Softmax {
                axis: usize::from(axis),
                extent: input.dim(usize::from(axis)) as usize,
            },
            Primitive::Expectation { axis } => Body::Expectation {
                axis: usize::from(axis),
                extent: input.dim(usize::from(axis)) as usize,
            },
            Primitive::Normalise { axis, epsilon } | Primitive::RmsNormalise { axis, epsilon } => Body::Normalise(reduce::Normalisation {
                axis: usize::from(axis),
                extent: input.dim(usize::from(axis)) as usize,
                epsilon: epsilon.0,
                centred: matches!(primitive, Primitive::Normalise { .. }),
            }),
            Primitive::GroupNormalise { groups, epsilon } => Body::GroupNormalise {
                groups,
                input,
                epsilon: epsilon.0,
            },
            Primitive::Attention { scale } => Body::Attention(Attention::new(scale.0, inputs[1].1, output)),
            Primitive::Pad { mode, begin } => Body::Remap(Box::new(Remap::pad(mode, &begin, input, output))),
            Primitive::Resize(resize) => Self::resize(&resize, input, output)?,
            Primitive::Gather { axis } => Body::Gather(Gather {
                axis: usize::from(axis),
                extent: input.dim(usize::from(axis)),
                index_rank: inputs[1].1.rank(),
            }),
            Primitive::Lstm { reverse } => Body::Recurrent(Recurrent::new((Cell::Lstm, reverse), output)),
            Primitive::Gru { reverse } => Body::Recurrent(Recurrent::new((Cell::Gru, reverse), output)),
            Primitive::Sample(sample) => Body::Sample(Sampler::new(sample, input, inputs[1].1)),
            Primitive::Sources { common } => Body::Sources {
                common,
                count: input.dim(0),
            },
            Primitive::Prepare(_)
            | Primitive::DecodeYolox { .. }
            | Primitive::Nms(_)
            | Primitive::TopK
            | Primitive::ArgMax { .. }
            | Primitive::Crop(_) => return Err(PrimitiveError::Unsupported),
        };
        Ok(Routine { body, output })
    }

    fn resize(resize: &Resize, input: Shape, output: Shape) -> Result<Body, PrimitiveError> {
        let ResizeMode::Nearest(rounding) = resize.mode else {
            return Ok(Body::Resample(Box::new(Resample::new(resize, input, output)?)));
        };
        let axes = std::array::from_fn(|axis| {
            let (from, to) = (input.dim(axis), output.dim(axis));
            (axis < input.rank() && !is_identity(resize, axis, from, to)).then(|| nearest(resize, rounding, axis, from, to))
        });
        let outside = match &resize.coordinates {
            Coordinates::CropAndResize { outside, .. } => outside.0,
            _ => 0.0,
        };
        Ok(Body::Remap(Box::new(Remap::new(axes, outside))))
    }

    /// Floats of working memory that [`Routine::run`] needs.
    pub fn work(&self) -> usize {
        match &self.body {
            Body::Convolution(conv) => conv.work(),
            Body::Softmax { extent, .. } => *extent,
            Body::Expectation { extent, .. } => 2 * extent,
            Body::Normalise(by) => by.extent,
            Body::GroupNormalise { groups, input, .. } => (input.elements() / u64::from(input.batch()) / u64::from(*groups)) as usize,
            Body::MatMul(extents) => matmul::work(extents.depth, self.output.dim(extents.rank - 1) as usize),
            Body::Attention(attention) => attention.work(),
            Body::Recurrent(layer) => layer.work(),
            _ => 0,
        }
    }

    /// Shape of the first output.
    pub fn output(&self) -> Shape {
        self.output
    }

    /// Computes the share `region` of the outputs; it holds whole those axes that the primitive cannot be cut along.
    pub fn run(&self, inputs: &[Value<'_>], outputs: &[Value<'_>], region: &Region, work: &mut [f32]) {
        let bounds = Bounds::of(self.output, region);
        if bounds.is_empty() {
            return;
        }
        let (x, y) = (&inputs[0], &outputs[0]);
        match &self.body {
            Body::Convolution(conv) => conv.run(x, &inputs[1], inputs.get(2), y, &bounds, work),
            Body::MatMul(extents) => matmul::matmul(*extents, [x, &inputs[1]], inputs.get(2), y, &bounds, work),
            Body::Unary(kind) => elementwise::unary(*kind, x, y, &bounds),
            Body::Binary(kind) => elementwise::binary(*kind, x, &inputs[1], y, &bounds),
            Body::Copy => elementwise::copy(x, y, &bounds),
            Body::Pooling(pooling) => pooling.run(x, y, outputs.get(1), &bounds),
            Body::Reduce { kind, axes, input } => reduce::reduce(*kind, *axes, *input, x, y, &bounds),
            Body::Softmax { axis, extent } => reduce::softmax(*axis, *extent, x, y, &bounds, work),
            Body::Expectation { axis, extent } => reduce::expectation(*axis, *extent, [x, &inputs[1]], y, &bounds, work),
            Body::Normalise(by) => reduce::normalise(by, x, y, &bounds, work),
            Body::GroupNormalise { groups, input, epsilon } => {
                reduce::group_normalise(*groups, *epsilon, *input, x, y, &bounds, work);
            }
            Body::Attention(attention) => attention.run(inputs, y, &bounds, work),
            Body::Remap(remap) => remap.run(x, y, &bounds),
            Body::Resample(resample) => resample.run(x, y, &bounds),
            Body::Gather(gather) => gather.run(x, &inputs[1], y, &bounds),
            Body::Recurrent(layer) => layer.run(inputs, outputs, &bounds, work),
            Body::Sample(sampler) => sampler.run(inputs, y, &bounds),
            Body::Sources { common, count } => sample::sources(*common, *count, x, y, self.output.dim(0)),
            Body::Nothing => {}
        }
    }
}
