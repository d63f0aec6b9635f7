//! Constants while importing: host tensors that keep i64 and f64 in full width until a value of the graph is made of them.
//!
//! ONNX computes shapes, slice ends and scales in i64 and f64, where numbers like `i64::MAX` mean "to the end". They are
//! narrowed (with a check) only when an operator of the network reads them as data.

use super::error::{Fallible, Reason, limit, malformed, unsupported};
use super::proto::data_type;
use crate::limits::MAX_RANK;
use crate::primitive::Binary;
use crate::tensor::{DType, Data, Layout, Shape, Tensor};
use half::f16;
use std::sync::Arc;

/// An element type as ONNX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elem {
    F32,
    F16,
    F64,
    I32,
    I64,
    U8,
    /// Stored as I32.
    I8,
    Bool,
}

impl Elem {
    /// From the number in onnx.proto.
    pub fn from_onnx(number: i32) -> Fallible<Elem> {
        Ok(match number {
            // Every BFLOAT16 is an f32, and nothing computes in fewer digits than that.
            data_type::FLOAT | data_type::BFLOAT16 => Elem::F32,
            data_type::FLOAT16 => Elem::F16,
            data_type::DOUBLE => Elem::F64,
            data_type::INT32 => Elem::I32,
            data_type::INT64 => Elem::I64,
            data_type::UINT8 => Elem::U8,
            data_type::INT8 => Elem::I8,
            data_type::BOOL => Elem::Bool,
            other => {
                return Err(unsupported(format!(
                    "element type {}: only FLOAT, FLOAT16, BFLOAT16, DOUBLE, INT32, INT64, UINT8, INT8 and BOOL are imported. Cast it to \
                     one of these when exporting, or cut the network in front of it with --output NAME",
                    data_type::name(other)
                )));
            }
        })
    }

    /// The type of such values in a graph.
    pub fn stored(self) -> Fallible<DType> {
        Ok(match self {
            Elem::F32 => DType::F32,
            Elem::F16 => DType::F16,
            Elem::I32 | Elem::I64 | Elem::I8 => DType::I32,
            Elem::U8 => DType::U8,
            Elem::Bool => DType::Bool,
            // As i64 in 32 bits, what a network computes in f64 is computed in f32.
            Elem::F64 => DType::F32,
        })
    }

    /// Bytes of one element in a file.
    pub const fn bytes(self) -> u64 {
        match self {
            Elem::F64 | Elem::I64 => 8,
            Elem::F32 | Elem::I32 => 4,
            Elem::F16 => 2,
            Elem::U8 | Elem::I8 | Elem::Bool => 1,
        }
    }

    pub const fn is_float(self) -> bool {
        matches!(self, Elem::F32 | Elem::F16 | Elem::F64)
    }
}

impl From<DType> for Elem {
    fn from(dtype: DType) -> Elem {
        match dtype {
            DType::F32 => Elem::F32,
            DType::F16 => Elem::F16,
            DType::I32 => Elem::I32,
            DType::U8 => Elem::U8,
            DType::Bool => Elem::Bool,
        }
    }
}

/// A constant in C order. Cloning shares the elements.
#[derive(Clone, Debug)]
pub(super) enum Host {
    Tensor(Arc<Tensor>),
    I64(Shape, Arc<Vec<i64>>),
    I8(Shape, Arc<Vec<i8>>),
    F64(Shape, Arc<Vec<f64>>),
}

fn counts() -> Reason {
    malformed("the number of elements differs from the shape's")
}

impl Host {
    pub fn tensor(shape: Shape, data: Data) -> Fallible<Host> {
        Ok(Host::Tensor(Arc::new(Tensor::new(shape, data).ok_or_else(counts)?)))
    }

    pub fn i64s(shape: Shape, data: Vec<i64>) -> Fallible<Host> {
        if data.len() as u64 != shape.elements() {
            return Err(counts());
        }
        Ok(Host::I64(shape, Arc::new(data)))
    }

