//! Averages of f16 under large windows: `kernels/pool_long.cu`.

use super::groups::{PixelFrame, Pixels, THREADS, in_whole_groups, source};
use super::operands::output;
use super::views::Divisor;
use super::window::Window;
use super::{Addresses, BindError, Launch, count};
use crate::plan::format::Operator;
use crate::primitive::{self, Region};
use bytemuck::{Pod, Zeroable};

/// Groups of channels of a block.
const LOT: u32 = 16;
/// Fewest taps for which a block's threads share out the loads of one output, and where all outputs' blocks run at once.
const FEWEST: u64 = 26;
const FEWEST_OF_FEW: u64 = 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: PixelFrame,
    x: Pixels,
    window: Window,
    lots: Divisor,
    count_pad: u32,
    tiles: u32,
    padding: u32,
}

/// The launch of a chunk of averages, which count positions in the padding if `count_pad`; `None` for what the kernel does not take.
pub fn launch(
    at: &Addresses<'_>,
    operator: &Operator,
    window: &primitive::Window,
    count_pad: bool,
    region: &Region,
    width: u16,
) -> Result<Option<Launch>, BindError> {
    let (x, view) = (source(at, operator)?, output(operator, 0)?);
    let [_, channels, _, across] = [0, 1, 2, 3].map(|axis| view.layout.shape.dim(axis));
    if window.axes != 2 || window.taps() < FEWEST_OF_FEW || !in_whole_groups(&x, channels) {
        return Ok(None);
    }
    let frame = PixelFrame::new(at, operator, region, across)?;
    let lots = frame.groups.divisor.div_ceil(LOT);
    let tiles = count([region.batch.len() as u32, region.rows.len() as u32, across, lots], "a chunk")?;
    if window.taps() < FEWEST && tiles > at.multiprocessors {
        return Ok(None);
    }
    let params = Params {
        frame,
        x,
        window: Window::new(window),
        lots: Divisor::new(lots),
        count_pad: u32::from(count_pad),
        tiles,
        padding: 0,
    };
    Ok(Some(Launch::new("pool_long", "pool_long", tiles, width, THREADS, &params)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<PixelFrame>() + 48 + 64 + 24);
        assert!(include_str!("../kernels/pool_long.cu").contains(&format!("LOT = {LOT};")));
    }
}
