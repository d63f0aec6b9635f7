//! The bytes that a share of a view touches, as runs of consecutive bytes.

use crate::limits::MAX_RANK;
use crate::plan::format::View;
use crate::primitive::Region;

/// Runs of equal length at the places of a small nest of loops, innermost first, ascending within it.
///
/// Axes are merged where they are dense over finer ones, so a dense tensor is one run whatever its axis order.
pub(super) struct Runs {
    first: u64,
    /// Bytes of one run.
    bytes: u64,
    /// `(repetitions, bytes from one to the next)`.
    loops: heapless::Vec<(u64, u64), MAX_RANK>,
}

impl Runs {
    /// The runs of `region` (the whole view where there is none) of a view that lies inside its buffer; `None` if it is empty.
    pub(super) fn of(view: &View, region: Option<&Region>) -> Option<Runs> {
        let shape = view.layout.shape;
        if shape.elements() == 0 {
            return None;
        }
        let mut first = view.origin as i64;
        let mut axes = heapless::Vec::<(u64, u64), MAX_RANK>::new();
        for (axis, (&extent, &stride)) in shape.dims().iter().zip(view.layout.strides()).enumerate() {
            let range = match region {
                Some(region) if axis == 0 => region.batch.clone(),
                Some(region) if shape.row_axis() == Some(axis) => region.rows.clone(),
                _ => 0..extent,
            };
            let (start, end) = (range.start.min(extent), range.end.min(extent));
            let count = end.checked_sub(start).filter(|&n| n > 0)?;
            // The view is inside its buffer, so that no product here leaves it.
            let lowest = if stride < 0 { end - 1 } else { start };
            first += stride * i64::from(lowest);
            if count > 1 && stride != 0 {
                axes.push((stride.unsigned_abs(), u64::from(count))).ok()?;
            }
        }
        axes.sort_unstable();
        let mut run = 1;
        let mut loops = heapless::Vec::<(u64, u64), MAX_RANK>::new();
        for (stride, count) in axes {
            match loops.last_mut() {
                None if stride <= run => run += stride * (count - 1),
                Some((n, step)) if stride == *step * *n => *n *= count,
                _ => loops.push((count, stride)).ok()?,
            }
        }
        let size = view.dtype.bytes();
        loops.iter_mut().for_each(|(_, step)| *step *= size);
        Some(Runs {
            first: u64::try_from(first).ok()? * size,
            bytes: run * size,
            loops,
        })
    }

    /// How many runs there are.
    pub(super) fn count(&self) -> u64 {
        self.loops.iter().map(|(n, _)| n).product()
    }

    /// From the first byte to the last.
    pub(super) fn hull(&self) -> (u64, u64) {
        let reach: u64 = self.loops.iter().map(|(n, step)| (n - 1) * step).sum();
        (self.first, self.first + reach + self.bytes)
    }

    /// All runs as `(first byte, byte after the last)`.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut at = [0u64; MAX_RANK];
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            let start = next?;
            next = None;
            let mut place = start;
            for (i, &(n, step)) in self.loops.iter().enumerate() {
                if at[i] + 1 < n {
                    at[i] += 1;
                    next = Some(place + step);
                    break;
                }
                place -= at[i] * step;
                at[i] = 0;
            }
            Some((start, start + self.bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BufferId;
    use crate::tensor::{DType, Layout, Shape};

    fn view(dims: &[u32], strides: &[i64], origin: u64) -> View {
        View {
            buffer: BufferId(0),
            origin,
            dtype: DType::F16,
            layout: Layout::new(Shape::new(dims).unwrap(), strides).unwrap(),
        }
    }

    /// Every byte, the slow way.
    fn bytes(view: &View, region: Option<&Region>) -> Vec<u64> {
        let shape = view.layout.shape;
        let mut all = Vec::new();
        for i in 0..shape.elements() {
            let (mut rest, mut place, mut inside) = (i, view.origin as i64, true);
            for axis in (0..shape.rank()).rev() {
                let at = (rest % u64::from(shape.dim(axis))) as u32;
                rest /= u64::from(shape.dim(axis));
                place += i64::from(at) * view.layout.stride(axis);
                if let Some(r) = region {
                    inside &= axis != 0 || r.batch.contains(&at);
                    inside &= shape.row_axis() != Some(axis) || r.rows.contains(&at);
                }
            }
            if inside {
                all.extend([place as u64 * 2, place as u64 * 2 + 1]);
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn runs_touch_the_same_bytes_as_the_elements_do() {
        let cases: [(&[u32], &[i64], u64); 8] = [
            (&[2, 3, 4, 5], &[60, 1, 15, 3], 7),
            (&[2, 3, 4, 5], &[120, 1, 30, 6], 3),
            (&[2, 3, 4, 5], &[60, 20, 5, 1], 0),
            (&[3, 4], &[-4, 1], 40),
            (&[3, 4], &[0, 2], 1),
            (&[4, 4], &[2, 1], 0),
            (&[1, 2, 3, 2], &[99, 50, 7, 3], 0),
            (&[], &[], 5),
        ];
        for (dims, strides, origin) in cases {
            let view = view(dims, strides, origin);
            let shape = view.layout.shape;
            let whole = Region::whole(shape);
            let part = Region {
                batch: shape.batch() - 1..shape.batch(),
                rows: shape.rows() / 3..shape.rows(),
            };
            for region in [None, Some(&whole), Some(&part)] {
                let runs = Runs::of(&view, region).unwrap();
                let all: Vec<(u64, u64)> = runs.iter().collect();
                assert_eq!(all.len() as u64, runs.count());
                let mut touched: Vec<u64> = all.iter().flat_map(|&(a, b)| a..b).collect();
                touched.sort_unstable();
                touched.dedup();
                assert_eq!(touched, bytes(&view, region), "{dims:?} {strides:?} {region:?}");
                let hull = (*touched.first().unwrap(), touched.last().unwrap() + 1);
                assert_eq!(runs.hull(), hull);
            }
        }
        assert!(Runs::of(&view(&[2, 0], &[1, 1], 0), None).is_none());
    }

    #[test]
    fn a_dense_tensor_is_one_run() {
        assert_eq!(Runs::of(&view(&[2, 3, 4, 5], &[60, 1, 15, 3], 0), None).unwrap().count(), 1);
        assert_eq!(Runs::of(&view(&[1, 3, 4, 5], &[0, 1, 30, 6], 0), None).unwrap().count(), 20);
    }
}
