//! Matrix products, reductions, linear and cubic resizing: `kernels/generic_sums.cu`.

use super::super::frame::Frame;
use super::super::operands::{head, input, optional_input, output};
use super::super::views::{DeviceView, Divisor};
use super::super::{Addresses, BindError, Packer, count};
use super::map::outside;
use super::{Bind, bytes};
use crate::backend::taps;
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::plan::tactic;
use crate::primitive::{Primitive, ReduceKind};
use bytemuck::{Pod, Zeroable};

const UNIT: &str = "generic_sums";

type Bound = Result<(&'static str, &'static str, Box<[u8]>), BindError>;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct MatMul {
    frame: Frame,
    a: DeviceView,
    b: DeviceView,
    bias: DeviceView,
    a_step: i64,
    b_step: i64,
    depth: u32,
    splits: u32,
    share: u32,
    padding: u32,
}

pub fn matmul(at: &Addresses<'_>, operator: &Operator, frame: Frame) -> Bound {
    let mut a = DeviceView::new(at, input(operator, 0)?)?;
    let mut b = DeviceView::new(at, input(operator, 1)?)?;
    let bias = optional_input(operator, 2).map(|view| DeviceView::new(at, view)).transpose()?;
    let (row, column) = (a.rank as usize - 2, a.rank as usize - 1);
    let (a_step, b_step, depth) = (a.strides[column], b.strides[row], a.extents[column]);
    // Along an output's column `a` stands still, along its row `b` does.
    a.strides[column] = 0;
    b.strides[row] = 0;
    let params = MatMul {
        frame,
        a,
        b,
        bias: bias.unwrap_or_default(),
        a_step,
        b_step,
        depth,
        splits: u32::from(operator.class.split_k),
        share: operator.class.range(depth, tactic::PRODUCT_STEP),
        padding: 0,
    };
    Ok((UNIT, "generic_matmul", bytes(&params)))
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Reduction {
    frame: Frame,
    x: DeviceView,
    extents: [Divisor; MAX_RANK],
    count: u64,
    kind: u32,
    share: u32,
}

/// The number of a reduction in the kernels' sources.
pub fn reduce_number(kind: ReduceKind) -> u32 {
    match kind {
        ReduceKind::Mean => 0,
        ReduceKind::Max => 1,
        ReduceKind::Sum => 2,
        ReduceKind::Norm => 3,
    }
}

pub fn reduce(at: &Addresses<'_>, operator: &Operator, frame: Frame) -> Bound {
    let Primitive::Reduce { kind, axes } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it reduces nothing"));
    };
    let x = DeviceView::new(at, input(operator, 0)?)?;
    let reduced = |a: usize| if axes & (1 << a) != 0 { x.extents[a] } else { 1 };
    let count = count((0..MAX_RANK).map(reduced), "a reduction")?;
    let params = Reduction {
        frame,
        x,
        extents: std::array::from_fn(|a| Divisor::new(reduced(a))),
        count: u64::from(count),
        kind: reduce_number(kind),
        share: operator.class.range(count, 1),
    };
    Ok((UNIT, "generic_reduce", bytes(&params)))
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Resample {
    frame: Frame,
    x: DeviceView,
    taps: u64,
    table: [u32; MAX_RANK],
    counts: [u32; MAX_RANK],
    outside: f32,
    padding: u32,
}

/// A tap of a table: `Tap` of the sources.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Tap {
    position: i32,
    weight: f32,
}

/// Linear or cubic resizing, by a table of taps for each axis that is resized.
pub fn resample(packer: &Packer<'_>, operator: &Operator) -> Result<Bind, BindError> {
    let primitive = head(operator)?.primitive;
    let Primitive::Resize(resize) = primitive else {
        return Err(BindError::Tactic("it is no resize"));
    };
    let (from, to) = (input(operator, 0)?.layout.shape, output(operator, 0)?.layout.shape);
    let (mut table, mut counts) = ([0; MAX_RANK], [0; MAX_RANK]);
    let mut entries: Vec<Tap> = Vec::new();
    for axis in 0..from.rank() {
        let (extent, outputs) = (from.dim(axis), to.dim(axis));
        if to.elements() == 0 || taps::is_identity(&resize, axis, extent, outputs) {
            continue;
        }
        let along = taps::weighted(&resize, axis, extent, outputs)?;
        table[axis] = entries.len() as u32;
        counts[axis] = along.count as u32;
        entries.extend(
            along
                .positions
                .iter()
                .zip(&along.weights)
                .enumerate()
                .map(|(i, (&position, &weight))| Tap {
                    position: if along.outside[i / along.count] { -1 } else { position as i32 },
                    weight,
                }),
        );
    }
    let name = format!("taps of {primitive:?} from {from} to {to}");
    let pack = packer.table(name, || bytemuck::cast_slice(&entries).to_vec());
    let outside = outside(&resize.coordinates);
    Ok(Box::new(move |at, operator, frame| {
        let params = Resample {
            frame,
            x: DeviceView::new(at, input(operator, 0)?)?,
            taps: at.pack(pack)?.address,
            table,
            counts,
            outside,
            padding: 0,
        };
        Ok((UNIT, "generic_resample", bytes(&params)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        let frame = size_of::<Frame>();
        assert_eq!(
            (size_of::<MatMul>(), offset_of!(MatMul, a_step)),
            (frame + 3 * 88 + 32, frame + 3 * 88)
        );
        assert_eq!(
            (size_of::<Reduction>(), offset_of!(Reduction, count)),
            (frame + 88 + 72 + 16, frame + 88 + 72)
        );
        assert_eq!(
            (size_of::<Resample>(), offset_of!(Resample, counts)),
            (frame + 88 + 8 + 48 + 8, frame + 88 + 8 + 24)
        );
        assert_eq!(size_of::<Tap>(), 8);
    }
}
