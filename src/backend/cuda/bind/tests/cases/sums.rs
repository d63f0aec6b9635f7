//! Sums and maxima along axes, and what is made of them: softmaxes and normalisations.

use super::*;

pub fn cases(all: &mut Cases) {
    reductions(all);
    softmaxes(all);
    expectations(all);
    normalisations(all);
    group_normalisations(all);
}

fn reductions(all: &mut Cases) {
    let kinds = [ReduceKind::Mean, ReduceKind::Max, ReduceKind::Sum, ReduceKind::Norm];
    for (dtype, kind) in FLOATS.into_iter().flat_map(|d| kinds.map(|k| (d, k))) {
        for (dims, axes, form) in [
            ([2, 70, 7, 7], 0b1100u8, Form::Pixels),
            ([2, 19, 13, 29], 0b1100, Form::OddSlice),
            ([2, 24, 33, 37], 0b1100, Form::Slice),
            ([2, 19, 33, 37], 0b1100, Form::OddSlice),
            ([2, 5, 3, 300], 0b1000, Form::Plain),
            ([2, 3, 4, 31], 0b1000, Form::Plain),
            ([2, 6, 5, 40], 0b1010, Form::Plain),
            ([3, 6, 5, 4], 0b0001, Form::Pixels),
            ([2, 70, 5, 6], 0b0010, Form::Pixels),
            ([2, 197, 3, 40], 0b0010, Form::Plain),
            ([2, 600, 2, 20], 0b0010, Form::Plain),
            ([2, 600, 3, 5], 0b0010, Form::Pixels),
            ([2, 16, 4, 63], 0b0010, Form::Pixels),
            ([2, 130, 5, 13], 0b0110, Form::Plain),
            ([2, 3, 70, 71], 0b1100, Form::Plain),
            ([2, 9, 30, 31], 0b1110, Form::Pixels),
            ([2, 8, 33, 30], 0b1010, Form::Pixels),
        ] {
            all.add(format!("{kind:?} {axes:b} of {dims:?} {dtype} {form:?}"), |b| {
                let to: Vec<u32> = (0..4).map(|a| if axes & (1 << a) != 0 { 1 } else { dims[a] }).collect();
                let (x, y) = (b.tensor(dtype, &dims, form), b.tensor(dtype, &to, Form::Plain));
                b.operator(Primitive::Reduce { kind, axes }, &[x], &[Link::Of(Unary::Sigmoid)], &[y])
            });
        }
    }
    for (dtype, last) in FLOATS.into_iter().flat_map(|d| [40, 600].map(|k| (d, k))) {
        for tail in [&[][..], &[Link::Of(Unary::Sqrt)]] {
            all.add(
                format!("sums of {last} positions of heads side by side of {dtype}, {}", tail.len()),
                |b| {
                    let rows = b.tensor(dtype, &[2, last, 3, 20], Form::Plain);
                    let strides = [rows.layout.stride(0), 20, 1, 60];
                    let x = View {
                        layout: Layout::new(shape(&[2, 3, 20, last]), &strides).unwrap(),
                        ..rows
                    };
                    let y = b.tensor(dtype, &[2, 3, 20, 1], Form::Plain);
                    let sum = Primitive::Reduce {
                        kind: ReduceKind::Sum,
                        axes: 0b1000,
                    };
                    b.operator(sum, &[x], tail, &[y])
                },
            );
        }
    }
    for kind in kinds.into_iter().filter(|&k| k != ReduceKind::Norm) {
        all.add(format!("{kind:?} of integers"), |b| {
            let (x, y) = (b.tensor(I32, &[4, 5, 6], Form::Plain), b.tensor(I32, &[4, 1, 6], Form::Plain));
            b.operator(Primitive::Reduce { kind, axes: 0b010 }, &[x], &[], &[y])
        });
    }
}

