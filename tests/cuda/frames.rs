//! The loop: the CPU backend's results, whatever order the device chooses; no memory, no call that waits.

use crate::calls::allowed;
use crate::common::build::{self, Decisions, Feed, Layer, Net, plan};
use crate::common::{self, gray, pixels};
use crate::meter::allocations;
use crate::stub::{Report, on_old_stub, on_stub};
use crate::vehicle::{Record, board, deploy, deploy_on, drive, open};
use platoon::backend::cuda::{Call, driver_calls};
use platoon::backend::{SegmentWords, Submission, Wait};
use platoon::ids::{PlanId, TenantId};
use platoon::plan::deployment::Deployment;
use platoon::plan::format::Plan;
use platoon::runtime::realtime::Realtime;
use platoon::runtime::{Engine, Options, State};
use platoon::task::{Rate, Status};
use std::time::Duration;

/// Networks of every kind: with memory, at a lower rate, dependent, tensor-fed.
pub fn nets() -> Vec<Net> {
    use Layer::*;
    let net = |name, feed, rate, layers: &[Layer]| Net {
        name,
        feed,
        rate,
        layers: layers.to_vec(),
    };
    let (half, third) = (Rate { divisor: 2, phase: 1 }, Rate { divisor: 3, phase: 2 });
    vec![
        net(
            "scout",
            Feed::Camera(0),
            Rate::EVERY_FRAME,
            &[Max3, Leak(0.3), Skip, Max3, Remember],
        ),
        net("surface", Feed::Camera(1), third, &[Skip, Remember, Max3, Max3]),
        net("signal", Feed::Net(0), half, &[Leak(-0.5), Max3, Skip, Remember]),
        net("probe", Feed::Input, Rate::EVERY_FRAME, &[Max3, Skip, Leak(0.1), Remember]),
    ]
}

fn decisions() -> Vec<Decisions> {
    vec![
        Decisions::plain(),
        // One stream a network, one band to five.
        Decisions {
            streams: 4,
            chunks: |n| 1 + n as u32 % 5,
            width: |n| n as u16 % 9,
            segment: 2,
            stream: |net, _| net,
        },
        // Every operator a segment, scattered over eight streams.
        Decisions {
            streams: 8,
            chunks: |n| 1 + n as u32 % 3,
            width: |_| 0,
            segment: 1,
            stream: |net, segment| 3 * net + segment,
        },
    ]
}

fn four(decisions: &Decisions) -> Plan {
    plan("all", 2, &nets(), decisions)
}

pub fn options() -> Options {
    Options {
        workers: Some(2),
        realtime: Realtime {
            pin: false,
            ..Realtime::default()
        },
        ..Options::default()
    }
}

fn on_cpu(frames: u64, gaps: bool) -> Record {
    let mut engine = common::engine(build::deploy(2, vec![four(&Decisions::plain())]), &options());
    drive(&mut engine, 0..frames, gaps)
}

fn engine(plan: Plan, options: &Options) -> Engine {
    open(deploy(2, vec![plan]), options).unwrap_or_else(|e| panic!("{e:?}"))
}

#[test]
fn graphs_and_segments_give_the_cpus_bits_in_any_order_of_work() {
    for seed in ["1", "2", "3"] {
        let report = on_stub(
            "frames::graphs_and_segments_give_the_cpus_bits_in_any_order_of_work",
            &[("STUB_SEED", seed)],
            || {
                for gaps in [false, true] {
                    let expected = on_cpu(25, gaps);
                    assert!(expected.iter().any(|r| r.0 == Status::Fresh));
                    for (number, decisions) in decisions().iter().enumerate() {
                        for submission in [Submission::Frame, Submission::Segments] {
                            let options = Options { submission, ..options() };
                            let mut engine = engine(four(decisions), &options);
                            let found = drive(&mut engine, 0..25, gaps);
                            let differs = (0..found.len()).find(|&i| found[i] != expected[i]);
                            let place = differs.map(|i| (i / 4, i % 4, found[i].0, expected[i].0));
                            assert_eq!(place, None, "frame, tenant; decisions {number}, {submission:?}, gaps {gaps}");
                            assert_eq!(engine.close(), 0);
                        }
                    }
                }
            },
        );
        assert_eq!(report, Report::CLEAN);
    }
}

