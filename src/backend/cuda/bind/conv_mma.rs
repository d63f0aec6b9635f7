//! Convolutions and products with constant matrices on `mma.sync`: the launches of `kernels/conv_mma.cu`.
//!
//! An operator's head is seen as a matrix product of M output pixels, N output channels and K taps times input channels;
//! which part of it a block computes is said by the tactic's entry of the menu.

use super::constants::floats;
use super::epilogue::{Constants, Epilogue, flags, pack_bias};
use super::views::Divisor;
use super::{Addresses, BindError, COUNTER_BYTES, Kernel, Launch, PackId, Packer, workspace_of};
use crate::plan::format::{Operator, Plan, View};
use crate::plan::tactic::conv_mma::{self as tiles, K_BLOCK, Loader, MmaTile, Splits};
use crate::plan::tactic::pictures;
use crate::plan::tactic::product::Product;
use crate::plan::tactic::prologue::{self, Affine, Prologue};
use crate::primitive::Region;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};
use half::f16;

/// Numbers of `Walk` in `kernels/conv_params.cuh`.
mod walk {
    pub const PADDED: u32 = 0;
    pub const INSIDE: u32 = 1;
    pub const FLAT: u32 = 2;
}

/// `Convolution` of `kernels/conv_params.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Convolution {
    x: u64,
    weights: u64,
    partials: u64,
    counters: u64,
    affine: u64,
    x_batch: i32,
    x_row: i32,
    x_pixel: i32,
    x_channel: i32,
    x_single: u32,
    height: u32,
    width: u32,
    kernel_rows: u32,
    stride_rows: u32,
    stride_pixels: u32,
    pad_rows: u32,
    pad_pixels: u32,
    tap_row: i32,
    tap_column: i32,
    step_rows: u32,
    step_columns: u32,
    step_channels: u32,
    dilation_rows: Divisor,
    dilation_pixels: Divisor,
    channels: Divisor,
    kernel_columns: Divisor,
    sample: Divisor,
    row: Divisor,
    tiles_across: Divisor,
    splits: Divisor,
    first_batch: u32,
    first_row: u32,
    first_pixel: u32,
    m: u32,
    n: u32,
    k: u32,
    k_padded: u32,
    tiles: u32,
    walk: u32,
    epilogue: Epilogue,
}

impl Convolution {
    /// Tiles of a chunk.
    pub fn tiles(&self) -> u32 {
        self.tiles
    }

    /// What follows the sums.
    pub fn epilogue(&self) -> &Epilogue {
        &self.epilogue
    }

    /// Pixels of the chunk follow each other at one distance, in the input and in the output.
    pub fn is_flat(&self) -> bool {
        self.walk == walk::FLAT && self.epilogue.flags & flags::FLAT != 0
    }

    /// The same with another number of tiles, for kernels that count them in their own way.
    pub fn with_tiles(self, tiles: u32) -> Convolution {
        Convolution { tiles, ..self }
    }
}

impl MmaTile {
    /// Threads of a block.
    fn threads(&self) -> u32 {
        let across = |tile: u16, warp: u16| u32::from(tile / warp);
        32 * across(self.tile.0, self.warp.0) * across(self.tile.1, self.warp.1)
    }

    /// Bytes of shared memory of a block: the ring of stages or, if larger, the strips in which warps turn their sums; and
    /// the loader's table.
    fn shared(&self, k_padded: u32) -> u32 {
        let stage = 2 * u32::from(self.step) * (u32::from(self.tile.0) + u32::from(self.tile.1));
        let turn = self.threads() / 32 * 16 * (u32::from(self.warp.1) + 8) * 4;
        let table = match self.loader {
            Loader::Taps => 0,
            Loader::Gather => 8 * k_padded,
            // An entry of 16 channels more, which is read and not used.
            Loader::Affine => 4 * k_padded + 64,
        };
        (stage * u32::from(self.stages)).max(turn) + table
    }

    /// Tiles down and across a product of `m` pixels and `n` channels.
    fn tiles(&self, m: u64, n: u32) -> (u64, u32) {
        (m.div_ceil(u64::from(self.tile.0)), n.div_ceil(u32::from(self.tile.1)))
    }
}

