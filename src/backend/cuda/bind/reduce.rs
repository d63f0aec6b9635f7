//! Reductions over one axis or several. `kernels/reduce.cu` takes them all. What follows is faster where it can be used:
//!
//! | unit | what it takes |
//! |---|---|
//! | `reduce_few` | neighbours that are kept, of elements in one range, and maxima of few |
//! | `reduce_sums` | few neighbours that are kept, of halves in 32 ranges, or in many by clusters |
//! | `reduce_lanes` | rows of halves side by side, in 32 ranges |
//! | `reduce_short` | other rows of few elements |
//!
//! All but the last know tails of one function at most.

use super::frame::{ElementBox, Frame};
use super::generic::reduce_number;
use super::operands::{check, head, input, output};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, blocks, count};
use crate::limits::MAX_RANK;
use crate::plan::format::{Operand, Operator};
use crate::plan::tactic::reduction::{FEWEST_ORDERED, MAX_PARTS, Walk, walk};
use crate::primitive::{Primitive, ReduceKind, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Ranges that a warp reduces side by side.
const MAX_SPLITS: u32 = 32;
/// Neighbours of a thread, and where they leave multiprocessors without a block.
const GROUP: u32 = 8;
const FEW: u32 = 2;
/// Groups of neighbours of a block.
const GROUPS: u32 = 8;
/// Threads of a block, and the many ranges of one group of neighbours or of one row.
const THREADS: u32 = MAX_SPLITS * GROUPS;
/// Rows of a block, a warp a row.
const ROWS: u32 = THREADS / 32;
/// Most elements of a row that one thread takes, and threads of a block of them.
const SHORT: u32 = 64;
const SHORT_THREADS: u32 = 128;
/// Outputs of a block whose elements are taken in one range.
const ORDERED: u32 = 32;
/// Threads of a block that take all elements each, and most elements of a maximum where such threads leave multiprocessors idle.
const FEW_THREADS: u32 = 128;
const FEW_ELEMENTS: u32 = 16;
/// Neighbours of a block whose threads take two, and elements of each that a thread has in flight at once, few or many.
const SUMS: u32 = 16;
const SUMS_PAIR: u32 = 2;
const SUMS_BATCH: u32 = 8;
/// Greatest distance of elements for that.
const SUMS_STEP: i64 = 1 << 30;
/// Warps of a block of rows, and elements that a thread has in flight.
const LANES_WARPS: u32 = 4;
const LANES_LOADS: u32 = 16;
/// Threads of a block of a long row, and its most elements.
const LONG_THREADS: u32 = 512;
const LONG_MOST: u32 = 4096;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    frame: Frame,
    x: DeviceView,
    steps: [i64; MAX_PARTS],
    inner: Divisor,
    middle: Divisor,
    groups: Divisor,
    axis: u32,
    first: u32,
    neighbours: u32,
    count: u32,
    share: u32,
    splits: u32,
    kind: u32,
    whole: u32,
    used: u32,
}

impl Params {
    /// The same in so many tiles.
    fn tiled(self, tiles: u32) -> Params {
        Params {
            frame: Frame { tiles, ..self.frame },
            ..self
        }
    }

    /// The same with neighbours in groups of `each`, whose elements lie so or not.
    fn grouped(self, each: u32, whole: bool) -> Params {
        Params {
            groups: Divisor::new(self.neighbours.div_ceil(each)),
            whole: u32::from(whole),
            ..self
        }
    }
}

/// A kernel for a chunk.
struct Chosen {
    unit: &'static str,
    function: String,
    threads: u32,
    /// Blocks of a cluster.
    cluster: u32,
    params: Params,
}

impl Chosen {
    fn new(unit: &'static str, function: impl Into<String>, threads: u32, params: Params) -> Chosen {
        Chosen {
            unit,
            function: function.into(),
            threads,
            cluster: 1,
            params,
        }
    }
}

struct Reduce {
    operator: Operator,
    kind: ReduceKind,
    walk: Walk,
}

/// Compiles a reduction of floats with any tail of floats.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Reduce { kind, axes } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it reduces nothing"));
    };
    let walk = walk(input(operator, 0)?, axes).map_err(|_| BindError::Tactic("its reduced axes lie in too many parts"))?;
    Ok(Box::new(Reduce {
        operator: operator.clone(),
        kind,
        walk,
    }))
}

