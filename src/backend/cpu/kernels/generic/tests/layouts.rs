//! Each primitive against the reference, then on strided views and cut into regions, bit for bit.

use super::reference::compute;
use super::{Bench, Case, Random, assert_same, get, shape, window};
use crate::backend::cpu::eval::eval;
use crate::plan::format::{Call, Operand, Rounding, View};
use crate::primitive::*;
use crate::tensor::{DType, Layout, Shape, Tensor};

fn scalar(x: f32) -> Scalar {
    Scalar(x)
}

fn window_cases(r: &mut Random, cases: &mut Vec<Case>) {
    // Spatial extents, kernel, stride, dilation, pads, groups, channels in and out.
    type Geometry = (&'static [u32], &'static [u32], u32, u32, (u32, u32), u32, u32, u32);
    let geometries: [Geometry; 7] = [
        (&[9, 8], &[3, 3], 1, 1, (1, 1), 1, 3, 5),
        (&[9, 8], &[3, 2], 2, 1, (0, 1), 2, 4, 6),
        (&[9, 7], &[3, 3], 1, 2, (2, 2), 4, 4, 4),
        (&[70], &[5], 1, 1, (2, 1), 1, 3, 2),
        (&[4, 5, 6], &[2, 3, 2], 1, 1, (1, 0), 1, 2, 3),
        (&[5, 6], &[1, 1], 1, 1, (0, 0), 1, 7, 4),
        (&[8, 9], &[2, 2], 3, 1, (1, 1), 2, 4, 2),
    ];
    for (spatial, kernel, stride, dilation, (begin, end), groups, cin, cout) in geometries {
        let w = window(kernel, stride, dilation, begin, end);
        let out: Vec<u32> = spatial.iter().enumerate().map(|(a, &d)| w.output(a, d).unwrap()).collect();
        let x = shape(&[&[2, cin], spatial].concat());
        let y = shape(&[&[2, cout], &out[..]].concat());
        for dtype in [DType::F32, DType::F16] {
            let weights = shape(&[&[cout, cin / groups], kernel].concat());
            let inputs = [x, weights, shape(&[cout])].map(|s| r.tensor(dtype, s)).to_vec();
            cases.push(Case {
                primitive: Primitive::Conv { window: w, groups },
                inputs,
                outputs: vec![(dtype, y)],
            });
            // The same geometry turned round: from the small output to the large input.
            let weights = shape(&[&[cout, cin / groups], kernel].concat());
            let full: Vec<u32> = (0..out.len())
                .map(|a| (out[a] - 1) * stride + w.reach(a).unwrap() - begin - end)
                .collect();
            let back = shape(&[&[2, cin], &full[..]].concat());
            cases.push(Case {
                primitive: Primitive::ConvTranspose { window: w, groups },
                inputs: vec![r.tensor(dtype, y), r.tensor(dtype, weights)],
                outputs: vec![(dtype, back)],
            });
        }
        let pooled = shape(&[&[2, cin], &out[..]].concat());
        for count_pad in [false, true] {
            cases.push(Case {
                primitive: Primitive::Pool {
                    kind: PoolKind::Average { count_pad },
                    window: w,
                },
                inputs: vec![r.tensor(DType::F32, x)],
                outputs: vec![(DType::F32, pooled)],
            });
        }
        for (column_major, dtype) in [(false, DType::F32), (true, DType::F16), (false, DType::U8), (true, DType::I32)] {
            cases.push(Case {
                primitive: Primitive::Pool {
                    kind: PoolKind::Max { column_major },
                    window: w,
                },
                inputs: vec![r.tensor(dtype, x)],
                outputs: vec![(dtype, pooled), (DType::I32, pooled)],
            });
        }
    }
    // Output padding, and pads cut off the full result.
    let w = window(&[3, 3], 2, 1, 1, 1);
    cases.push(Case {
        primitive: Primitive::ConvTranspose { window: w, groups: 1 },
        inputs: vec![
            r.tensor(DType::F32, shape(&[1, 3, 4, 5])),
            r.tensor(DType::F32, shape(&[3, 2, 3, 3])),
            r.tensor(DType::F32, shape(&[2])),
        ],
        outputs: vec![(DType::F32, shape(&[1, 2, 8, 10]))],
    });
}

