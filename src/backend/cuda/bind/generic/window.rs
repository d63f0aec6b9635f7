//! Convolutions and poolings: `kernels/generic_window.cu`.

use super::super::frame::Frame;
use super::super::operands::{head, input, optional_input};
use super::super::views::{DeviceView, Divisor};
use super::super::window::Window;
use super::super::{Addresses, BindError};
use super::bytes;
use crate::plan::format::Operator;
use crate::plan::tactic;
use crate::primitive::{PoolKind, Primitive};
use bytemuck::{Pod, Zeroable};

const UNIT: &str = "generic_window";

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Convolution {
    frame: Frame,
    x: DeviceView,
    w: DeviceView,
    bias: DeviceView,
    window: Window,
    wide: Divisor,
    depth: u32,
    transposed: u32,
    splits: u32,
    share: u32,
    padding: u32,
}

type Bound = Result<(&'static str, &'static str, Box<[u8]>), BindError>;

pub fn convolution(at: &Addresses<'_>, operator: &Operator, frame: Frame) -> Bound {
    let (window, groups, transposed) = match &head(operator)?.primitive {
        Primitive::Conv { window, groups } => (window, *groups, false),
        Primitive::ConvTranspose { window, groups } => (window, *groups, true),
        _ => return Err(BindError::Tactic("it is no convolution")),
    };
    let x = DeviceView::new(at, input(operator, 0)?)?;
    let bias = optional_input(operator, 2).map(|view| DeviceView::new(at, view)).transpose()?;
    let depth = x.extents[1] / groups.max(1);
    let params = Convolution {
        frame,
        x,
        w: DeviceView::new(at, input(operator, 1)?)?,
        bias: bias.unwrap_or_default(),
        window: Window::new(window),
        wide: Divisor::new(frame.y.extents[1] / groups.max(1)),
        depth,
        transposed: u32::from(transposed),
        splits: u32::from(operator.class.split_k),
        share: operator.class.range(depth, tactic::PRODUCT_STEP),
        padding: 0,
    };
    Ok((UNIT, "generic_conv", bytes(&params)))
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pooling {
    frame: Frame,
    x: DeviceView,
    indices: DeviceView,
    window: Window,
    average: u32,
    count_pad: u32,
    column_major: u32,
    padding: u32,
}

pub fn pooling(at: &Addresses<'_>, operator: &Operator, frame: Frame) -> Bound {
    let Primitive::Pool { kind, window } = &head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no pooling"));
    };
    let indices = operator.outputs.get(1).map(|view| DeviceView::new(at, view)).transpose()?;
    let params = Pooling {
        frame,
        x: DeviceView::new(at, input(operator, 0)?)?,
        indices: indices.unwrap_or_default(),
        window: Window::new(window),
        average: u32::from(matches!(kind, PoolKind::Average { .. })),
        count_pad: u32::from(matches!(kind, PoolKind::Average { count_pad: true })),
        column_major: u32::from(matches!(kind, PoolKind::Max { column_major: true })),
        padding: 0,
    };
    Ok((UNIT, "generic_pool", bytes(&params)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        let frame = size_of::<Frame>();
        assert_eq!(size_of::<Convolution>(), frame + 3 * 88 + 64 + 32);
        assert_eq!(offset_of!(Convolution, wide), frame + 3 * 88 + 64);
        assert_eq!(size_of::<Pooling>(), frame + 2 * 88 + 64 + 16);
    }
}
