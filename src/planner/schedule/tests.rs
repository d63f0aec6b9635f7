use super::*;
use crate::board::Division;
use crate::ids::{BufferId, SegmentId};
use crate::plan::format::{ArithmeticClass, Buffer, Call, Family, Kernel, Operand, Rounding, Space, Tactic, View};
use crate::planner::memory;
use crate::primitive::{Primitive, Unary};
use crate::task::{Rate, ResultKind, Urgency};
use crate::tensor::{DType, Layout, Shape};

pub fn tenant(name: &str, divisor: u16, priority: u8, sources: &[u16]) -> Tenant {
    Tenant {
        name: name.into(),
        model: name.into(),
        cameras: vec![],
        rate: Rate { divisor, phase: 0 },
        urgency: Urgency { priority, deadline: None },
        kind: ResultKind::Tensors,
        sources: sources.iter().map(|&s| TenantId(s)).collect(),
        inputs: vec![],
        outputs: vec![],
    }
}

fn view(buffer: u32) -> View {
    let shape = Shape::new(&[2, 3, 8, 4]).unwrap();
    View {
        buffer: BufferId(buffer),
        origin: 0,
        dtype: DType::F32,
        layout: Layout::channels_last(shape),
    }
}

/// Chains of `length` elementwise operators, one per tenant, each over buffers of its own; needs are the chain.
pub fn chains(tenants: usize, length: u32) -> (Vec<Operator>, Vec<Vec<OperatorId>>, Vec<Buffer>) {
    let (mut operators, mut needs, mut buffers) = (vec![], vec![], vec![]);
    for t in 0..tenants {
        for i in 0..=length {
            let space = if i == 0 {
                Space::Input { offset: 0 }
            } else {
                Space::Arena { offset: 0 }
            };
            buffers.push(Buffer {
                space,
                bytes: 2 * 3 * 8 * 4 * 4,
            });
            if i == 0 {
                continue;
            }
            let id = buffers.len() as u32 - 1;
            needs.push(if i > 1 {
                vec![OperatorId(operators.len() as u32 - 1)]
            } else {
                vec![]
            });
            operators.push(Operator {
                tenant: TenantId(t as u16),
                name: format!("t{t}.{i}"),
                calls: vec![Call {
                    primitive: Primitive::Unary(Unary::Relu),
                    inputs: vec![Operand::View(view(id - 1))],
                    dtype: DType::F32,
                    shape: view(id).layout.shape,
                    rounding: Rounding::Rounded,
                }],
                outputs: vec![view(id)],
                class: ArithmeticClass {
                    family: Family::Fma,
                    split_k: 1,
                },
                tactic: Tactic::of(Kernel::Generic),
                width: 0,
                chunks: vec![],
            });
        }
    }
    (operators, needs, buffers)
}

#[test]
fn cycles_hold_each_tenant_when_it_is_due() {
    let tenants = [tenant("a", 1, 0, &[]), tenant("b", 2, 9, &[]), tenant("c", 3, 0, &[])];
    let (operators, needs, _) = chains(3, 2);
    let problem = Problem {
        tenants: &tenants,
        operators: &operators,
        needs: &needs,
        division: Division { units: 20, parcel: 8 },
    };
    assert_eq!(problem.cycle_length(), Some(6));
    let schedule = apply(&problem, &streams(&problem)).unwrap();
    let due: Vec<usize> = schedule.cycle.iter().map(|f| f.tenants.len()).collect();
    assert_eq!(due, [3, 1, 2, 2, 2, 1]);
    // The most urgent is issued first.
    assert_eq!(schedule.cycle[0].segments[0].tenant, TenantId(1));
    assert!(schedule.cycle.iter().all(|f| f.syncs.is_empty()));
}