fn elementwise_cases(r: &mut Random, cases: &mut Vec<Case>) {
    let s = shape(&[2, 3, 5, 4]);
    let unaries = [
        Unary::Relu,
        Unary::LeakyRelu(scalar(0.1)),
        Unary::Clip(scalar(-1.0), scalar(1.0)),
        Unary::Sigmoid,
        Unary::HardSigmoid(scalar(0.2), scalar(0.5)),
        Unary::HardSwish,
        Unary::Silu,
        Unary::Tanh,
        Unary::Exp,
        Unary::Neg,
        Unary::Erf,
        Unary::Gelu,
        Unary::GeluTanh,
        Unary::Round,
        Unary::Abs,
        Unary::Floor,
        Unary::Ceil,
    ];
    for kind in unaries {
        for dtype in [DType::F32, DType::F16] {
            cases.push(Case {
                primitive: Primitive::Unary(kind),
                inputs: vec![r.tensor(dtype, s)],
                outputs: vec![(dtype, s)],
            });
        }
    }
    for kind in [
        Unary::Relu,
        Unary::Neg,
        Unary::Abs,
        Unary::Floor,
        Unary::Clip(scalar(-3.0), scalar(7.0)),
    ] {
        cases.push(Case {
            primitive: Primitive::Unary(kind),
            inputs: vec![r.tensor(DType::I32, s)],
            outputs: vec![(DType::I32, s)],
        });
    }
    use Binary::*;
    for kind in [Add, Sub, Mul, Min, Max, PRelu] {
        for dtype in [DType::F32, DType::F16, DType::I32] {
            cases.push(Case {
                primitive: Primitive::Binary(kind),
                inputs: vec![r.tensor(dtype, s), r.tensor(dtype, s)],
                outputs: vec![(dtype, s)],
            });
        }
    }
    cases.push(Case {
        primitive: Primitive::Binary(Div),
        inputs: vec![r.tensor(DType::F32, s), r.tensor(DType::F32, s)],
        outputs: vec![(DType::F32, s)],
    });
    for (from, to) in [
        (DType::F16, DType::F32),
        (DType::U8, DType::I32),
        (DType::Bool, DType::F16),
        (DType::U8, DType::F32),
        (DType::Bool, DType::I32),
    ] {
        cases.push(Case {
            primitive: Primitive::Copy,
            inputs: vec![r.tensor(from, s)],
            outputs: vec![(to, s)],
        });
    }
}

