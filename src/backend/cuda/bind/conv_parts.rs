//! Grouped and transposed convolutions, and pictures cut into patches, on `mma.sync`: the launches of `kernels/conv_parts.cu`.

use super::constants::Constant;
use super::epilogue::{Epilogue, pack_bias};
use super::views::Divisor;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer};
use crate::plan::format::{Operator, Plan};
use crate::plan::tactic::conv_parts::{self as tiles, Cut, PIECE, PITCH, Part, PartTile, Parted};
use crate::primitive::{Primitive, Region};
use bytemuck::{Pod, Zeroable};
use half::f16;

/// A part as the kernels read it: `Part` of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct PartEntry {
    weights: u64,
    pitch: u32,
    depth: u32,
    pieces: u32,
    channel: u32,
    channels: u32,
    row: u32,
    pixel: u32,
    padding: u32,
}

/// Eight neighbouring halves of the input: `Piece` of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Piece {
    row: i16,
    pixel: i16,
    channel: u32,
}

/// A piece that is zero: it lies outside of every input.
const NOTHING: Piece = Piece {
    row: i16::MIN,
    pixel: i16::MIN,
    channel: 0,
};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    weights: u64,
    parts: u64,
    pieces: u64,
    x_batch: i32,
    x_row: i32,
    x_pixel: i32,
    height: u32,
    width: u32,
    walk_rows: u32,
    walk_pixels: u32,
    step_rows: u32,
    step_pixels: u32,
    first_batch: u32,
    first_grid_row: u32,
    first_row: u32,
    end_row: u32,
    out_width: u32,
    m: u32,
    tiles: u32,
    sample: Divisor,
    row: Divisor,
    across: Divisor,
    count: Divisor,
    epilogue: Epilogue,
}

/// An operator bound to an entry of the menu.
struct ConvParts {
    operator: Operator,
    entry: PartTile,
    weights: PackId,
    parts: PackId,
    pieces: PackId,
    bias: Option<PackId>,
    count: u32,
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = *PartTile::of(operator.tactic).ok_or(BindError::Tactic("conv_parts has no such tile"))?;
    let parted = product(packer.plan, operator)?;
    let parts = parted.parts();
    let [inputs, outputs] = parted.group();
    let (entries, pieces) = tables(&parted, &parts)?;
    let product = &parted.product;
    let name = format!(
        "of {:?} in {:?} by {} groups of {inputs} to {outputs}",
        product.window, parted.cut, parted.groups
    );
    let weights = Constant::new(packer, product.weights)?;
    let transposed = matches!(operator.calls[0].primitive, Primitive::ConvTranspose { .. });
    Ok(Box::new(ConvParts {
        operator: operator.clone(),
        entry,
        weights: weights.pack(packer, &format!("parts {name}"), |read| {
            pack_weights(&parted, &parts, transposed, read)
        })?,
        parts: packer.table(format!("parts {name}"), || bytemuck::cast_slice(&entries).to_vec()),
        pieces: packer.table(format!("pieces {name}"), || bytemuck::cast_slice(&pieces).to_vec()),
        bias: pack_bias(packer, product)?,
        count: entries.len() as u32,
    }))
}

fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Parted<'a>, BindError> {
    tiles::product(plan, operator).map_err(|_| BindError::Tactic("conv_parts does not compute such convolutions"))
}

/// The parts and their pieces, each part's up to the pitch of its weights.
fn tables(parted: &Parted<'_>, parts: &[Part]) -> Result<(Vec<PartEntry>, Vec<Piece>), BindError> {
    let [inputs, outputs] = parted.group();
    let (mut entries, mut pieces, mut halves) = (Vec::new(), Vec::new(), 0u64);
    for part in parts {
        let groups = part.groups.len() as u32;
        let depth = part.taps.len() as u32 * groups * inputs;
        let pitch = depth.next_multiple_of(PITCH);
        entries.push(PartEntry {
            weights: halves,
            pitch,
            depth,
            pieces: u32::try_from(pieces.len()).map_err(|_| BindError::Large("a convolution's parts"))?,
            channel: part.groups.start * outputs,
            channels: groups * outputs,
            row: part.phase[0],
            pixel: part.phase[1],
            padding: 0,
        });
        let before = pieces.len();
        pieces.extend(part_pieces(parted, part)?);
        pieces.resize(before + (pitch / PIECE) as usize, NOTHING);
        halves += u64::from(pitch) * u64::from(groups * outputs);
    }
    Ok((entries, pieces))
}

