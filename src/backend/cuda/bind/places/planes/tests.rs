use super::*;
use crate::backend::cuda::bind::views::dtype_number;
use crate::limits::MAX_RANK;
use crate::tensor::DType;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

#[test]
fn structs_have_the_sources_bytes() {
    assert_eq!(size_of::<Params>(), 3 * 88 + 3 * 12 + 11 * 4);
    assert_eq!(offset_of!(Params, first_batch), 3 * 88 + 3 * 12);
    let source = include_str!("../../../kernels/sample_planes.cu");
    for constant in [
        format!("PLANES_THREADS = {THREADS};"),
        format!("PLANES_PLACES = {PLACES};"),
        format!("PLANES_PIECES = {PIECES};"),
        format!("case {WIDEST}: "),
    ] {
        assert!(source.contains(&constant), "{constant}");
    }
    let shared = include_str!("../../../kernels/sample_pieces.cuh");
    assert!(shared.contains(&format!("PIECE = {PIECE};")));
}

fn view(address: u64, extents: [u32; 4], strides: [i64; 4]) -> DeviceView {
    let mut view = DeviceView {
        address,
        dtype: dtype_number(DType::F16),
        rank: 4,
        strides: [0; MAX_RANK],
        extents: [1; MAX_RANK],
    };
    view.extents[..4].copy_from_slice(&extents);
    for axis in (0..4).filter(|&a| extents[a] > 1) {
        view.strides[axis] = strides[axis];
    }
    view
}

/// A sampling into such a result.
fn into(address: u64, extents: [u32; 4], strides: [i64; 4]) -> Planes {
    let channels = i64::from(extents[1]);
    Planes {
        x: view(0, [extents[0], extents[1], 6, 5], [30 * channels, 1, 5 * channels, channels]),
        grid: DeviceView::default(),
        y: view(address, extents, strides),
        steps: [0; 2],
        sink: Sink::Planes,
        outside: 0,
        align_corners: false,
    }
}

/// A place, as row and column of a sample, and a channel of it.
type Element = [u32; 4];

/// What a launch's tiles put where, as the kernel finds both: elements by the offset at which they are stored.
fn stored(p: &Params) -> BTreeMap<i64, Element> {
    let mut all = BTreeMap::new();
    let pairs = PLACES / 2;
    for tile in 0..p.tiles {
        let above = p.lots.divide(tile);
        let lot = tile - above * p.lots.divisor;
        let sample = p.runs.divide(above);
        let first = (above - sample * p.runs.divisor) * PLACES;
        let n = p.first_batch + sample;
        let channel = lot * PIECES * PIECE;
        let mut turned = vec![None; (2 * PIECES * PIECE * pairs) as usize];
        for thread in 0..THREADS {
            let (lane, pair) = (thread % PIECES, thread / PIECES);
            for c in (0..PIECE).filter(|_| channel + lane * PIECE < p.y.extents[1]) {
                let word = (lane * PIECE + c) * pairs + (pair ^ (lane * PIECE));
                for half in 0..2 {
                    let place = first + 2 * pair + half;
                    let before = turned[(2 * word + half) as usize].replace((channel + lane * PIECE + c, place));
                    assert_eq!(before, None, "two channels at once");
                }
            }
        }
        let (units, down) = (PLACES >> p.unit, THREADS / (PLACES >> p.unit));
        for thread in 0..THREADS {
            let at = (thread % units) << p.unit;
            let place = first + at;
            if place >= p.places {
                continue;
            }
            let line = p.columns.divide(place);
            let column = place - line * p.columns.divisor;
            let top = thread / units;
            let mut to = i64::from(n) * p.y.strides[0]
                + i64::from(channel + top) * p.y.strides[1]
                + i64::from(p.first_row + line) * p.y.strides[2]
                + i64::from(column);
            let planes = (p.y.extents[1] - channel).min(PIECES * PIECE);
            for plane in (top..planes).step_by(down as usize) {
                let from = 2 * (plane * pairs + ((at / 2) ^ (plane / PIECE * PIECE))) + at % 2;
                if place + (1 << p.unit) <= p.places {
                    let unit = 2u64 << p.unit;
                    assert!((p.y.address + 2 * to as u64).is_multiple_of(unit) && (2 * u64::from(from)).is_multiple_of(unit));
                }
                for e in 0..(p.places - place).min(1 << p.unit) {
                    let (channel, place) = turned[(from + e) as usize].unwrap();
                    let line = place / p.columns.divisor;
                    let element = [n, channel, p.first_row + line, place % p.columns.divisor];
                    assert_eq!(all.insert(to + i64::from(e), element), None, "stored twice");
                }
                to += i64::from(down) * p.y.strides[1];
            }
        }
    }
    all
}

