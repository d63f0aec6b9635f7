//! Grouped convolutions of 3 by 3 neighbours whose taps share a patch: the launches of `kernels/conv_grouped.cu`.

use super::constants::Constant;
use super::conv_wgmma::is_plain;
use super::epilogue::{Epilogue, pack_bias};
use super::patches::map;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, TensorMap, TiledMap, blocks};
use crate::plan::format::{Operator, Plan};
use crate::plan::tactic::conv_3x3::TAPS;
use crate::plan::tactic::conv_grouped::{self as tiles, Form, Grouped, GroupedTile, SIDE, STEP_K};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};
use half::f16;

/// Values of K, and output channels, of a core matrix.
const CORE: u32 = 8;

/// `ConvGroupedParams` of `kernels/conv_grouped.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
struct Params {
    image: TensorMap,
    weights: u64,
    channels: u32,
    channel_tiles: u32,
    pad: [u32; 2],
    columns: u32,
    first_batch: u32,
    first_row: u32,
    end_row: u32,
    across: u32,
    down: u32,
    tiles: u32,
    stages: u32,
    epilogue: Epilogue,
    end: [u32; 14],
}

/// An operator bound to an entry of the menu.
struct ConvGrouped {
    operator: Operator,
    entry: GroupedTile,
    weights: PackId,
    bias: Option<PackId>,
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *GroupedTile::of(operator.tactic).ok_or(BindError::Tactic("conv_grouped has no such tile"))?;
    let grouped = product(packer.plan, operator)?;
    let (form, blocks) = (grouped.form, grouped.channel_tiles());
    let channels = grouped.product.out.extents[3];
    let name = format!("slabs of {} in groups of {}", form.slab, form.group);
    let weights = Constant::new(packer, grouped.product.weights)?;
    Ok(Box::new(ConvGrouped {
        operator: operator.clone(),
        entry,
        weights: weights.pack(packer, &name, |read| pack_weights(&form, blocks, channels, read))?,
        bias: pack_bias(packer, &grouped.product)?,
    }))
}

fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Grouped<'a>, BindError> {
    tiles::product(plan, operator).map_err(|_| BindError::Tactic("conv_grouped does not compute such convolutions"))
}

/// Weights in the order in which they are multiplied: of each block of channels, tap by tap, the steps along K of each slab. A
/// matrix has 8 values of K, then the others; of each the core matrices of 8 output channels, one behind the other. What stands
/// between different groups, and behind the last channel, is zero.
fn pack_weights(form: &Form, blocks: u32, channels: u32, read: &dyn Fn(&[u32]) -> f32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((blocks * form.weight_bytes()) as usize);
    let slabs = (0..blocks).flat_map(|block| (0..TAPS * TAPS).flat_map(move |tap| (0..form.slabs()).map(move |slab| (block, tap, slab))));
    for (block, tap, slab) in slabs {
        let first = block * form.channels() + slab * form.slab;
        for k in (0..form.steps() * STEP_K).step_by(CORE as usize) {
            for output in first..first + form.slab {
                for input in first + k..first + k + CORE {
                    let inside = output < channels && output / form.group == input / form.group;
                    let value = match inside {
                        true => read(&[output, input % form.group, tap / TAPS, tap % TAPS]),
                        false => 0.0,
                    };
                    bytes.extend_from_slice(&f16::from_f32(value).to_le_bytes());
                }
            }
        }
    }
    bytes
}

/// The input in planes of patches: 64 channels of every `stride`-th column.
fn image(grouped: &Grouped<'_>, address: u64) -> TiledMap {
    let ([rows, columns], stride) = (grouped.form.plane(), grouped.form.stride);
    let [batch, row, pixel, ..] = grouped.product.x.strides;
    // The engine loads as many positions as steps fit a box.
    let whole = map(address, grouped.product.x.extents, [batch, row, pixel], [1, rows, columns * stride]);
    TiledMap {
        steps: vec![1, stride, 1, 1],
        ..whole
    }
}

impl Kernel for ConvGrouped {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let grouped = product(at.plan, &self.operator)?;
        let (product, form) = (&grouped.product, &grouped.form);
        let [samples, rows, columns, channels] = product.out.extents;
        if region.batch.end > samples || region.rows.end > rows {
            return Err(BindError::Reference);
        }
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let across = columns.div_ceil(SIDE);
        let down = (region.rows.len() as u32).div_ceil(SIDE);
        let params = Params {
            image: at.maps.tiled(&image(&grouped, at.view(product.input)?))?,
            weights: at.pack(self.weights)?.address,
            channels,
            channel_tiles: grouped.channel_tiles(),
            pad: [product.window.pad_begin[0], product.window.pad_begin[1]],
            columns,
            first_batch: region.batch.start,
            first_row: region.rows.start,
            end_row: region.rows.end,
            across,
            down,
            // No more than the pixels, which are below 2^31.
            tiles: across * down * region.batch.len() as u32,
            stages: self.entry.stages(form),
            epilogue: Epilogue::new(at, &self.operator, product, self.bias, region)?,
            end: [0; 14],
        };
        // More blocks than there is room for would only load the weights more often. They are dealt to the channels in turn.
        let most = blocks(at.rooms().saturating_mul(self.entry.together), width);
        let lanes = params.channel_tiles.min(most);
        let count = (most / lanes).min(params.tiles) * lanes;
        let function = GroupedTile::function(form, is_plain(&params.epilogue, channels));
        let launch = Launch::new("conv_grouped", function, count, 0, self.entry.threads(), &params);
        Ok(vec![Launch {
            shared: self.entry.shared(form),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests;
