use super::*;
use crate::board::{BackendKind, BoardRecord, Division};
use crate::ids::{OperatorId, SegmentId, StreamId, TenantId};
use crate::plan::format::{Buffer, Operator, Segment, SyncPoint, Tenant};
use crate::planner::memory;
use crate::planner::schedule::tests::{chains, tenant};
use crate::units::Nanos;

const ALL: [Searcher; 11] = [
    Searcher::Sequential,
    Searcher::Streams,
    Searcher::Auxiliary,
    Searcher::Random,
    Searcher::Barriers,
    Searcher::Shares,
    Searcher::Apart,
    Searcher::Spatial,
    Searcher::Temporal,
    Searcher::Gacer,
    Searcher::Platoon,
];

pub(super) fn board(backend: BackendKind, units: u32) -> BoardRecord {
    BoardRecord {
        name: "test".into(),
        backend,
        architecture: "any".into(),
        units,
        memory_budget: 1 << 30,
        macs_per_ns: 0.5,
        bytes_per_ns: 1.0,
        issue: Nanos(40),
    }
}

pub(super) struct World {
    tenants: Vec<Tenant>,
    pub(super) operators: Vec<Operator>,
    needs: Vec<Vec<OperatorId>>,
    buffers: Vec<Buffer>,
}

impl World {
    /// Three tenants of `length` operators; the last runs every other frame and, if `dependent`, reads what the first wrote.
    pub(super) fn new(length: u32, dependent: bool) -> World {
        let (operators, mut needs, buffers) = chains(3, length);
        let sources: &[u16] = if dependent { &[0] } else { &[] };
        let tenants = vec![tenant("a", 1, 0, &[]), tenant("b", 1, 1, &[]), tenant("c", 2, 0, sources)];
        if dependent {
            needs[2 * length as usize + 1].push(OperatorId(length / 2));
        }
        World {
            tenants,
            operators,
            needs,
            buffers,
        }
    }

    pub(super) fn problem(&self) -> Problem<'_> {
        Problem {
            tenants: &self.tenants,
            operators: &self.operators,
            needs: &self.needs,
            division: Division { units: 8, parcel: 2 },
        }
    }

    fn search(&self, board: &BoardRecord, wanted: Searcher, seed: u64, budget: u64) -> Found {
        let measured = times;
        let costs = Costs::of(&self.operators, board, &measured);
        search(&self.problem(), &costs, wanted, Effort { seed, budget }, &|_, _| {}).unwrap()
    }
}

/// Times that differ from operator to operator.
fn times(operator: &Operator) -> Option<Nanos> {
    let mixed = operator
        .name
        .bytes()
        .fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
    Some(Nanos(500 + mixed % 4_000))
}

#[test]
fn the_gate_takes_what_any_searcher_finds_and_it_is_never_worse_than_the_baselines() {
    for (backend, units) in [(BackendKind::Cpu, 2), (BackendKind::Cuda, 3)] {
        let board = board(backend, units);
        for (dependent, length) in [(false, 5), (true, 8)] {
            let world = World::new(length, dependent);
            for (seed, wanted) in (0..4).flat_map(|seed| ALL.map(|s| (seed, s))) {
                let found = world.search(&board, wanted, seed, 400);
                let best = found.best().unwrap();
                let baselines = found
                    .ranking
                    .iter()
                    .filter(|r| matches!(r.searcher, Searcher::Sequential | Searcher::Streams));
                assert!(baselines.clone().all(|b| best.score <= b.score), "{wanted:?}, seed {seed}");
                for ranked in &found.ranking {
                    let schedule = schedule::apply(&world.problem(), &ranked.decisions).unwrap();
                    let mut placed = world.buffers.clone();
                    let placement = memory::place(&schedule.operators, &mut placed, schedule.streams.len(), &schedule.cycle).unwrap();
                    assert!(placement.arena_bytes <= placement.total_bytes);
                }
                assert_eq!(
                    found,
                    world.search(&board, wanted, seed, 400),
                    "{wanted:?}: the same seed, the same decisions"
                );
                assert!(found.looked_at <= 400 + 60, "{wanted:?}: {}", found.looked_at);
            }
        }
    }
}

