//! The engine: slots and tickets, missing inputs, switching, waiting, faults.

mod common;

use common::build::{Decisions, Feed, Layer, Net, PIXELS, deploy, plan};
use common::kernels::POISON;
use common::{engine, gray, pixels};
use platoon::backend::{FaultKind, FaultPlace, InjectedFault};
use platoon::error::{Fault, RunError};
use platoon::ids::{CameraId, PlanId, SegmentId, SlotId, TenantId};
use platoon::plan::format::Plan;
use platoon::runtime::realtime::Realtime;
use platoon::runtime::{Engine, Image, ImageHeader, Options, State, Ticket};
use platoon::task::{PixelFormat, Rate, Status};
use platoon::units::Nanos;
use std::collections::VecDeque;
use std::time::Duration;

const SCOUT: TenantId = TenantId(0);
const SURFACE: TenantId = TenantId(1);

fn net(name: &'static str, feed: Feed, layers: &[Layer]) -> Net {
    Net {
        name,
        feed,
        rate: Rate::EVERY_FRAME,
        layers: layers.to_vec(),
    }
}

/// Two networks on a stream each, the first more urgent.
fn pair(task_set: &str) -> Plan {
    pair_of_width(task_set, 0)
}

fn pair_of_width(task_set: &str, width: u16) -> Plan {
    let nets = [
        net("scout", Feed::Camera(0), &[Layer::Max3, Layer::Remember]),
        net("surface", Feed::Camera(1), &[Layer::Leak(0.5), Layer::Max3]),
    ];
    let decisions = Decisions {
        streams: 2,
        segment: 2,
        stream: |net, _| 1 - net,
        ..Decisions::plain()
    };
    let mut plan = plan(task_set, 2, &nets, &decisions);
    plan.operators.iter_mut().for_each(|o| o.width = width);
    plan
}

fn options() -> Options {
    Options {
        workers: Some(2),
        realtime: Realtime {
            pin: false,
            ..Realtime::default()
        },
        ..Options::default()
    }
}

fn with_fault(at: FaultPlace, kind: FaultKind, frame: u64) -> Options {
    Options {
        faults: vec![InjectedFault { frame, at, kind }],
        ..options()
    }
}

fn submit(engine: &mut Engine, frame: u64) -> Ticket {
    let (a, b) = (pixels(0, frame), pixels(1, frame));
    engine.submit(&[Some(gray(&a)), Some(gray(&b))]).unwrap()
}

/// Status, frame and bytes of a tenant's result.
fn read(engine: &mut Engine, ticket: &Ticket, tenant: TenantId) -> (Status, u64, Vec<u8>) {
    let result = engine.result(ticket, tenant).unwrap();
    (
        result.status,
        result.of_frame,
        result.tensors().flat_map(|(_, b)| b.to_vec()).collect(),
    )
}

#[test]
fn a_slot_belongs_to_its_ticket_until_release() {
    let mut engine = engine(deploy(2, vec![pair("a")]), &options());
    assert_eq!(engine.state(), State::Prepared);
    let first = submit(&mut engine, 0);
    let second = submit(&mut engine, 1);
    assert_eq!(engine.state(), State::Running);
    assert_eq!((first.frame(), second.frame()), (0, 1));
    let data = pixels(0, 2);
    let both = [Some(gray(&data)), Some(gray(&data))];
    assert_eq!(engine.submit(&both), Err(RunError::Busy));
    engine.wait(&first, None).unwrap();
    engine.wait(&second, None).unwrap();
    assert_eq!(engine.submit(&both), Err(RunError::Busy), "finished is not released");
    let kept = read(&mut engine, &second, SCOUT);
    engine.release(first).unwrap();
    let third = engine.submit(&both).unwrap();
    engine.wait(&third, None).unwrap();
    assert_eq!(
        read(&mut engine, &second, SCOUT),
        kept,
        "a later frame changed an unreleased result"
    );
    assert_eq!(engine.threads(), ["platoon-cpu-0", "platoon-cpu-1"]);
    assert_eq!(engine.close(), 0);
}

