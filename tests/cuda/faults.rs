//! What goes wrong on the device: named by tenant and segment, and no call of the driver after it.

use crate::common::build::{Decisions, Feed, Layer, Net, plan};
use crate::frames::options;
use crate::stub::{Report, on_stub};
use crate::vehicle::{Record, deploy, drive, note, open, submit};
use platoon::backend::cuda::driver_calls;
use platoon::backend::{FaultKind, FaultPlace, InjectedFault, Submission};
use platoon::error::{Fault, RunError};
use platoon::ids::{SegmentId, TenantId};
use platoon::plan::format::Plan;
use platoon::runtime::{Engine, OpenError, Options, State};
use platoon::task::{Rate, Status};
use std::time::{Duration, Instant};

const SCOUT: TenantId = TenantId(0);
const SURFACE: TenantId = TenantId(1);
/// Far above what closing takes, far below what a hang lasts.
const BOUNDED: Duration = Duration::from_secs(5);

fn pair(decisions: &Decisions) -> Plan {
    let net = |name, camera, layers: &[Layer]| Net {
        name,
        feed: Feed::Camera(camera),
        rate: Rate::EVERY_FRAME,
        layers: layers.to_vec(),
    };
    let nets = [
        net("scout", 0, &[Layer::Max3, Layer::Remember]),
        net("surface", 1, &[Layer::Leak(0.5), Layer::Max3]),
    ];
    plan("pair", 2, &nets, decisions)
}

/// A stream each.
fn side_by_side() -> Plan {
    pair(&Decisions {
        streams: 2,
        stream: |net, _| net,
        ..Decisions::plain()
    })
}

fn with(at: FaultPlace, kind: FaultKind, submission: Submission) -> Options {
    Options {
        submission,
        watchdog: Some(Duration::from_millis(400)),
        faults: vec![InjectedFault { frame: 2, at, kind }],
        ..options()
    }
}

fn engine(plan: Plan, options: &Options) -> Engine {
    open(deploy(2, vec![plan]), options).unwrap_or_else(|e| panic!("{e:?}"))
}

/// Everything that is still legal after a fault, with what it must give; the driver is not called.
fn nothing_goes_on(mut engine: Engine, fault: Fault, leaked: usize) {
    let before = driver_calls();
    assert_eq!(engine.state(), State::Faulted(fault));
    assert_eq!(engine.begin().map(|d| d.frame()), Err(RunError::Faulted(fault)));
    engine.trace(|_| ());
    let began = Instant::now();
    assert_eq!(engine.close(), leaked);
    assert!(began.elapsed() < BOUNDED);
    let after = driver_calls();
    let called: Vec<_> = after.since(&before).collect();
    assert!(called.is_empty(), "{called:?}");
}

/// Until frame 2 everything is well; its ticket, and what waiting for it gives.
fn up_to_the_fault(engine: &mut Engine, fault: Fault) -> Record {
    drive(engine, 0..2, false);
    let ticket = submit(engine, 2, false);
    assert_eq!(engine.wait(&ticket, None), Err(RunError::Faulted(fault)));
    let mut record = Record::new();
    note(engine, &ticket, &mut record);
    record
}

#[test]
fn an_illegal_address_is_named_and_the_context_is_not_used_again() {
    for mode in ["graph", "segments"] {
        let report = on_stub(
            "faults::an_illegal_address_is_named_and_the_context_is_not_used_again",
            &[("MODE", mode)],
            || {
                let graph = std::env::var("MODE").is_ok_and(|m| m == "graph");
                let submission = if graph { Submission::Frame } else { Submission::Segments };
                let options = with(FaultPlace::Tenant(SURFACE), FaultKind::Fail(0), submission);
                let mut engine = engine(pair(&Decisions::plain()), &options);
                let fault = Fault::Device {
                    tenant: SURFACE,
                    segment: SegmentId(1),
                    frame: 2,
                    code: 700,
                    suspects: 1,
                };
                let record = up_to_the_fault(&mut engine, fault);
                assert_eq!((record[0].0, record[0].1), (Status::Fresh, 2), "what had ended is there");
                assert_eq!(
                    (record[1].0, record[1].1),
                    (Status::Stale, 1),
                    "what had not is the old result, and says so"
                );
                nothing_goes_on(engine, fault, 1);
                let again = open(deploy(2, vec![side_by_side()]), &Options::default());
                assert!(matches!(again, Err(OpenError::Prepare(_))), "the context is used again");
            },
        );
        // Nothing is given back; the driver told the error once and was left alone.
        assert!(report.live > 0);
        assert_eq!(report.calls_after_error, 0);
    }
}

