use super::*;
use crate::board::{BackendKind, BoardRecord, Division};
use crate::ids::OperatorId;
use crate::plan::format::{Basis, Family, Kernel, Operator, Prediction, Tactic, Tenant};
use crate::planner::cost::{Infeasible, estimate};
use crate::planner::schedule::tests::{chains, tenant};
use crate::planner::schedule::{Decisions, Problem, Schedule, apply, random, sequential, streams};
use crate::primitive::Region;
use crate::tensor::{Layout, Shape};
use crate::units::Nanos;

pub(super) fn board(units: u32, issue: u64) -> BoardRecord {
    BoardRecord {
        name: "test".into(),
        backend: BackendKind::Cuda,
        architecture: "any".into(),
        units,
        memory_budget: 1 << 30,
        macs_per_ns: 1.0,
        bytes_per_ns: 1e9,
        issue: Nanos(issue),
    }
}

/// Tenants, operators and needs of a problem that lives as long as a test.
struct World {
    tenants: Vec<Tenant>,
    operators: Vec<Operator>,
    needs: Vec<Vec<OperatorId>>,
}

impl World {
    fn new(tenants: usize, length: u32) -> World {
        let (operators, needs, _) = chains(tenants, length);
        World {
            tenants: (0..tenants).map(|t| tenant(&format!("t{t}"), 1, 0, &[])).collect(),
            operators,
            needs,
        }
    }

    fn problem(&self) -> Problem<'_> {
        Problem {
            tenants: &self.tenants,
            operators: &self.operators,
            needs: &self.needs,
            division: Division::default(),
        }
    }

    fn schedule(&self, decide: impl Fn(&Problem<'_>) -> Decisions) -> Schedule {
        apply(&self.problem(), &decide(&self.problem())).unwrap()
    }

    fn costs<'a>(&'a self, board: &BoardRecord, measured: Measured<'a>) -> Costs<'a> {
        Costs::of(&self.operators, board, measured)
    }
}

fn predicted(world: &World, schedule: &Schedule, board: &BoardRecord, best_effort: bool) -> Result<Prediction, Infeasible> {
    predict(&world.tenants, schedule, &world.costs(board, &|_| None), best_effort)
}

#[test]
fn one_stream_takes_the_sum_of_its_operators() {
    let world = World::new(3, 7);
    for (units, issue) in [(1, 0), (4, 10), (132, 900)] {
        let board = board(units, issue);
        let sum: u64 = world.operators.iter().map(|o| estimate(o, &board).0).sum();
        let schedule = world.schedule(sequential);
        let prediction = predicted(&world, &schedule, &board, false).unwrap();
        assert_eq!(prediction.frames[0].total, Nanos(sum), "{units} units");
        assert_eq!(prediction.frames[0].finish[0], Nanos(sum / 3));
        assert_eq!(prediction.basis, Basis::Estimated);
        let alone = world
            .costs(&board, &|_| None)
            .chunks(0, &schedule.operators[0].chunks, schedule.operators[0].tactic, 0);
        assert_eq!(alone[0].alone(), estimate(&world.operators[0], &board).0);
    }
}

#[test]
fn streams_share_units_and_refuse_missed_deadlines() {
    let mut world = World::new(2, 2);
    // Every operator is one block of 192 ns that wants all of the one unit's arithmetic: two of them share it.
    let board = board(1, 0);
    let schedule = world.schedule(streams);
    let two = predicted(&world, &schedule, &board, false).unwrap();
    let total = two.frames[0].total.0;
    assert!(
        (768..2 * 768).contains(&total),
        "{total}: what they share, and what they cost each other"
    );
    world.tenants[1].urgency.deadline = Some(Nanos(700));
    let late = predicted(&world, &schedule, &board, false).unwrap_err();
    let by = two.frames[0].finish[1].0 - 700;
    assert_eq!((late.tenant.as_str(), late.late), ("t1", Nanos(by)));
    assert_eq!(predicted(&world, &schedule, &board, true).unwrap().frames[0].misses, [1]);
}

#[test]
fn a_tenant_of_higher_rank_goes_first() {
    let mut world = World::new(3, 6);
    world.tenants[2].urgency.priority = 3;
    let mut board = board(1, 0);
    // On one worker operators take turns; an SM would hold all three.
    board.backend = BackendKind::Cpu;
    let finish = |world: &World| {
        let prediction = predicted(world, &world.schedule(streams), &board, true).unwrap();
        prediction.frames[0].finish.clone()
    };
    let ranked = finish(&world);
    assert!(ranked[2] < ranked[0] && ranked[2] < ranked[1], "{ranked:?}");
    world.tenants[2].urgency.priority = 0;
    assert!(finish(&world)[2] > ranked[2]);
}

