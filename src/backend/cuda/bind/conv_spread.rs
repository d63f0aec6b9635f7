//! Transposed convolutions of few channels whose windows lie side by side: the launches of `kernels/conv_spread.cu`.

use super::constants::Constant;
use super::epilogue::{Epilogue, pack_bias};
use super::views::Divisor;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer};
use crate::plan::format::{Operator, Plan};
use crate::plan::tactic::conv_parts::{self, Parted};
use crate::plan::tactic::conv_spread::{COLUMNS, PIXELS, STEP, SpreadShape, TACTIC, THREADS, columns, fits};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};
use half::f16;

/// Pixels of a warp's product.
const TILE: u32 = 16;
/// Lanes of a warp.
const LANES: u32 = 32;

/// `ConvSpread` of the source.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    weights: u64,
    x_batch: i32,
    x_row: i32,
    x_pixel: i32,
    inputs: u32,
    outputs: u32,
    columns: u32,
    down: u32,
    across: u32,
    first_batch: u32,
    first_grid_row: u32,
    first_row: u32,
    end_row: u32,
    m: u32,
    tiles: u32,
    sample: Divisor,
    row: Divisor,
    epilogue: Epilogue,
}

/// An operator bound to the kernels.
struct ConvSpread {
    operator: Operator,
    shape: SpreadShape,
    weights: PackId,
    bias: Option<PackId>,
}

/// Binds a transposed convolution.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    if operator.tactic != TACTIC {
        return Err(BindError::Tactic("conv_spread has no such tile"));
    }
    let parted = product(packer.plan, operator)?;
    let shape = SpreadShape::of(&parted);
    let [inputs, outputs] = parted.group();
    let name = format!("spread {:?} of {inputs} to {outputs}", parted.product.window);
    let weights = Constant::new(packer, parted.product.weights)?;
    Ok(Box::new(ConvSpread {
        operator: operator.clone(),
        shape,
        weights: weights.pack(packer, &name, |read| pack_weights(&parted, shape, read))?,
        bias: pack_bias(packer, &parted.product)?,
    }))
}

fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Parted<'a>, BindError> {
    let found = conv_parts::product(plan, operator).and_then(|p| fits(operator, &p).map(|()| p));
    found.map_err(|_| BindError::Tactic("conv_spread computes transposed convolutions of few channels whose windows lie side by side"))
}

/// Fragments of the second operand, step by step and place by place: of each lane two words, of two halves of K each; zeros behind what
/// there is.
fn pack_weights(parted: &Parted<'_>, shape: SpreadShape, read: &dyn Fn(&[u32]) -> f32) -> Vec<u8> {
    let [inputs, outputs] = parted.group();
    let (all, [_, across]) = (columns(parted), parted.step());
    let value = |k: u32, column: u32| match k < inputs && column < all {
        true => {
            let tap = column / outputs;
            read(&[k, column % outputs, tap / across, tap % across])
        }
        false => 0.0,
    };
    let mut bytes = Vec::new();
    for step in 0..shape.steps {
        for place in 0..shape.places {
            for lane in 0..LANES {
                for i in 0..4 {
                    let k = step * STEP + i / 2 * 8 + lane % 4 * 2 + i % 2;
                    bytes.extend_from_slice(&f16::from_f32(value(k, place * COLUMNS + lane / 4)).to_le_bytes());
                }
            }
        }
    }
    bytes
}

impl Kernel for ConvSpread {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let parted = product(at.plan, &self.operator)?;
        let product = &parted.product;
        let [samples, rows, ..] = product.out.extents;
        if region.batch.end > samples || region.rows.end > rows {
            return Err(BindError::Reference);
        }
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let [down, across] = parted.step();
        let (first_grid_row, end_grid_row) = (region.rows.start / down, region.rows.end.div_ceil(down));
        let pixels = product.x.extents[2];
        let sample = (end_grid_row - first_grid_row) * pixels;
        let m = region.batch.len() as u32 * sample;
        let stride = |axis: usize| i32::try_from(product.x.strides[axis]).map_err(|_| BindError::Large("a stride of the input"));
        let [inputs, outputs] = parted.group();
        let params = Params {
            x: at.view(product.input)?,
            weights: at.pack(self.weights)?.address,
            x_batch: stride(0)?,
            x_row: stride(1)?,
            x_pixel: stride(2)?,
            inputs,
            outputs,
            columns: columns(&parted),
            down,
            across,
            first_batch: region.batch.start,
            first_grid_row,
            first_row: region.rows.start,
            end_row: region.rows.end,
            m,
            tiles: m.div_ceil(TILE),
            sample: Divisor::new(sample),
            row: Divisor::new(pixels),
            epilogue: Epilogue::new(at, &self.operator, product, self.bias, region)?,
        };
        let launch = Launch::new("conv_spread", self.shape.function(), m.div_ceil(PIXELS), width, THREADS, &params);
        Ok(vec![launch])
    }
}
