//! What goes wrong on a real device, each in a process of its own, which must end well: the fault is named by tenant and
//! segment, old results say that they are old, nothing calls the driver again, and closing does not wait.

use crate::child;
use crate::data;
use crate::gpu;
use crate::network::{Machine, told};
use crate::road;
use platoon::backend::cuda::driver_calls;
use platoon::backend::{FaultKind, FaultPlace, InjectedFault, Submission};
use platoon::error::{Fault, RunError};
use platoon::ids::TenantId;
use platoon::planner::{CompileOptions, Searcher};
use platoon::runtime::{Engine, Options, State};
use platoon::task::Status;
use std::time::{Duration, Instant};

/// Frames before the one with the fault.
const BEFORE: u64 = 3;
/// When work counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(1);
/// Far above what closing takes, far below the 10 s that an injected hang lasts at most.
const BOUNDED: Duration = Duration::from_secs(5);
/// What the driver reports of kernels that trap or read what they must not: CUDA_ERROR_ILLEGAL_ADDRESS, _LAUNCH_FAILED.
const BAD_KERNEL: [u32; 2] = [700, 719];

/// Runs `body` with the submission in a child each.
fn in_both_modes(test: &str, what: &str, body: impl Fn(Submission)) {
    child::enter(test, || {
        let graph = std::env::var("MODE").is_ok_and(|m| m == "graph");
        body(if graph { Submission::Frame } else { Submission::Segments });
    });
    if gpu::need(test).is_none() {
        return;
    }
    for mode in ["graph", "segments"] {
        let mut command = child::command(test);
        command.env("MODE", mode);
        child::run(command);
    }
    data::ran(test, what);
}

/// `urban` with a fault in tenant `at`, three frames on.
fn engine(at: &str, kind: FaultKind, submission: Submission, searcher: Searcher) -> (Engine, TenantId) {
    let machine = Machine::gpu(&gpu::need("gpu_faults").unwrap());
    let compile = CompileOptions { searcher, ..road::half() };
    let deployment = road::deployment(&machine, &road::tasks(), &["urban"], 2, &compile);
    let tenant = deployment.plans[0]
        .tenants
        .iter()
        .position(|t| t.name == at)
        .and_then(TenantId::from_index);
    let tenant = tenant.unwrap();
    let options = Options {
        submission,
        watchdog: Some(WATCHDOG),
        faults: vec![InjectedFault {
            frame: BEFORE,
            at: FaultPlace::Tenant(tenant),
            kind,
        }],
        ..Options::default()
    };
    let mut engine = road::open(&machine, deployment, &options);
    let results = road::drive(&mut engine, 2, &road::pictures()[..BEFORE as usize]);
    assert!(results.iter().all(|r| r.len() == 3));
    (engine, tenant)
}

/// The frame with the fault: it is reported with its tenant and a segment of that tenant; what the tenant gave is the frame
/// before's and says so. Without `tenant` it is reported with one of those that had begun and not ended.
fn faulted(engine: &mut Engine, tenant: Option<TenantId>) -> Fault {
    let ticket = road::submit(engine, &road::pictures()[3]);
    let error = engine.wait(&ticket, None).unwrap_err();
    let RunError::Faulted(fault) = error else { panic!("{error:?}") };
    let (named, segment, frame) = match fault {
        Fault::Hang { tenant, segment, frame } => (tenant, segment, frame),
        Fault::Device {
            tenant, segment, frame, ..
        } => (tenant, segment, frame),
        Fault::Panic { .. } => panic!("{fault:?}"),
    };
    assert_eq!((named, frame), (tenant.unwrap_or(named), BEFORE), "{fault:?}");
    let tenant = named;
    let plan = engine.plan();
    let schedule = &plan.cycle[BEFORE as usize % plan.cycle.len()];
    assert_eq!(schedule.segments[segment.index()].tenant, tenant, "{fault:?}");
    let result = engine.result(&ticket, tenant).unwrap();
    assert_eq!((result.status, result.of_frame), (Status::Stale, BEFORE - 1));
    for other in (0..3).filter_map(TenantId::from_index).filter(|&t| t != tenant) {
        let result = engine.result(&ticket, other).unwrap();
        let expected = if result.status == Status::Fresh { BEFORE } else { BEFORE - 1 };
        assert_eq!(result.of_frame, expected, "an old result says that it is old");
    }
    fault
}

