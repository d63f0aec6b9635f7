//! Attention by warpgroup products: `kernels/attention_wgmma.cu`.

use super::super::views::{DeviceView, Divisor, PIECE};
use super::super::{Addresses, BindError, Kernel, Launch, Swizzle, TensorMap, TiledMap};
use super::{Chunk, LEADING, scale};
use crate::plan::format::Operator;
use crate::plan::tactic::attention::{Matrices, Team, WGMMA_KEYS, matrices};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// What the swizzle counts from multiples of, and shared memory begins at any part of.
const ALIGNMENT: u32 = 1024;

/// Halves of a row, and rows, that a map's copy brings: 64 by 64.
const BOX: u32 = 64;
/// Leading axes of a map.
const MAPPED_LEADING: usize = 3;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    maps: [TensorMap; 3],
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
    mapped: u32,
    padding: [u32; 6],
}

struct AttentionWgmma {
    operator: Operator,
    scale: f32,
    team: Team,
}

/// Compiles attention of halves.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let scale = scale(operator)?;
    seen(operator)?;
    Ok(Box::new(AttentionWgmma {
        operator: operator.clone(),
        scale,
        team: Team::of(operator.tactic).ok_or(BindError::Tactic("it has no such tile"))?,
    }))
}

fn seen(operator: &Operator) -> Result<(Matrices<'_>, u32), BindError> {
    let it = matrices(operator).map_err(|_| BindError::Tactic("it is no attention of halves"))?;
    let head = it.panels().ok_or(BindError::Large("a key"))?;
    Ok((it, head))
}

/// Bytes of dynamic shared memory: the queries, each strand's blocks of keys and values, and every thread's sums where those of
/// several segments are joined.
fn shared(head: u32, team: Team, segments: u32) -> u32 {
    let block = 2 * head * WGMMA_KEYS;
    let joined = segments > 1 || team.strands > 1;
    let sums = if joined { team.threads() * 16 * (head / 8 + 1) } else { 0 };
    ALIGNMENT + 2 * head * team.queries() + u32::from(team.strands) * 2 * team.stages(head) * block + sums
}

/// What a kernel's name ends with.
fn suffix(plain: bool, team: Team) -> &'static str {
    match (plain, team.crowded) {
        (false, _) => "",
        (true, false) => "_plain",
        (true, true) => "_crowded",
    }
}

/// The map of an input whose rows lie along axis `rows` and are runs along axis `run`, from the chunk's first matrices on;
/// none where the copy engine cannot walk it.
fn map(view: &DeviceView, chunk: &Chunk, rows: usize, run: usize) -> Option<TiledMap> {
    // An axis of one position is never stepped along, but the map wants a step.
    let step = |axis: usize| match view.strides[axis] {
        0 => (view.extents[axis] == 1).then_some(PIECE),
        step => u64::try_from(step).ok()?.checked_mul(2),
    };
    let fits = view.in_pieces(run) && chunk.leading[MAPPED_LEADING..].iter().all(|&n| n == 1);
    let leading = |axis: usize| axis < chunk.row_axis && view.extents[axis] > 1;
    let outer: Vec<usize> = (0..MAPPED_LEADING).rev().collect();
    let extents = outer.iter().map(|&axis| if leading(axis) { chunk.leading[axis] } else { 1 });
    let strides: Option<Vec<u64>> = outer
        .iter()
        .map(|&axis| if leading(axis) { step(axis) } else { Some(PIECE) })
        .collect();
    Some(TiledMap {
        address: fits.then_some(view.address)?,
        extents: [view.extents[run], view.extents[rows]]
            .into_iter()
            .chain(extents)
            .map(u64::from)
            .collect(),
        strides: [vec![step(rows)?], strides?].concat(),
        tile: vec![BOX, BOX, 1, 1, 1],
        steps: vec![1; 2 + MAPPED_LEADING],
        swizzle: Swizzle::B128,
    })
}

