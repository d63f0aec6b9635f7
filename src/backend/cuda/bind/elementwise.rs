//! Chains of elementwise functions, and copies, over runs: `kernels/elementwise.cu`, or `kernels/elementwise_runs.cu` where the
//! tensors lie alike, or `kernels/elementwise_channels.cu` where they do and all pixels have the same of some, or
//! `kernels/elementwise_lanes.cu` for coordinates; plain copies between tensors that lie otherwise go through `kernels/permute.cu`,
//! those of few channels side by side into planes through `kernels/permute_few.cu`.

mod channels;
mod lanes;

use super::generic::head_call;
use super::operands::{check, head, output};
use super::tail::{FROM_MEMORY, Tail, TailCall, TailOperand};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, count, permute, permute_few};
use crate::limits::MAX_RANK;
use crate::plan::format::{Call, Operator};
use crate::primitive::{Binary, Primitive, Region, Unary};
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 256;
/// Elements of a run, and of a thread of the kernel for any layout.
const GROUP: u32 = 8;
/// Bytes on which the runs of the kernels of several lie.
const WIDE: i64 = 16;
/// Axes that most chains have left.
const NEAR: usize = 3;
/// The kernels of several runs a thread, along [`NEAR`] axes: how many runs, and from how many blocks of them for each multiprocessor on.
const SEVERAL: [(&str, u32, u32); 3] = [("elementwise_fours", 4, 4), ("elementwise_pairs", 2, 1), ("elementwise_ones", 1, 0)];
/// The same where more axes are left.
const FAR: [(&str, u32, u32); 2] = [("elementwise_far_pairs", 2, 1), ("elementwise_far_ones", 1, 0)];
/// The kernels of which there are short ones for brief chains, and those.
const BRIEF: [(&str, &str); 6] = [
    ("elementwise", "elementwise_brief"),
    (lanes::NAME, "elementwise_lanes_brief"),
    ("elementwise_ones", "elementwise_brief_ones"),
    ("elementwise_pairs", "elementwise_brief_pairs"),
    ("elementwise_far_ones", "elementwise_brief_far_ones"),
    ("elementwise_far_pairs", "elementwise_brief_far_pairs"),
];
/// The stride along axis 0, in the kernels of several runs, of a tensor whose pairs of neighbours are changed round.
const SWAPPED: i64 = -1;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    head: TailCall,
    tail: Tail,
    extents: [Divisor; MAX_RANK],
    length: u32,
    copy: u32,
    count: u32,
    tiles: u32,
    group: u32,
    padding: u32,
}

struct Elementwise {
    operator: Operator,
}

/// Compiles an operator of elementwise functions, or a copy with a tail, of floats.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    Ok(Box::new(Elementwise {
        operator: operator.clone(),
    }))
}

/// Bytes of an element, by its type's number.
fn size(dtype: u32) -> i64 {
    match dtype {
        0 | 2 => 4,
        1 => 2,
        _ => 1,
    }
}

/// Calls `change` with every tensor of the parameters: its address, the size of an element and its strides.
fn every_tensor(p: &mut Params, mut change: impl FnMut(&mut u64, i64, &mut [i64; MAX_RANK])) {
    change(&mut p.y.address, size(p.y.dtype), &mut p.y.strides);
    let calls = std::iter::once(&mut p.head).chain(&mut p.tail.call);
    for operand in calls.flat_map(|call| [&mut call.a, &mut call.b]).filter(|o| in_memory(o)) {
        change(&mut operand.address, size(operand.dtype), &mut operand.strides);
    }
}

fn in_memory(operand: &TailOperand) -> bool {
    operand.source == FROM_MEMORY
}

/// True if all calls are sums, differences, products and bounds: `Brief` of `kernels/elementwise_chain.cuh`.
fn is_brief(operator: &Operator) -> bool {
    let brief = |call: &Call| match call.primitive {
        Primitive::Binary(function) => matches!(function, Binary::Add | Binary::Sub | Binary::Mul),
        Primitive::Unary(function) => matches!(function, Unary::Relu | Unary::Clip(..)),
        Primitive::Copy => true,
        _ => false,
    };
    operator.calls.iter().all(brief)
}