#[test]
fn measured_times_are_kept_and_chunks_measured_on_their_own() {
    let world = World::new(1, 2);
    let measured = |o: &Operator| Some(Nanos(if o.chunks.len() > 1 { 5_000 } else { 4_000 }));
    let board = board(132, 900);
    let costs = world.costs(&board, &measured);
    assert_eq!(costs.basis(), Basis::Measured);
    // In a frame each launch takes longer than it was measured.
    let chain = costs.machine().calibration.chain;
    assert!(chain > 0);
    let whole = &world.schedule(sequential).operators[0].chunks;
    assert_eq!(costs.chunks(0, whole, world.operators[0].tactic, 0)[0].alone(), 4_000 + chain);
    let halves = [0..1, 1..2].map(|batch| crate::primitive::Region { batch, rows: 0..8 });
    let both: u64 = costs.chunks(0, &halves, world.operators[0].tactic, 0).iter().map(Cost::alone).sum();
    assert_eq!(both, 5_000 + 2 * chain);
}

#[test]
fn weights_cost_more_where_no_cache_keeps_them_until_the_next_frame() {
    let board = board(132, 900);
    let alone = |tenants: usize, cache: u64| {
        let world = World::new(tenants, 2);
        let usual = Machine::of(&board);
        let machine = usual.calibrated(Some(Calibration {
            // A nanosecond a byte.
            cold: 1 << 20,
            cache,
            ..usual.calibration
        }));
        let costs = Costs::on(machine, &world.operators, &board, &|_| Some(Nanos(4_000)));
        let schedule = world.schedule(sequential);
        let of = |o: usize| costs.chunks(o, &schedule.operators[o].chunks, world.operators[o].tactic, 0)[0].alone();
        [of(0), of(1)].map(|time| time - 4_000 - usual.calibration.chain)
    };
    let [first, second] = alone(3, 1);
    assert!(first > 0 && first <= 1 << 10, "{first}: what it reads of what nothing writes");
    assert_eq!(second, 0, "it reads what the first wrote");
    assert_eq!(alone(1, 1), [0, 0], "all of it stays in the cache");
    assert_eq!(alone(3, 1 << 20), [0, 0]);
    assert_eq!(alone(3, 0), [0, 0], "no cache is known");
}

#[test]
fn no_frame_is_shorter_than_its_longest_chain_or_its_work_on_all_units() {
    let world = World::new(3, 9);
    for seed in 0..80 {
        for (units, issue) in [(1, 7), (2, 300), (16, 900)] {
            let board = board(units, issue);
            let costs = world.costs(&board, &|o| Some(Nanos(1_000 + 37 * o.name.len() as u64)));
            let schedule = world.schedule(|p| random(p, seed));
            let prediction = predict(&world.tenants, &schedule, &costs, true).unwrap();
            assert_eq!(
                prediction,
                predict(&world.tenants, &schedule, &costs, true).unwrap(),
                "the same twice"
            );
            let mut chains = [0u64; 3];
            let mut work = [0u128; 2];
            for (index, operator) in schedule.operators.iter().enumerate() {
                for cost in costs.chunks(index, &operator.chunks, operator.tactic, operator.width) {
                    work.iter_mut().zip(cost.held()).for_each(|(all, own)| *all += own);
                    chains[operator.tenant.index()] += cost.alone();
                }
            }
            let total = prediction.frames[0].total.0;
            let room = u128::from(total) * u128::from(costs.machine().pool());
            assert!(work.iter().all(|&held| held <= room), "seed {seed}, {units} units");
            // A tenant on several streams may run operators that need nothing of each other side by side; chains have none.
            let longest = |t: usize| {
                schedule
                    .operators
                    .iter()
                    .filter(|o| o.tenant.index() == t)
                    .all(|o| o.chunks.len() == 1)
            };
            (0..3)
                .filter(|&t| longest(t))
                .for_each(|t| assert!(total >= chains[t], "seed {seed}, tenant {t}"));
            let (frame, trace) = trace(&schedule, 0, &costs);
            assert_eq!(trace.held.last().map(|h| h.end), Some(total));
            assert!(trace.held.windows(2).all(|w| w[0].end == w[1].start) && trace.held[0].start == 0);
            assert!(trace.held.iter().all(|h| h.parts <= costs.machine().pool()));
            assert_eq!(frame.launches().len(), trace.spans.len());
            assert!(trace.spans.iter().all(|s| s.start < s.end && s.end <= total));
            for segment in &frame.segments {
                let own = &trace.spans[segment.launches.0 as usize..segment.launches.1 as usize];
                assert!(
                    own.windows(2).all(|w| w[0].end <= w[1].start),
                    "one launch of a stream after another: {own:?}"
                );
            }
        }
    }
}

