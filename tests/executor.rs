//! The CPU executor: any legal cut of the same networks, on any team, gives the bits of the plain plan.

mod common;

use common::build::{Decisions, Feed, Layer, Net, PIXELS, deploy, plan};
use common::{engine, gray, pixels};
use platoon::backend::Submission;
use platoon::ids::{PlanId, TenantId};
use platoon::plan::format::Plan;
use platoon::runtime::realtime::Realtime;
use platoon::runtime::{Engine, Options};
use platoon::task::{Rate, Status};
use proptest::prelude::*;

/// Networks of every kind: every frame, at a third of the rate with memory, at half the rate and dependent, tensor-fed.
fn nets() -> Vec<Net> {
    use Layer::*;
    let every = Rate::EVERY_FRAME;
    let net = |name, feed, rate, layers: &[Layer]| Net {
        name,
        feed,
        rate,
        layers: layers.to_vec(),
    };
    let half = Rate { divisor: 2, phase: 1 };
    let third = Rate { divisor: 3, phase: 2 };
    vec![
        net("scout", Feed::Camera(0), every, &[Max3, Leak(0.3), Skip, Max3, Remember]),
        net("surface", Feed::Camera(1), third, &[Skip, Remember, Max3, Max3]),
        net("signal", Feed::Net(0), half, &[Leak(-0.5), Max3, Skip, Remember]),
        net("probe", Feed::Input, every, &[Max3, Skip, Leak(0.1)]),
    ]
}

/// All results of `frames` frames: per frame and tenant status, frame and bytes.
type Record = Vec<(Status, u64, Vec<u8>)>;

fn record(plan: Plan, options: &Options, frames: u64) -> Record {
    run(engine(deploy(2, vec![plan]), options), frames)
}

fn run(mut engine: Engine, frames: u64) -> Record {
    let probe = engine.plan().tenants.iter().position(|t| !t.inputs.is_empty());
    let mut record = Record::new();
    let mut open = std::collections::VecDeque::new();
    for frame in 0..frames {
        let data: Vec<Vec<u8>> = (0..2).map(|camera| pixels(camera, frame)).collect();
        let mut draft = engine.begin().unwrap();
        for (camera, data) in data.iter().enumerate() {
            draft.copy_image(platoon::ids::CameraId(camera as u16), &gray(data)).unwrap();
        }
        if let Some(t) = probe {
            let values: Vec<u8> = (0..PIXELS).flat_map(|i| ((i as f32).sin() * frame as f32).to_ne_bytes()).collect();
            draft.copy_input(TenantId(t as u16), 0, &values).unwrap();
        }
        open.push_back(draft.submit().unwrap());
        // Two frames in flight from the second on.
        if open.len() == 2 || frame + 1 == frames {
            while open.len() > usize::from(frame + 1 < frames) {
                let ticket = open.pop_front().unwrap();
                engine.wait(&ticket, None).unwrap();
                for t in 0..engine.plan().tenants.len() {
                    let result = engine.result(&ticket, TenantId(t as u16)).unwrap();
                    let bytes = result.tensors().flat_map(|(_, b)| b.to_vec()).collect();
                    record.push((result.status, result.of_frame, bytes));
                }
                engine.release(ticket).unwrap();
            }
        }
    }
    assert_eq!(engine.close(), 0);
    record
}

fn options(workers: usize) -> Options {
    let realtime = Realtime {
        pin: false,
        ..Realtime::default()
    };
    Options {
        workers: Some(workers),
        realtime,
        ..Options::default()
    }
}

fn plain() -> Record {
    record(plan("all", 2, &nets(), &Decisions::plain()), &options(1), 13)
}