#[test]
fn an_integrated_gpu_works_on_the_hosts_memory() {
    let settings = [("STUB_INTEGRATED", "1")];
    let report = on_stub("frames::an_integrated_gpu_works_on_the_hosts_memory", &settings, || {
        let mut engine = engine(four(&decisions()[1]), &options());
        assert!(drive(&mut engine, 0..12, false) == on_cpu(12, false));
        engine.close();
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn an_old_driver_without_the_optional_functions_runs_what_does_not_need_them() {
    let name = "frames::an_old_driver_without_the_optional_functions_runs_what_does_not_need_them";
    let report = on_old_stub(name, &[("STUB_DRIVER", "13000")], || {
        let mut engine = engine(four(&decisions()[1]), &options());
        assert!(drive(&mut engine, 0..4, false) == on_cpu(4, false));
        engine.close();
        let confined = Options {
            sms: Some(16),
            ..options()
        };
        let refused = open(deploy_on(&board(16), 2, vec![four(&Decisions::plain())]), &confined);
        let told = format!("{:?}", refused.err().map(|e| e.to_string()));
        assert!(told.contains("cannot be prepared"), "{told}");
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn a_confined_run_gives_the_same_bits_on_a_board_of_its_own() {
    let name = "frames::a_confined_run_gives_the_same_bits_on_a_board_of_its_own";
    let report = on_stub(name, &[], || {
        for submission in [Submission::Frame, Submission::Segments] {
            let options = Options {
                sms: Some(16),
                submission,
                ..options()
            };
            let deployment = deploy_on(&board(16), 2, vec![four(&decisions()[1])]);
            let mut engine = open(deployment, &options).unwrap_or_else(|e| panic!("{e:?}"));
            assert!(drive(&mut engine, 0..6, false) == on_cpu(6, false));
            engine.close();
        }
        let after = driver_calls();
        assert!(after.of(Call::GreenCtxStreamCreate) > 0 && after.of(Call::StreamCreate) == 0);
    });
    assert_eq!(report, Report::CLEAN);
}

/// The four networks on streams that are confined to so many SMs each, on a board of 132.
fn apart(units: [u16; 4]) -> Deployment {
    let mut plan = four(&decisions()[1]);
    plan.streams.iter_mut().zip(units).for_each(|(s, units)| s.units = units);
    deploy_on(&board(132), 2, vec![plan])
}

#[test]
fn streams_apart_give_the_same_bits_and_what_cannot_be_divided_is_refused() {
    let name = "frames::streams_apart_give_the_same_bits_and_what_cannot_be_divided_is_refused";
    let report = on_stub(name, &[], || {
        for submission in [Submission::Frame, Submission::Segments] {
            let options = Options { submission, ..options() };
            for units in [[32, 68, 0, 32], [0, 8, 8, 0], [16, 0, 116, 0]] {
                let before = driver_calls();
                let mut engine = open(apart(units), &options).unwrap_or_else(|e| panic!("{e:?}"));
                assert!(drive(&mut engine, 0..6, false) == on_cpu(6, false));
                engine.close();
                let confined = units.iter().filter(|&&u| u > 0).count() as u64;
                let made = driver_calls().of(Call::GreenCtxStreamCreate) - before.of(Call::GreenCtxStreamCreate);
                assert_eq!(made, confined, "{units:?}");
            }
        }
        // More than there is, no parcels, and more parcels than every GPU of the kind has.
        for units in [[64, 72, 0, 0], [4, 0, 0, 0], [120, 12, 0, 0]] {
            let refused = open(apart(units), &options());
            let told = format!("{:?}", refused.err());
            assert!(told.contains("Divide"), "{units:?}: {told}");
        }
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn a_driver_that_sets_nothing_aside_is_told_of() {
    let name = "frames::a_driver_that_sets_nothing_aside_is_told_of";
    let fails = [("STUB_FAIL", "cuDevSmResourceSplitByCount:1:801")];
    let report = on_stub(name, &fails, || {
        let told = format!("{:?}", open(apart([32, 68, 0, 32]), &options()).err());
        assert!(told.contains("Divide") && told.contains("801"), "{told}");
        // Other plans still run.
        let mut engine = open(deploy(2, vec![four(&decisions()[1])]), &options()).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(drive(&mut engine, 0..4, false) == on_cpu(4, false));
        engine.close();
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn streams_apart_without_memory_for_them_are_no_matter_of_the_driver() {
    let name = "frames::streams_apart_without_memory_for_them_are_no_matter_of_the_driver";
    for call in ["cuGreenCtxCreate", "cuGreenCtxStreamCreate"] {
        let report = on_stub(name, &[("STUB_FAIL", &format!("{call}:1:2"))], || {
            let told = format!("{:?}", open(apart([32, 68, 0, 32]), &options()).err());
            assert!(told.contains("Exhausted"), "{told}");
        });
        assert_eq!(report.live, 0, "{call}");
    }
}

#[test]
fn a_frame_takes_no_memory_and_makes_only_calls_that_do_not_wait() {
    let name = "frames::a_frame_takes_no_memory_and_makes_only_calls_that_do_not_wait";
    let report = on_stub(name, &[], || {
        let data = [pixels(0, 5), pixels(1, 5)];
        for submission in [Submission::Frame, Submission::Segments] {
            for wait in [Wait::Block, Wait::Spin] {
                let options = Options {
                    submission,
                    wait,
                    trace: 64,
                    ..options()
                };
                let mut engine = engine(plan("cameras", 2, &nets()[..3], &decisions()[1]), &options);
                for frame in 0..40 {
                    let before = driver_calls();
                    let taken = allocations(|| {
                        let ticket = engine.submit(&[Some(gray(&data[0])), Some(gray(&data[1]))]).unwrap();
                        engine.wait_tenant(&ticket, TenantId(0), None).unwrap();
                        engine.wait(&ticket, None).unwrap();
                        assert_eq!(engine.result(&ticket, TenantId(0)).unwrap().status, Status::Fresh);
                        engine.release(ticket).unwrap();
                    });
                    assert_eq!(taken, 0, "frame {frame} called the allocator, {submission:?}");
                    let after = driver_calls();
                    for (call, count) in after.since(&before) {
                        let most = allowed(submission).into_iter().find(|&(c, _)| c == call);
                        assert!(most.is_some_and(|(_, most)| count <= most), "{count} calls of {}", call.symbol());
                    }
                    assert!(after.since(&before).count() >= 2, "the counter counts");
                }
                assert!(allocations(|| drop(std::hint::black_box(vec![0u8; 10]))) > 0, "the meter counts");
                engine.close();
            }
        }
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn task_sets_switch_between_frames_and_forget_what_they_remembered() {
    let name = "frames::task_sets_switch_between_frames_and_forget_what_they_remembered";
    let report = on_stub(name, &[("STUB_SEED", "9")], || {
        let plans = || {
            let highway = plan("highway", 2, &nets()[..2], &decisions()[2]);
            vec![four(&decisions()[1]), highway]
        };
        let tour = |engine: &mut Engine| -> Record {
            let mut record = Record::new();
            for (set, frames) in [("all", 0..7), ("highway", 7..12), ("all", 12..19), ("highway", 19..22)] {
                engine.select(set).unwrap();
                record.extend(drive(engine, frames, false));
            }
            record
        };
        let expected = tour(&mut common::engine(build::deploy(2, plans()), &options()));
        let mut engine = open(deploy(2, plans()), &options()).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(tour(&mut engine) == expected);
        engine.close();
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn times_lie_between_submission_and_notice_and_the_trace_has_every_segment() {
    let name = "frames::times_lie_between_submission_and_notice_and_the_trace_has_every_segment";
    let report = on_stub(name, &[], || {
        let options = Options { trace: 4096, ..options() };
        let mut engine = engine(four(&decisions()[1]), &options);
        let began = std::time::Instant::now();
        let mut totals = Duration::ZERO;
        for frame in 0..6 {
            let ticket = crate::vehicle::submit(&mut engine, frame, false);
            let report = engine.wait(&ticket, None).unwrap();
            assert!(report.total.0 > 0);
            for tenant in &report.tenants {
                assert!(tenant.finish <= report.total, "{tenant:?} of {report:?}");
            }
            totals += Duration::from_nanos(report.total.0);
            engine.release(ticket).unwrap();
        }
        assert!(totals <= began.elapsed(), "frames that follow one another took {totals:?}");
        let mut events = Vec::new();
        engine.trace(|e| events.push(e));
        let cycle = engine.plan_id();
        assert_eq!(cycle, PlanId(0));
        let segments: usize = (0..6)
            .map(|f| engine.plan().cycle[f % engine.plan().cycle.len()].segments.len())
            .sum();
        assert_eq!(events.len(), segments);
        assert!(events.iter().all(|e| e.start <= e.end && e.start > 0));
        assert_eq!(engine.state(), State::Running);
        engine.close();
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn segment_words_can_be_left_out_or_written_between_segments() {
    let report = on_stub("frames::segment_words_can_be_left_out_or_written_between_segments", &[], || {
        let count = |segment_words| {
            let options = Options {
                segment_words,
                submission: Submission::Segments,
                ..options()
            };
            let mut engine = engine(four(&decisions()[1]), &options);
            let before = driver_calls().of(Call::LaunchKernel);
            assert!(drive(&mut engine, 0..6, false) == on_cpu(6, false));
            let launches = driver_calls().of(Call::LaunchKernel) - before;
            engine.close();
            launches
        };
        let [beside, between, none] = [SegmentWords::Beside, SegmentWords::Between, SegmentWords::None].map(count);
        // Between the segments they go with the segments' own launches, which are submitted at once.
        assert!(none < beside && between < beside, "{none} {between} {beside}");
    });
    assert_eq!(report, Report::CLEAN);
}
