//! Operators of several primitives: the same bits as their primitives one after another, however they are cut.

use super::{Bench, Random, assert_same, shape, window};
use crate::backend::cpu::eval::eval;
use crate::backend::cpu::fixture;
use crate::backend::cpu::kernels::{CompileError, Compiler};
use crate::backend::cpu::simd::Isa;
use crate::ids::BufferId;
use crate::plan::format::*;
use crate::primitive::*;
use crate::tensor::{DType, Layout, Shape, Tensor};

/// A source of an operand: a tensor of the test, or an earlier result.
enum From {
    Memory(usize),
    Inner(u8),
}
use From::{Inner, Memory};

/// An operator as a list of primitives over some tensors.
struct Chain {
    tensors: Vec<Tensor>,
    calls: Vec<(Primitive, Vec<From>, Shape, Rounding)>,
    dtype: DType,
}

impl Chain {
    /// Each primitive on its own, on host tensors of its type.
    fn one_after_another(&self) -> Vec<Tensor> {
        let mut results: Vec<Tensor> = vec![];
        for (primitive, inputs, out, _) in &self.calls {
            let operands: Vec<&Tensor> = inputs
                .iter()
                .map(|from| match from {
                    Memory(i) => &self.tensors[*i],
                    Inner(j) => &results[usize::from(*j)],
                })
                .collect();
            let result = eval(primitive, &operands, &[(self.dtype, *out)]).unwrap().remove(0);
            results.push(result);
        }
        results.split_off(results.len() - 1)
    }

    /// As one operator over `chunks`, channels-last.
    fn fused(&self, chunks: Vec<Region>) -> Vec<Tensor> {
        let mut bench = Bench::new();
        let views: Vec<View> = self
            .tensors
            .iter()
            .map(|t| {
                let view = bench.view(t.dtype(), Layout::channels_last(t.shape()));
                bench.write(&view, t);
                view
            })
            .collect();
        let calls: Vec<Call> = self
            .calls
            .iter()
            .map(|(primitive, inputs, out, rounding)| Call {
                primitive: *primitive,
                inputs: inputs
                    .iter()
                    .map(|from| match from {
                        Memory(i) => Operand::View(views[*i]),
                        Inner(j) => Operand::Inner(*j),
                    })
                    .collect(),
                dtype: self.dtype,
                shape: *out,
                rounding: *rounding,
            })
            .collect();
        let out = bench.view(self.dtype, Layout::channels_last(calls[calls.len() - 1].shape));
        bench.run(calls, vec![out], chunks);
        vec![bench.read(&out)]
    }

    fn out(&self) -> Shape {
        self.calls[self.calls.len() - 1].2
    }

    /// Whole, cut into bands and batches, and cut into single rows: always the same bits as one after another.
    fn check(&self, what: &str) {
        let expected = self.one_after_another();
        let whole = Region::whole(self.out());
        let single = |height: u32| {
            let bands = move |batch: u32, rows: u32| {
                (0..rows).step_by(height as usize).map(move |r| Region {
                    batch: batch..batch + 1,
                    rows: r..(r + height).min(rows),
                })
            };
            (0..whole.batch.end).flat_map(|b| bands(b, whole.rows.end)).collect::<Vec<Region>>()
        };
        for chunks in [vec![whole.clone()], single(1), single(3)] {
            let count = chunks.len();
            assert_same(&self.fused(chunks), &expected, &format!("{what} in {count} chunks"));
        }
    }
}

fn block(dtype: DType, side: u32) -> Chain {
    let mut r = Random(u64::from(side));
    let x = shape(&[2, 6, side, side]);
    let half = shape(&[2, 4, side.div_ceil(2), side.div_ceil(2)]);
    let conv = |stride: u32| Primitive::Conv {
        window: window(&[3, 3], stride, 1, 1, 1),
        groups: 1,
    };
    let pool = Primitive::Pool {
        kind: PoolKind::Max { column_major: false },
        window: window(&[3, 3], 1, 1, 1, 1),
    };
    let shapes: [&[u32]; 6] = [&[2, 6, side, side], &[6, 6, 3, 3], &[6], &[4, 6, 3, 3], &[4], half.dims()];
    let kept = Rounding::Rounded;
    Chain {
        tensors: shapes.iter().map(|s| r.tensor(dtype, shape(s))).collect(),
        calls: vec![
            (conv(1), vec![Memory(0), Memory(1), Memory(2)], x, kept),
            (Primitive::Unary(Unary::Silu), vec![Inner(0)], x, kept),
            (Primitive::Binary(Binary::Add), vec![Inner(1), Memory(0)], x, kept),
            (pool, vec![Inner(2)], x, kept),
            (conv(2), vec![Inner(3), Memory(3), Memory(4)], half, kept),
            (Primitive::Binary(Binary::Mul), vec![Inner(4), Memory(5)], half, kept),
            (Primitive::Unary(Unary::LeakyRelu(Scalar(0.1))), vec![Inner(5)], half, kept),
        ],
        dtype,
    }
}

#[test]
fn a_block_of_convolutions_has_the_bits_of_its_primitives() {
    block(DType::F32, 13).check("convolutions");
    block(DType::F16, 11).check("convolutions in f16");
}

