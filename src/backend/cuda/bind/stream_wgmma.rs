//! Products of few pixels with large weights: the launches of `kernels/stream_wgmma.cu`.
//!
//! Weights, pixels and most parameters are those of [`conv_wgmma`](super::conv_wgmma): both kernels share packed weights, and
//! compute the same bits.

use super::conv_wgmma::{MISFIT, Params as Product, Plain, params};
use super::{Addresses, BindError, COUNTER_BYTES, Kernel, Launch, Packer, workspace_of};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_wgmma::{BLOCK_K, Chains};
use crate::plan::tactic::stream_wgmma::{StreamTile, product};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Bytes of a row of a K block.
const K_BYTES: u32 = BLOCK_K * 2;
/// Bytes kept for barriers.
const BARRIER_BYTES: u32 = 256;
/// Blocks that share a multiprocessor.
const TOGETHER: u32 = 2;
/// Floats behind each pixel of a tile of sums.
const SHARE_PADDING: u32 = 8;

/// `StreamParams` of `kernels/stream_wgmma.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Params {
    product: Product,
    partials: u64,
    counters: u64,
    padding: [u64; 6],
}

impl StreamTile {
    /// Bytes of shared memory of a block: stages, a tile of sums, barriers.
    fn shared(&self) -> u32 {
        let (pixels, channels) = (u32::from(self.pixels), u32::from(self.channels()));
        u32::from(self.stages) * (pixels + channels) * K_BYTES + pixels * (channels + SHARE_PADDING) * 4 + BARRIER_BYTES
    }
}

/// An operator bound to an entry of the menu.
struct StreamWgmma {
    operator: Operator,
    entry: StreamTile,
    constants: Plain,
    /// Bytes of the sums of every chain of the whole operator; 0 where they stay in shared memory.
    partial_bytes: u64,
}

/// Binds a convolution or matrix product whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *StreamTile::of(operator.tactic).ok_or(BindError::Tactic("stream_wgmma has no such tile"))?;
    let product = product(packer.plan, operator).map_err(|_| MISFIT)?;
    let constants = Plain::pack(packer, operator)?;
    let tile_bytes = u64::from(entry.pixels) * u64::from(entry.channels()) * 4;
    let partial_bytes = match u64::from(constants.splits) {
        splits @ 2.. if entry.apart => entry.tiles(&product) * splits * tile_bytes,
        _ => 0,
    };
    Ok(Box::new(StreamWgmma {
        operator: operator.clone(),
        entry,
        constants,
        partial_bytes,
    }))
}

impl Kernel for StreamWgmma {
    fn workspace(&self) -> u64 {
        workspace_of(self.partial_bytes)
    }

    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let params = params(
            at,
            &self.operator,
            &product,
            region,
            (self.entry.pixels, self.entry.channels()),
            &self.constants,
        )?;
        let splits = self.constants.splits;
        if self.partial_bytes > 0 {
            let tiles = params.tiles();
            let params = Params {
                product: params,
                partials: at.scratch(self.partial_bytes)?.address,
                counters: at.counters(COUNTER_BYTES)?.address,
                padding: [0; 6],
            };
            // No more blocks than find places at once: what comes next of a block's own loads while what came before is summed.
            let places = match at.multiprocessors {
                0 => tiles * splits,
                multiprocessors => multiprocessors * TOGETHER,
            };
            let launch = Launch::new(
                "stream_wgmma",
                self.entry.function(None),
                (tiles * splits).min(places),
                width,
                self.entry.threads(),
                &params,
            );
            return Ok(vec![Launch {
                shared: self.entry.shared(),
                ..launch
            }]);
        }
        // A cluster is not cut: where the width has no room for one, a block sums the chains of its tiles in turn.
        let chains = match (splits, width) {
            (1, _) => Chains::One,
            (_, 1..) if u32::from(width) < splits => Chains::InTurn,
            _ => Chains::Cluster,
        };
        let cluster = if chains == Chains::Cluster { splits } else { 1 };
        let clusters = match u32::from(width) / cluster {
            0 => params.tiles(),
            most => params.tiles().min(most),
        };
        let launch = Launch::new(
            "stream_wgmma",
            self.entry.function(Some(chains)),
            clusters * cluster,
            0,
            self.entry.threads(),
            &params,
        );
        Ok(vec![Launch {
            shared: self.entry.shared(),
            cluster,
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<Product>() + 64);
    }

    #[test]
    fn two_blocks_of_every_entry_share_an_sm() {
        // 228 KiB of an SM with 1 KiB kept for each block.
        for entry in crate::plan::tactic::stream_wgmma::MENU {
            assert!(TOGETHER * (entry.shared() + 1024) <= 228 << 10, "{entry:?}: {}", entry.shared());
        }
    }
}