/// Packed constants of a product.
pub(super) struct Packed {
    /// Rows of K.
    pub weights: PackId,
    /// As the epilogue reads it.
    pub bias: Option<PackId>,
    /// Scales and shifts of a prologue.
    pub affine: Option<PackId>,
    /// Elements of a row of weights.
    pub k_padded: u32,
}

impl Packed {
    /// The constants of a product without a prologue.
    pub fn plain(packer: &Packer<'_>, product: &Product<'_>) -> Result<Packed, BindError> {
        let k_padded = padded(product)?;
        Ok(Packed {
            weights: pack_weights(packer, product, k_padded)?,
            bias: pack_bias(packer, product)?,
            affine: None,
            k_padded,
        })
    }
}

/// Elements of a row of weights.
fn padded(product: &Product<'_>) -> Result<u32, BindError> {
    let k = u32::try_from(product.k()).ok();
    let padded = k.and_then(|k| k.checked_next_multiple_of(K_BLOCK));
    padded.ok_or(BindError::Large("a sum of products"))
}

/// An operator bound to an entry of the menu.
struct ConvMma {
    /// The operator without its prologue, or the copy of its picture.
    operator: Operator,
    entry: MmaTile,
    packed: Packed,
    splits: u32,
    /// Tiles of the whole output, at least as many as of any chunk.
    tiles: u64,
}

/// Binds a convolution or matrix product whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *MmaTile::of(operator.tactic).ok_or(BindError::Tactic("conv_mma has no such tile"))?;
    let (prologue, body) = prologue::cut(packer.plan, operator).unzip();
    let body = body.or_else(|| pictures::cut(operator));
    let affine = match (&prologue, entry.loader == Loader::Affine) {
        (None, false) => None,
        (Some(Prologue::Affine(affine)), true) => Some(affine),
        _ => return Err(BindError::Tactic("conv_mma has prologues in entries of their own")),
    };
    let operator = body.as_ref().unwrap_or(operator);
    let product = product(packer.plan, operator)?;
    let [samples, rows, columns, channels] = product.out.extents;
    let m = u64::from(samples) * u64::from(rows) * u64::from(columns);
    let (down, across) = entry.tiles(m, channels);
    let splits = u32::from(operator.class.split_k.max(1));
    let mut packed = Packed::plain(packer, &product)?;
    packed.affine = affine.map(|a| pack_affine(packer, a, packed.k_padded)).transpose()?;
    let tiles = down * u64::from(across);
    if splits > packed.k_padded / K_BLOCK || tiles * u64::from(splits) > i32::MAX as u64 {
        return Err(BindError::Tactic("conv_mma cannot split the sum so often"));
    }
    let kernel = ConvMma {
        operator: operator.clone(),
        entry,
        packed,
        splits,
        tiles,
    };
    if kernel.partial_bytes() > 0 && 4 * tiles > COUNTER_BYTES {
        return Err(BindError::Tactic("conv_mma has no counters for so many tiles"));
    }
    Ok(Box::new(kernel))
}

pub(super) fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, BindError> {
    tiles::product(plan, operator).map_err(|_| BindError::Tactic("conv_mma does not compute such products"))
}

/// Weights as rows of K for each output channel, in the order (tap row, tap column, input channel), padded with zeros.
pub(super) fn pack_weights(packer: &Packer<'_>, product: &Product<'_>, k_padded: u32) -> Result<PackId, BindError> {
    let view = product.weights;
    let section = packer.section(view).ok_or(BindError::Reference)?;
    let source = Constants::new(packer.contents(section)?, view)?;
    let name = format!(
        "rows {} {:?} {:?} {}",
        view.origin,
        view.layout.shape.dims(),
        view.layout.strides(),
        product.matrix
    );
    packer.pack(section, name, |_| rows_of_weights(&source, view, product, k_padded as usize))
}

