//! Copies whose source has its neighbours along another axis than the output: `kernels/permute.cu`.

use super::tail::TailOperand;
use super::views::{DeviceView, Divisor, PIECE};
use super::{BindError, Launch, count};
use crate::limits::MAX_RANK;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 256;
/// Threads of a warp.
const LANES: u32 = 32;
/// Elements of a box in shared memory.
const TILE: u32 = 64 * 66;
/// Side of a box where both axes are long.
const SIDE: u32 = 64;
/// Longest side of a box.
const LONGEST: u32 = 1024;
/// Fewest neighbours on both sides, and fewest elements of both axes together, that are worth a kernel of their own.
const RUN: u64 = 8;
const SQUARE: u64 = 512;
/// Fewest elements of a box in shared memory: threads of others take this many neighbours along the output's innermost axis at once,
/// in as many instructions whether there are so many or fewer.
const GROUP: u32 = 8;
const BOX: u32 = 2048;
const BOX_OF_FEW: u32 = 1024;
/// Planes that kernels of their own put between each other.
const FEW: std::ops::RangeInclusive<u32> = 2..=4;
/// Axes besides those that are read and written along.
const OTHERS: usize = MAX_RANK - 2;

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Params {
    from: u64,
    to: u64,
    from_step: i64,
    to_step: i64,
    from_others: [i64; OTHERS],
    to_others: [i64; OTHERS],
    others: [Divisor; OTHERS],
    boxes: [Divisor; 2],
    extents: [u32; 2],
    side: [u32; 2],
    lanes: [u32; 2],
    pitch: u32,
    count: u32,
    tiles: u32,
    used: u32,
}

/// How a kernel cuts the two axes.
struct Cut {
    function: String,
    side: [u32; 2],
    lanes: [u32; 2],
    pitch: u32,
    /// Boxes of a block at once.
    together: u32,
}

/// The launch of a copy from `x` to `y`, axes in the order of the output's strides and joined; `None` where the tensors have their
/// neighbours along the same axis, or few.
pub fn launch(x: &TailOperand, y: &DeviceView, extents: &[u32; MAX_RANK], width: u16) -> Result<Option<Launch>, BindError> {
    let Some(read) = read_along(x, y, extents) else {
        return Ok(None);
    };
    let pair = [extents[read], extents[0]];
    let Some(cut) = pieces(x, y, extents, read).or_else(|| through_memory(x.dtype, y.dtype, pair)) else {
        return Ok(None);
    };
    let mut params = Params {
        from: x.address,
        to: y.address,
        from_step: x.strides[0],
        to_step: y.strides[read],
        boxes: [0, 1].map(|i| Divisor::new(pair[i].div_ceil(cut.side[i]))),
        extents: pair,
        side: cut.side,
        lanes: cut.lanes,
        pitch: cut.pitch,
        others: [Divisor::new(1); OTHERS],
        ..Params::zeroed()
    };
    for axis in (1..MAX_RANK).filter(|&a| a != read && extents[a] > 1) {
        let at = params.used as usize;
        params.others[at] = Divisor::new(extents[axis]);
        (params.from_others[at], params.to_others[at]) = (x.strides[axis], y.strides[axis]);
        params.used += 1;
    }
    params.count = count(params.boxes.iter().chain(&params.others).map(|d| d.divisor), "a chunk")?;
    params.tiles = params.count.div_ceil(cut.together);
    Ok(Some(Launch::new("permute", cut.function, params.tiles, width, THREADS, &params)))
}

/// The axis along which the source's neighbours lie, if it is another than the output's and both have enough of them.
fn read_along(x: &TailOperand, y: &DeviceView, extents: &[u32; MAX_RANK]) -> Option<usize> {
    let floats = [x.dtype, y.dtype].iter().all(|d| FLOATS.contains(d));
    if !floats || extents[0] < 2 || y.strides[0] != 1 || matches!(x.strides[0], 0 | 1) {
        return None;
    }
    let read = (1..MAX_RANK)
        .filter(|&a| extents[a] > 1 && x.strides[a] == 1)
        .max_by_key(|&a| extents[a])?;
    let [reads, writes] = [read, 0].map(|a| u64::from(extents[a]));
    // Short rows that lie behind each other are a long one.
    let run = |own: u64, step: i64, other: u64| own * if step.unsigned_abs() == own { other } else { 1 };
    let enough = run(reads, x.strides[0], writes) >= RUN && run(writes, y.strides[read], reads) >= RUN;
    (enough && reads * writes >= SQUARE).then_some(read)
}

