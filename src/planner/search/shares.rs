//! Shares of the board: competitive sharing (Yu et al. 2022), and what a share is to a tenant's operators.
//!
//! A share is a launch width: blocks of others may still lie on the same units, and launches that begin early wait on units that another
//! tenant's blocks could use. Streams apart ([`super::apart`]) have units that nobody else has.

use super::candidate::Candidate;
use super::judge::{Judge, Score};

/// Shares of the board are counted in parts of this.
pub const PARTS: u32 = 16;
/// Shares that are tried together are counted in parts of this.
pub const EIGHTHS: u32 = 8;
/// Most streams that tenants are grouped on: beyond, a share of the board is small for most operators.
const GROUPS: u8 = 4;

/// Competitive sharing: every tenant has a virtual resource, which is the launch width of its operators;
/// together they may be more than the board.
///
/// One tenant's share alone helps nobody: it is slower, and the others still take all units. So the search begins with shares that
/// together are the board, of every way to put tenants onto streams, and goes on from the best by coordinate descent over the tenants.
pub fn shares(judge: &mut Judge<'_>, start: &Candidate) {
    let mut best = Shared {
        score: judge.score(start),
        candidate: start.clone(),
        parts: vec![PARTS; judge.field.operators.len()],
    };
    divide(judge, start, &mut best);
    descend(judge, &mut best);
}

/// A candidate of shares: the parts of the board that each tenant has.
struct Shared {
    score: Score,
    candidate: Candidate,
    parts: Vec<u32>,
}

/// Tries shares that together are the board, for every way to put tenants onto streams: those of one stream have one share.
fn divide(judge: &mut Judge<'_>, start: &Candidate, best: &mut Shared) {
    let tenants = judge.field.operators.len();
    for streams in groupings(tenants) {
        let groups = usize::from(streams.iter().copied().max().unwrap_or(0)) + 1;
        for parts in compositions(EIGHTHS, groups) {
            if judge.left() == 0 {
                return;
            }
            let mut candidate = start.clone();
            candidate.streams.clone_from(&streams);
            let parts: Vec<u32> = streams.iter().map(|&s| parts[usize::from(s)] * (PARTS / EIGHTHS)).collect();
            parts
                .iter()
                .enumerate()
                .for_each(|(t, &part)| share(judge, &mut candidate, t, part));
            let score = judge.score(&candidate);
            if score < best.score {
                *best = Shared { score, candidate, parts };
            }
        }
    }
}

/// Tries every share for one tenant after another, which together may be more than the board, as long as that helps.
fn descend(judge: &mut Judge<'_>, best: &mut Shared) {
    loop {
        let before = best.score;
        for tenant in 0..best.parts.len() {
            for part in 1..=PARTS {
                if judge.left() == 0 {
                    return;
                }
                if part == best.parts[tenant] {
                    continue;
                }
                let mut candidate = best.candidate.clone();
                share(judge, &mut candidate, tenant, part);
                let score = judge.score(&candidate);
                if score < best.score {
                    best.parts[tenant] = part;
                    (best.score, best.candidate) = (score, candidate);
                }
            }
        }
        if best.score >= before {
            return;
        }
    }
}

/// Gives a tenant so many parts of the board: its operators run in the ways that are fastest there.
pub fn share(judge: &Judge<'_>, candidate: &mut Candidate, tenant: usize, part: u32) {
    let units = (judge.machine().units * part / PARTS).max(1);
    for operator in judge.field.operators[tenant].iter().map(|o| o.index()) {
        candidate.ways[operator] = judge.menu.within(operator, units);
    }
}

/// The ways to put tenants onto streams, two at least, each tenant's stream by number: streams are numbered as they come.
pub fn groupings(tenants: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut next = Some(vec![0u8; tenants]);
    let all = std::iter::from_fn(move || {
        let current = next.take()?;
        // The last that may have a higher number: one more than those before it at most.
        let highest = |end: usize| current[..end].iter().copied().max().unwrap_or(0);
        next = (1..tenants)
            .rev()
            .find(|&t| current[t] <= highest(t) && current[t] + 1 < GROUPS)
            .map(|t| {
                let mut following = current.clone();
                following[t] += 1;
                following[t + 1..].iter_mut().for_each(|s| *s = 0);
                following
            });
        Some(current)
    });
    all.filter(|streams| streams.iter().any(|&s| s > 0))
}

/// The ways to write a whole as that many parts, each at least 1, in order.
pub fn compositions(whole: u32, parts: usize) -> Vec<Vec<u32>> {
    if parts <= 1 {
        return vec![vec![whole]];
    }
    let least = parts as u32 - 1;
    let with = |first: u32| {
        compositions(whole - first, parts - 1).into_iter().map(move |mut rest| {
            rest.insert(0, first);
            rest
        })
    };
    (1..=whole.saturating_sub(least)).flat_map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Field;
    use super::super::menu::Menu;
    use super::super::tests::{World, board};
    use super::*;
    use crate::board::BackendKind;
    use crate::planner::simulate::Costs;
    use crate::units::Nanos;

    #[test]
    fn tenants_are_put_onto_streams_in_every_way_once() {
        let all: Vec<Vec<u8>> = groupings(3).collect();
        assert_eq!(all, [[0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]]);
        // The Bell numbers less the one way on one stream, and less those on more than four streams.
        assert_eq!([1, 2, 4, 5].map(|tenants| groupings(tenants).count()), [0, 1, 14, 50]);
        assert!(groupings(6).all(|streams| streams.iter().all(|&s| s < GROUPS)));
    }

    #[test]
    fn parts_are_the_whole() {
        assert_eq!(compositions(3, 2), [[1, 2], [2, 1]]);
        let all = compositions(EIGHTHS, 3);
        assert!(all.len() == 21 && all.iter().all(|parts| parts.iter().sum::<u32>() == EIGHTHS && !parts.contains(&0)));
        assert_eq!(compositions(EIGHTHS, 1), [[EIGHTHS]]);
    }

    #[test]
    fn a_share_holds_no_more_of_the_board_than_it_is() {
        let (world, board) = (World::new(6, false), board(BackendKind::Cuda, 32));
        let problem = world.problem();
        let costs = Costs::of(&world.operators, &board, &|_| Some(Nanos(40_000)));
        let (field, menu) = (Field::of(&problem), Menu::of(&problem, &costs));
        let judge = Judge::new(problem.tenants, &field, &menu, *costs.machine(), 0, &|_, _| {});
        let plain = Candidate::plain(&problem, &field, false);
        let blocks = |candidate: &Candidate, operator: usize| {
            let cost = menu.cost(operator, candidate.cuts[operator], candidate.ways[operator]);
            menu.costs[cost as usize].abreast()
        };
        for part in 1..=PARTS {
            let mut candidate = plain.clone();
            share(&judge, &mut candidate, 1, part);
            for operator in field.operators[1].iter().map(|o| o.index()) {
                assert!(blocks(&candidate, operator) <= board.units * part / PARTS);
            }
            for operator in field.operators[0].iter().map(|o| o.index()) {
                assert_eq!(candidate.ways[operator], 0, "another tenant's operators stay as they were");
            }
        }
        let mut all = plain.clone();
        share(&judge, &mut all, 1, PARTS);
        assert_eq!(all, plain, "all of the board is what an operator has by itself");
    }
}
