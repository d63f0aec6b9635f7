//! Masks of attention as the copy engine walks them: rows of constant ones are packed to begin at its pieces.

use super::super::constants::{Constant, floats};
use super::super::views::{DeviceView, PIECE, dtype_number};
use super::super::{Addresses, BindError, PackId, Packer};
use super::Chunk;
use crate::limits::MAX_RANK;
use crate::plan::format::View;
use crate::tensor::DType;

/// Halves of a piece, of which packed rows have whole ones.
const RUN: u32 = (PIECE / 2) as u32;

/// What is added to scores.
pub enum Mask {
    /// Nothing.
    None,
    /// A tensor as it lies.
    Lying(View),
    /// A constant, packed: rows from multiples of [`PIECE`] on. Leading axes along which it repeats itself are packed once.
    Packed { pack: PackId, view: View },
}

impl Mask {
    /// The mask of an operator; packs it if it is a constant.
    pub fn new(packer: &Packer<'_>, view: Option<&View>) -> Result<Mask, BindError> {
        let Some(&view) = view else { return Ok(Mask::None) };
        if packer.section(&view).is_none() {
            return Ok(Mask::Lying(view));
        }
        let extents = packed_extents(&view);
        let columns = view.layout.shape.dim(view.layout.shape.rank() - 1);
        let pack = Constant::new(packer, &view)?.pack(packer, "mask of rows in whole pieces", |read| {
            let value = |at: Vec<u32>| if at[at.len() - 1] < columns { read(&at) } else { 0.0 };
            floats(DType::F16, places(&extents).map(value))
        })?;
        Ok(Mask::Packed { pack, view })
    }

    /// True for a constant, which need not be waited for.
    pub fn is_constant(&self) -> bool {
        matches!(self, Mask::Packed { .. })
    }

    /// The mask from the chunk's first matrices on; `None` without one.
    pub fn view(&self, at: &Addresses<'_>, chunk: &Chunk) -> Result<Option<DeviceView>, BindError> {
        match self {
            Mask::None => Ok(None),
            Mask::Lying(view) => chunk.view(at, view).map(Some),
            Mask::Packed { pack, view } => {
                let strides = packed_strides(view);
                let before = strides[0] as u64 * u64::from(chunk.first_batch) * DType::F16.bytes();
                Ok(Some(DeviceView {
                    address: at.pack(*pack)?.address + before,
                    dtype: dtype_number(DType::F16),
                    rank: view.layout.shape.rank() as u32,
                    strides,
                    extents: std::array::from_fn(|axis| view.layout.shape.dim(axis)),
                }))
            }
        }
    }
}

/// Extents of a packed mask: 1 along leading axes along which it repeats itself, whole pieces along a row.
fn packed_extents(view: &View) -> Vec<u32> {
    let (shape, rank) = (view.layout.shape, view.layout.shape.rank());
    let extent = |axis: usize| match axis + 1 {
        last if last == rank => shape.dim(axis).next_multiple_of(RUN),
        row if row + 1 == rank => shape.dim(axis),
        _ if view.layout.stride(axis) == 0 => 1,
        _ => shape.dim(axis),
    };
    (0..rank).map(extent).collect()
}

/// Its strides in elements, as those of a [`DeviceView`]: 0 along axes with one position.
fn packed_strides(view: &View) -> [i64; MAX_RANK] {
    let (mut strides, mut step) = ([0; MAX_RANK], 1);
    for (axis, extent) in packed_extents(view).into_iter().enumerate().rev() {
        strides[axis] = if extent > 1 { step } else { 0 };
        step *= i64::from(extent);
    }
    strides
}

/// All coordinates in so many positions, the last axis innermost.
fn places(extents: &[u32]) -> impl Iterator<Item = Vec<u32>> {
    let count: u64 = extents.iter().map(|&n| u64::from(n)).product();
    (0..count).map(move |mut rest| {
        let mut at = vec![0; extents.len()];
        for (at, &n) in at.iter_mut().zip(extents).rev() {
            (*at, rest) = ((rest % u64::from(n)) as u32, rest / u64::from(n));
        }
        at
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BufferId;
    use crate::tensor::{Layout, Shape};

    fn view(dims: &[u32], strides: &[i64]) -> View {
        View {
            buffer: BufferId(0),
            origin: 0,
            dtype: DType::F16,
            layout: Layout::new(Shape::new(dims).unwrap(), strides).unwrap(),
        }
    }

    #[test]
    fn rows_are_whole_pieces_and_repetitions_are_packed_once() {
        let heads = view(&[8, 4, 49, 49], &[0, 2401, 49, 1]);
        assert_eq!(packed_extents(&heads), [1, 4, 49, 56]);
        assert_eq!(packed_strides(&heads)[..4], [0, 49 * 56, 56, 1]);
        // Keys that no query may see: one row for all.
        let keys = view(&[2, 1, 10, 16], &[16, 16, 0, 1]);
        assert_eq!(packed_extents(&keys), [2, 1, 10, 16]);
        assert_eq!(packed_strides(&keys)[..4], [160, 0, 16, 1]);
    }

    #[test]
    fn places_go_round_the_last_axis_first() {
        let all: Vec<Vec<u32>> = places(&[2, 1, 2]).collect();
        assert_eq!(all, [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]);
    }
}