fn other_cases(r: &mut Random, cases: &mut Vec<Case>) {
    let matrices: [(&[u32], u32, u32, u32); 4] = [(&[], 7, 9, 5), (&[2], 4, 300, 3), (&[2, 3], 4, 5, 6), (&[1, 2, 2], 3, 2, 4)];
    for (outer, m, k, n) in matrices {
        for bias in [false, true] {
            let of = |rows: u32, columns: u32| shape(&[outer, &[rows, columns]].concat());
            let mut inputs = vec![r.tensor(DType::F32, of(m, k)), r.tensor(DType::F32, of(k, n))];
            if bias {
                inputs.push(r.tensor(DType::F32, of(m, n)));
            }
            cases.push(Case {
                primitive: Primitive::MatMul,
                inputs,
                outputs: vec![(DType::F32, of(m, n))],
            });
        }
    }
    let dims = [2, 5, 4, 3];
    for axes in [0b0000u8, 0b1100, 0b0010, 0b1000, 0b0111, 0b1111, 0b0101] {
        let reduced: Vec<u32> = (0..4).map(|a| if axes & (1 << a) != 0 { 1 } else { dims[a] }).collect();
        for kind in [ReduceKind::Mean, ReduceKind::Max, ReduceKind::Sum, ReduceKind::Norm] {
            cases.push(Case {
                primitive: Primitive::Reduce { kind, axes },
                inputs: vec![r.tensor(DType::F32, shape(&dims))],
                outputs: vec![(DType::F32, shape(&reduced))],
            });
        }
        for kind in [ReduceKind::Max, ReduceKind::Sum] {
            cases.push(Case {
                primitive: Primitive::Reduce { kind, axes },
                inputs: vec![r.tensor(DType::I32, shape(&dims))],
                outputs: vec![(DType::I32, shape(&reduced))],
            });
        }
    }
    for axis in 0..4 {
        for dtype in [DType::F32, DType::F16] {
            cases.push(Case {
                primitive: Primitive::Softmax { axis },
                inputs: vec![r.tensor(dtype, shape(&[2, 37, 3, 4]))],
                outputs: vec![(dtype, shape(&[2, 37, 3, 4]))],
            });
            let mut kept = [2, 37, 3, 4];
            let extent = std::mem::replace(&mut kept[usize::from(axis)], 1);
            cases.push(Case {
                primitive: Primitive::Expectation { axis },
                inputs: vec![r.tensor(dtype, shape(&[2, 37, 3, 4])), r.tensor(dtype, shape(&[extent]))],
                outputs: vec![(dtype, shape(&kept))],
            });
            let epsilon = scalar(0.01);
            for primitive in [Primitive::Normalise { axis, epsilon }, Primitive::RmsNormalise { axis, epsilon }] {
                cases.push(Case {
                    primitive,
                    inputs: vec![r.tensor(dtype, shape(&[2, 37, 3, 4]))],
                    outputs: vec![(dtype, shape(&[2, 37, 3, 4]))],
                });
            }
        }
    }
    for (dtype, groups) in [DType::F32, DType::F16].into_iter().flat_map(|d| [1, 2, 6].map(|g| (d, g))) {
        for dims in [&[2, 6, 3, 4][..], &[2, 6], &[1, 6, 5], &[2, 6, 3, 2, 3]] {
            let epsilon = scalar(0.01);
            cases.push(Case {
                primitive: Primitive::GroupNormalise { groups, epsilon },
                inputs: vec![r.tensor(dtype, shape(dims))],
                outputs: vec![(dtype, shape(dims))],
            });
        }
    }
    for (dtype, keys) in [(DType::F32, 1), (DType::F32, 37), (DType::F16, 16)] {
        cases.push(Case {
            primitive: Primitive::Attention { scale: scalar(0.4) },
            inputs: vec![
                r.tensor(dtype, shape(&[2, 3, 5, 6])),
                r.tensor(dtype, shape(&[2, 3, 6, keys])),
                r.tensor(dtype, shape(&[2, 3, keys, 7])),
            ],
            outputs: vec![(dtype, shape(&[2, 3, 5, 7]))],
        });
    }
    for (dtype, keys) in [(DType::F32, 37), (DType::F16, 16)] {
        cases.push(Case {
            primitive: Primitive::Attention { scale: scalar(-0.3) },
            inputs: vec![
                r.tensor(dtype, shape(&[2, 3, 5, 6])),
                r.tensor(dtype, shape(&[2, 3, 6, keys])),
                r.tensor(dtype, shape(&[2, 3, keys, 7])),
                r.tensor(dtype, shape(&[2, 3, 5, keys])),
            ],
            outputs: vec![(dtype, shape(&[2, 3, 5, 7]))],
        });
    }
    for mode in [PadMode::Constant(scalar(3.0)), PadMode::Reflect, PadMode::Edge, PadMode::Wrap] {
        for (begin, to) in [([0, 1, 2, -1, 0, 0], [2, 4, 6, 4]), ([1, 0, -1, 2, 0, 0], [4, 3, 2, 7])] {
            for dtype in [DType::F32, DType::U8] {
                cases.push(Case {
                    primitive: Primitive::Pad { mode, begin },
                    inputs: vec![r.tensor(dtype, shape(&[2, 3, 4, 5]))],
                    outputs: vec![(dtype, shape(&to))],
                });
            }
        }
    }
    for (axis, indices, to) in [
        (1u8, vec![2u32, 3], vec![4u32, 2, 3, 6]),
        (0, vec![], vec![5, 6]),
        (2, vec![7], vec![4, 5, 7]),
    ] {
        for dtype in [DType::F32, DType::I32, DType::Bool] {
            cases.push(Case {
                primitive: Primitive::Gather { axis },
                inputs: vec![r.tensor(dtype, shape(&[4, 5, 6])), r.tensor(DType::I32, shape(&indices))],
                outputs: vec![(dtype, shape(&to))],
            });
        }
    }
}

