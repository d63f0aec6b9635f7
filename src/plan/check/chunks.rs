//! P2: the chunks of an operator cover its output exactly, in order, along axes that its primitives may be cut along.

use crate::ids::OperatorId;
use crate::plan::format::{Operator, Plan};
use crate::primitive::Region;

/// Chunks do not cover their operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// A gap, an overlap, an empty chunk or a wrong order.
    #[error("chunk {chunk} of operator {operator} does not continue where the chunks before it end")]
    Gap {
        /// The operator.
        operator: OperatorId,
        /// The first chunk that is wrong.
        chunk: usize,
    },
    /// The last chunk ends before the output.
    #[error("the chunks of operator {0} end before its output does")]
    Short(OperatorId),
    /// Cut along an axis that one of the primitives needs whole.
    #[error("operator {operator} is cut along its {axis}, which its primitive {call} does not allow")]
    Axis {
        /// The operator.
        operator: OperatorId,
        /// The axis.
        axis: &'static str,
        /// Index of the primitive.
        call: usize,
    },
}

pub(super) fn check(plan: &Plan) -> Result<(), ChunkError> {
    for (i, operator) in plan.operators.iter().enumerate() {
        let id = OperatorId(i as u32);
        let whole = Region::whole(operator.outputs[0].layout.shape);
        tiles(id, &operator.chunks, &whole)?;
        cuts(id, operator, &whole)?;
    }
    Ok(())
}

/// Walks the chunks as bands of the batch from its first to its last position, each cut into row ranges from top to bottom.
fn tiles(operator: OperatorId, chunks: &[Region], whole: &Region) -> Result<(), ChunkError> {
    if whole.is_empty() {
        return match chunks {
            [only] if only == whole => Ok(()),
            _ => Err(ChunkError::Gap { operator, chunk: 0 }),
        };
    }
    let mut band = 0..0;
    let mut row = whole.rows.end;
    for (chunk, region) in chunks.iter().enumerate() {
        if row == whole.rows.end {
            band = band.end..region.batch.end;
            row = 0;
        }
        let inside = region.batch.end <= whole.batch.end && region.rows.end <= whole.rows.end;
        if region.is_empty() || !inside || region.batch != band || region.rows.start != row {
            return Err(ChunkError::Gap { operator, chunk });
        }
        row = region.rows.end;
    }
    if (band.end, row) != (whole.batch.end, whole.rows.end) {
        return Err(ChunkError::Short(operator));
    }
    Ok(())
}

fn cuts(id: OperatorId, operator: &Operator, whole: &Region) -> Result<(), ChunkError> {
    let batch = operator.chunks.iter().any(|c| c.batch != whole.batch);
    let rows = operator.chunks.iter().any(|c| c.rows != whole.rows);
    if !batch && !rows {
        return Ok(());
    }
    for (call, c) in operator.calls.iter().enumerate() {
        let splits = c.primitive.splits(c.shape);
        for (cut, allowed, axis) in [(batch, splits.batch, "batch"), (rows, splits.rows, "rows")] {
            if cut && !allowed {
                return Err(ChunkError::Axis { operator: id, axis, call });
            }
        }
    }
    Ok(())
}
