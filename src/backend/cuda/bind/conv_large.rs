//! Convolutions and products by tiles of 256 and more pixels: the launches of `kernels/conv_large.cu`.

use super::conv_wgmma::{self, ConvWgmma, MISFIT};
use super::{Addresses, BindError, Kernel, Launch, Packer, blocks};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_large::{self, LargeTile};
use crate::primitive::Region;

/// Pixels of a warpgroup, which brings what is joined to them.
const WARPGROUP_ROWS: u32 = 64;

/// An operator bound to an entry of the menu, and what computes launches that it does not serve, with the same bits.
struct ConvLarge {
    entry: LargeTile,
    small: ConvWgmma,
}

/// Binds a convolution or matrix product whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *LargeTile::of(operator.tactic).ok_or(BindError::Tactic("conv_large has no such tile"))?;
    let small = *conv_large::small().ok_or(MISFIT)?;
    Ok(Box::new(ConvLarge {
        entry,
        small: ConvWgmma::new(packer, operator, small)?,
    }))
}

impl Kernel for ConvLarge {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let params = self.small.params(at, region, self.entry.tile())?;
        let tiles = params.tiles();
        let Some(params) = conv_wgmma::stored_by_copies(at, params, true, WARPGROUP_ROWS)? else {
            return self.small.launches(at, region, width);
        };
        let count = blocks(at.rooms(), width).min(tiles);
        let launch = Launch::new("conv_large", self.entry.function(), count, 0, self.entry.threads(), &params);
        Ok(vec![Launch {
            shared: self.entry.shared(),
            ..launch
        }])
    }
}
