//! Every instruction set against the portable one, bit for bit, and against plain scalar code.

use super::*;
use crate::backend::cpu::fixture;
use half::f16;

/// A small linear congruential generator.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
    fn float(&mut self) -> f32 {
        (self.next() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float() * 4.0).collect()
    }
    /// Floats among which every special value occurs.
    fn wild(&mut self, n: usize) -> Vec<f32> {
        let special = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            0.0,
            -0.0,
            1e-40,
            -1e-40,
            f32::MAX,
            f32::MIN_POSITIVE,
        ];
        (0..n)
            .map(|_| match self.below(12) {
                0 => special[self.below(special.len())],
                1 => f32::from_bits(self.next()),
                2 => self.float() * 100.0,
                _ => self.float() * 4.0,
            })
            .collect()
    }
}

/// The bits, with one stand-in for every NaN.
fn bits(v: &[f32]) -> Vec<u32> {
    v.iter()
        .map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() })
        .collect()
}

fn kernels() -> impl Iterator<Item = &'static Kernels> {
    Isa::available().map(|isa| Kernels::for_isa(isa).expect("an available set has kernels"))
}

const UNARY: [Unary; 20] = [
    Unary::Relu,
    Unary::LeakyRelu { alpha: 0.1 },
    Unary::Clip { min: -0.5, max: 1.5 },
    Unary::Sigmoid,
    Unary::HardSigmoid { alpha: 0.2, beta: 0.5 },
    Unary::HardSwish,
    Unary::Silu,
    Unary::Tanh,
    Unary::Exp,
    Unary::Sqrt,
    Unary::Neg,
    Unary::Abs,
    Unary::Erf,
    Unary::Gelu,
    Unary::GeluTanh,
    Unary::Round,
    Unary::Log,
    Unary::Floor,
    Unary::Ceil,
    Unary::MulAdd { scale: 1.7, shift: -0.3 },
];

const BINARY: [Binary; 7] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Max,
    Binary::Min,
    Binary::PRelu,
];

/// Operand storage for step lists, and the lists.
struct Steps {
    channels: Vec<f32>,
    full: Vec<f32>,
    pointers: Vec<*const f32>,
    column: Vec<f32>,
    n: usize,
}

impl Steps {
    fn new(r: &mut Lcg, m: usize, n: usize) -> Steps {
        let full = r.floats(m * n);
        let pointers = (0..m).map(|p| full[p * n..].as_ptr()).collect();
        Steps {
            channels: r.floats(n),
            full,
            pointers,
            column: r.floats(m),
            n,
        }
    }
    fn lists(&self) -> Vec<Vec<Step>> {
        let step = |op, operand, swapped| Step::Binary { op, operand, swapped };
        let rows = Operand::Rows(self.pointers.as_ptr());
        let strided = Operand::Strided {
            base: self.full.as_ptr(),
            stride: self.n,
        };
        let column = Operand::RowScalars {
            base: self.column.as_ptr(),
            stride: 1,
        };
        let channels = Operand::Channels(self.channels.as_ptr());
        vec![
            vec![],
            vec![Step::Unary(Unary::Relu)],
            vec![Step::Unary(Unary::Clip { min: 0.0, max: 6.0 })],
            vec![step(Binary::Add, rows, false), Step::Unary(Unary::Relu)],
            vec![step(Binary::PRelu, channels, false)],
            vec![step(Binary::Add, strided, false)],
            vec![step(Binary::Add, strided, true), step(Binary::PRelu, channels, false)],
            vec![
                Step::Unary(Unary::Silu),
                step(Binary::Sub, strided, true),
                step(Binary::Mul, column, false),
                Step::Unary(Unary::Tanh),
                step(Binary::Div, Operand::Scalar(2.5), true),
                step(Binary::Max, channels, false),
            ],
        ]
    }
}

