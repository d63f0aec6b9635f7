//! Shares of outputs.

use crate::tensor::Shape;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A share of an output: a range of the batch axis and a range of rows ([`Shape::row_axis`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Region {
    /// Positions along axis 0.
    pub batch: Range<u32>,
    /// Positions along the row axis, `0..1` where the shape has none.
    pub rows: Range<u32>,
}

impl Region {
    /// All of `shape`.
    pub fn whole(shape: Shape) -> Region {
        Region {
            batch: 0..shape.batch(),
            rows: 0..shape.rows(),
        }
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty() || self.rows.is_empty()
    }

    /// True if `other` lies inside.
    pub fn contains(&self, other: &Region) -> bool {
        let inside = |a: &Range<u32>, b: &Range<u32>| a.start <= b.start && b.end <= a.end;
        other.is_empty() || (inside(&self.batch, &other.batch) && inside(&self.rows, &other.rows))
    }

    /// The smallest region that holds both.
    pub fn hull(&self, other: &Region) -> Region {
        let hull = |a: &Range<u32>, b: &Range<u32>| a.start.min(b.start)..a.end.max(b.end);
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        Region {
            batch: hull(&self.batch, &other.batch),
            rows: hull(&self.rows, &other.rows),
        }
    }
}
