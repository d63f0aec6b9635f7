//! What the kernels' tests build operators from: a plan that holds nothing but buffers, and an operator whole; and the exact
//! value of a function that the standard library lacks.

use crate::ids::TenantId;
use crate::plan::format::*;
use crate::primitive::Region;

/// A plan of no task set with these buffers.
pub fn plan(buffers: Vec<Buffer>) -> Plan {
    Plan {
        task_set: String::new(),
        board: Digest([0; 32]),
        source: Digest([0; 32]),
        kernels: None,
        searcher: String::new(),
        cameras: Vec::new(),
        tenants: Vec::new(),
        weight_files: Vec::new(),
        sections: Vec::new(),
        buffers,
        operators: Vec::new(),
        streams: Vec::new(),
        cycle: Vec::new(),
        arena_bytes: 0,
        persistent_bytes: 0,
        input_bytes: 0,
        output_bytes: 0,
        prediction: Prediction {
            basis: Basis::Estimated,
            best_effort: true,
            frames: Vec::new(),
        },
    }
}

/// An operator in one chunk.
pub fn operator(kernel: Kernel, calls: Vec<Call>, outputs: Vec<View>) -> Operator {
    Operator {
        tenant: TenantId(0),
        name: String::new(),
        chunks: outputs.iter().take(1).map(|o| Region::whole(o.layout.shape)).collect(),
        calls,
        outputs,
        class: ArithmeticClass {
            family: Family::Fma,
            split_k: 1,
        },
        tactic: Tactic::of(kernel),
        width: 0,
    }
}

/// The error function by its series `2 / sqrt(pi) * e^(-x^2) * sum of 2^n x^(2n+1) / (2n+1)!!`, whose terms are all of one sign.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}
