//! Gathering along an axis: `kernels/generic_map.cu`, element by element or, where layouts allow, 16 bytes at a time, and
//! `kernels/gather_sum.cu` where that is added to a computed value.

use super::super::frame::{ElementBox, Frame, THREADS};
use super::super::operands::{head, input, output};
use super::super::views::{DeviceView, Divisor};
use super::super::{Addresses, BindError, Kernel, Launch};
use crate::limits::MAX_RANK;
use crate::plan::format::{Operand, Operator, Space};
use crate::primitive::{Binary, Primitive, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Bytes of a piece that a thread copies where layouts allow.
const PIECE: u32 = 16;

/// A unit and a kernel of it.
type Named = (&'static str, &'static str);
const CONSTANTS_ADDED: Named = ("generic_map", "generic_gather_added");
const SUM: Named = ("gather_sum", "gather_sum");

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: Frame,
    data: DeviceView,
    indices: DeviceView,
    step: i64,
    extent: u32,
    padding: u32,
}

/// Pieces of halves to which others are added.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct AddedParams {
    gather: Params,
    added: DeviceView,
}

struct Gather {
    operator: Operator,
    axis: usize,
}

/// Compiles an operator that gathers; the caller has checked it.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let Primitive::Gather { axis } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it gathers nothing"));
    };
    Ok(Box::new(Gather {
        operator: operator.clone(),
        axis: usize::from(axis),
    }))
}

impl Gather {
    fn params(&self, at: &Addresses<'_>, elements: ElementBox) -> Result<Params, BindError> {
        let (axis, mut data) = (self.axis, DeviceView::new(at, input(&self.operator, 0)?)?);
        let mut indices = DeviceView::new(at, input(&self.operator, 1)?)?;
        let (step, extent, rank) = (data.strides[axis], data.extents[axis], indices.rank as usize);
        // Both as the output's axes see them: each moves along its own axes and stands still along the other's.
        let (from, index) = (data.strides, indices.strides);
        for a in 0..MAX_RANK {
            let through = a.checked_sub(axis).filter(|&i| i < rank);
            indices.strides[a] = through.map_or(0, |i| index[i]);
            data.strides[a] = match through {
                Some(_) => 0,
                None if a < axis => from[a],
                None => (a + 1).checked_sub(rank).and_then(|a| from.get(a)).copied().unwrap_or(0),
            };
        }
        Ok(Params {
            frame: Frame::new(at, &self.operator, elements, THREADS)?,
            data,
            indices,
            step,
            extent,
            padding: 0,
        })
    }

    /// The same in pieces of halves, if the only call behind the head adds what lies in whole pieces; with the kernel: constants
    /// are read before the operator in front has ended.
    fn added(&self, at: &Addresses<'_>, params: Params) -> Result<Option<(Named, AddedParams)>, BindError> {
        let [gather, add] = self.operator.calls.as_slice() else {
            return Ok(None);
        };
        let sum = add.primitive == Primitive::Binary(Binary::Add) && [gather, add].iter().all(|c| c.dtype == DType::F16);
        let ([Operand::Inner(0), Operand::View(view)] | [Operand::View(view), Operand::Inner(0)], true) = (add.inputs.as_slice(), sum)
        else {
            return Ok(None);
        };
        let buffer = at.plan.buffers.get(view.buffer.index()).ok_or(BindError::Reference)?;
        if view.dtype != DType::F16 {
            return Ok(None);
        }
        let named = match buffer.space {
            Space::Weights(_) => CONSTANTS_ADDED,
            _ => SUM,
        };
        let added = DeviceView::new(at, view)?;
        let params = params.in_pieces(DType::F16).and_then(|gather| gather.and(added));
        Ok(params.map(|params| (named, params)))
    }
}

/// A stride in pieces of so many elements; `None` if it is not of whole ones.
fn in_pieces(stride: i64, piece: u32) -> Option<i64> {
    (stride % i64::from(piece) == 0).then(|| stride / i64::from(piece))
}

impl Params {
    /// Pieces of halves with others that lie as they do.
    fn and(self, mut added: DeviceView) -> Option<AddedParams> {
        let last = (self.frame.y.rank as usize).checked_sub(1)?;
        let piece = PIECE / DType::F16.bytes() as u32;
        if self.frame.y.dtype != added.dtype || added.strides[last] != 1 || !added.address.is_multiple_of(u64::from(PIECE)) {
            return None;
        }
        for stride in &mut added.strides[..last] {
            *stride = in_pieces(*stride, piece)?;
        }
        Some(AddedParams { gather: self, added })
    }