#[test]
fn tickets_of_other_engines_are_refused() {
    let mut one = engine(deploy(2, vec![pair("a")]), &options());
    let mut other = engine(deploy(2, vec![pair("a")]), &options());
    let ticket = submit(&mut one, 0);
    let _own = submit(&mut other, 0);
    assert_eq!(other.wait(&ticket, None), Err(RunError::Ticket));
    assert_eq!(other.result(&ticket, SCOUT).map(|r| r.status), Err(RunError::Ticket));
    assert_eq!(one.result(&ticket, TenantId(2)).map(|r| r.status), Err(RunError::Unknown));
    assert_eq!(one.wait_tenant(&ticket, TenantId(9), None), Err(RunError::Unknown));
    assert_eq!(other.release(ticket), Err(RunError::Ticket));
}

#[test]
fn a_ticket_released_in_flight_frees_its_slot_at_the_frames_end() {
    let late = with_fault(FaultPlace::Tenant(SURFACE), FaultKind::Delay(Duration::from_millis(60)), 0);
    let mut engine = engine(deploy(1, vec![pair("a")]), &late);
    let ticket = submit(&mut engine, 0);
    engine.release(ticket).unwrap();
    let data = pixels(0, 1);
    let both = [Some(gray(&data)), Some(gray(&data))];
    let mut refused = 0;
    let second = loop {
        match engine.submit(&both) {
            Err(RunError::Busy) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            other => break other.unwrap(),
        }
    };
    assert!(refused > 0, "the slot was given away while its frame ran");
    assert_eq!(engine.wait(&second, None).unwrap().frame, 1);
}

#[test]
fn a_camera_that_misses_a_frame_contributes_its_newest_image() {
    for slots in [1, 2] {
        let mut engine = engine(deploy(slots, vec![pair("a")]), &options());
        let (a, b) = (pixels(0, 0), pixels(1, 0));
        // Before any image: no result, and the frame goes on.
        let ticket = engine.submit(&[Some(gray(&a)), None]).unwrap();
        let report = engine.wait(&ticket, None).unwrap();
        assert_eq!((report.tenants[0].status, report.tenants[1].status), (Status::Fresh, Status::None));
        assert_eq!(read(&mut engine, &ticket, SURFACE), (Status::None, 0, vec![]));
        engine.release(ticket).unwrap();
        // An image, then five frames without: the same result from the old image, flagged.
        let ticket = engine.submit(&[Some(gray(&a)), Some(gray(&b))]).unwrap();
        let report = engine.wait(&ticket, None).unwrap();
        assert!(!report.tenants[1].old_image);
        let expected = read(&mut engine, &ticket, SURFACE).2;
        engine.release(ticket).unwrap();
        for _ in 2..7 {
            // A draft that scribbles over the newest image and is dropped changes nothing.
            let mut draft = engine.begin().unwrap();
            draft.image_mut(CameraId(1)).unwrap().fill(55);
            drop(draft);
            let ticket = engine.submit(&[Some(gray(&a)), None]).unwrap();
            let report = engine.wait(&ticket, None).unwrap();
            assert_eq!((report.tenants[1].status, report.tenants[1].old_image), (Status::Stale, true));
            assert!(!report.tenants[0].old_image);
            assert_eq!(read(&mut engine, &ticket, SURFACE), (Status::Stale, 1, expected.clone()));
            engine.release(ticket).unwrap();
        }
    }
}

#[test]
fn an_image_written_in_place_gives_what_a_copied_one_gives() {
    let mut engine = engine(deploy(2, vec![pair("a")]), &options());
    let (a, b) = (pixels(0, 0), pixels(1, 0));
    let copied = engine.submit(&[Some(gray(&a)), Some(gray(&b))]).unwrap();
    let mut draft = engine.begin().unwrap();
    let Image {
        width,
        height,
        stride,
        format,
        ..
    } = gray(&a);
    let header = ImageHeader {
        width,
        height,
        stride,
        format,
    };
    for (camera, data) in [(CameraId(0), &a), (CameraId(1), &b)] {
        draft.image_mut(camera).unwrap().copy_from_slice(data);
        draft.set_image(camera, header).unwrap();
    }
    assert_eq!(draft.image_mut(CameraId(2)), Err(RunError::Unknown));
    let placed = draft.submit().unwrap();
    engine.wait(&placed, None).unwrap();
    assert_eq!(read(&mut engine, &copied, SURFACE).2, read(&mut engine, &placed, SURFACE).2);
}

