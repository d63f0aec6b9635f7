//! Convolutions and matrix products with constant weights by warpgroup products: kernels/conv_wgmma.cu.

use super::epilogue::{Epilogue, EpilogueParams};
use super::{Addresses, BindError, Im2colMap, Kernel, Launch, PackId, Packer, Swizzle, TensorMap};
use crate::plan::format::{Operator, View};
use crate::plan::tactic::wgmma::{BLOCK_K, Product, WgmmaShape};
use crate::primitive::Region;

/// The source file.
const UNIT: &str = "conv_wgmma";
/// Threads of a warp, of a warpgroup, and rows that a warpgroup multiplies.
const WARP: u32 = 32;
const WARPGROUP: u32 = 128;
const WARPGROUP_ROWS: u32 = 64;
/// Bytes of a K block's row, of a warp's strip, and of the barriers.
const K_BYTES: u32 = BLOCK_K * 2;
const STRIP_BYTES: u32 = 16 * (32 + 8) * 4;
const BARRIER_BYTES: u32 = 128;
/// The stages begin at a multiple of this.
const ALIGNMENT: u32 = 1024;
/// Floats behind each row of a tile that a cluster shares.
const SHARE_PADDING: u32 = 8;
/// Weights are padded to this many output channels; the rows of a swizzle pattern.
const CHANNEL_GROUP: u32 = 8;
/// Channels of 16 bytes, which a swizzle moves as one.
const PIECE: u32 = 8;

/// Mirrors `ConvWgmmaParams`.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Params {
    image: TensorMap,
    epilogue: EpilogueParams,
    weights: u64,
    k_blocks: u32,
    channel_blocks: u32,
    splits: u32,
    kernel_columns: u32,
    dilation: [u32; 2],
    stride: [u32; 2],
    pad: [u32; 2],
    rows: u32,
    columns: u32,
    channels: u32,
    first_pixel: u32,
    run_pixels: u32,
    run_stride: u32,
    run_tiles: u32,
    channel_tiles: u32,
    tiles: u32,
    padding: [u32; 5],
}

/// What does not depend on slot, chunk or width.
struct ConvWgmma {
    shape: WgmmaShape,
    cluster: bool,
    splits: u32,
    /// The input as the copy engine walks it; the address comes with the slot.
    map: Im2colMap,
    x: View,
    weights: PackId,
    epilogue: Epilogue,
    /// All that no chunk changes.
    params: Params,
    /// Pixels of an image, and of what a region counts as a row.
    image: u32,
    row: u32,
    /// Rows of a whole image, as regions count them.
    rows: u32,
}

/// Compiles the operator; the tactic fits it.
pub fn compile(packer: &mut Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let (shape, cluster) = WgmmaShape::of(operator.tactic).ok_or(BindError::Tactic("conv_wgmma has no such tile"))?;
    let product = Product::of(packer.plan, operator).map_err(|_| BindError::Tactic("conv_wgmma"))?;
    let splits = u32::from(operator.class.split_k);
    let weights = pack(packer, &product)?;
    let window = product.window;
    let [images, out_rows, out_columns] = product.output_grid;
    let matrix = operator.outputs.first().is_some_and(|y| y.layout.shape.rank() < 4);
    let image = out_rows * out_columns;
    // Regions cut a matrix by batch (rank 2) or by batch and rows (rank 3): see `Shape::row_axis`.
    let (image, row) = match (matrix, operator.outputs.first().map_or(0, |y| y.layout.shape.rank())) {
        (true, 2) => (1, 1),
        (true, _) => (image, 1),
        (false, _) => (image, out_columns),
    };
    let _ = images;
    let params = Params {
        k_blocks: product.k_blocks(),
        channel_blocks: product.channel_blocks(),
        splits,
        kernel_columns: window.kernel[1],
        dilation: [window.dilation[0], window.dilation[1]],
        stride: [window.stride[0], window.stride[1]],
        pad: [window.pad_begin[0], window.pad_begin[1]],
        rows: out_rows,
        columns: out_columns,
        channels: product.outputs,
        channel_tiles: product.outputs.div_ceil(u32::from(shape.channels)),
        ..bytemuck::Zeroable::zeroed()
    };
    Ok(Box::new(ConvWgmma {
        shape,
        cluster,
        splits,
        map: map(&product, shape),
        x: *product.x,
        weights,
        epilogue: Epilogue::of(packer, operator)?,
        params,
        image,
        row,
        rows: image / row,
    }))
}
