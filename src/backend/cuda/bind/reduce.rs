//! Reductions over one axis or several: `kernels/reduce.cu`, and of few elements `kernels/reduce_short.cu`.

use super::frame::{ElementBox, Frame};
use super::generic::reduce_number;
use super::operands::{check, head, input, output};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, count};
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
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
        // A tail would look for its operands at coordinates that there are not.
        let alone = self.operator.calls.len() == 1;
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

    /// The parameters of a chunk of floats that are taken in one range; `None` where they are few, or come in several ranges.
    fn ordered(&self, at: &Addresses<'_>, outputs: ElementBox) -> Result<Option<Params>, BindError> {
        let params = self.params(at, outputs)?;
        let floats = input(&self.operator, 0)?.dtype == DType::F32;
        let long = params.splits == 1 && params.count >= FEWEST_ORDERED;
        let tiles = outputs.count.div_ceil(ORDERED);
        Ok((floats && long).then_some(Params {
            frame: Frame { tiles, ..params.frame },
            ..params
        }))
    }

    /// The parameters of a chunk of rows that a thread takes each; `None` where they are long.
    fn short(&self, at: &Addresses<'_>, rows: ElementBox) -> Result<Option<Params>, BindError> {
        let params = self.params(at, rows)?;
        let tiles = rows.count.div_ceil(SHORT_THREADS);
        Ok((params.count <= SHORT && params.splits <= MAX_SPLITS).then_some(Params {
            frame: Frame { tiles, ..params.frame },
            ..params
        }))
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

    /// The kernel of a chunk of which neighbours along `axis` are reduced together, and its parameters.
    fn columns(&self, at: &Addresses<'_>, mut outputs: ElementBox, axis: usize) -> Result<(&'static str, Params), BindError> {
        let (first, neighbours) = self.beside(at, &mut outputs, axis)?;
        let params = self.params(at, outputs)?;
        let groups = if params.splits == THREADS { 1 } else { GROUPS };
        let step = i64::from(GROUP);
        let others = (0..params.x.strides.len()).filter(|&a| a != axis);
        let grouped = others.map(|a| params.x.strides[a]).chain(params.steps).all(|s| s % step == 0);
        let aligned = params.x.address.is_multiple_of(16) && [first, neighbours].iter().all(|n| n.is_multiple_of(GROUP));
        let halves = input(&self.operator, 0)?.dtype == DType::F16;
        let whole = halves && grouped && aligned;
        let blocks = |each: u32| neighbours.div_ceil(groups * each);
        let tiles = |each: u32| outputs.count.checked_mul(blocks(each)).ok_or(BindError::Large("a chunk"));
        let (function, each) = match whole && tiles(GROUP)? < at.multiprocessors {
            true => ("reduce_columns_twos", FEW),
            false => ("reduce_columns_eights", GROUP),
        };
        let (tiles, blocks) = (tiles(each)?, blocks(each));
        let params = Params {
            frame: Frame { tiles, ..params.frame },
            groups: Divisor::new(blocks),
            axis: axis as u32,
            first,
            neighbours,
            whole: u32::from(whole),
            ..params
        };
        Ok((function, params))
    }
}

impl Kernel for Reduce {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let outputs = ElementBox::new(output(&self.operator, 0)?, region)?;
        let (unit, function, threads, params) = match (self.ordered(at, outputs)?, self.walk.neighbours) {
            (Some(params), _) => ("reduce", "reduce_ordered", THREADS, params),
            (None, Some(axis)) => {
                let (function, params) = self.columns(at, outputs, axis)?;
                ("reduce", function, THREADS, params)
            }
            (None, None) => match self.short(at, outputs)? {
                Some(params) => ("reduce_short", "reduce_short", SHORT_THREADS, params),
                None => ("reduce", "reduce_rows", THREADS, self.params(at, outputs)?),
            },
        };
        Ok(vec![Launch::new(unit, function, params.frame.tiles, width, threads, &params)])
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