#[test]
fn a_draft_that_is_set_aside_leaves_the_engine_to_others() {
    let mut engine = engine(deploy(3, vec![pair("a")]), &options());
    let mut other = common::engine(deploy(3, vec![pair("a")]), &options());
    let (a, b) = (pixels(0, 0), pixels(1, 0));
    let before = submit(&mut engine, 0);
    let mut draft = engine.begin().unwrap();
    draft.copy_image(CameraId(0), &gray(&a)).unwrap();
    let held = draft.hold();
    assert_eq!(engine.begin().err(), Some(RunError::State));
    assert_eq!(engine.submit(&[Some(gray(&a)), Some(gray(&b))]), Err(RunError::State));
    engine.wait(&before, None).unwrap();
    let expected = read(&mut engine, &before, SURFACE).2;
    let mut draft = engine.resume(held).unwrap();
    draft.copy_image(CameraId(1), &gray(&b)).unwrap();
    let ticket = draft.submit().unwrap();
    assert_eq!(engine.wait(&ticket, None).unwrap().frame, 1);
    assert_eq!(read(&mut engine, &ticket, SURFACE), (Status::Fresh, 1, expected));
    let held = engine.begin().unwrap().hold();
    assert_eq!(other.resume(held).err(), Some(RunError::Ticket));
}

#[test]
fn a_change_of_the_task_set_says_when_it_would_wait() {
    let late = with_fault(FaultPlace::Tenant(SURFACE), FaultKind::Delay(Duration::from_millis(60)), 0);
    let mut engine = engine(deploy(2, vec![pair("a"), pair("b")]), &late);
    let ticket = submit(&mut engine, 0);
    assert_eq!(engine.waits_to_switch(), Ok(false), "nothing is to be switched");
    engine.select("b").unwrap();
    assert_eq!(engine.waits_to_switch(), Ok(true));
    engine.wait(&ticket, None).unwrap();
    assert_eq!(engine.waits_to_switch(), Ok(false));
}

#[test]
fn a_result_that_stands_in_can_be_copied_and_is_settled_once_it_is_the_frames() {
    let late = with_fault(FaultPlace::Tenant(SURFACE), FaultKind::Delay(Duration::from_millis(60)), 1);
    let mut engine = engine(deploy(2, vec![pair("a")]), &late);
    let first = submit(&mut engine, 0);
    engine.wait(&first, None).unwrap();
    assert!(engine.result(&first, SURFACE).unwrap().is_settled());
    let expected = read(&mut engine, &first, SURFACE).2;
    let second = submit(&mut engine, 1);
    let mut room = vec![0xee; engine.result_bytes(PlanId(0), SURFACE)];
    let result = engine.result(&second, SURFACE).unwrap();
    assert_eq!((result.is_settled(), result.status), (false, Status::Stale));
    let copy: Vec<u8> = result.copied(&mut room).tensors().flat_map(|(_, b)| b.to_vec()).collect();
    assert_eq!(copy, expected);
    // Too little room gives a result with less in it.
    let result = engine.result(&second, SURFACE).unwrap();
    let missing = result.copied(&mut room[..1]).tensors().map(|(_, b)| b.len()).sum::<usize>();
    assert_eq!(missing, 0);
    engine.wait(&second, None).unwrap();
    let result = engine.result(&second, SURFACE).unwrap();
    assert!(
        result.is_settled() && result.device_address(0).is_none(),
        "the processor has no other memory"
    );
    assert_eq!(engine.result_bytes(PlanId(0), TenantId(9)), 0);
}

