//! What the kernels' tests build operators from: a plan that holds nothing but buffers, and an operator whole.

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
