//! How a share of an operator is cut into tiles, which workers share.

use crate::primitive::{Region, Splits};
use crate::tensor::Shape;

/// Elements of the output that one tile should have: enough work to be worth handing out, little enough to share.
const TARGET: u64 = 16_384;

/// The size of a tile, fixed when the operator is compiled: it depends on the operator alone, never on the workers.
///
/// A tile is a band of rows of one batch position; where a whole position is smaller than [`TARGET`] elements, several
/// positions. An axis that the operator must not be cut along is never cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    batch: u32,
    rows: u32,
}

impl Tiling {
    /// The tiling of an output of `shape` that may be cut as `splits` says.
    pub fn new(shape: Shape, splits: Splits) -> Tiling {
        let whole = Region::whole(shape);
        let (batches, rows) = (whole.batch.end.max(1), whole.rows.end.max(1));
        let per_row = (shape.elements() / u64::from(batches) / u64::from(rows)).max(1);
        let fit = |each: u64, most: u32| (TARGET / each.max(1)).clamp(1, u64::from(most)) as u32;
        let band = if splits.rows { fit(per_row, rows) } else { rows };
        let positions = match splits.batch {
            true if band == rows => fit(per_row * u64::from(rows), batches),
            true => 1,
            false => batches,
        };
        Tiling {
            batch: positions,
            rows: band,
        }
    }

    /// The next coarser tiling of `shape`: bands twice as high, then twice as many batch positions; `None` where one tile is all.
    pub fn coarser(self, shape: Shape) -> Option<Tiling> {
        let whole = Region::whole(shape);
        if self.rows < whole.rows.end {
            let rows = self.rows.saturating_mul(2).min(whole.rows.end);
            Some(Tiling { rows, ..self })
        } else if self.batch < whole.batch.end {
            let batch = self.batch.saturating_mul(2).min(whole.batch.end);
            Some(Tiling { batch, ..self })
        } else {
            None
        }
    }

    /// Number of tiles of `region`.
    pub fn count(self, region: &Region) -> u32 {
        self.bands(region) * (region.batch.len() as u32).div_ceil(self.batch)
    }

    /// Tile `tile` of `region`: its bands of rows run fastest.
    pub fn tile(self, region: &Region, tile: u32) -> Region {
        let bands = self.bands(region).max(1);
        let cut = |range: &std::ops::Range<u32>, size: u32, i: u32| {
            let start = range.start + i * size;
            start..start.saturating_add(size).min(range.end)
        };
        Region {
            batch: cut(&region.batch, self.batch, tile / bands),
            rows: cut(&region.rows, self.rows, tile % bands),
        }
    }

    /// All tiles of `region`.
    pub fn tiles(self, region: &Region) -> impl Iterator<Item = Region> + '_ {
        (0..self.count(region)).map(move |i| self.tile(region, i))
    }

    fn bands(self, region: &Region) -> u32 {
        (region.rows.len() as u32).div_ceil(self.rows)
    }
}