#[test]
fn a_late_frame_shows_the_latest_result_whichever_slot_it_lies_in() {
    const LATE: u64 = 5;
    for slots in 1..=3 {
        for depth in 1..=slots {
            let late = with_fault(FaultPlace::Tenant(SURFACE), FaultKind::Delay(Duration::from_millis(60)), LATE);
            let mut engine = engine(deploy(slots, vec![pair("a")]), &late);
            let mut flight = VecDeque::new();
            let mut latest = Vec::new();
            let mut end = |engine: &mut Engine, ticket: Ticket| {
                engine.wait(&ticket, None).unwrap();
                let (status, frame, bytes) = read(engine, &ticket, SURFACE);
                assert_eq!((status, frame), (Status::Fresh, ticket.frame()));
                assert_ne!(bytes, latest, "frames have results of their own");
                latest = bytes;
                engine.release(ticket).unwrap();
            };
            for frame in 0..=LATE {
                if flight.len() == usize::from(depth) {
                    end(&mut engine, flight.pop_front().unwrap());
                }
                flight.push_back(submit(&mut engine, frame));
            }
            let late = flight.pop_back().unwrap();
            flight.into_iter().for_each(|ticket| end(&mut engine, ticket));
            let expected = (Status::Stale, LATE - 1, latest);
            assert_eq!(read(&mut engine, &late, SURFACE), expected, "{slots} slots, {depth} in flight");
        }
    }
}

#[test]
fn an_image_that_does_not_fit_is_an_error_and_the_loop_goes_on() {
    let mut engine = engine(deploy(1, vec![pair("a")]), &options());
    let data = pixels(0, 0);
    let good = gray(&data);
    let large = [0; PIXELS * 8];
    let bad = [
        Image { data: &data[1..], ..good },
        Image { width: 0, ..good },
        Image { height: 0, ..good },
        Image { stride: 9, ..good },
        Image {
            width: 11,
            stride: 11,
            data: &large,
            ..good
        },
        Image {
            height: 25,
            data: &large,
            ..good
        },
        Image {
            stride: u32::MAX,
            data: &large,
            ..good
        },
        Image {
            format: PixelFormat::Rgb8,
            stride: 30,
            data: &large,
            ..good
        },
        Image {
            format: PixelFormat::Nv12,
            height: 23,
            ..good
        },
    ];
    for image in bad {
        let refused = engine.submit(&[Some(good), Some(image)]);
        assert!(matches!(refused, Err(RunError::Image(CameraId(1), _))), "{image:?}: {refused:?}");
    }
    assert_eq!(engine.submit(&[Some(good)]), Err(RunError::Unknown));
    let ticket = engine.submit(&[Some(good), Some(good)]).unwrap();
    assert_eq!(ticket.frame(), 0, "a refused frame took a number");
    assert_eq!(engine.wait(&ticket, None).unwrap().tenants[1].status, Status::Fresh);
}

#[test]
fn a_tensor_input_that_does_not_come_makes_its_tenant_stale() {
    let nets = [
        net("probe", Feed::Input, &[Layer::Max3]),
        net("reader", Feed::Net(0), &[Layer::Leak(0.5)]),
    ];
    let mut engine = engine(deploy(2, vec![plan("a", 0, &nets, &Decisions::plain())]), &options());
    let values: Vec<u8> = (0..PIXELS).flat_map(|i| (i as f32 - 100.0).to_ne_bytes()).collect();
    let mut draft = engine.begin().unwrap();
    assert_eq!(draft.copy_input(SCOUT, 0, &values[1..]), Err(RunError::Input(0)));
    assert_eq!(draft.input_mut(SCOUT, 1), Err(RunError::Unknown));
    let none = draft.submit().unwrap();
    let report = engine.wait(&none, None).unwrap();
    assert!(report.tenants.iter().all(|t| t.status == Status::None));
    engine.release(none).unwrap();
    let mut draft = engine.begin().unwrap();
    draft.copy_input(SCOUT, 0, &values).unwrap();
    let fresh = draft.submit().unwrap();
    let missing = engine.begin().unwrap().submit().unwrap();
    engine.wait(&missing, None).unwrap();
    for tenant in [SCOUT, SURFACE] {
        let (status, frame, bytes) = read(&mut engine, &fresh, tenant);
        assert_eq!((status, frame), (Status::Fresh, 1));
        assert_eq!(read(&mut engine, &missing, tenant), (Status::Stale, 1, bytes));
    }
    let stats = engine.stats(PlanId(0)).unwrap();
    assert_eq!((stats.tenants[1].none, stats.tenants[1].fresh, stats.tenants[1].stale), (1, 1, 1));
    assert_eq!((stats.frame.count(), stats.tenants[1].finish.count()), (3, 1));
}

