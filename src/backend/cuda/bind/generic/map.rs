//! Elementwise functions, copies, padding, nearest resizing: `kernels/generic_map.cu`.

use super::super::frame::Frame;
use super::super::operands::{head, input, output};
use super::super::tail::{self, FROM_MEMORY, TailCall, TailOperand};
use super::super::views::{DeviceView, dtype_number, strides};
use super::super::{Addresses, BindError, Packer};
use super::{Bind, bytes};
use crate::backend::taps;
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::primitive::{Coordinates, PadMode, Primitive, ResizeMode};
use bytemuck::{Pod, Zeroable};

const UNIT: &str = "generic_map";

type Bound = Result<(&'static str, &'static str, Box<[u8]>), BindError>;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Map {
    frame: Frame,
    head: TailCall,
    copy: u32,
    padding: u32,
}

pub fn elementwise(at: &Addresses<'_>, operator: &Operator, frame: Frame) -> Bound {
    let params = Map {
        frame,
        head: head_call(at, operator)?,
        copy: u32::from(matches!(head(operator)?.primitive, Primitive::Copy)),
        padding: 0,
    };
    Ok((UNIT, "generic_map", bytes(&params)))
}

/// The head of an elementwise operator as a call on tensors in memory; of a copy, its one input.
pub fn head_call(at: &Addresses<'_>, operator: &Operator) -> Result<TailCall, BindError> {
    let call = head(operator)?;
    if call.primitive != Primitive::Copy {
        return tail::function(at, call);
    }
    let x = input(operator, 0)?;
    Ok(TailCall {
        dtype: dtype_number(call.dtype),
        a: TailOperand {
            address: at.view(x)?,
            source: FROM_MEMORY,
            dtype: dtype_number(x.dtype),
            strides: strides(x),
        },
        ..TailCall::default()
    })
}

/// The entry of an axis without a table.
const NO_TABLE: u32 = u32::MAX;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Remap {
    frame: Frame,
    x: DeviceView,
    tables: u64,
    table: [u32; MAX_RANK],
    outside: f32,
    padding: u32,
}

/// Padding that something follows, or nearest resizing, by a table of input positions for each axis whose positions change.
pub fn remap(packer: &Packer<'_>, operator: &Operator) -> Result<Bind, BindError> {
    let primitive = head(operator)?.primitive;
    let (from, to) = (input(operator, 0)?.layout.shape, output(operator, 0)?.layout.shape);
    let mut table = [NO_TABLE; MAX_RANK];
    let mut positions: Vec<i32> = Vec::new();
    let outside = match &primitive {
        Primitive::Pad {
            mode: PadMode::Constant(value),
            ..
        } => value.0,
        Primitive::Resize(resize) => outside(&resize.coordinates),
        _ => 0.0,
    };
    for axis in 0..from.rank() {
        let (extent, outputs) = (from.dim(axis), to.dim(axis));
        let places: Vec<Option<u32>> = match &primitive {
            Primitive::Pad { begin, .. } if extent == outputs && begin[axis] == 0 => continue,
            Primitive::Pad { mode, begin } => {
                let place = |o: u32| taps::padded(*mode, i64::from(o) - i64::from(begin[axis]), i64::from(extent));
                (0..outputs).map(place).collect()
            }
            Primitive::Resize(resize) if taps::is_identity(resize, axis, extent, outputs) => continue,
            Primitive::Resize(resize) => match resize.mode {
                ResizeMode::Nearest(rounding) => taps::nearest(resize, rounding, axis, extent, outputs),
                _ => return Err(BindError::Tactic("it is no nearest resize")),
            },
            _ => return Err(BindError::Tactic("it moves no elements")),
        };
        table[axis] = positions.len() as u32;
        positions.extend(places.iter().map(|p| p.map_or(-1, |p| p as i32)));
    }
    let name = format!("positions of {primitive:?} from {from} to {to}");
    let pack = packer.table(name, || bytemuck::cast_slice(&positions).to_vec());
    Ok(Box::new(move |at, operator, frame| {
        let params = Remap {
            frame,
            x: DeviceView::new(at, input(operator, 0)?)?,
            tables: at.pack(pack)?.address,
            table,
            outside,
            padding: 0,
        };
        Ok((UNIT, "generic_remap", bytes(&params)))
    }))
}

/// What stands outside the input of a resize.
pub fn outside(coordinates: &Coordinates) -> f32 {
    match coordinates {
        Coordinates::CropAndResize { outside, .. } => outside.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        let frame = size_of::<Frame>();
        assert_eq!(size_of::<Map>(), frame + 152 + 8);
        assert_eq!(
            (size_of::<Remap>(), offset_of!(Remap, table)),
            (frame + 88 + 8 + 24 + 8, frame + 96)
        );
    }
}