/// Runs a step list by the stand-alone kernel of the portable table.
fn apply_alone(steps: &[Step], data: &mut [f32], m: usize, n: usize) {
    let p = data.as_mut_ptr();
    let k = Kernels::for_isa(Isa::Portable).expect("always there");
    for step in steps {
        let args = MapRows {
            src: p,
            src_stride: n,
            dst: p,
            dst_stride: n,
            rows: m,
            n,
            steps: core::slice::from_ref(step),
        };
        // SAFETY: `data` holds `m` rows of `n` floats, and the operands are as big.
        unsafe { k.map_rows(&args) };
    }
}

#[test]
fn names_and_detection() {
    for isa in Isa::ALL {
        assert_eq!(Isa::from_name(isa.name()), Some(isa));
        assert_eq!(Kernels::for_isa(isa).is_some(), isa.is_available());
    }
    assert_eq!(Kernels::get().isa(), Isa::detect());
    assert_eq!(Isa::available().last(), Some(Isa::Portable));
    // Every processor of this architecture has it: without it, nothing here would run what it is there to compare.
    assert_eq!(Isa::Neon.is_available(), cfg!(target_arch = "aarch64"));
}

#[test]
fn igemm_and_gemm_equal_the_scalar_sum() {
    let mut r = Lcg(1);
    for round in 0..60 {
        let m = 1 + r.below(30);
        let n = 1 + r.below(70);
        let taps = [1, 2, 9][r.below(3)];
        let cin = [1, 3, 5, 16, 17][r.below(5)];
        let k = taps * cin;
        // Taps index into a pool of input rows, of which row 0 is the padding.
        let mut pool = r.floats(20 * cin);
        pool[..cin].fill(0.0);
        let pick: Vec<usize> = (0..m * taps).map(|_| r.below(20)).collect();
        let weights = r.floats(n * k);
        let bias = r.floats(n);
        let biased = round % 3 != 0;
        let steps = Steps::new(&mut r, m, n);
        for list in steps.lists() {
            let mut want = vec![0.0f32; m * n];
            for p in 0..m {
                for c in 0..n {
                    let mut acc = if biased { bias[c] } else { 0.0 };
                    for t in 0..taps {
                        for i in 0..cin {
                            let x = pool[pick[p * taps + t] * cin + i];
                            acc = x.mul_add(weights[c * k + t * cin + i], acc);
                        }
                    }
                    want[p * n + c] = acc;
                }
            }
            apply_alone(&list, &mut want, m, n);
            for kernels in kernels() {
                let mut packed = vec![f32::NAN; packed_len(k, n)];
                kernels.pack(&weights, k, n, &mut packed);
                let mut rows = vec![core::ptr::null(); kernels.row_slots(m, taps)];
                for p in 0..m {
                    for t in 0..taps {
                        rows[kernels.row_slot(p, t, taps)] = pool[pick[p * taps + t] * cin..].as_ptr();
                    }
                }
                // One guard float behind each pixel shows writes past the channels.
                let mut got = vec![77.0f32; m * (n + 1)];
                let base = got.as_mut_ptr();
                let out: Vec<*mut f32> = (0..m).map(|p| base.wrapping_add(p * (n + 1))).collect();
                let bias = if biased { bias.as_ptr() } else { core::ptr::null() };
                let args = Igemm {
                    rows: rows.as_ptr(),
                    m,
                    taps,
                    cin,
                    weights: packed.as_ptr(),
                    bias,
                    n,
                    out: out.as_ptr(),
                    steps: &list,
                };
                // SAFETY: every pointer is set up above for `m` pixels and `n` channels.
                unsafe { kernels.igemm(&args) };
                check_rows(kernels, &got, &want, m, n);
                if taps == 1 {
                    let a: Vec<f32> = (0..m * cin).map(|i| pool[pick[i / cin] * cin + i % cin]).collect();
                    got.fill(77.0);
                    let args = Gemm {
                        a: a.as_ptr(),
                        a_stride: cin,
                        m,
                        k,
                        weights: packed.as_ptr(),
                        bias,
                        bias_stride: 0,
                        n,
                        out: got.as_mut_ptr(),
                        out_stride: n + 1,
                        steps: &list,
                    };
                    // SAFETY: every pointer is set up above for `m` rows and `n` columns.
                    unsafe { kernels.gemm(&args) };
                    check_rows(kernels, &got, &want, m, n);
                }
            }
        }
    }
}

