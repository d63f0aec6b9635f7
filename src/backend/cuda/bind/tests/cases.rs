//! Operators of every primitive that the plain kernels compute, in the layouts and types that networks have, and others.

mod elementwise;
mod floats;
mod sums;

use super::bench::{Bench, Form, Link, shape};
use crate::limits::MAX_RANK;
use crate::plan::format::{Call, Operand, Operator, Rounding, View};
use crate::primitive::*;
use crate::tensor::DType::{self, *};
use crate::tensor::Layout;
use std::sync::OnceLock;

/// An operator, with the memory that it runs on.
pub struct Case {
    pub name: String,
    pub bench: Bench,
    pub operator: Operator,
}

/// Collects cases.
pub struct Cases(Vec<Case>);

fn scalar(x: f32) -> Scalar {
    Scalar(x)
}

impl Cases {
    /// Adds the operator that `make` builds on a bench of its own.
    fn add(&mut self, name: impl Into<String>, make: impl FnOnce(&mut Bench) -> Operator) {
        let mut bench = Bench::new(self.0.len() as u64);
        let operator = make(&mut bench);
        self.0.push(Case {
            name: name.into(),
            bench,
            operator,
        });
    }
}

const FLOATS: [DType; 2] = [F32, F16];

/// All cases, made once for all tests.
pub fn cases() -> &'static [Case] {
    static ALL: OnceLock<Vec<Case>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Cases(Vec::new());
        elementwise::cases(&mut all);
        convolutions(&mut all);
        floats::cases(&mut all);
        transposed(&mut all);
        poolings(&mut all);
        resizes(&mut all);
        sums::cases(&mut all);
        attentions(&mut all);
        products(&mut all);
        moves(&mut all);
        recurrences(&mut all);
        places(&mut all);
        all.0
    })
}

/// The case whose name a test asks for.
pub fn case(is_it: impl Fn(&str) -> bool) -> &'static Case {
    cases().iter().find(|c| is_it(&c.name)).unwrap()
}

fn window(kernel: [u32; 2], stride: u32, dilation: u32, begin: u32, end: u32) -> Window {
    let mut w = Window::new(&kernel);
    for a in 0..2 {
        (w.stride[a], w.dilation[a], w.pad_begin[a], w.pad_end[a]) = (stride, dilation, begin, end);
    }
    w
}

/// The output's extents of a forward window with `channels` channels.
fn under(w: &Window, x: &[u32], channels: u32) -> Vec<u32> {
    vec![x[0], channels, w.output(0, x[2]).unwrap(), w.output(1, x[3]).unwrap()]
}