impl Kernel for Elementwise {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let view = output(&self.operator, 0)?;
        let shape = view.layout.shape;
        let mut ranges: [_; MAX_RANK] = std::array::from_fn(|a| 0..shape.dim(a));
        if shape.rank() > 0 {
            ranges[0] = region.batch.clone();
        }
        if let Some(rows) = shape.row_axis() {
            ranges[rows] = region.rows.clone();
        }
        if ranges.iter().any(|r| r.is_empty()) {
            return Ok(Vec::new());
        }
        let mut params = Params {
            y: DeviceView::new(at, view)?,
            head: head_call(at, &self.operator)?,
            tail: Tail::new(at, &self.operator)?,
            copy: u32::from(head(&self.operator)?.primitive == Primitive::Copy),
            ..Params::zeroed()
        };
        // Addresses of the chunk's first element, so that coordinates count from there.
        every_tensor(&mut params, |address, size, strides| {
            let element: i64 = (0..MAX_RANK).map(|a| i64::from(ranges[a].start) * strides[a]).sum();
            *address = address.wrapping_add_signed(element * size);
        });
        let mut extents: [u32; MAX_RANK] = std::array::from_fn(|a| ranges[a].len() as u32);
        turn(&mut params, &mut extents)?;
        params.y.extents = extents;
        if params.copy == 1 && params.tail.calls == 0 {
            let (from, to) = (&params.head.a, &params.y);
            if let Some(launch) = permute_few::launch(from, to, &extents, width)? {
                return Ok(vec![launch]);
            }
            if let Some(launch) = permute::launch(from, to, &extents, width)? {
                return Ok(vec![launch]);
            }
        }
        let swapped = swap_pairs(&params, &extents);
        let group = together(&params, &extents);
        let alike = swapped.is_some() || group == 0 && lie_alike(&mut params, &extents);
        if alike
            && swapped.is_none()
            && let Some(function) = channels::spread(&mut params, &mut extents, at.multiprocessors)
        {
            params.extents = extents.map(Divisor::new);
            params.count = count(extents, "a chunk")?;
            return Ok(vec![Launch::new(channels::NAME, function, params.tiles, width, THREADS, &params)]);
        }
        if let Some(swapped) = swapped {
            (params, extents) = swapped;
        }
        let spread = !alike && lanes::spread(&mut params, &mut extents);
        if !spread {
            params.group = group as u32;
            params.length = extents[group];
            extents[group] = extents[group].div_ceil(GROUP);
        }
        params.count = count(extents, "a chunk")?;
        params.extents = extents.map(Divisor::new);
        let near = extents[NEAR..].iter().all(|&e| e == 1);
        let several: &[_] = if near { &SEVERAL } else { &FAR };
        let enough = |&&(_, _, least): &&(&str, u32, u32)| params.count >= least.saturating_mul(at.multiprocessors * THREADS);
        let (unit, function, runs) = match several.iter().find(enough) {
            Some(&(function, runs, _)) if alike => ("elementwise_runs", function, runs),
            _ if spread => (lanes::NAME, lanes::NAME, 1),
            _ => ("elementwise", "elementwise", 1),
        };
        let short = BRIEF.iter().find(|(long, _)| *long == function && is_brief(&self.operator));
        let function = short.map_or(function, |&(_, short)| short);
        params.tiles = params.count.div_ceil(runs * THREADS);
        Ok(vec![Launch::new(unit, function, params.tiles, width, THREADS, &params)])
    }
}

/// Orders the axes from the output's innermost to its outermost, and joins those that lie behind each other in all tensors.
///
/// A thread writes neighbours along axis 0. Where a chunk leaves one element of the axis along which they lie, no other axis may
/// take its place: axis 0 is then of one element.
fn turn(params: &mut Params, extents: &mut [u32; MAX_RANK]) -> Result<(), BindError> {
    let mut order: Vec<usize> = (0..MAX_RANK).filter(|&a| extents[a] > 1).collect();
    order.sort_by_key(|&a| (params.y.strides[a].unsigned_abs(), std::cmp::Reverse(a)));
    let mut axes: Vec<Vec<usize>> = Vec::new();
    if order.first().is_some_and(|&a| params.y.strides[a] != 1) {
        axes.push(Vec::new());
    }
    for axis in order {
        // The axis continues the group if every tensor steps on from the group's end.
        let joins = |params: &mut Params, group: &[usize]| {
            let length: i64 = group.iter().map(|&a| i64::from(extents[a])).product();
            let mut all = true;
            every_tensor(params, |_, _, strides| all &= strides[axis] == strides[group[0]] * length);
            all
        };
        match axes.last_mut() {
            Some(group) if !group.is_empty() && joins(params, group) => group.push(axis),
            _ => axes.push(vec![axis]),
        }
    }
    if axes.len() > MAX_RANK {
        return Err(BindError::Tactic("its results have no neighbours in memory"));
    }
    every_tensor(params, |_, _, strides| {
        let old = *strides;
        *strides = std::array::from_fn(|i| axes.get(i).and_then(|group| group.first()).map_or(0, |&a| old[a]));
    });
    let old = *extents;
    *extents = std::array::from_fn(|i| axes.get(i).map_or(1, |group| group.iter().map(|&a| old[a]).product()));
    Ok(())
}

