//! The generic kernels: any primitive of any layouts and types, one element of the output a thread. Slow and right.
//!
//! `map` binds what computes nothing over neighbours, `gather` what reads by indices, `window` convolutions and poolings, `sums` products, reductions and
//! resizes; all share the [`Frame`]. Where nothing follows a padding, [`pad`] takes it.

mod gather;
mod map;
mod sums;
mod window;

pub use map::{head_call, outside};
pub use sums::reduce_number;

use super::frame::{ElementBox, Frame, THREADS};
use super::operands::{check, head, output};
use super::{Addresses, BindError, Kernel, Launch, Packer, pad};
use crate::plan::format::Operator;
use crate::primitive::{Primitive, Region, ResizeMode};
use bytemuck::Pod;

/// One chunk's launch of a head, given its frame.
type Bind = Box<dyn Fn(&Addresses<'_>, &Operator, Frame) -> Result<(&'static str, &'static str, Box<[u8]>), BindError> + Send>;

struct Generic {
    operator: Operator,
    bind: Bind,
}

/// Compiles an operator of any primitive but those of image preparation, decoding and recurrence.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let bind: Bind = match head(operator)?.primitive {
        Primitive::Conv { .. } | Primitive::ConvTranspose { .. } => Box::new(window::convolution),
        Primitive::Pool { .. } => Box::new(window::pooling),
        Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Copy => Box::new(map::elementwise),
        Primitive::Gather { .. } => return gather::compile(operator),
        Primitive::MatMul => Box::new(sums::matmul),
        Primitive::Reduce { .. } => Box::new(sums::reduce),
        Primitive::Softmax { .. } => return super::softmax::compile(operator),
        Primitive::Pad { .. } => map::remap(packer, operator)?,
        Primitive::Resize(resize) if matches!(resize.mode, ResizeMode::Nearest(_)) => map::remap(packer, operator)?,
        Primitive::Resize(_) => sums::resample(packer, operator)?,
        _ => return Err(BindError::Tactic("it has kernels of its own")),
    };
    Ok(Box::new(Generic {
        operator: operator.clone(),
        bind,
    }))
}

impl Kernel for Generic {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let elements = ElementBox::new(output(&self.operator, 0)?, region)?;
        if elements.count == 0 {
            return Ok(Vec::new());
        }
        if let Some(launch) = pad::launch(at, &self.operator, region, width)? {
            return Ok(vec![launch]);
        }
        let frame = Frame::new(at, &self.operator, elements, THREADS)?;
        let (unit, function, params) = (self.bind)(at, &self.operator, frame)?;
        Ok(vec![Launch {
            unit,
            function: function.into(),
            blocks: super::blocks(frame.tiles, width),
            threads: THREADS,
            shared: 0,
            cluster: 1,
            params,
        }])
    }
}

/// The bytes of a kernel's parameters.
fn bytes<P: Pod>(params: &P) -> Box<[u8]> {
    bytemuck::bytes_of(params).into()
}
