//! Group normalisation of pictures: `kernels/group_normalise.cu`, and `kernels/group_spread.cu` where two launches share samples out.

use super::normalise::affine;
use super::operands::{check, head, input, output};
use super::tail::Tail;
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, blocks, count, workspace_of};
use crate::limits::MAX_RANK;
use crate::plan::format::{Operator, Rounding, View};
use crate::plan::tactic::group_normalise::{PIECE, Slabs, THREADS};
use crate::primitive::{Primitive, Region, Unary};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Axes behind the channels.
const SPATIAL: usize = MAX_RANK - 2;
/// Threads of a block of f32.
const FLOAT_THREADS: u32 = 256;
/// Bytes of shared memory through which a block's threads add, and most pieces that a thread keeps behind them: as much as every GPU
/// has.
const EXCHANGE: u32 = 19200;
const KEPT: u32 = 10;
/// Bytes of a kept piece.
const PIECE_BYTES: u32 = PIECE * 2;
/// Bytes of what is found of a group in a part: its mean and squared differences.
const FOUND_BYTES: u64 = 8;
const UNIT: &str = "group_normalise";
const SPREAD_UNIT: &str = "group_spread";

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: DeviceView,
    y: DeviceView,
    tail: Tail,
    spatial: [Divisor; SPATIAL],
    pixels: Divisor,
    slabs: Divisor,
    pieces: Divisor,
    group: Divisor,
    bins: Divisor,
    padding: u32,
    scale: u64,
    shift: u64,
    partials: u64,
    x_pixel: i64,
    y_pixel: i64,
    relu: u32,
    first: u32,
    tiles: u32,
    channels: u32,
    span: u32,
    share: u32,
    threads: u32,
    step_pixels: u32,
    step_pieces: u32,
    bin_shift: u32,
    columns: u32,
    items: u32,
    parts: u32,
    kept: u32,
    count: f32,
    epsilon: f32,
}

struct GroupNormalise {
    operator: Operator,
    groups: u32,
    epsilon: f32,
    /// Bytes of what two launches find of all parts.
    partials: u64,
}

/// Bytes of what two launches find of all parts of a tensor; 0 where there are no such launches.
fn partials(x: &View, groups: u32) -> Result<u64, BindError> {
    let shape = x.layout.shape;
    let &[samples, channels, ref spatial @ ..] = shape.dims() else {
        return Ok(0);
    };
    if x.dtype != DType::F16 || shape.elements() == 0 {
        return Ok(0);
    }
    let slabs = Slabs::of(channels, count(spatial.iter().copied(), "a picture")?, groups);
    if !slabs.spreads() {
        return Ok(0);
    }
    let found = count([samples, slabs.count, slabs.spread, slabs.groups()], "what parts find")?;
    Ok(u64::from(found) * FOUND_BYTES)
}

/// Compiles a group normalisation with any tail of floats.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::GroupNormalise { groups, epsilon } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it normalises no groups"));
    };
    Ok(Box::new(GroupNormalise {
        operator: operator.clone(),
        groups,
        epsilon: epsilon.0,
        partials: partials(input(operator, 0)?, groups)?,
    }))
}

/// How a block's threads share the pieces of a part, and add what they found.
struct Shares {
    threads: u32,
    step_pixels: u32,
    step_pieces: u32,
    bin_shift: u32,
    columns: u32,
    bins: u32,
    items: u32,
}

impl Shares {
    fn of(slabs: &Slabs) -> Shares {
        let pieces = slabs.pieces();
        let rows = THREADS / pieces;
        if slabs.span == slabs.group {
            // One group: whatever a thread has belongs to it.
            return Shares {
                threads: THREADS,
                step_pixels: rows,
                step_pieces: THREADS % pieces,
                bin_shift: PIECE.trailing_zeros(),
                columns: 1,
                bins: 1,
                items: THREADS,
            };
        }
        let bin_shift = slabs.group.trailing_zeros().min(PIECE.trailing_zeros());
        Shares {
            threads: rows * pieces,
            step_pixels: rows,
            step_pieces: 0,
            bin_shift,
            columns: (pieces * PIECE) >> bin_shift,
            bins: slabs.group >> bin_shift,
            items: rows * (slabs.group >> bin_shift),
        }
    }

    /// Most pieces of a part that a thread has.
    fn turns(&self, slabs: &Slabs) -> u32 {
        match self.step_pieces {
            0 => slabs.share().div_ceil(self.step_pixels),
            _ => (slabs.share() * slabs.pieces()).div_ceil(self.threads),
        }
    }
}

