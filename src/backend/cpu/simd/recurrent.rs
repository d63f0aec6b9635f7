//! What a recurrent layer does between two products.

use super::math;
use super::vector::{LANES, Simd};

/// One step of a row of an LSTM: from the sums of its gates to the new states.
#[derive(Clone, Copy, Debug)]
pub struct LstmCell {
    /// The sums, `n` floats for each of the gates i, o, f and c.
    pub gates: *const f32,
    /// The cell's state, which becomes the new one.
    pub c: *mut f32,
    /// Where the new h goes.
    pub h: *mut f32,
    /// Hidden units.
    pub n: usize,
}

/// Runs [`LstmCell`]: `c = fma(f, c, i * g)`, `h = o * tanh(c)`.
///
/// # Safety
///
/// As [`super::Kernels::lstm_cell`].
#[inline(always)]
pub(super) unsafe fn lstm_cell<S: Simd>(s: S, a: &LstmCell) {
    let mut at = 0;
    while at < a.n {
        let left = a.n - at;
        // SAFETY: `at` is below `n`, so `left` floats of each gate and state remain.
        unsafe {
            let gate = |gate: usize| s.load_upto(a.gates.add(gate * a.n + at), left);
            let (i, o, f) = (math::sigmoid(s, gate(0)), math::sigmoid(s, gate(1)), math::sigmoid(s, gate(2)));
            let fresh = s.mul(i, math::tanh(s, gate(3)));
            let c = s.fma(f, s.load_upto(a.c.add(at), left), fresh);
            s.store_upto(a.c.add(at), left, c);
            s.store_upto(a.h.add(at), left, s.mul(o, math::tanh(s, c)));
        }
        at += LANES;
    }
}
