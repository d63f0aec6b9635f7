//! The rules of arithmetic that results depend on, bit by bit.

use super::{Random, f32s, shape, tensor_of, window};
use crate::backend::cpu::eval::eval;
use crate::backend::cpu::simd::Kernels;
use crate::primitive::*;
use crate::tensor::{DType, Shape, Tensor};

fn one(primitive: Primitive, inputs: &[&Tensor], dtype: DType, out: Shape) -> Tensor {
    eval(&primitive, inputs, &[(dtype, out)]).unwrap().remove(0)
}

#[test]
fn casts_truncate_saturate_and_wrap() {
    let s = shape(&[8]);
    let x = f32s(&[8], &[1.9, -1.9, 3e9, -3e9, f32::NAN, 300.0, -0.0, 0.4]);
    let i = one(Primitive::Copy, &[&x], DType::I32, s);
    assert_eq!(i.as_i32().unwrap(), [1, -1, i32::MAX, i32::MIN, 0, 300, 0, 0]);
    assert_eq!(one(Primitive::Copy, &[&x], DType::U8, s).bytes(), [1, 0, 255, 0, 0, 255, 0, 0]);
    assert_eq!(one(Primitive::Copy, &[&x], DType::Bool, s).bytes(), [1, 1, 1, 1, 1, 1, 0, 1]);
    assert_eq!(one(Primitive::Copy, &[&i], DType::U8, s).bytes(), [1, 255, 255, 0, 0, 44, 0, 0]);
    let half = one(Primitive::Copy, &[&f32s(&[2], &[1.0 + 1.0 / 2048.0, 1e6])], DType::F16, shape(&[2]));
    assert_eq!((half.get_f64(0), half.get_f64(1)), (Some(1.0), Some(f64::INFINITY)));
}

#[test]
fn integers_wrap_and_division_by_zero_gives_zero() {
    let s = shape(&[3]);
    let a = tensor_of(DType::I32, s, &[f64::from(i32::MAX), f64::from(i32::MIN), -7.0]);
    let b = tensor_of(DType::I32, s, &[1.0, -1.0, 2.0]);
    let zero = Tensor::zeros(DType::I32, s);
    let run = |kind, b| one(Primitive::Binary(kind), &[&a, b], DType::I32, s).as_i32().unwrap().to_vec();
    assert_eq!(run(Binary::Add, &b), [i32::MIN, i32::MAX, -5]);
    assert_eq!(run(Binary::Div, &b), [i32::MAX, i32::MIN, -3]);
    assert_eq!(run(Binary::Div, &zero), [0, 0, 0]);
    let bytes = tensor_of(DType::U8, s, &[200.0, 100.0, 7.0]);
    assert_eq!(
        one(Primitive::Binary(Binary::Add), &[&bytes, &bytes], DType::U8, s).bytes(),
        [144, 200, 14]
    );
}

#[test]
fn powers_take_exponents_of_another_type() {
    let s = shape(&[4]);
    let x = f32s(&[4], &[2.0, -3.0, 9.0, 4.0]);
    let n = tensor_of(DType::I32, s, &[10.0, 3.0, -1.0, 0.0]);
    let y = one(Primitive::Binary(Binary::Pow), &[&x, &n], DType::F32, s);
    assert_eq!(y.as_f32().unwrap(), [1024.0, -27.0, 1.0 / 9.0, 1.0]);
    let halves = f32s(&[4], &[0.5; 4]);
    let base = tensor_of(DType::I32, s, &[16.0, 81.0, 2.0, 0.0]);
    let y = one(Primitive::Binary(Binary::Pow), &[&base, &halves], DType::I32, s);
    assert_eq!(y.as_i32().unwrap(), [4, 9, 1, 0]);
}

#[test]
fn maxima_let_nan_through_and_keep_padding_out() {
    let x = f32s(&[1, 1, 5], &[-4.0, -3.0, f32::NAN, -2.0, -9.0]);
    let pool = Primitive::Pool {
        kind: PoolKind::Max { column_major: false },
        window: window(&[2], 1, 1, 1, 1),
    };
    let out = shape(&[1, 1, 6]);
    let y = eval(&pool, &[&x], &[(DType::F32, out), (DType::I32, out)]).unwrap();
    let values = y[0].as_f32().unwrap();
    assert_eq!((values[0], values[1], values[4], values[5]), (-4.0, -3.0, -2.0, -9.0));
    assert!(values[2].is_nan() && values[3].is_nan());
    assert_eq!(y[1].as_i32().unwrap(), [0, 1, 2, 2, 3, 4]);
    let reduce = Primitive::Reduce {
        kind: ReduceKind::Max,
        axes: 0b100,
    };
    assert!(one(reduce, &[&x], DType::F32, shape(&[1, 1, 1])).as_f32().unwrap()[0].is_nan());
    let two = f32s(&[2], &[f32::NAN, 1.0]);
    let swapped = f32s(&[2], &[1.0, f32::NAN]);
    for kind in [Binary::Min, Binary::Max] {
        let y = one(Primitive::Binary(kind), &[&two, &swapped], DType::F32, shape(&[2]));
        assert!(y.as_f32().unwrap().iter().all(|v| v.is_nan()));
    }
}