/// Elements from pixel to pixel, of pictures whose pixels are as far apart from row to row.
fn pixel_step(view: &DeviceView) -> Option<i64> {
    let mut axes = (2..MAX_RANK).rev().filter(|&a| view.extents[a] > 1);
    let Some(last) = axes.next() else { return Some(0) };
    let mut next = view.strides[last] * i64::from(view.extents[last]);
    for axis in axes {
        if view.strides[axis] != next {
            return None;
        }
        next *= i64::from(view.extents[axis]);
    }
    Some(view.strides[last])
}

impl GroupNormalise {
    /// The parameters of a kernel of pieces; `None` where tensors or tail are of another form.
    fn in_pieces(&self, at: &Addresses<'_>, params: Params) -> Option<Params> {
        let rectified = |last: &crate::plan::format::Call| {
            last.primitive == Primitive::Unary(Unary::Relu) && last.dtype == DType::F16 && last.rounding == Rounding::Rounded
        };
        let (calls, relu) = match self.operator.calls.as_slice() {
            [before @ .., last] if !before.is_empty() && rectified(last) => (before, 1),
            calls => (calls, 0),
        };
        let (scale, shift) = affine(at, calls, 1, params.channels)?;
        let (x, y) = (&params.x, &params.y);
        let views = x.in_pieces(1) && y.in_pieces(1) && output(&self.operator, 0).ok()?.dtype == DType::F16;
        let constants = [scale, shift].iter().all(|address| address % 16 == 0);
        let whole = params.channels.is_multiple_of(PIECE) && (params.slabs.divisor == 1 || params.span.is_multiple_of(PIECE));
        (views && constants && whole).then_some(Params {
            scale,
            shift,
            relu,
            x_pixel: pixel_step(x)?,
            y_pixel: pixel_step(y)?,
            ..params
        })
    }

    /// The two launches of a picture whose parts blocks of their own have.
    fn spread(&self, at: &Addresses<'_>, slabs: &Slabs, params: Params, width: u16) -> Result<Vec<Launch>, BindError> {
        let slabs = Slabs {
            parts: slabs.spread,
            ..*slabs
        };
        let params = Params {
            partials: at.scratch(self.partials)?.address,
            parts: slabs.parts,
            share: slabs.share(),
            ..params
        };
        let blocks = count([params.tiles, slabs.parts], "the parts of a chunk")?;
        let launch = |function: &str| Launch::new(SPREAD_UNIT, function, blocks, width, THREADS, &params);
        let whole = slabs.span == slabs.group;
        Ok(vec![
            launch(if whole { "group_moments_whole" } else { "group_moments" }),
            launch("group_spread"),
        ])
    }
}