/// The launch of tensors of which some have the neighbours of every pair changed round, as features have that are turned by angles:
/// pairs along axis 0, which one walks backwards, are joined with what lies behind them, and that one's stride is [`SWAPPED`]. `None`
/// where no tensor does so, or they do not [lie alike](lie_alike) else.
fn swap_pairs(params: &Params, extents: &[u32; MAX_RANK]) -> Option<(Params, [u32; MAX_RANK])> {
    let (mut turned, mut joined) = (*params, *extents);
    let (mut swapped, mut others) = (Vec::new(), extents[0] == 2);
    let mut index = 0;
    every_tensor(&mut turned, |address, size, strides| {
        if strides[0] == -1 {
            swapped.push(index);
            *address = address.wrapping_add_signed(-size);
            strides[0] = 1;
        }
        others &= strides[0] == 1;
        index += 1;
    });
    if !others || swapped.is_empty() {
        return None;
    }
    turn(&mut turned, &mut joined).ok()?;
    if !lie_alike(&mut turned, &joined) {
        return None;
    }
    index = 0;
    every_tensor(&mut turned, |_, _, strides| {
        if swapped.contains(&index) {
            strides[0] = SWAPPED;
        }
        index += 1;
    });
    Some((turned, joined))
}

/// The axis along which a thread's elements lie: the output's innermost, unless the head's first input has neighbours of
/// another axis side by side.
fn together(params: &Params, extents: &[u32; MAX_RANK]) -> usize {
    let from = params.head.a.strides;
    let dense = |axis: &usize| extents[*axis] >= GROUP && from[*axis] == 1;
    if extents[0] < GROUP || from[0].unsigned_abs() <= 1 {
        return 0;
    }
    (1..MAX_RANK).find(dense).unwrap_or(0)
}

/// Whether every tensor has its runs along axis 0 on 16 bytes, or repeats an element along it, and numbers its elements, in either
/// direction, in 31 bits.
fn lie_alike(params: &mut Params, extents: &[u32; MAX_RANK]) -> bool {
    let mut all = extents[0].is_multiple_of(GROUP) && params.y.strides[0] == 1;
    every_tensor(params, |address, size, strides| {
        let wide = |axis: usize| extents[axis] == 1 || (strides[axis] * size) % WIDE == 0;
        let runs = strides[0] == 0 || strides[0] == 1 && address.is_multiple_of(WIDE as u64) && (1..MAX_RANK).all(wide);
        all &= runs && numbered(strides, extents);
    });
    all
}

