//! Convolutions and products with constant matrices on `wgmma`: the launches of `kernels/conv_wgmma.cu`.
//!
//! Pixels come through an im2col map of the whole input, so a chunk is said by where its tiles begin; weights are packed in
//! the order in which the blocks read them, already swizzled, and need no map.

use super::epilogue::{ChannelsLast, Constants, Epilogue, GROUP, flags, function, pack_bias};
use super::swizzle::{Halves, swizzled_blocks};
use super::{Addresses, BindError, Im2colMap, Kernel, Launch, PackId, Packer, Swizzle, TensorMap, TiledMap};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_wgmma::{BLOCK_K, Chains, Kept, Sharing, WgmmaTile, corners, k_blocks, product};
use crate::plan::tactic::product::Product;
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Rows that a warp stores at a time, and channels.
const STRIP: [u32; 2] = [16, 64];
/// Bytes of a row of a K block.
const K_BYTES: u32 = BLOCK_K * 2;
/// Bytes of a warp's strip, in which it turns its sums round.
const STRIP_BYTES: u32 = 16 * 64 * 2;
/// Bytes kept for barriers.
const BARRIER_BYTES: u32 = 256;
/// The same where weights are kept.
const KEPT_BARRIER_BYTES: u32 = 512;

/// `ConvWgmmaParams` of `kernels/conv_wgmma_params.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Params {
    image: TensorMap,
    weights: u64,
    k_blocks: u32,
    channel_blocks: u32,
    splits: u32,
    kernel_columns: u32,
    dilation: [u32; 2],
    stride: [u32; 2],
    pad: [u32; 2],
    walk_rows: u32,
    walk_columns: u32,
    rows: u32,
    columns: u32,
    channels: u32,
    first_pixel: u32,
    run_pixels: u32,
    run_stride: u32,
    run_tiles: u32,
    channel_tiles: u32,
    tiles: u32,
    height: u32,
    epilogue: Epilogue,
    end: [u32; 4],
}

/// `ConvPingPongParams` of `kernels/conv_wgmma_pingpong.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct PingPongParams {
    product: Params,
    output: TensorMap,
    joined: TensorMap,
}

impl WgmmaTile {
    /// Bytes of shared memory of a block: stages, barriers, and strips or, in a cluster, the sums of as much as a tile; or of
    /// warpgroups with tiles of their own weights that are kept, stages, the tiles that are stored, and barriers.
    fn shared(&self) -> u32 {
        let [pixels, channels] = [self.tile.0, self.tile.1].map(u32::from);
        let stages = u32::from(self.stages) * (pixels + channels) * K_BYTES;
        match self.sharing {
            Sharing::PingPong { warpgroups, kept, .. } => {
                let outputs = u32::from(warpgroups) * pixels * channels * 2;
                match kept {
                    Some(Kept { k_blocks, buffers }) => {
                        let operands = (u32::from(k_blocks) * channels + u32::from(self.stages) * pixels) * K_BYTES;
                        operands + outputs * u32::from(buffers) + KEPT_BARRIER_BYTES
                    }
                    None => stages + outputs + BARRIER_BYTES,
                }
            }
            Sharing::Together => {
                let sums = match self.chains {
                    Chains::Cluster => pixels * channels * 4,
                    _ => pixels / 16 * STRIP_BYTES,
                };
                stages + BARRIER_BYTES + sums
            }
        }
    }

    /// Clusters of a launch over so many tiles, `most` of them if that is not 0. Where chains need no cluster, no more blocks than
    /// find places at once: those behind them would begin with an empty ring where one that stays has its next tile's stages.
    fn clusters(&self, tiles: u32, most: u32, multiprocessors: u32) -> u32 {
        let places = match self.chains {
            Chains::Cluster => 0,
            _ => multiprocessors.saturating_mul(u32::from(self.blocks)),
        };
        match if most == 0 { places } else { most } {
            0 => tiles,
            most => tiles.min(most),
        }
    }
}

/// An operator bound to an entry of the menu.
pub(super) struct ConvWgmma {
    operator: Operator,
    entry: WgmmaTile,
    constants: Plain,
}

/// What a product's launches need besides the operator.
pub(super) struct Plain {
    /// Packed weights.
    pub weights: PackId,
    /// Packed bias.
    pub bias: Option<PackId>,
    /// Chains of products.
    pub splits: u32,
}

impl Plain {
    /// Packs the constants of a product.
    pub fn pack(packer: &Packer<'_>, operator: &Operator) -> Result<Plain, BindError> {
        let product = product(packer.plan, operator).map_err(|_| MISFIT)?;
        Ok(Plain {
            weights: pack_weights(packer, &product)?,
            bias: pack_bias(packer, &product)?,
            splits: u32::from(operator.class.split_k.max(1)),
        })
    }
}

