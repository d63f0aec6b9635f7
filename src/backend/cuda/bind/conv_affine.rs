//! Convolutions of one tap behind scale, shift and relu whose weights stay in shared memory: the launches of
//! `kernels/conv_affine.cu`.
//!
//! Weights, scales and shifts are packed as for the kernel of the same class, which takes what these do not.

use super::conv_mma::{self, Convolution, Packed, convolution, pack_weights};
use super::conv_warps;
use super::epilogue::{Epilogue, GROUP, flags, function, pack_bias};
use super::{Addresses, BindError, Kernel, Launch, Packer, blocks};
use crate::plan::format::{Kernel as Named, Operator, Tactic};
use crate::plan::tactic::conv_affine::{AffineTile, Order, PIXELS, WARPS};
use crate::plan::tactic::conv_mma::K_BLOCK;
use crate::plan::tactic::conv_warps::Share;
use crate::plan::tactic::prologue::{self, Prologue};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    product: Convolution,
    chain: u32,
    across: u32,
}

/// An operator bound to an entry of the menu.
struct ConvAffine {
    /// The operator without its prologue.
    operator: Operator,
    entry: AffineTile,
    depth: u32,
    packed: Packed,
    /// The same bits, for other tails, for rows of several samples, and for fewer blocks than there are ranges of channels.
    other: Box<dyn Kernel>,
}

pub(super) const MISFIT: BindError = BindError::Tactic("conv_affine does not compute such products");

/// The kernel that has the order of K for fewer tiles, bound to an operator.
pub(super) fn other(packer: &Packer<'_>, operator: &Operator, order: Order) -> Result<Box<dyn Kernel>, BindError> {
    let plain = Operator {
        tactic: general(order),
        ..operator.clone()
    };
    match order {
        Order::Ascending => conv_mma::compile(packer, &plain),
        Order::Pieces => conv_warps::compile(packer, &plain),
    }
}

/// Its tactic.
fn general(order: Order) -> Tactic {
    match order {
        Order::Ascending => Tactic {
            kernel: Named::ConvMma,
            tile: (64, 64),
            variant: 18,
        },
        Order::Pieces => Tactic {
            kernel: Named::ConvWarps,
            tile: (32, 32),
            variant: 4,
        },
    }
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *AffineTile::of(operator.tactic).ok_or(BindError::Tactic("conv_affine has no such tile"))?;
    let Some((Prologue::Affine(affine), body)) = prologue::cut(packer.plan, operator) else {
        return Err(MISFIT);
    };
    let product = conv_mma::product(packer.plan, &body)?;
    let depth = entry.depth(product.k()).ok_or(MISFIT)?;
    let k_padded = (product.k() as u32).next_multiple_of(K_BLOCK);
    let packed = Packed {
        weights: pack_weights(packer, &product, k_padded)?,
        bias: pack_bias(packer, &product)?,
        affine: Some(match entry.order {
            Order::Ascending => conv_mma::pack_affine(packer, &affine, k_padded)?,
            Order::Pieces => conv_warps::pack_affine(packer, &affine, k_padded)?,
        }),
        k_padded,
    };
    let other = other(packer, operator, entry.order)?;
    Ok(Box::new(ConvAffine {
        operator: body,
        entry,
        depth,
        packed,
        other,
    }))
}

/// True for functions that kernels behind a prologue have: none, or a relu of the rounded sum, which keeps the sign of a zero.
pub(super) fn is_relu(epilogue: &Epilogue) -> bool {
    match epilogue.function {
        function::IDENTITY => true,
        function::RELU => epilogue.flags & flags::ROUNDED != 0,
        _ => false,
    }
}

/// True for tails that the kernels store: a bias and such a function, all channels in whole groups.
fn is_plain(epilogue: &Epilogue, channels: u32) -> bool {
    let stored = epilogue.flags & (flags::WIDE_STORE | flags::WIDENED | flags::JOINS) == flags::WIDE_STORE;
    is_relu(epilogue) && stored && channels.is_multiple_of(GROUP as u32)
}

impl Kernel for ConvAffine {
    fn workspace(&self) -> u64 {
        self.other.workspace()
    }

    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = conv_mma::product(at.plan, &self.operator)?;
        let channels = product.out.extents[3];
        let across = channels.div_ceil(u32::from(self.entry.channels));
        // One block fills a multiprocessor: more of them would only load the weights more often.
        let most = blocks(at.rooms(), width) / across;
        let tile = (PIXELS, self.entry.channels);
        let params = convolution(at, &self.operator, &product, &self.packed, region, (tile, K_BLOCK as u16))?;
        if most == 0 || !params.is_flat() || !is_plain(params.epilogue(), channels) {
            return self.other.launches(at, region, width);
        }
        let down = params.tiles() / across;
        let (chain, _) = Share::Affine.pieces(product.x.extents[3]);
        let params = Params {
            product: params.with_tiles(down),
            chain,
            across,
        };
        let function = self.entry.function(self.depth);
        let launch = Launch::new("conv_affine", function, most.min(down) * across, 0, WARPS * 32, &params);
        Ok(vec![Launch {
            shared: self.entry.shared(self.packed.k_padded, self.depth),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tactic::conv_mma::{Loader, MmaTile};
    use crate::plan::tactic::conv_warps::WarpsTile;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<Convolution>() + 8);
        assert_eq!(offset_of!(Params, chain), size_of::<Convolution>());
    }

    #[test]
    fn the_other_kernels_are_on_their_menus() {
        let mma = MmaTile::of(general(Order::Ascending));
        assert_eq!(mma.map(|e| e.loader), Some(Loader::Affine));
        assert!(WarpsTile::of(general(Order::Pieces)).is_some_and(|e| e.serves(Share::Affine)));
    }
}
