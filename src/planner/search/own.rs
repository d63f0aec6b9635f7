//! Our own search: everything may change, from the best that the other methods found.
//!
//! Threshold accepting (Dueck and Scheuer 1990): a change is kept unless it makes things worse by more than a threshold,
//! which falls to nothing as the budget is spent. It is annealing without lots for what is worse, in integers.

use super::candidate::{Candidate, Edge, Place};
use super::judge::{Judge, Score};
use super::{apart, rivals, shares};
use crate::planner::lots::Lots;

/// The threshold at the start, in thousandths of the score.
const THRESHOLD: u64 = 10;
/// Candidates that it starts from.
pub const STARTS: usize = 5;
/// Most operators in a row whose width changes at once.
const RUN: usize = 12;
/// Nanoseconds from which on an operator counts as slow.
const SLOW: u64 = 10_000;
/// Most waits between two tenants in a set.
const EDGES: usize = 24;
/// Tactics of an operator that are looked at together with those of others.
const TACTICS: usize = 5;
/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Another tactic or launch width for an operator.
    Way,
    /// Another tactic or launch width for some operators in a row.
    Ways,
    /// A share of the board for a tenant's operators.
    Share,
    /// Shares for all tenants that together are the board.
    Divide,
    /// Units of their own for the streams, or none.
    Confine,
    /// Units from one stream's own to another's.
    Parcel,
    /// Another way to cut an operator.
    Cut,
    /// A new wait between two tenants.
    AddEdge,
    /// One wait less.
    RemoveEdge,
    /// A wait somewhere else.
    MoveEdge,
    /// Another rank for a stream.
    Rank,
    /// Another stream for a tenant.
    Stream,
    /// A new barrier.
    Insert,
    /// One barrier less.
    Remove,
    /// A pointer of a barrier somewhere else.
    Shift,
    /// Another tactic for all operators of a tenant that one kernel runs.
    Kernel,
    /// The tactics that hold least of a unit, for some operators in a row.
    Lean,
    /// Its own tactics at full width for all operators of a tenant.
    Plain,
    /// A tenant begins behind a place of another.
    Delay,
}

/// All kinds, as often as they are drawn; last those for boards that are divided, as in all such lists.
const KINDS: [Kind; 17] = [
    Kind::Way,
    Kind::Way,
    Kind::Ways,
    Kind::Ways,
    Kind::Share,
    Kind::Cut,
    Kind::AddEdge,
    Kind::RemoveEdge,
    Kind::MoveEdge,
    Kind::Rank,
    Kind::Stream,
    Kind::Insert,
    Kind::Remove,
    Kind::Shift,
    Kind::Shift,
    Kind::Confine,
    Kind::Parcel,
];
/// Kinds that show one effect, and all of them.
pub const TASTES: [&[Kind]; 7] = [
    &[Kind::Way, Kind::Ways],
    &[Kind::Share, Kind::Stream, Kind::Confine],
    &[Kind::Cut],
    &[Kind::AddEdge, Kind::AddEdge, Kind::MoveEdge],
    &[Kind::Insert, Kind::Insert, Kind::Shift],
    &[Kind::Rank, Kind::Stream],
    &KINDS,
];

/// One of some kinds, of those for divided boards only on such.
pub fn draw(judge: &Judge<'_>, kinds: &[Kind], lots: &mut Lots) -> Kind {
    let divided = judge.field.division.parcel > 0;
    let any = |kind: &Kind| divided || !matches!(kind, Kind::Confine | Kind::Parcel);
    let count = kinds.iter().rposition(any).map_or(0, |last| last + 1);
    kinds[lots.below(count)]
}

/// Searches from each of `starts`, best first, as long as the judge's stretch lasts.
pub fn platoon(judge: &mut Judge<'_>, starts: &[Candidate], lots: &mut Lots) {
    for (index, start) in starts.iter().enumerate() {
        let later = (starts.len() - index - 1) as u64;
        let reserve = judge.left() * later / (later + 1);
        anneal(judge, start, reserve, lots);
    }
}