/// All ways of sampling, by grids and by taps in groups and parts; and sources of rows of their own, and of common ones.
fn placed_cases(r: &mut Random, cases: &mut Vec<Case>) {
    use crate::primitive::{Outside, Places, Sample, Sampling};
    for sampling in [Sampling::Nearest, Sampling::Linear, Sampling::Cubic] {
        for outside in [Outside::Zero, Outside::Border, Outside::Reflection] {
            for (dtype, align_corners) in [(DType::F32, false), (DType::F32, true), (DType::F16, false)] {
                let places = Places::Grid { align_corners };
                cases.push(Case {
                    primitive: Primitive::Sample(Sample { sampling, outside, places }),
                    inputs: vec![r.tensor(dtype, shape(&[2, 3, 5, 7])), r.tensor(dtype, shape(&[2, 4, 6, 2]))],
                    outputs: vec![(dtype, shape(&[2, 3, 4, 6]))],
                });
                for start in [false, true] {
                    let places = Places::Sums { align_corners };
                    let mut inputs = vec![
                        r.tensor(dtype, shape(&[2, 3, 5, 7])),
                        r.tensor(DType::F32, shape(&[2, 4, 6, 2])),
                        r.tensor(dtype, shape(&[2, 1, 4, 6])),
                    ];
                    inputs.extend(start.then(|| r.tensor(dtype, shape(&[2, 3, 4, 1]))));
                    cases.push(Case {
                        primitive: Primitive::Sample(Sample { sampling, outside, places }),
                        inputs,
                        outputs: vec![(dtype, shape(&[2, 3, 4, 1]))],
                    });
                }
            }
        }
    }
    for (groups, parts, factors) in [(1, 1, false), (2, 1, true), (1, 2, true), (3, 2, true), (2, 3, false)] {
        let mut window = Window::new(&[3, 2]);
        (window.stride, window.pad_begin, window.pad_end) = ([2, 1, 1], [1, 0, 0], [1, 1, 0]);
        let places = Places::Taps { window, groups, parts };
        let (sampling, outside) = (Sampling::Linear, Outside::Zero);
        let mut inputs = vec![
            r.tensor(DType::F32, shape(&[2, 6, 7, 5])),
            r.tensor(DType::F32, shape(&[2, 12 * groups, 4, 5])),
        ];
        inputs.extend(factors.then(|| r.tensor(DType::F32, shape(&[2, 6 * groups, 4, 5]))));
        cases.push(Case {
            primitive: Primitive::Sample(Sample { sampling, outside, places }),
            inputs,
            outputs: vec![(DType::F32, shape(&[2, 36, 4, 5]))],
        });
    }
    for (common, rows) in [(false, 9), (true, 9), (false, 40)] {
        cases.push(Case {
            primitive: Primitive::Sources { common },
            inputs: vec![r.tensor(DType::I32, shape(&[25]))],
            outputs: vec![(DType::I32, shape(&[rows]))],
        });
    }
}

/// Random sizes, both directions, with and without initial states and the last c.
fn recurrent_cases(r: &mut Random, cases: &mut Vec<Case>) {
    for (steps, rows, hidden) in [(1, 1, 1), (3, 5, 7), (6, 2, 16), (4, 3, 19), (2, 4, 33)] {
        for dtype in [DType::F32, DType::F16] {
            let reverse = r.below(2) == 1;
            let state = shape(&[rows, hidden]);
            let mut inputs = vec![
                r.tensor(dtype, shape(&[steps, rows, 4 * hidden])),
                r.tensor(dtype, shape(&[4 * hidden, hidden])),
            ];
            let mut outputs = vec![(dtype, shape(&[steps, rows, hidden]))];
            for with_states in [false, true] {
                if with_states {
                    inputs.extend([r.tensor(dtype, state), r.tensor(dtype, state)]);
                    outputs.push((dtype, state));
                }
                let reverse = reverse != with_states;
                cases.push(Case {
                    primitive: Primitive::Lstm { reverse },
                    inputs: inputs.clone(),
                    outputs: outputs.clone(),
                });
                cases.push(Case {
                    primitive: Primitive::Gru { reverse },
                    inputs: inputs[..if with_states { 3 } else { 2 }].to_vec(),
                    outputs: outputs[..1].to_vec(),
                });
            }
        }
    }
}