#[test]
fn a_launch_spans_all_its_waves() {
    let world = World::new(1, 3);
    let board = board(2, 70);
    let costs = world.costs(&board, &|_| Some(Nanos(4_000)));
    let schedule = world.schedule(sequential);
    let (frame, mut table) = Frame::of(&schedule.cycle[0], &schedule.streams, &schedule.operators, &costs);
    for cost in &mut table {
        // Five waves and a ragged one.
        cost.groups[0].blocks = 5 * cost.most + 1;
    }
    let mut trace = Trace::of(&frame);
    let total = Simulator::new(*costs.machine()).run(&frame, &table, &mut trace);
    let mut end = 0;
    for (span, cost) in trace.spans.iter().zip(&table) {
        assert_eq!(span.start, end + cost.launch, "nothing but launching lies between two of a stream");
        assert!(span.end - span.start >= 6 * cost.groups[0].time);
        end = span.end;
    }
    assert_eq!(end, total);
}

#[test]
fn a_narrow_launch_leaves_room_and_takes_longer() {
    let world = World::new(1, 1);
    let mut board = board(8, 0);
    board.backend = BackendKind::Cpu;
    let costs = world.costs(&board, &|_| Some(Nanos(3_200)));
    let chunks = &world.schedule(sequential).operators[0].chunks;
    let times: Vec<u64> = [0, 4, 2, 1]
        .map(|w| costs.chunks(0, chunks, world.operators[0].tactic, w)[0].alone())
        .to_vec();
    assert!(times.windows(2).all(|w| w[0] <= w[1]), "{times:?}");
    let held = costs.chunks(0, chunks, world.operators[0].tactic, 2)[0]
        .groups
        .iter()
        .map(|g| g.blocks)
        .sum::<u32>();
    assert_eq!(held, 2);
}

#[test]
fn other_tactics_count_where_they_were_measured() {
    let world = World::new(1, 2);
    let [known, unknown] = [Kernel::Elementwise, Kernel::Copy].map(Tactic::of);
    let measured = |o: &Operator| match o.tactic {
        t if t == known => Some(Nanos(3_000)),
        t if t == unknown => None,
        _ => Some(Nanos(4_000)),
    };
    let board = board(132, 900);
    let mut costs = world.costs(&board, &measured);
    costs.offer(0, &board, &[known, unknown]);
    let chain = costs.machine().calibration.chain;
    assert!(costs.tactics(0).eq([world.operators[0].tactic, known]));
    assert!(costs.tactics(1).eq([world.operators[1].tactic]));
    let whole = &world.schedule(sequential).operators[0].chunks;
    assert_eq!(costs.chunks(0, whole, known, 0)[0].alone(), 3_000 + chain);
    assert_eq!(costs.chunks(0, whole, unknown, 0)[0].alone(), 4_000 + chain, "its own stands in");
}

#[test]
fn a_block_takes_more_of_a_unit_that_has_less_shared_memory() {
    let world = World::new(1, 1);
    let part = |kernel: Kernel, architecture: &str| {
        let mut operator = world.operators[0].clone();
        operator.tactic.kernel = kernel;
        let board = BoardRecord {
            architecture: architecture.into(),
            ..board(16, 1)
        };
        Footprint::of(&operator, &board).room
    };
    let [h200, orin, desktop] = ["sm_90a", "sm_87", "sm_89"].map(|a| part(Kernel::AttentionMma, a));
    assert!(h200[0] < orin[0] && orin[0] < desktop[0], "{h200:?} {orin:?} {desktop:?}");
    assert_eq!(h200[1], orin[1], "registers are the same");
    assert_eq!(
        part(Kernel::StreamWgmma, "sm_90a"),
        part(Kernel::StreamWgmma, "sm_87"),
        "what fills a half fills a half"
    );
}

#[test]
fn a_recurrent_layer_has_a_block_for_eight_rows_of_its_batch_or_a_cluster_for_sixteen() {
    let world = World::new(1, 1);
    let layer = |dims: &[u32]| {
        let mut operator = world.operators[0].clone();
        operator.tactic.kernel = Kernel::Recurrent;
        operator.class.family = Family::TensorCore;
        operator.outputs[0].layout = Layout::contiguous(Shape::new(dims).unwrap());
        let whole = Region::whole(operator.outputs[0].layout.shape);
        let footprint = Footprint::of(&operator, &board(132, 0));
        (footprint.tiles(&operator, &whole), footprint.cluster)
    };
    // Steps, rows, hidden units: the launches of bind/recurrent_mma.rs.
    assert_eq!(layer(&[32, 128, 256]), (64, 8));
    assert_eq!(layer(&[5, 17, 129]), (10, 5));
    assert_eq!(layer(&[5, 17, 128]), (3, 1), "few units, whose weights a block keeps");
    assert_eq!(layer(&[5, 17, 300]), (2, 1), "more units than a cluster has weights of");
}