impl Reduce {
    /// Takes the neighbours along `axis` out of a box, and with them those along other axes where both tensors go on where these
    /// end: the first, and how many there are.
    fn beside(&self, at: &Addresses<'_>, outputs: &mut ElementBox, axis: usize) -> Result<(u32, u32), BindError> {
        let x = DeviceView::new(at, input(&self.operator, 0)?)?;
        let y = DeviceView::new(at, output(&self.operator, 0)?)?;
        let mut take = |axis: usize| {
            let (start, extent) = (outputs.start[axis], outputs.extents[axis].divisor);
            outputs.count /= extent.max(1);
            outputs.start[axis] = 0;
            outputs.extents[axis] = Divisor::new(1);
            (start, extent)
        };
        let (mut first, mut neighbours) = take(axis);
        // A tail would look for tensors at coordinates that there are not.
        let inner = |operand: &Operand| matches!(operand, Operand::Inner(_));
        let alone = self.operator.calls.iter().skip(1).all(|call| call.inputs.iter().all(inner));
        let mut whole = y.extents[axis];
        while alone && neighbours == whole {
            let goes_on = |other: &usize| {
                let step = |view: &DeviceView| view.strides[*other] == i64::from(whole) * view.strides[axis];
                y.extents[*other] > 1 && step(&x) && step(&y)
            };
            let Some((other, longer)) = (0..MAX_RANK)
                .find(goes_on)
                .and_then(|other| Some((other, whole.checked_mul(y.extents[other])?)))
            else {
                break;
            };
            let (start, extent) = take(other);
            (first, neighbours) = (start * whole, extent * whole);
            whole = longer;
        }
        Ok((first, neighbours))
    }

    /// Elements of a range, and how many ranges there are at most. A maximum is the same in any number of ranges.
    fn ranges(&self, count: u32) -> (u32, u32) {
        let splits = match self.kind {
            ReduceKind::Max => MAX_SPLITS,
            ReduceKind::Mean | ReduceKind::Sum | ReduceKind::Norm => u32::from(self.operator.class.split_k.max(1)),
        };
        (count.div_ceil(splits).max(1), splits)
    }

    /// The tail is one function of one value, or none.
    fn plain(&self) -> bool {
        match &self.operator.calls[..] {
            [_] => true,
            [_, tail] => matches!(tail.primitive, Primitive::Unary(_) | Primitive::Copy),
            _ => false,
        }
    }

    /// The elements are halves.
    fn halves(&self) -> Result<bool, BindError> {
        Ok(input(&self.operator, 0)?.dtype == DType::F16)
    }

    /// The parameters of a chunk of floats that are taken in one range; `None` where they are few, or come in several ranges.
    fn ordered(&self, at: &Addresses<'_>, outputs: ElementBox) -> Result<Option<Params>, BindError> {
        let params = self.params(at, outputs)?;
        let floats = input(&self.operator, 0)?.dtype == DType::F32;
        let long = params.splits == 1 && params.count >= FEWEST_ORDERED;
        let tiles = outputs.count.div_ceil(ORDERED);
        Ok((floats && long).then_some(params.tiled(tiles)))
    }

    /// The parameters of a chunk of rows that a thread takes each; `None` where they are long.
    fn short(&self, at: &Addresses<'_>, rows: ElementBox) -> Result<Option<Params>, BindError> {
        let params = self.params(at, rows)?;
        let tiles = rows.count.div_ceil(SHORT_THREADS);
        Ok((params.count <= SHORT && params.splits <= MAX_SPLITS).then_some(params.tiled(tiles)))
    }

    /// The parameters of a chunk of rows, each an output.
    fn params(&self, at: &Addresses<'_>, rows: ElementBox) -> Result<Params, BindError> {
        let parts = &self.walk.parts;
        let count = count(parts.iter().map(|&(extent, _)| extent), "a reduction")?;
        let x = DeviceView::new(at, input(&self.operator, 0)?)?;
        let (share, splits) = self.ranges(count);
        let per_block = if splits == THREADS { 1 } else { ROWS };
        let extent = |part: usize| parts.get(part).map_or(1, |&(extent, _)| extent);
        Ok(Params {
            frame: Frame::new(at, &self.operator, rows, per_block)?,
            x,
            steps: std::array::from_fn(|part| parts.get(part).map_or(0, |&(_, step)| step)),
            inner: Divisor::new(extent(0)),
            middle: Divisor::new(extent(1)),
            groups: Divisor::new(1),
            axis: 0,
            first: 0,
            neighbours: 1,
            count,
            share,
            splits,
            kind: reduce_number(self.kind),
            whole: u32::from(parts.len() == 1 && parts[0].1 == 1),
            used: count.div_ceil(share).min(splits),
        })
    }

