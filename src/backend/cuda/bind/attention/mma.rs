//! Attention on tensor cores: `kernels/attention_mma.cu`.

use super::super::views::{DeviceView, Divisor};
use super::super::{Addresses, BindError, Kernel, Launch};
use super::{Chunk, LEADING, scale};
use crate::plan::format::Operator;
use crate::plan::tactic::attention::{Block, Head, Matrices, matrices};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Threads of a warp.
const WARP: u32 = 32;
/// Halves behind a row in shared memory.
const ROW_GAP: u32 = 8;
/// Stages of keys and values in shared memory.
const STAGES: u32 = 2;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    queries: DeviceView,
    keys: DeviceView,
    values: DeviceView,
    mask: DeviceView,
    leading: [Divisor; LEADING],
    steps: Divisor,
    slices: Divisor,
    first_row: u32,
    rows: u32,
    row_axis: u32,
    depth: u32,
    count: u32,
    width: u32,
    tiles: u32,
    scale: f32,
    wide: u32,
    padding: u32,
}

struct AttentionMma {
    operator: Operator,
    scale: f32,
    strands: u16,
    block: Block,
}

/// Compiles attention of halves.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let scale = scale(operator)?;
    seen(operator)?;
    let strands = operator.class.split_k.max(1);
    let block = Block::of(operator.tactic, strands).ok_or(BindError::Tactic("it has no such tile"))?;
    Ok(Box::new(AttentionMma {
        operator: operator.clone(),
        scale,
        strands,
        block,
    }))
}

fn seen(operator: &Operator) -> Result<Matrices<'_>, BindError> {
    matrices(operator).map_err(|_| BindError::Tactic("it is no attention of halves"))
}

/// Bytes of dynamic shared memory: the queries, and stages of keys and values, or the sums of all strands in their place.
fn shared(head: Head, strands: u16, block: Block) -> u32 {
    let (pitches, strands_of) = (head.depth + head.width + 2 * ROW_GAP, u32::from(strands));
    let stages = STAGES * 2 * head.keys(strands) * strands_of * pitches;
    let sums = 4 * strands_of * block.queries() * (head.width + ROW_GAP);
    2 * block.queries() * (head.depth + ROW_GAP) + stages.max(sums)
}

impl Kernel for AttentionMma {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let it = seen(&self.operator)?;
        let chunk = Chunk::of(&it.output.layout.shape, region);
        let row_axis = chunk.row_axis;
        let columns = it.output.layout.shape.dim(row_axis + 1);
        let (steps, slices) = (chunk.rows.div_ceil(self.block.queries()), columns.div_ceil(it.head.width));
        let tiles = chunk.tiles([steps, slices])?;
        if tiles == 0 {
            return Ok(Vec::new());
        }
        let of = |index: usize| chunk.view(at, it.inputs[index]);
        let [queries, keys, values] = [of(0)?, of(1)?, of(2)?];
        let runs = [
            queries.in_pieces(row_axis + 1),
            keys.in_pieces(row_axis),
            values.in_pieces(row_axis + 1),
        ];
        let params = Params {
            y: chunk.view(at, it.output)?,
            queries,
            keys,
            values,
            mask: it.mask.map(|mask| chunk.view(at, mask)).transpose()?.unwrap_or_default(),
            leading: chunk.divisors(),
            steps: Divisor::new(steps),
            slices: Divisor::new(slices),
            first_row: chunk.first_row,
            rows: chunk.rows,
            row_axis: row_axis as u32,
            depth: queries.extents[row_axis + 1],
            count: keys.extents[row_axis + 1],
            width: columns,
            tiles,
            scale: self.scale,
            wide: (0..3).map(|i| u32::from(runs[i]) << i).sum(),
            padding: 0,
        };
        let (Head { depth, width: slice }, Block { groups, tiles: each }) = (it.head, self.block);
        let function = format!("attention_{depth}_{slice}_{}_{groups}_{each}", self.strands);
        let threads = WARP * u32::from(self.strands * groups);
        Ok(vec![Launch {
            shared: shared(it.head, self.strands, self.block),
            ..Launch::new("attention_mma", function, tiles, width, threads, &params)
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the smallest of the GPUs gives a block.
    const LEAST_SHARED: u32 = 99 << 10;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 5 * 88 + 72 + 40);
    }

    #[test]
    fn every_head_fits_the_shared_memory_of_every_gpu() {
        for depth in [16, 32, 64, 96, 128] {
            let head = Head::of(depth, depth).unwrap();
            for (strands, groups, tiles) in [(1, 4, 1), (1, 4, 2), (4, 1, 1), (4, 2, 1), (4, 2, 2)] {
                let block = Block { groups, tiles };
                let fixed = u32::from(strands) * block.queries() * 8;
                let most = if depth > 64 { 1 } else { 2 };
                assert!(
                    tiles > most || shared(head, strands, block) + fixed <= LEAST_SHARED,
                    "{head:?} {strands} {block:?}"
                );
            }
        }
    }
}