impl Kernel for AttentionWgmma {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let (it, head) = seen(&self.operator)?;
        let chunk = Chunk::of(&it.output.layout.shape, region);
        let row_axis = chunk.row_axis;
        let columns = it.output.layout.shape.dim(row_axis + 1);
        let of = |index: usize| chunk.view(at, it.inputs[index]);
        let [queries, keys, values] = [of(0)?, of(1)?, of(2)?];
        let column_axis = row_axis + 1;
        let tiled = [
            map(&queries, &chunk, row_axis, column_axis),
            map(&keys, &chunk, column_axis, row_axis),
            map(&values, &chunk, row_axis, column_axis),
        ];
        let mapped = (0..3).map(|i| u32::from(tiled[i].is_some()) << i).sum();
        // The kernels of plain operators have registers for more warpgroups; with the same bits.
        let plain = tiled.iter().all(Option::is_some) && it.mask.is_none() && self.scale > 0.0;
        let team = match plain {
            true => self.team,
            false => self.team.alone(),
        };
        let (steps, slices) = (chunk.rows.div_ceil(team.queries()), columns.div_ceil(head));
        let tiles = chunk.tiles([steps, slices])?;
        if tiles == 0 {
            return Ok(Vec::new());
        }
        let encode = |map: &Option<TiledMap>| map.as_ref().map_or(Ok(TensorMap([0; 16])), |map| at.maps.tiled(map));
        let count = keys.extents[row_axis + 1];
        let segment = self.operator.class.range(count, WGMMA_KEYS) / WGMMA_KEYS;
        let params = Params {
            maps: [encode(&tiled[0])?, encode(&tiled[1])?, encode(&tiled[2])?],
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
            segment,
            tiles,
            scale: self.scale,
            mapped,
            padding: [0; 6],
        };
        let (panels, Team { strands, groups, .. }) = (head / BOX, team);
        let suffix = suffix(plain, team);
        Ok(vec![Launch {
            shared: shared(head, team, count.div_ceil(segment * WGMMA_KEYS)),
            ..Launch::new(
                "attention_wgmma",
                format!("attention_wgmma_{panels}_{strands}_{groups}{suffix}"),
                tiles,
                width,
                team.threads(),
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
        assert_eq!(std::mem::size_of::<Params>(), 3 * 128 + 5 * 88 + 72 + 40 + 24);
    }

    #[test]
    fn maps_walk_what_lies_in_pieces() {
        let chunk = Chunk {
            row_axis: 2,
            first_row: 0,
            rows: 50,
            leading: [2, 3, 1, 1],
            first_batch: 0,
        };
        // Heads of 24 side by side in rows of 72 halves.
        let view = |address, strides| DeviceView {
            address,
            dtype: 1,
            rank: 4,
            strides,
            extents: [2, 3, 50, 24, 1, 1],
        };
        let it = map(&view(512, [3600, 24, 72, 1, 0, 0]), &chunk, 2, 3).unwrap();
        assert_eq!(
            (it.address, it.extents, it.strides),
            (512, vec![24, 50, 1, 3, 2], vec![144, 16, 48, 7200])
        );
        assert!(map(&view(520, [3600, 24, 72, 1, 0, 0]), &chunk, 2, 3).is_none(), "between pieces");
        assert!(map(&view(512, [3600, 24, 1, 50, 0, 0]), &chunk, 2, 3).is_none(), "elements apart");
        assert!(map(&view(512, [3600, 0, 72, 1, 0, 0]), &chunk, 2, 3).is_none(), "one head for all");
        let turned = map(&view(512, [3600, 1200, 1, 24, 0, 0]), &chunk, 3, 2);
        assert!(turned.is_some_and(|it| it.extents[..2] == [50, 24]), "rows along the last axis");
        let deep = Chunk {
            leading: [2, 3, 1, 2],
            ..chunk
        };
        assert!(map(&view(512, [3600, 24, 72, 1, 0, 0]), &deep, 2, 3).is_none(), "too many axes");
    }

    #[test]
    fn every_team_has_its_kernels() {
        let source = include_str!("../../kernels/attention_wgmma.cu");
        for (head, team) in [64, 128].into_iter().flat_map(|head| TEAMS.map(|team| (head, team))) {
            let (panels, Team { strands, groups, .. }, stages) = (head / BOX, team, team.stages(head));
            let line = |suffix: &str, groups: u16, stages: u32, plain: bool| {
                format!("(attention_wgmma_{panels}_{strands}_{groups}{suffix}, {panels}, {strands}, {groups}, {stages}, {plain}, ")
            };
            assert_eq!(
                source.contains(&line(suffix(true, team), groups, stages, true)),
                team.serves(head),
                "{head} {team:?}"
            );
            // Of operators that are not plain every warpgroup has queries of its own.
            let alone = team.alone();
            assert!(
                !alone.serves(head) || source.contains(&line("", 1, alone.stages(head), false)),
                "{head} {team:?}"
            );
        }
    }

    #[test]
    fn every_team_fits_the_shared_memory() {
        for (head, team) in [64, 128].into_iter().flat_map(|head| TEAMS.map(|team| (head, team))) {
            assert!(!team.serves(head) || shared(head, team, 4) <= 226 << 10, "{head} {team:?}");
        }
    }
}