/// Where to start from: the best of what is known, and of each way to put two tenants onto one stream, one before the other;
/// no two with the same streams and both or neither of them with units of their own, best first.
pub fn starts(judge: &mut Judge<'_>, plain: &Candidate, known: &[(Score, Candidate)]) -> Vec<Candidate> {
    let mut all = known.to_vec();
    for set in 0..judge.field.sets.len() {
        let members = &judge.field.sets[set].members;
        let pairs = (0..members.len()).flat_map(|a| (0..members.len()).map(move |b| (a, b)));
        for (first, second) in pairs.filter(|(a, b)| a != b) {
            let mut candidate = plain.clone();
            candidate.streams[members[second].index()] = candidate.streams[members[first].index()];
            let end = judge.field.length(set, first);
            candidate.meetings[set].edges.push(Edge {
                after: (first as u8, Place::before(end)),
                before: (second as u8, Place::default()),
            });
            all.push((judge.score(&candidate), candidate));
        }
    }
    all.retain(|(score, _)| *score != Score::WORST);
    all.sort_by_key(|(score, _)| *score);
    let mut starts: Vec<Candidate> = Vec::new();
    for (_, candidate) in all {
        if starts.len() < STARTS && !starts.iter().any(|s| s.is_like(&candidate)) {
            starts.push(candidate);
        }
    }
    starts
}

fn anneal(judge: &mut Judge<'_>, start: &Candidate, reserve: u64, lots: &mut Lots) {
    let span = judge.left().saturating_sub(reserve).max(1);
    let mut candidate = start.clone();
    let mut score = judge.score(&candidate);
    let mut changed = candidate.clone();
    while judge.left() > reserve {
        changed.clone_from(&candidate);
        change(judge, &mut changed, draw(judge, &KINDS, lots), lots);
        if changed == candidate {
            // A change that cannot be made is a change looked at, or a problem without choices would never end.
            judge.skip();
            continue;
        }
        let found = judge.score(&changed);
        let threshold = score.time / 1000 * THRESHOLD * (judge.left() - reserve.min(judge.left())) / span;
        let allowed = Score {
            late: score.late,
            time: score.time.saturating_add(threshold),
        };
        if found <= allowed {
            score = found;
            std::mem::swap(&mut candidate, &mut changed);
        }
    }
}

/// One random change.
pub fn change(judge: &Judge<'_>, candidate: &mut Candidate, kind: Kind, lots: &mut Lots) {
    let set = lots.below(judge.field.sets.len());
    match kind {
        Kind::Way => way(judge, candidate, 1, lots),
        Kind::Ways => way(judge, candidate, RUN, lots),
        Kind::Share => share(judge, candidate, lots),
        Kind::Divide => divide(judge, candidate, lots),
        Kind::Confine => confine(judge, candidate, lots),
        Kind::Parcel => {
            let streams = candidate.lanes.len();
            apart::shift(judge, candidate, lots.below(streams), lots.below(streams));
        }
        Kind::Cut => cut(judge, candidate, lots),
        Kind::AddEdge => add_edge(judge, candidate, set, lots),
        Kind::RemoveEdge => remove_edge(candidate, set, lots),
        Kind::MoveEdge => move_edge(judge, candidate, set, lots),
        Kind::Rank => rivals::rank(candidate, lots),
        Kind::Stream => stream(judge, candidate, lots),
        Kind::Insert => rivals::insert(judge, candidate, set, lots),
        Kind::Remove => rivals::remove(candidate, set, lots),
        Kind::Shift => rivals::shift(judge, candidate, set, lots),
        Kind::Kernel => kernel(judge, candidate, lots),
        Kind::Lean => lean(judge, candidate, lots),
        Kind::Plain => {
            let tenant = lots.below(judge.field.operators.len());
            let own = &judge.field.operators[tenant];
            own.iter().for_each(|o| candidate.ways[o.index()] = 0);
        }
        Kind::Delay => delay(judge, candidate, set, lots),
    }
}