fn softmaxes(all: &mut Cases) {
    for (dtype, axis) in FLOATS.into_iter().flat_map(|d| [0u8, 1, 2, 3].map(|a| (d, a))) {
        for form in [Form::Plain, Form::Pixels] {
            all.add(format!("softmax along {axis} of {dtype} {form:?}"), |b| {
                let dims = &[3, 37, 4, 70];
                let (x, y) = (b.tensor(dtype, dims, form), b.tensor(dtype, dims, form));
                b.operator(Primitive::Softmax { axis }, &[x], &[], &[y])
            });
        }
    }
    for (dtype, extent) in FLOATS.into_iter().flat_map(|d| [128, 1000, 8192, 8193].map(|e| (d, e))) {
        all.add(format!("softmax of {extent} {dtype}"), |b| {
            let (x, y) = (
                b.tensor(dtype, &[3, extent], Form::Plain),
                b.tensor(dtype, &[3, extent], Form::Plain),
            );
            b.operator(Primitive::Softmax { axis: 1 }, &[x], &[], &[y])
        });
    }
}

fn expectations(all: &mut Cases) {
    // Rows that a thread keeps and others, along every axis, of constants and of what is computed.
    for (dtype, bins) in FLOATS.into_iter().flat_map(|d| [5, 8, 16, 17, 32, 33, 100].map(|n| (d, n))) {
        for (axis, form) in (0..4u8).flat_map(|a| [Form::Plain, Form::Pixels, Form::OddSlice].map(|f| (a, f))) {
            all.add(format!("expectation of {bins} along {axis} of {dtype} {form:?}"), |b| {
                let mut dims = [3, 6, 4, 70];
                dims[usize::from(axis)] = bins;
                let mut kept = dims;
                kept[usize::from(axis)] = 1;
                let (x, y) = (b.tensor(dtype, &dims, form), b.tensor(dtype, &kept, Form::Plain));
                let values = match form {
                    Form::Plain => b.constant(dtype, &[bins], &[0]),
                    _ => b.tensor(dtype, &[bins], Form::Plain),
                };
                b.operator(Primitive::Expectation { axis }, &[x, values], &[], &[y])
            });
        }
    }
    for dtype in FLOATS {
        all.add(format!("distances of {dtype}"), |b| {
            // Sixteen bins of each of four sides of an anchor, side by side.
            let anchors = b.tensor(dtype, &[2, 300, 64], Form::Plain);
            let x = View {
                layout: Layout::new(shape(&[2, 16, 4, 300]), &[300 * 64, 1, 16, 64]).unwrap(),
                ..anchors
            };
            let (values, y) = (b.constant(dtype, &[16], &[0]), b.tensor(dtype, &[2, 1, 4, 300], Form::Plain));
            b.operator(Primitive::Expectation { axis: 1 }, &[x, values], &[], &[y])
        });
    }
}

fn normalisations(all: &mut Cases) {
    let epsilon = scalar(1e-5);
    for (dtype, axis) in FLOATS.into_iter().flat_map(|d| [0u8, 1, 2, 3].map(|a| (d, a))) {
        for form in [Form::Plain, Form::Pixels] {
            all.add(format!("normalisation along {axis} of {dtype} {form:?}"), |b| {
                let dims = &[3, 37, 4, 70];
                let (x, y) = (b.tensor(dtype, dims, form), b.tensor(dtype, dims, form));
                b.operator(Primitive::Normalise { axis, epsilon }, &[x], &[], &[y])
            });
        }
    }
    for (dtype, extent) in FLOATS.into_iter().flat_map(|d| [1, 7, 64, 1000, 1001, 1100, 9000].map(|e| (d, e))) {
        all.add(format!("normalisation of {extent} {dtype}"), |b| {
            let dims = &[3, 11, extent];
            let (x, y) = (b.tensor(dtype, dims, Form::Plain), b.tensor(dtype, dims, Form::Plain));
            b.operator(Primitive::Normalise { axis: 2, epsilon }, &[x], &[], &[y])
        });
        all.add(format!("root mean square normalisation of {extent} {dtype}"), |b| {
            let dims = &[3, 11, extent];
            let (x, y) = (b.tensor(dtype, dims, Form::Plain), b.tensor(dtype, dims, Form::Plain));
            b.operator(Primitive::RmsNormalise { axis: 2, epsilon }, &[x], &[], &[y])
        });
    }
    // Scaled and shifted by constants, as layers are.
    for (dtype, extent) in FLOATS
        .into_iter()
        .flat_map(|d| [40, 64, 100, 200, 264, 776, 1096, 4104, 8200].map(|e| (d, e)))
    {
        all.add(format!("normalisation of {extent} {dtype}, scaled and shifted"), |b| {
            let dims = &[3, 11, extent];
            let (x, y) = (b.tensor(dtype, dims, Form::Plain), b.tensor(dtype, dims, Form::Plain));
            let [scale, shift] = [0, 1].map(|_| repeated(b.constant(dtype, &[extent], &[0]), dims));
            let tail = [Link::With(Binary::Mul, scale), Link::Behind(Binary::Add, shift)];
            b.operator(Primitive::Normalise { axis: 2, epsilon }, &[x], &tail, &[y])
        });
    }
}