#[test]
fn a_switch_waits_for_frames_in_flight_and_starts_from_nothing() {
    let slow = with_fault(FaultPlace::Tenant(SCOUT), FaultKind::Delay(Duration::from_millis(40)), 2);
    let other = plan(
        "b",
        2,
        &[
            net("signal", Feed::Camera(1), &[Layer::Remember]),
            Net {
                rate: Rate { divisor: 2, phase: 0 },
                ..net("rare", Feed::Camera(0), &[Layer::Max3])
            },
        ],
        &Decisions::plain(),
    );
    let mut engine = engine(deploy(2, vec![pair("a"), other]), &slow);
    assert_eq!(engine.task_sets(), ["a", "b"]);
    let mut reference = Vec::new();
    for frame in 0..2 {
        let ticket = submit(&mut engine, frame);
        engine.wait(&ticket, None).unwrap();
        reference.push(read(&mut engine, &ticket, SCOUT).2);
        engine.release(ticket).unwrap();
    }
    let in_flight = submit(&mut engine, 0);
    assert_eq!(engine.select("c"), Err(RunError::Unknown));
    engine.select("b").unwrap();
    assert_eq!((engine.task_set(), engine.plan_id()), ("b", PlanId(1)));
    let switched = submit(&mut engine, 3);
    let report = engine.poll(&in_flight).unwrap().expect("the switch waited for it");
    assert_eq!((report.plan, report.frame), (PlanId(0), 2));
    let report = engine.wait(&switched, None).unwrap();
    assert_eq!(report.plan, PlanId(1));
    assert_eq!((report.tenants[0].status, report.tenants[1].status), (Status::Fresh, Status::None));
    assert_eq!(engine.result(&in_flight, SCOUT).unwrap().name(), "scout");
    assert_eq!(engine.result(&switched, SCOUT).unwrap().name(), "signal");
    engine.release(in_flight).unwrap();
    engine.release(switched).unwrap();
    // Back again: the persistent buffer starts from zero, so the first frames repeat bit for bit.
    engine.select("a").unwrap();
    for (frame, expected) in reference.iter().enumerate() {
        let ticket = submit(&mut engine, frame as u64);
        engine.wait(&ticket, None).unwrap();
        assert_eq!(&read(&mut engine, &ticket, SCOUT).2, expected, "frame {frame} after the switch");
        engine.release(ticket).unwrap();
    }
    let ticket = submit(&mut engine, 0);
    engine.wait(&ticket, None).unwrap();
    assert_ne!(read(&mut engine, &ticket, SCOUT).2, reference[0], "the network remembers nothing");
}

#[test]
fn the_urgent_tenants_result_is_out_before_the_frame_ends() {
    let slow = with_fault(FaultPlace::Tenant(SURFACE), FaultKind::Delay(Duration::from_millis(250)), 1);
    // A worker each: a step of width 1 needs no worker that another stream's delay holds.
    let mut plan = pair_of_width("a", 1);
    plan.tenants[1].urgency.deadline = Some(Nanos::from_ms(50.0));
    let mut engine = engine(deploy(2, vec![plan]), &slow);
    let first = submit(&mut engine, 0);
    engine.wait(&first, None).unwrap();
    let before = read(&mut engine, &first, SURFACE);
    let ticket = submit(&mut engine, 1);
    assert_eq!(engine.wait_tenant(&ticket, SCOUT, None), Ok(Status::Fresh));
    assert_eq!(engine.poll(&ticket), Ok(None));
    assert_eq!(engine.wait(&ticket, Some(Duration::from_millis(1))), Err(RunError::Timeout));
    let (status, frame, bytes) = read(&mut engine, &ticket, SURFACE);
    assert_eq!(
        (status, frame, bytes),
        (Status::Stale, 0, before.2),
        "late: the last result is repeated"
    );
    let report = engine.wait(&ticket, None).unwrap();
    let surface = report.tenants[1];
    assert!(surface.missed_deadline && surface.status == Status::Fresh && surface.finish >= Nanos::from_ms(250.0));
    assert!(report.total >= surface.finish && !report.tenants[0].missed_deadline);
    assert_eq!(engine.stats(PlanId(0)).unwrap().tenants[1].missed, 1);
    assert_eq!(read(&mut engine, &ticket, SURFACE).0, Status::Fresh);
}