fn convolutions(all: &mut Cases) {
    for dtype in FLOATS {
        for (k, stride, dilation, pad) in [
            (3, 1, 1, 1),
            (3, 2, 1, 1),
            (5, 1, 1, 2),
            (5, 2, 1, 2),
            (3, 1, 2, 2),
            (5, 1, 2, 4),
            (2, 3, 1, 0),
        ] {
            for (channels, form) in [(16, Form::Pixels), (19, Form::OddSlice), (24, Form::Slice)] {
                all.add(
                    format!("depthwise {k}x{k} step {stride} apart {dilation} of {dtype} {form:?}"),
                    |b| {
                        let w = window([k, k], stride, dilation, pad, pad);
                        let dims = [2, channels, 13, 11];
                        let to = under(&w, &dims, channels);
                        let x = b.tensor(dtype, &dims, form);
                        let weights = b.constant(dtype, &[channels, 1, k, k], &[0, 2, 3, 1]);
                        let bias = b.constant(dtype, &[channels], &[0]);
                        let residual = b.tensor(dtype, &to, Form::Pixels);
                        let y = b.tensor(dtype, &to, form);
                        let tail = [Link::Of(Unary::HardSwish), Link::With(Binary::Add, residual)];
                        let head = Primitive::Conv {
                            window: w,
                            groups: channels,
                        };
                        b.operator(head, &[x, weights, bias], &tail, &[y])
                    },
                );
            }
        }
        for (channels, form) in [(22, Form::Pixels), (20, Form::Pixels), (20, Form::OddSlice)] {
            all.add(format!("depthwise of {channels} channels of {dtype} {form:?}, rectified"), |b| {
                let w = window([3, 3], 1, 1, 1, 1);
                let dims = [2, channels, 9, 11];
                let (x, y) = (b.tensor(dtype, &dims, form), b.tensor(dtype, &dims, Form::Pixels));
                let weights = b.constant(dtype, &[channels, 1, 3, 3], &[0, 2, 3, 1]);
                let bias = b.constant(dtype, &[channels], &[0]);
                let head = Primitive::Conv {
                    window: w,
                    groups: channels,
                };
                b.operator(head, &[x, weights, bias], &[Link::Of(Unary::Relu)], &[y])
            });
        }
        for (kernel, pads, dims) in [
            ([7, 7], [3, 3], [1, 128, 14, 14]),
            ([9, 9], [4, 4], [1, 24, 8, 9]),
            ([1, 5], [0, 2], [1, 72, 7, 7]),
        ] {
            all.add(format!("depthwise {kernel:?} of few pixels of {dtype}"), |b| {
                let mut w = window(kernel, 1, 1, 0, 0);
                w.pad_begin[..2].copy_from_slice(&pads);
                w.pad_end[..2].copy_from_slice(&pads);
                let (x, y) = (b.tensor(dtype, &dims, Form::Pixels), b.tensor(dtype, &dims, Form::Pixels));
                let weights = b.constant(dtype, &[dims[1], 1, kernel[0], kernel[1]], &[0, 2, 3, 1]);
                let bias = b.constant(dtype, &[dims[1]], &[0]);
                let head = Primitive::Conv {
                    window: w,
                    groups: dims[1],
                };
                b.operator(head, &[x, weights, bias], &[Link::Of(Unary::Sigmoid)], &[y])
            });
        }
        for groups in [1, 2] {
            all.add(format!("convolution in {groups} groups of {dtype}"), |b| {
                let w = window([3, 2], 2, 1, 1, 0);
                let dims = [2, 6, 9, 8];
                let x = b.tensor(dtype, &dims, Form::Pixels);
                let weights = b.constant(dtype, &[10, 6 / groups, 3, 2], &[0, 2, 3, 1]);
                let bias = b.constant(dtype, &[10], &[0]);
                let y = b.tensor(dtype, &under(&w, &dims, 10), Form::Plain);
                b.operator(
                    Primitive::Conv { window: w, groups },
                    &[x, weights, bias],
                    &[Link::Of(Unary::Relu)],
                    &[y],
                )
            });
        }
        all.add(format!("convolution of three axes of {dtype}"), |b| {
            let x = b.tensor(dtype, &[1, 3, 5, 4, 6], Form::Plain);
            let weights = b.constant(dtype, &[4, 3, 2, 3, 2], &[0, 1, 2, 3, 4]);
            let y = b.tensor(dtype, &[1, 4, 4, 2, 5], Form::Pixels);
            let head = Primitive::Conv {
                window: Window::new(&[2, 3, 2]),
                groups: 1,
            };
            b.operator(head, &[x, weights], &[], &[y])
        });
        all.add(format!("convolution of one pixel of {dtype}"), |b| {
            let (x, weights) = (
                b.tensor(dtype, &[3, 72, 1, 1], Form::Pixels),
                b.constant(dtype, &[21, 72, 1, 1], &[0, 2, 3, 1]),
            );
            let (bias, y) = (b.constant(dtype, &[21], &[0]), b.tensor(dtype, &[3, 21, 1, 1], Form::Pixels));
            let head = Primitive::Conv {
                window: Window::new(&[1, 1]),
                groups: 1,
            };
            b.operator(head, &[x, weights, bias], &[Link::Of(Unary::Relu)], &[y])
        });
    }
}

fn transposed(all: &mut Cases) {
    for dtype in FLOATS {
        for (k, stride, pad, extra, groups) in [
            (2, 2, 0, 0, 1),
            (4, 2, 1, 0, 1),
            (3, 2, 1, 1, 1),
            (3, 3, 0, 0, 1),
            (3, 1, 1, 0, 1),
            (2, 2, 0, 0, 2),
        ] {
            for form in [Form::Pixels, Form::OddSlice] {
                all.add(
                    format!("transposed {k}x{k} step {stride} in {groups} groups of {dtype} {form:?}"),
                    |b| {
                        let w = window([k, k], stride, 1, pad, pad);
                        let long = |n: u32| (n - 1) * stride + k - 2 * pad + extra;
                        let x = b.tensor(dtype, &[2, 10, 5, 7], form);
                        let weights = b.constant(dtype, &[10, 12 / groups, k, k], &[0, 2, 3, 1]);
                        let bias = b.constant(dtype, &[12], &[0]);
                        let y = b.tensor(dtype, &[2, 12, long(5), long(7)], form);
                        let head = Primitive::ConvTranspose { window: w, groups };
                        b.operator(head, &[x, weights, bias], &[Link::Of(Unary::Silu)], &[y])
                    },
                );
            }
        }
    }
}

