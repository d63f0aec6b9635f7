//! Recurrent layers on tensor cores: `kernels/recurrent_block.cu`, `kernels/recurrent_cluster.cu` and `kernels/recurrent_mma.cu`.

use super::constants::{Constant, floats};
use super::operands::{check, head, input, optional_input, output};
use super::views::{DeviceView, dtype_number};
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer};
use crate::plan::format::Operator;
use crate::plan::tactic::recurrent::{KEEPER_ROWS, Keeper, ROWS, Share, UNITS, keeper};
use crate::primitive::{Cell, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Products that an instruction sums.
const DEEP: u32 = 16;
/// Blocks of k that are read together: there is a multiple of them.
const TOGETHER: u32 = 4;
/// Halves behind a row of h, and of pre-activations, in the shared memory of a block on its own.
const SKEW: u32 = 8;
/// Steps whose pre-activations a block that keeps weights, or a share of them, has in its shared memory.
const STAGES: u32 = 4;
/// Halves of 16 bytes.
const PIECE: u32 = 8;
/// Warps of a block that reads weights anew.
const STREAM_WARPS: u32 = 16;
/// Bytes of the barriers that count what arrives in the two states.
const STATE_BARRIERS: u32 = 16;
/// Threads of a warp.
const LANES: u32 = 32;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    gates: DeviceView,
    first_h: DeviceView,
    first_c: DeviceView,
    y: DeviceView,
    last_c: DeviceView,
    weights: u64,
    steps: u32,
    hidden: u32,
    deeps: u32,
    groups: u32,
    reverse: u32,
    first_row: u32,
    rows: u32,
    tiles: u32,
    wide: u32,
    padding: u32,
}

struct RecurrentMma {
    operator: Operator,
    cell: Cell,
    reverse: bool,
    weights: PackId,
}

/// Compiles a recurrent layer of f16 with constant weights.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let recurrence = head(operator)?.primitive.recurrence();
    let (cell, reverse) = recurrence.ok_or(BindError::Tactic("it is no recurrent layer"))?;
    let weights = input(operator, 1)?;
    let hidden = weights.layout.shape.dim(1);
    let make = |read: &dyn Fn(&[u32]) -> f32| floats(DType::F16, operands(hidden).map(|at| at.map_or(0.0, |at| read(&at))));
    let weights = Constant::new(packer, weights)?.pack(packer, "operands of tensor cores", make)?;
    Ok(Box::new(RecurrentMma {
        operator: operator.clone(),
        cell,
        reverse,
        weights,
    }))
}

/// Blocks of k of a layer's product.
fn deeps(hidden: u32) -> u32 {
    hidden.div_ceil(DEEP).next_multiple_of(TOGETHER)
}

/// Coordinates in `[4H, H]` of what the threads hold as second operands of `mma.m16n8k16`, in the order in which they read
/// it: by group of units, block of k, lane, and then two instructions of two pairs. `None` behind the last unit or k.
///
/// A column of the first instruction is the first or second gate of a unit, of the second the third or fourth.
fn operands(hidden: u32) -> impl Iterator<Item = Option<[u32; 2]>> {
    let (groups, deeps) = (hidden.div_ceil(UNITS), deeps(hidden));
    (0..groups * deeps * LANES * 8).map(move |i| {
        let (place, lane, block) = (i % 8, i / 8 % LANES, i / 8 / LANES);
        let (instruction, pair, of_pair) = (place / 4, place / 2 % 2, place % 2);
        let column = lane / 4;
        let unit = block / deeps * UNITS + column / 2;
        let gate = instruction * 2 + column % 2;
        let k = block % deeps * DEEP + pair * 8 + lane % 4 * 2 + of_pair;
        (unit < hidden && k < hidden).then_some([gate * hidden + unit, k])
    })
}

/// True if rows of halves along the last of three axes lie in whole pieces.
fn in_pieces(rows: &DeviceView) -> bool {
    let steps = rows.strides[..2].iter().all(|s| s % i64::from(PIECE) == 0);
    rows.dtype == dtype_number(DType::F16) && rows.strides[2] == 1 && steps && rows.address.is_multiple_of(2 * u64::from(PIECE))
}