#[test]
fn tiles_of_a_large_operator_have_the_bits_of_its_primitives() {
    // 2 * 4 * 70 * 70 outputs: several tiles, halos between them.
    let chain = block(DType::F32, 140);
    let whole = Region::whole(chain.out());
    assert_same(&chain.fused(vec![whole]), &chain.one_after_another(), "tiles");
}

#[test]
fn attention_and_transposed_chains_have_the_bits_of_their_primitives() {
    let mut r = Random(5);
    let (q, k, scores) = (shape(&[3, 9, 8]), shape(&[3, 8, 7]), shape(&[3, 9, 7]));
    let attention = Chain {
        tensors: [q, k, scores, shape(&[3, 7, 8])].map(|s| r.tensor(DType::F32, s)).to_vec(),
        calls: vec![
            (Primitive::MatMul, vec![Memory(0), Memory(1)], scores, Rounding::Kept),
            (Primitive::Binary(Binary::Add), vec![Inner(0), Memory(2)], scores, Rounding::Kept),
            (Primitive::Softmax { axis: 2 }, vec![Inner(1)], scores, Rounding::Kept),
            (Primitive::MatMul, vec![Inner(2), Memory(3)], q, Rounding::Kept),
        ],
        dtype: DType::F32,
    };
    attention.check("attention");
    let (small, large) = (shape(&[2, 3, 5, 4]), shape(&[2, 2, 10, 8]));
    let up = Primitive::ConvTranspose {
        window: window(&[4, 4], 2, 1, 1, 1),
        groups: 1,
    };
    let smooth = Primitive::Pool {
        kind: PoolKind::Average { count_pad: false },
        window: window(&[3, 3], 1, 1, 1, 1),
    };
    let rows = Primitive::Softmax { axis: 2 };
    let transposed = Chain {
        tensors: vec![r.tensor(DType::F32, small), r.tensor(DType::F32, shape(&[3, 2, 4, 4]))],
        calls: vec![
            (Primitive::Unary(Unary::Tanh), vec![Memory(0)], small, Rounding::Kept),
            (up, vec![Inner(0), Memory(1)], large, Rounding::Kept),
            // Along the rows, which a band of the next primitive needs whole.
            (rows, vec![Inner(1)], large, Rounding::Kept),
            (smooth, vec![Inner(2)], large, Rounding::Kept),
        ],
        dtype: DType::F32,
    };
    transposed.check("transposed");
}

#[test]
fn rounded_and_kept_intermediates_differ_in_f16_only() {
    let mut r = Random(21);
    let s = shape(&[64]);
    let chain = |rounding: Rounding, tensors: &[Tensor]| Chain {
        tensors: tensors.to_vec(),
        calls: vec![
            (Primitive::Binary(Binary::Mul), vec![Memory(0), Memory(1)], s, rounding),
            (Primitive::Binary(Binary::Sub), vec![Inner(0), Memory(0)], s, rounding),
        ],
        dtype: DType::F16,
    };
    let tensors = [r.tensor(DType::F16, s), r.tensor(DType::F16, s)];
    let whole = vec![Region::whole(s)];
    let rounded = chain(Rounding::Rounded, &tensors);
    assert_same(&rounded.fused(whole.clone()), &rounded.one_after_another(), "rounded");
    let kept = chain(Rounding::Kept, &tensors).fused(whole).remove(0);
    for i in 0..64 {
        let (a, b) = (tensors[0].get_f64(i).unwrap() as f32, tensors[1].get_f64(i).unwrap() as f32);
        assert_eq!(kept.get_f64(i), Some(half::f16::from_f32(a * b - a).to_f64()));
    }
    assert_ne!(kept, rounded.one_after_another()[0], "the rounding shows in some element");
}

fn operator(calls: Vec<Call>, outputs: Vec<View>) -> Operator {
    fixture::operator(Kernel::Generic, calls, outputs)
}

#[test]
fn operators_that_refer_to_nothing_are_refused() {
    let s = shape(&[4]);
    let view = View {
        buffer: BufferId(9),
        origin: 0,
        dtype: DType::F32,
        layout: Layout::contiguous(s),
    };
    let call = |operand: Operand| Call {
        primitive: Primitive::Unary(Unary::Neg),
        inputs: vec![operand],
        dtype: DType::F32,
        shape: s,
        rounding: Rounding::Kept,
    };
    let mut bench = Bench::new();
    let there = bench.view(DType::F32, Layout::contiguous(s));
    let compile = |operator: Operator| Compiler::new(Isa::detect()).compile(&bench.plan, &operator, &[]).err();
    assert_eq!(compile(operator(vec![], vec![there])), Some(CompileError::Reference));
    assert_eq!(
        compile(operator(vec![call(Operand::View(view))], vec![there])),
        Some(CompileError::Reference)
    );
    assert_eq!(
        compile(operator(vec![call(Operand::Inner(0))], vec![there])),
        Some(CompileError::Reference)
    );
    assert_eq!(
        compile(operator(vec![call(Operand::View(there))], vec![view])),
        Some(CompileError::Reference)
    );
    let mut wrong = call(Operand::View(there));
    wrong.primitive = Primitive::MatMul;
    let arity = CompileError::Primitive(0, PrimitiveError::Arity);
    assert_eq!(compile(operator(vec![wrong], vec![there])), Some(arity));
}
