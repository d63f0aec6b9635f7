//! Element types, shapes, strided layouts and host tensors.
//!
//! Shapes are **logical**: axes stand in ONNX order (`[N, C, H, W]` for an image). Where the elements
//! lie is said by strides alone, so channels-last storage, a transpose, a slice with steps, a broadcast
//! (stride 0) and a band of a concatenation are all the same thing: a layout of some buffer.

use crate::limits::{MAX_ELEMENTS, MAX_RANK};
use half::f16;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16; arithmetic on it happens in f32, rounded to nearest even at each rounded edge.
    F16,
    /// 32-bit signed integer: indices, labels, counts.
    I32,
    /// 8-bit unsigned integer: pixels, label maps.
    U8,
    /// Truth value, one byte, 0 or 1.
    Bool,
}

impl DType {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F16 => 2,
            DType::U8 | DType::Bool => 1,
        }
    }

    /// True for `F32` and `F16`.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16)
    }

    /// The type's name as NumPy and ONNX users write it.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "float32",
            DType::F16 => "float16",
            DType::I32 => "int32",
            DType::U8 => "uint8",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Up to [`MAX_RANK`] extents, in logical (ONNX) axis order. An extent may be 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    rank: u8,
    dims: [u32; MAX_RANK],
}

impl Shape {
    /// The shape of a scalar: rank 0, one element.
    pub const SCALAR: Shape = Shape {
        rank: 0,
        dims: [0; MAX_RANK],
    };

    /// A shape from its extents; `None` above [`MAX_RANK`] axes or [`MAX_ELEMENTS`] elements.
    pub fn new(dims: &[u32]) -> Option<Shape> {
        if dims.len() > MAX_RANK {
            return None;
        }
        let mut shape = Shape {
            rank: dims.len() as u8,
            dims: [0; MAX_RANK],
        };
        shape.dims[..dims.len()].copy_from_slice(dims);
        // The product over the non-zero extents is bounded too, so that strides of an empty tensor cannot overflow.
        let full = dims
            .iter()
            .filter(|&&d| d > 0)
            .try_fold(1u64, |n, &d| n.checked_mul(u64::from(d)))?;
        (full <= MAX_ELEMENTS).then_some(shape)
    }

    /// The extents.
    pub fn dims(&self) -> &[u32] {
        &self.dims[..usize::from(self.rank)]
    }

    /// The number of axes.
    pub const fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The number of elements: the product of the extents, 1 for a scalar.
    pub fn elements(&self) -> u64 {
        self.dims().iter().map(|&d| u64::from(d)).product()
    }

    /// The number of elements along the axes that `axes` has a bit for: the product of their extents, 1 for none.
    pub fn elements_along(&self, axes: u8) -> u64 {
        let along = self.dims().iter().enumerate().filter(|(axis, _)| axes & (1 << axis) != 0);
        along.map(|(_, &d)| u64::from(d)).product()
    }

    /// The extent of `axis`, or 1 where the shape has no such axis.
    pub fn dim(&self, axis: usize) -> u32 {
        self.dims().get(axis).copied().unwrap_or(1)
    }

    /// The same shape with the extent of `axis` replaced; `None` if there is no such axis or it grows too large.
    pub fn with_dim(&self, axis: usize, extent: u32) -> Option<Shape> {
        let mut dims = self.dims;
        *dims[..self.rank()].get_mut(axis)? = extent;
        Shape::new(&dims[..self.rank()])
    }

    /// The axis whose positions are this shape's rows, by which operators are cut into row bands:
    /// the outermost spatial axis of `[N, C, spatial..]` (rank 4 and up), axis 1 of rank 3, none below.
    pub const fn row_axis(&self) -> Option<usize> {
        match self.rank {
            0..=2 => None,
            3 => Some(1),
            _ => Some(2),
        }
    }

    /// Extent of the batch axis (axis 0), 1 for a scalar.
    pub fn batch(&self) -> u32 {
        self.dim(0)
    }

    /// Number of rows, 1 where there is no row axis.
    pub fn rows(&self) -> u32 {
        self.row_axis().map_or(1, |a| self.dim(a))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.dims().iter().enumerate() {
            write!(f, "{}{d}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Shape {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        heapless::Vec::<u32, MAX_RANK>::from_slice(self.dims())
            .unwrap_or_default()
            .serialize(s)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let dims = heapless::Vec::<u32, MAX_RANK>::deserialize(d)?;
        Shape::new(&dims).ok_or_else(|| serde::de::Error::custom("shape with too many elements"))
    }
}

/// A shape and where its elements lie: element `i` is at `sum(i[a] * stride[a])` elements from the layout's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    /// Logical extents.
    pub shape: Shape,
    strides: [i64; MAX_RANK],
}

impl Layout {
    /// A layout from a shape and one stride (in elements, may be 0 or negative) per axis; `None` if the counts differ.
    pub fn new(shape: Shape, strides: &[i64]) -> Option<Layout> {
        if strides.len() != shape.rank() {
            return None;
        }
        let mut all = [0; MAX_RANK];
        all[..strides.len()].copy_from_slice(strides);
        Some(Layout { shape, strides: all })
    }