/// Compares rows with one guard float of 77 behind each.
fn check_rows(kernels: &Kernels, got: &[f32], want: &[f32], m: usize, n: usize) {
    for p in 0..m {
        let row = &got[p * (n + 1)..(p + 1) * (n + 1)];
        assert_eq!(bits(&row[..n]), bits(&want[p * n..(p + 1) * n]), "{}", kernels.isa().name());
        assert_eq!(row[n], 77.0, "{} wrote past a row", kernels.isa().name());
    }
}

#[test]
fn parts_of_a_product_equal_the_whole() {
    let mut r = Lcg(2);
    let (m, k, n) = (29, 37, 101);
    let a = r.floats(m * k);
    let b = r.floats(k * n);
    for kernels in kernels() {
        let mut packed = vec![f32::NAN; packed_len(k, n)];
        let mut parts = packed.clone();
        kernels.pack_b(&b, (n, 1), (k, n), 0..n, &mut packed);
        let nr = kernels.nr();
        kernels.pack_b(&b, (n, 1), (k, n), nr..n, &mut parts);
        kernels.pack_b(&b, (n, 1), (k, n), 0..nr, &mut parts);
        assert_eq!(packed, parts);
        let transposed: Vec<f32> = (0..k * n).map(|i| b[i % k * n + i / k]).collect();
        kernels.pack(&transposed, k, n, &mut parts);
        assert_eq!(packed, parts);
        let mut whole = vec![0.0f32; m * n];
        let mut cut = vec![0.0f32; m * n];
        let args = Gemm {
            a: a.as_ptr(),
            a_stride: k,
            m,
            k,
            weights: packed.as_ptr(),
            bias: core::ptr::null(),
            bias_stride: 0,
            n,
            out: whole.as_mut_ptr(),
            out_stride: n,
            steps: &[],
        };
        // SAFETY: the slices hold the matrices.
        unsafe { kernels.gemm(&args) };
        for (r0, r1) in [(0, 7), (7, 20), (20, m)] {
            for (c0, c1) in [(0, 2 * nr), (2 * nr, n)] {
                let args = Gemm {
                    a: a[r0 * k..].as_ptr(),
                    m: r1 - r0,
                    weights: packed[c0 * k..].as_ptr(),
                    n: c1 - c0,
                    out: cut[r0 * n + c0..].as_mut_ptr(),
                    ..args
                };
                // SAFETY: a part of the same matrices, cut at panels.
                unsafe { kernels.gemm(&args) };
            }
        }
        assert_eq!(bits(&whole), bits(&cut));
    }
}

#[test]
fn elementwise_agrees_on_special_values() {
    let mut r = Lcg(3);
    let portable = Kernels::for_isa(Isa::Portable).expect("always there");
    for n in [0, 1, 7, 8, 9, 15, 16, 17, 100, 255, 256, 257, 1000] {
        let (a, b) = (r.wild(n), r.wild(n));
        for kernels in kernels() {
            for op in UNARY {
                let (mut want, mut got) = (vec![0.0; n], vec![0.0; n]);
                portable.unary(op, &a, &mut want);
                kernels.unary(op, &a, &mut got);
                assert_eq!(bits(&got), bits(&want), "{} {op:?}", kernels.isa().name());
                got.copy_from_slice(&a);
                kernels.unary_in_place(op, &mut got);
                assert_eq!(bits(&got), bits(&want), "{} {op:?} in place", kernels.isa().name());
            }
            for op in BINARY {
                let (mut want, mut got) = (vec![0.0; n], vec![0.0; n]);
                portable.binary(op, &a, &b, &mut want);
                kernels.binary(op, &a, &b, &mut got);
                assert_eq!(bits(&got), bits(&want), "{} {op:?}", kernels.isa().name());
                portable.binary_scalar(op, &a, 0.7, true, &mut want);
                kernels.binary_scalar(op, &a, 0.7, true, &mut got);
                assert_eq!(bits(&got), bits(&want), "{} {op:?} scalar", kernels.isa().name());
            }
        }
    }
}

