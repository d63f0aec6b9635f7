//! Spatial granularity: operators cut into chunks next to where the board lies idle.

use super::candidate::Candidate;
use super::judge::{Judge, Score};
use crate::planner::simulate::{Frame, Trace};

/// Residues that are tried in one step, largest first.
const RESIDUES: usize = 4;

/// One spatial step: finds the largest residue of a set's frame, and cuts the largest operator that begins after it, in the
/// way that helps most. Where that does not help, the next residues have their turn. The score afterwards.
pub fn step(judge: &mut Judge<'_>, candidate: &mut Candidate, set: usize, score: Score) -> Score {
    let Some((frame, trace)) = judge.watch(candidate, set) else {
        return score;
    };
    for operator in beside_residues(judge, &frame, &trace) {
        let (old, mut best) = (candidate.cuts[operator], (score, candidate.cuts[operator]));
        for cut in 0..judge.menu.cuts(operator) as u8 {
            if judge.left() == 0 {
                break;
            }
            if cut == old {
                continue;
            }
            candidate.cuts[operator] = cut;
            best = best.min((judge.score(candidate), cut));
        }
        candidate.cuts[operator] = best.1;
        if best.0 < score || judge.left() == 0 {
            return best.0.min(score);
        }
    }
    score
}

/// For each of the largest residues, the largest operator that can be cut of those whose first block comes next; tails, in
/// which one tenant is left, are skipped.
fn beside_residues(judge: &Judge<'_>, frame: &Frame, trace: &Trace) -> Vec<usize> {
    let pool = judge.machine().pool();
    let tail = tail(frame, trace);
    let mut residues: Vec<(u128, u64)> = trace
        .held
        .iter()
        .map(|h| (u128::from(h.end - h.start) * u128::from(pool - h.parts), h.end))
        .collect();
    residues.retain(|&(idle, end)| idle > 0 && end <= tail);
    residues.sort_unstable_by_key(|&(idle, end)| (std::cmp::Reverse(idle), end));
    let mut found = Vec::new();
    for (_, end) in residues {
        // On each stream, the launch that begins at or after the residue's end.
        let next = |lane: usize| {
            let own = frame
                .segments()
                .iter()
                .filter(|s| s.stream.index() == lane)
                .flat_map(|s| s.launches.0..s.launches.1);
            own.map(|l| l as usize).find(|&l| trace.spans[l].start >= end)
        };
        let streams = frame.segments().iter().map(|s| s.stream.index() + 1).max().unwrap_or(0);
        let launches = (0..streams).filter_map(next);
        let size = |l: &usize| trace.spans[*l].end - trace.spans[*l].start;
        let largest = launches
            .filter(|&l| judge.menu.cuts(frame.launches()[l].step.operator.index()) > 1)
            .max_by_key(size);
        if let Some(launch) = largest {
            let operator = frame.launches()[launch].step.operator.index();
            if !found.contains(&operator) {
                found.push(operator);
            }
        }
        if found.len() == RESIDUES {
            break;
        }
    }
    found
}

/// When the second to last tenant ends.
fn tail(frame: &Frame, trace: &Trace) -> u64 {
    let mut ends: Vec<(u16, u64)> = Vec::new();
    for segment in frame.segments() {
        let end = (segment.launches.0..segment.launches.1)
            .map(|l| trace.spans[l as usize].end)
            .max()
            .unwrap_or(0);
        match ends.iter_mut().find(|(t, _)| *t == segment.tenant.0) {
            Some((_, known)) => *known = end.max(*known),
            None => ends.push((segment.tenant.0, end)),
        }
    }
    ends.sort_unstable_by_key(|&(_, end)| std::cmp::Reverse(end));
    ends.get(1).or(ends.first()).map_or(0, |&(_, end)| end)
}