#[test]
fn sums_run_in_their_documented_order() {
    let mut r = Random(3);
    let x = r.tensor(DType::F32, shape(&[3, 4, 50]));
    let values = x.as_f32().unwrap();
    // Reductions: one after another.
    let sum = Primitive::Reduce {
        kind: ReduceKind::Sum,
        axes: 0b111,
    };
    let expected = values.iter().fold(0.0f32, |sum, x| sum + x);
    assert_eq!(one(sum, &[&x], DType::F32, shape(&[1, 1, 1])).as_f32().unwrap(), [expected]);
    // Softmax: as the vector kernel of a run.
    let softmax = one(Primitive::Softmax { axis: 2 }, &[&x], DType::F32, x.shape());
    for (row, result) in values.chunks(50).zip(softmax.as_f32().unwrap().chunks(50)) {
        let mut expected = [0.0; 50];
        Kernels::get().softmax(row, &mut expected);
        assert_eq!(result, expected);
    }
    // Convolution: taps in row-major order, channels within, padding as zeros.
    let (x, w) = (
        r.tensor(DType::F32, shape(&[1, 3, 4, 4])),
        r.tensor(DType::F32, shape(&[1, 3, 3, 3])),
    );
    let conv = Primitive::Conv {
        window: window(&[3, 3], 1, 1, 1, 1),
        groups: 1,
    };
    let y = one(conv, &[&x, &w], DType::F32, shape(&[1, 1, 4, 4]));
    let mut corner = 0.0f32;
    for (ky, kx, c) in (0..27).map(|i| (i / 9, i / 3 % 3, i % 3)) {
        let inside = ky > 0 && kx > 0;
        let value = if inside {
            x.as_f32().unwrap()[c * 16 + (ky.max(1) - 1) * 4 + kx.max(1) - 1]
        } else {
            0.0
        };
        corner = value.mul_add(w.as_f32().unwrap()[c * 9 + ky * 3 + kx], corner);
    }
    assert_eq!(y.as_f32().unwrap()[0].to_bits(), corner.to_bits());
}

#[test]
fn norms_are_found_where_f16_does_not_hold_their_squares() {
    let halves = |values: &[f64]| tensor_of(DType::F16, shape(&[1, values.len() as u32]), values);
    let norm = Primitive::Reduce {
        kind: ReduceKind::Norm,
        axes: 0b10,
    };
    for (values, expected) in [(&[3000.0, -4000.0][..], 5000.0), (&[300.0; 400], 6000.0), (&[], 0.0)] {
        let y = one(norm, &[&halves(values)], DType::F16, shape(&[1, 1]));
        assert_eq!(y.get_f64(0), Some(expected));
    }
    let whole = Tensor::zeros(DType::I32, shape(&[1, 2]));
    assert!(
        eval(&norm, &[&whole], &[(DType::I32, shape(&[1, 1]))]).is_err(),
        "integers have none"
    );
}

#[test]
fn empty_tensors_work() {
    let empty = Tensor::zeros(DType::F32, shape(&[2, 0, 3]));
    assert!(one(Primitive::Unary(Unary::Exp), &[&empty], DType::F32, empty.shape()).is_empty());
    let reduce = |kind| Primitive::Reduce { kind, axes: 0b010 };
    let out = shape(&[2, 1, 3]);
    assert_eq!(one(reduce(ReduceKind::Sum), &[&empty], DType::F32, out).as_f32().unwrap(), [0.0; 6]);
    assert_eq!(
        one(reduce(ReduceKind::Max), &[&empty], DType::F32, out).as_f32().unwrap(),
        [f32::NEG_INFINITY; 6]
    );
    // A product over no terms is its third operand, or 0.
    let (a, b) = (Tensor::zeros(DType::F32, shape(&[2, 0])), Tensor::zeros(DType::F32, shape(&[0, 3])));
    let bias = f32s(&[2, 3], &[5.0; 6]);
    assert_eq!(one(Primitive::MatMul, &[&a, &b, &bias], DType::F32, shape(&[2, 3])), bias);
    // Padding out of nothing.
    let pad = Primitive::Pad {
        mode: PadMode::Constant(Scalar(2.0)),
        begin: [0, 1, 0, 0, 0, 0],
    };
    assert_eq!(one(pad, &[&empty], DType::F32, out).as_f32().unwrap(), [2.0; 6]);
}

#[test]
fn scalars_work() {
    let x = f32s(&[], &[4.0]);
    assert_eq!(
        one(Primitive::Unary(Unary::Sqrt), &[&x], DType::F32, Shape::SCALAR),
        f32s(&[], &[2.0])
    );
    assert_eq!(
        one(Primitive::Binary(Binary::Div), &[&x, &x], DType::F32, Shape::SCALAR),
        f32s(&[], &[1.0])
    );
}

#[test]
fn indices_outside_are_clamped() {
    let x = f32s(&[3], &[1.0, 2.0, 3.0]);
    let i = tensor_of(DType::I32, shape(&[5]), &[-1.0, -3.0, -9.0, 2.0, 99.0]);
    let y = one(Primitive::Gather { axis: 0 }, &[&x, &i], DType::F32, shape(&[5]));
    assert_eq!(y.as_f32().unwrap(), [3.0, 1.0, 1.0, 3.0, 3.0]);
}

#[test]
fn what_has_kernels_of_its_own_is_refused() {
    let x = Tensor::zeros(DType::F32, shape(&[1, 3]));
    let refused = eval(&Primitive::ArgMax { axis: 1 }, &[&x], &[(DType::I32, shape(&[1, 1]))]);
    assert_eq!(refused.unwrap_err(), PrimitiveError::Unsupported);
}
