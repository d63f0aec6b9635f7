//! Convolutions of few channels whose taps share a patch: the launches of `kernels/conv_narrow.cu`.
//!
//! Weights and most parameters are those of [`conv_mma`](super::conv_mma).

use super::conv_mma::{Convolution, Packed, convolution};
use super::views::Divisor;
use super::{Addresses, BindError, Kernel, Launch, Packer, evenly};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_mma::K_BLOCK;
use crate::plan::tactic::conv_narrow::{NarrowTile, product};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Bytes of shared memory of a multiprocessor that is counted with: Orin has as much, and Hopper more.
const UNIT_BYTES: u32 = 164 << 10;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    product: Convolution,
    pieces: Divisor,
    pitch: Divisor,
    strips: Divisor,
    bands: Divisor,
    row_pieces: Divisor,
    lines: u32,
    pixel_bytes: u32,
    patch_bytes: u32,
    table: u32,
    patches: u32,
}

/// An operator bound to an entry of the menu.
struct ConvNarrow {
    operator: Operator,
    entry: NarrowTile,
    packed: Packed,
}

const MISFIT: BindError = BindError::Tactic("conv_narrow does not compute such products");

/// Binds a convolution.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let product = product(packer.plan, operator).map_err(|_| MISFIT)?;
    let entry = NarrowTile::of(operator.tactic).ok_or(BindError::Tactic("conv_narrow has no such tile"))?;
    let packed = Packed::plain(packer, &product)?;
    Ok(Box::new(ConvNarrow {
        operator: operator.clone(),
        entry,
        packed,
    }))
}

impl Kernel for ConvNarrow {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let patch = self.entry.patch(&product).ok_or(MISFIT)?;
        let (samples, rows, columns) = (region.batch.len() as u32, region.rows.len() as u32, product.out.extents[2]);
        let params = convolution(
            at,
            &self.operator,
            &product,
            &self.packed,
            region,
            (self.operator.tactic.tile, K_BLOCK as u16),
        )?;
        let (strips, bands) = self.entry.tiles(rows, columns);
        let tiles = samples * strips * bands;
        let params = Params {
            product: params.with_tiles(tiles),
            pieces: Divisor::new(patch.pieces),
            pitch: Divisor::new(patch.pitch),
            strips: Divisor::new(strips),
            bands: Divisor::new(bands),
            row_pieces: Divisor::new(patch.row_pieces),
            lines: patch.lines,
            pixel_bytes: patch.pixel_bytes,
            patch_bytes: patch.patch_bytes,
            table: patch.table,
            patches: patch.patches,
        };
        // A block begins with its weights.
        let blocks = evenly(at, tiles, self.entry.together(&patch, UNIT_BYTES));
        let launch = Launch::new("conv_narrow", "conv_narrow_16", blocks, width, self.entry.threads(), &params);
        Ok(vec![Launch {
            shared: patch.shared(),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<Convolution>() + 80);
        assert_eq!(offset_of!(Params, lines), size_of::<Convolution>() + 60);
    }
}
