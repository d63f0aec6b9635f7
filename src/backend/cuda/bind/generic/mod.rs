//! The generic kernels: any primitive of any layouts and types, one element of the output a thread. Slow and right.
//!
//! `map` binds what computes nothing over neighbours, `gather` what reads by indices, `window` convolutions and poolings, `sums` products, reductions and
//! resizes; all share the [`Frame`].

mod gather;
mod map;
mod sums;
mod window;

pub use map::{head_call, outside};
pub use sums::reduce_number;

use super::tail::Tail;
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, Packer, count};
use crate::limits::MAX_RANK;
use crate::plan::format::{Call, Operand, Operator, View};
use crate::primitive::{Primitive, Region, ResizeMode};
use crate::tensor::{DType, Shape};
use bytemuck::{Pod, Zeroable};

/// Threads of a block, each with one element of a tile.
pub const THREADS: u32 = 128;

/// The elements of a chunk in the order of their numbers: `Box` of `kernels/generic.cuh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ElementBox {
    /// How many there are.
    pub count: u32,
    /// 1 if axis 1 runs fastest.
    pub channels_last: u32,
    /// First coordinate, by axis.
    pub start: [u32; MAX_RANK],
    /// Extents, by axis; 1 beyond the rank.
    pub extents: [Divisor; MAX_RANK],
}

impl ElementBox {
    /// The share `region` of `output`.
    pub fn new(output: &View, region: &Region) -> Result<ElementBox, BindError> {
        ElementBox::without(output, region, None)
    }

    /// The same with one position along `axis`.
    pub fn without(output: &View, region: &Region, axis: Option<usize>) -> Result<ElementBox, BindError> {
        let shape = output.layout.shape;
        let mut ranges: [_; MAX_RANK] = std::array::from_fn(|a| 0..shape.dim(a));
        if shape.rank() > 0 {
            ranges[0] = region.batch.clone();
        }
        if let Some(rows) = shape.row_axis() {
            ranges[rows] = region.rows.clone();
        }
        if let Some(axis) = axis {
            ranges[axis] = 0..1;
        }
        Ok(ElementBox {
            count: count(ranges.iter().map(|r| r.len() as u32), "a chunk")?,
            channels_last: u32::from(shape.rank() >= 3 && shape.dim(1) > 1 && output.layout.stride(1) == 1),
            start: std::array::from_fn(|a| ranges[a].start),
            extents: std::array::from_fn(|a| Divisor::new(ranges[a].len() as u32)),
        })
    }
}

impl ElementBox {
    /// Where the first element lies in a tensor of such strides, and the distance from one element to the next if it is always the
    /// same and not 0.
    pub fn even(&self, strides: &[i64; MAX_RANK]) -> Option<(i64, i64)> {
        let first = (0..MAX_RANK).map(|a| i64::from(self.start[a]) * strides[a]).sum();
        let inner = (self.channels_last == 1).then_some(1);
        let order = inner.into_iter().chain((0..MAX_RANK).rev().filter(|&a| inner != Some(a)));
        let mut run: Option<(i64, i64)> = None; // elements so far, and their distance
        for axis in order.filter(|&a| self.extents[a].divisor > 1) {
            let extent = i64::from(self.extents[axis].divisor);
            run = match run {
                None => Some((extent, strides[axis])),
                Some((count, step)) if strides[axis] == count * step => Some((count * extent, step)),
                Some(_) => return None,
            };
        }
        // One element has any distance from the next.
        let step = run.map_or(1, |(_, step)| step);
        (step != 0).then_some((first, step))
    }
}

/// What all generic kernels begin with: `Generic` of `kernels/generic.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Frame {
    /// The output.
    pub y: DeviceView,
    /// The elements to compute.
    pub elements: ElementBox,
    /// What follows the head.
    pub tail: Tail,
    /// Tiles of the chunk.
    pub tiles: u32,
    /// Zero.
    pub padding: u32,
}

impl Frame {
    /// The frame of a chunk whose tiles are `per_tile` elements of the box.
    pub fn new(at: &Addresses<'_>, operator: &Operator, elements: ElementBox, per_tile: u32) -> Result<Frame, BindError> {
        Ok(Frame {
            y: DeviceView::new(at, output(operator, 0)?)?,
            elements,
            tail: Tail::new(at, operator)?,
            tiles: elements.count.div_ceil(per_tile),
            padding: 0,
        })
    }
}

