//! Operators whose head is a product of pixels and constant weights: convolutions, and matrix products as convolutions of
//! one tap.

use super::Misfit;
use super::forms::need;
use crate::plan::format::{Operand, Operator, Plan, Space, View};
use crate::primitive::{Primitive, Unary, Window};

/// True for functions that products' kernels have a path for: those of `Path` in `backend/cuda/bind/epilogue.rs`.
pub fn has_path(function: Unary) -> bool {
    is_usual(function) || matches!(function, Unary::Sigmoid | Unary::Tanh | Unary::GeluTanh)
}

/// True for those of them that all of their kernels' paths take at once.
pub fn is_usual(function: Unary) -> bool {
    use Unary::*;
    matches!(function, Relu | LeakyRelu(_) | Clip(..) | HardSwish | Silu | Gelu)
}

/// A tensor as samples of rows of pixels of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Samples, rows of a sample, pixels of a row, channels of a pixel.
    pub extents: [u32; 4],
    /// Elements from one to the next, in the same order; 0 along extents of 1.
    pub strides: [i64; 4],
}

impl Pixels {
    /// `[N, C, H, W]`, `[N, C]` as single pixels, or, of a matrix, `[B, M, C]` as a column of pixels.
    pub fn of(view: &View) -> Option<Pixels> {
        let axes: [Option<usize>; 4] = match view.layout.shape.rank() {
            2 => [Some(0), None, None, Some(1)],
            3 => [Some(0), Some(1), None, Some(2)],
            4 => [Some(0), Some(2), Some(3), Some(1)],
            _ => return None,
        };
        let extents = axes.map(|a| a.map_or(1, |a| view.layout.shape.dim(a)));
        let strides = std::array::from_fn(|i| match axes[i] {
            Some(axis) if extents[i] > 1 => view.layout.stride(axis),
            _ => 0,
        });
        Some(Pixels { extents, strides })
    }

    /// Channels lie side by side, and nothing walks backwards.
    pub fn channels_last(&self) -> bool {
        (self.extents[3] == 1 || self.strides[3] == 1) && self.strides.iter().all(|&s| s >= 0)
    }

    /// Every pixel begins at a multiple of 8 elements from the first.
    pub fn wide(&self) -> bool {
        self.strides[..3].iter().all(|s| s % 8 == 0)
    }

    /// Every pixel begins at an even element from the first.
    pub fn even(&self) -> bool {
        self.strides[..3].iter().all(|s| s % 2 == 0)
    }

    /// The one step from each pixel to the next across rows and samples; `None` where there is no such step.
    pub fn flat_step(&self) -> Option<i64> {
        let mut step = None;
        for axis in (0..3).rev().filter(|&a| self.extents[a] > 1) {
            match step {
                None => step = Some((self.strides[axis], i64::from(self.extents[axis]))),
                Some((pixel, count)) if self.strides[axis] == pixel.checked_mul(count)? => {
                    step = Some((pixel, count.checked_mul(i64::from(self.extents[axis]))?));
                }
                Some(_) => return None,
            }
        }
        Some(step.map_or(0, |(pixel, _)| pixel))
    }
}

/// An operator's head as a convolution over two spatial axes.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// The input's view.
    pub input: &'a View,
    /// The same as pixels.
    pub x: Pixels,
    /// The output's view.
    pub output: &'a View,
    /// The same as pixels.
    pub out: Pixels,
    /// Constant weights: `[O, C, kh, kw]`, or of a matrix product `[.., C, O]`.
    pub weights: &'a View,
    /// Constant bias of the output channels: strides are 0 along all axes but the last.
    pub bias: Option<&'a View>,
    /// One tap for a matrix product.
    pub window: Window,
    /// A matrix product.
    pub matrix: bool,
}

impl<'a> Product<'a> {
    /// Reads an operator that is one product; says what it lacks.
    pub fn of(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
        let (product, groups) = Product::grouped(plan, operator)?;
        need(groups == 1, Misfit::Primitive)?;
        Ok(product)
    }

    /// The same of a convolution in groups, and how many there are.
    pub fn grouped(plan: &Plan, operator: &'a Operator) -> Result<(Product<'a>, u32), Misfit> {
        let head = operator.calls.first().ok_or(Misfit::Primitive)?;
        let view = |index: usize| match head.inputs.get(index) {
            Some(Operand::View(view)) => Ok(view),
            _ => Err(Misfit::Primitive),
        };
        let (window, groups, matrix) = match head.primitive {
            Primitive::Conv { window, groups } if window.axes == 2 => (window, groups, false),
            Primitive::MatMul => (Window::new(&[1, 1]), 1, true),
            _ => return Err(Misfit::Primitive),
        };
        let (input, weights) = (view(0)?, view(1)?);
        let output = operator.outputs.first().ok_or(Misfit::Primitive)?;
        let bias = (head.inputs.len() > 2).then(|| view(2)).transpose()?;
        let constant = |v: &View| {
            let buffer = plan.buffers.get(v.buffer.index());
            buffer.is_some_and(|b| matches!(b.space, Space::Weights(_))) && v.layout.strides().iter().all(|&s| s >= 0)
        };
        need(constant(weights) && bias.is_none_or(constant), Misfit::Weights)?;
        let repeats =
            |v: &View, axes: usize| (0..v.layout.shape.rank() - axes).all(|a| v.layout.shape.dim(a) == 1 || v.layout.stride(a) == 0);
        need(!matrix || weights.layout.shape.rank() >= 2 && repeats(weights, 2), Misfit::Weights)?;
        need(bias.is_none_or(|b| b.layout.shape.rank() >= 1 && repeats(b, 1)), Misfit::Weights)?;
        let product = Product {
            input,
            x: Pixels::of(input).ok_or(Misfit::Primitive)?,
            output,
            out: Pixels::of(output).ok_or(Misfit::Primitive)?,
            weights,
            bias,
            window,
            matrix,
        };
        Ok((product, groups))
    }

    /// Products summed for one element of the output.
    pub fn k(&self) -> u64 {
        self.window.taps() * u64::from(self.x.extents[3])
    }

    /// Kernels count elements of the input, windows in the padding included, in 32 bits with a sign.
    pub fn is_counted(&self) -> bool {
        let reach = |a: usize| {
            let window = &self.window;
            window
                .reach(a)
                .map(|r| i64::from(r) + i64::from(window.pad_begin[a]) + i64::from(window.pad_end[a]))
        };
        let channels = i64::from(self.x.extents[3]).checked_mul(self.x.strides[3].max(1));
        let farthest = (0..3).try_fold(channels.unwrap_or(i64::MAX), |sum, axis| {
            let beyond = if axis == 0 { 0 } else { reach(axis - 1)? };
            sum.checked_add((i64::from(self.x.extents[axis]) + beyond).checked_mul(self.x.strides[axis])?)
        });
        farthest.is_some_and(|f| f <= i64::from(i32::MAX))
    }

    /// Kernels count pixels of the output in 32 bits with a sign, and there is one at least.
    pub fn has_pixels(&self) -> bool {
        let pixels = self.out.extents[..3].iter().try_fold(1u32, |all, &n| all.checked_mul(n));
        pixels.is_some_and(|n| (1..=i32::MAX as u32).contains(&n))
    }
}