    /// The kernel of a chunk of which neighbours along `axis` are reduced together.
    fn columns(&self, at: &Addresses<'_>, mut outputs: ElementBox, axis: usize, width: u16) -> Result<Chosen, BindError> {
        let (first, neighbours) = self.beside(at, &mut outputs, axis)?;
        let params = Params {
            axis: axis as u32,
            first,
            neighbours,
            ..self.params(at, outputs)?
        };
        let groups = if params.splits == THREADS { 1 } else { GROUPS };
        let halves = self.halves()?;
        // Halves whose neighbours lie in runs of so many, each on as many bytes as it has.
        let in_runs = |run: u32| {
            let moves = |a: &usize| outputs.extents[*a].divisor > 1 || outputs.start[*a] > 0;
            let others = (0..params.x.strides.len()).filter(moves);
            let grouped = others
                .map(|a| params.x.strides[a])
                .chain(params.steps)
                .all(|s| s % i64::from(run) == 0);
            let aligned = params.x.address.is_multiple_of(2 * u64::from(run));
            halves && grouped && aligned && [first, neighbours].iter().all(|n| n.is_multiple_of(run))
        };
        let whole = in_runs(GROUP);
        let tiles = |each: u32| count([outputs.count, neighbours.div_ceil(each)], "a chunk");
        let (few, one) = if whole {
            ("reduce_few_eights", GROUP)
        } else {
            ("reduce_few_ones", 1)
        };
        let blocks = tiles(one)?.div_ceil(FEW_THREADS);
        if self.takes_few(at, &params, blocks) {
            let params = params.grouped(one, whole).tiled(blocks);
            return Ok(Chosen::new("reduce_few", few, FEW_THREADS, params));
        }
        let idle = tiles(groups * GROUP)? < at.multiprocessors;
        let sums = in_runs(SUMS_PAIR) && (idle || !whole);
        if let Some(cluster) = self.sums(at, &params, width).filter(|_| sums) {
            let kind = if self.kind == ReduceKind::Norm { "norms" } else { "sums" };
            let batch = if params.share <= SUMS_BATCH { SUMS_BATCH } else { 2 * SUMS_BATCH };
            let params = params.grouped(SUMS, true).tiled(tiles(SUMS)?);
            return Ok(Chosen {
                cluster,
                ..Chosen::new("reduce_sums", format!("reduce_{kind}_{batch}"), THREADS, params)
            });
        }
        let (function, each) = match whole && idle {
            true => ("reduce_columns_twos", groups * FEW),
            false => ("reduce_columns_eights", groups * GROUP),
        };
        let params = params.grouped(each, whole).tiled(tiles(each)?);
        Ok(Chosen::new("reduce", function, THREADS, params))
    }

    /// True if a thread shall take all elements of its neighbours, of which there are so many blocks.
    fn takes_few(&self, at: &Addresses<'_>, params: &Params, blocks: u32) -> bool {
        let few = match self.kind {
            ReduceKind::Max => params.count <= FEW_ELEMENTS || blocks >= at.rooms(),
            ReduceKind::Mean | ReduceKind::Sum | ReduceKind::Norm => params.splits == 1,
        };
        few && self.plain()
    }

    /// Blocks of a cluster that sums pairs of neighbours, a run of ranges each; `None` where that does not serve, or has no room.
    fn sums(&self, at: &Addresses<'_>, params: &Params, width: u16) -> Option<u32> {
        let even = self.walk.parts.len() <= 1 && (0..SUMS_STEP).contains(&params.steps[0]);
        let runs = match params.splits {
            MAX_SPLITS => 1,
            THREADS => params.used.div_ceil(MAX_SPLITS).max(1),
            _ => return None,
        };
        let room = runs == 1 || at.clusters && (width == 0 || u32::from(width) >= runs);
        (even && room && self.kind != ReduceKind::Max && self.plain()).then_some(runs)
    }

    /// The kernel of a chunk of rows, each an output.
    fn rows(&self, at: &Addresses<'_>, rows: ElementBox) -> Result<Chosen, BindError> {
        let params = self.params(at, rows)?;
        let ranges = params.splits == MAX_SPLITS && self.kind != ReduceKind::Max;
        if ranges && params.whole == 1 && self.halves()? && self.plain() {
            if params.share <= LANES_LOADS {
                let share = params.share.next_power_of_two().max(2);
                let per_block = LANES_WARPS * (LANES_LOADS / share);
                let params = params.tiled(rows.count.div_ceil(per_block));
                return Ok(Chosen::new(
                    "reduce_lanes",
                    format!("reduce_lanes_{share}"),
                    LANES_WARPS * 32,
                    params,
                ));
            }
            if params.count <= LONG_MOST && rows.count <= at.rooms().saturating_mul(2) {
                return Ok(Chosen::new("reduce_lanes", "reduce_long", LONG_THREADS, params.tiled(rows.count)));
            }
        }
        Ok(match self.short(at, rows)? {
            Some(params) => Chosen::new("reduce_short", "reduce_short", SHORT_THREADS, params),
            None => Chosen::new("reduce", "reduce_rows", THREADS, params),
        })
    }
}

impl Kernel for Reduce {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let outputs = ElementBox::new(output(&self.operator, 0)?, region)?;
        let chosen = match (self.ordered(at, outputs)?, self.walk.neighbours) {
            (Some(params), _) => Chosen::new("reduce", "reduce_ordered", THREADS, params),
            (None, Some(axis)) => self.columns(at, outputs, axis, width)?,
            (None, None) => self.rows(at, outputs)?,
        };
        let Chosen {
            unit,
            function,
            threads,
            cluster,
            params,
        } = chosen;
        let blocks = blocks(params.frame.tiles, width / cluster as u16) * cluster;
        Ok(vec![Launch {
            cluster,
            ..Launch::new(unit, function, blocks, 0, threads, &params)
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), std::mem::size_of::<Frame>() + 88 + 24 + 36 + 36);
    }
}