fn poolings(all: &mut Cases) {
    let kinds = [
        PoolKind::Max { column_major: false },
        PoolKind::Average { count_pad: false },
        PoolKind::Average { count_pad: true },
    ];
    for (dtype, kind) in FLOATS.into_iter().flat_map(|d| kinds.map(|k| (d, k))) {
        for (k, stride, dilation, begin, end) in [(2, 2, 1, 0, 0), (3, 2, 1, 1, 1), (3, 1, 2, 1, 2), (5, 1, 1, 2, 2)] {
            for (channels, form) in [(13, Form::Pixels), (13, Form::OddSlice), (13, Form::Plain), (24, Form::Slice)] {
                all.add(format!("{kind:?} {k}x{k} step {stride} of {channels} {dtype} {form:?}"), |b| {
                    let w = window([k, k], stride, dilation, begin, end);
                    let dims = [2, channels, 9, 10];
                    let (x, y) = (b.tensor(dtype, &dims, form), b.tensor(dtype, &under(&w, &dims, channels), form));
                    b.operator(Primitive::Pool { kind, window: w }, &[x], &[], &[y])
                });
            }
        }
    }
    for (dtype, column_major) in [(F32, false), (F16, true), (I32, false), (U8, true)] {
        all.add(format!("maxima with indices of {dtype}"), |b| {
            let w = window([3, 2], 2, 1, 1, 0);
            let dims = [2, 5, 9, 8];
            let to = under(&w, &dims, 5);
            let (x, y) = (b.tensor(dtype, &dims, Form::Pixels), b.tensor(dtype, &to, Form::Plain));
            let indices = b.tensor(I32, &to, Form::Pixels);
            let kind = PoolKind::Max { column_major };
            b.operator(Primitive::Pool { kind, window: w }, &[x], &[], &[y, indices])
        });
    }
}

fn resizes(all: &mut Cases) {
    let modes = [
        ResizeMode::Nearest(Nearest::RoundPreferFloor),
        ResizeMode::Nearest(Nearest::Floor),
        ResizeMode::Linear { antialias: false },
        ResizeMode::Linear { antialias: true },
        ResizeMode::Cubic {
            coefficient: scalar(-0.75),
            exclude_outside: true,
            antialias: false,
        },
    ];
    let (mut start, mut end) = ([scalar(0.0); MAX_RANK], [scalar(1.0); MAX_RANK]);
    (start[2], end[3]) = (scalar(-0.2), scalar(1.3));
    let rules = [
        Coordinates::HalfPixel,
        Coordinates::AlignCorners,
        Coordinates::Asymmetric,
        Coordinates::CropAndResize {
            start,
            end,
            outside: scalar(9.0),
        },
    ];
    for (dtype, mode) in FLOATS.into_iter().flat_map(|d| modes.map(|m| (d, m))) {
        for (coordinates, (rows, columns)) in rules.into_iter().zip([(14, 20), (7, 4), (21, 10), (5, 13)]) {
            for form in [Form::Pixels, Form::OddSlice, Form::Plain] {
                all.add(format!("{mode:?} {coordinates:?} to {rows}x{columns} of {dtype} {form:?}"), |b| {
                    let mut scales = [scalar(1.0); MAX_RANK];
                    (scales[2], scales[3]) = (scalar(rows as f32 / 7.0), scalar(columns as f32 / 10.0));
                    let x = b.tensor(dtype, &[2, 9, 7, 10], form);
                    let y = b.tensor(dtype, &[2, 9, rows, columns], form);
                    let resize = Resize { mode, coordinates, scales };
                    b.operator(Primitive::Resize(resize), &[x], &[], &[y])
                });
            }
        }
    }
    for (dtype, columns) in FLOATS.into_iter().flat_map(|d| [560, 75].map(|c| (d, c))) {
        all.add(format!("halves resized to {columns} columns of planes of {dtype}"), |b| {
            let mut scales = [scalar(1.0); MAX_RANK];
            (scales[2], scales[3]) = (scalar(2.0), scalar(columns as f32 / 70.0));
            let resize = Resize {
                mode: ResizeMode::Linear { antialias: false },
                coordinates: Coordinates::HalfPixel,
                scales,
            };
            let x = b.tensor(F16, &[2, 21, 7, 70], Form::Pixels);
            let between = b.tensor(F16, &[2, 21, 14, columns], Form::Pixels);
            let y = b.tensor(dtype, &[2, 21, 14, columns], Form::Plain);
            let mut operator = b.operator(Primitive::Resize(resize), &[x], &[], &[between]);
            operator.calls.push(Call {
                primitive: Primitive::Copy,
                inputs: vec![Operand::Inner(0)],
                dtype,
                shape: y.layout.shape,
                rounding: Rounding::Rounded,
            });
            operator.outputs = vec![y];
            operator
        });
    }
}

