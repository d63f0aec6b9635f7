//! What a recurrent layer does between two products.

use super::math;
use super::vector::{LANES, Simd};

/// One step of a row of a recurrent layer: from the sums of its gates to the new states.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentCell {
    /// The sums, `n` floats for each of the four gates, in the primitive's order.
    pub gates: *const f32,
    /// c of an LSTM, h of a GRU: the state in f32, which becomes the new one.
    pub state: *mut f32,
    /// Where the new h goes.
    pub h: *mut f32,
    /// Hidden units.
    pub n: usize,
}

/// Runs [`RecurrentCell`] of an LSTM: `c = fma(f, c, i * g)`, `h = o * tanh(c)`.
///
/// # Safety
///
/// As [`super::Kernels::lstm_cell`].
#[inline(always)]
pub(super) unsafe fn lstm_cell<S: Simd>(s: S, a: &RecurrentCell) {
    let mut at = 0;
    while at < a.n {
        let left = a.n - at;
        // SAFETY: `at` is below `n`, so `left` floats of each gate and state remain.
        unsafe {
            let gate = |gate: usize| s.load_upto(a.gates.add(gate * a.n + at), left);
            let (i, o, f) = (math::sigmoid(s, gate(0)), math::sigmoid(s, gate(1)), math::sigmoid(s, gate(2)));
            let fresh = s.mul(i, math::tanh(s, gate(3)));
            let c = s.fma(f, s.load_upto(a.state.add(at), left), fresh);
            s.store_upto(a.state.add(at), left, c);
            s.store_upto(a.h.add(at), left, s.mul(o, math::tanh(s, c)));
        }
        at += LANES;
    }
}

/// Runs [`RecurrentCell`] of a GRU: `fresh = tanh(fma(r, n, x))`, `h = fma(z, h - fresh, fresh)`.
///
/// # Safety
///
/// As [`super::Kernels::lstm_cell`].
#[inline(always)]
pub(super) unsafe fn gru_cell<S: Simd>(s: S, a: &RecurrentCell) {
    let mut at = 0;
    while at < a.n {
        let left = a.n - at;
        // SAFETY: `at` is below `n`, so `left` floats of each gate and state remain.
        unsafe {
            let gate = |gate: usize| s.load_upto(a.gates.add(gate * a.n + at), left);
            let (z, r) = (math::sigmoid(s, gate(0)), math::sigmoid(s, gate(1)));
            let fresh = math::tanh(s, s.fma(r, gate(2), gate(3)));
            let h = s.fma(z, s.sub(s.load_upto(a.state.add(at), left), fresh), fresh);
            s.store_upto(a.state.add(at), left, h);
            s.store_upto(a.h.add(at), left, h);
        }
        at += LANES;
    }
}