/// The pieces of a part along K: tap by tap, or of a patch window row by window row.
fn part_pieces(parted: &Parted<'_>, part: &Part) -> Result<Vec<Piece>, BindError> {
    let small = |value: i32| i16::try_from(value).map_err(|_| BindError::Large("a window"));
    let [inputs, _] = parted.group();
    let patches = parted.cut == Cut::Patches;
    // A window row is one run of halves, from its first tap on.
    let taps = part.taps.iter().filter(|tap| !patches || tap.at[1] == 0);
    let (first, count) = match patches {
        true => (0, parted.product.window.kernel[1] * inputs),
        false => (part.groups.start * inputs, part.groups.len() as u32 * inputs),
    };
    let mut pieces = Vec::new();
    for tap in taps {
        for channel in (first..first + count).step_by(PIECE as usize) {
            pieces.push(Piece {
                row: small(tap.lands[0])?,
                pixel: small(tap.lands[1])?,
                channel,
            });
        }
    }
    Ok(pieces)
}

/// Rows of K for each output channel of each part, in the order of its pieces; zeros between different groups and behind K.
fn pack_weights(parted: &Parted<'_>, parts: &[Part], transposed: bool, read: &dyn Fn(&[u32]) -> f32) -> Vec<u8> {
    let [inputs, outputs] = parted.group();
    let mut bytes = Vec::new();
    for part in parts {
        for group in part.groups.clone() {
            for output in 0..outputs {
                let before = bytes.len();
                for tap in &part.taps {
                    for other in part.groups.clone() {
                        for input in 0..inputs {
                            let value = match (group == other, transposed) {
                                (false, _) => 0.0,
                                (true, true) => read(&[group * inputs + input, output, tap.at[0], tap.at[1]]),
                                (true, false) => read(&[group * outputs + output, input, tap.at[0], tap.at[1]]),
                            };
                            bytes.extend_from_slice(&f16::from_f32(value).to_le_bytes());
                        }
                    }
                }
                let pitch = ((bytes.len() - before) / 2).next_multiple_of(PITCH as usize);
                bytes.resize(before + 2 * pitch, 0);
            }
        }
    }
    bytes
}

impl Kernel for ConvParts {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let parted = product(at.plan, &self.operator)?;
        let product = &parted.product;
        let [samples, rows, columns, _] = product.out.extents;
        if region.batch.end > samples || region.rows.end > rows {
            return Err(BindError::Reference);
        }
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let ([step_rows, step_pixels], [walk_rows, walk_pixels]) = (parted.step(), parted.walk());
        let (first_grid_row, end_grid_row) = (region.rows.start / step_rows, region.rows.end.div_ceil(step_rows));
        let across = columns.div_ceil(step_pixels);
        let sample = (end_grid_row - first_grid_row) * across;
        let m = region.batch.len() as u32 * sample;
        let tiles_across = parted.widest().0.div_ceil(u32::from(self.entry.tile.1));
        let tiles = m.div_ceil(u32::from(self.entry.tile.0)) * tiles_across * self.count;
        let stride = |axis: usize| i32::try_from(product.x.strides[axis]).map_err(|_| BindError::Large("a stride of the input"));
        let params = Params {
            x: at.view(product.input)?,
            weights: at.pack(self.weights)?.address,
            parts: at.pack(self.parts)?.address,
            pieces: at.pack(self.pieces)?.address,
            x_batch: stride(0)?,
            x_row: stride(1)?,
            x_pixel: stride(2)?,
            height: product.x.extents[1],
            width: product.x.extents[2],
            walk_rows,
            walk_pixels,
            step_rows,
            step_pixels,
            first_batch: region.batch.start,
            first_grid_row,
            first_row: region.rows.start,
            end_row: region.rows.end,
            out_width: columns,
            m,
            tiles,
            sample: Divisor::new(sample),
            row: Divisor::new(across),
            across: Divisor::new(tiles_across),
            count: Divisor::new(self.count),
            epilogue: Epilogue::new(at, &self.operator, product, self.bias, region)?,
        };
        let launch = Launch::new("conv_parts", self.entry.function(), tiles, width, self.entry.threads(), &params);
        Ok(vec![Launch {
            shared: self.entry.shared(),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests;