/// Binds a convolution or matrix product whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *WgmmaTile::of(operator.tactic).ok_or(BindError::Tactic("conv_wgmma has no such tile"))?;
    Ok(Box::new(ConvWgmma::new(packer, operator, entry)?))
}

pub(super) const MISFIT: BindError = BindError::Tactic("conv_wgmma computes products of f16 with constant weights and aligned pixels");

/// Packs weights as the blocks copy them (see [`swizzled_blocks`]).
pub(super) fn pack_weights(packer: &Packer<'_>, product: &Product<'_>) -> Result<PackId, BindError> {
    let view = product.weights;
    let section = packer.section(view).ok_or(BindError::Reference)?;
    let bytes = Constants::new(packer.contents(section)?, view)?.range();
    let (layout, rank) = (view.layout, view.layout.shape.rank());
    // Strides of output channel, tap row, tap column and input channel; axes of extent 1 are never stepped along.
    let strides = match product.matrix {
        true => [layout.stride(rank - 1), 0, 0, layout.stride(rank - 2)],
        false => [0, 2, 3, 1].map(|axis| layout.stride(axis)),
    };
    let [kernel_rows, kernel_columns, _] = product.window.kernel.map(|k| k as usize);
    let extents = [
        product.out.extents[3] as usize,
        kernel_rows,
        kernel_columns,
        product.x.extents[3] as usize,
    ];
    let name = format!(
        "blocks {} {:?} {:?} {}",
        view.origin,
        layout.shape.dims(),
        layout.strides(),
        product.matrix
    );
    packer.pack(section, name, |section| {
        let source = Halves {
            bytes: section.get(bytes).unwrap_or_default(),
            strides: strides.map(|s| s as usize),
        };
        swizzled_blocks(extents, &source)
    })
}

/// How the copy engine walks the input.
struct Walk {
    /// Images, rows and columns that output pixels are counted through.
    grid: [u32; 3],
    map: Im2colMap,
}

/// Where one tap without stride or padding meets pixels that follow each other, the input is one long row.
fn walk(product: &Product<'_>, address: u64, pixels: u32) -> Walk {
    let (x, window) = (&product.x, &product.window);
    let plain = window.taps() == 1 && (0..2).all(|a| window.stride[a] == 1 && window.pad_begin[a] == 0 && window.pad_end[a] == 0);
    let [images, rows, columns, channels] = x.extents;
    let row = x.flat_step().filter(|_| plain);
    let grid = match row {
        Some(_) => [1, 1, images * rows * columns],
        None => [product.out.extents[0], product.out.extents[1], product.out.extents[2]],
    };
    let extents = match row {
        Some(_) => [channels, grid[2], 1, 1],
        None => [channels, columns, rows, images],
    };
    let steps = match row {
        Some(step) => [step, 0, 0],
        None => [x.strides[2], x.strides[1], x.strides[0]],
    };
    // An axis of one position is never stepped along, but the map wants a step.
    let whole = u64::from(channels.next_multiple_of(GROUP as u32));
    let strides = steps.map(|s| if s == 0 { whole * 2 } else { s as u64 * 2 });
    let [[top, bottom], [left, right]] = match row {
        Some(_) => [[0, 0]; 2],
        None => [0, 1].map(|axis| corners(product, axis)),
    };
    let map = Im2colMap {
        address,
        extents: extents.map(u64::from),
        strides,
        lower: [left as i32, top as i32],
        upper: [right as i32, bottom as i32],
        channels: BLOCK_K,
        pixels,
        steps: [1, window.stride[1], window.stride[0], 1],
        swizzle: Swizzle::B128,
    };
    Walk { grid, map }
}

/// The map of a product's input that begins at `address`, for tiles of so many pixels.
pub(super) fn image(at: &Addresses<'_>, product: &Product<'_>, address: u64, pixels: u32) -> Result<TensorMap, BindError> {
    at.maps.im2col(&walk(product, address, pixels).map)
}

/// The pixels of a region: runs of pixels that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runs {
    first: u32,
    pixels: u32,
    stride: u32,
    count: u32,
}

impl Runs {
    /// Pixels are counted through samples, rows and columns of the whole output.
    fn of(region: &Region, [_, rows, columns]: [u32; 3]) -> Runs {
        let (samples, image) = (region.batch.len() as u32, rows * columns);
        let first = region.batch.start * image + region.rows.start * columns;
        let band = region.rows.len() as u32 * columns;
        if band == image {
            return Runs {
                first,
                pixels: samples * image,
                stride: 0,
                count: 1,
            };
        }
        Runs {
            first,
            pixels: band,
            stride: image,
            count: samples,
        }
    }
}