/// Samples by grids and by taps, in pieces of halves and one by one; and sources, in one range of rows and in several.
fn places(all: &mut Cases) {
    let (linear, zero) = (Sampling::Linear, Outside::Zero);
    for (dtype, form) in FLOATS
        .into_iter()
        .flat_map(|d| [Form::Plain, Form::Pixels, Form::Slice, Form::OddSlice].map(|f| (d, f)))
    {
        for (sampling, outside, align_corners) in [
            (linear, zero, false),
            (Sampling::Nearest, Outside::Border, true),
            (Sampling::Cubic, Outside::Reflection, false),
            (linear, Outside::Reflection, true),
        ] {
            all.add(format!("{sampling:?} samples of {dtype} {form:?}, {outside:?} outside"), |b| {
                let (x, y) = (b.tensor(dtype, &[2, 24, 9, 7], form), b.tensor(dtype, &[2, 24, 5, 11], form));
                let grid = b.tensor(dtype, &[2, 5, 11, 2], Form::Plain);
                let places = Places::Grid { align_corners };
                b.operator(Primitive::Sample(Sample { sampling, outside, places }), &[x, grid], &[], &[y])
            });
        }
        for (channels, start) in [(24, false), (24, true), (5, true), (1, false)] {
            all.add(format!("sums of samples of {channels} channels of {dtype} {form:?}"), |b| {
                let x = b.tensor(dtype, &[2, channels, 9, 7], form);
                let grid = b.tensor(F32, &[2, 13, 6, 2], Form::Plain);
                let mut inputs = vec![x, grid, b.tensor(dtype, &[2, 1, 13, 6], Form::Plain)];
                inputs.extend(start.then(|| b.tensor(dtype, &[2, channels, 13, 1], form)));
                let y = b.tensor(dtype, &[2, channels, 13, 1], form);
                let sample = Sample {
                    sampling: linear,
                    outside: zero,
                    places: Places::Sums { align_corners: false },
                };
                b.operator(Primitive::Sample(sample), &inputs, &[], &[y])
            });
        }
        for (groups, parts, factors) in [(1, 1, false), (3, 1, true), (1, 2, true), (2, 6, false)] {
            all.add(format!("taps of {groups} groups in {parts} parts of {dtype} {form:?}"), |b| {
                let mut window = window([3, 2], 1, 2, 2, 1);
                window.stride[0] = 2;
                let (x, y) = (b.tensor(dtype, &[2, 48, 9, 7], form), b.tensor(dtype, &[2, 288, 4, 8], form));
                let moves = b.tensor(dtype, &[2, 12 * groups, 4, 8], Form::Pixels);
                let mut inputs = vec![x, moves];
                if factors {
                    inputs.push(b.tensor(dtype, &[2, 6 * groups, 4, 8], Form::Pixels));
                }
                let places = Places::Taps { window, groups, parts };
                let sample = Sample {
                    sampling: linear,
                    outside: zero,
                    places,
                };
                b.operator(Primitive::Sample(sample), &inputs, &[], &[y])
            });
        }
    }
    turned_samples(all);
    for (common, rows, updates) in [(false, 7, 40), (true, 3000, 5000), (false, 1025, 1)] {
        all.add(format!("sources of {rows} rows from {updates} updates"), |b| {
            let (places, y) = (b.tensor(I32, &[updates], Form::Plain), b.tensor(I32, &[rows], Form::Plain));
            b.operator(Primitive::Sources { common }, &[places], &[], &[y])
        });
    }
}

