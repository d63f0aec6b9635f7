//! What `kernels/activations.cuh` says of its functions, for every f16: they are computed here step by step, with the hardware's
//! approximations as far off as their specification allows, and compared with f64.

use half::f16;

const SOURCE: &str = include_str!("../../kernels/activations.cuh");

/// The numbers from `before` to the end of its statement, at every place where it stands.
fn numbers(before: &str) -> Vec<f32> {
    let statements = SOURCE.split(before).skip(1).map(|rest| &rest[..rest.find(';').unwrap()]);
    let words = statements.flat_map(|s| s.split([',', ')', '*', ' ']));
    words.filter_map(|w| w.strip_suffix('f')?.parse().ok()).collect()
}

/// The functions, on hardware whose own are off by `error` of the largest error that is allowed, from -1 to 1.
struct Brief {
    error: f64,
    log2_e: f32,
    tangent: Vec<f32>,
    bound: f32,
    gelu: Vec<f32>,
    cubic: f32,
    linear: f32,
}

impl Brief {
    fn new(error: f64) -> Brief {
        let log2_e = numbers("LOG2_E = ")[0];
        Brief {
            error,
            log2_e,
            tangent: [numbers("p = __fmaf_rn(z, "), numbers("p = __fmaf_rn(p, z, ")].concat(),
            bound: numbers("fminf(fabsf(x), ")[0],
            gelu: [numbers("p = __fmaf_rn(t, "), numbers("p = __fmaf_rn(p, t, ")].concat(),
            cubic: numbers("LINEAR * ")[0],
            linear: -2.0 * log2_e * numbers("-2.0f * LOG2_E * ")[0],
        }
    }

    fn power_of_two(&self, x: f32) -> f32 {
        flushed(f64::from(x).exp2() * (1.0 + self.error * (-22f64).exp2()))
    }

    fn logistic(&self, x: f32) -> f32 {
        flushed((1.0 + self.error * (-23f64).exp2()) / f64::from(1.0 + self.power_of_two(x)))
    }

    fn sigmoid(&self, x: f32) -> f32 {
        self.logistic(x * -self.log2_e)
    }

    fn silu(&self, x: f32) -> f32 {
        x * self.sigmoid(x)
    }

    fn tangent(&self, x: f32) -> f32 {
        let (a, z) = (x.abs(), x.abs() * x.abs());
        let p = polynomial(&self.tangent, z);
        let small = (p * z).mul_add(a, a);
        let large = (-2f32).mul_add(self.logistic(a * (2.0 * self.log2_e)), 1.0);
        (if a < 0.5 { small } else { large }).copysign(x)
    }

    fn gelu(&self, x: f32) -> f32 {
        let t = x.abs().min(self.bound);
        let positive = if x.is_nan() { x } else { x.max(0.0) };
        (-t).mul_add(self.power_of_two(polynomial(&self.gelu, t)), positive)
    }

    fn gelu_tanh(&self, x: f32) -> f32 {
        let factor = (x * x).mul_add(self.linear * self.cubic, self.linear);
        x * self.logistic(x * factor)
    }
}

/// Of the coefficient of the highest power first.
fn polynomial(coefficients: &[f32], x: f32) -> f32 {
    let (first, rest) = coefficients.split_first().unwrap();
    rest.iter().fold(*first, |p, c| p.mul_add(x, *c))
}

/// As the hardware rounds: results below the normal numbers are 0.
fn flushed(y: f64) -> f32 {
    if y.abs() < f64::from(f32::MIN_POSITIVE) { 0.0 } else { y as f32 }
}

/// The area of the normal distribution above `t`, at least 0: by its series, or by Laplace's continued fraction.
fn upper_tail(t: f64) -> f64 {
    let density = (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if t < 3.0 {
        let mut term = t;
        let sum: f64 = (1..200)
            .map(|k| {
                let now = term;
                term *= t * t / f64::from(2 * k + 1);
                now
            })
            .sum();
        return 0.5 - density * sum;
    }
    density / (1..200).rev().fold(t, |below, k| t + f64::from(k) / below)
}

fn exact_gelu(x: f64) -> f64 {
    x.max(0.0) - x.abs() * upper_tail(x.abs())
}

fn exact_gelu_tanh(x: f64) -> f64 {
    let argument = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    x / (1.0 + (-2.0 * argument).exp())
}

/// Position of an f16 among all of them; both zeros are 0.
fn position(x: f16) -> i32 {
    let magnitude = i32::from(x.to_bits() & 0x7fff);
    if x.is_sign_negative() { -magnitude } else { magnitude }
}

type Case = (&'static str, fn(&Brief, f32) -> f32, fn(f64) -> f64);

const CASES: [Case; 5] = [
    ("sigmoid", Brief::sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
    ("silu", Brief::silu, |x| x / (1.0 + (-x).exp())),
    ("tangent", Brief::tangent, f64::tanh),
    ("gelu", Brief::gelu, exact_gelu),
    ("gelu_tanh", Brief::gelu_tanh, exact_gelu_tanh),
];

#[test]
fn the_source_is_read() {
    let brief = Brief::new(0.0);
    assert_eq!((brief.tangent.len(), brief.gelu.len()), (3, 6));
    assert_eq!((brief.bound, brief.cubic), (5.75, 0.044715));
}

#[test]
fn they_are_within_one_unit_in_the_last_place_of_every_half() {
    for (name, brief, exact) in CASES {
        for hardware in [-1.0, 0.0, 1.0].map(Brief::new) {
            for bits in 0..=u16::MAX {
                let x = f16::from_bits(bits);
                let y = f16::from_f32(brief(&hardware, x.to_f32()));
                if x.is_nan() {
                    assert!(y.is_nan(), "{name} of NaN is {y}");
                } else if x.is_finite() {
                    let expected = f16::from_f64(exact(x.to_f64()));
                    let apart = (position(y) - position(expected)).abs();
                    assert!(apart <= 1, "{name}({x}) is {y}, not {expected}");
                }
            }
        }
    }
}

#[test]
fn they_are_as_near_before_rounding_as_they_say() {
    let hardware = Brief::new(1.0);
    for (name, brief, exact) in CASES {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits);
            if !x.is_finite() {
                continue;
            }
            let (y, expected) = (f64::from(brief(&hardware, x.to_f32())), exact(x.to_f64()));
            let allowed = match expected.abs() < f16::MIN_POSITIVE.to_f64() {
                true => (-25f64).exp2(),
                false => expected.abs() * (-13f64).exp2(),
            };
            assert!((y - expected).abs() < allowed, "{name}({x}) is {y}, not {expected}");
        }
    }
}

#[test]
fn infinities_have_the_limits_of_exact_arithmetic() {
    let hardware = Brief::new(0.0);
    let at = |f: fn(&Brief, f32) -> f32, x: f32| f(&hardware, x);
    let (most, least) = (f32::INFINITY, f32::NEG_INFINITY);
    assert_eq!([at(Brief::sigmoid, most), at(Brief::sigmoid, least)], [1.0, 0.0]);
    assert_eq!([at(Brief::tangent, most), at(Brief::tangent, least)], [1.0, -1.0]);
    for f in [Brief::silu, Brief::gelu, Brief::gelu_tanh] {
        assert_eq!(at(f, most), most);
    }
    assert!(at(Brief::silu, least).is_nan() && at(Brief::gelu_tanh, least).is_nan());
    assert_eq!(f16::from_f32(at(Brief::gelu, least)).to_bits(), 0x8000);
}