#[test]
fn a_dependent_tenant_waits_for_its_source() {
    let tenants = [tenant("reader", 1, 9, &[1]), tenant("source", 1, 0, &[])];
    let (operators, mut needs, _) = chains(2, 2);
    needs[0] = vec![OperatorId(3)];
    let problem = Problem {
        tenants: &tenants,
        operators: &operators,
        needs: &needs,
        division: Division { units: 20, parcel: 8 },
    };
    let schedule = apply(&problem, &streams(&problem)).unwrap();
    assert_eq!(schedule.cycle[0].segments[0].tenant, TenantId(1));
    assert_eq!(
        schedule.cycle[0].syncs,
        [SyncPoint {
            after: vec![SegmentId(0)],
            before: vec![SegmentId(1)]
        }]
    );
    assert!(apply(&problem, &sequential(&problem)).unwrap().cycle[0].syncs.is_empty());
}

#[test]
fn what_is_not_legal_is_refused_with_its_reason() {
    let tenants = [tenant("a", 1, 0, &[])];
    let (operators, needs, _) = chains(1, 3);
    let problem = Problem {
        tenants: &tenants,
        operators: &operators,
        needs: &needs,
        division: Division { units: 20, parcel: 8 },
    };
    let good = sequential(&problem);
    let mut early = good.clone();
    early.frames[0].segments[0].steps.swap(0, 1);
    assert!(matches!(apply(&problem, &early), Err(ScheduleError::Early { .. })));
    let mut missing = good.clone();
    missing.frames[0].segments[0].steps.pop();
    assert!(matches!(apply(&problem, &missing), Err(ScheduleError::Missing { .. })));
    let mut twice = good.clone();
    let step = twice.frames[0].segments[0].steps[0];
    twice.frames[0].segments[0].steps.push(step);
    assert!(matches!(apply(&problem, &twice), Err(ScheduleError::Step { .. })));
    let mut barrier = good;
    barrier.frames[0].barriers.push(SyncPoint {
        after: vec![SegmentId(0)],
        before: vec![SegmentId(0)],
    });
    assert!(matches!(apply(&problem, &barrier), Err(ScheduleError::Barrier(0))));
}

#[test]
fn random_decisions_are_legal_repeatable_and_placed_without_conflict() {
    let tenants = [tenant("a", 1, 0, &[]), tenant("b", 2, 1, &[]), tenant("c", 1, 2, &[])];
    let (operators, needs, buffers) = chains(3, 9);
    let problem = Problem {
        tenants: &tenants,
        operators: &operators,
        needs: &needs,
        division: Division { units: 20, parcel: 8 },
    };
    let mut chunked = 0;
    for seed in 0..60 {
        let decisions = random(&problem, seed);
        assert_eq!(decisions, random(&problem, seed));
        let schedule = apply(&problem, &decisions).unwrap();
        chunked += schedule.operators.iter().filter(|o| o.chunks.len() > 1).count();
        let mut placed = buffers.clone();
        let placement = memory::place(&schedule.operators, &mut placed, schedule.streams.len(), &schedule.cycle).unwrap();
        assert!(placement.arena_bytes <= placement.total_bytes);
    }
    assert!(chunked > 100, "the generator cuts nothing");
}

#[test]
fn memory_is_shared_along_a_stream_and_not_across_free_streams() {
    let tenants = [tenant("a", 1, 0, &[]), tenant("b", 1, 0, &[])];
    let (operators, needs, buffers) = chains(2, 8);
    let problem = Problem {
        tenants: &tenants,
        operators: &operators,
        needs: &needs,
        division: Division { units: 20, parcel: 8 },
    };
    let arena = |decisions: &Decisions| {
        let schedule = apply(&problem, decisions).unwrap();
        let mut placed = buffers.clone();
        memory::place(&schedule.operators, &mut placed, schedule.streams.len(), &schedule.cycle)
            .unwrap()
            .arena_bytes
    };
    // One chain ping-pongs between two buffers; two free chains need two pairs.
    assert_eq!(arena(&sequential(&problem)), 2 * 768);
    assert_eq!(arena(&streams(&problem)), 4 * 768);
}
