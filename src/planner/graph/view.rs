//! What a view does to a layout: the one rule behind verifying, folding and lowering views.

use super::ViewOp;
use crate::limits::MAX_RANK;
use crate::tensor::{Layout, Shape};

/// The shape that NumPy broadcasting gives two operands; `None` if they do not fit together.
pub fn broadcast(a: Shape, b: Shape) -> Option<Shape> {
    let rank = a.rank().max(b.rank());
    let mut dims = [0; MAX_RANK];
    for (axis, dim) in dims[..rank].iter_mut().enumerate() {
        // Axes are aligned at the right; missing leading axes count as 1.
        let of = |s: Shape| (axis + s.rank()).checked_sub(rank).map_or(1, |i| s.dim(i));
        *dim = match (of(a), of(b)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return None,
        };
    }
    Shape::new(&dims[..rank])
}

impl ViewOp {
    /// The elements from `start` on along one of `rank` axes, all of them along the others: as many as the output has.
    pub fn band(rank: usize, axis: usize, start: i64) -> ViewOp {
        let mut from = vec![0; rank];
        from[axis] = start;
        ViewOp::Slice {
            start: from,
            step: vec![1; rank],
        }
    }

    /// The elements of `base` as this view of shape `output` sees them: a layout, and the offset (in elements) of its
    /// origin from the origin of `base`. `None` if the view does not fit the shapes, or strides cannot say it (which
    /// happens to a `Reshape` of a `base` that is not contiguous, never of a contiguous one).
    pub fn apply(&self, base: &Layout, output: Shape) -> Option<(Layout, i64)> {
        let input = base.shape;
        match self {
            ViewOp::Reshape => Some((base.reshaped(output)?, 0)),
            ViewOp::Transpose { perm } => {
                let layout = base.permuted(perm)?;
                (layout.shape == output).then_some((layout, 0))
            }
            ViewOp::Slice { start, step } => {
                let rank = input.rank();
                if output.rank() != rank || start.len() != rank || step.len() != rank {
                    return None;
                }
                let mut strides = [0; MAX_RANK];
                let mut offset = 0i64;
                for a in 0..rank {
                    let (extent, n) = (i64::from(input.dim(a)), i64::from(output.dim(a)));
                    if step[a] == 0 {
                        return None;
                    }
                    if n == 0 {
                        continue;
                    }
                    let last = start[a].checked_add(step[a].checked_mul(n - 1)?)?;
                    if !(0..extent).contains(&start[a]) || !(0..extent).contains(&last) {
                        return None;
                    }
                    strides[a] = base.stride(a).checked_mul(step[a])?;
                    offset = offset.checked_add(base.stride(a).checked_mul(start[a])?)?;
                }
                let layout = Layout::new(output, &strides[..rank])?;
                Some((layout, if output.elements() == 0 { 0 } else { offset }))
            }
            ViewOp::Broadcast => {
                let lead = output.rank().checked_sub(input.rank())?;
                let mut strides = [0; MAX_RANK];
                for a in 0..input.rank() {
                    if input.dim(a) == output.dim(lead + a) {
                        strides[lead + a] = base.stride(a);
                    } else if input.dim(a) != 1 {
                        return None;
                    }
                }
                Some((Layout::new(output, &strides[..output.rank()])?, 0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[u32]) -> Shape {
        Shape::new(dims).unwrap()
    }

    #[test]
    fn broadcasting_aligns_at_the_right() {
        assert_eq!(broadcast(shape(&[3, 1]), shape(&[4])), Some(shape(&[3, 4])));
        assert_eq!(broadcast(Shape::SCALAR, shape(&[0, 2])), Some(shape(&[0, 2])));
        assert_eq!(broadcast(shape(&[3]), shape(&[4])), None);
    }

    #[test]
    fn a_slice_that_leaves_its_input_is_refused() {
        let base = Layout::contiguous(shape(&[4, 6]));
        let slice = |start: [i64; 2], step: [i64; 2]| ViewOp::Slice {
            start: start.to_vec(),
            step: step.to_vec(),
        };
        let (layout, offset) = slice([3, 1], [-1, 2]).apply(&base, shape(&[4, 3])).unwrap();
        assert_eq!((layout.strides(), offset), (&[-6, 2][..], 19));
        assert!(slice([3, 2], [-1, 2]).apply(&base, shape(&[4, 3])).is_none());
        assert!(slice([0, 0], [0, 1]).apply(&base, shape(&[4, 6])).is_none());
        assert!(slice([0, i64::MAX], [1, 1]).apply(&base, shape(&[4, 6])).is_none());
    }

    #[test]
    fn a_broadcast_has_stride_zero_where_it_repeats() {
        let base = Layout::contiguous(shape(&[3, 1]));
        let (layout, _) = ViewOp::Broadcast.apply(&base, shape(&[2, 3, 5])).unwrap();
        assert_eq!(layout.strides(), &[0, 1, 0]);
        assert!(ViewOp::Broadcast.apply(&base, shape(&[2, 5])).is_none());
    }
}