    /// Elements in logical order, the last axis fastest (C order).
    pub fn contiguous(shape: Shape) -> Layout {
        let order: [usize; MAX_RANK] = std::array::from_fn(|a| a);
        Self::ordered(shape, &order[..shape.rank()])
    }

    /// Channels-last storage of `[N, C, spatial..]`: axis 1 fastest. Same as [`Layout::contiguous`] below rank 3.
    pub fn channels_last(shape: Shape) -> Layout {
        let rank = shape.rank();
        if rank < 3 {
            return Self::contiguous(shape);
        }
        let mut order = [0; MAX_RANK];
        for (a, o) in order[1..rank - 1].iter_mut().enumerate() {
            *o = a + 2;
        }
        order[rank - 1] = 1;
        Self::ordered(shape, &order[..rank])
    }

    /// Dense storage with the axes in `order`, outermost first. `order` must be a permutation of the axes.
    pub fn ordered(shape: Shape, order: &[usize]) -> Layout {
        debug_assert_eq!(order.len(), shape.rank());
        let mut strides = [0; MAX_RANK];
        let mut step = 1i64;
        for &axis in order.iter().rev() {
            strides[axis] = step;
            step *= i64::from(shape.dim(axis).max(1));
        }
        Layout { shape, strides }
    }

    /// One stride per axis, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.shape.rank()]
    }

    /// The stride of `axis`, 0 where there is no such axis.
    pub fn stride(&self, axis: usize) -> i64 {
        self.strides().get(axis).copied().unwrap_or(0)
    }

    /// True if the elements lie densely in C order (axes of extent 1 may have any stride).
    pub fn is_contiguous(&self) -> bool {
        self.is_dense_as(&Layout::contiguous(self.shape))
    }

    /// True if this layout addresses the same elements in the same places as `other` of the same shape.
    pub fn is_dense_as(&self, other: &Layout) -> bool {
        self.shape == other.shape && (0..self.shape.rank()).all(|a| self.shape.dim(a) <= 1 || self.strides[a] == other.strides[a])
    }

    /// Lowest and highest element offset from the origin that the layout touches; `None` for an empty shape or on overflow.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let (mut low, mut high) = (0i64, 0i64);
        for (a, &d) in self.shape.dims().iter().enumerate() {
            let reach = self.strides[a].checked_mul(i64::from(d.checked_sub(1)?))?;
            if reach < 0 {
                low = low.checked_add(reach)?;
            } else {
                high = high.checked_add(reach)?;
            }
        }
        Some((low, high))
    }

    /// Elements from the first to behind the last in a store that begins with the layout's origin, for strides that are not
    /// negative; 0 for an empty shape, `None` on overflow.
    pub fn reach(&self) -> Option<u64> {
        match self.shape.elements() {
            0 => Some(0),
            _ => u64::try_from(self.bounds()?.1.checked_add(1)?).ok(),
        }
    }

    /// The layout with its axes permuted: axis `a` of the result is axis `perm[a]` of this one.
    pub fn permuted(&self, perm: &[usize]) -> Option<Layout> {
        let rank = self.shape.rank();
        if perm.len() != rank || (0..rank).any(|a| !perm.contains(&a)) {
            return None;
        }
        let mut dims = [0; MAX_RANK];
        let mut strides = [0; MAX_RANK];
        for (a, &p) in perm.iter().enumerate() {
            dims[a] = self.shape.dim(p);
            strides[a] = self.strides[p];
        }
        Layout::new(Shape::new(&dims[..rank])?, &strides[..rank])
    }

    /// The layout of the same elements, in the same logical order, under `shape`; `None` if strides cannot say it.
    pub fn reshaped(&self, shape: Shape) -> Option<Layout> {
        if shape.elements() != self.shape.elements() {
            return None;
        }
        if shape.elements() == 0 {
            return Some(Layout::contiguous(shape));
        }
        // Axes of extent 1 carry no information; the others are merged where they are dense over their right neighbour.
        let mut groups: heapless::Vec<(u64, i64), MAX_RANK> = heapless::Vec::new();
        for (a, &d) in self.shape.dims().iter().enumerate().filter(|(_, d)| **d > 1) {
            let stride = self.strides[a];
            match groups.last_mut() {
                Some((n, s)) if *s == stride * i64::from(d) => {
                    *n *= u64::from(d);
                    *s = stride;
                }
                _ => groups.push((u64::from(d), stride)).ok()?,
            }
        }
        // The new axes are cut from the groups, from the right.
        let mut strides = [0i64; MAX_RANK];
        let mut group = groups.pop();
        let mut used = 1u64;
        for a in (0..shape.rank()).rev() {
            let d = u64::from(shape.dim(a));
            if d == 1 {
                strides[a] = 0;
                continue;
            }
            while let Some((n, _)) = group {
                if used < n {
                    break;
                }
                group = groups.pop();
                used = 1;
            }
            let (n, stride) = group?;
            if !n.is_multiple_of(used * d) {
                return None;
            }
            strides[a] = stride * used as i64;
            used *= d;
        }
        Layout::new(shape, &strides[..shape.rank()])
    }
}