#[test]
fn the_judge_scores_candidates_as_the_gate_has_them_simulated() {
    let world = World::new(9, false);
    let board = board(BackendKind::Cuda, 4);
    let measured = times;
    let costs = Costs::of(&world.operators, &board, &measured);
    let problem = world.problem();
    let (field, menu) = (Field::of(&problem), Menu::of(&problem, &costs));
    assert_eq!(field.sets.len(), 2);
    let mut changed = 0;
    for seed in 0..30 {
        let mut judge = Judge::new(problem.tenants, &field, &menu, *costs.machine(), 200, &|_, _| {});
        judge.open(200);
        own::platoon(&mut judge, &[Candidate::plain(&problem, &field, false)], &mut Lots::new(seed));
        for (score, candidate) in judge.close() {
            let decisions = candidate.decisions(&field, &menu).unwrap();
            assert_eq!(judge_schedule(&problem, &costs, &decisions).unwrap(), score, "seed {seed}");
            changed += decisions.frames.iter().map(|f| f.barriers.len()).sum::<usize>();
        }
    }
    assert!(changed > 30, "the search wants no sync points");
}

#[test]
fn gacer_fills_residue_with_chunks_and_lets_clusters_meet() {
    // One tenant's operators are long and narrow, the other's short: alone on streams they meet badly somewhere.
    let world = World::new(12, false);
    let board = board(BackendKind::Cuda, 4);
    let score = |wanted| {
        let found = world.search(&board, wanted, 1, 3_000);
        found.ranking.iter().find(|r| r.searcher == wanted).unwrap().score
    };
    let (temporal, spatial, gacer) = (score(Searcher::Temporal), score(Searcher::Spatial), score(Searcher::Gacer));
    let streams = score(Searcher::Streams);
    assert!(gacer <= streams && temporal <= streams && spatial <= streams);
    assert!(score(Searcher::Platoon) <= gacer.min(temporal).min(spatial).min(streams));
}

#[test]
fn deadlines_come_before_frame_times() {
    let mut world = World::new(10, false);
    let board = board(BackendKind::Cpu, 1);
    let finish = |world: &World, found: &Found| {
        let schedule = schedule::apply(&world.problem(), &found.best().unwrap().decisions).unwrap();
        let measured = times;
        let costs = Costs::of(&world.operators, &board, &measured);
        let prediction = predict(&world.tenants, &schedule, &costs, true).unwrap();
        let at = schedule.cycle[0].tenants.iter().position(|t| *t == TenantId(0)).unwrap();
        prediction.frames[0].finish[at]
    };
    let free = finish(&world, &world.search(&board, Searcher::Streams, 0, 0));
    let deadline = Nanos(free.0 * 2 / 3);
    world.tenants[0].urgency.deadline = Some(deadline);
    let found = world.search(&board, Searcher::Platoon, 0, 3_000);
    assert_eq!(found.best().unwrap().score.late, 0, "{deadline} of {free}");
    assert!(finish(&world, &found) <= deadline);
}

/// One tenant whose `arms` wait for its first operator alone, and whose last operator waits for all of them.
fn forked(arms: u32, length: u32) -> World {
    let mut world = World::new(arms * length + 2, false);
    world.tenants.truncate(1);
    let own = world.operators.iter().filter(|o| o.tenant == TenantId(0)).count();
    world.operators.truncate(own);
    world.needs.truncate(own);
    let last = own as u32 - 1;
    for arm in 0..arms {
        world.needs[(1 + arm * length) as usize] = vec![OperatorId(0)];
    }
    world.needs[last as usize] = (1..=arms).map(|arm| OperatorId(arm * length)).collect();
    world
}

/// The streams of each operator, in the only frame of a cycle.
fn streams_of(world: &World, found: &Found) -> Vec<StreamId> {
    let schedule = schedule::apply(&world.problem(), &found.best().unwrap().decisions).unwrap();
    let mut streams = vec![StreamId(0); world.operators.len()];
    for segment in &schedule.cycle[0].segments {
        segment.steps.iter().for_each(|s| streams[s.operator.index()] = segment.stream);
    }
    streams
}

