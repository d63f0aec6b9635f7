//! First layers: the launches of `kernels/stem.cu` and `kernels/stem_band.cu`.
//!
//! A chunk is cut into items, a segment of output pixels of a row by 64 output channels each; a block makes a run of them,
//! whose rows follow each other downwards, so that it reads an input row once. Or it is cut into bands of a few rows of a segment.

use super::constants::Constant;
use super::conv_wgmma::is_plain;
use super::epilogue::{Epilogue, GROUP, flags, function, pack_bias};
use super::views::Divisor;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, Swizzle, TensorMap, TiledMap};
use crate::plan::format::{Operator, View};
use crate::plan::tactic::product::Product;
use crate::plan::tactic::stem::{BLOCK_CHANNELS, MATRIX_BYTES, QUAD, StemTile, blocks_across, body, product, quads};
use crate::primitive::Region;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};
use half::f16;

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Threads of a block with a ring: two warpgroups that multiply, and 8 warps that load.
const THREADS: u32 = 2 * WARPGROUP + 8 * 32;
/// Rows of a core matrix, and values of K in each.
const CORE: usize = 8;

const MISFIT: BindError = BindError::Tactic("stem computes first layers in f16 with constant weights");

/// `Stem` of `kernels/stem_params.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Params {
    output: TensorMap,
    x: u64,
    weights: u64,
    x_batch: i64,
    x_row: i64,
    x_pixel: i32,
    x_channel: i32,
    x_single: u32,
    x_channels: u32,
    height: u32,
    width: u32,
    kernel_rows: u32,
    stride_rows: u32,
    stride_pixels: u32,
    pad_rows: u32,
    pad_pixels: u32,
    quads: u32,
    quad_bytes: u32,
    half_bytes: u32,
    row_pixels: u32,
    row_bytes: u32,
    ring_rows: u32,
    ahead: u32,
    rows: Divisor,
    segments: Divisor,
    blocks_across: u32,
    items: u32,
    first_batch: u32,
    first_row: u32,
    columns: u32,
    channels: u32,
    plain: u32,
    padding: u32,
    epilogue: Epilogue,
    row_end: u32,
    end: [u32; 3],
}

/// An operator bound to an entry of the menu.
struct Stem {
    /// The operator without the copy of its picture.
    operator: Operator,
    entry: StemTile,
    weights: PackId,
    bias: Option<PackId>,
}

/// Binds a first layer whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *StemTile::of(operator.tactic).ok_or(BindError::Tactic("stem has no such segment"))?;
    let operator = body(packer.plan, operator).ok_or(MISFIT)?;
    let product = product(packer.plan, &operator).map_err(|_| MISFIT)?;
    let (weights, bias) = (pack_weights(packer, &product)?, pack_bias(packer, &product)?);
    Ok(Box::new(Stem {
        operator,
        entry,
        weights,
        bias,
    }))
}

/// Packs weights in the order in which they are multiplied: for each 64 output channels, for each kernel row, for each quad of
/// its taps, a matrix.
fn pack_weights(packer: &Packer<'_>, product: &Product<'_>) -> Result<PackId, BindError> {
    let [rows, columns, _] = product.window.kernel;
    let [channels, outputs] = [product.x.extents[3], product.out.extents[3]];
    let (quads, blocks) = (quads(product), blocks_across(product));
    Constant::new(packer, product.weights)?.pack(packer, "quads", |weight| {
        let matrices = (0..blocks * rows * quads).flat_map(|index| {
            let (quad, row, block) = (index % quads, index / quads % rows, index / quads / rows);
            matrix(move |output, tap, channel| {
                let (output, column) = (block * BLOCK_CHANNELS + output, quad * QUAD + tap);
                let inside = output < outputs && column < columns && channel < channels;
                if inside { weight(&[output, channel, row, column]) } else { 0.0 }
            })
        });
        matrices.collect()
    })
}

/// The bytes of the matrix of 64 output channels and the 16 values of K of a quad: 8 values of K, then the others; of each the
/// core matrices of 8 output channels, one behind the other.
fn matrix(weight: impl Fn(u32, u32, u32) -> f32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MATRIX_BYTES as usize);
    for half in 0..2 {
        for output in 0..BLOCK_CHANNELS {
            for k in half * CORE as u32..(half + 1) * CORE as u32 {
                bytes.extend_from_slice(&f16::from_f32(weight(output, k / QUAD, k % QUAD)).to_le_bytes());
            }
        }
    }
    bytes
}

/// True if sums may be rounded to halves before they are turned round, and the copy engine stores them.
fn stores_plainly(epilogue: &Epilogue, channels: u32) -> bool {
    // Behind a rounded head any tail may follow on the turned halves.
    let tail = epilogue.function == function::TAIL && channels.is_multiple_of(GROUP as u32);
    let rounded = flags::WIDE_STORE | flags::ROUNDED;
    epilogue.flags & flags::JOINS == 0 && (is_plain(epilogue, channels) || tail && epilogue.flags & rounded == rounded)
}