/// The numbers of f32 and f16.
const FLOATS: [u32; 2] = [0, 1];

/// Bytes of an element of a float's type number.
fn bytes(dtype: u32) -> u64 {
    if dtype == 0 { 4 } else { 2 }
}

fn named(dtype: u32) -> &'static str {
    if dtype == 0 { "floats" } else { "halves" }
}

/// The kernels of pieces, where neighbours lie so on both sides.
fn pieces(x: &TailOperand, y: &DeviceView, extents: &[u32; MAX_RANK], read: usize) -> Option<Cut> {
    let size = bytes(y.dtype);
    let each = (PIECE / size) as u32;
    // All steps but those along the axes given lead from piece to piece.
    let aligned = |address: u64, strides: &[i64; MAX_RANK], but: &[usize]| {
        let moving = (0..MAX_RANK).filter(|a| extents[*a] > 1 && !but.contains(a));
        let mut steps = moving.map(|a| strides[a].unsigned_abs().wrapping_mul(size));
        address.is_multiple_of(PIECE) && steps.all(|s| s.is_multiple_of(PIECE))
    };
    if x.dtype != y.dtype || !extents[read].is_multiple_of(each) || !aligned(x.address, &x.strides, &[read]) {
        return None;
    }
    let planes = extents[0];
    if FEW.contains(&planes) && y.strides[read] == i64::from(planes) && aligned(y.address, &y.strides, &[0, read]) {
        return Some(Cut {
            function: format!("interleave_{planes}_{}", named(y.dtype)),
            side: [LANES * each, planes],
            lanes: [0; 2],
            pitch: 0,
            together: THREADS / LANES,
        });
    }
    if !planes.is_multiple_of(each) || !aligned(y.address, &y.strides, &[0]) {
        return None;
    }
    // Eight threads write a line, and four read half of one, as far as the axes reach.
    let [across, along] = [extents[read], extents[0]].map(|e| (e / each).next_power_of_two().ilog2());
    let written = if along < 3 { along } else { 5 - across.min(2) }.min(5);
    Some(Cut {
        function: format!("pieces_{}", named(y.dtype)),
        side: [each << (5 - written), each << written],
        lanes: [5 - written, written],
        pitch: 0,
        together: THREADS / LANES,
    })
}

