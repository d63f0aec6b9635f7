//! Powers from the basic operations of f64 alone, so that they have the same bits on every machine.

use std::f64::consts::{LN_2, SQRT_2};

/// Largest whole exponent computed by repeated multiplication.
const WHOLE: f64 = 64.0;

/// `x` to the power `y`, accurate far beyond f32; the special cases are those of C's `pow`.
///
/// Whole exponents up to 64 by repeated squaring, 0.5 as a square root, everything else as `2^(y * log2 x)`.
pub fn power(x: f64, y: f64) -> f64 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if y.trunc() == y && y.abs() <= WHOLE {
        let p = whole(x, y.abs() as u32);
        return if y < 0.0 { 1.0 / p } else { p };
    }
    let magnitude = if y == 0.5 { x.abs().sqrt() } else { positive(x.abs(), y) };
    // Zeros and infinities of either sign have a power for every exponent; other negative numbers for whole ones only.
    let negative = x < 0.0 && x.is_finite();
    match (negative, y.trunc() == y || y.is_infinite()) {
        (true, false) => f64::NAN,
        (true, true) if y % 2.0 != 0.0 && y.is_finite() => -magnitude,
        _ => magnitude,
    }
}

fn whole(x: f64, n: u32) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, x, n);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

/// `x^y` for `x >= 0`.
fn positive(x: f64, y: f64) -> f64 {
    if x == 0.0 || x.is_infinite() || y.is_infinite() {
        let grows = (x > 1.0) == (y > 0.0);
        return match x == 1.0 {
            true => 1.0,
            false if grows => f64::INFINITY,
            false => 0.0,
        };
    }
    exp2(y * log2(x))
}

/// The binary logarithm of a positive, finite number: exponent plus `2 atanh((m - 1) / (m + 1)) / ln 2`.
fn log2(x: f64) -> f64 {
    // Subnormals are scaled by 2^54 into the normal range first.
    let (x, shift) = if x < f64::MIN_POSITIVE {
        (x * 18_014_398_509_481_984.0, -54)
    } else {
        (x, 0)
    };
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023 + shift;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    // The odd series of atanh; |s| < 0.172, so twelve terms reach f64's last bit.
    let series = (0..12).rev().fold(0.0, |sum, k| sum * z + 1.0 / f64::from(2 * k + 1));
    f64::from(exponent) + 2.0 * s * series / LN_2
}

/// `2^t`.
fn exp2(t: f64) -> f64 {
    if t > 1100.0 {
        return f64::INFINITY;
    }
    if t < -1100.0 {
        return 0.0;
    }
    let n = t.round();
    let r = (t - n) * LN_2;
    // Taylor's series by Horner's rule; |r| < 0.347, so fifteen terms reach f64's last bit.
    let p = (1..=15).rev().fold(1.0, |sum, k| 1.0 + sum * r / f64::from(k));
    // In two halves, so that neither factor overflows before the product does.
    let first = (n as i32) >> 1;
    p * two_to(first) * two_to(n as i32 - first)
}

/// `2^n` for `-1022 <= n <= 1023`.
fn two_to(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_agree_with_the_standard_library_to_f32() {
        let xs = [1e-30, 1e-3, 0.3, 0.99, 1.01, 2.0, 7.5, 1e4, 3e38];
        let ys = [-3.7, -1.5, -0.25, 0.1, 0.5, 0.75, 1.3, 2.5, 10.1, 65.0, 70.5];
        for x in xs {
            for y in ys {
                let (ours, std) = (power(x, y), x.powf(y));
                assert!(ours == std || ((ours - std) / std).abs() < 1e-12, "{x}^{y}: {ours} and {std}");
            }
        }
    }

    #[test]
    fn special_cases_are_those_of_c() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let numbers = [-inf, -3.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, inf, nan];
        let exponents = [-inf, -65.0, -3.0, -2.0, -0.3, 0.0, 0.3, 0.5, 2.0, 3.0, 65.0, 66.0, inf, nan];
        for x in numbers {
            for y in exponents {
                let (ours, std) = (power(x, y), x.powf(y));
                // The sign of a zero or infinite power of -0 or -inf beyond exponent 64 is not kept.
                let close = ours == std || (ours.is_nan() && std.is_nan()) || ((ours - std) / std).abs() < 1e-12;
                assert!(close || (y.abs() > WHOLE && ours.abs() == std.abs()), "{x}^{y}: {ours} and {std}");
            }
        }
    }
}
