//! Strided looks at tensors: what a [`ViewOp`] does to a layout, what undoes it, and how to read elements through it.

use super::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::limits::MAX_RANK;
use crate::tensor::{Layout, Shape, Tensor};
use std::sync::Arc;

/// A layout at an origin, both counted in elements of some dense store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Where element `[0, .., 0]` lies.
    pub origin: i64,
    /// Shape and strides.
    pub layout: Layout,
}

impl Strided {
    /// The whole of a dense store with layout `layout`.
    pub fn whole(layout: Layout) -> Strided {
        Strided { origin: 0, layout }
    }

    /// The same elements looked at through `op` under the output shape `shape`; `None` if strides cannot say it.
    pub fn view(&self, op: &ViewOp, shape: Shape) -> Option<Strided> {
        let (layout, offset) = op.apply(&self.layout, shape)?;
        Some(Strided {
            origin: self.origin.checked_add(offset)?,
            layout,
        })
    }

    /// What `op`'s input must look like, in shape `input`, for its output to be `self`; `None` if that has no answer.
    ///
    /// Only reshapes and transposes keep all elements, so only they can be undone.
    pub fn unview(&self, op: &ViewOp, input: Shape) -> Option<Strided> {
        let layout = match op {
            ViewOp::Reshape => self.layout.reshaped(input)?,
            ViewOp::Transpose { perm } => {
                let mut inverse = [0; MAX_RANK];
                for (to, &from) in perm.iter().enumerate() {
                    *inverse.get_mut(from)? = to;
                }
                self.layout.permuted(inverse.get(..perm.len())?)?
            }
            ViewOp::Slice { .. } | ViewOp::Broadcast => return None,
        };
        Some(Strided { layout, ..*self })
    }

    /// `extent` positions along `axis`, beginning at `start`.
    pub fn band(&self, axis: usize, start: u32, extent: u32) -> Option<Strided> {
        let shape = self.layout.shape.with_dim(axis, extent)?;
        let origin = if extent == 0 {
            self.origin
        } else {
            self.origin.checked_add(self.layout.stride(axis).checked_mul(i64::from(start))?)?
        };
        Some(Strided {
            origin,
            layout: Layout::new(shape, self.layout.strides())?,
        })
    }

    /// True if both name the same elements in the same places.
    pub fn same_places(&self, other: &Strided) -> bool {
        self.layout.shape == other.layout.shape
            && (self.layout.shape.elements() == 0 || (self.origin == other.origin && self.layout.is_dense_as(&other.layout)))
    }
}

/// Dense storage of `shape` with the axes nested as in `model`: larger strides stay outside.
///
/// Axes of extent 1 in `model` carry no order; they go outermost.
pub fn nested_as(shape: Shape, model: &Layout) -> Layout {
    if shape.rank() != model.shape.rank() {
        return Layout::contiguous(shape);
    }
    let mut order: Vec<usize> = (0..shape.rank()).collect();
    let weight = |axis: usize| {
        if model.shape.dim(axis) <= 1 {
            i64::MAX
        } else {
            model.stride(axis).abs()
        }
    };
    order.sort_by_key(|&axis| std::cmp::Reverse(weight(axis)));
    Layout::ordered(shape, &order)
}

/// The elements of `tensor` seen through `at`, in C order; `None` if `at` reaches outside.
pub fn gather(tensor: &Tensor, at: &Strided) -> Option<Tensor> {
    let shape = at.layout.shape;
    if shape.elements() > 0 {
        let (low, high) = at.layout.bounds()?;
        let inside = at.origin + low >= 0 && at.origin + high < tensor.len() as i64;
        if !inside {
            return None;
        }
    }
    let width = tensor.dtype().bytes() as usize;
    let source = tensor.bytes();
    let mut bytes = Vec::with_capacity(shape.elements() as usize * width);
    for_each_offset(at, |offset| {
        let first = offset as usize * width;
        bytes.extend_from_slice(&source[first..first + width]);
    });
    Tensor::from_bytes(tensor.dtype(), shape, &bytes)
}