#[test]
fn the_plain_plan_says_what_is_fresh_and_what_is_held() {
    let record = plain();
    let status = |frame: usize, tenant: usize| (record[frame * 4 + tenant].0, record[frame * 4 + tenant].1);
    for frame in 0..13 {
        assert_eq!(status(frame, 0), (Status::Fresh, frame as u64));
        assert_eq!(status(frame, 3), (Status::Fresh, frame as u64));
        let surface = match frame {
            0 | 1 => (Status::None, 0),
            f if f % 3 == 2 => (Status::Fresh, f as u64),
            f => (Status::Held, (f - (f + 1) % 3) as u64),
        };
        assert_eq!(status(frame, 1), surface, "frame {frame}");
        let signal = match frame {
            0 => (Status::None, 0),
            f if f % 2 == 1 => (Status::Fresh, f as u64),
            f => (Status::Held, f as u64 - 1),
        };
        assert_eq!(status(frame, 2), signal, "frame {frame}");
    }
    // Held results repeat the bytes of their frame, and the nets compute something.
    assert_eq!(record[3 * 4 + 1].2, record[2 * 4 + 1].2);
    assert_ne!(record[5 * 4 + 1].2, record[2 * 4 + 1].2);
    assert!(record[0].2.iter().any(|&b| b != 0) && record[0].2.len() == PIXELS * 4);
    assert!(record[1].2.is_empty(), "no bytes before the first result");
}

#[test]
fn many_segments_chunks_and_widths_give_the_plain_bits_on_every_team() {
    let expected = plain();
    let decisions = [
        // One stream a network, narrow and wide operators, one band to five.
        Decisions {
            streams: 4,
            chunks: |n| 1 + n as u32 % 5,
            width: |n| n as u16 % 9,
            segment: 2,
            stream: |net, _| net,
        },
        // Every operator a segment, segments scattered over eight streams, a band per row.
        Decisions {
            streams: 8,
            chunks: |n| if n % 3 == 0 { 24 } else { 7 },
            width: |_| 1,
            segment: 1,
            stream: |net, segment| net * 5 + segment * 3,
        },
    ];
    for decisions in &decisions {
        for workers in [1, 2, 3, 8] {
            for submission in [Submission::Frame, Submission::Segments] {
                let options = Options {
                    submission,
                    ..options(workers)
                };
                let got = record(plan("all", 2, &nets(), decisions), &options, 13);
                assert!(got == expected, "{workers} workers, {submission:?}: other bits than the plain plan");
            }
        }
    }
}

#[test]
fn every_width_gives_the_plain_bits() {
    let expected = plain();
    let widths: [fn(usize) -> u16; 8] = [|_| 1, |_| 2, |_| 3, |_| 4, |_| 5, |_| 6, |_| 7, |_| 8];
    for width in widths {
        let decisions = Decisions {
            width,
            streams: 4,
            stream: |net, _| net,
            ..Decisions::plain()
        };
        assert!(
            record(plan("all", 2, &nets(), &decisions), &options(4), 13) == expected,
            "width {}",
            width(0)
        );
    }
}

#[test]
fn eight_streams_on_one_worker_finish() {
    let nets: Vec<Net> = (0..8)
        .map(|i| Net {
            name: ["a", "b", "c", "d", "e", "f", "g", "h"][i],
            // A chain: each reads the one before, so the most urgent stream waits for all others.
            feed: if i == 0 { Feed::Camera(0) } else { Feed::Net(i - 1) },
            rate: Rate::EVERY_FRAME,
            layers: vec![Layer::Max3, Layer::Leak(0.5)],
        })
        .collect();
    let eight = Decisions {
        streams: 8,
        chunks: |_| 3,
        width: |_| 0,
        segment: 1,
        stream: |net, _| net,
    };
    let expected = record(plan("chain", 2, &nets, &Decisions::plain()), &options(2), 5);
    assert!(expected.iter().all(|r| r.0 == Status::Fresh));
    assert!(record(plan("chain", 2, &nets, &eight), &options(1), 5) == expected);
    assert!(record(plan("chain", 2, &nets, &eight), &options(8), 5) == expected);
}

#[test]
fn a_frame_in_which_nothing_is_due_ends() {
    let nets = [Net {
        name: "rare",
        feed: Feed::Camera(0),
        rate: Rate { divisor: 4, phase: 3 },
        layers: vec![Layer::Max3],
    }];
    for workers in [1, 3] {
        let record = record(plan("rare", 2, &nets, &Decisions::plain()), &options(workers), 9);
        let status: Vec<(Status, u64)> = record.iter().map(|r| (r.0, r.1)).collect();
        let (n, h) = ((Status::None, 0), |f| (Status::Held, f));
        let f = |f| (Status::Fresh, f);
        assert_eq!(status, [n, n, n, f(3), h(3), h(3), h(3), f(7), h(7)]);
    }
}