impl Kernel for GroupNormalise {
    fn workspace(&self) -> u64 {
        workspace_of(self.partials)
    }

    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let x = DeviceView::new(at, input(&self.operator, 0)?)?;
        let halves = input(&self.operator, 0)?.dtype == DType::F16;
        let pixels = count(x.extents[2..].iter().copied(), "a picture")?;
        if pixels == 0 || x.extents[1] == 0 {
            return Ok(Vec::new());
        }
        let slabs = Slabs::of(x.extents[1], pixels, self.groups);
        let shares = Shares::of(&slabs);
        let elements = count([slabs.group, pixels], "a group")?;
        let tiles = if halves { slabs.count } else { self.groups };
        let params = Params {
            x,
            y: DeviceView::new(at, output(&self.operator, 0)?)?,
            tail: Tail::new(at, &self.operator)?,
            spatial: std::array::from_fn(|axis| Divisor::new(x.extents[axis + 2])),
            pixels: Divisor::new(pixels),
            slabs: Divisor::new(tiles),
            pieces: Divisor::new(slabs.pieces()),
            group: Divisor::new(slabs.group),
            bins: Divisor::new(shares.bins),
            padding: 0,
            scale: 0,
            shift: 0,
            partials: 0,
            x_pixel: 0,
            y_pixel: 0,
            relu: 0,
            first: region.batch.start,
            tiles: count([region.batch.len() as u32, tiles], "a chunk")?,
            channels: x.extents[1],
            span: slabs.span,
            share: slabs.share(),
            threads: shares.threads,
            step_pixels: shares.step_pixels,
            step_pieces: shares.step_pieces,
            bin_shift: shares.bin_shift,
            columns: shares.columns,
            items: shares.items,
            parts: slabs.parts,
            kept: 0,
            count: 1.0 / elements as f32,
            epsilon: self.epsilon,
        };
        if !halves {
            let launch = Launch::new(UNIT, "group_normalise_floats", params.tiles, width, FLOAT_THREADS, &params);
            return Ok(vec![launch]);
        }
        let (params, pieces) = match self.in_pieces(at, params) {
            Some(params) if slabs.spreads() => return self.spread(at, &slabs, params, width),
            Some(params) => (params, "_pieces"),
            None => (params, ""),
        };
        // A cluster is not cut: where the width has no room for one, a block sums the parts in turn.
        let room = at.clusters && (width == 0 || u32::from(width) >= slabs.parts);
        let (shared, cluster) = match room && slabs.parts > 1 {
            true => ("shares", slabs.parts),
            false => ("alone", 1),
        };
        let own = slabs.parts / cluster;
        let params = Params {
            kept: shares.turns(&slabs).min(KEPT / own),
            ..params
        };
        let blocks = blocks(params.tiles, width / cluster as u16) * cluster;
        let function = format!("group_normalise_{shared}{pieces}");
        Ok(vec![Launch {
            shared: EXCHANGE + own * params.kept * THREADS * PIECE_BYTES,
            cluster,
            ..Launch::new(UNIT, function, blocks, 0, THREADS, &params)
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tactic::group_normalise::{MAX_PARTS, MAX_SPREAD};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 2 * 88 + 1080 + 9 * 12 + 4 + 40 + 64);
    }

    #[test]
    fn numbers_are_those_of_the_source() {
        let files = [
            include_str!("../kernels/group_normalise.cuh"),
            include_str!("../kernels/group_normalise.cu"),
            include_str!("../kernels/group_spread.cu"),
        ];
        let source = files.concat();
        let numbers = [
            ("THREADS", THREADS),
            ("MAX_PARTS", MAX_PARTS),
            ("FLOAT_THREADS", FLOAT_THREADS),
            ("MAX_SPREAD", MAX_SPREAD),
        ];
        assert!(
            numbers
                .iter()
                .all(|(name, value)| source.contains(&format!("constexpr u32 {name} = {value};")))
        );
        assert!(source.contains(&format!("sizeof(Exchange) == {EXCHANGE}")));
        // The least that a block may have on any GPU that kernels are compiled for.
        const { assert!(EXCHANGE + KEPT * THREADS * PIECE_BYTES <= 99 << 10) };
    }

    #[test]
    fn every_piece_of_a_part_has_one_thread() {
        for (channels, groups) in [
            (64, 1),
            (256, 32),
            (60, 5),
            (20, 1),
            (30, 30),
            (4104, 8),
            (96, 1),
            (1000, 1),
            (64, 64),
        ] {
            let slabs = Slabs::of(channels, 77, groups);
            let (shares, pieces) = (Shares::of(&slabs), slabs.pieces());
            let mut met = vec![0; (slabs.pixels * pieces) as usize];
            for thread in 0..shares.threads {
                let (mut pixel, mut piece) = (thread / pieces, thread % pieces);
                while pixel < slabs.pixels {
                    met[(pixel * pieces + piece) as usize] += 1;
                    (pixel, piece) = (pixel + shares.step_pixels, piece + shares.step_pieces);
                    (pixel, piece) = (pixel + piece / pieces, piece % pieces);
                }
            }
            assert!(met.iter().all(|&n| n == 1), "{channels} / {groups}");
            assert!(shares.threads * (PIECE >> shares.bin_shift) <= THREADS * PIECE);
        }
    }

    #[test]
    fn pixels_are_one_axis_where_rows_are_as_far_apart() {
        let view = |strides, extents| DeviceView {
            strides,
            extents,
            ..DeviceView::default()
        };
        assert_eq!(pixel_step(&view([0, 1, 80, 8, 0, 0], [1, 8, 5, 10, 1, 1])), Some(8));
        assert_eq!(pixel_step(&view([0, 1, 96, 8, 0, 0], [1, 8, 5, 10, 1, 1])), None);
        assert_eq!(pixel_step(&view([0, 1, 0, 8, 0, 0], [1, 8, 1, 10, 1, 1])), Some(8));
        assert_eq!(pixel_step(&view([0, 1, 0, 0, 0, 0], [1, 8, 1, 1, 1, 1])), Some(0));
    }
}
