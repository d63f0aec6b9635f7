//! The methods of the papers, each as one search from the plain candidate.

use super::candidate::{Candidate, Place};
use super::judge::Judge;
use super::{chunks, pointers};
use crate::planner::lots::Lots;

/// A random walk begins anew after this part of what may be looked at has brought nothing better.
const STUCK: u64 = 8;

/// Whether a search moves pointers, cuts chunks, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granularity {
    /// Pointers.
    pub temporal: bool,
    /// Chunks.
    pub spatial: bool,
}

/// GACER's search (Yu et al. 2023, algorithm 1) and its halves: from no chunks and no pointers, coordinate descent over the
/// pointers alternates with one spatial step, as long as it helps; for every number of pointers.
pub fn gacer(judge: &mut Judge<'_>, start: &Candidate, granularity: Granularity) {
    let counts = if granularity.temporal { 0..=pointers::MOST } else { 0..=0 };
    let rounds = counts.clone().count() as u64;
    let all = judge.left();
    for (round, count) in counts.enumerate() {
        // Every number of pointers has its share of what may be looked at.
        let reserve = all - all * (round as u64 + 1) / rounds;
        for set in 0..judge.field.sets.len() {
            let mut candidate = judge.best().map_or_else(|| start.clone(), |(_, best)| best.clone());
            candidate.cuts.clone_from(&start.cuts);
            pointers::spread(judge, &mut candidate, set, count);
            let mut score = judge.score(&candidate);
            while judge.left() > reserve {
                let before = score;
                if count > 0 {
                    score = pointers::descend(judge, &mut candidate, set, score);
                }
                if granularity.spatial {
                    score = chunks::step(judge, &mut candidate, set, score);
                }
                if score >= before {
                    break;
                }
            }
        }
    }
}

/// AutoMT's way (Yu et al. 2021): one representation of all tenants' work, its issue order and barriers, and a seeded
/// search that changes it at random: barriers come, go and move, the streams' ranks change.
pub fn barriers(judge: &mut Judge<'_>, start: &Candidate, lots: &mut Lots) {
    let mut worse = 0;
    let all = judge.left();
    let mut candidate = start.clone();
    let mut score = judge.score(&candidate);
    while judge.left() > 0 {
        let mut changed = candidate.clone();
        let set = lots.below(judge.field.sets.len());
        match lots.below(4) {
            0 => insert(judge, &mut changed, set, lots),
            1 => remove(&mut changed, set, lots),
            2 => rank(&mut changed, lots),
            _ => shift(judge, &mut changed, set, lots),
        }
        let found = judge.score(&changed);
        if found < score {
            (score, candidate, worse) = (found, changed, 0);
            continue;
        }
        worse += 1;
        // A walk that is stuck begins anew; the best is kept by the judge.
        if worse > all / STUCK {
            (candidate, worse) = (start.clone(), 0);
            score = judge.score(&candidate);
        }
    }
}

/// A barrier of all members of a set, each at a random place between those it has.
pub fn insert(judge: &Judge<'_>, candidate: &mut Candidate, set: usize, lots: &mut Lots) {
    let members = candidate.meetings[set].pointers.len();
    let count = candidate.meetings[set].pointers.first().map_or(0, Vec::len);
    if count >= pointers::MOST * 2 {
        return;
    }
    let at = lots.below(count + 1);
    for member in 0..members {
        let length = judge.field.length(set, member);
        let own = &mut candidate.meetings[set].pointers[member];
        let low = if at > 0 { own[at - 1].operator } else { 0 };
        let high = own.get(at).map_or(length, |p| p.operator);
        let place = low + lots.below((high - low) as usize + 1) as u32;
        let mut place = Place::before(place);
        if at > 0 {
            place = place.max(own[at - 1]);
        }
        own.insert(at, place);
    }
}

/// Takes a random barrier away.
pub fn remove(candidate: &mut Candidate, set: usize, lots: &mut Lots) {
    let count = candidate.meetings[set].pointers.first().map_or(0, Vec::len);
    if count > 0 {
        let at = lots.below(count);
        candidate.meetings[set].pointers.iter_mut().for_each(|p| {
            p.remove(at);
        });
    }
}

/// Moves one pointer of one member by a few operators.
pub fn shift(judge: &Judge<'_>, candidate: &mut Candidate, set: usize, lots: &mut Lots) {
    let members = candidate.meetings[set].pointers.len();
    let count = candidate.meetings[set].pointers.first().map_or(0, Vec::len);
    if count == 0 || members == 0 {
        return;
    }
    let (member, at) = (lots.below(members), lots.below(count));
    let length = judge.field.length(set, member);
    let reach = 1 + lots.below((length / 4).max(1) as usize) as u32;
    let own = &mut candidate.meetings[set].pointers[member];
    let low = if at > 0 { own[at - 1] } else { Place::default() };
    let high = own.get(at + 1).copied().unwrap_or(Place::before(length));
    let to = match lots.below(2) {
        0 => own[at].operator.saturating_sub(reach),
        _ => own[at].operator.saturating_add(reach),
    };
    own[at] = Place::before(to).clamp(low, high);
}

/// Gives one stream another rank.
pub fn rank(candidate: &mut Candidate, lots: &mut Lots) {
    let streams = candidate.lanes.len();
    if streams > 0 {
        let stream = lots.below(streams);
        candidate.lanes[stream].priority = lots.below(4) as u8;
    }
}