fn resize_cases(r: &mut Random) -> Vec<Case> {
    let mut scales = [scalar(1.0); crate::limits::MAX_RANK];
    (scales[2], scales[3]) = (scalar(7.0 / 4.0), scalar(3.0 / 5.0));
    let modes = [
        ResizeMode::Nearest(Nearest::RoundPreferFloor),
        ResizeMode::Linear { antialias: false },
        ResizeMode::Linear { antialias: true },
        ResizeMode::Cubic {
            coefficient: scalar(-0.75),
            exclude_outside: true,
            antialias: false,
        },
    ];
    let crop = Coordinates::CropAndResize {
        start: [scalar(0.0), scalar(0.0), scalar(-0.2), scalar(0.3), scalar(0.0), scalar(0.0)],
        end: [scalar(1.0), scalar(1.0), scalar(0.7), scalar(1.4), scalar(1.0), scalar(1.0)],
        outside: scalar(9.0),
    };
    let mut cases = vec![];
    for mode in modes {
        for coordinates in [Coordinates::HalfPixel, Coordinates::AlignCorners, crop] {
            cases.push(Case {
                primitive: Primitive::Resize(Resize { mode, coordinates, scales }),
                inputs: vec![r.tensor(DType::F32, shape(&[2, 3, 4, 5]))],
                outputs: vec![(DType::F32, shape(&[2, 3, 7, 3]))],
            });
        }
    }
    cases
}

fn cases() -> Vec<Case> {
    let mut r = Random(7);
    let mut cases = vec![];
    window_cases(&mut r, &mut cases);
    elementwise_cases(&mut r, &mut cases);
    other_cases(&mut r, &mut cases);
    recurrent_cases(&mut r, &mut cases);
    placed_cases(&mut r, &mut cases);
    cases
}

fn evaluate(case: &Case) -> Vec<Tensor> {
    eval(&case.primitive, &case.inputs.iter().collect::<Vec<_>>(), &case.outputs).unwrap()
}

#[test]
fn every_primitive_agrees_with_its_definition() {
    for case in cases() {
        let results = evaluate(&case);
        let expected = compute(&case.primitive, &case.inputs.iter().collect::<Vec<_>>(), case.outputs[0].1);
        for (result, expected) in results.iter().zip(&expected) {
            // Sums of up to 300 terms below 4, in f32; the last bit of f16 where it is stored.
            let bound = |y: f64| match result.dtype() {
                DType::F32 => 2e-5 * y.abs().max(1.0),
                DType::F16 => 6e-4 * y.abs().max(1.0),
                _ => 0.0,
            };
            assert_eq!(result.len(), expected.len());
            for (i, &y) in expected.iter().enumerate() {
                let got = result.get_f64(i).unwrap();
                assert!(
                    got == y || (got - y).abs() <= bound(y),
                    "{:?}: element {i} is {got}, not {y}",
                    case.primitive
                );
            }
        }
    }
}

/// Dense in a random order of the axes, with gaps, some axes backwards.
fn scattered(r: &mut Random, shape: Shape) -> Layout {
    let mut order: Vec<usize> = (0..shape.rank()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, r.below(i as u64 + 1) as usize);
    }
    let mut strides = vec![0i64; shape.rank()];
    let mut step = 1 + r.below(2) as i64;
    for &axis in order.iter().rev() {
        strides[axis] = if r.below(5) == 0 { -step } else { step };
        step = step * i64::from(shape.dim(axis)) + r.below(3) as i64;
    }
    Layout::new(shape, &strides).unwrap()
}