/// Samples by grids whose channels lie otherwise in the result than in the picture.
fn turned_samples(all: &mut Cases) {
    for (dtype, from, to) in FLOATS.into_iter().flat_map(|d| {
        let forms = [
            (Form::Pixels, Form::Plain),
            (Form::Slice, Form::Plain),
            (Form::OddSlice, Form::Plain),
            (Form::Plain, Form::Pixels),
            (Form::Pixels, Form::OddSlice),
        ];
        forms.map(|(from, to)| (d, from, to))
    }) {
        for (channels, extents) in [(1, [5, 11]), (5, [5, 11]), (8, [7, 1]), (40, [30, 4])] {
            let dims = [2, channels, extents[0], extents[1]];
            all.add(format!("samples of {dtype} {from:?} to {to:?} {dims:?}"), |b| {
                let (x, y) = (b.tensor(dtype, &[2, channels, 9, 7], from), b.tensor(dtype, &dims, to));
                let grid = b.tensor(F32, &[2, extents[0], extents[1], 2], Form::Plain);
                let sample = Sample {
                    sampling: Sampling::Linear,
                    outside: Outside::Zero,
                    places: Places::Grid { align_corners: false },
                };
                b.operator(Primitive::Sample(sample), &[x, grid], &[], &[y])
            });
        }
    }
}

/// A vector as the channels of every pixel of a tensor.
fn by_channel(vector: View, dims: &[u32]) -> View {
    let strides: Vec<i64> = (0..dims.len()).map(|axis| i64::from(axis == 1)).collect();
    View {
        layout: Layout::new(shape(dims), &strides).unwrap(),
        ..vector
    }
}

/// A vector as every row of a tensor.
fn repeated(vector: View, dims: &[u32]) -> View {
    let strides: Vec<i64> = (1..=dims.len()).map(|axis| i64::from(axis == dims.len())).collect();
    View {
        layout: Layout::new(shape(dims), &strides).unwrap(),
        ..vector
    }
}

fn attentions(all: &mut Cases) {
    // Heads, queries, elements of a key, keys, elements of a value.
    for (dtype, [heads, queries, depth, keys, width]) in FLOATS.into_iter().flat_map(|d| {
        [
            [2, 21, 8, 21, 8],
            [1, 40, 16, 64, 16],
            [1, 32, 64, 33, 64],
            [3, 70, 5, 1, 33],
            [1, 3, 96, 200, 96],
        ]
        .map(|s| (d, s))
    }) {
        all.add(format!("attention of {queries} to {keys} keys of {depth} {dtype}"), |b| {
            let q = b.tensor(dtype, &[2, heads, queries, depth], Form::Plain);
            let k = b.tensor(dtype, &[2, heads, depth, keys], Form::Slice);
            let v = b.tensor(dtype, &[2, heads, keys, width], Form::Plain);
            let y = b.tensor(dtype, &[2, heads, queries, width], Form::Pixels);
            b.operator(Primitive::Attention { scale: scalar(0.3) }, &[q, k, v], &[], &[y])
        });
        // Keys as rows, turned.
        all.add(format!("attention of {queries} to {keys} rows of {depth} {dtype}"), |b| {
            let q = b.tensor(dtype, &[2, heads, queries, depth], Form::Plain);
            let mut k = b.tensor(dtype, &[2, heads, keys, depth], Form::Plain);
            k.layout = k.layout.permuted(&[0, 1, 3, 2]).unwrap();
            let v = b.tensor(dtype, &[2, heads, keys, width], Form::Plain);
            let y = b.tensor(dtype, &[2, heads, queries, width], Form::Plain);
            b.operator(Primitive::Attention { scale: scalar(0.3) }, &[q, k, v], &[], &[y])
        });
        all.add(format!("attention of one matrix of {keys} {depth} {dtype}"), |b| {
            let q = b.tensor(dtype, &[queries, depth], Form::Plain);
            let k = b.tensor(dtype, &[depth, keys], Form::Plain);
            let v = b.tensor(dtype, &[keys, width], Form::Plain);
            let y = b.tensor(dtype, &[queries, width], Form::Plain);
            b.operator(Primitive::Attention { scale: scalar(-0.5) }, &[q, k, v], &[], &[y])
        });
    }
    // Only tensor cores take masks.
    for [heads, queries, depth, keys, width] in [[2, 21, 8, 21, 8], [1, 40, 128, 65, 200], [3, 70, 5, 1, 33]] {
        all.add(format!("attention of {queries} to {keys} masked keys of {depth} {F16}"), |b| {
            let q = b.tensor(F16, &[2, heads, queries, depth], Form::Plain);
            let k = b.tensor(F16, &[2, heads, depth, keys], Form::Plain);
            let v = b.tensor(F16, &[2, heads, keys, width], Form::Slice);
            let mask = b.tensor(F16, &[2, heads, queries, keys], Form::Row);
            let y = b.tensor(F16, &[2, heads, queries, width], Form::Plain);
            b.operator(Primitive::Attention { scale: scalar(0.3) }, &[q, k, v, mask], &[], &[y])
        });
    }
}

