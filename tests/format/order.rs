//! The order of steps against a slow and plain model: random schedules, where the checks must accept exactly those in
//! which the model finds every reader after its writer.

use super::meter::Chance;
use super::sample::{self, segment, sync};
use platoon::ids::TenantId;
use platoon::plan::check::{CheckError, check};
use platoon::plan::format::*;
use platoon::primitive::{Primitive, Unary};

/// A network of `count` operators: each copies what an earlier one wrote, the last into the result.
fn chain(chance: &mut Chance, count: usize) -> (Plan, Vec<Option<usize>>) {
    let mut plan = sample::plan();
    plan.tenants.truncate(1);
    plan.operators.clear();
    plan.buffers = vec![Buffer {
        space: Space::Input { offset: 0 },
        bytes: 64,
    }];
    let mut reads = Vec::new();
    for i in 0..count {
        let from = (i > 0 && chance.below(4) > 0).then(|| chance.below(i));
        let space = match i + 1 == count {
            true => Space::Output { offset: 0 },
            false => Space::Arena { offset: 64 * i as u64 },
        };
        plan.buffers.push(Buffer { space, bytes: 64 });
        let (x, y) = (sample::dense(from.map_or(0, |f| f + 1), &[16]), sample::dense(i + 1, &[16]));
        plan.operators.push(sample::simple(0, Primitive::Unary(Unary::Neg), &[x], &[y]));
        reads.push(from);
    }
    plan.arena_bytes = 64 * count as u64;
    plan.tenants[0].inputs[0].view = sample::dense(0, &[16]);
    plan.tenants[0].outputs = vec![sample::port("y", Role::Tensor, sample::dense(count, &[16]))];
    plan.streams = vec![Stream { priority: 0, units: 0 }; 3];
    plan.cycle.truncate(1);
    plan.prediction.frames.truncate(1);
    plan.prediction.frames[0].finish.truncate(1);
    (plan, reads)
}

/// Before-or-equal between segments, by following streams and sync points until nothing changes.
fn reaches(schedule: &FrameSchedule) -> Vec<Vec<bool>> {
    let n = schedule.segments.len();
    let mut before = vec![vec![false; n]; n];
    for (i, row) in before.iter_mut().enumerate() {
        for (j, cell) in row.iter_mut().enumerate() {
            *cell = i <= j && schedule.segments[i].stream == schedule.segments[j].stream;
        }
    }
    for sync in &schedule.syncs {
        for a in &sync.after {
            sync.before.iter().for_each(|b| before[a.index()][b.index()] = true);
        }
    }
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                before[i][j] |= before[i][k] && before[k][j];
            }
        }
    }
    before
}

#[test]
fn random_schedules_are_judged_as_the_model_does() {
    let mut chance = Chance::new(17);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..3_000 {
        let count = 3 + chance.below(6);
        let (mut plan, reads) = chain(&mut chance, count);
        let mut order: Vec<usize> = (0..count).collect();
        if chance.below(3) == 0 {
            order.swap(chance.below(count), chance.below(count));
        }
        let mut segments: Vec<Segment> = Vec::new();
        for &i in &order {
            match segments.last_mut() {
                Some(last) if chance.below(2) == 0 => last.steps.extend(sample::steps(&[(i, 0)])),
                _ => segments.push(segment(0, chance.below(3) as u16, &[(i, 0)])),
            }
        }
        let mut syncs = Vec::new();
        for _ in 0..chance.below(5) * usize::from(segments.len() > 1) {
            let before = 1 + chance.below(segments.len() - 1);
            let after = chance.below(before);
            syncs.push(sync(&[after as u32], &[before as u32]));
        }
        plan.cycle[0] = FrameSchedule {
            tenants: vec![TenantId(0)],
            segments,
            syncs,
        };
        let schedule = &plan.cycle[0];
        let before = reaches(schedule);
        let place = |operator: usize| {
            let at = |s: &Segment| s.steps.iter().position(|t| t.operator.index() == operator);
            schedule.segments.iter().enumerate().find_map(|(i, s)| Some((i, at(s)?))).unwrap()
        };
        let fine = reads.iter().enumerate().all(|(reader, from)| {
            from.is_none_or(|writer| {
                let (w, r) = (place(writer), place(reader));
                if w.0 == r.0 { w.1 < r.1 } else { before[w.0][r.0] }
            })
        });
        match check(plan) {
            Ok(_) => assert!(fine, "round {round}: accepted"),
            Err(CheckError::Read(error)) => assert!(!fine, "round {round}: {error}"),
            Err(other) => panic!("round {round}: {other}"),
        }
        *(if fine { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > 300 && wrong > 300, "{right} right, {wrong} wrong");
}