    /// The same in pieces of 16 bytes, if whole ones lie one after another along the output's last axis.
    fn in_pieces(mut self, dtype: DType) -> Option<Params> {
        let piece = PIECE / dtype.bytes() as u32;
        let (y, data, elements) = (&mut self.frame.y, &mut self.data, &mut self.frame.elements);
        let last = (y.rank as usize).checked_sub(1)?;
        let row = y.extents[last];
        let adjacent = [y.strides[last], data.strides[last], self.indices.strides[last]] == [1, 1, 0];
        let whole = elements.start[last] == 0 && elements.extents[last].divisor == row && row.is_multiple_of(piece);
        if data.dtype != y.dtype || !adjacent || !whole || elements.channels_last != 0 {
            return None;
        }
        if ![y.address, data.address].iter().all(|a| a.is_multiple_of(u64::from(PIECE))) {
            return None;
        }
        for stride in y.strides[..last]
            .iter_mut()
            .chain(&mut data.strides[..last])
            .chain([&mut self.step])
        {
            *stride = in_pieces(*stride, piece)?;
        }
        elements.extents[last] = Divisor::new(row / piece);
        elements.count /= piece;
        self.frame.tiles = elements.count.div_ceil(THREADS);
        Some(self)
    }
}

impl Kernel for Gather {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let y = output(&self.operator, 0)?;
        let elements = ElementBox::new(y, region)?;
        if elements.count == 0 {
            return Ok(Vec::new());
        }
        let params = self.params(at, elements)?;
        if let Some(((unit, function), params)) = self.added(at, params)? {
            let tiles = params.gather.frame.tiles;
            return Ok(vec![Launch::new(unit, function, tiles, width, THREADS, &params)]);
        }
        // What else follows the head works on single elements.
        let wide = if self.operator.calls.len() == 1 {
            params.in_pieces(y.dtype)
        } else {
            None
        };
        let (function, params) = wide.map_or(("generic_gather", params), |wide| ("generic_gather_wide", wide));
        Ok(vec![Launch::new(
            "generic_map",
            function,
            params.frame.tiles,
            width,
            THREADS,
            &params,
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        let frame = size_of::<Frame>();
        assert_eq!(
            (size_of::<Params>(), offset_of!(Params, step)),
            (frame + 2 * 88 + 16, frame + 2 * 88)
        );
        assert_eq!(size_of::<AddedParams>(), size_of::<Params>() + 88);
    }

    #[test]
    fn rows_of_whole_pieces_are_copied_in_pieces() {
        // Rows of 24 halves, 40 apart in the data, gathered along axis 0 by 6 indices.
        let view = |address, strides: [i64; 2], extents: [u32; 2]| DeviceView {
            address,
            dtype: 1,
            rank: 2,
            strides: std::array::from_fn(|a| strides.get(a).copied().unwrap_or(0)),
            extents: std::array::from_fn(|a| extents.get(a).copied().unwrap_or(1)),
        };
        let params = |address: u64, row: u32| {
            let mut params = Params::zeroed();
            params.frame.y = view(256, [i64::from(row), 1], [6, row]);
            params.frame.elements.count = 6 * row;
            params.frame.elements.extents = std::array::from_fn(|a| Divisor::new(params.frame.y.extents[a]));
            params.data = view(address, [0, 1], [9, row]);
            params.indices.strides[0] = 1;
            params.step = 40;
            params
        };
        let wide = params(512, 24).in_pieces(DType::F16).map(|p| {
            let elements = p.frame.elements;
            (
                elements.count,
                elements.extents[1].divisor,
                p.frame.y.strides[0],
                p.step,
                p.frame.tiles,
            )
        });
        assert_eq!(wide, Some((18, 3, 3, 5, 1)));
        assert!(params(520, 24).in_pieces(DType::F16).is_none(), "an address between pieces");
        assert!(params(512, 20).in_pieces(DType::F16).is_none(), "half a piece");
        let mut chunk = params(512, 24);
        chunk.frame.elements.start[1] = 8;
        assert!(chunk.in_pieces(DType::F16).is_none(), "a part of the rows");
    }
}