#[test]
fn every_element_of_a_chunk_is_stored_once_where_it_lies() {
    let region = |batch: std::ops::Range<u32>, rows: std::ops::Range<u32>| Region { batch, rows };
    let packed = |[_, c, h, w]: [u32; 4]| [c * h * w, h * w, w, 1].map(i64::from);
    for (extents, strides, address, expected) in [
        ([2, 32, 300, 4], packed([2, 32, 300, 4]), 0, 3),
        ([2, 40, 7, 3], packed([2, 40, 7, 3]), 0, 0),
        ([2, 16, 14, 3], packed([2, 16, 14, 3]), 4, 1),
        ([3, 8, 1, 1], packed([3, 8, 1, 1]), 0, 0),
        ([1, 72, 1, 70], packed([1, 72, 1, 70]), 0, 1),
        ([1, 8, 130, 1], packed([1, 8, 130, 1]), 64, 1),
        // A part of the places of a result of three, and rows apart.
        ([2, 32, 30, 4], [32 * 360, 360, 12, 1], 8, 2),
        ([1, 8, 9, 7], [8 * 128, 128, 8, 1], 0, 0),
        ([1, 8, 9, 6], [8 * 128, 128, 8, 1], 0, 1),
    ] {
        let planes = into(1 << 20 | address, extents, strides);
        let cut = extents[2] / 3;
        let regions = [
            region(0..extents[0], 0..extents[2]),
            region(0..extents[0], 0..cut),
            region(extents[0] - 1..extents[0], cut..extents[2]),
        ];
        for (index, region) in regions.into_iter().filter(|r| !r.is_empty()).enumerate() {
            let launch = planes.launch(Sampling::Linear, &region, 0).unwrap();
            assert_eq!(launch.function, "sample_linear_planes");
            let params: Params = bytemuck::pod_read_unaligned(&launch.params);
            if index == 0 {
                assert_eq!(params.unit, expected, "{extents:?}");
            }
            let stored = stored(&params);
            let rows = u64::from(region.rows.end - region.rows.start) * u64::from(region.batch.end - region.batch.start);
            assert_eq!(
                stored.len() as u64,
                rows * u64::from(extents[1]) * u64::from(extents[3]),
                "{extents:?}"
            );
            for (to, at) in stored {
                let expected: i64 = (0..4).map(|a| i64::from(at[a]) * planes.y.strides[a]).sum();
                assert_eq!(to, expected, "{extents:?} {at:?}");
                assert!(region.batch.contains(&at[0]) && region.rows.contains(&at[2]));
            }
        }
    }
}

#[test]
fn a_unit_stays_aligned_in_later_rows() {
    let unit = |first_row| into(1 << 20, [1, 32, 8, 3], [32 * 24, 24, 3, 1]).unit(first_row);
    assert_eq!([0, 1, 2, 4, 8].map(unit), [3, 0, 1, 2, 3]);
}

#[test]
fn pixels_are_worth_tiles_where_there_are_many() {
    let pays = |queries: u32| {
        let dims = [8, 32, queries, 8];
        let y = into(1 << 20, dims, [i64::from(queries) * 256, 1, 256, 32]);
        let pixels = Planes {
            sink: Sink::Pixels(steps(&y.y).unwrap()),
            ..y
        };
        let whole = Region {
            batch: 0..8,
            rows: 0..queries,
        };
        let launch = pixels.launch(Sampling::Nearest, &whole, 7).unwrap();
        let params: Params = bytemuck::pod_read_unaligned(&launch.params);
        assert_eq!((launch.function.as_str(), launch.blocks), ("sample_nearest_pixels", 7));
        assert_eq!((params.leaps, params.tiles), ([4, 32], queries));
        pixels.pays()
    };
    assert_eq!([296, 1016, 1024, 10_000].map(pays), [false, false, true, true]);
}

#[test]
fn pictures_whose_ends_are_too_far_apart_have_no_steps() {
    let x = |row| view(0, [1, 8, 1 << 10, 2], [0, 1, row, 8]);
    assert_eq!(steps(&x(16)), Some([1, 2]));
    assert_eq!(steps(&x(1 << 26)), None);
    assert_eq!(steps(&x(-16)), None);
}