/// Whether a tensor numbers its elements, in either direction, in 31 bits.
fn numbered(strides: &[i64; MAX_RANK], extents: &[u32; MAX_RANK]) -> bool {
    let reach = |axis: usize| i64::from(extents[axis] - 1).checked_mul(strides[axis]);
    let span = (0..MAX_RANK).try_fold(0i64, |sum, axis| sum.checked_add(reach(axis)?.checked_abs()?));
    span.is_some_and(|span| span <= i64::from(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_runs_a_thread_lie_on_16_bytes() {
        let alike = |address: u64, strides: [i64; MAX_RANK], extents: [u32; MAX_RANK]| {
            let mut params = Params::zeroed();
            (params.y.address, params.y.dtype, params.y.strides) = (1 << 20, 1, [1, 64, 4096, 0, 0, 0]);
            (params.head.a.address, params.head.a.dtype, params.head.a.strides) = (address, 1, strides);
            params.head.a.source = FROM_MEMORY;
            lie_alike(&mut params, &extents)
        };
        let extents = [64, 4, 2, 1, 1, 1];
        assert!(alike(1 << 16, [1, 64, 256, 0, 0, 0], extents));
        assert!(alike((1 << 16) + 2, [0, 1, 4, 0, 0, 0], extents), "repeated along axis 0");
        assert!(alike(1 << 16, [1, 0, 64, 0, 0, 0], extents), "repeated along axis 1");
        assert!(!alike((1 << 16) + 2, [1, 64, 256, 0, 0, 0], extents));
        assert!(!alike(1 << 16, [1, 68, 272, 0, 0, 0], extents));
        assert!(!alike(1 << 16, [4, 64, 256, 0, 0, 0], extents));
        assert!(alike(1 << 16, [1, -64, 256, 0, 0, 0], extents), "backwards along axis 1");
        assert!(!alike(1 << 16, [-1, 64, 256, 0, 0, 0], extents));
        assert!(!alike(1 << 16, [1, 64, 1 << 31, 0, 0, 0], extents));
        assert!(!alike(1 << 16, [1, 64, 256, 0, 0, 0], [60, 4, 2, 1, 1, 1]));
        assert!(alike(1 << 16, [1, 64, 256, 512, 0, 0], [64, 4, 2, 2, 1, 1]), "more axes");
        assert!(!alike(1 << 16, [1, 64, 256, 513, 0, 0], [64, 4, 2, 2, 1, 1]));
    }

    #[test]
    fn pairs_that_are_changed_round_are_runs_too() {
        let swapped = |partner: u64, strides: [i64; MAX_RANK], extents: [u32; MAX_RANK]| {
            let mut params = Params::zeroed();
            (params.y.address, params.y.dtype, params.y.strides) = (1 << 20, 1, [1, 2, 64, 0, 0, 0]);
            (params.head.a.address, params.head.a.dtype, params.head.a.strides) = (1 << 16, 1, [1, 2, 192, 0, 0, 0]);
            (params.head.b.address, params.head.b.dtype, params.head.b.strides) = (partner, 1, strides);
            (params.head.a.source, params.head.b.source) = (FROM_MEMORY, FROM_MEMORY);
            let found = swap_pairs(&params, &extents);
            found.map(|(p, e)| (p.head.b.address, p.head.a.strides, p.head.b.strides, e))
        };
        let extents = [2, 32, 5, 1, 1, 1];
        let found = swapped((1 << 16) + 2, [-1, 2, 192, 0, 0, 0], extents);
        assert_eq!(
            found,
            Some((1 << 16, [1, 192, 0, 0, 0, 0], [SWAPPED, 192, 0, 0, 0, 0], [64, 5, 1, 1, 1, 1]))
        );
        assert_eq!(swapped(1 << 16, [1, 2, 192, 0, 0, 0], extents), None, "nothing is changed round");
        assert_eq!(swapped((1 << 16) + 4, [-1, 2, 192, 0, 0, 0], extents), None, "between 16 bytes");
        assert_eq!(
            swapped((1 << 16) + 2, [-1, 2, 192, 0, 0, 0], [2, 30, 5, 1, 1, 1]),
            None,
            "no whole runs"
        );
        assert_eq!(swapped((1 << 16) + 2, [-1, 4, 192, 0, 0, 0], extents), None, "pairs apart");
        assert_eq!(swapped((1 << 16) + 4, [-1, 3, 96, 0, 0, 0], [3, 32, 5, 1, 1, 1]), None, "no pairs");
    }

    #[test]
    fn a_chunk_without_neighbours_writes_elements_one_by_one() {
        let turned = |strides: [i64; MAX_RANK], mut extents: [u32; MAX_RANK]| {
            let mut params = Params::zeroed();
            params.y.strides = strides;
            turn(&mut params, &mut extents).map(|()| (params.y.strides, extents))
        };
        // One row of a transposed tensor: along no axis do its elements lie side by side, but both axes step alike.
        let row = turned([12, 1, 4, 0, 0, 0], [2, 1, 3, 1, 1, 1]).unwrap();
        assert_eq!(row, ([0, 4, 0, 0, 0, 0], [1, 6, 1, 1, 1, 1]));
        let apart = turned([16, 1, 4, 0, 0, 0], [2, 1, 3, 1, 1, 1]).unwrap();
        assert_eq!(apart, ([0, 4, 16, 0, 0, 0], [1, 3, 2, 1, 1, 1]));
        let whole = turned([12, 1, 4, 0, 0, 0], [2, 4, 3, 1, 1, 1]).unwrap();
        assert_eq!(whole, ([1, 0, 0, 0, 0, 0], [24, 1, 1, 1, 1, 1]));
        assert!(turned([64, 32, 16, 8, 4, 2].map(|s| s * s), [2; MAX_RANK]).is_err());
    }

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 88 + 152 + 1080 + 72 + 24);
    }
}
