//! Functions of one value and of two, chains of them, and copies, of all types and layouts.

use super::*;

pub fn cases(all: &mut Cases) {
    functions(all);
    integers(all);
    chains(all);
    coordinates(all);
    copies(all);
}

fn functions(all: &mut Cases) {
    let unary = [
        Unary::Relu,
        Unary::LeakyRelu(scalar(0.1)),
        Unary::Clip(scalar(-1.0), scalar(0.75)),
        Unary::Sigmoid,
        Unary::HardSigmoid(scalar(0.2), scalar(0.5)),
        Unary::HardSwish,
        Unary::Silu,
        Unary::Tanh,
        Unary::Exp,
        Unary::Sqrt,
        Unary::Neg,
        Unary::Erf,
        Unary::Gelu,
        Unary::GeluTanh,
        Unary::Round,
        Unary::Log,
        Unary::Abs,
        Unary::Floor,
        Unary::Ceil,
    ];
    for (dtype, kind) in FLOATS.into_iter().flat_map(|d| unary.map(|k| (d, k))) {
        all.add(format!("{kind:?} of {dtype}"), |b| {
            let (x, y) = (b.tensor(dtype, &[3, 1003], Form::Plain), b.tensor(dtype, &[3, 1003], Form::Plain));
            b.operator(Primitive::Unary(kind), &[x], &[], &[y])
        });
    }
    use Binary::*;
    for (dtype, kind) in FLOATS
        .into_iter()
        .flat_map(|d| [Add, Sub, Mul, Div, Pow, Min, Max, PRelu].map(|k| (d, k)))
    {
        all.add(format!("{kind:?} of {dtype}"), |b| {
            let dims = &[2, 19, 5, 7];
            let (x, w) = (b.tensor(dtype, dims, Form::Slice), b.tensor(dtype, dims, Form::Channels));
            let y = b.tensor(dtype, dims, Form::Pixels);
            b.operator(Primitive::Binary(kind), &[x, w], &[], &[y])
        });
    }
}

fn integers(all: &mut Cases) {
    let unary = [
        Unary::Relu,
        Unary::Neg,
        Unary::Abs,
        Unary::Ceil,
        Unary::Clip(scalar(-3.5), scalar(7.5)),
        Unary::Sqrt,
    ];
    use Binary::*;
    for dtype in [I32, U8, Bool] {
        for kind in unary {
            all.add(format!("{kind:?} of {dtype}"), |b| {
                let (x, y) = (b.tensor(dtype, &[3, 41], Form::Plain), b.tensor(dtype, &[3, 41], Form::Reversed));
                b.operator(Primitive::Unary(kind), &[x], &[], &[y])
            });
        }
        for kind in [Add, Sub, Mul, Div, Pow, Min, Max, PRelu] {
            all.add(format!("{kind:?} of {dtype} with a tail"), |b| {
                let make = |b: &mut Bench| b.tensor(dtype, &[3, 41], Form::Plain);
                let (x, w, v, y) = (make(b), make(b), make(b), make(b));
                let tail = [Link::With(Add, v), Link::Of(Unary::Relu), Link::Earlier(Sub, 0)];
                b.operator(Primitive::Binary(kind), &[x, w], &tail, &[y])
            });
        }
    }
    all.add("power of floats to integers", |b| {
        let (x, w) = (b.tensor(F32, &[41], Form::Plain), b.tensor(I32, &[41], Form::Plain));
        let y = b.tensor(F32, &[41], Form::Plain);
        b.operator(Primitive::Binary(Pow), &[x, w], &[], &[y])
    });
}

/// Tails of every shape: chains, residuals, gates, values of earlier calls, tensors on the left.
fn chains(all: &mut Cases) {
    use Binary::*;
    // Channels in whole runs are taken several runs a thread, the more the larger the tensor.
    let sizes = [[2, 21, 6, 5], [2, 24, 6, 5], [2, 24, 80, 81], [2, 40, 120, 121]];
    let forms = [Form::Pixels, Form::Slice, Form::OddSlice, Form::Plain];
    for ((dims, dtype), form) in sizes
        .iter()
        .flat_map(|d| FLOATS.map(|t| (d, t)))
        .flat_map(|it| forms.map(|f| (it, f)))
    {
        all.add(format!("a chain of {dtype} {dims:?} over {form:?}"), |b| {
            let (x, residual) = (b.tensor(dtype, dims, form), b.tensor(dtype, dims, Form::Pixels));
            let (scale, gate) = (b.tensor(dtype, dims, Form::Channels), b.tensor(dtype, dims, Form::Gate));
            let y = b.tensor(dtype, dims, form);
            let tail = [
                Link::With(Mul, scale),
                Link::Of(Unary::Sigmoid),
                Link::Earlier(Mul, 1),
                Link::Behind(Sub, residual),
                Link::With(Mul, gate),
                Link::Of(Unary::Gelu),
                Link::Earlier(Max, 3),
            ];
            b.operator(Primitive::Unary(Unary::HardSwish), &[x], &tail, &[y])
        });
        all.add(format!("a brief chain of {dtype} {dims:?} over {form:?}"), |b| {
            let (x, residual) = (b.tensor(dtype, dims, form), b.tensor(dtype, dims, Form::Pixels));
            let (scale, y) = (b.tensor(dtype, dims, Form::Channels), b.tensor(dtype, dims, form));
            let tail = [
                Link::With(Mul, scale),
                Link::Of(Unary::Relu),
                Link::Earlier(Add, 0),
                Link::Behind(Sub, residual),
            ];
            b.operator(Primitive::Binary(Mul), &[x, x], &tail, &[y])
        });
        all.add(format!("two of {dtype} {dims:?} over {form:?}"), |b| {
            let (x, row) = (b.tensor(dtype, dims, form), b.tensor(dtype, dims, Form::Row));
            let y = b.tensor(dtype, dims, form);
            let tail = [
                Link::Behind(Div, x),
                Link::With(Add, x),
                Link::Behind(Pow, row),
                Link::Behind(Min, x),
            ];
            b.operator(Primitive::Binary(Mul), &[x, x], &tail, &[y])
        });
    }
}