impl Serialize for Layout {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let strides = heapless::Vec::<i64, MAX_RANK>::from_slice(self.strides()).unwrap_or_default();
        (self.shape, strides).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let (shape, strides) = <(Shape, heapless::Vec<i64, MAX_RANK>)>::deserialize(d)?;
        Layout::new(shape, &strides).ok_or_else(|| serde::de::Error::custom("one stride per axis is needed"))
    }
}

/// The elements of a host tensor, in C order of its logical shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Elements of [`DType::F32`].
    F32(Vec<f32>),
    /// Elements of [`DType::F16`].
    F16(Vec<f16>),
    /// Elements of [`DType::I32`].
    I32(Vec<i32>),
    /// Elements of [`DType::U8`].
    U8(Vec<u8>),
    /// Elements of [`DType::Bool`], 0 or 1 each.
    Bool(Vec<u8>),
}

/// A tensor in host memory, C order: constants of a graph, inputs and outputs of `infer`. Never used in the loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Shape,
    data: Data,
}

impl Tensor {
    /// A tensor from its shape and elements; `None` if their counts differ.
    pub fn new(shape: Shape, data: Data) -> Option<Tensor> {
        let tensor = Tensor { shape, data };
        (tensor.len() as u64 == shape.elements()).then_some(tensor)
    }

    /// A tensor of zeros.
    pub fn zeros(dtype: DType, shape: Shape) -> Tensor {
        let n = shape.elements() as usize;
        let data = match dtype {
            DType::F32 => Data::F32(vec![0.0; n]),
            DType::F16 => Data::F16(vec![f16::ZERO; n]),
            DType::I32 => Data::I32(vec![0; n]),
            DType::U8 => Data::U8(vec![0; n]),
            DType::Bool => Data::Bool(vec![0; n]),
        };
        Tensor { shape, data }
    }

    /// A tensor from little-endian bytes in C order; `None` if the length does not fit.
    pub fn from_bytes(dtype: DType, shape: Shape, bytes: &[u8]) -> Option<Tensor> {
        if bytes.len() as u64 != shape.elements().checked_mul(dtype.bytes())? {
            return None;
        }
        let data = match dtype {
            DType::F32 => Data::F32(
                bytes
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                    .collect(),
            ),
            DType::F16 => Data::F16(bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]])).collect()),
            DType::I32 => Data::I32(
                bytes
                    .chunks_exact(4)
                    .map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                    .collect(),
            ),
            DType::U8 => Data::U8(bytes.to_vec()),
            DType::Bool => Data::Bool(bytes.iter().map(|&b| u8::from(b != 0)).collect()),
        };
        Tensor::new(shape, data)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match self.data {
            Data::F32(_) => DType::F32,
            Data::F16(_) => DType::F16,
            Data::I32(_) => DType::I32,
            Data::U8(_) => DType::U8,
            Data::Bool(_) => DType::Bool,
        }
    }

    /// The logical shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.data {
            Data::F32(v) => v.len(),
            Data::F16(v) => v.len(),
            Data::I32(v) => v.len(),
            Data::U8(v) | Data::Bool(v) => v.len(),
        }
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as bytes, native (little) endian, C order.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::F32(v) => bytemuck::cast_slice(v),
            Data::F16(v) => bytemuck::cast_slice(v),
            Data::I32(v) => bytemuck::cast_slice(v),
            Data::U8(v) | Data::Bool(v) => v,
        }
    }

    /// The same elements under another shape; `None` if the counts differ.
    pub fn reshaped(&self, shape: Shape) -> Option<Tensor> {
        Tensor::new(shape, self.data.clone())
    }

    /// The f32 elements, or `None` for another type.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.data {
            Data::F32(v) => Some(v),
            _ => None,
        }
    }

    /// The i32 elements, or `None` for another type.
    pub fn as_i32(&self) -> Option<&[i32]> {
        match &self.data {
            Data::I32(v) => Some(v),
            _ => None,
        }
    }

    /// Element `i` in C order, as f64 (exact for every element type).
    pub fn get_f64(&self, i: usize) -> Option<f64> {
        Some(match &self.data {
            Data::F32(v) => f64::from(*v.get(i)?),
            Data::F16(v) => v.get(i)?.to_f64(),
            Data::I32(v) => f64::from(*v.get(i)?),
            Data::U8(v) | Data::Bool(v) => f64::from(*v.get(i)?),
        })
    }
}

#[cfg(test)]
mod tests;
