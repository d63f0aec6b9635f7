//! Attention by warpgroup products: `kernels/attention_wgmma.cu`.

use super::super::generic::{check, head};
use super::super::views::{DeviceView, Divisor};
use super::super::{Addresses, BindError, Kernel, Launch};
use super::{Chunk, LEADING};
use crate::plan::format::Operator;
use crate::plan::tactic::attention::{Matrices, Team, WGMMA_KEYS, matrices};
use crate::primitive::{Primitive, Region};
use bytemuck::{Pod, Zeroable};

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// What the swizzle counts from multiples of, and shared memory begins at any part of.
const ALIGNMENT: u32 = 1024;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    queries: DeviceView,
    keys: DeviceView,
    values: DeviceView,
    mask: DeviceView,
    leading: [Divisor; LEADING],
    matrices: Divisor,
    slices: Divisor,
    first_row: u32,
    rows: u32,
    row_axis: u32,
    depth: u32,
    count: u32,
    width: u32,
    segment: u32,
    tiles: u32,
    scale: f32,
    wide: u32,
}

struct AttentionWgmma {
    operator: Operator,
    scale: f32,
    team: Team,
}

/// Compiles attention of halves.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Attention { scale } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no attention"));
    };
    seen(operator)?;
    Ok(Box::new(AttentionWgmma {
        operator: operator.clone(),
        scale: scale.0,
        team: Team::of(operator.tactic).ok_or(BindError::Tactic("it has no such tile"))?,
    }))
}

fn seen(operator: &Operator) -> Result<(Matrices<'_>, u32), BindError> {
    let it = matrices(operator).map_err(|_| BindError::Tactic("it is no attention of halves"))?;
    let head = it.panels().ok_or(BindError::Large("a key"))?;
    Ok((it, head))
}

/// Bytes of dynamic shared memory: the queries, and each strand's blocks of keys and values.
fn shared(head: u32, team: Team) -> u32 {
    let block = 2 * head * WGMMA_KEYS;
    ALIGNMENT + 2 * head * team.queries() + u32::from(team.strands) * 2 * team.stages(head) * block
}

impl Kernel for AttentionWgmma {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (it, head) = seen(&self.operator)?;
        let chunk = Chunk::of(&it.output.layout.shape, region);
        let row_axis = chunk.row_axis;
        let columns = it.output.layout.shape.dim(row_axis + 1);
        let (steps, slices) = (chunk.rows.div_ceil(self.team.queries()), columns.div_ceil(head));
        let tiles = chunk.tiles(u64::from(steps) * u64::from(slices))?;
        if tiles == 0 {
            return Ok(Vec::new());
        }
        let of = |index: usize| chunk.view(at, it.inputs[index]);
        let [queries, keys, values] = [of(0)?, of(1)?, of(2)?];
        let runs = [queries.in_pieces(row_axis + 1), keys.in_pieces(row_axis), values.in_pieces(row_axis + 1)];
        let count = keys.extents[row_axis + 1];
        let params = Params {
            y: chunk.view(at, it.output)?,
            queries,
            keys,
            values,
            mask: it.mask.map(|mask| chunk.view(at, mask)).transpose()?.unwrap_or_default(),
            leading: chunk.divisors(),
            matrices: Divisor::new(chunk.matrices() as u32),
            slices: Divisor::new(slices),
            first_row: chunk.first_row,
            rows: chunk.rows,
            row_axis: row_axis as u32,
            depth: queries.extents[row_axis + 1],
            count,
            width: columns,
            segment: self.operator.class.range(count, WGMMA_KEYS).div_ceil(WGMMA_KEYS),
            tiles,
            scale: self.scale,
            wide: (0..3).map(|i| u32::from(runs[i]) << i).sum(),
        };
        let Team { strands, groups } = self.team;
        let threads = WARPGROUP * u32::from(strands * groups);
        Ok(vec![Launch {
            shared: shared(head, self.team),
            ..Launch::new(
                "attention_wgmma",
                format!("attention_wgmma_{head}_{strands}_{groups}"),
                tiles,
                width,
                threads,
                &params,
            )
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tactic::attention::TEAMS;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 5 * 88 + 72 + 40);
    }

    #[test]
    fn every_team_fits_the_shared_memory() {
        for (head, team) in [64, 128].into_iter().flat_map(|head| TEAMS.map(|team| (head, team))) {
            assert!(!team.serves(head) || shared(head, team) <= 227 << 10, "{head} {team:?}");
        }
    }
}