/// Output `index` of an operator.
pub fn output(operator: &Operator, index: usize) -> Result<&View, BindError> {
    operator.outputs.get(index).ok_or(BindError::Reference)
}

/// Input `index` of an operator's head, which lies in memory.
pub fn input(operator: &Operator, index: usize) -> Result<&View, BindError> {
    match head(operator)?.inputs.get(index) {
        Some(Operand::View(view)) => Ok(view),
        _ => Err(BindError::Reference),
    }
}

/// The same where it is optional.
pub fn optional_input(operator: &Operator, index: usize) -> Option<&View> {
    input(operator, index).ok()
}

/// The first call.
pub fn head(operator: &Operator) -> Result<&Call, BindError> {
    operator.calls.first().ok_or(BindError::Reference)
}

/// Checks the head's operands (P6), on which the kernels rely.
pub fn check(operator: &Operator) -> Result<(), BindError> {
    let call = head(operator)?;
    let mut inputs: Vec<(DType, Shape)> = Vec::new();
    for index in 0..call.inputs.len() {
        let view = input(operator, index)?;
        inputs.push((view.dtype, view.layout.shape));
    }
    let mut outputs: Vec<(DType, Shape)> = operator.outputs.iter().map(|v| (v.dtype, v.layout.shape)).collect();
    if inputs.is_empty() || outputs.is_empty() {
        return Err(BindError::Reference);
    }
    if operator.calls.len() > 1 {
        outputs = vec![(call.dtype, call.shape)];
    }
    Ok(call.primitive.check(&inputs, &outputs)?)
}

/// One chunk's launch of a head, given its frame.
type Bind = Box<dyn Fn(&Addresses<'_>, &Operator, Frame) -> Result<(&'static str, &'static str, Box<[u8]>), BindError> + Send>;

struct Generic {
    operator: Operator,
    bind: Bind,
}

/// Compiles an operator of any primitive but those of image preparation, decoding and recurrence.
pub fn compile(packer: &mut Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!((size_of::<ElementBox>(), size_of::<Frame>()), (104, 88 + 104 + 1080 + 8));
        assert_eq!((offset_of!(ElementBox, start), offset_of!(ElementBox, extents)), (8, 32));
        assert_eq!(
            (offset_of!(Frame, elements), offset_of!(Frame, tail), offset_of!(Frame, tiles)),
            (88, 192, 1272)
        );
    }

    #[test]
    fn even_elements_lie_where_their_coordinates_say() {
        let cases = [
            // A dense tensor, its last axis left out; the same with rows apart, from row 2 on.
            ([3, 4, 5, 1, 1, 1], [0, 0, 0, 0, 0, 0], 0, [160, 40, 8, 1, 0, 0], Some((0, 8))),
            ([1, 4, 5, 1, 1, 1], [1, 0, 2, 0, 0, 0], 0, [400, 96, 16, 1, 0, 0], None),
            ([1, 1, 5, 1, 1, 1], [1, 0, 2, 0, 0, 0], 0, [400, 80, 16, 1, 0, 0], Some((432, 16))),
            // Channels first or last in the order, one element, one that repeats itself.
            ([2, 4, 5, 1, 1, 1], [0; 6], 1, [20, 1, 4, 0, 0, 0], Some((0, 1))),
            ([2, 4, 5, 1, 1, 1], [0; 6], 0, [20, 1, 4, 0, 0, 0], None),
            ([1; 6], [0, 3, 0, 0, 0, 0], 0, [0, 7, 0, 0, 0, 0], Some((21, 1))),
            ([1, 3, 1, 1, 1, 1], [0; 6], 0, [0; 6], None),
        ];
        for (extents, start, channels_last, strides, expected) in cases {
            let elements = ElementBox {
                count: extents.iter().product(),
                channels_last,
                start,
                extents: extents.map(Divisor::new),
            };
            assert_eq!(elements.even(&strides), expected, "{extents:?} {strides:?}");
        }
    }
}