/// The tensor with `axis` filled from its first position: what a stride of 0 shows.
fn repeated(tensor: &Tensor, axis: usize) -> Tensor {
    let mut values = vec![];
    for mut at in super::coordinates(tensor.shape()) {
        at[axis] = 0;
        values.push(get(tensor, &at));
    }
    super::tensor_of(tensor.dtype(), tensor.shape(), &values)
}

fn cuts(r: &mut Random, case: &Case) -> Vec<Region> {
    let out = case.outputs[0].1;
    let splits = case.primitive.splits(out);
    let whole = Region::whole(out);
    let mut cut = |range: std::ops::Range<u32>, allowed: bool| {
        if !allowed || range.len() < 2 {
            return vec![range];
        }
        let middle = range.start + 1 + r.below(range.len() as u64 - 1) as u32;
        vec![range.start..middle, middle..range.end]
    };
    let rows = cut(whole.rows, splits.rows);
    let batches = cut(whole.batch, splits.batch);
    let region = |batch: &std::ops::Range<u32>, rows: &std::ops::Range<u32>| Region {
        batch: batch.clone(),
        rows: rows.clone(),
    };
    batches.iter().flat_map(|b| rows.iter().map(move |r| region(b, r))).collect()
}

/// Runs the case as an operator of one primitive on the given layouts.
fn run_on(case: &Case, inputs: &[Layout], outputs: &[Layout], chunks: Vec<Region>) -> Vec<Tensor> {
    let mut bench = Bench::new();
    let mut operands = vec![];
    for (tensor, layout) in case.inputs.iter().zip(inputs) {
        let view = bench.view(tensor.dtype(), *layout);
        bench.write(&view, tensor);
        operands.push(Operand::View(view));
    }
    let views: Vec<View> = case.outputs.iter().zip(outputs).map(|(o, l)| bench.view(o.0, *l)).collect();
    let call = Call {
        primitive: case.primitive,
        inputs: operands,
        dtype: case.outputs[0].0,
        shape: case.outputs[0].1,
        rounding: Rounding::Kept,
    };
    bench.run(vec![call], views.clone(), chunks);
    views.iter().map(|v| bench.read(v)).collect()
}

#[test]
fn layouts_and_regions_do_not_change_a_bit() {
    let mut r = Random(11);
    let all: Vec<Case> = cases().into_iter().chain(resize_cases(&mut Random(13))).collect();
    for mut case in all {
        // Scattered anywhere, cut anywhere.
        let expected = evaluate(&case);
        let outputs: Vec<Layout> = case.outputs.iter().map(|o| scattered(&mut r, o.1)).collect();
        let inputs: Vec<Layout> = case.inputs.iter().map(|t| scattered(&mut r, t.shape())).collect();
        let chunks = cuts(&mut r, &case);
        assert_same(
            &run_on(&case, &inputs, &outputs, chunks),
            &expected,
            &format!("{:?} scattered", case.primitive),
        );
        // Channels-last.
        let outputs: Vec<Layout> = case.outputs.iter().map(|o| Layout::channels_last(o.1)).collect();
        let inputs: Vec<Layout> = case.inputs.iter().map(|t| Layout::channels_last(t.shape())).collect();
        let chunks = cuts(&mut r, &case);
        assert_same(
            &run_on(&case, &inputs, &outputs, chunks),
            &expected,
            &format!("{:?} channels-last", case.primitive),
        );
        // The last input broadcast along one axis.
        let last = case.inputs.len() - 1;
        if case.inputs[last].shape().rank() == 0 {
            continue;
        }
        let axis = r.below(case.inputs[last].shape().rank() as u64) as usize;
        case.inputs[last] = repeated(&case.inputs[last], axis);
        let expected = evaluate(&case);
        let mut inputs: Vec<Layout> = case.inputs.iter().map(|t| Layout::contiguous(t.shape())).collect();
        let mut strides = inputs[last].strides().to_vec();
        strides[axis] = 0;
        inputs[last] = Layout::new(inputs[last].shape, &strides).unwrap();
        let chunks = cuts(&mut r, &case);
        assert_same(
            &run_on(&case, &inputs, &outputs, chunks),
            &expected,
            &format!("{:?} broadcast", case.primitive),
        );
    }
}
