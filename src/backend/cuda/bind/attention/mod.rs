//! Attention: one file a kernel, and what they share: the matrices of a chunk.

mod mask;
pub mod mma;
pub mod plain;
pub mod wgmma;

use super::operands::{check, head};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, count};
use crate::limits::MAX_RANK;
use crate::plan::format::{Operator, View};
use crate::primitive::{Primitive, Region};
use crate::tensor::Shape;

/// Axes before a matrix's.
const LEADING: usize = MAX_RANK - 2;

/// The part of an attention's output that a launch computes: some rows of some matrices.
struct Chunk {
    /// The axis of the rows; that of the columns follows it.
    row_axis: usize,
    /// The first row.
    first_row: u32,
    /// Rows of a matrix.
    rows: u32,
    /// Matrices along the axes before the rows, from `first_batch` on along axis 0; 1 from the row axis on.
    leading: [u32; LEADING],
    first_batch: u32,
}

impl Chunk {
    /// A region of an output of at least two axes.
    fn of(shape: &Shape, region: &Region) -> Chunk {
        let row_axis = shape.rank() - 2;
        // A matrix alone is cut along its batch axis, which its rows are.
        let rows = match shape.rank() {
            2 => region.batch.clone(),
            3 | 4 => region.rows.clone(),
            _ => 0..shape.dim(row_axis),
        };
        Chunk {
            row_axis,
            first_row: rows.start,
            rows: rows.len() as u32,
            leading: std::array::from_fn(|axis| match axis {
                _ if axis >= row_axis => 1,
                0 => region.batch.len() as u32,
                _ => shape.dim(axis),
            }),
            first_batch: if row_axis > 0 { region.batch.start } else { 0 },
        }
    }

    /// A tensor from the chunk's first matrices on.
    fn view(&self, at: &Addresses<'_>, view: &View) -> Result<DeviceView, BindError> {
        let mut seen = DeviceView::new(at, view)?;
        let bytes = seen.strides[0] * i64::from(self.first_batch) * view.dtype.bytes() as i64;
        seen.address = seen.address.checked_add_signed(bytes).ok_or(BindError::Reference)?;
        Ok(seen)
    }

    /// Matrices of the chunk.
    fn matrices(&self) -> u64 {
        self.leading.iter().map(|&n| u64::from(n)).product()
    }

    /// The leading axes as the kernels take them apart.
    fn divisors(&self) -> [Divisor; LEADING] {
        self.leading.map(Divisor::new)
    }

    /// Tiles of all matrices, so many of one along each of its axes.
    fn tiles(&self, each: [u32; 2]) -> Result<u32, BindError> {
        count(self.leading.into_iter().chain(each), "a chunk")
    }
}

/// The factor of the scores of an operator that begins with attention.
fn scale(operator: &Operator) -> Result<f32, BindError> {
    check(operator)?;
    match head(operator)?.primitive {
        Primitive::Attention { scale } => Ok(scale.0),
        _ => Err(BindError::Tactic("it is no attention")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_along_batches_and_rows() {
        let chunk = |dims: &[u32], batch, rows| Chunk::of(&Shape::new(dims).unwrap(), &Region { batch, rows });
        let part = chunk(&[4, 3, 20, 8], 1..3, 5..12);
        assert_eq!((part.first_batch, part.first_row, part.rows, part.leading), (1, 5, 7, [2, 3, 1, 1]));
        assert_eq!((part.matrices(), part.tiles([2, 1]).unwrap()), (6, 12));
        // The rows of a matrix alone are its batches.
        let alone = chunk(&[20, 8], 4..9, 0..8);
        assert_eq!((alone.first_batch, alone.first_row, alone.rows, alone.leading), (0, 4, 5, [1; 4]));
        // Of more axes only the first is cut.
        let deep = chunk(&[4, 2, 3, 20, 8], 2..4, 0..2);
        assert_eq!((deep.first_row, deep.rows, deep.leading), (0, 20, [2, 2, 3, 1]));
        assert!(deep.tiles([1 << 16, 1 << 15]).is_err());
    }
}
