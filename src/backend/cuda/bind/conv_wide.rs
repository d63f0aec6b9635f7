//! Convolutions of 3 by 3 neighbours in wide tiles: the launches of `kernels/conv_wide.cu`.

use super::conv_wgmma::{is_clip, is_plain};
use super::epilogue::{ChannelsLast, Epilogue, flags};
use super::patches::{Constants, map};
use super::{Addresses, BindError, Launch, TensorMap, TiledMap};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_3x3::{CHANNELS, PIXEL_BYTES, k_blocks};
use crate::plan::tactic::conv_patch::{PatchTile, Store};
use crate::plan::tactic::conv_wide::{Image, Layout, items};
use crate::plan::tactic::product::{Pixels, Product};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Threads of a block: two warpgroups that multiply, and one that loads.
const THREADS: u32 = 3 * 128;
/// Pixels of a group.
const GROUP_PIXELS: u32 = 8;

/// `ConvWideParams` of `kernels/conv_wide.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
struct Params {
    image: TensorMap,
    output: TensorMap,
    joined: TensorMap,
    weights: u64,
    channels: u32,
    ranges: u32,
    items: u32,
    units: u32,
    across: u32,
    down: u32,
    step: [u32; 3],
    first_batch: u32,
    first_row: u32,
    pad: [u32; 2],
    k_blocks: u32,
    row_bytes: u32,
    group_bytes: u32,
    patch_bytes: u32,
    patch_stage: u32,
    sets: u32,
    places: u32,
    place_bytes: u32,
    tile_bytes: u32,
    weight_stages: u32,
    unused: u32,
    epilogue: Epilogue,
    end: [u32; 2],
}

/// The map of a chunk's tiles in the output or the joined tensor, which end where the chunk does; `None` where a tensor repeats.
fn tiles(tensor: &ChannelsLast, out: &Pixels, region: &Region, layout: &Layout) -> Option<TiledMap> {
    let [samples, rows, columns, channels] = out.extents;
    let strides = [(tensor.batch, samples), (tensor.row, rows), (tensor.pixel, columns)];
    let steps = strides.iter().all(|&(stride, extent)| extent <= 1 || stride > 0);
    let [box_columns, box_rows] = layout.stored;
    let strides = strides.map(|(stride, extent)| if extent <= 1 { 0 } else { stride });
    let extents = [region.batch.end, region.rows.end, columns, channels];
    steps.then(|| map(tensor.address, extents, strides, [layout.step[2], box_rows, box_columns]))
}

/// The launch of a chunk in tiles of an entry, of at most so many blocks; `None` if its tail or its pixels want another.
pub(super) fn launch(
    at: &Addresses<'_>,
    operator: &Operator,
    product: &Product<'_>,
    constants: Constants,
    entry: &PatchTile,
    region: &Region,
    most: u32,
) -> Result<Option<Launch>, BindError> {
    let [samples, rows, _, channels] = product.out.extents;
    if region.batch.end > samples || region.rows.end > rows || region.is_empty() {
        return Err(BindError::Reference);
    }
    let (pixels, k_blocks) = (entry.pixels(), k_blocks(product));
    let layout = Layout::of(Image::of(product), pixels, region.batch.len() as u32, region.rows.len() as u32);
    let Some((layout, room)) = layout.and_then(|l| l.room(pixels, k_blocks).map(|r| (l, r))) else {
        return Ok(None);
    };
    let epilogue = Epilogue::new(at, operator, product, constants.bias, region)?;
    if !is_clip(&epilogue) || !is_plain(&epilogue, channels) {
        return Ok(None);
    }
    let joins = epilogue.flags & flags::JOINS != 0;
    let output = tiles(&epilogue.output, &product.out, region, &layout);
    let joined = if joins {
        tiles(&epilogue.joined, &product.out, region, &layout)
    } else {
        output.clone()
    };
    let (Some(output), Some(joined)) = (output, joined) else {
        return Ok(None);
    };
    let items = items(layout.count(), channels, u64::from(most));
    let ranges = channels / CHANNELS / items;
    let units = u32::try_from(layout.count() * u64::from(ranges)).map_err(|_| BindError::Large("the number of tiles"))?;
    let image = map(
        at.view(product.input)?,
        product.x.extents,
        [product.x.strides[0], product.x.strides[1], product.x.strides[2]],
        [layout.step[2], layout.patch_rows, layout.pitch],
    );
    let row_bytes = layout.pitch * PIXEL_BYTES;
    let params = Params {
        image: at.maps.tiled(&image)?,
        output: at.maps.tiled(&output)?,
        joined: at.maps.tiled(&joined)?,
        weights: at.pack(constants.weights)?.address,
        channels,
        ranges,
        items,
        units,
        across: layout.tiles[0],
        down: layout.tiles[1],
        step: layout.step,
        first_batch: region.batch.start,
        first_row: region.rows.start,
        pad: [product.window.pad_begin[0], product.window.pad_begin[1]],
        k_blocks,
        row_bytes,
        group_bytes: if layout.dense { GROUP_PIXELS * PIXEL_BYTES } else { row_bytes },
        patch_bytes: layout.patch_bytes(),
        patch_stage: layout.patch_stage(),
        sets: room.sets,
        places: room.places,
        place_bytes: layout.place_bytes(pixels),
        tile_bytes: layout.tile_bytes(),
        weight_stages: room.weight_stages,
        unused: 0,
        epilogue,
        end: [0; 2],
    };
    let launch = Launch::new("conv_wide", entry.function(Store::Plain), units.min(most), 0, THREADS, &params);
    Ok(Some(Launch {
        shared: room.bytes(&layout, pixels, k_blocks),
        ..launch
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn params_have_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 496 + size_of::<Epilogue>());
        assert_eq!((offset_of!(Params, weights), offset_of!(Params, epilogue)), (384, 488));
        assert_eq!((offset_of!(Params, step), offset_of!(Params, k_blocks)), (416, 444));
    }
}
