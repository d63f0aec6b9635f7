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

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Splits = Splits { batch: true, rows: true };

    fn whole(dims: &[u32], splits: Splits) -> (Vec<Region>, Shape) {
        let shape = Shape::new(dims).unwrap();
        (Tiling::new(shape, splits).tiles(&Region::whole(shape)).collect(), shape)
    }

    #[test]
    fn tiles_cover_a_region_once() {
        for dims in [
            &[2, 3, 500, 40][..],
            &[700, 64],
            &[5, 3, 3, 3],
            &[1, 40_000, 8],
            &[3],
            &[],
            &[2, 0, 4, 4],
        ] {
            let (tiles, shape) = whole(dims, BOTH);
            let mut seen = vec![0; (shape.batch() * shape.rows()) as usize];
            for tile in &tiles {
                for (b, r) in tile.batch.clone().flat_map(|b| tile.rows.clone().map(move |r| (b, r))) {
                    seen[(b * shape.rows() + r) as usize] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{shape}");
        }
    }

    #[test]
    fn tiles_are_bands_of_one_position_or_several_small_positions() {
        assert_eq!(whole(&[2, 3, 500, 40], BOTH).0.len(), 2 * 4);
        assert_eq!(whole(&[64, 16, 8, 8], BOTH).0.len(), 4);
        let neither = Splits { batch: false, rows: false };
        assert_eq!(whole(&[64, 16, 800, 8], neither).0.len(), 1);
    }

    #[test]
    fn coarser_tilings_end_in_one_tile() {
        let shape = Shape::new(&[3, 64, 100, 100]).unwrap();
        let (mut tiling, mut steps) = (Tiling::new(shape, BOTH), 0);
        while let Some(coarser) = tiling.coarser(shape) {
            assert!(coarser.count(&Region::whole(shape)) < tiling.count(&Region::whole(shape)));
            (tiling, steps) = (coarser, steps + 1);
        }
        assert_eq!(tiling.count(&Region::whole(shape)), 1);
        assert!(steps > 3);
    }
}
