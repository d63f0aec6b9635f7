//! Softmax of rows that no block keeps: `kernels/softmax_long.cu`.

use super::softmax::Params;
use super::views::Divisor;
use super::{Addresses, BindError, Launch, count};
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 1024;
/// Fewest elements of a block's share of a row.
const SHARE: u32 = 2048;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct LongParams {
    whole: Params,
    shares: Divisor,
    length: u32,
}

/// The launch of rows, each of which is a tile of `whole`.
pub fn launch(at: &Addresses<'_>, mut whole: Params, width: u16) -> Result<Launch, BindError> {
    let (rows, extent) = (whole.frame.tiles, whole.extent);
    let shares = (at.multiprocessors / rows.max(1)).clamp(1, extent.div_ceil(SHARE));
    let tiles = count([rows, shares], "a chunk")?;
    whole.frame.tiles = tiles;
    let params = LongParams {
        whole,
        shares: Divisor::new(shares),
        length: extent.div_ceil(shares),
    };
    Ok(Launch::new("softmax_long", "softmax_long", tiles, width, THREADS, &params))
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frame;
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<LongParams>(), size_of::<Frame>() + 88 + 40);
        let threads = format!("constexpr u32 THREADS = {THREADS};");
        assert!(include_str!("../kernels/softmax_long.cu").contains(&threads));
    }
}