#[test]
fn a_hang_is_named_and_closing_does_not_wait_for_it() {
    let report = on_stub("faults::a_hang_is_named_and_closing_does_not_wait_for_it", &[], || {
        let options = with(FaultPlace::Segment(SegmentId(1)), FaultKind::Hang, Submission::Frame);
        let mut engine = engine(side_by_side(), &options);
        let fault = Fault::Hang {
            tenant: SURFACE,
            segment: SegmentId(1),
            frame: 2,
        };
        let began = Instant::now();
        let record = up_to_the_fault(&mut engine, fault);
        assert_eq!((record[0].0, record[0].1), (Status::Fresh, 2), "the other tenant is not held up");
        assert_eq!((record[1].0, record[1].1), (Status::Stale, 1));
        nothing_goes_on(engine, fault, 1);
        assert!(began.elapsed() < BOUNDED);
    });
    assert!(report.live > 0);
}

#[test]
fn a_delay_makes_its_tenant_late_and_nothing_else() {
    let report = on_stub("faults::a_delay_makes_its_tenant_late_and_nothing_else", &[], || {
        let delay = Duration::from_millis(50);
        let options = with(FaultPlace::Tenant(SURFACE), FaultKind::Delay(delay), Submission::Frame);
        let mut engine = engine(side_by_side(), &options);
        drive(&mut engine, 0..2, false);
        let ticket = submit(&mut engine, 2, false);
        assert_eq!(engine.wait_tenant(&ticket, SCOUT, None), Ok(Status::Fresh));
        assert_eq!(
            engine.poll(&ticket),
            Ok(None),
            "the urgent tenant's result is out before the frame ends"
        );
        let report = engine.wait(&ticket, None).unwrap();
        assert!(report.tenants[1].finish.0 >= delay.as_nanos() as u64);
        assert!(report.tenants[0].finish < report.tenants[1].finish);
        engine.release(ticket).unwrap();
        drive(&mut engine, 3..5, false);
        assert_eq!(engine.close(), 0);
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn a_launch_that_fails_is_a_fault_of_its_frame() {
    // Two launches warm the two slots up, and frame 0 takes one.
    let report = on_stub(
        "faults::a_launch_that_fails_is_a_fault_of_its_frame",
        &[("STUB_FAIL", "cuGraphLaunch:4:719")],
        || {
            let mut engine = engine(side_by_side(), &options());
            drive(&mut engine, 0..1, false);
            let data = crate::common::pixels(0, 1);
            let both = [Some(crate::common::gray(&data)), Some(crate::common::gray(&data))];
            let fault = Fault::Device {
                tenant: SCOUT,
                segment: SegmentId(0),
                frame: 1,
                code: 719,
                suspects: 1,
            };
            assert_eq!(engine.submit(&both).map(|t| t.frame()), Err(RunError::Faulted(fault)));
            nothing_goes_on(engine, fault, 1);
        },
    );
    assert!(report.live > 0);
}

#[test]
fn closing_waits_for_frames_in_flight_and_gives_up_those_that_take_too_long() {
    let name = "faults::closing_waits_for_frames_in_flight_and_gives_up_those_that_take_too_long";
    for (mode, clean) in [("patient", true), ("drop", true), ("hasty", false)] {
        let report = on_stub(name, &[("MODE", mode)], || {
            let mode = std::env::var("MODE").unwrap();
            let delay = Duration::from_millis(if mode == "hasty" { 9000 } else { 30 });
            let options = Options {
                close_limit: Duration::from_millis(if mode == "hasty" { 50 } else { 5000 }),
                watchdog: None,
                ..with(FaultPlace::Tenant(SURFACE), FaultKind::Delay(delay), Submission::Frame)
            };
            let mut engine = engine(side_by_side(), &options);
            drive(&mut engine, 0..2, false);
            let _flying = submit(&mut engine, 2, false);
            let began = Instant::now();
            match mode.as_str() {
                "drop" => drop(engine),
                "patient" => assert_eq!(engine.close(), 0),
                _ => assert_eq!(engine.close(), 1),
            }
            assert!(began.elapsed() < BOUNDED);
        });
        assert_eq!(report.live == 0, clean, "{mode}");
    }
}
