//! Convolutions and products of floats with constants on ordinary arithmetic units: the launches of `kernels/conv_fma.cu`.

use super::constants::{Constant, floats};
use super::tail::Tail;
use super::views::{self, Divisor, dtype_number};
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer};
use crate::plan::format::{Operand, Operator, Plan, View};
use crate::plan::tactic::conv_fma::{self as tiles, FmaTile, Grouped, PIECE};
use crate::plan::tactic::product::Pixels;
use crate::primitive::{Binary, Primitive, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// `ConvFma` of the source.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    weights: u64,
    bias: u64,
    y: u64,
    y_strides: [i64; 4],
    x_batch: i32,
    x_row: i32,
    x_pixel: i32,
    x_channel: i32,
    x_dtype: u32,
    y_dtype: u32,
    height: u32,
    width: u32,
    stride_rows: u32,
    stride_pixels: u32,
    pad_rows: u32,
    pad_pixels: u32,
    dilation_rows: u32,
    dilation_pixels: u32,
    depth: u32,
    outputs: u32,
    pitch: u32,
    first_batch: u32,
    first_row: u32,
    m: u32,
    tiles: u32,
    pieces: u32,
    chain: u32,
    rows: u32,
    channels: Divisor,
    columns: Divisor,
    sample: Divisor,
    row: Divisor,
    across: Divisor,
    groups: Divisor,
    tail: Tail,
}

/// An operator bound to an entry of the menu.
struct ConvFma {
    operator: Operator,
    entry: FmaTile,
    weights: PackId,
    bias: Option<PackId>,
}

/// Binds a convolution or product whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *FmaTile::of(operator.tactic).ok_or(BindError::Tactic("conv_fma has no such tile"))?;
    let grouped = product(packer.plan, operator)?;
    let (weights, bias) = pack(packer, &grouped)?;
    Ok(Box::new(ConvFma {
        operator: operator.clone(),
        entry,
        weights,
        bias,
    }))
}

fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Grouped<'a>, BindError> {
    tiles::product(plan, operator).map_err(|_| BindError::Tactic("conv_fma does not compute such products"))
}

/// Weights, a row of output channels for each of K of each group, and bias likewise; zeros behind a group's channels.
fn pack(packer: &Packer<'_>, grouped: &Grouped<'_>) -> Result<(PackId, Option<PackId>), BindError> {
    let (product, groups, outputs, inputs) = (&grouped.product, grouped.groups, grouped.outputs(), grouped.inputs());
    let pitch = outputs.next_multiple_of(PIECE);
    let [rows, columns, _] = product.window.kernel;
    let matrix = product.matrix;
    let leading = vec![0; product.weights.layout.shape.rank().saturating_sub(2)];
    let weights = Constant::new(packer, product.weights)?.pack(packer, &format!("fma {matrix} {groups}"), |read| {
        let places = (0..groups).flat_map(|g| (0..rows).flat_map(move |i| (0..columns).map(move |j| (g, i, j))));
        let lines = places.flat_map(|(g, i, j)| (0..inputs).map(move |c| (g, i, j, c)));
        let value = |(g, i, j, c): (u32, u32, u32, u32), o: u32| match matrix {
            _ if o >= outputs => 0.0,
            true => read(&[leading.as_slice(), &[c, o]].concat()),
            false => read(&[g * outputs + o, c, i, j]),
        };
        floats(
            DType::F32,
            lines
                .flat_map(|line| (0..pitch).map(move |o| (line, o)))
                .map(|(line, o)| value(line, o)),
        )
    })?;
    let Some(view) = product.bias else { return Ok((weights, None)) };
    let leading = vec![0; view.layout.shape.rank() - 1];
    let repeats = view.layout.shape.dim(view.layout.shape.rank() - 1) == 1;
    let bias = Constant::new(packer, view)?.pack(packer, &format!("fma bias {groups} {outputs}"), |read| {
        let value = |g: u32, o: u32| match o < outputs {
            true => read(&[leading.as_slice(), &[if repeats { 0 } else { g * outputs + o }]].concat()),
            false => 0.0,
        };
        floats(
            DType::F32,
            (0..groups).flat_map(|g| (0..pitch).map(move |o| (g, o))).map(|(g, o)| value(g, o)),
        )
    })?;
    Ok((weights, Some(bias)))
}

/// True where one copy brings [`PIECE`] channels of the input at `address`.
fn in_pieces(grouped: &Grouped<'_>, address: u64) -> bool {
    let x = &grouped.product.x;
    let [batch, row, pixel, channel] = x.strides;
    let whole = |step: i64| step % i64::from(PIECE) == 0;
    let side_by_side = channel == 1 && grouped.inputs().is_multiple_of(PIECE);
    grouped.product.input.dtype == DType::F32
        && side_by_side
        && [batch, row, pixel].into_iter().all(whole)
        && address.is_multiple_of(views::PIECE)
}