impl PingPongParams {
    /// The same with pixels that come through another map.
    pub(super) fn with_image(mut self, image: TensorMap) -> PingPongParams {
        self.product.image = image;
        self
    }
}

impl Params {
    /// What follows the sums.
    pub(super) fn epilogue(&self) -> &Epilogue {
        &self.epilogue
    }

    /// Tiles of the chunk.
    pub(super) fn tiles(&self) -> u32 {
        self.tiles
    }

    /// The pixel behind the last one of a chunk whose pixels follow each other.
    pub(super) fn end_pixel(&self) -> u32 {
        self.first_pixel + self.run_pixels
    }
}

/// The parameters of a chunk for tiles of pixels by output channels.
pub(super) fn params(
    at: &Addresses<'_>,
    operator: &Operator,
    product: &Product<'_>,
    region: &Region,
    tile: (u16, u16),
    constants: &Plain,
) -> Result<Params, BindError> {
    let [samples, rows, columns, channels] = product.out.extents;
    if region.batch.end > samples || region.rows.end > rows || region.is_empty() {
        return Err(BindError::Reference);
    }
    let [tile_pixels, tile_channels] = [tile.0, tile.1].map(u32::from);
    let walk = walk(product, at.view(product.input)?, tile_pixels);
    let runs = Runs::of(region, [samples, rows, columns]);
    let run_tiles = runs.pixels.div_ceil(tile_pixels);
    let channel_tiles = channels.div_ceil(tile_channels);
    let tiles = runs.count.checked_mul(run_tiles).and_then(|n| n.checked_mul(channel_tiles));
    let window = &product.window;
    Ok(Params {
        image: at.maps.im2col(&walk.map)?,
        weights: at.pack(constants.weights)?.address,
        k_blocks: k_blocks(product) as u32,
        channel_blocks: product.x.extents[3].div_ceil(BLOCK_K),
        splits: constants.splits,
        kernel_columns: window.kernel[1],
        dilation: [window.dilation[0], window.dilation[1]],
        stride: [window.stride[0], window.stride[1]],
        pad: [window.pad_begin[0], window.pad_begin[1]],
        walk_rows: walk.grid[1],
        walk_columns: walk.grid[2],
        rows,
        columns,
        channels,
        first_pixel: runs.first,
        run_pixels: runs.pixels,
        run_stride: runs.stride,
        run_tiles,
        channel_tiles,
        tiles: tiles.ok_or(BindError::Large("the number of tiles"))?,
        height: if window.dilation[0] > 1 { product.x.extents[1] } else { 0 },
        epilogue: Epilogue::new(at, operator, product, constants.bias, region)?,
        end: [0; 4],
    })
}

/// A map of the chunk's pixels in the output or the joined tensor, which end where the chunk does.
fn pixel_map(tensor: &ChannelsLast, params: &Params, rows: u32) -> TiledMap {
    TiledMap {
        address: tensor.address,
        extents: vec![u64::from(params.channels), u64::from(params.first_pixel + params.run_pixels)],
        strides: vec![tensor.pixel as u64 * 2],
        tile: vec![STRIP[1], rows],
        steps: vec![1, 1],
        swizzle: Swizzle::B128,
    }
}

/// The parameters of kernels whose results the copy engine stores; none where a chunk's tail or its pixels want another: pixels follow each
/// other at one distance, tails are stored the plain way, and functions that bounds do not express are served where there are
/// `functions` and nothing is joined. A copy brings `rows` of what is joined.
pub(super) fn stored_by_copies(
    at: &Addresses<'_>,
    params: Params,
    functions: bool,
    rows: u32,
) -> Result<Option<PingPongParams>, BindError> {
    let epilogue = &params.epilogue;
    let flat = epilogue.flags & flags::FLAT != 0 && params.run_stride == 0 && epilogue.output.pixel > 0;
    let joins = epilogue.flags & flags::JOINS != 0;
    let function = is_clip(epilogue) || (functions && !joins);
    if !function || !flat || !is_plain(epilogue, params.channels) {
        return Ok(None);
    }
    let output = at.maps.tiled(&pixel_map(&epilogue.output, &params, STRIP[0]))?;
    let joined = match joins {
        true if epilogue.joined.pixel > 0 => at.maps.tiled(&pixel_map(&epilogue.joined, &params, rows))?,
        true => return Ok(None),
        false => TensorMap([0; 16]),
    };
    Ok(Some(PingPongParams {
        product: params,
        output,
        joined,
    }))
}

