//! The kernels of transposed convolutions whose windows lie side by side: the class of [`conv_parts`](super::conv_parts), for so few
//! channels that all places of a window are columns of one product.

use super::Misfit;
use super::conv_parts::{Cut, Parted};
use super::forms::need;
use crate::plan::format::{Kernel, Operator, Tactic};
use crate::primitive::{Primitive, Unary};

/// Pixels that a block's warps take at a time, 16 each.
pub const PIXELS: u32 = 64;
/// Threads of a block.
pub const THREADS: u32 = 128;
/// Halves of K of a product.
pub const STEP: u32 = 16;
/// Columns of a product.
pub const COLUMNS: u32 = 8;
/// Most input channels, and columns, whose weights a warp keeps in registers.
const MOST: u32 = 64;

/// The one tactic: pixels of the input, and columns.
pub const TACTIC: Tactic = Tactic {
    kernel: Kernel::ConvSpread,
    tile: (PIXELS as u16, MOST as u16),
    variant: 0,
};

/// A kernel of `conv_spread.cu`: steps of K, and times [`COLUMNS`] columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadShape {
    /// Steps of K.
    pub steps: u32,
    /// Times [`COLUMNS`] columns.
    pub places: u32,
}

impl SpreadShape {
    /// The smallest kernel that holds a product.
    pub fn of(product: &Parted<'_>) -> SpreadShape {
        SpreadShape {
            steps: product.product.x.extents[3].div_ceil(STEP).next_power_of_two(),
            places: columns(product).div_ceil(COLUMNS).next_power_of_two(),
        }
    }

    /// Its name in the source.
    pub fn function(&self) -> String {
        format!("conv_spread_k{}_n{}", self.steps, self.places)
    }
}

/// Columns of the product: output channels of every place of a window.
pub fn columns(product: &Parted<'_>) -> u32 {
    let [down, across] = product.step();
    product.product.out.extents[3] * down * across
}

/// Checks that the kernels compute an operator that begins with a product.
pub fn fits(operator: &Operator, product: &Parted<'_>) -> Result<(), Misfit> {
    let (x, out, window) = (&product.product.x, &product.product.out, &product.product.window);
    need(matches!(product.cut, Cut::Phases(_)) && product.groups == 1, Misfit::Primitive)?;
    let beside = |a: usize| {
        let whole = u64::from(x.extents[a + 1]) * u64::from(window.stride[a]) == u64::from(out.extents[a + 1]);
        window.kernel[a] == window.stride[a] && window.dilation[a] == 1 && window.pad_begin[a] == 0 && whole
    };
    need(beside(0) && beside(1), Misfit::Primitive)?;
    let few = x.extents[3] <= MOST && u64::from(out.extents[3]) * window.taps() <= u64::from(MOST);
    need(few && out.extents[3].is_multiple_of(2), Misfit::Tile)?;
    need(out.even() && product.product.output.origin.is_multiple_of(2), Misfit::Layout)?;
    match operator.calls.get(1..) {
        Some([]) => Ok(()),
        Some([relu]) if relu.primitive == Primitive::Unary(Unary::Relu) => Ok(()),
        _ => Err(Misfit::Tail),
    }
}

/// The tactic, where the kernels compute an operator.
pub fn menu(operator: &Operator, product: &Parted<'_>) -> Option<Tactic> {
    fits(operator, product).is_ok().then_some(TACTIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_a_kernel_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_spread.cu");
        let mut kernels = 0;
        for steps in [1, 2, 4] {
            for places in [1, 2, 4, 8] {
                assert_eq!(source.matches(&format!("\nCONV_SPREAD({steps}, {places})\n")).count(), 1);
                kernels += 1;
            }
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("CONV_SPREAD(")).count(), kernels);
        assert_eq!((MOST / STEP, MOST / COLUMNS), (4, 8));
    }
}