/// The output as the copy engine stores it: 64 channels of a segment's pixels at a time.
fn output_map(product: &Product<'_>, address: u64, pixels: u16) -> TiledMap {
    let [samples, rows, columns, channels] = product.out.extents.map(u64::from);
    let [batch, row, pixel, _] = product.out.strides;
    // An axis of one position is never stepped along, but the map wants a step.
    let step = |s: i64| if s == 0 { channels * 2 } else { s as u64 * 2 };
    TiledMap {
        address,
        extents: vec![channels, columns, rows, samples],
        strides: [pixel, row, batch].map(step).to_vec(),
        tile: vec![BLOCK_CHANNELS, u32::from(pixels), 1, 1],
        steps: vec![1; 4],
        swizzle: Swizzle::B128,
    }
}

fn narrow<T: TryInto<i32>>(value: T) -> Result<i32, BindError> {
    value.try_into().map_err(|_| BindError::Large("a stride of the input"))
}

impl Stem {
    /// The parameters of a chunk, the bytes of shared memory of a block, and the entry that it is launched with.
    fn params(&self, at: &Addresses<'_>, region: &Region) -> Result<(Params, u32, StemTile), BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let (window, [samples, rows, columns, channels]) = (&product.window, product.out.extents);
        if region.batch.end > samples || region.rows.end > rows || region.is_empty() {
            return Err(BindError::Reference);
        }
        let input: &View = product.input;
        let [x_batch, x_row, x_pixel, x_channel] = product.x.strides;
        let [_, height, width, x_channels] = product.x.extents;
        let (chunk_samples, chunk_rows) = (region.batch.len() as u32, region.rows.len() as u32);
        let segments = columns.div_ceil(u32::from(self.entry.pixels));
        let epilogue = Epilogue::new(at, &self.operator, &product, self.bias, region)?;
        let plain = stores_plainly(&epilogue, channels);
        let entry = match plain && epilogue.function < function::SIGMOID {
            false if self.entry.band.is_some() => self.entry.ring(),
            _ => self.entry,
        };
        let lie = entry.rows(&product).ok_or(MISFIT)?;
        let blocks_across = blocks_across(&product);
        // Of the whole output they are below 2^31.
        let (downwards, items) = match entry.band {
            None => (chunk_rows, chunk_samples * chunk_rows * segments * blocks_across),
            Some(_) => (
                chunk_rows.div_ceil(lie.ahead),
                chunk_samples * chunk_rows.div_ceil(lie.ahead) * segments,
            ),
        };
        let output = match plain {
            true => at.maps.tiled(&output_map(&product, epilogue.output.address, self.entry.pixels))?,
            false => TensorMap([0; 16]),
        };
        let params = Params {
            output,
            x: at.view(input)?,
            weights: at.pack(self.weights)?.address,
            x_batch,
            x_row,
            x_pixel: narrow(x_pixel)?,
            x_channel: narrow(x_channel)?,
            x_single: u32::from(input.dtype == DType::F32),
            x_channels,
            height,
            width,
            kernel_rows: window.kernel[0],
            stride_rows: window.stride[0],
            stride_pixels: window.stride[1],
            pad_rows: window.pad_begin[0],
            pad_pixels: window.pad_begin[1],
            quads: quads(&product),
            quad_bytes: lie.quad_bytes,
            half_bytes: lie.half_bytes,
            row_pixels: lie.pixels,
            row_bytes: lie.bytes,
            ring_rows: lie.room,
            ahead: lie.ahead,
            rows: Divisor::new(downwards),
            segments: Divisor::new(segments),
            blocks_across,
            items,
            first_batch: region.batch.start,
            first_row: region.rows.start,
            columns,
            channels,
            plain: u32::from(plain),
            padding: 0,
            epilogue,
            row_end: region.rows.end,
            end: [0; 3],
        };
        Ok((params, lie.shared, entry))
    }
}

impl Kernel for Stem {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (params, shared, entry) = self.params(at, region)?;
        let (blocks, threads) = match entry.band {
            // More blocks than there are multiprocessors would only load more rows twice.
            None => (u32::from(entry.blocks), THREADS),
            Some(band) => {
                let most = match at.multiprocessors {
                    0 => u32::from(entry.blocks),
                    processors => processors.saturating_mul(u32::from(band.together)),
                };
                (most, u32::from(band.groups) * WARPGROUP)
            }
        };
        let blocks = params.items.min(blocks);
        let mut function = entry.function();
        if entry.band.is_some() && params.epilogue.function >= function::SILU {
            function.push_str("_curved");
        }
        let launch = Launch::new(entry.unit(), function, blocks, width, threads, &params);
        Ok(vec![Launch { shared, ..launch }])
    }
}

#[cfg(test)]
mod tests;