/// Calls `f` with the offset of every element in C order.
fn for_each_offset(at: &Strided, mut f: impl FnMut(i64)) {
    let shape = at.layout.shape;
    let mut index = [0u32; MAX_RANK];
    let mut offset = at.origin;
    for _ in 0..shape.elements() {
        f(offset);
        for axis in (0..shape.rank()).rev() {
            index[axis] += 1;
            offset += at.layout.stride(axis);
            if index[axis] < shape.dim(axis) {
                break;
            }
            offset -= at.layout.stride(axis) * i64::from(shape.dim(axis));
            index[axis] = 0;
        }
    }
}

/// Which node makes each value: `producers[value]` is an index into the graph's nodes.
pub fn producers(graph: &Graph) -> Vec<Option<usize>> {
    let mut producers = vec![None; graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for output in &node.outputs {
            producers[output.index()] = Some(index);
        }
    }
    producers
}

/// A value that is a constant, or a chain of views of one: the constant and the look at it.
pub fn constant(graph: &Graph, producers: &[Option<usize>], value: ValueId) -> Option<(Arc<Tensor>, Strided)> {
    let it = &graph.values[value.index()];
    if let Some(data) = &it.data {
        return Some((data.clone(), Strided::whole(Layout::contiguous(it.shape))));
    }
    let Node {
        op: Op::View(view),
        inputs,
        ..
    } = &graph.nodes[producers[value.index()]?]
    else {
        return None;
    };
    let (data, at) = constant(graph, producers, *inputs.first()?)?;
    Some((data, at.view(view, it.shape)?))
}

/// The numbers of a constant, or of a chain of views of one, that varies along `axis` alone.
pub fn along(graph: &Graph, producers: &[Option<usize>], value: ValueId, axis: usize) -> Option<Vec<f64>> {
    let (tensor, at) = constant(graph, producers, value)?;
    let shape = at.layout.shape;
    let varies = |a: usize| shape.dim(a) > 1 && at.layout.stride(a) != 0;
    if axis >= shape.rank() || (0..shape.rank()).any(|a| a != axis && varies(a)) {
        return None;
    }
    (0..shape.dim(axis))
        .map(|i| {
            let element = at.origin + i64::from(i) * at.layout.stride(axis);
            tensor.get_f64(usize::try_from(element).ok()?)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Data;

    fn shape(dims: &[u32]) -> Shape {
        Shape::new(dims).unwrap()
    }

    #[test]
    fn a_look_through_slice_transpose_and_broadcast_reads_the_right_elements() {
        let t = Tensor::new(shape(&[2, 3]), Data::I32(vec![0, 1, 2, 3, 4, 5])).unwrap();
        let whole = Strided::whole(Layout::contiguous(t.shape()));
        let back = ViewOp::Slice {
            start: vec![0, 2],
            step: vec![1, -1],
        };
        let flipped = whole.view(&back, shape(&[2, 3])).unwrap();
        assert_eq!(gather(&t, &flipped).unwrap().as_i32().unwrap(), [2, 1, 0, 5, 4, 3]);
        let turned = flipped.view(&ViewOp::Transpose { perm: vec![1, 0] }, shape(&[3, 2])).unwrap();
        assert_eq!(gather(&t, &turned).unwrap().as_i32().unwrap(), [2, 5, 1, 4, 0, 3]);
        let row = whole.band(0, 1, 1).unwrap().view(&ViewOp::Broadcast, shape(&[2, 3])).unwrap();
        assert_eq!(gather(&t, &row).unwrap().as_i32().unwrap(), [3, 4, 5, 3, 4, 5]);
    }

    #[test]
    fn undoing_a_view_gives_back_what_it_looked_at() {
        let at = Strided::whole(Layout::channels_last(shape(&[1, 8, 4, 4])));
        let perm = ViewOp::Transpose { perm: vec![0, 2, 3, 1] };
        let seen = at.view(&perm, shape(&[1, 4, 4, 8])).unwrap();
        assert!(seen.unview(&perm, shape(&[1, 8, 4, 4])).unwrap().same_places(&at));
        let rows = seen.view(&ViewOp::Reshape, shape(&[1, 16, 8])).unwrap();
        assert!(rows.unview(&ViewOp::Reshape, shape(&[1, 4, 4, 8])).unwrap().same_places(&seen));
    }

    #[test]
    fn a_look_outside_the_tensor_is_refused() {
        let t = Tensor::zeros(crate::tensor::DType::F32, shape(&[4]));
        let at = Strided {
            origin: 1,
            layout: Layout::contiguous(shape(&[4])),
        };
        assert!(gather(&t, &at).is_none());
    }
}