/// The kernels that take axes of any extents, `pair` read and written along, through shared memory, if boxes are large enough to be
/// worth their beginning and end.
fn through_memory(from: u32, to: u32, pair: [u32; 2]) -> Option<Cut> {
    // Neighbouring threads that go down a column of the box, and those that go along a row, meet different banks.
    let pitch = |written: u32| match bytes(to) {
        4 => written | 1,
        _ => (written + 1) / 4 * 4 + 2,
    };
    let mut side = pair.map(|e| e.min(SIDE));
    let power_below = |n: u32| 1 << n.max(1).ilog2();
    if side[1] < SIDE {
        side[0] = pair[0].min(power_below(TILE / pitch(side[1])).min(LONGEST));
    } else if side[0] < SIDE {
        // A pitch is up to three elements more than its row.
        side[1] = pair[1].min(power_below(TILE / side[0] - 3).min(LONGEST));
    }
    if side[0] * side[1] < if pair[1] < GROUP { BOX_OF_FEW } else { BOX } {
        return None;
    }
    let function = match (from, to) {
        (0, 1) => "permute_to_halves".to_owned(),
        (1, 0) => "permute_to_floats".to_owned(),
        _ => format!("permute_{}", named(to)),
    };
    Some(Cut {
        function,
        side,
        lanes: side.map(|s| s.next_power_of_two().min(THREADS).ilog2()),
        pitch: pitch(side[1]),
        together: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::bind::tail::FROM_MEMORY;

    /// The function and the parameters of a copy of halves, if it is taken.
    fn of(from: [i64; MAX_RANK], to: [i64; MAX_RANK], extents: [u32; MAX_RANK]) -> Option<(String, Params)> {
        let operand = TailOperand {
            address: 1 << 20,
            source: FROM_MEMORY,
            dtype: 1,
            strides: from,
        };
        let y = DeviceView {
            address: 1 << 30,
            dtype: 1,
            rank: MAX_RANK as u32,
            strides: to,
            extents,
        };
        let launch = launch(&operand, &y, &extents, 0).unwrap()?;
        Some((launch.function, bytemuck::pod_read_unaligned(&launch.params)))
    }

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 32 + 64 + 72 + 40);
    }

    #[test]
    fn neighbours_along_the_same_axis_or_few_are_left_to_others() {
        let taken = |from, to, extents| of(from, to, extents).is_some();
        // Rows and columns.
        assert!(taken([64, 1, 0, 0, 0, 0], [1, 48, 0, 0, 0, 0], [48, 64, 1, 1, 1, 1]));
        assert!(!taken([1, 48, 0, 0, 0, 0], [1, 48, 0, 0, 0, 0], [48, 64, 1, 1, 1, 1]));
        assert!(!taken([0, 1, 0, 0, 0, 0], [1, 48, 0, 0, 0, 0], [48, 64, 1, 1, 1, 1]), "repeated");
        assert!(
            !taken([96, 2, 0, 0, 0, 0], [1, 48, 0, 0, 0, 0], [48, 64, 1, 1, 1, 1]),
            "every second"
        );
        // Three neighbours, and then the next pixel's or a gap.
        assert!(taken([500, 1, 0, 0, 0, 0], [1, 3, 0, 0, 0, 0], [3, 500, 1, 1, 1, 1]));
        assert!(!taken([500, 1, 0, 0, 0, 0], [1, 4, 0, 0, 0, 0], [3, 500, 1, 1, 1, 1]));
        assert!(taken([3, 1, 0, 0, 0, 0], [1, 1000, 0, 0, 0, 0], [1000, 3, 1, 1, 1, 1]));
        // Few of both, and few of what is in no pieces.
        assert!(!taken([16, 1, 256, 0, 0, 0], [1, 16, 256, 0, 0, 0], [16, 16, 99, 1, 1, 1]));
        assert!(taken([32, 1, 1024, 0, 0, 0], [1, 32, 1024, 0, 0, 0], [32, 32, 99, 1, 1, 1]));
        assert!(!taken([33, 1, 1056, 0, 0, 0], [1, 32, 1056, 0, 0, 0], [32, 33, 99, 1, 1, 1]));
    }

    #[test]
    fn boxes_cover_their_axes_and_fit_in_shared_memory() {
        let lengths = [2, 3, 5, 8, 21, 40, 63, 64, 65, 196, 1000, 5000];
        for (read, written) in lengths.iter().flat_map(|&r| lengths.map(|w| (r, w))) {
            for to in [0, 1] {
                let least = if written < GROUP { BOX_OF_FEW } else { BOX };
                let Some(cut) = through_memory(0, to, [read, written]) else {
                    assert!(read * written < least, "{read} x {written}");
                    continue;
                };
                let [r, w] = cut.side;
                assert!((1..=read).contains(&r) && (w..=w + 3).contains(&cut.pitch), "{read} x {written}");
                assert!(r * cut.pitch <= TILE, "{read} x {written}: {r} rows of {}", cut.pitch);
                assert!(r * w >= least, "{read} x {written}: {r} x {w}");
                // Of an odd number of words.
                assert_eq!(u64::from(cut.pitch) * bytes(to) % 8, 4);
                for (lanes, side) in cut.lanes.into_iter().zip(cut.side) {
                    assert!(1 << lanes == THREADS || side <= 1 << lanes);
                }
            }
        }
    }

    #[test]
    fn a_picture_of_planes_has_its_pixels_joined() {
        // Patches of 16 rows of an image of 224 by 224 pixels in three planes, all pixels of eight samples behind each other.
        let (name, params) = of(
            [224 * 224, 1, 3 * 224 * 224, 0, 0, 0],
            [1, 3, 3 * 224 * 224, 0, 0, 0],
            [3, 224 * 224, 8, 1, 1, 1],
        )
        .unwrap();
        assert_eq!(name, "interleave_3_halves");
        assert_eq!((params.side, params.boxes.map(|d| d.divisor)), ([256, 3], [196, 1]));
        assert_eq!((params.count, params.tiles, params.used), (196 * 8, 196, 1));
    }

    #[test]
    fn warps_spread_along_the_longer_axis() {
        let lanes = |read: u32, written: u32| {
            let (name, params) = of(
                [i64::from(read), 1, 0, 0, 0, 0],
                [1, i64::from(written), 0, 0, 0, 0],
                [written, read, 1, 1, 1, 1],
            )
            .unwrap();
            assert_eq!(name, "pieces_halves");
            assert_eq!(params.side, params.lanes.map(|l| 8 << l));
            params.lanes
        };
        assert_eq!(lanes(1000, 1000), [2, 3]);
        assert_eq!(lanes(1000, 8), [5, 0]);
        assert_eq!(lanes(1000, 24), [3, 2]);
        assert_eq!(lanes(8, 1000), [0, 5]);
        assert_eq!(lanes(16, 1000), [1, 4]);
    }
}