    pub fn i8s(shape: Shape, data: Vec<i8>) -> Fallible<Host> {
        if data.len() as u64 != shape.elements() {
            return Err(counts());
        }
        Ok(Host::I8(shape, Arc::new(data)))
    }

    pub fn f64s(shape: Shape, data: Vec<f64>) -> Fallible<Host> {
        if data.len() as u64 != shape.elements() {
            return Err(counts());
        }
        Ok(Host::F64(shape, Arc::new(data)))
    }

    /// `values` (each rounded to the type) as `shape`.
    pub fn from_f64s(elem: Elem, shape: Shape, values: Vec<f64>) -> Fallible<Host> {
        Host::f64s(shape, values)?.cast(elem)
    }

    pub fn elem(&self) -> Elem {
        match self {
            Host::Tensor(t) => t.dtype().into(),
            Host::I64(..) => Elem::I64,
            Host::I8(..) => Elem::I8,
            Host::F64(..) => Elem::F64,
        }
    }

    pub fn shape(&self) -> Shape {
        match self {
            Host::Tensor(t) => t.shape(),
            Host::I64(s, _) | Host::F64(s, _) | Host::I8(s, _) => *s,
        }
    }

    /// The elements as a graph stores them: i8 widened to i32, i64 narrowed to it with a check, f64 narrowed to f32.
    pub fn narrowed(&self) -> Fallible<Arc<Tensor>> {
        match self {
            Host::Tensor(t) => Ok(t.clone()),
            Host::I64(shape, v) => {
                let one = |&x: &i64| {
                    i32::try_from(x).map_err(|_| {
                        unsupported(format!(
                            "the INT64 constant {x} is used as data and does not fit 32 bits, in which INT64 is computed: export the \
                             network with a smaller number there, or with a float"
                        ))
                    })
                };
                let narrow = v.iter().map(one).collect::<Fallible<Vec<i32>>>()?;
                Ok(Arc::new(Tensor::new(*shape, Data::I32(narrow)).ok_or_else(counts)?))
            }
            Host::I8(shape, v) => {
                let wide = v.iter().map(|&x| i32::from(x)).collect();
                Ok(Arc::new(Tensor::new(*shape, Data::I32(wide)).ok_or_else(counts)?))
            }
            Host::F64(shape, v) => {
                let narrow = v.iter().map(|&x| x as f32).collect();
                Ok(Arc::new(Tensor::new(*shape, Data::F32(narrow)).ok_or_else(counts)?))
            }
        }
    }

    /// The elements as i64, of an integer or truth type.
    pub fn as_i64s(&self) -> Option<Vec<i64>> {
        Some(match self {
            Host::I64(_, v) => v.to_vec(),
            Host::I8(_, v) => v.iter().map(|&x| i64::from(x)).collect(),
            Host::F64(..) => return None,
            Host::Tensor(t) => match t.data() {
                Data::I32(v) => v.iter().map(|&x| i64::from(x)).collect(),
                Data::U8(v) | Data::Bool(v) => v.iter().map(|&x| i64::from(x)).collect(),
                Data::F32(_) | Data::F16(_) => return None,
            },
        })
    }

    /// The elements as f64, of any type (i64 beyond 2^53 is rounded).
    pub fn as_f64s(&self) -> Vec<f64> {
        match self {
            Host::I64(_, v) => v.iter().map(|&x| x as f64).collect(),
            Host::I8(_, v) => v.iter().map(|&x| f64::from(x)).collect(),
            Host::F64(_, v) => v.to_vec(),
            Host::Tensor(t) => match t.data() {
                Data::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
                Data::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
                Data::I32(v) => v.iter().map(|&x| f64::from(x)).collect(),
                Data::U8(v) | Data::Bool(v) => v.iter().map(|&x| f64::from(x)).collect(),
            },
        }
    }