fn products(all: &mut Cases) {
    for dtype in FLOATS {
        for (a, b_dims, y) in [
            (vec![70, 33], vec![33, 130], vec![70, 130]),
            (vec![2, 5, 40], vec![2, 40, 65], vec![2, 5, 65]),
            (vec![2, 3, 66, 17], vec![2, 3, 17, 9], vec![2, 3, 66, 9]),
            (vec![1, 2, 2, 3, 4], vec![1, 2, 2, 4, 5], vec![1, 2, 2, 3, 5]),
        ] {
            for (form, biased) in [(Form::Plain, true), (Form::Reversed, false)] {
                all.add(format!("product of {a:?} and {b_dims:?} {dtype} {form:?}"), |b| {
                    let (x, w) = (b.tensor(dtype, &a, Form::Plain), b.tensor(dtype, &b_dims, form));
                    let bias = b.tensor(dtype, &y, Form::Row);
                    let out = b.tensor(dtype, &y, Form::Plain);
                    let inputs: Vec<View> = if biased { vec![x, w, bias] } else { vec![x, w] };
                    b.operator(Primitive::MatMul, &inputs, &[Link::Of(Unary::Tanh)], &[out])
                });
            }
        }
        for (rows, depth, columns) in [(1, 1283, 60), (2, 1024, 64), (9, 1000, 70), (17, 3001, 23)] {
            for order in [[0, 1], [1, 0]] {
                all.add(
                    format!("{rows} rows of {depth} times {columns} columns stored {order:?} {dtype}"),
                    |b| {
                        let (x, w) = (
                            b.tensor(dtype, &[rows, depth], Form::Plain),
                            b.constant(dtype, &[depth, columns], &order),
                        );
                        let (bias, y) = (
                            b.tensor(dtype, &[rows, columns], Form::Row),
                            b.tensor(dtype, &[rows, columns], Form::Plain),
                        );
                        b.operator(Primitive::MatMul, &[x, w, bias], &[Link::Of(Unary::Relu)], &[y])
                    },
                );
            }
        }
    }
}

