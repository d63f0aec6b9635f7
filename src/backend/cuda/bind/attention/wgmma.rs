//! Attention by warpgroup products: `kernels/attention_wgmma.cu`, and of few keys `kernels/attention_abreast.cu`.

use super::super::views::{DeviceView, Divisor, PIECE};
use super::super::{Addresses, BindError, Kernel, Launch, Packer, Swizzle, TensorMap, TiledMap};
use super::mask::Mask;
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
    maps: [TensorMap; 4],
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
    mask: Mask,
}

/// What a kernel is compiled for: `Form` of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Any,
    Plain,
    Masked,
}

/// Compiles attention of halves.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let scale = scale(operator)?;
    let (it, _) = seen(operator)?;
    let mask = Mask::new(packer, it.mask)?;
    Ok(Box::new(AttentionWgmma {
        mask,
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

/// Bytes of dynamic shared memory: the queries, each strand's blocks of keys and values and of the mask, and every thread's sums where
/// a warpgroup joins those of several segments. Strands leave theirs in place of their keys and values.
fn shared(head: u32, team: Team, form: Form, segments: u32) -> u32 {
    let block = 2 * head * WGMMA_KEYS;
    let masks = if form == Form::Masked { 2 * BOX * WGMMA_KEYS } else { 0 };
    let joined = segments > 1 && team.strands == 1;
    let sums = if joined { team.threads() * 16 * (head / 8 + 1) } else { 0 };
    ALIGNMENT + 2 * head * team.queries() + u32::from(team.strands) * stages(head, team, form) * (2 * block + masks) + sums
}

/// Blocks of keys, of values and of the mask that a strand has in shared memory: of crowds with masks one, so that as many small windows
/// of pictures find room as without.
fn stages(head: u32, team: Team, form: Form) -> u32 {
    if form == Form::Masked && team.crowded {
        1
    } else {
        team.stages(head)
    }
}

/// The team that serves a tactic's in a form for so many keys: with few maps every warpgroup has queries of its own and registers for
/// more, and with a mask queries of its own. Crowds with masks have one block of keys. Strands that have a block each need maps.
fn team(named: Team, form: Form, keys: u32) -> Team {
    match form {
        Form::Plain => named,
        Form::Masked => Team {
            groups: 1,
            crowded: named.crowded && keys <= WGMMA_KEYS,
            ..named
        },
        Form::Any => Team {
            strands: if named.abreast { 1 } else { named.strands },
            groups: 1,
            crowded: false,
            abreast: false,
        },
    }
}

/// The unit of a team's kernel in a form, and the kernel's name.
fn function(head: u32, team: Team, form: Form) -> (&'static str, String) {
    let (panels, Team { strands, groups, .. }) = (head / BOX, team);
    let form = match form {
        Form::Any => "",
        Form::Plain => "_plain",
        Form::Masked => "_masked",
    };
    if team.abreast {
        return ("attention_abreast", format!("attention_abreast_{panels}{form}"));
    }
    let crowded = if team.crowded { "_crowded" } else { "" };
    (
        "attention_wgmma",
        format!("attention_wgmma_{panels}_{strands}_{groups}{form}{crowded}"),
    )
}

/// The map of an input whose rows lie along axis `rows` and are runs along axis `run`, from the chunk's first matrices on;
/// none where the copy engine cannot walk it. Leading axes along which it repeats itself are not stepped along.
fn map(view: &DeviceView, chunk: &Chunk, rows: usize, run: usize) -> Option<TiledMap> {
    // An axis of one position is never stepped along, but the map wants a step.
    let step = |axis: usize| match view.strides[axis] {
        0 => (view.extents[axis] == 1).then_some(PIECE),
        step => u64::try_from(step).ok()?.checked_mul(2),
    };
    let fits = view.in_pieces(run) && chunk.leading[MAPPED_LEADING..].iter().all(|&n| n == 1);
    let leading = |axis: usize| axis < chunk.row_axis && view.strides[axis] != 0;
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
        let mask = self.mask.view(at, &chunk)?;
        let column_axis = row_axis + 1;
        let tiled = [
            map(&queries, &chunk, row_axis, column_axis),
            map(&keys, &chunk, column_axis, row_axis),
            map(&values, &chunk, row_axis, column_axis),
            mask.as_ref().and_then(|mask| map(mask, &chunk, row_axis, column_axis)),
        ];
        let bits = [tiled[0].is_some(), tiled[1].is_some(), tiled[2].is_some(), self.mask.is_constant()];
        let mapped = bits.into_iter().zip(0..).map(|(bit, at)| u32::from(bit) << at).sum();
        // All forms have the same bits.
        let form = match (tiled[..3].iter().all(Option::is_some), &mask) {
            (true, None) if self.scale > 0.0 => Form::Plain,
            (true, Some(_)) if tiled[3].is_some() => Form::Masked,
            _ => Form::Any,
        };
        let count = keys.extents[row_axis + 1];
        let team = team(self.team, form, count);
        let (steps, slices) = (chunk.rows.div_ceil(team.queries()), columns.div_ceil(head));
        let tiles = chunk.tiles([steps, slices])?;
        if tiles == 0 {
            return Ok(Vec::new());
        }
        let encode = |map: &Option<TiledMap>| map.as_ref().map_or(Ok(TensorMap([0; 16])), |map| at.maps.tiled(map));
        let segment = self.operator.class.range(count, WGMMA_KEYS) / WGMMA_KEYS;
        let params = Params {
            maps: [encode(&tiled[0])?, encode(&tiled[1])?, encode(&tiled[2])?, encode(&tiled[3])?],
            y: chunk.view(at, it.output)?,
            queries,
            keys,
            values,
            mask: mask.unwrap_or_default(),
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
        let (unit, function) = function(head, team, form);
        Ok(vec![Launch {
            shared: shared(head, team, form, count.div_ceil(segment * WGMMA_KEYS)),
            ..Launch::new(unit, function, tiles, width, team.threads(), &params)
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tactic::attention::TEAMS;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 4 * 128 + 5 * 88 + 72 + 40 + 24);
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
        let shared = map(&view(512, [3600, 0, 72, 1, 0, 0]), &chunk, 2, 3);
        assert!(shared.is_some_and(|it| it.extents == [24, 50, 1, 1, 2]), "one head for all");
        assert!(map(&view(512, [3600, 24, 0, 1, 0, 0]), &chunk, 2, 3).is_none(), "one row for all");
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
        let sources = [
            include_str!("../../kernels/attention_wgmma.cu"),
            include_str!("../../kernels/attention_abreast.cu"),
        ];
        for (head, named, form) in kernels() {
            let (panels, it) = (head / BOX, team(named, form, WGMMA_KEYS));
            let (Team { strands, groups, .. }, stages) = (it, stages(head, it, form));
            let (unit, name) = function(head, it, form);
            let form = format!("{form:?}").to_uppercase();
            let line = match unit {
                "attention_wgmma" => format!("({name}, {panels}, {strands}, {groups}, {stages}, {form}, "),
                _ => format!("({name}, {panels}, {form}, "),
            };
            assert!(sources.iter().any(|source| source.contains(&line)), "{line}");
        }
    }

    #[test]
    fn every_team_fits_the_shared_memory() {
        for (head, named, form) in kernels() {
            assert!(
                shared(head, team(named, form, 256), form, 4) <= 226 << 10,
                "{head} {named:?} {form:?}"
            );
        }
    }

    /// Every head with the teams that serve it, in every form.
    fn kernels() -> impl Iterator<Item = (u32, Team, Form)> {
        let teams = [64, 128].into_iter().flat_map(|head| TEAMS.map(|team| (head, team)));
        let forms = |(head, team)| [Form::Any, Form::Plain, Form::Masked].map(|form| (head, team, form));
        teams.filter(|(head, team)| team.serves(*head)).flat_map(forms)
    }
}