#[test]
fn elementwise_means_what_it_says() {
    let mut r = Lcg(4);
    let (a, b) = (r.wild(500), r.wild(500));
    let mut got = vec![0.0; 500];
    let k = Kernels::get();
    type Scalar = fn(f32) -> f32;
    let unary: [(Unary, Scalar); 10] = [
        (Unary::Relu, |x| if 0.0 > x { 0.0 } else { x }),
        (Unary::LeakyRelu { alpha: 0.1 }, |x| if x < 0.0 { x * 0.1 } else { x }),
        (Unary::Clip { min: -1.0, max: 2.0 }, |x| x.clamp(-1.0, 2.0)),
        (Unary::HardSigmoid { alpha: 0.2, beta: 0.5 }, |x| {
            x.mul_add(0.2, 0.5).clamp(0.0, 1.0)
        }),
        (Unary::Sqrt, f32::sqrt),
        (Unary::Abs, f32::abs),
        (Unary::Round, f32::round_ties_even),
        (Unary::Floor, f32::floor),
        (Unary::Ceil, f32::ceil),
        (Unary::MulAdd { scale: 3.0, shift: 1.0 }, |x| x.mul_add(3.0, 1.0)),
    ];
    for (op, f) in unary {
        k.unary(op, &a, &mut got);
        let want: Vec<f32> = a.iter().map(|&x| f(x)).collect();
        assert_eq!(bits(&got), bits(&want), "{op:?}");
    }
    let nan = |a: f32, b: f32, v: f32| {
        if a.is_nan() || b.is_nan() { f32::NAN } else { v }
    };
    for op in BINARY {
        k.binary(op, &a, &b, &mut got);
        let want: Vec<f32> = a
            .iter()
            .zip(&b)
            .map(|(&a, &b)| match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Max => nan(a, b, if a > b { a } else { b }),
                Binary::Min => nan(a, b, if a < b { a } else { b }),
                Binary::PRelu => {
                    if a < 0.0 {
                        a * b
                    } else {
                        a
                    }
                }
            })
            .collect();
        assert_eq!(bits(&got), bits(&want), "{op:?}");
    }
    let silu: Vec<f32> = {
        let mut s = vec![0.0; 500];
        k.unary(Unary::Sigmoid, &a, &mut s);
        a.iter().zip(&s).map(|(x, s)| x * s).collect()
    };
    k.unary(Unary::Silu, &a, &mut got);
    assert_eq!(bits(&got), bits(&silu));
}