#[test]
fn the_trace_names_every_segment_of_every_frame_in_legal_times() {
    let decisions = Decisions {
        streams: 4,
        segment: 2,
        stream: |net, _| net,
        ..Decisions::plain()
    };
    let traced = Options { trace: 4096, ..options(3) };
    let mut engine = engine(deploy(1, vec![plan("all", 2, &nets()[..3], &decisions)]), &traced);
    let data = pixels(0, 0);
    for _ in 0..6 {
        let ticket = engine.submit(&[Some(gray(&data)), Some(gray(&data))]).unwrap();
        engine.wait(&ticket, None).unwrap();
        engine.release(ticket).unwrap();
    }
    let mut seen = Vec::new();
    engine.trace(|e| seen.push(e));
    for frame in 0..6 {
        let schedule = &engine.plan().cycle[frame as usize];
        let mut of_frame: Vec<_> = seen.iter().filter(|e| e.frame == frame).collect();
        of_frame.sort_by_key(|e| e.segment);
        let numbers: Vec<usize> = of_frame.iter().map(|e| e.segment.index()).collect();
        assert_eq!(numbers, (0..schedule.segments.len()).collect::<Vec<_>>());
        assert!(
            of_frame
                .iter()
                .all(|e| e.plan == PlanId(0) && 0 < e.start && e.start <= e.end && e.worker < 3)
        );
        for sync in &schedule.syncs {
            let end = sync.after.iter().map(|s| of_frame[s.index()].end).max().unwrap();
            assert!(
                sync.before.iter().all(|s| of_frame[s.index()].start >= end),
                "a segment did not wait"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: proptest::test_runner::RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    /// Random decisions, carried into the plain function pointers through one packed number in the task set's plan.
    #[test]
    fn random_legal_plans_give_the_plain_bits(
        streams in 1usize..9,
        segment in 1usize..5,
        bands in prop::collection::vec(1u32..25, 24),
        widths in prop::collection::vec(0u16..9, 24),
        places in prop::collection::vec(0u16..8, 64),
        workers in 1usize..9,
    ) {
        let decisions = Decisions { streams, segment, ..Decisions::plain() };
        let nets = nets();
        let mut p = plan("all", 2, &nets, &Decisions { stream: |net, s| net * 16 + s, streams: 64, ..decisions });
        // The streams, bands and widths that were drawn replace the builder's.
        for (n, operator) in p.operators.iter_mut().enumerate() {
            operator.width = widths[n % 24];
            let (height, bands) = (common::build::HEIGHT, bands[n % 24]);
            operator.chunks = (0..bands).map(|i| platoon::primitive::Region { batch: 0..1, rows: i * height / bands..(i + 1) * height / bands }).collect();
        }
        p.streams.truncate(streams);
        let chunks: Vec<u16> = p.operators.iter().map(|o| o.chunks.len() as u16).collect();
        for schedule in &mut p.cycle {
            for segment in &mut schedule.segments {
                segment.stream.0 = places[usize::from(segment.stream.0)] % streams as u16;
                segment.steps = segment.steps.iter().flat_map(|step| {
                    (0..chunks[step.operator.index()]).map(|chunk| platoon::plan::format::Step { operator: step.operator, chunk })
                }).collect();
            }
        }
        prop_assert!(record(p, &options(workers), 7) == plain()[..7 * 4]);
    }
}

#[test]
fn the_backends_own_kernels_give_the_bits_of_the_plain_ones() {
    let native = |decisions: &Decisions| {
        let deployment = deploy(2, vec![plan("all", 2, &nets(), decisions)]);
        let engine = Engine::with(deployment, &options(3)).unwrap_or_else(|e| panic!("{e:?}"));
        run(engine, 13)
    };
    let expected = plain();
    let cut = Decisions {
        streams: 4,
        chunks: |n| 1 + n as u32 % 5,
        width: |n| n as u16 % 4,
        segment: 2,
        stream: |net, _| net,
    };
    assert!(native(&Decisions::plain()) == expected);
    assert!(native(&cut) == expected);
}
