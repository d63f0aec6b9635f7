//! Typed, strided access to the values that primitives read and write.

use crate::backend::cpu::arena::Bytes;
use crate::limits::MAX_RANK;
use crate::tensor::{DType, Layout};
use bytemuck::Pod;
use half::f16;

/// Most elements that a kernel holds in a local array at once.
pub const RUN: usize = 256;

/// How an element lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// f32.
    F32,
    /// f16; widened when loaded, rounded to nearest even when stored.
    F16,
    /// A value of f16 in four bytes: rounded to f16 when stored, read as f32.
    Rounded,
    /// i32.
    I32,
    /// u8.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl Cell {
    /// The cell of a tensor's elements.
    pub const fn of(dtype: DType) -> Cell {
        match dtype {
            DType::F32 => Cell::F32,
            DType::F16 => Cell::F16,
            DType::I32 => Cell::I32,
            DType::U8 => Cell::U8,
            DType::Bool => Cell::Bool,
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Cell::F32 | Cell::Rounded | Cell::I32 => 4,
            Cell::F16 => 2,
            Cell::U8 | Cell::Bool => 1,
        }
    }

    /// True for the cells whose arithmetic is f32.
    pub const fn is_float(self) -> bool {
        matches!(self, Cell::F32 | Cell::F16 | Cell::Rounded)
    }
}

/// Where the elements of a value lie: `origin + sum(i[a] * strides[a])`, in elements from the first byte.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Element `[0, .., 0]`; negative where a share of a value is stored that begins later.
    pub origin: i64,
    /// One stride per axis, 0 beyond the rank.
    pub strides: [i64; MAX_RANK],
}

impl Place {
    /// The place of `layout` at element `origin`.
    pub fn new(origin: i64, layout: &Layout) -> Place {
        let mut strides = [0; MAX_RANK];
        strides[..layout.strides().len()].copy_from_slice(layout.strides());
        Place { origin, strides }
    }
}

/// A value in memory: an operand or a result of a primitive.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    /// The memory.
    pub bytes: Bytes<'a>,
    /// What an element is.
    pub cell: Cell,
    /// Where the elements lie.
    pub place: Place,
}