#[test]
fn elementary_functions_are_accurate() {
    // Distance from the exact value, in units of the last place of the result.
    fn ulps(got: f32, exact: f64) -> f64 {
        let at = (exact as f32).abs().max(f32::MIN_POSITIVE);
        let unit = f64::from(f32::from_bits(at.to_bits() + 1)) - f64::from(at);
        (f64::from(got) - exact).abs() / unit
    }
    let mut xs: Vec<f32> = (0..400_000).map(|i| i as f32 * 5e-4 - 104.0).collect();
    xs.extend((0..200_000).map(|i| (i as f32 * 1e-5 - 1.0).powi(3)));
    xs.extend((0..30).map(|i| 10f32.powi(-i)));
    xs.retain(|x| *x < 88.7);
    let k = Kernels::get();
    let mut got = vec![0.0; xs.len()];
    for (op, limit, exact) in [
        (Unary::Exp, 1.0, (|x| x.exp()) as fn(f64) -> f64),
        (Unary::Tanh, 2.0, |x| x.tanh()),
        (Unary::Sigmoid, 2.5, |x| 1.0 / (1.0 + (-x).exp())),
    ] {
        k.unary(op, &xs, &mut got);
        let mut worst = (0.0, 0.0);
        for (&x, &y) in xs.iter().zip(&got) {
            // Below this the exponential of the sigmoid's negated argument is infinite.
            if op == Unary::Sigmoid && x < -88.7 {
                assert!((0.0..1e-38).contains(&y), "sigmoid({x}) = {y}");
                continue;
            }
            let e = ulps(y, exact(f64::from(x)));
            if e > worst.0 {
                worst = (e, x);
            }
        }
        assert!(worst.0 <= limit, "{op:?}({}) is off by {} units", worst.1, worst.0);
    }
    // The error function over all magnitudes, and the logarithm over all positive numbers.
    let wide: Vec<f32> = (0..0x7f80_0000u32).step_by(2003).map(f32::from_bits).collect();
    let mut got = vec![0.0; wide.len()];
    for (op, limit, exact) in [(Unary::Erf, 2.0, fixture::erf as fn(f64) -> f64), (Unary::Log, 2.0, |x| x.ln())] {
        for sign in [1.0, -1.0] {
            let xs: Vec<f32> = wide.iter().map(|x| x * sign).collect();
            k.unary(op, &xs, &mut got);
            for (&x, &y) in xs.iter().zip(&got).filter(|(x, _)| op == Unary::Erf || **x > 0.0) {
                let e = ulps(y, exact(f64::from(x)));
                assert!(e <= limit, "{op:?}({x}) = {y} is off by {e} units");
            }
        }
    }
    // Where the sum cancels, Gelu is as exact as its terms are large.
    let xs: Vec<f32> = (-120_000..120_000).map(|i| i as f32 * 1e-4).collect();
    let mut got = vec![0.0; xs.len()];
    let tanh_gelu = |x: f64| x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh());
    let gelu = |x: f64| x / 2.0 * (1.0 + fixture::erf(x / 2f64.sqrt()));
    for (op, exact) in [(Unary::Gelu, gelu as fn(f64) -> f64), (Unary::GeluTanh, tanh_gelu)] {
        k.unary(op, &xs, &mut got);
        for (&x, &y) in xs.iter().zip(&got) {
            let error = (f64::from(y) - exact(f64::from(x))).abs();
            assert!(error <= f64::from(x.abs()) * 2e-7, "{op:?}({x}) = {y} is off by {error}");
        }
    }
    let edges = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, -1.0, 4.5, 1.0];
    let mut y = [0.0; 8];
    k.unary(Unary::Log, &edges, &mut y);
    assert!(y[0].is_nan() && y[2].is_nan() && y[5].is_nan());
    assert_eq!([y[1], y[3], y[4], y[7]], [f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0]);
    k.unary(Unary::Erf, &edges, &mut y);
    assert!(y[0].is_nan());
    assert_eq!([y[1], y[2], y[6], y[3]], [1.0, -1.0, 1.0, 0.0]);
    assert_eq!(y[4].to_bits(), (-0.0f32).to_bits());
    let edges = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 89.0, -104.0, -0.0, -87.5, -103.0];
    let mut y = [0.0; 8];
    k.unary(Unary::Exp, &edges, &mut y);
    assert!(y[0].is_nan());
    assert_eq!(y[1..6], [f32::INFINITY, 0.0, f32::INFINITY, 0.0, 1.0]);
    assert_eq!(y[6], (-87.5f64).exp() as f32);
    assert_eq!(y[7], (-103.0f64).exp() as f32);
    k.unary(Unary::Tanh, &edges, &mut y);
    assert!(y[0].is_nan());
    assert_eq!(y[1..6], [1.0, -1.0, 1.0, -1.0, 0.0]);
    assert_eq!(y[5].to_bits(), (-0.0f32).to_bits());
}

#[path = "tests_window.rs"]
mod window;