fn moves(all: &mut Cases) {
    for mode in [PadMode::Constant(scalar(3.0)), PadMode::Reflect, PadMode::Edge, PadMode::Wrap] {
        for (begin, to) in [([0, 1, 2, -1, 0, 0], [2, 4, 6, 4]), ([1, 0, -1, 2, 0, 0], [4, 3, 2, 7])] {
            for dtype in [F32, F16, U8] {
                all.add(format!("{mode:?} of {dtype} to {to:?}"), |b| {
                    let (x, y) = (b.tensor(dtype, &[2, 3, 4, 5], Form::Pixels), b.tensor(dtype, &to, Form::Plain));
                    b.operator(Primitive::Pad { mode, begin }, &[x], &[], &[y])
                });
            }
        }
    }
    for (axis, indices, to) in [
        (1u8, vec![2u32, 3], vec![4u32, 2, 3, 6]),
        (0, vec![], vec![5, 6]),
        (2, vec![7], vec![4, 5, 7]),
    ] {
        for dtype in [F32, F16, I32, Bool] {
            all.add(format!("gathering {indices:?} along {axis} of {dtype}"), |b| {
                let (x, i) = (b.tensor(dtype, &[4, 5, 6], Form::Plain), b.tensor(I32, &indices, Form::Plain));
                let y = b.tensor(dtype, &to, Form::Reversed);
                b.operator(Primitive::Gather { axis }, &[x, i], &[], &[y])
            });
        }
    }
    // Rows of whole pieces of 16 bytes, and of broken ones.
    for (dtype, row) in [(F16, 24), (F32, 4), (Bool, 48), (F16, 20)] {
        all.add(format!("gathering rows of {row} {dtype}"), |b| {
            let (x, i) = (b.tensor(dtype, &[9, row], Form::Plain), b.tensor(I32, &[3, 7], Form::Plain));
            let y = b.tensor(dtype, &[3, 7, row], Form::Plain);
            b.operator(Primitive::Gather { axis: 0 }, &[x, i], &[], &[y])
        });
        if dtype.is_float() {
            all.add(format!("gathering rows of {row} {dtype} with constants added"), |b| {
                let (x, i) = (b.tensor(dtype, &[9, row], Form::Plain), b.tensor(I32, &[3, 7], Form::Plain));
                let mut added = b.constant(dtype, &[7, row], &[0, 1]);
                added.layout = Layout::new(shape(&[3, 7, row]), &[0, i64::from(row), 1]).unwrap();
                let y = b.tensor(dtype, &[3, 7, row], Form::Plain);
                b.operator(Primitive::Gather { axis: 0 }, &[x, i], &[Link::With(Binary::Add, added)], &[y])
            });
            // Windows of two samples brought back, and the residual.
            all.add(format!("gathering rows of {row} {dtype} along axis 1 with rows added"), |b| {
                let (x, i) = (b.tensor(dtype, &[2, 9, row], Form::Plain), b.tensor(I32, &[3, 3], Form::Plain));
                let (added, y) = (
                    b.tensor(dtype, &[2, 3, 3, row], Form::Plain),
                    b.tensor(dtype, &[2, 3, 3, row], Form::Plain),
                );
                b.operator(Primitive::Gather { axis: 1 }, &[x, i], &[Link::With(Binary::Add, added)], &[y])
            });
        }
    }
}

fn recurrences(all: &mut Cases) {
    for (steps, rows, hidden) in [(1, 1, 1), (3, 5, 7), (4, 3, 65), (2, 17, 300)] {
        for (dtype, reverse) in FLOATS.into_iter().flat_map(|d| [false, true].map(|r| (d, r))) {
            all.add(format!("{steps} steps of {rows} rows of {hidden} {dtype}"), |b| {
                let gates = b.tensor(dtype, &[steps, rows, 4 * hidden], Form::Plain);
                let weights = b.constant(dtype, &[4 * hidden, hidden], &[0, 1]);
                let (h, c) = (
                    b.tensor(dtype, &[rows, hidden], Form::Plain),
                    b.tensor(dtype, &[rows, hidden], Form::Plain),
                );
                let (y, last) = (
                    b.tensor(dtype, &[steps, rows, hidden], Form::Plain),
                    b.tensor(dtype, &[rows, hidden], Form::Plain),
                );
                let inputs: Vec<View> = if reverse {
                    vec![gates, weights, h, c]
                } else {
                    vec![gates, weights]
                };
                let outputs: Vec<View> = if reverse { vec![y, last] } else { vec![y] };
                b.operator(Primitive::Lstm { reverse }, &inputs, &[], &outputs)
            });
            all.add(format!("{steps} gated steps of {rows} rows of {hidden} {dtype}"), |b| {
                let gates = b.tensor(dtype, &[steps, rows, 4 * hidden], Form::Plain);
                let weights = b.constant(dtype, &[4 * hidden, hidden], &[0, 1]);
                let y = b.tensor(dtype, &[steps, rows, hidden], Form::Plain);
                let mut inputs = vec![gates, weights];
                inputs.extend(reverse.then(|| b.tensor(dtype, &[rows, hidden], Form::Plain)));
                b.operator(Primitive::Gru { reverse }, &inputs, &[], &[y])
            });
        }
    }
}
