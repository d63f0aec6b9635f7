//! Convolutions of few pixels with weights kept in registers: the launches of `kernels/conv_warps.cu`.
//!
//! Weights and most parameters are those of [`conv_mma`](super::conv_mma); a block computes several tiles of pixels in turn
//! with the same weights.

use super::conv_mma::{Convolution, Packed, channels, convolution, hexadecimal, pack_weights};
use super::epilogue::pack_bias;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer};
use crate::plan::format::{Operator, View};
use crate::plan::tactic::conv_mma::K_BLOCK;
use crate::plan::tactic::conv_warps::{Share, WarpsTile, product};
use crate::plan::tactic::prologue::{self, Affine, Prologue};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    product: Convolution,
    gate: u64,
    gate_batch: i64,
    turns: u32,
    units: u32,
    warp_pieces: u32,
    warps: u32,
}

/// An operator bound to an entry of the menu.
struct ConvWarps {
    /// The operator without its prologue.
    operator: Operator,
    prologue: Option<Prologue>,
    entry: WarpsTile,
    packed: Packed,
}

const MISFIT: BindError = BindError::Tactic("conv_warps does not compute such products");

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *WarpsTile::of(operator.tactic).ok_or(BindError::Tactic("conv_warps has no such tile"))?;
    let (prologue, body) = prologue::cut(packer.plan, operator).unzip();
    let body = body.unwrap_or_else(|| operator.clone());
    let product = product(packer.plan, &body, prologue.as_ref()).map_err(|_| MISFIT)?;
    let k = u32::try_from(product.k()).map_err(|_| BindError::Large("a sum of products"))?;
    let k_padded = k.checked_next_multiple_of(K_BLOCK).ok_or(BindError::Large("a sum of products"))?;
    let affine = match &prologue {
        Some(Prologue::Affine(affine)) => Some(pack_affine(packer, affine, k_padded)?),
        _ => None,
    };
    let packed = Packed {
        weights: pack_weights(packer, &product, k_padded)?,
        bias: pack_bias(packer, &product)?,
        affine,
        k_padded,
    };
    Ok(Box::new(ConvWarps {
        operator: body,
        prologue,
        entry,
        packed,
    }))
}

/// Scales of the input channels, and then their shifts, each with zeros behind the last.
pub(super) fn pack_affine(packer: &Packer<'_>, prologue: &Affine, k_padded: u32) -> Result<PackId, BindError> {
    let [scales, shifts] = [channels(packer, &prologue.scale)?, channels(packer, &prologue.shift)?];
    let section = packer.section(&prologue.scale).ok_or(BindError::Reference)?;
    // The shifts may lie in another section: their bits are part of the name.
    let bits: Vec<u16> = shifts.iter().map(|s| s.to_bits()).collect();
    let view: &View = &prologue.scale;
    let name = format!(
        "scales and shifts {} {:?} {} {k_padded}",
        view.origin,
        view.layout,
        hexadecimal(&bits)
    );
    packer.pack(section, name, |_| {
        let mut bytes = Vec::with_capacity(4 * k_padded as usize);
        for values in [&scales, &shifts] {
            let padded = (0..k_padded as usize).map(|k| values.get(k).copied().unwrap_or_default());
            bytes.extend(padded.flat_map(|v| v.to_le_bytes()));
        }
        bytes
    })
}

impl Kernel for ConvWarps {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let product = product(at.plan, &self.operator, self.prologue.as_ref()).map_err(|_| MISFIT)?;
        let share = Share::of(&product, self.prologue.as_ref());
        let tile = self.entry.tile;
        // The step along K is the kernel's own.
        let params = convolution(at, &self.operator, &product, &self.packed, region, (tile, K_BLOCK as u16))?;
        let across = product.out.extents[3].div_ceil(u32::from(tile.1));
        let down = params.tiles() / across;
        let (gate, gate_batch) = match &self.prologue {
            Some(Prologue::Gate(factors)) => (at.view(factors)?, factors.layout.stride(0)),
            _ => (0, 0),
        };
        let (warp_pieces, warps) = share.pieces(product.x.extents[3]);
        let units = down.div_ceil(self.entry.turns) * across;
        let params = Params {
            product: params.with_tiles(down),
            gate,
            gate_batch,
            turns: self.entry.turns,
            units,
            warp_pieces,
            warps,
        };
        Ok(vec![Launch::new(
            "conv_warps",
            self.entry.function(share, warp_pieces),
            units,
            width,
            WarpsTile::threads(tile, warps),
            &params,
        )])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<Convolution>() + 32);
        assert_eq!(offset_of!(Params, turns), size_of::<Convolution>() + 16);
    }
}