/// True where a tail is a chain of functions of the value before, and of sums and products of that and a tensor, and every tensor
/// and the output hold [`PIECE`] channels of f32 side by side; a joined one may repeat one value for them.
fn is_chain(at: &Addresses<'_>, operator: &Operator, grouped: &Grouped<'_>) -> Result<bool, BindError> {
    let pieces = |view: &View, repeats: bool| {
        let Some(pixels) = Pixels::of(view) else { return Ok(false) };
        let [steps @ .., channel] = pixels.strides;
        let whole = steps.iter().all(|s| s % i64::from(PIECE) == 0) && at.view(view)?.is_multiple_of(views::PIECE);
        Ok::<_, BindError>(view.dtype == DType::F32 && (channel == 1 && whole || channel == 0 && repeats))
    };
    if !grouped.outputs().is_multiple_of(PIECE) || !pieces(grouped.product.output, false)? {
        return Ok(false);
    }
    for (before, call) in (0..).zip(operator.calls.iter().skip(1)) {
        let previous = Operand::Inner(before);
        let plain = call.dtype == DType::F32
            && match (&call.primitive, call.inputs.as_slice()) {
                (Primitive::Unary(_), [x]) => *x == previous,
                (Primitive::Binary(Binary::Add | Binary::Mul), [a, b]) => match (a, b) {
                    (x, Operand::View(view)) | (Operand::View(view), x) => *x == previous && pieces(view, true)?,
                    _ => false,
                },
                _ => false,
            };
        if !plain {
            return Ok(false);
        }
    }
    Ok(operator.calls[0].dtype == DType::F32)
}

impl Kernel for ConvFma {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let grouped = product(at.plan, &self.operator)?;
        let product = &grouped.product;
        let [samples, rows, columns, _] = product.out.extents;
        if region.batch.end > samples || region.rows.end > rows {
            return Err(BindError::Reference);
        }
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let sample = region.rows.len() as u32 * columns;
        let m = region.batch.len() as u32 * sample;
        let tiles = u32::try_from(self.entry.tiles(m, grouped.groups, grouped.outputs())).map_err(|_| BindError::Large("a product"))?;
        let stride = |axis: usize| i32::try_from(product.x.strides[axis]).map_err(|_| BindError::Large("a stride of the input"));
        let [batch, row, pixel, channel] = product.out.strides;
        let tail = Tail::of_product(at, &self.operator, product)?;
        let x = at.view(product.input)?;
        let window = &product.window;
        let params = Params {
            x,
            weights: at.pack(self.weights)?.address,
            bias: self.bias.map_or(Ok(0), |pack| at.pack(pack).map(|area| area.address))?,
            y: at.view(product.output)?,
            y_strides: [batch, channel, row, pixel],
            x_batch: stride(0)?,
            x_row: stride(1)?,
            x_pixel: stride(2)?,
            x_channel: stride(3)?,
            x_dtype: dtype_number(product.input.dtype),
            y_dtype: dtype_number(product.output.dtype),
            height: product.x.extents[1],
            width: product.x.extents[2],
            stride_rows: window.stride[0],
            stride_pixels: window.stride[1],
            pad_rows: window.pad_begin[0],
            pad_pixels: window.pad_begin[1],
            dilation_rows: window.dilation[0],
            dilation_pixels: window.dilation[1],
            depth: u32::try_from(grouped.depth()).map_err(|_| BindError::Large("a sum of products"))?,
            outputs: grouped.outputs(),
            pitch: grouped.outputs().next_multiple_of(PIECE),
            first_batch: region.batch.start,
            first_row: region.rows.start,
            m,
            tiles,
            pieces: u32::from(in_pieces(&grouped, x)),
            chain: u32::from(is_chain(at, &self.operator, &grouped)?),
            rows: window.kernel[0],
            channels: Divisor::new(grouped.inputs()),
            columns: Divisor::new(window.kernel[1]),
            sample: Divisor::new(sample),
            row: Divisor::new(columns),
            across: Divisor::new(grouped.outputs().div_ceil(u32::from(self.entry.tile.1))),
            groups: Divisor::new(grouped.groups),
            tail,
        };
        let launch = Launch::new("conv_fma", self.entry.function(), tiles, width, self.entry.threads(), &params);
        Ok(vec![Launch {
            shared: self.entry.shared(),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 64 + 24 * 4 + 6 * 12 + size_of::<Tail>());
        assert_eq!((offset_of!(Params, x_batch), offset_of!(Params, channels)), (64, 160));
    }
}