/// Axes of two and four elements inside, in whole eights and not, over what repeats itself along the next axes or lies otherwise.
fn coordinates(all: &mut Cases) {
    use Binary::*;
    for (dims, form, other) in [
        ([2, 24, 6, 2], Form::Plain, Form::Row),
        ([2, 5, 6, 4], Form::Plain, Form::Row),
        ([3, 2, 6, 8], Form::Pixels, Form::Channels),
        ([3, 4, 5, 2], Form::Pixels, Form::Gate),
        ([3, 6, 2, 2], Form::Plain, Form::Reversed),
        ([3, 5, 7, 2], Form::Plain, Form::Row),
        ([3, 5, 2, 2], Form::Plain, Form::Reversed),
    ] {
        for dtype in FLOATS {
            all.add(format!("coordinates of {dtype} {dims:?} {form:?} with {other:?}"), |b| {
                let (x, w) = (b.tensor(dtype, &dims, form), b.tensor(dtype, &dims, other));
                let y = b.tensor(dtype, &dims, form);
                let tail = [
                    Link::With(Add, w),
                    Link::Of(Unary::Relu),
                    Link::Behind(Sub, x),
                    Link::Earlier(Add, 0),
                ];
                b.operator(Primitive::Binary(Mul), &[x, w], &tail, &[y])
            });
            all.add(format!("quotients of {dtype} {dims:?} {form:?} with {other:?}"), |b| {
                let (x, w) = (b.tensor(dtype, &dims, form), b.tensor(dtype, &dims, other));
                let y = b.tensor(dtype, &dims, form);
                let tail = [
                    Link::Behind(Div, x),
                    Link::Of(Unary::Sigmoid),
                    Link::With(Max, w),
                    Link::Earlier(Sub, 1),
                ];
                b.operator(Primitive::Binary(Sub), &[w, x], &tail, &[y])
            });
        }
    }
}

fn copies(all: &mut Cases) {
    for (from, to) in [
        (F16, F32),
        (F32, F16),
        (F32, F32),
        (F32, I32),
        (F32, U8),
        (F16, Bool),
        (U8, I32),
        (I32, U8),
        (I32, F16),
        (Bool, F16),
    ] {
        for (there, here) in [
            (Form::Pixels, Form::Plain),
            (Form::Plain, Form::OddSlice),
            (Form::Slice, Form::Pixels),
        ] {
            all.add(format!("a copy of {from} {there:?} to {to} {here:?}"), |b| {
                let dims = &[2, 11, 4, 9];
                let (x, y) = (b.tensor(from, dims, there), b.tensor(to, dims, here));
                b.operator(Primitive::Copy, &[x], &[], &[y])
            });
        }
    }
    // Neighbours along another axis: few planes and many, in whole pieces and not.
    for (from, to) in [(F16, F16), (F32, F32), (F32, F16), (F16, F32)] {
        for (dims, there, here) in [
            ([2, 3, 16, 24], Form::Plain, Form::Pixels),
            ([2, 4, 8, 72], Form::Plain, Form::Pixels),
            ([2, 2, 40, 16], Form::Plain, Form::Pixels),
            ([2, 3, 25, 23], Form::Plain, Form::Pixels),
            ([2, 40, 12, 16], Form::Plain, Form::OddSlice),
            ([2, 40, 12, 16], Form::Plain, Form::Pixels),
            ([2, 72, 6, 8], Form::Slice, Form::Plain),
            ([2, 21, 9, 11], Form::Pixels, Form::Plain),
            ([1, 70, 7, 19], Form::OddSlice, Form::Plain),
            ([3, 4, 9, 65], Form::Reversed, Form::Plain),
        ] {
            all.add(format!("{from} {dims:?} {there:?} turned to {to} {here:?}"), |b| {
                let (x, y) = (b.tensor(from, &dims, there), b.tensor(to, &dims, here));
                b.operator(Primitive::Copy, &[x], &[], &[y])
            });
        }
    }
}
