//! Recurrent layers: step by step, each row of the batch on its own.

use super::scalar;
use super::value::{Lane, Value};
use super::walk::Bounds;
use crate::backend::cpu::simd::Kernels;
use crate::primitive::{Cell, Unary};
use crate::tensor::Shape;

/// One direction of a layer; see [`crate::primitive::Primitive::Lstm`] and [`crate::primitive::Primitive::Gru`] for the arithmetic.
pub struct Recurrent {
    cell: Cell,
    reverse: bool,
    steps: usize,
    hidden: usize,
}

impl Recurrent {
    /// The layer of such cells whose first output is `output`, `[T,B,H]`.
    pub fn new((cell, reverse): (Cell, bool), output: Shape) -> Recurrent {
        Recurrent {
            cell,
            reverse,
            steps: output.dim(0) as usize,
            hidden: output.dim(2) as usize,
        }
    }

    /// Floats of working memory: the recurrent weights by hidden unit, gates, h and c.
    pub fn work(&self) -> usize {
        (4 * self.hidden + 6) * self.hidden
    }

    /// Computes the rows in `bounds`; `inputs` and `outputs` are the primitive's, `work` holds [`Recurrent::work`] floats.
    pub fn run(&self, inputs: &[Value<'_>], outputs: &[Value<'_>], bounds: &Bounds, work: &mut [f32]) {
        let n = self.hidden;
        let (weights, work) = work.split_at_mut(4 * n * n);
        let (gates, work) = work.split_at_mut(4 * n);
        let r = &inputs[1];
        for (k, weights) in weights.chunks_exact_mut(4 * n).enumerate() {
            f32::load(r, r.place.origin + k as i64 * r.stride(1), r.stride(0), weights);
        }
        let (h, work) = work.split_at_mut(n);
        let c = &mut work[..n];
        for row in bounds.range(1) {
            let row = i64::from(row);
            for (k, state) in [(2, &mut *h), (3, &mut *c)] {
                match inputs.get(k) {
                    Some(initial) => f32::load(initial, initial.place.origin + row * initial.stride(0), initial.stride(1), state),
                    None => state.fill(0.0),
                }
            }
            for step in 0..self.steps {
                let t = if self.reverse { self.steps - 1 - step } else { step };
                self.step(&inputs[0], &outputs[0], [t as i64, row], weights, gates, (h, c));
            }
            if let Some(last) = outputs.get(1) {
                f32::store(last, last.place.origin + row * last.stride(0), last.stride(1), c);
            }
        }
    }

    /// One step of one row: h and c become the step's.
    fn step(&self, x: &Value<'_>, y: &Value<'_>, [t, row]: [i64; 2], weights: &[f32], gates: &mut [f32], (h, c): (&mut [f32], &mut [f32])) {
        let place = |v: &Value<'_>| v.place.origin + t * v.stride(0) + row * v.stride(1);
        f32::load(x, place(x), x.stride(2), gates);
        Kernels::get().add_products(h, weights, gates.len(), gates);
        match self.cell {
            Cell::Lstm => lstm(gates, h, c),
            Cell::Gru => gru(gates, h),
        }
        // Stored and read back, h has the output's precision.
        f32::store(y, place(y), y.stride(2), h);
        f32::load(y, place(y), y.stride(2), h);
    }
}

/// The next h and c of a row from the sums of its gates i, o, f and c.
fn lstm(gates: &mut [f32], h: &mut [f32], c: &mut [f32]) {
    let n = h.len();
    let (sigmoids, g) = gates.split_at_mut(3 * n);
    scalar::unary(Unary::Sigmoid, sigmoids);
    scalar::unary(Unary::Tanh, g);
    let (i, of) = sigmoids.split_at(n);
    let (o, f) = of.split_at(n);
    for (j, c) in c.iter_mut().enumerate() {
        *c = f[j].mul_add(*c, i[j] * g[j]);
    }
    h.copy_from_slice(c);
    scalar::unary(Unary::Tanh, h);
    h.iter_mut().zip(o).for_each(|(h, &o)| *h *= o);
}

/// The next h of a row from the sums of its gates z, r, n and x.
fn gru(gates: &mut [f32], h: &mut [f32]) {
    let n = h.len();
    let (sigmoids, hidden) = gates.split_at_mut(2 * n);
    scalar::unary(Unary::Sigmoid, sigmoids);
    let (z, r) = sigmoids.split_at(n);
    let (fresh, x) = hidden.split_at_mut(n);
    for ((fresh, &x), &r) in fresh.iter_mut().zip(&*x).zip(r) {
        *fresh = r.mul_add(*fresh, x);
    }
    scalar::unary(Unary::Tanh, fresh);
    for ((h, &fresh), &z) in h.iter_mut().zip(&*fresh).zip(z) {
        *h = z.mul_add(*h - fresh, fresh);
    }
}