impl<'a> Value<'a> {
    /// A tensor of `layout` at element `origin` of `bytes`.
    pub fn new(bytes: Bytes<'a>, dtype: DType, origin: i64, layout: &Layout) -> Value<'a> {
        Value {
            bytes,
            cell: Cell::of(dtype),
            place: Place::new(origin, layout),
        }
    }

    /// The stride of `axis`.
    pub fn stride(&self, axis: usize) -> i64 {
        self.place.strides[axis]
    }

    fn gather<T: Pod, L>(&self, at: i64, stride: i64, out: &mut [L], convert: impl Fn(T) -> L)
    where
        L: Copy,
    {
        match (stride, out.len()) {
            (_, 0) => {}
            (1, n) => {
                let slice = self.bytes.slice::<T>(at as usize, n);
                out.iter_mut().zip(slice).for_each(|(o, &x)| *o = convert(x));
            }
            (0, _) => out.fill(convert(self.bytes.read(at as usize))),
            _ => {
                for (i, o) in out.iter_mut().enumerate() {
                    *o = convert(self.bytes.read((at + stride * i as i64) as usize));
                }
            }
        }
    }

    fn scatter<T: Pod, L: Copy>(&self, at: i64, stride: i64, data: &[L], convert: impl Fn(L) -> T) {
        let span = self.bytes.writable();
        match (stride, data.len()) {
            (_, 0) => {}
            (1, n) => {
                let slice = span.slice_mut::<T>(at as usize, n);
                slice.iter_mut().zip(data).for_each(|(o, &x)| *o = convert(x));
            }
            _ => {
                for (i, &x) in data.iter().enumerate() {
                    span.write((at + stride * i as i64) as usize, convert(x));
                }
            }
        }
    }
}

/// A type that kernels compute in: f32 for floats, i32 for integers and truth values.
pub trait Lane: Copy + Default + PartialEq + 'static {
    /// Loads `out.len()` elements from element `at`, `stride` apart.
    fn load(value: &Value<'_>, at: i64, stride: i64, out: &mut [Self]);

    /// Stores `data` from element `at`, `stride` apart.
    ///
    /// Floats become integers by truncating and saturating (NaN gives 0), truth values by `x != 0`; i32 becomes u8 by wrapping.
    fn store(value: &Value<'_>, at: i64, stride: i64, data: &[Self]);

    /// An attribute in this type.
    fn of_scalar(x: f32) -> Self;

    /// The lowest value of the cell's type.
    fn lowest(cell: Cell) -> Self;

    /// True if `self` takes the place of the maximum `best`: it is greater, or the first NaN.
    fn beats(self, best: Self) -> bool;

    /// The sum; integers wrap.
    fn plus(self, other: Self) -> Self;

    /// The sum with the square of `other`, rounded once; integers wrap.
    fn plus_square(self, other: Self) -> Self;

    /// The square root; integers, which have no norm, stay.
    fn root(self) -> Self;

    /// The quotient by a count; integers truncate.
    fn over(self, count: u64) -> Self;

    /// Loads one element.
    fn read(value: &Value<'_>, at: i64) -> Self {
        let mut one = [Self::default()];
        Self::load(value, at, 0, &mut one);
        one[0]
    }
}

impl Lane for f32 {
    fn load(value: &Value<'_>, at: i64, stride: i64, out: &mut [f32]) {
        match value.cell {
            Cell::F32 | Cell::Rounded => value.gather(at, stride, out, |x: f32| x),
            Cell::F16 => value.gather(at, stride, out, |x: f16| x.to_f32()),
            Cell::I32 => value.gather(at, stride, out, |x: i32| x as f32),
            Cell::U8 | Cell::Bool => value.gather(at, stride, out, |x: u8| f32::from(x)),
        }
    }

    fn store(value: &Value<'_>, at: i64, stride: i64, data: &[f32]) {
        match value.cell {
            Cell::F32 => value.scatter(at, stride, data, |x| x),
            Cell::F16 => value.scatter(at, stride, data, f16::from_f32),
            Cell::Rounded => value.scatter(at, stride, data, |x| f16::from_f32(x).to_f32()),
            Cell::I32 => value.scatter(at, stride, data, |x| x as i32),
            Cell::U8 => value.scatter(at, stride, data, |x| x as u8),
            Cell::Bool => value.scatter(at, stride, data, |x| u8::from(x != 0.0)),
        }
    }

    fn of_scalar(x: f32) -> f32 {
        x
    }

    fn lowest(_: Cell) -> f32 {
        f32::NEG_INFINITY
    }

    fn beats(self, best: f32) -> bool {
        self > best || (self.is_nan() && !best.is_nan())
    }

    fn plus(self, other: f32) -> f32 {
        self + other
    }

    fn plus_square(self, other: f32) -> f32 {
        other.mul_add(other, self)
    }

    fn root(self) -> f32 {
        self.sqrt()
    }

    fn over(self, count: u64) -> f32 {
        self / count as f32
    }
}

impl Lane for i32 {
    fn load(value: &Value<'_>, at: i64, stride: i64, out: &mut [i32]) {
        match value.cell {
            Cell::F32 | Cell::Rounded => value.gather(at, stride, out, |x: f32| x as i32),
            Cell::F16 => value.gather(at, stride, out, |x: f16| x.to_f32() as i32),
            Cell::I32 => value.gather(at, stride, out, |x: i32| x),
            Cell::U8 | Cell::Bool => value.gather(at, stride, out, |x: u8| i32::from(x)),
        }
    }

    fn store(value: &Value<'_>, at: i64, stride: i64, data: &[i32]) {
        match value.cell {
            Cell::F32 => value.scatter(at, stride, data, |x| x as f32),
            Cell::F16 => value.scatter(at, stride, data, |x| f16::from_f32(x as f32)),
            Cell::Rounded => value.scatter(at, stride, data, |x| f16::from_f32(x as f32).to_f32()),
            Cell::I32 => value.scatter(at, stride, data, |x| x),
            Cell::U8 => value.scatter(at, stride, data, |x| x as u8),
            Cell::Bool => value.scatter(at, stride, data, |x| u8::from(x != 0)),
        }
    }

    fn of_scalar(x: f32) -> i32 {
        x as i32
    }

    fn lowest(cell: Cell) -> i32 {
        match cell {
            Cell::U8 | Cell::Bool => 0,
            _ => i32::MIN,
        }
    }

    fn beats(self, best: i32) -> bool {
        self > best
    }

    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }

    fn plus_square(self, other: i32) -> i32 {
        self.wrapping_add(other.wrapping_mul(other))
    }

    fn root(self) -> i32 {
        self
    }

    fn over(self, count: u64) -> i32 {
        (i64::from(self) / (count.max(1) as i64)) as i32
    }
}
