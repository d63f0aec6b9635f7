//! Streams apart: each has units of its own, which no other stream's blocks lie on.
//!
//! Launches that begin early wait on units for those in front of them, so blocks of networks side by side hold each other's places even
//! where their launch widths would leave room. On units of its own a network is held up by nobody but who shares caches and memory. A
//! stream's units stay idle once it is through: networks are put together so that all streams end at about the same time.

use super::candidate::Candidate;
use super::judge::{Judge, Score};
use super::shares;
use crate::plan::format::Stream;

/// Most divisions that are looked at one by one: of more, those by eighths of the board stand for the others.
const LOOKED_AT: usize = 1024;

/// Tries units of their own for the streams of every way to put tenants onto them; where not every division is looked at, parcels are moved
/// on from the best of each way.
pub fn apart(judge: &mut Judge<'_>, start: &Candidate) {
    let (whole, ways) = ways(judge);
    let mut best: Vec<(Score, Candidate)> = Vec::new();
    for (streams, parts) in ways {
        if judge.left() == 0 {
            return;
        }
        let candidate = divided(judge, start, streams, whole, parts);
        let score = judge.score(&candidate);
        match best.iter_mut().find(|(_, known)| known.streams == candidate.streams) {
            Some(known) if score < known.0 => *known = (score, candidate),
            Some(_) => {}
            None => best.push((score, candidate)),
        }
    }
    if whole < judge.field.division.parcels() {
        best.into_iter().for_each(|(score, candidate)| balance(judge, score, candidate));
    }
}

/// The divisions of all parcels between the streams of every way to put tenants onto them, shortest first by the simulator: at most so
/// many, none of which is more than `worse` percent longer than the first.
pub fn divisions(judge: &mut Judge<'_>, start: &Candidate, most: usize, worse: u64) -> Vec<(Score, Candidate)> {
    let (whole, ways) = ways(judge);
    let mut found = Vec::with_capacity(ways.len());
    for (streams, parts) in ways {
        let candidate = divided(judge, start, streams, whole, parts);
        let score = judge.score(&candidate);
        if score != Score::WORST {
            found.push((score, candidate));
        }
    }
    found.sort_by_key(|(score, _)| *score);
    let longest = found
        .first()
        .map_or(0, |(best, _)| best.time.saturating_add((best.time / 100).saturating_mul(worse)));
    found.retain(|(score, _)| score.time <= longest);
    found.truncate(most);
    found
}

/// A way to share the board out: each tenant's stream, and each stream's parts.
type Way = (Vec<u8>, Vec<u32>);

/// In how many parts the board is shared out, and every way to do so.
fn ways(judge: &Judge<'_>) -> (u32, Vec<Way>) {
    let (parcels, sure) = (judge.field.division.parcels(), judge.field.division.sure());
    let tenants = judge.field.operators.len();
    if sure < 2 {
        return (parcels, Vec::new());
    }
    let ways = |whole: u32| {
        let all = shares::groupings(tenants).flat_map(move |streams| {
            let groups = usize::from(streams.iter().copied().max().unwrap_or(0)) + 1;
            // More streams than parcels cannot be.
            let some = (groups as u32 <= sure.min(whole)).then(|| shares::compositions(whole, groups));
            some.into_iter().flatten().map(move |parts| (streams.clone(), parts))
        });
        all.take(LOOKED_AT + 1).collect::<Vec<Way>>()
    };
    let mut all = (parcels, ways(parcels));
    if all.1.len() > LOOKED_AT {
        let whole = parcels.min(shares::EIGHTHS);
        all = (whole, ways(whole));
    }
    all
}

/// A candidate whose streams have so many parts of a whole each; what these leave of the parcels goes to the first.
fn divided(judge: &Judge<'_>, start: &Candidate, streams: Vec<u8>, whole: u32, mut parts: Vec<u32>) -> Candidate {
    let parcels = judge.field.division.parcels();
    let mut candidate = start.clone();
    candidate.streams = streams;
    parts.iter_mut().for_each(|part| *part *= parcels / whole);
    parts[0] += parcels - parts.iter().sum::<u32>();
    give(judge, &mut candidate, &parts);
    candidate
}

/// Moves parcels of units from one stream to another as long as that helps.
fn balance(judge: &mut Judge<'_>, mut best: Score, mut candidate: Candidate) {
    let streams = candidate.lanes.len();
    loop {
        let before = best;
        for (from, to) in (0..streams).flat_map(|from| (0..streams).map(move |to| (from, to))) {
            let mut changed = candidate.clone();
            if judge.left() > 0 && shift(judge, &mut changed, from, to) {
                let score = judge.score(&changed);
                if score < best {
                    (best, candidate) = (score, changed);
                }
            }
        }
        if best >= before {
            return;
        }
    }
}

/// Moves a parcel of units from one stream's own to another's; false where they are one, or have none to move.
pub fn shift(judge: &Judge<'_>, candidate: &mut Candidate, from: usize, to: usize) -> bool {
    let parcel = judge.field.division.parcel;
    let of = |lane: &Stream| u32::from(lane.units).checked_div(parcel).unwrap_or(0);
    let mut parcels: Vec<u32> = candidate.lanes.iter().map(of).collect();
    if from == to || parcels[from] < 2 || parcels[to] == 0 {
        return false;
    }
    parcels[from] -= 1;
    parcels[to] += 1;
    let before: Vec<u16> = candidate.lanes.iter().map(|l| l.units).collect();
    lay(judge, candidate, &parcels);
    // The units that are no parcel may have gone to a third.
    let changed = |stream: &u8| candidate.lanes[usize::from(*stream)].units != before[usize::from(*stream)];
    let changed: Vec<bool> = candidate.streams.iter().map(changed).collect();
    settle(judge, candidate, |tenant| changed[tenant]);
    true
}