#[test]
fn arms_that_wait_for_nothing_of_each_other_run_side_by_side_on_a_gpu() {
    // Nothing holds launches up but each other's units.
    let gpu = BoardRecord {
        macs_per_ns: 1e3,
        bytes_per_ns: 1e3,
        ..board(BackendKind::Cuda, 16)
    };
    for arms in 2..=4 {
        let world = forked(arms, 5);
        let found = world.search(&gpu, Searcher::Auxiliary, 0, 0);
        let best = found.best().unwrap();
        let free = found.ranking.iter().find(|r| r.searcher == Searcher::Streams).unwrap();
        assert_eq!(best.searcher, Searcher::Auxiliary);
        assert!(
            best.score.time * 4 < free.score.time * 3,
            "{arms}: {:?} {:?}",
            best.score,
            free.score
        );
        let streams = streams_of(&world, &found);
        // An arm stays on the stream where it began: within it nothing waits.
        for arm in 0..arms as usize {
            let own = &streams[1 + arm * 5..1 + (arm + 1) * 5];
            assert!(own.iter().all(|s| *s == own[0]), "{arms}: {streams:?}");
        }
        let mut used = streams.clone();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), best.decisions.streams.len());
        assert!((2..=arms as usize).contains(&used.len()), "{arms}: {streams:?}");
        assert!(world.search(&gpu, Searcher::Platoon, 0, 200).best().unwrap().score <= best.score);
    }
}

#[test]
fn chains_processors_and_confined_streams_have_no_auxiliary_ones() {
    let gpu = board(BackendKind::Cuda, 16);
    let decisions = |world: &World, board: &BoardRecord, base: &Decisions| {
        let measured = times;
        let costs = Costs::of(&world.operators, board, &measured);
        auxiliary::auxiliary(&world.problem(), &costs, base)
            .into_iter()
            .map(|(_, decisions)| decisions)
            .collect::<Vec<_>>()
    };
    let chains = World::new(9, false);
    assert_eq!(decisions(&chains, &gpu, &schedule::streams(&chains.problem())), []);
    let world = forked(3, 4);
    let free = schedule::streams(&world.problem());
    assert_eq!(decisions(&world, &board(BackendKind::Cpu, 16), &free), []);
    assert!(!decisions(&world, &gpu, &free).is_empty());
    let mut confined = free;
    confined.streams[0].units = 4;
    assert_eq!(decisions(&world, &gpu, &confined), []);
}

#[test]
fn barriers_hold_for_all_parts_of_a_segment() {
    let world = forked(3, 4);
    let gpu = board(BackendKind::Cuda, 16);
    let measured = times;
    let costs = Costs::of(&world.operators, &gpu, &measured);
    let mut base = schedule::sequential(&world.problem());
    let whole = base.frames[0].segments.remove(0);
    let (first, second) = whole.steps.split_at(7);
    base.frames[0].segments = [first, second]
        .map(|steps| Segment {
            steps: steps.to_vec(),
            ..whole.clone()
        })
        .to_vec();
    base.frames[0].barriers.push(SyncPoint {
        after: vec![SegmentId(0)],
        before: vec![SegmentId(1)],
    });
    let all = auxiliary::auxiliary(&world.problem(), &costs, &base);
    assert!(!all.is_empty());
    for (_, decisions) in all {
        let issue = &decisions.frames[0];
        let barrier = &issue.barriers[0];
        let steps = |ids: &[SegmentId]| ids.iter().map(|s| issue.segments[s.index()].steps.len()).sum::<usize>();
        assert_eq!((steps(&barrier.after), steps(&barrier.before)), (7, whole.steps.len() - 7));
        schedule::apply(&world.problem(), &decisions).unwrap();
    }
}

#[test]
fn what_measurements_make_of_auxiliary_streams_keeps_them() {
    let world = forked(3, 4);
    let gpu = board(BackendKind::Cuda, 16);
    let measured = times;
    let costs = Costs::of(&world.operators, &gpu, &measured);
    let problem = world.problem();
    let effort = Effort { seed: 1, budget: 300 };
    let found = search(&problem, &costs, Searcher::Platoon, effort, &|_, _| {}).unwrap();
    let workshop = Workshop::of(&problem, &costs);
    let helped = |idea: &Idea| auxiliary::has_auxiliary(&workshop.decisions(idea, &problem, &costs).unwrap());
    let starts: Vec<Idea> = Workshop::starts(&found, 9)
        .map(|(idea, decisions)| {
            assert_eq!(workshop.decisions(&idea, &problem, &costs).as_ref(), Some(decisions));
            idea
        })
        .collect();
    for by in [Searcher::Auxiliary, Searcher::Platoon] {
        assert!(starts.iter().any(|i| i.by == by && helped(i)), "{by:?}");
    }
    let parents: Vec<&Idea> = starts.iter().filter(|i| helped(i)).collect();
    let proposals = workshop.propose(problem.tenants, &parents, &[], 40, &[1; DIRECTIONS.len()], &mut Lots::new(7));
    assert!(!proposals.is_empty() && proposals.iter().all(|p| helped(&p.idea)));
}
