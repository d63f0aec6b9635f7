//! A sliding window: `Window` of `kernels/window.cuh`.

use crate::primitive;
use bytemuck::{Pod, Zeroable};

/// A window over up to three spatial axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Window {
    /// Spatial axes, 1 to 3.
    pub axes: u32,
    /// Taps.
    pub kernel: [u32; 3],
    /// Between outputs.
    pub stride: [u32; 3],
    /// Between taps.
    pub dilation: [u32; 3],
    /// Before the first element.
    pub pad_begin: [u32; 3],
    /// Behind the last element.
    pub pad_end: [u32; 3],
}

impl Window {
    /// The window of a primitive.
    pub fn new(window: &primitive::Window) -> Window {
        Window {
            axes: u32::from(window.axes),
            kernel: window.kernel,
            stride: window.stride,
            dilation: window.dilation,
            pad_begin: window.pad_begin,
            pad_end: window.pad_end,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<super::Window>(), 64);
    }
}