    /// The elements converted as ONNX `Cast` does: floats to integers truncate (and saturate), anything but 0 is true.
    pub fn cast(&self, to: Elem) -> Fallible<Host> {
        let shape = self.shape();
        if self.elem() == to {
            return Ok(self.clone());
        }
        if let (Some(ints), false) = (self.as_i64s(), to.is_float()) {
            return match to {
                Elem::I64 => Host::i64s(shape, ints),
                Elem::I32 => Host::tensor(shape, Data::I32(ints.iter().map(|&x| x as i32).collect())),
                Elem::U8 => Host::tensor(shape, Data::U8(ints.iter().map(|&x| x as u8).collect())),
                Elem::I8 => Host::i8s(shape, ints.iter().map(|&x| x as i8).collect()),
                _ => Host::tensor(shape, Data::Bool(ints.iter().map(|&x| u8::from(x != 0)).collect())),
            };
        }
        let values = self.as_f64s();
        match to {
            Elem::F64 => Host::f64s(shape, values),
            Elem::I64 => Host::i64s(shape, values.iter().map(|&x| x as i64).collect()),
            Elem::F32 => Host::tensor(shape, Data::F32(values.iter().map(|&x| x as f32).collect())),
            Elem::F16 => Host::tensor(shape, Data::F16(values.iter().map(|&x| f16::from_f64(x)).collect())),
            Elem::I32 => Host::tensor(shape, Data::I32(values.iter().map(|&x| x as i32).collect())),
            Elem::U8 => Host::tensor(shape, Data::U8(values.iter().map(|&x| x as u8).collect())),
            Elem::I8 => Host::i8s(shape, values.iter().map(|&x| x as i8).collect()),
            Elem::Bool => Host::tensor(shape, Data::Bool(values.iter().map(|&x| u8::from(x != 0.0)).collect())),
        }
    }

    /// The elements that `layout` (of this constant's elements, from `offset`) addresses, in C order of its shape.
    pub fn strided(&self, layout: &Layout, offset: i64) -> Fallible<Host> {
        let shape = layout.shape;
        match self {
            Host::I64(_, v) => Host::i64s(shape, pick(v, layout, offset)),
            Host::I8(_, v) => Host::i8s(shape, pick(v, layout, offset)),
            Host::F64(_, v) => Host::f64s(shape, pick(v, layout, offset)),
            Host::Tensor(t) => {
                let data = match t.data() {
                    Data::F32(v) => Data::F32(pick(v, layout, offset)),
                    Data::F16(v) => Data::F16(pick(v, layout, offset)),
                    Data::I32(v) => Data::I32(pick(v, layout, offset)),
                    Data::U8(v) => Data::U8(pick(v, layout, offset)),
                    Data::Bool(v) => Data::Bool(pick(v, layout, offset)),
                };
                Host::tensor(shape, data)
            }
        }
    }