/// Another tactic or launch width for up to `run` operators in a row of one tenant.
fn way(judge: &Judge<'_>, candidate: &mut Candidate, run: usize, lots: &mut Lots) {
    let tenant = lots.below(judge.field.operators.len());
    let own = &judge.field.operators[tenant];
    let first = lots.below(own.len());
    let count = 1 + lots.below(run);
    let level = lots.next() as usize;
    // Widths of its own tactic are few and mostly what is wanted; other tactics are many.
    let any = lots.below(4) == 0;
    for operator in own.iter().skip(first).take(count) {
        let ways = match any {
            true => judge.menu.ways(operator.index()),
            false => judge.menu.widths(operator.index()),
        };
        candidate.ways[operator.index()] = (level % ways) as u16;
    }
}

/// A tenant's virtual resource: a share of the board for all its operators, or for the slow ones of them.
fn share(judge: &Judge<'_>, candidate: &mut Candidate, lots: &mut Lots) {
    let tenant = lots.below(judge.field.operators.len());
    let (part, least) = (1 + lots.below(shares::PARTS as usize) as u32, [0, SLOW][lots.below(2)]);
    let before = candidate.ways.clone();
    shares::share(judge, candidate, tenant, part);
    for operator in judge.field.operators[tenant].iter().map(|o| o.index()) {
        if judge.menu.costs[judge.menu.cost(operator, 0, 0) as usize].alone() < least {
            candidate.ways[operator] = before[operator];
        }
    }
}

/// Shares for all tenants that together are the board.
fn divide(judge: &Judge<'_>, candidate: &mut Candidate, lots: &mut Lots) {
    let tenants = judge.field.operators.len();
    let mut borders: Vec<u32> = (1..tenants).map(|_| lots.below(shares::PARTS as usize + 1) as u32).collect();
    borders.extend([0, shares::PARTS]);
    borders.sort_unstable();
    for (tenant, border) in borders.windows(2).enumerate() {
        shares::share(judge, candidate, tenant, (border[1] - border[0]).max(1));
    }
}

/// Units of their own for the streams that have tenants, all parcels together; or all units for each, every fourth time.
fn confine(judge: &Judge<'_>, candidate: &mut Candidate, lots: &mut Lots) {
    let division = judge.field.division;
    let used: Vec<usize> = (0..candidate.lanes.len())
        .filter(|&s| candidate.streams.contains(&(s as u8)))
        .collect();
    let mut given = vec![0; candidate.lanes.len()];
    if used.len() > 1 && division.sure() as usize >= used.len() && lots.below(4) > 0 {
        used.iter().for_each(|&stream| given[stream] = 1);
        for _ in used.len()..division.parcels() as usize {
            given[used[lots.below(used.len())]] += 1;
        }
    } else if !candidate.is_confined() {
        return;
    }
    apart::give(judge, candidate, &given);
}

/// Another tactic at full width for all operators of a tenant that the kernel of a random one of them runs.
fn kernel(judge: &Judge<'_>, candidate: &mut Candidate, lots: &mut Lots) {
    let own = &judge.field.operators[lots.below(judge.field.operators.len())];
    let kernel = |candidate: &Candidate, operator: usize| judge.menu.tactic(operator, candidate.ways[operator]).kernel;
    let wanted = kernel(candidate, own[lots.below(own.len())].index());
    let number = lots.below(TACTICS);
    for operator in own.iter().map(|o| o.index()) {
        if kernel(candidate, operator) == wanted
            && let Some(way) = judge.menu.at_full_width(operator, number)
        {
            candidate.ways[operator] = way;
        }
    }
}

