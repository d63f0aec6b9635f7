//! Arg-max and top-k against plain definitions.

use super::{Rig, Share, cast, random, shape};
use crate::primitive::Primitive;
use crate::tensor::{DType, Layout};
use half::f16;

const SHARES: [Share; 3] = [Share::Whole, Share::Tiles, Share::Chunks];

/// Small whole numbers with many ties, a few of them NaN.
fn values(n: usize, seed: u64) -> Vec<f32> {
    let value = |r: u32| if r.is_multiple_of(17) { f32::NAN } else { (r % 11) as f32 - 5.0 };
    random(seed).map(|r| value(r >> 8)).take(n).collect()
}

/// The definition, over `[outer, extent, inner]`.
fn arg_max(values: &[f32], outer: usize, extent: usize, inner: usize) -> Vec<i32> {
    let at = |o: usize, e: usize, i: usize| values[(o * extent + e) * inner + i];
    let best = |o, i| {
        let numbers = (0..extent).filter(|&e| !at(o, e, i).is_nan());
        numbers.rev().max_by(|&a, &b| at(o, a, i).total_cmp(&at(o, b, i))).unwrap_or(0) as i32
    };
    (0..outer)
        .flat_map(|o| (0..inner).map(move |i| (o, i)))
        .map(|(o, i)| best(o, i))
        .collect()
}

#[test]
fn arg_max_of_any_axis_layout_and_type() {
    let dims = [2, 5, 19, 7];
    let input = shape(&dims);
    let data = values(2 * 5 * 19 * 7, 1);
    let halves: Vec<f16> = data.iter().map(|&v| f16::from_f32(v)).collect();
    for axis in 0..4 {
        let output = input.with_dim(axis, 1).unwrap();
        let count = |axes: &[u32]| axes.iter().product::<u32>() as usize;
        let expected = arg_max(&data, count(&dims[..axis]), dims[axis] as usize, count(&dims[axis + 1..]));
        let bytes: Vec<u8> = expected.iter().map(|&i| i as u8).collect();
        let primitive = Primitive::ArgMax { axis: axis as u8 };
        let layouts = [
            Layout::contiguous(input),
            Layout::channels_last(input),
            Layout::ordered(input, &[3, 1, 0, 2]),
        ];
        for layout in layouts {
            for share in SHARES {
                let of = |rig: Rig| rig.run(None, share).remove(0);
                let floats = || Rig::new(primitive).input(DType::F32, layout, &data);
                assert_eq!(of(floats().output(DType::U8, Layout::contiguous(output))), bytes);
                let wide = of(floats().output(DType::I32, Layout::ordered(output, &[2, 0, 3, 1])));
                assert_eq!(cast::<i32>(&wide), expected);
                let half = Rig::new(primitive).input(DType::F16, layout, &halves);
                assert_eq!(of(half.output(DType::U8, Layout::contiguous(output))), bytes);
            }
        }
    }
}

#[test]
fn arg_max_of_integers() {
    let data = [3, -1, 7, 7, i32::MIN, i32::MIN, i32::MAX, 0];
    let rig = Rig::new(Primitive::ArgMax { axis: 1 }).input(DType::I32, Layout::contiguous(shape(&[2, 4])), &data);
    let found = rig.output(DType::I32, Layout::contiguous(shape(&[2, 1]))).run(None, Share::Tiles);
    assert_eq!(cast::<i32>(&found[0]), [2, 2]);
}

#[test]
fn top_k_of_rows_with_ties_and_nan() {
    let (rows, classes) = (3, 101);
    let data = values(rows * classes, 2);
    for k in [0, 1, 5, 101] {
        let mut expected = Vec::new();
        for row in data.chunks(classes) {
            let mut order: Vec<usize> = (0..classes).collect();
            // A stable sort keeps equal values by index; NaN goes behind everything.
            order.sort_by(|&a, &b| {
                let nan = row[a].is_nan().cmp(&row[b].is_nan());
                nan.then(row[b].partial_cmp(&row[a]).unwrap_or(std::cmp::Ordering::Equal))
            });
            expected.extend(order[..k].iter().map(|&i| (i as i32, row[i].to_bits())));
        }
        for share in SHARES {
            let layout = Layout::ordered(shape(&[rows as u32, classes as u32]), &[1, 0]);
            let out = Layout::contiguous(shape(&[rows as u32, k as u32]));
            let rig = Rig::new(Primitive::TopK).input(DType::F32, layout, &data);
            let found = rig.output(DType::F32, out).output(DType::I32, out).run(None, share);
            let pairs = cast::<i32>(&found[1]).into_iter().zip(cast::<u32>(&found[0]));
            assert_eq!(pairs.collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn both_zeros_are_equal_and_integers_have_a_sign() {
    let out = Layout::contiguous(shape(&[1, 3]));
    let row = Layout::contiguous(shape(&[1, 4]));
    let zeros = Rig::new(Primitive::TopK).input(DType::F32, row, &[-0.0f32, 0.0, f32::NEG_INFINITY, 1.0]);
    let found = zeros.output(DType::F32, out).output(DType::I32, out).run(None, Share::Whole);
    assert_eq!(cast::<i32>(&found[1]), [3, 0, 1]);
    let signed = Rig::new(Primitive::TopK).input(DType::I32, row, &[-2i32, 5, i32::MIN, 0]);
    let found = signed.output(DType::I32, out).output(DType::I32, out).run(None, Share::Whole);
    assert_eq!((cast::<i32>(&found[0]), cast::<i32>(&found[1])), (vec![5, 0, -2], vec![1, 3, 0]));
}
