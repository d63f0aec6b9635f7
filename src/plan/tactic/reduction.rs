//! How the reduction's kernels on a GPU walk their input.

use super::Misfit;
use crate::plan::format::View;

/// The most runs of reduced axes that do not lie as one.
pub const MAX_PARTS: usize = 3;

/// Fewest floats of an output that a kernel brings into shared memory to take them in one range.
pub const FEWEST_ORDERED: u32 = 16;

/// The order in which a reduction reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The kept axis whose elements lie side by side, if there is one.
    pub neighbours: Option<usize>,
    /// Extents and strides of the reduced axes from the innermost on: at most [`MAX_PARTS`], those that lie as one taken together.
    pub parts: Vec<(u32, i64)>,
}

/// How `x` is reduced over `axes`.
///
/// # Errors
///
/// [`Misfit::Layout`] for more parts than the kernels take.
pub fn walk(x: &View, axes: u8) -> Result<Walk, Misfit> {
    let (shape, layout) = (x.layout.shape, &x.layout);
    let reduced = |a: &usize| axes & (1 << a) != 0;
    let moving = || (0..shape.rank()).filter(|&a| shape.dim(a) > 1);
    let mut parts: Vec<(u32, i64)> = Vec::new();
    for axis in moving().filter(reduced).rev() {
        let (extent, stride) = (shape.dim(axis), layout.stride(axis));
        match parts.last_mut() {
            Some((inside, step)) if stride == i64::from(*inside) * *step => {
                *inside = inside.checked_mul(extent).ok_or(Misfit::Layout)?;
            }
            _ => parts.push((extent, stride)),
        }
    }
    if parts.len() > MAX_PARTS {
        return Err(Misfit::Layout);
    }
    Ok(Walk {
        neighbours: moving().find(|a| !reduced(a) && layout.stride(*a) == 1),
        parts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BufferId;
    use crate::tensor::{DType, Layout, Shape};

    fn view(dims: &[u32], strides: &[i64]) -> View {
        View {
            buffer: BufferId(0),
            origin: 0,
            dtype: DType::F16,
            layout: Layout::new(Shape::new(dims).unwrap(), strides).unwrap(),
        }
    }

    #[test]
    fn axes_that_lie_as_one_are_one() {
        let channels_last = view(&[2, 8, 5, 6], &[240, 1, 48, 8]);
        let pixels = walk(&channels_last, 0b1100).unwrap();
        assert_eq!((pixels.neighbours, pixels.parts), (Some(1), vec![(30, 8)]));
        // Channels lie inside the pixels, but come before them in the order of the axes.
        let all = walk(&channels_last, 0b1110).unwrap();
        assert_eq!((all.neighbours, all.parts), (None, vec![(30, 8), (8, 1)]));
        let plain = view(&[2, 8, 5, 6], &[240, 30, 6, 1]);
        assert_eq!(walk(&plain, 0b1110).unwrap().parts, [(240, 1)]);
        let apart = walk(&plain, 0b1010).unwrap();
        assert_eq!((apart.neighbours, apart.parts), (None, vec![(6, 1), (8, 30)]));
        assert_eq!(walk(&plain, 0b0111).unwrap().neighbours, Some(3));
    }

    #[test]
    fn more_parts_than_the_kernels_take_are_refused() {
        let cut = view(&[2, 2, 2, 2, 2], &[10_000, 1000, 100, 10, 2]);
        assert_eq!(walk(&cut, 0b11110), Err(Misfit::Layout));
        assert_eq!(walk(&cut, 0b11100).unwrap().parts.len(), 3);
    }
}