/// The tactics that hold least of a unit at full width, so that others find room beside them, for a row of a tenant's operators.
fn lean(judge: &Judge<'_>, candidate: &mut Candidate, lots: &mut Lots) {
    let own = &judge.field.operators[lots.below(judge.field.operators.len())];
    let (first, count) = (lots.below(own.len()), 1 + lots.below(own.len()));
    for operator in own.iter().skip(first).take(count).map(|o| o.index()) {
        let ways = (0..TACTICS).filter_map(|t| judge.menu.at_full_width(operator, t));
        let room = |way: &u16| {
            let cost = judge.menu.cost(operator, candidate.cuts[operator], *way) as usize;
            judge.menu.costs[cost].room.iter().copied().max()
        };
        if let Some(way) = ways.min_by_key(room) {
            candidate.ways[operator] = way;
        }
    }
}

/// A tenant begins behind a place of another's work.
fn delay(judge: &Judge<'_>, candidate: &mut Candidate, set: usize, lots: &mut Lots) {
    let edges = candidate.meetings[set].edges.len();
    add_edge(judge, candidate, set, lots);
    for added in candidate.meetings[set].edges.iter_mut().skip(edges) {
        added.before.1 = Place::default();
    }
}

/// Another way to cut an operator.
fn cut(judge: &Judge<'_>, candidate: &mut Candidate, lots: &mut Lots) {
    let operator = lots.below(candidate.cuts.len());
    candidate.cuts[operator] = lots.below(judge.menu.cuts(operator)) as u8;
}

/// A tenant moves to another's stream, or back to its own. Where streams have units of their own, its operators run as is best on those.
fn stream(judge: &Judge<'_>, candidate: &mut Candidate, lots: &mut Lots) {
    let tenant = lots.below(candidate.streams.len());
    let before = candidate.streams[tenant];
    candidate.streams[tenant] = lots.below(candidate.lanes.len()) as u8;
    if candidate.is_confined() && candidate.streams[tenant] != before {
        apart::settle(judge, candidate, |other| other == tenant);
    }
}

fn place(judge: &Judge<'_>, candidate: &Candidate, set: usize, member: usize, lots: &mut Lots) -> Place {
    let own = &judge.field.operators[judge.field.sets[set].members[member].index()];
    let operator = lots.below(own.len());
    let index = own[operator].index();
    Place {
        operator: operator as u32,
        chunk: lots.below(judge.menu.chunks(index, candidate.cuts[index]) as usize) as u32,
    }
}

fn add_edge(judge: &Judge<'_>, candidate: &mut Candidate, set: usize, lots: &mut Lots) {
    let members = judge.field.sets[set].members.len();
    if members < 2 || candidate.meetings[set].edges.len() >= EDGES {
        return;
    }
    let after = lots.below(members);
    let before = (after + 1 + lots.below(members - 1)) % members;
    let edge = Edge {
        after: (after as u8, place(judge, candidate, set, after, lots)),
        before: (before as u8, place(judge, candidate, set, before, lots)),
    };
    candidate.meetings[set].edges.push(edge);
}

fn remove_edge(candidate: &mut Candidate, set: usize, lots: &mut Lots) {
    let edges = &mut candidate.meetings[set].edges;
    if !edges.is_empty() {
        edges.swap_remove(lots.below(edges.len()));
    }
}

/// Moves one end of an edge by a few operators.
fn move_edge(judge: &Judge<'_>, candidate: &mut Candidate, set: usize, lots: &mut Lots) {
    let edges = candidate.meetings[set].edges.len();
    if edges == 0 {
        return;
    }
    let (edge, end, by, forward) = (lots.below(edges), lots.below(2), 1 + lots.below(8) as u32, lots.below(2) == 0);
    let edge = &mut candidate.meetings[set].edges[edge];
    let (member, place) = if end == 0 { &mut edge.after } else { &mut edge.before };
    let last = judge.field.length(set, usize::from(*member)).saturating_sub(1);
    let moved = if forward {
        place.operator.saturating_add(by).min(last)
    } else {
        place.operator.saturating_sub(by)
    };
    *place = Place::before(moved);
}
