//! Elementwise primitives: functions of one or two values, and copies between types.

use super::power::power;
use super::value::{Cell, Lane, RUN, Value};
use super::walk::{Bounds, pieces, walk};
use crate::primitive::{Binary, Unary};

/// `y = x`, converted to the type of `y`.
pub fn copy(x: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
    if x.cell.is_float() {
        map::<f32>(x, y, bounds, |_| {});
    } else {
        map::<i32>(x, y, bounds, |_| {});
    }
}

/// `y = kind(x)`. Integers are computed as integers where the function keeps them, otherwise in f32 and truncated.
pub fn unary(kind: Unary, x: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
    if !x.cell.is_float() {
        match kind {
            Unary::Relu => return map::<i32>(x, y, bounds, |v| v.iter_mut().for_each(|x| *x = (*x).max(0))),
            Unary::Neg => return map::<i32>(x, y, bounds, |v| v.iter_mut().for_each(|x| *x = x.wrapping_neg())),
            Unary::Abs => return map::<i32>(x, y, bounds, |v| v.iter_mut().for_each(|x| *x = x.wrapping_abs())),
            Unary::Round | Unary::Floor | Unary::Ceil => return map::<i32>(x, y, bounds, |_| {}),
            Unary::Clip(low, high) => {
                let (low, high) = (low.0.ceil() as i32, high.0.floor() as i32);
                return map::<i32>(x, y, bounds, |v| v.iter_mut().for_each(|x| *x = (*x).max(low).min(high)));
            }
            _ => {}
        }
    }
    map::<f32>(x, y, bounds, |v| super::scalar::unary(kind, v));
}

/// `y = kind(a, b)`.
pub fn binary(kind: Binary, a: &Value<'_>, b: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
    if kind == Binary::Pow {
        pow(a, b, y, bounds);
    } else if a.cell.is_float() {
        zip::<f32>(a, b, y, bounds, |a, b| super::scalar::binary(kind, a, b));
    } else {
        zip::<i32>(a, b, y, bounds, |a, b| {
            a.iter_mut().zip(b).for_each(|(a, &b)| *a = integer(kind, *a, b));
        });
    }
}

fn integer(kind: Binary, a: i32, b: i32) -> i32 {
    match kind {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div if b == 0 => 0,
        Binary::Div => a.wrapping_div(b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::PRelu if a < 0 => a.wrapping_mul(b),
        Binary::PRelu => a,
        // `pow` computes powers in f64.
        Binary::Pow => power(f64::from(a), f64::from(b)) as i32,
    }
}

fn map<T: Lane>(x: &Value<'_>, y: &Value<'_>, bounds: &Bounds, apply: impl Fn(&mut [T])) {
    let along = bounds.run_axis(y);
    let (xs, ys) = (x.stride(along), y.stride(along));
    let mut buffer = [T::default(); RUN];
    walk(bounds, Some(along), [x.place, y.place], |_, [xo, yo]| {
        pieces(bounds.len(along), RUN, |first, n| {
            let values = &mut buffer[..n];
            T::load(x, xo + first as i64 * xs, xs, values);
            apply(values);
            T::store(y, yo + first as i64 * ys, ys, values);
        });
    });
}

fn zip<T: Lane>(a: &Value<'_>, b: &Value<'_>, y: &Value<'_>, bounds: &Bounds, apply: impl Fn(&mut [T], &[T])) {
    let along = bounds.run_axis(y);
    let (sa, sb, sy) = (a.stride(along), b.stride(along), y.stride(along));
    let (mut left, mut right) = ([T::default(); RUN], [T::default(); RUN]);
    walk(bounds, Some(along), [a.place, b.place, y.place], |_, [ao, bo, yo]| {
        pieces(bounds.len(along), RUN, |first, n| {
            let (left, right) = (&mut left[..n], &mut right[..n]);
            let first = first as i64;
            T::load(a, ao + first * sa, sa, left);
            T::load(b, bo + first * sb, sb, right);
            apply(left, right);
            T::store(y, yo + first * sy, sy, left);
        });
    });
}

/// Powers: base and exponent may have different types, so each is read on its own and the result computed in f64.
fn pow(a: &Value<'_>, b: &Value<'_>, y: &Value<'_>, bounds: &Bounds) {
    let wide = |value: &Value<'_>, at: i64| match value.cell {
        Cell::I32 => f64::from(i32::read(value, at)),
        _ => f64::from(f32::read(value, at)),
    };
    walk(bounds, None, [a.place, b.place, y.place], |_, [ao, bo, yo]| {
        let result = power(wide(a, ao), wide(b, bo));
        match y.cell {
            Cell::I32 | Cell::U8 | Cell::Bool => i32::store(y, yo, 1, &[result as i32]),
            _ => f32::store(y, yo, 1, &[result as f32]),
        }
    });
}
