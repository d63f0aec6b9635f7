//! Convolutions of 3 by 3 neighbours whose chains are summed side by side: the launches of `kernels/conv_chains.cu`.

use super::conv_wgmma::MISFIT;
use super::patches::{Convolution, Tile};
use super::{Addresses, BindError, Kernel, Launch, Packer, blocks};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_3x3::{CHANNELS, k_blocks, product};
use crate::plan::tactic::conv_chains::{ChainsTile, ROWS, THREADS};
use crate::primitive::Region;

/// An operator bound to an entry of the menu.
struct ConvChains {
    convolution: Convolution,
    entry: ChainsTile,
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *ChainsTile::of(operator.tactic).ok_or(BindError::Tactic("conv_chains has no such tile"))?;
    let convolution = Convolution::pack(packer, operator)?;
    Ok(Box::new(ConvChains { convolution, entry }))
}

impl Kernel for ConvChains {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let Convolution { operator, pooled, .. } = &self.convolution;
        let product = product(at.plan, operator).map_err(|_| MISFIT)?;
        let k_blocks = k_blocks(&product);
        let tile = Tile {
            rows: ROWS,
            channels: CHANNELS,
            weight_stages: self.entry.stages(k_blocks),
        };
        let params = self.convolution.params(at, &product, &tile, region)?;
        // One block fits a multiprocessor: more of them would only load the weights more often.
        let count = blocks(at.rooms(), width).min(params.tiles.saturating_mul(params.channel_tiles));
        let store = params.store(pooled.is_some()).name();
        let function = format!("conv_chains_c{}_{store}", operator.class.split_k);
        let launch = Launch::new("conv_chains", function, count, 0, THREADS, &params);
        Ok(vec![Launch {
            shared: self.entry.shared(k_blocks),
            ..launch
        }])
    }
}