fn group_normalisations(all: &mut Cases) {
    let epsilon = scalar(1e-5);
    // Of whole pieces and others, one group and many, groups of pieces, of parts of one and across several.
    for (dtype, (channels, groups)) in FLOATS
        .into_iter()
        .flat_map(|d| [(64, 1), (64, 8), (96, 32), (40, 40), (60, 5), (36, 1), (7, 7)].map(|g| (d, g)))
    {
        let dims = &[3, channels, 9, 13];
        for form in [Form::Plain, Form::Pixels, Form::Slice, Form::OddSlice] {
            all.add(format!("normalisation of {groups} groups of {channels} {dtype} {form:?}"), |b| {
                let (x, y) = (b.tensor(dtype, dims, form), b.tensor(dtype, dims, form));
                b.operator(Primitive::GroupNormalise { groups, epsilon }, &[x], &[], &[y])
            });
        }
        for rectified in [false, true] {
            let what = if rectified { "and rectified" } else { "only" };
            let name = format!("normalisation of {groups} groups of {channels} {dtype}, scaled, shifted {what}");
            all.add(name, |b| {
                let (x, y) = (b.tensor(dtype, dims, Form::Pixels), b.tensor(dtype, dims, Form::Pixels));
                let [scale, shift] = [0, 1].map(|_| by_channel(b.constant(dtype, &[channels], &[0]), dims));
                let relu = Link::Of(Unary::Relu);
                let tail = [Link::With(Binary::Mul, scale), Link::Behind(Binary::Add, shift), relu];
                let tail = if rectified { &tail[..] } else { &tail[..2] };
                b.operator(Primitive::GroupNormalise { groups, epsilon }, &[x], tail, &[y])
            });
        }
    }
    // More than registers hold, a tail of its own, and other ranks.
    for dtype in FLOATS {
        all.add(format!("normalisation of a large picture of {dtype}"), |b| {
            let dims = &[1, 8, 190, 200];
            let (x, y) = (b.tensor(dtype, dims, Form::Pixels), b.tensor(dtype, dims, Form::Pixels));
            b.operator(Primitive::GroupNormalise { groups: 1, epsilon }, &[x], &[], &[y])
        });
        all.add(format!("normalisation of groups of {dtype} with a tail"), |b| {
            let dims = &[2, 24, 5, 6];
            let (x, w, y) = (
                b.tensor(dtype, dims, Form::Pixels),
                b.tensor(dtype, dims, Form::Plain),
                b.tensor(dtype, dims, Form::Pixels),
            );
            let tail = [Link::Of(Unary::Silu), Link::With(Binary::Add, w)];
            b.operator(Primitive::GroupNormalise { groups: 2, epsilon }, &[x], &tail, &[y])
        });
        for dims in [&[2, 24][..], &[2, 24, 17], &[2, 8, 3, 4, 5], &[2, 8, 3, 2, 2, 3]] {
            all.add(format!("normalisation of groups of {dtype} {dims:?}"), |b| {
                let (x, y) = (b.tensor(dtype, dims, Form::Plain), b.tensor(dtype, dims, Form::Plain));
                b.operator(Primitive::GroupNormalise { groups: 4, epsilon }, &[x], &[], &[y])
            });
        }
    }
}