fn rows_of_weights(source: &Constants<'_>, view: &View, product: &Product<'_>, k_padded: usize) -> Vec<u8> {
    let (layout, rank) = (view.layout, view.layout.shape.rank());
    // Strides of output channel, tap row, tap column and input channel; axes of extent 1 are never stepped along.
    let [o, i, j, c] = match product.matrix {
        true => [layout.stride(rank - 1), 0, 0, layout.stride(rank - 2)],
        false => [0, 2, 3, 1].map(|axis| layout.stride(axis)),
    };
    let [kernel_rows, kernel_columns, _] = product.window.kernel.map(i64::from);
    let (outputs, inputs) = (i64::from(product.out.extents[3]), i64::from(product.x.extents[3]));
    let mut bytes = Vec::with_capacity(outputs as usize * k_padded * 2);
    for output in 0..outputs {
        for row in 0..kernel_rows {
            for column in 0..kernel_columns {
                for channel in 0..inputs {
                    let half = source.half(output * o + row * i + column * j + channel * c);
                    bytes.extend_from_slice(&half.to_le_bytes());
                }
            }
        }
        bytes.resize((output as usize + 1) * k_padded * 2, 0);
    }
    bytes
}

/// Scales and shifts of the input channels in the order of `AffineLoader` in `kernels/conv_load.cuh`; zeros behind the last.
pub(super) fn pack_affine(packer: &Packer<'_>, prologue: &Affine, k_padded: u32) -> Result<PackId, BindError> {
    let [scales, shifts] = [channels(packer, &prologue.scale)?, channels(packer, &prologue.shift)?];
    let section = packer.section(&prologue.scale).ok_or(BindError::Reference)?;
    // The shifts may lie in another section: their bits are part of the name.
    let bits: Vec<u16> = shifts.iter().map(|s| s.to_bits()).collect();
    let view = &prologue.scale;
    let name = format!("affine {} {:?} {} {k_padded}", view.origin, view.layout, hexadecimal(&bits));
    packer.pack(section, name, |_| {
        let place = |k: u32, quad: u32| [0, 1, 8, 9].map(move |step| (k + quad * 2 + step) as usize);
        let entry = |at: [usize; 4]| {
            [&scales, &shifts]
                .into_iter()
                .flat_map(move |values| at.map(|c| values.get(c).map_or(0.0, |v| v.to_f32())))
        };
        let entries = (0..k_padded).step_by(16).flat_map(|k| (0..4).map(move |quad| place(k, quad)));
        floats(DType::F16, entries.flat_map(entry))
    })
}

pub(super) fn hexadecimal(bits: &[u16]) -> String {
    bits.iter().map(|b| format!("{b:04x}")).collect()
}

/// A constant's values by channel.
pub(super) fn channels(packer: &Packer<'_>, view: &View) -> Result<Vec<f16>, BindError> {
    let section = packer.section(view).ok_or(BindError::Reference)?;
    let halves = Constants::new(packer.contents(section)?, view)?;
    let count = i64::from(view.layout.shape.dim(1));
    let stride = if count > 1 { view.layout.stride(1) } else { 0 };
    Ok((0..count).map(|c| halves.half(c * stride)).collect())
}

/// The step from input pixel to input pixel of a product whose output pixels are its input pixels, one for one.
fn walks_flat(product: &Product<'_>) -> Option<i64> {
    let window = &product.window;
    let single = window.taps() == 1 && window.stride == [1; 3] && window.pad_begin == [0; 3] && window.pad_end == [0; 3];
    product.x.flat_step().filter(|_| single)
}

/// Pixels of the region follow each other in the whole output.
fn is_flat(product: &Product<'_>, region: &Region) -> bool {
    region.batch.len() == 1 || region.rows == (0..product.out.extents[1])
}

fn stride(value: i64) -> Result<i32, BindError> {
    i32::try_from(value).map_err(|_| BindError::Large("a stride of the input"))
}