/// After a fault every call says so, what had finished can be read, and closing returns.
fn check_faulted(mut engine: Engine, done: Ticket, hit: Ticket, fault: Fault, leaked: usize) {
    let error = RunError::Faulted(fault);
    assert_eq!(engine.wait(&hit, None), Err(error));
    assert_eq!(engine.state(), State::Faulted(fault));
    assert_eq!(engine.wait_tenant(&hit, SURFACE, None), Err(error));
    assert_eq!(engine.poll(&hit), Err(error));
    assert_eq!(engine.begin().map(|d| d.frame()), Err(error));
    assert_eq!(engine.select("a"), Err(error));
    assert_eq!(read(&mut engine, &done, SURFACE).0, Status::Fresh);
    let (status, frame, _) = read(&mut engine, &hit, SURFACE);
    assert_eq!((status, frame), (Status::Stale, 0));
    engine.release(hit).unwrap();
    assert_eq!(engine.close(), leaked);
}

#[test]
fn a_hang_is_named_by_tenant_and_segment_and_closing_leaks_it() {
    let at = FaultPlace::Segment(SegmentId(3));
    let options = Options {
        watchdog: Some(Duration::from_millis(300)),
        close_limit: Duration::from_millis(300),
        ..with_fault(at, FaultKind::Hang, 1)
    };
    let mut engine = engine(deploy(2, vec![pair("a")]), &options);
    assert_eq!(engine.plan().cycle[0].segments[3].tenant, SURFACE);
    let done = submit(&mut engine, 0);
    engine.wait(&done, None).unwrap();
    let hit = submit(&mut engine, 1);
    let fault = Fault::Hang {
        tenant: SURFACE,
        segment: SegmentId(3),
        frame: 1,
    };
    check_faulted(engine, done, hit, fault, 1);
}

#[test]
fn a_device_fault_is_named_by_tenant_and_segment() {
    let mut engine = engine(
        deploy(2, vec![pair("a")]),
        &with_fault(FaultPlace::Tenant(SURFACE), FaultKind::Fail(719), 1),
    );
    let done = submit(&mut engine, 0);
    engine.wait(&done, None).unwrap();
    let hit = submit(&mut engine, 1);
    let fault = Fault::Device {
        tenant: SURFACE,
        segment: SegmentId(1),
        frame: 1,
        code: 719,
        suspects: 1,
    };
    check_faulted(engine, done, hit, fault, 0);
}

#[test]
fn a_panic_in_a_kernel_is_contained_and_named() {
    let mut engine = engine(deploy(2, vec![pair("a")]), &options());
    let done = submit(&mut engine, 0);
    engine.wait(&done, None).unwrap();
    let (a, mut b) = (pixels(0, 1), pixels(1, 1));
    b[0] = POISON;
    let hit = engine.submit(&[Some(gray(&a)), Some(gray(&b))]).unwrap();
    let fault = Fault::Panic {
        tenant: SURFACE,
        segment: SegmentId(1),
        frame: 1,
    };
    check_faulted(engine, done, hit, fault, 0);
}

#[test]
fn an_engine_with_impossible_options_does_not_open() {
    use platoon::backend::PrepareError;
    use platoon::backend::cpu::CpuBackend;
    use platoon::runtime::OpenError;
    let options = Options {
        slots: Some(9),
        ..options()
    };
    let backend = CpuBackend::with_kernels(|| common::kernels::Rows);
    let error = Engine::over(deploy(2, vec![pair("a")]), &backend, &options).map(|e| e.state());
    assert!(matches!(error, Err(OpenError::Prepare(PrepareError::Slots(9)))));
}

#[test]
fn closing_gives_up_frames_in_flight() {
    let slow = with_fault(FaultPlace::Tenant(SCOUT), FaultKind::Delay(Duration::from_millis(30)), 0);
    let mut engine = engine(deploy(2, vec![pair("a")]), &slow);
    let ticket = submit(&mut engine, 0);
    assert_eq!(ticket.slot(), SlotId(0));
    assert_eq!(engine.close(), 0);
}
