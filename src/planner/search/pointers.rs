//! Temporal granularity: pointers that cut the tenants' work into clusters, moved by coordinate descent.

use super::candidate::{Candidate, Place};
use super::judge::{Judge, Score};

/// Most pointers a tenant: sync points are cheap on the device, but a cluster ends with its slowest tenant.
pub const MOST: usize = 6;
/// The first step of a pointer's walk is this part of its tenant's work; each later one is half as long.
const FIRST_STEP: u32 = 4;

/// Gives every member of a set `count` pointers that cut its work, as the simulator sees it alone, into equal times. One that reads
/// what others find has them all at its start: in any cluster but the last it might come before what it reads.
pub fn spread(judge: &Judge<'_>, candidate: &mut Candidate, set: usize, count: usize) {
    let own = &judge.field.sets[set];
    for (member, tenant) in own.members.iter().enumerate() {
        if judge.tenants[tenant.index()].sources.iter().any(|s| own.members.contains(s)) {
            candidate.meetings[set].pointers[member] = vec![Place::default(); count];
            continue;
        }
        let operators = &judge.field.operators[tenant.index()];
        let time = |o: &crate::ids::OperatorId| {
            let index = o.index();
            let (cut, way) = (candidate.cuts[index], candidate.ways[index]);
            let first = judge.menu.cost(index, cut, way) as usize;
            let chunks = first..first + judge.menu.chunks(index, cut) as usize;
            judge.menu.costs[chunks].iter().map(|c| c.alone()).sum::<u64>()
        };
        let times: Vec<u64> = operators.iter().map(time).collect();
        let all: u64 = times.iter().sum();
        let mut pointers = Vec::with_capacity(count);
        let (mut at, mut passed) = (0u32, 0u64);
        for pointer in 1..=count as u64 {
            while (at as usize) < times.len() && passed < all * pointer / (count as u64 + 1) {
                passed += times[at as usize];
                at += 1;
            }
            pointers.push(Place::before(at));
        }
        candidate.meetings[set].pointers[member] = pointers;
    }
}

/// One round of coordinate descent: each member's pointers in turn, the others held at their best. The score afterwards.
///
/// A pointer walks between its neighbours in steps that grow smaller, as long as it gets better.
pub fn descend(judge: &mut Judge<'_>, candidate: &mut Candidate, set: usize, mut score: Score) -> Score {
    for member in 0..judge.field.sets[set].members.len() {
        let length = judge.field.length(set, member);
        for pointer in 0..candidate.meetings[set].pointers[member].len() {
            let mut step = (length / FIRST_STEP).max(1);
            loop {
                let mut moved = false;
                for forward in [true, false] {
                    if judge.left() == 0 {
                        return score;
                    }
                    let pointers = &mut candidate.meetings[set].pointers[member];
                    let old = pointers[pointer];
                    let low = if pointer > 0 { pointers[pointer - 1] } else { Place::default() };
                    let high = pointers.get(pointer + 1).copied().unwrap_or(Place::before(length));
                    let to = match forward {
                        true => Place::before(old.operator.saturating_add(step)).min(high),
                        false => Place::before(old.operator.saturating_sub(step)).max(low),
                    };
                    if to == old {
                        continue;
                    }
                    pointers[pointer] = to;
                    let found = judge.score(candidate);
                    if found < score {
                        (score, moved) = (found, true);
                        break;
                    }
                    candidate.meetings[set].pointers[member][pointer] = old;
                }
                if moved {
                    continue;
                }
                if step == 1 {
                    break;
                }
                step /= 2;
            }
        }
    }
    score
}