/// Everything that is still legal after a fault; the driver is not called.
fn nothing_goes_on(mut engine: Engine, fault: Fault) {
    let before = driver_calls();
    assert_eq!(engine.state(), State::Faulted(fault));
    assert_eq!(engine.begin().map(|d| d.frame()), Err(RunError::Faulted(fault)));
    let began = Instant::now();
    assert_eq!(engine.close(), 1, "the device is given up");
    assert!(began.elapsed() < BOUNDED, "closing took {:?}", began.elapsed());
    let called: Vec<_> = driver_calls().since(&before).collect();
    assert!(called.is_empty(), "{called:?}");
}

#[test]
fn an_illegal_address_is_named_and_the_context_is_not_used_again() {
    let test = "faults::an_illegal_address_is_named_and_the_context_is_not_used_again";
    in_both_modes(test, "in a graph and segment by segment", |submission| {
        let machine = Machine::gpu(&gpu::need(test).unwrap());
        // Tenants that follow one another.
        let (mut engine, tenant) = engine("surface", FaultKind::Fail(0), submission, Searcher::Sequential);
        let fault = faulted(&mut engine, Some(tenant));
        assert!(
            matches!(fault, Fault::Device { code, suspects: 1, .. } if BAD_KERNEL.contains(&code)),
            "{fault:?}"
        );
        nothing_goes_on(engine, fault);
        assert!(platoon::backend::cuda::raw::probe().is_err(), "not even to ask for the device");
        let deployment = road::deployment(&machine, &road::tasks(), &["urban"], 2, &road::half());
        let again = Engine::over(deployment, &*machine.backend, &Options::default());
        let told = again.err().map(|e| told(&e)).expect("the context is not used again");
        assert!(!told.is_empty());
    });
}

/// The device stops all tenants at once and does not say whose kernel it was: one of those at work is named.
#[test]
fn an_illegal_address_among_tenants_side_by_side_names_one_that_had_not_ended() {
    let test = "faults::an_illegal_address_among_tenants_side_by_side_names_one_that_had_not_ended";
    in_both_modes(test, "in a graph and segment by segment", |submission| {
        let (mut engine, guilty) = engine("surface", FaultKind::Fail(0), submission, Searcher::Streams);
        let fault = faulted(&mut engine, None);
        let Fault::Device {
            tenant, code, suspects, ..
        } = fault
        else {
            panic!("{fault:?}")
        };
        assert!(BAD_KERNEL.contains(&code), "{fault:?}");
        assert!(
            tenant == guilty || suspects > 1,
            "where another is named, the fault says that it is not certain: {fault:?}"
        );
        nothing_goes_on(engine, fault);
    });
}

#[test]
fn a_hang_is_named_and_closing_does_not_wait_for_it() {
    let test = "faults::a_hang_is_named_and_closing_does_not_wait_for_it";
    in_both_modes(test, "in a graph and segment by segment", |submission| {
        let (mut engine, tenant) = engine("surface", FaultKind::Hang, submission, Searcher::Streams);
        let began = Instant::now();
        let fault = faulted(&mut engine, Some(tenant));
        assert!(began.elapsed() >= WATCHDOG && began.elapsed() < BOUNDED);
        assert!(matches!(fault, Fault::Hang { .. }), "{fault:?}");
        nothing_goes_on(engine, fault);
    });
}

#[test]
fn a_delay_makes_its_tenant_late_and_nothing_wrong() {
    let test = "faults::a_delay_makes_its_tenant_late_and_nothing_wrong";
    in_both_modes(test, "in a graph and segment by segment", |submission| {
        let delay = Duration::from_millis(50);
        let (mut engine, tenant) = engine("surface", FaultKind::Delay(delay), submission, Searcher::Streams);
        let ticket = road::submit(&mut engine, &road::pictures()[3]);
        let report = engine.wait(&ticket, None).unwrap();
        assert!(report.tenants.iter().all(|t| t.status == Status::Fresh));
        let late = &report.tenants[tenant.index()];
        assert!(late.finish.0 >= delay.as_nanos() as u64, "{report:?}");
        engine.release(ticket).unwrap();
        assert_eq!(road::drive(&mut engine, 2, &road::pictures()[4..]).len(), 2);
        assert_eq!(engine.close(), 0);
    });
}