    /// Constants of one type, equal but for `axis`, joined along it.
    pub fn concat(parts: &[Host], axis: usize, shape: Shape) -> Fallible<Host> {
        let inner: usize = shape.dims()[axis + 1..].iter().map(|&d| d as usize).product();
        let outer: usize = shape.dims()[..axis].iter().map(|&d| d as usize).product();
        let runs: Vec<usize> = parts.iter().map(|p| p.shape().dim(axis) as usize * inner).collect();
        fn join<'a, T: Copy + 'a>(
            parts: &'a [Host],
            runs: &[usize],
            outer: usize,
            of: impl Fn(&'a Host) -> Option<&'a [T]>,
        ) -> Option<Vec<T>> {
            let slices = parts.iter().map(of).collect::<Option<Vec<_>>>()?;
            let mut all = Vec::with_capacity(outer * runs.iter().sum::<usize>());
            for o in 0..outer {
                for (slice, &run) in slices.iter().zip(runs) {
                    all.extend_from_slice(slice.get(o * run..(o + 1) * run)?);
                }
            }
            Some(all)
        }
        macro_rules! typed {
            ($variant:ident) => {
                join(parts, &runs, outer, |p| match p {
                    Host::Tensor(t) => match t.data() {
                        Data::$variant(v) => Some(v.as_slice()),
                        _ => None,
                    },
                    _ => None,
                })
                .map(|v| Host::tensor(shape, Data::$variant(v)))
            };
        }
        let joined = match parts.first().map(Host::elem) {
            Some(Elem::I64) => join(parts, &runs, outer, |p| match p {
                Host::I64(_, v) => Some(v.as_slice()),
                _ => None,
            })
            .map(|v| Host::i64s(shape, v)),
            Some(Elem::I8) => join(parts, &runs, outer, |p| match p {
                Host::I8(_, v) => Some(v.as_slice()),
                _ => None,
            })
            .map(|v| Host::i8s(shape, v)),
            Some(Elem::F64) => join(parts, &runs, outer, |p| match p {
                Host::F64(_, v) => Some(v.as_slice()),
                _ => None,
            })
            .map(|v| Host::f64s(shape, v)),
            Some(Elem::F32) => typed!(F32),
            Some(Elem::F16) => typed!(F16),
            Some(Elem::I32) => typed!(I32),
            Some(Elem::U8) => typed!(U8),
            Some(Elem::Bool) => typed!(Bool),
            None => None,
        };
        joined.unwrap_or_else(|| Err(malformed("parts of different types are joined")))
    }

    /// Element-wise arithmetic of two wide constants (both i64 or both f64) of one shape; `None` for other types and functions.
    ///
    /// Integers wrap, truncate toward zero, and give 0 where they are divided by 0, as [`Binary`] does.
    pub fn wide_binary(kind: Binary, a: &Host, b: &Host) -> Option<Fallible<Host>> {
        let (Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Min | Binary::Max) = kind else {
            return None;
        };
        match (a, b) {
            (Host::I64(s, a), Host::I64(_, b)) => {
                let f = |(&a, &b): (&i64, &i64)| match kind {
                    Binary::Add => a.wrapping_add(b),
                    Binary::Sub => a.wrapping_sub(b),
                    Binary::Mul => a.wrapping_mul(b),
                    Binary::Div if b == 0 => 0,
                    Binary::Div => a.wrapping_div(b),
                    Binary::Min => a.min(b),
                    _ => a.max(b),
                };
                Some(Host::i64s(*s, a.iter().zip(b.iter()).map(f).collect()))
            }
            (Host::F64(s, a), Host::F64(_, b)) => {
                let f = |(&a, &b): (&f64, &f64)| match kind {
                    Binary::Add => a + b,
                    Binary::Sub => a - b,
                    Binary::Mul => a * b,
                    Binary::Div => a / b,
                    Binary::Min => a.min(b),
                    _ => a.max(b),
                };
                Some(Host::f64s(*s, a.iter().zip(b.iter()).map(f).collect()))
            }
            _ => None,
        }
    }
}

/// Copies strided elements into C order. The layout must lie inside `data` (it was made by a checked view of it).
fn pick<T: Copy>(data: &[T], layout: &Layout, offset: i64) -> Vec<T> {
    let shape = layout.shape;
    let n = shape.elements() as usize;
    let mut out = Vec::with_capacity(n);
    let rank = shape.rank();
    let mut index = [0u32; MAX_RANK];
    let mut at = offset;
    for _ in 0..n {
        out.push(data[at as usize]);
        for a in (0..rank).rev() {
            index[a] += 1;
            at += layout.stride(a);
            if index[a] < shape.dim(a) {
                break;
            }
            at -= layout.stride(a) * i64::from(index[a]);
            index[a] = 0;
        }
    }
    out
}

/// The places of the elements along an axis, run by run, in the elements' order.
pub(super) fn runs(shape: Shape, axis: usize) -> impl Iterator<Item = Vec<usize>> {
    let extent = shape.dim(axis) as usize;
    let inner: usize = shape.dims()[axis + 1..].iter().map(|&d| d as usize).product();
    let count = (shape.elements() as usize).checked_div(extent).unwrap_or(0);
    (0..count).map(move |run| {
        let first = run / inner * inner * extent + run % inner;
        (0..extent).map(|step| first + step * inner).collect()
    })
}

/// The elements of a tensor of any rank. Zeros aside, all extents together are held by 63 bits, so that those of any axes are.
pub(super) fn elements_of(dims: &[i64]) -> Fallible<i64> {
    if let Some(d) = dims.iter().find(|d| **d < 0) {
        return Err(malformed(format!("extent {d} of a shape {dims:?}")));
    }
    match dims.iter().try_fold(1i64, |all, &d| all.checked_mul(d.max(1))) {
        Some(_) if dims.contains(&0) => Ok(0),
        Some(all) => Ok(all),
        None => Err(limit(format!("shape {dims:?} has too many elements"))),
    }
}

/// A shape from i64 extents, each checked.
pub(super) fn shape_of(dims: &[i64]) -> Fallible<Shape> {
    if dims.len() > MAX_RANK {
        return Err(limit(format!(
            "rank {} (at most {MAX_RANK}): export the network with axes merged there, or cut it in front of this with --output NAME",
            dims.len()
        )));
    }
    let dims = dims
        .iter()
        .map(|&d| u32::try_from(d).map_err(|_| malformed(format!("extent {d} of a shape {dims:?}"))))
        .collect::<Fallible<Vec<u32>>>()?;
    Shape::new(&dims).ok_or_else(|| limit(format!("shape {dims:?} has too many elements")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(dims: &[u32], v: &[i64]) -> Host {
        Host::i64s(Shape::new(dims).unwrap(), v.to_vec()).unwrap()
    }

    #[test]
    fn wide_integers_stay_wide_until_they_become_data() {
        let end = ints(&[1], &[i64::MAX]);
        let both = Host::concat(&[ints(&[1], &[-1]), end.clone()], 0, Shape::new(&[2]).unwrap()).unwrap();
        assert_eq!(both.as_i64s().unwrap(), [-1, i64::MAX]);
        assert!(both.narrowed().is_err());
        assert_eq!(ints(&[1], &[7]).narrowed().unwrap().as_i32(), Some(&[7][..]));
        let doubles = end.cast(Elem::F64).unwrap();
        assert_eq!(doubles.narrowed().unwrap().as_f32(), Some(&[i64::MAX as f32][..]));
    }

    #[test]
    fn casts_truncate_saturate_and_test_for_zero() {
        let shape = Shape::new(&[3]).unwrap();
        let x = Host::from_f64s(Elem::F32, shape, vec![-1.9, 0.5, 3e9]).unwrap();
        assert_eq!(x.cast(Elem::I32).unwrap().as_i64s().unwrap(), [-1, 0, i64::from(i32::MAX)]);
        assert_eq!(x.cast(Elem::Bool).unwrap().as_i64s().unwrap(), [1, 1, 1]);
        assert_eq!(x.cast(Elem::I64).unwrap().as_i64s().unwrap(), [-1, 0, 3_000_000_000]);
    }

    #[test]
    fn strided_picks_in_c_order() {
        let x = ints(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        let t = Layout::contiguous(x.shape()).permuted(&[1, 0]).unwrap();
        assert_eq!(x.strided(&t, 0).unwrap().as_i64s().unwrap(), [0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn wide_arithmetic_never_traps() {
        let div = |a, b| {
            Host::wide_binary(Binary::Div, &ints(&[1], &[a]), &ints(&[1], &[b]))
                .unwrap()
                .unwrap()
        };
        assert_eq!(div(7, 0).as_i64s().unwrap(), [0]);
        assert_eq!(div(i64::MIN, -1).as_i64s().unwrap(), [i64::MIN]);
        assert_eq!(div(-7, 2).as_i64s().unwrap(), [-3]);
    }
}