/// Confines streams to so many parcels each, 0 to all units: the operators of their tenants run in the ways that are fastest there.
/// Where they are all parcels, the largest has the units besides that are none.
pub fn give(judge: &Judge<'_>, candidate: &mut Candidate, parcels: &[u32]) {
    lay(judge, candidate, parcels);
    settle(judge, candidate, |_| true);
}

/// Gives streams their units.
fn lay(judge: &Judge<'_>, candidate: &mut Candidate, parcels: &[u32]) {
    candidate.lanes.iter_mut().for_each(|lane| lane.units = 0);
    for (lane, units) in candidate.lanes.iter_mut().zip(judge.field.division.units_of(parcels)) {
        lane.units = units;
    }
}

/// Lets the operators of some tenants run in the ways that are fastest on the units of their stream.
pub fn settle(judge: &Judge<'_>, candidate: &mut Candidate, tenants: impl Fn(usize) -> bool) {
    for tenant in (0..candidate.streams.len()).filter(|&t| tenants(t)) {
        let own = u32::from(candidate.lanes[usize::from(candidate.streams[tenant])].units);
        for operator in judge.field.operators[tenant].iter().map(|o| o.index()) {
            candidate.ways[operator] = match own {
                0 => 0,
                units => judge.menu.apart(operator, units),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::Field;
    use super::super::menu::Menu;
    use super::super::tests::{World, board};
    use super::*;
    use crate::board::{BackendKind, Division};
    use crate::planner::simulate::Costs;
    use crate::units::Nanos;

    #[test]
    fn all_units_are_given_out_and_a_parcel_moves_at_a_time() {
        let (world, board) = (World::new(6, false), board(BackendKind::Cuda, 36));
        let mut problem = world.problem();
        problem.division = Division { units: 36, parcel: 8 };
        let costs = Costs::of(&world.operators, &board, &|_| Some(Nanos(40_000)));
        let (field, menu) = (Field::of(&problem), Menu::of(&problem, &costs));
        let mut judge = Judge::new(problem.tenants, &field, &menu, *costs.machine(), 400, &|_, _| {});
        let plain = Candidate::plain(&problem, &field, false);
        let units = |candidate: &Candidate| candidate.lanes.iter().map(|l| l.units).collect::<Vec<_>>();
        let streams = plain.lanes.len();
        let mut parcels = vec![0; streams];
        (parcels[0], parcels[1]) = (1, 3);
        let mut candidate = plain.clone();
        give(&judge, &mut candidate, &parcels);
        assert_eq!(units(&candidate)[..2], [8, 28]);
        for (tenant, units) in [(0, 8), (1, 28)] {
            for operator in field.operators[tenant].iter().map(|o| o.index()) {
                let time = |way| menu.costs[menu.cost(operator, 0, way) as usize].alone_on(units);
                let ways = 0..menu.ways(operator) as u16;
                assert_eq!(Some(time(candidate.ways[operator])), ways.map(time).min(), "the fastest way there");
            }
        }
        assert!(shift(&judge, &mut candidate, 1, 0));
        assert_eq!(units(&candidate)[..2], [20, 16], "the first of the largest has the rest");
        assert!(
            shift(&judge, &mut candidate, 1, 0) && !shift(&judge, &mut candidate, 1, 0),
            "the last parcel stays"
        );
        assert!(!shift(&judge, &mut candidate, 0, 0));
        give(&judge, &mut candidate, &[]);
        assert_eq!(candidate, plain, "all units for all");
        // Of three streams the middle one has the rest for a while.
        if streams > 2 {
            give(&judge, &mut candidate, &[1, 2, 1]);
            assert_eq!(units(&candidate)[..3], [8, 20, 8]);
        }
        // What is found can be told to the gate.
        judge.open(400);
        apart(&mut judge, &plain);
        let found = judge.close();
        assert!(!found.is_empty() && found.iter().all(|(_, c)| c.is_confined() && c.decisions(&field, &menu).is_some()));
        // Those to be measured are the shortest of all, each once.
        let all = divisions(&mut judge, &plain, usize::MAX, u64::MAX);
        assert!(all.is_sorted_by_key(|(score, _)| *score) && all.len() > found.len());
        assert!(
            all.iter()
                .enumerate()
                .all(|(at, (_, c))| all[..at].iter().all(|(_, other)| other != c))
        );
        assert!(all.iter().all(|(_, c)| c.is_confined() && c.decisions(&field, &menu).is_some()));
        let limit = all[0].0.time + all[0].0.time / 100 * 10;
        let near = all.iter().filter(|(score, _)| score.time <= limit).count();
        assert_eq!(divisions(&mut judge, &plain, usize::MAX, 10), all[..near]);
        assert_eq!(divisions(&mut judge, &plain, 3, u64::MAX), all[..3]);
    }

    #[test]
    fn many_tenants_on_a_board_that_is_not_divided_cost_nothing() {
        let (world, board) = (World::new(6, false), board(BackendKind::Cuda, 16));
        let mut problem = world.problem();
        problem.division = Division { units: 16, parcel: 0 };
        let costs = Costs::of(&world.operators, &board, &|_| Some(Nanos(40_000)));
        let (mut field, menu) = (Field::of(&problem), Menu::of(&problem, &costs));
        let plain = Candidate::plain(&problem, &field, false);
        // As many tenants as there may be: their groupings are beyond counting.
        field.operators.resize(crate::limits::MAX_TENANTS, Vec::new());
        let mut judge = Judge::new(problem.tenants, &field, &menu, *costs.machine(), 400, &|_, _| {});
        judge.open(400);
        apart(&mut judge, &plain);
        assert_eq!(judge.left(), 400);
    }
}