impl ConvWgmma {
    /// Binds an operator to an entry of the menu.
    pub(super) fn new(packer: &Packer<'_>, operator: &Operator, entry: WgmmaTile) -> Result<ConvWgmma, BindError> {
        Ok(ConvWgmma {
            operator: operator.clone(),
            entry,
            constants: Plain::pack(packer, operator)?,
        })
    }

    /// The parameters of a chunk for tiles of pixels by output channels.
    pub(super) fn params(&self, at: &Addresses<'_>, region: &Region, tile: (u16, u16)) -> Result<Params, BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        params(at, &self.operator, &product, region, tile, &self.constants)
    }

    /// The launch of an entry whose warpgroups have tiles of their own; none where its tail or its pixels want another, or weights
    /// that are kept have no block for every tile of channels, or the width has no room for a pair.
    fn pingpong(&self, at: &Addresses<'_>, params: Params, width: u16) -> Result<Option<Launch>, BindError> {
        let places = match u32::from(width) {
            0 => at.multiprocessors,
            width => width,
        };
        let (kept, mates) = (self.entry.kept().is_some(), self.entry.mates());
        let blocks = match kept {
            true => (places / params.channel_tiles).min(params.run_tiles) * params.channel_tiles,
            false => places.min(params.tiles) / mates * mates,
        };
        if blocks == 0 {
            return Ok(None);
        }
        let Some(params) = stored_by_copies(at, params, !kept, self.entry.tile.0.into())? else {
            return Ok(None);
        };
        let unit = if kept { "conv_wgmma_kept" } else { "conv_wgmma_pingpong" };
        let launch = Launch::new(unit, self.entry.function(true), blocks, 0, self.entry.threads(), &params);
        Ok(Some(Launch {
            shared: self.entry.shared(),
            cluster: mates,
            ..launch
        }))
    }
}

impl Kernel for ConvWgmma {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let params = |entry: &WgmmaTile| self.params(at, region, entry.tile);
        let own = matches!(self.entry.sharing, Sharing::PingPong { .. });
        if own && let Some(launch) = self.pingpong(at, params(&self.entry)?, width)? {
            return Ok(vec![launch]);
        }
        // A cluster is not cut: where the width has no room for one, a block sums the chains of its tiles in turn.
        let narrow = width != 0 && u32::from(width) < self.constants.splits;
        let entry = match self.entry.chains {
            _ if own => *self.entry.together().ok_or(MISFIT)?,
            Chains::Cluster if narrow => *self.entry.without_cluster().ok_or(MISFIT)?,
            _ => self.entry,
        };
        let mut params = params(&entry)?;
        let wide = is_plain(&params.epilogue, params.channels);
        let even = !wide && is_even(&params.epilogue, params.channels);
        if even {
            // Groups of 8 channels may begin at multiples of 16 bytes, but the last one is not whole.
            params.epilogue.flags &= !flags::WIDE_STORE;
        }
        let cluster = if entry.chains == Chains::Cluster {
            self.constants.splits
        } else {
            1
        };
        let clusters = entry.clusters(params.tiles, u32::from(width) / cluster, at.multiprocessors);
        let function = entry.function(wide || even);
        let launch = Launch::new("conv_wgmma", function, clusters * cluster, 0, entry.threads(), &params);
        Ok(vec![Launch {
            shared: entry.shared(),
            cluster,
            ..launch
        }])
    }
}

/// True if bounds alone express the function: `is_clip` of `kernels/conv_wgmma_store.cuh`.
pub(super) fn is_clip(epilogue: &Epilogue) -> bool {
    matches!(epilogue.function, function::IDENTITY | function::RELU | function::CLIP)
}

/// True if sums may be rounded to halves before they are turned round and stored 16 bytes at a time: the conditions of
/// `kernels/conv_wgmma_store.cuh`.
pub(super) fn is_plain(epilogue: &Epilogue, channels: u32) -> bool {
    let joins = epilogue.flags & flags::JOINS != 0;
    let needed =
        flags::WIDE_STORE | if is_clip(epilogue) && !joins { 0 } else { flags::ROUNDED } | if joins { flags::WIDE_JOINED } else { 0 };
    epilogue.flags & needed == needed && epilogue.function != function::TAIL && channels.is_multiple_of(GROUP as u32)
}

/// True if sums may be stored the plain way two channels at a time: of tails that bounds alone express.
fn is_even(epilogue: &Epilogue, channels: u32) -> bool {
    epilogue.flags & (flags::EVEN_STORE | flags::JOINS) == flags::EVEN_STORE && is_clip(epilogue) && channels.is_multiple_of(2)
}

#[cfg(test)]
mod tests;