/// The parameters of a chunk of an operator without its prologue, whose blocks make whole sums: of tiles of pixels by
/// channels, in steps along K.
pub(super) fn convolution(
    at: &Addresses<'_>,
    operator: &Operator,
    product: &Product<'_>,
    packed: &Packed,
    region: &Region,
    (tile, step): ((u16, u16), u16),
) -> Result<Convolution, BindError> {
    let (window, [samples, rows, columns, channels]) = (&product.window, product.out.extents);
    if region.batch.end > samples || region.rows.end > rows || region.is_empty() {
        return Err(BindError::Reference);
    }
    let (chunk_rows, chunk_samples) = (region.rows.len() as u32, region.batch.len() as u32);
    // At most the elements of the output, which are below 2^31.
    let m = chunk_samples * chunk_rows * columns;
    let (down, across) = (m.div_ceil(u32::from(tile.0)), channels.div_ceil(u32::from(tile.1)));
    let (inputs, step) = (product.x.extents[3], u32::from(step));
    let [x_batch, x_row, mut x_pixel, x_channel] = product.x.strides;
    let flat = walks_flat(product).filter(|_| is_flat(product, region));
    let walk = match flat {
        Some(step) => {
            x_pixel = step;
            walk::FLAT
        }
        None if window.pad_begin == [0; 3] && window.pad_end == [0; 3] => walk::INSIDE,
        None => walk::PADDED,
    };
    let tap = |dilation: u32, pixels: i64| stride(i64::from(dilation).saturating_mul(pixels));
    Ok(Convolution {
        x: at.view(product.input)?,
        weights: at.pack(packed.weights)?.address,
        partials: 0,
        counters: 0,
        affine: packed.affine.map_or(Ok(0), |pack| at.pack(pack).map(|area| area.address))?,
        x_batch: stride(x_batch)?,
        x_row: stride(x_row)?,
        x_pixel: stride(x_pixel)?,
        x_channel: stride(x_channel)?,
        x_single: u32::from(product.input.dtype == DType::F32),
        height: product.x.extents[1],
        width: product.x.extents[2],
        kernel_rows: window.kernel[0],
        stride_rows: window.stride[0],
        stride_pixels: window.stride[1],
        pad_rows: window.pad_begin[0],
        pad_pixels: window.pad_begin[1],
        tap_row: tap(window.dilation[0], x_row)?,
        tap_column: tap(window.dilation[1], x_pixel)?,
        step_rows: step / inputs / window.kernel[1],
        step_columns: step / inputs % window.kernel[1],
        step_channels: step % inputs,
        dilation_rows: Divisor::new(window.dilation[0]),
        dilation_pixels: Divisor::new(window.dilation[1]),
        channels: Divisor::new(inputs),
        kernel_columns: Divisor::new(window.kernel[1]),
        sample: Divisor::new(chunk_rows * columns),
        row: Divisor::new(columns),
        tiles_across: Divisor::new(across),
        splits: Divisor::new(1),
        first_batch: region.batch.start,
        first_row: region.rows.start,
        first_pixel: (region.batch.start * rows + region.rows.start) * columns,
        m,
        n: channels,
        k: product.k() as u32,
        k_padded: packed.k_padded,
        tiles: down * across,
        walk,
        epilogue: Epilogue::new(at, operator, product, packed.bias, region)?,
    })
}

impl ConvMma {
    /// Bytes of the partial sums of all tiles; 0 if a block makes whole sums.
    fn partial_bytes(&self) -> u64 {
        let apart = self.splits > 1 && self.entry.splits == Splits::Apart;
        let tile = u64::from(self.entry.tile.0) * u64::from(self.entry.tile.1) * 4;
        if apart { self.tiles * u64::from(self.splits) * tile } else { 0 }
    }

    /// The parameters of a chunk.
    fn params(&self, at: &Addresses<'_>, product: &Product<'_>, region: &Region) -> Result<Convolution, BindError> {
        let (partials, counters) = match self.partial_bytes() {
            0 => (0, 0),
            bytes => (at.scratch(bytes)?.address, at.counters(COUNTER_BYTES)?.address),
        };
        Ok(Convolution {
            partials,
            counters,
            splits: Divisor::new(self.splits),
            ..convolution(
                at,
                &self.operator,
                product,
                &self.packed,
                region,
                (self.entry.tile, self.entry.step),
            )?
        })
    }
}

impl Kernel for ConvMma {
    fn workspace(&self) -> u64 {
        workspace_of(self.partial_bytes())
    }

    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.operator)?;
        let params = self.params(at, &product, region)?;
        let blocks = params.tiles * if params.partials == 0 { 1 } else { self.splits };
        let launch = Launch::new("conv_mma", self.entry.function(), blocks, width, self.entry.threads(), &params);
        Ok(vec![Launch {
            shared: self.entry.shared(self.packed.k_padded),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests;