impl Kernel for RecurrentMma {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let view = |view: Option<_>| view.map_or(Ok(DeviceView::default()), |v| DeviceView::new(at, v));
        let y = DeviceView::new(at, output(&self.operator, 0)?)?;
        let (hidden, rows) = (y.extents[2], region.rows.len() as u32);
        let params = Params {
            gates: DeviceView::new(at, input(&self.operator, 0)?)?,
            first_h: view(optional_input(&self.operator, 2))?,
            first_c: view(optional_input(&self.operator, 3))?,
            y,
            last_c: view(self.operator.outputs.get(1))?,
            weights: at.pack(self.weights)?.address,
            steps: y.extents[0],
            hidden,
            deeps: deeps(hidden),
            groups: hidden.div_ceil(UNITS),
            reverse: u32::from(self.reverse),
            first_row: region.rows.start,
            rows,
            tiles: rows.div_ceil(ROWS),
            wide: u32::from(in_pieces(&y) && hidden.is_multiple_of(PIECE)),
            padding: 0,
        };
        let cell = match self.cell {
            Cell::Lstm => "lstm",
            Cell::Gru => "gru",
        };
        // h before and after a step.
        let states = |rows: u32| 2 * rows * (params.deeps * DEEP + SKEW) * 2;
        if let Some(Keeper { most, warps }) = keeper(hidden).filter(|_| in_pieces(&params.gates)) {
            let function = format!("recurrent_block_{cell}_{most}");
            let params = Params {
                tiles: rows.div_ceil(KEEPER_ROWS),
                ..params
            };
            return Ok(vec![Launch {
                shared: states(KEEPER_ROWS) + STAGES * KEEPER_ROWS * (4 * hidden + SKEW) * 2,
                ..Launch::new("recurrent_block", function, params.tiles, width, warps * LANES, &params)
            }]);
        }
        let share = Share::of(self.operator.tactic).filter(|_| at.clusters);
        let room = |cluster: &u32| width == 0 || u32::from(width) >= *cluster;
        let together = share.and_then(|share| Some((share, share.cluster(hidden).filter(room)?)));
        if let Some((share, cluster)) = together {
            let params = Params {
                tiles: rows.div_ceil(share.rows),
                ..params
            };
            let clusters = super::blocks(params.tiles, width / cluster as u16);
            let pieces = if params.wide != 0 && in_pieces(&params.gates) {
                ""
            } else {
                "_halves"
            };
            let function = format!("recurrent_cluster_{cell}_{}x{}{pieces}", share.rows, share.warps);
            let launch = Launch::new("recurrent_cluster", function, clusters * cluster, 0, share.threads(), &params);
            let states = 2 * share.rows * params.deeps * DEEP * 2;
            let stage = share.rows * (4 * share.warps * UNITS + SKEW) * 2;
            return Ok(vec![Launch {
                shared: states + STATE_BARRIERS + STAGES * stage,
                cluster,
                ..launch
            }]);
        }
        // c of two cells a thread.
        let cells = params.groups * LANES * 2 * 4;
        let threads = STREAM_WARPS * LANES;
        Ok(vec![Launch {
            shared: states(ROWS) + cells,
            ..Launch::new(
                "recurrent_mma",
                format!("recurrent_stream_{cell}"),
                params.tiles,
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
    use crate::plan::tactic::recurrent::CLUSTER_UNITS;
    use std::collections::BTreeSet;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 5 * 88 + 48);
    }

    #[test]
    fn numbers_are_those_of_the_sources() {
        let files = [
            include_str!("../kernels/recurrent_mma.cuh"),
            include_str!("../kernels/recurrent_mma.cu"),
            include_str!("../kernels/recurrent_block.cu"),
            include_str!("../kernels/recurrent_cluster.cu"),
        ];
        let source = files.concat();
        let numbers = [
            ("TILE_ROWS", ROWS),
            ("BLOCK_ROWS", KEEPER_ROWS),
            ("GROUP_UNITS", UNITS),
            ("DEEP", DEEP),
            ("TOGETHER", TOGETHER),
            ("SKEW", SKEW),
            ("STAGES", STAGES),
            ("RESIDENT", CLUSTER_UNITS / DEEP),
            ("PIECE", PIECE),
            ("STREAM_WARPS", STREAM_WARPS),
        ];
        for (name, value) in numbers {
            assert!(source.contains(&format!("constexpr u32 {name} = {value};")), "{name}");
        }
    }

    #[test]
    fn every_weight_is_an_operand_once() {
        for hidden in [1, 7, 16, 65] {
            let places: Vec<[u32; 2]> = operands(hidden).flatten().collect();
            let distinct: BTreeSet<&[u32; 2]> = places.iter().collect();
            assert_eq!((places.len(), distinct.len()), ((4 * hidden * hidden) as usize, places.len()));
            assert!(places.iter().all(|&[row, k]| row < 4 * hidden && k < hidden));
        }
        // Lane 5 has columns 1 (gate o of unit 0) and k 2, 3, 10, 11 of the first instruction, then gate c.
        let lane: Vec<_> = operands(64).skip(5 * 8).take(8).flatten().collect();
        assert_eq!(
            lane,
            [[64, 2], [64, 3], [64, 10], [64, 11], [192, 2], [192, 3], [192, 10], [192, 11]]
        );
    }
}
