//! Dense and grouped convolutions, and products with constants, in several layouts.

use super::*;

pub fn cases(all: &mut Cases) {
    for dtype in FLOATS {
        for (channels, form) in [(24, Form::Pixels), (24, Form::Slice), (21, Form::OddSlice), (3, Form::Plain)] {
            for (outputs, groups) in [(70, 1), (9, 1), (24, 3)] {
                if channels % groups != 0 {
                    continue;
                }
                all.add(
                    format!("{channels} {dtype} {form:?} to {outputs} in {groups} groups under a window"),
                    |b| {
                        let w = window([3, 3], 2, 1, 1, 1);
                        let dims = [2, channels, 11, 13];
                        let to_dims = under(&w, &dims, outputs);
                        let x = b.tensor(dtype, &dims, form);
                        let weights = b.constant(dtype, &[outputs, channels / groups, 3, 3], &[0, 2, 3, 1]);
                        let bias = b.constant(dtype, &[outputs], &[0]);
                        let residual = b.tensor(dtype, &to_dims, Form::Pixels);
                        let y = b.tensor(dtype, &to_dims, Form::Pixels);
                        let tail = [Link::Of(Unary::Relu), Link::With(Binary::Add, residual)];
                        b.operator(Primitive::Conv { window: w, groups }, &[x, weights, bias], &tail, &[y])
                    },
                );
            }
        }
    }
    for dims in [vec![3, 40], vec![2, 17, 40]] {
        all.add(format!("product of {dims:?} and a constant"), |b| {
            let to = [&dims[..dims.len() - 1], &[50]].concat();
            let (x, y) = (b.tensor(F32, &dims, Form::Plain), b.tensor(F32, &to, Form::Plain));
            let weights = b.constant(F32, &[40, 50], &[0, 1]);
            // The same matrix for every sample.
            let axes = dims.len() - 2;
            let all = shape(&[&dims[..axes], &[40, 50]].concat());
            let leading = View {
                layout: Layout::new(all, &[vec![0; axes], vec![50, 1]].concat()).unwrap(),
                ..weights
            };
            b.operator(Primitive::MatMul, &[x, leading], &[Link::Of(Unary::Tanh)], &[y])
        });
    }
}
