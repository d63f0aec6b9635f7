//! Images and tensors in the GPU's memory: the results of those from the host, whatever comes between them.
#![allow(unsafe_code)] // what names device memory and events answers for them

use crate::common::build::{self, Decisions, Feed, HEIGHT, Layer, Net, PIXELS, WIDTH, plan};
use crate::common::{self, gray, pixels};
use crate::frames::{nets, options};
use crate::stub::{Report, on_stub};
use crate::vehicle::{self, Record, deploy, note, open};
use platoon::backend::cuda::raw::{Context, DeviceMemory, Event, Stream};
use platoon::backend::cuda::{Call, device_bytes, driver_calls};
use platoon::backend::{DeviceBytes, SlotMemory, Submission};
use platoon::error::{ImageFault, RunError};
use platoon::ids::{CameraId, TenantId};
use platoon::runtime::{Engine, ImageHeader, Options, State, Ticket};
use platoon::task::{PixelFormat, Rate, Status};
use std::collections::VecDeque;
use std::sync::Arc;

const FRAMES: u64 = 24;
const HEADER: ImageHeader = ImageHeader {
    width: WIDTH,
    height: HEIGHT,
    stride: WIDTH,
    format: PixelFormat::Gray8,
};

/// Every image or tensor of every frame in device memory, each written by a stream of its own and complete after an event.
struct Bank {
    memory: DeviceMemory,
    /// By frame, and camera or input.
    events: Vec<Event>,
    /// Bytes of each.
    each: usize,
    /// The stub reads what is copied when the copy's turn has come.
    _images: Vec<Vec<u8>>,
    _streams: Vec<Stream>,
}

impl Bank {
    fn new() -> Bank {
        Bank::of((0..FRAMES).flat_map(|f| [pixels(0, f), pixels(1, f)]).collect())
    }

    /// Of images or tensors that are as long as each other.
    fn of(images: Vec<Vec<u8>>) -> Bank {
        let context: Arc<Context> = Context::open().unwrap();
        let each = images[0].len();
        let memory = DeviceMemory::new(&context, (images.len() * each) as u64).unwrap();
        let (mut events, mut streams) = (Vec::new(), Vec::new());
        for (i, image) in images.iter().enumerate() {
            let (stream, event) = (Stream::new(&context, None, 0).unwrap(), Event::new(&context).unwrap());
            memory.write((i * each) as u64, image, &stream).unwrap();
            event.record(&stream).unwrap();
            events.push(event);
            streams.push(stream);
        }
        Bank {
            memory,
            events,
            each,
            _images: images,
            _streams: streams,
        }
    }

    fn image(&self, camera: u64, frame: u64) -> DeviceBytes {
        self.bytes((frame * 2 + camera) as usize)
    }

    fn bytes(&self, i: usize) -> DeviceBytes {
        let address = self.memory.area().address + (i * self.each) as u64;
        // SAFETY: the event lives as long as the bank, which outlives the engine's frames.
        unsafe { device_bytes(address, self.each as u64, self.events[i].handle()) }
    }
}

/// As [`vehicle::submit`], with two of three images in the GPU's memory, and drafts that are begun and dropped.
fn submit(engine: &mut Engine, bank: &Bank, frame: u64, gaps: bool) -> Ticket {
    let probe = engine.plan().tenants.iter().position(|t| !t.inputs.is_empty());
    if frame % 5 == 3 {
        let mut draft = engine.begin().unwrap();
        draft.image_mut(CameraId(0)).unwrap().fill(0xee);
        draft.set_image(CameraId(0), HEADER).unwrap();
        draft.set_device_image(CameraId(1), HEADER, bank.image(0, 0)).unwrap();
    }
    let mut draft = engine.begin().unwrap();
    for camera in 0..2 {
        if gaps && (frame + camera).is_multiple_of(4) {
            continue;
        }
        let id = CameraId(camera as u16);
        if (frame + 2 * camera).is_multiple_of(3) {
            let data = pixels(camera, frame);
            draft.copy_image(id, &gray(&data)).unwrap();
        } else {
            draft.set_device_image(id, HEADER, bank.image(camera, frame)).unwrap();
        }
    }
    if let Some(t) = probe.filter(|_| !gaps || !frame.is_multiple_of(3)) {
        let values: Vec<u8> = (0..PIXELS).flat_map(|i| ((i as f32).sin() * frame as f32).to_ne_bytes()).collect();
        draft.copy_input(TenantId(t as u16), 0, &values).unwrap();
    }
    draft.submit().unwrap()
}

fn drive(engine: &mut Engine, bank: &Bank, gaps: bool) -> Record {
    let (mut record, mut open) = (Record::new(), VecDeque::new());
    let end = |engine: &mut Engine, ticket: Ticket, record: &mut Record| {
        engine.wait(&ticket, None).unwrap();
        note(engine, &ticket, record);
        engine.release(ticket).unwrap();
    };
    for frame in 0..FRAMES {
        open.push_back(submit(engine, bank, frame, gaps));
        if open.len() == 2 {
            end(engine, open.pop_front().unwrap(), &mut record);
        }
    }
    open.into_iter().for_each(|ticket| end(engine, ticket, &mut record));
    record
}

#[test]
fn images_in_the_gpus_memory_give_the_hosts_results_and_stand_in_for_missing_ones() {
    let name = "images::images_in_the_gpus_memory_give_the_hosts_results_and_stand_in_for_missing_ones";
    for seed in ["1", "2", "3"] {
        let report = on_stub(name, &[("STUB_SEED", seed)], || {
            let plan = || plan("all", 2, &nets(), &Decisions::plain());
            for gaps in [false, true] {
                let mut reference = common::engine(build::deploy(2, vec![plan()]), &options());
                let expected = vehicle::drive(&mut reference, 0..FRAMES, gaps);
                for slot_memory in [SlotMemory::Copied, SlotMemory::Mapped] {
                    for submission in [Submission::Frame, Submission::Segments] {
                        let options = Options {
                            submission,
                            slot_memory,
                            // One more than frames are in flight, so that slots do not simply take turns.
                            slots: Some(3),
                            ..options()
                        };
                        let mut engine = open(deploy(2, vec![plan()]), &options).unwrap();
                        // Last, as the stub knows the range of the latest allocation alone.
                        let bank = Bank::new();
                        let found = drive(&mut engine, &bank, gaps);
                        let differs = (0..found.len()).find(|&i| found[i] != expected[i]);
                        let place = differs.map(|i| (i / 4, i % 4, found[i].0, expected[i].0));
                        assert_eq!(place, None, "frame, tenant; {slot_memory:?}, {submission:?}, gaps {gaps}");
                        assert_eq!(engine.close(), 0);
                    }
                }
            }
        });
        assert_eq!(report, Report::CLEAN);
    }
}

/// Tensor inputs: by frame, one for the first net and two for the second, all unlike.
fn values(frame: u64, input: usize) -> Vec<u8> {
    let value = |i: usize| ((i * (input + 2)) as f32).sin() * (frame + 1) as f32;
    (0..PIXELS).flat_map(|i| value(i).to_ne_bytes()).collect()
}

#[test]
fn tensors_in_the_gpus_memory_give_the_hosts_results() {
    let report = on_stub("images::tensors_in_the_gpus_memory_give_the_hosts_results", &[], || {
        const INPUTS: [(TenantId, usize); 3] = [(TenantId(0), 0), (TenantId(1), 0), (TenantId(1), 1)];
        let net = |name, feed, divisor| Net {
            name,
            feed,
            rate: Rate { divisor, phase: 0 },
            layers: vec![Layer::Leak(0.3), Layer::Remember],
        };
        let nets = [net("one", Feed::Input, 1), net("two", Feed::Difference, 2)];
        let plan = || plan("all", 1, &nets, &Decisions::plain());
        // Which inputs of a frame lie in the GPU's memory, and which of them are missing.
        let given = |frame: u64, input: usize| (frame + frame / 8) >> input & 1 != 0;
        let missing = |frame: u64, input: usize| frame % 7 == 5 && input == 1;
        let mut reference = common::engine(build::deploy(2, vec![plan()]), &options());
        let mut expected = Record::new();
        for frame in 0..FRAMES {
            let mut draft = reference.begin().unwrap();
            for (input, (tenant, port)) in INPUTS.into_iter().enumerate().filter(|(i, _)| !missing(frame, *i)) {
                draft.copy_input(tenant, port, &values(frame, input)).unwrap();
            }
            let ticket = draft.submit().unwrap();
            reference.wait(&ticket, None).unwrap();
            note(&mut reference, &ticket, &mut expected);
            reference.release(ticket).unwrap();
        }
        for slot_memory in [SlotMemory::Copied, SlotMemory::Mapped] {
            for submission in [Submission::Frame, Submission::Segments] {
                let options = Options {
                    submission,
                    slot_memory,
                    ..options()
                };
                let mut engine = open(deploy(2, vec![plan()]), &options).unwrap();
                let bank = Bank::of((0..FRAMES).flat_map(|f| (0..3).map(move |input| values(f, input))).collect());
                let mut found = Record::new();
                for frame in 0..FRAMES {
                    // A draft that is dropped leaves nothing behind.
                    engine.begin().unwrap().set_device_input(TenantId(0), 0, bank.bytes(2)).unwrap();
                    let mut draft = engine.begin().unwrap();
                    for (input, (tenant, port)) in INPUTS.into_iter().enumerate().filter(|(i, _)| !missing(frame, *i)) {
                        if given(frame, input) {
                            draft
                                .set_device_input(tenant, port, bank.bytes(3 * frame as usize + input))
                                .unwrap();
                        } else {
                            draft.copy_input(tenant, port, &values(frame, input)).unwrap();
                        }
                    }
                    let ticket = draft.submit().unwrap();
                    engine.wait(&ticket, None).unwrap();
                    note(&mut engine, &ticket, &mut found);
                    engine.release(ticket).unwrap();
                }
                let differs = (0..found.len()).find(|&i| found[i] != expected[i]);
                assert_eq!(differs, None, "twice the frame, and tenant; {slot_memory:?}, {submission:?}");

                let refused = Err(RunError::Input(0));
                let mut draft = engine.begin().unwrap();
                let whole = bank.bytes(0);
                let area = bank.memory.area();
                for (address, bytes) in [
                    (area.address, 4 * PIXELS as u64 - 1),
                    (64, 4 * PIXELS as u64),
                    (area.address + area.bytes - 8, 4 * PIXELS as u64),
                ] {
                    // SAFETY: no event.
                    let part = unsafe { device_bytes(address, bytes, 0) };
                    assert_eq!(draft.set_device_input(TenantId(0), 0, part), refused, "{address:#x} {bytes}");
                }
                assert_eq!(draft.set_device_input(TenantId(0), 1, whole), Err(RunError::Unknown));
                assert_eq!(draft.set_device_input(TenantId(2), 0, whole), Err(RunError::Unknown));
                // What was refused is missing: the tenant repeats its latest result.
                let ticket = draft.submit().unwrap();
                let report = engine.wait(&ticket, None).unwrap();
                assert_eq!((report.tenants[0].status, report.tenants[0].of_frame), (Status::Stale, FRAMES - 1));
                engine.release(ticket).unwrap();
                // The next call that waits for an event fails as a handle does that is no event.
                let calls = driver_calls().of(Call::StreamWaitEvent) + 1;
                // SAFETY: nobody reads the environment at this time: no frame is in flight.
                unsafe { std::env::set_var("STUB_FAIL", format!("cuStreamWaitEvent:{calls}:400")) };
                let mut draft = engine.begin().unwrap();
                draft.set_device_input(TenantId(0), 0, whole).unwrap();
                assert_eq!(draft.submit().err(), Some(RunError::Input(0)));
                assert_eq!(engine.state(), State::Running);
                assert_eq!(engine.close(), 0);
            }
        }
    });
    assert_eq!(report, Report::CLEAN);
}

#[test]
fn what_is_no_image_there_is_refused_and_nothing_has_happened() {
    let name = "images::what_is_no_image_there_is_refused_and_nothing_has_happened";
    let report = on_stub(name, &[], || {
        let plan = || plan("all", 2, &nets(), &Decisions::plain());
        let mut engine = open(deploy(2, vec![plan()]), &options()).unwrap();
        let bank = Bank::new();
        let camera = CameraId(1);
        let at = bank.memory.area();
        let end = at.address + at.bytes;
        let refused = |result: Result<(), RunError>| assert!(matches!(result, Err(RunError::Image(CameraId(1), _))), "{result:?}");
        let mut draft = engine.begin().unwrap();
        for (address, bytes) in [
            (1, PIXELS),
            (at.address, PIXELS - 1),
            (end - 8, PIXELS),
            (u64::MAX - 4, PIXELS),
            (at.address - 8, PIXELS),
        ] {
            // SAFETY: no event.
            let image = unsafe { device_bytes(address, bytes as u64, 0) };
            refused(draft.set_device_image(camera, HEADER, image));
        }
        let wide = ImageHeader {
            width: WIDTH + 1,
            ..HEADER
        };
        refused(draft.set_device_image(camera, wide, bank.image(1, 0)));
        assert_eq!(
            draft.set_device_image(CameraId(2), HEADER, bank.image(1, 0)),
            Err(RunError::Unknown)
        );
        drop(draft);
        // A refused image is none: the tenant has had no image yet.
        let mut processor = common::engine(build::deploy(2, vec![plan()]), &options());
        let mut draft = processor.begin().unwrap();
        refused(draft.set_device_image(camera, HEADER, bank.image(1, 0)));
        drop(draft);

        // The first call that waits for an event from here on fails as a handle does that is no event.
        let calls = driver_calls().of(Call::StreamWaitEvent) + 1;
        // SAFETY: nobody reads the environment at this time: no frame is in flight.
        unsafe { std::env::set_var("STUB_FAIL", format!("cuStreamWaitEvent:{calls}:400")) };
        let mut draft = engine.begin().unwrap();
        draft.set_device_image(camera, HEADER, bank.image(1, 5)).unwrap();
        assert_eq!(draft.submit().err(), Some(RunError::Image(camera, ImageFault::Device)));
        assert_eq!(engine.state(), State::Prepared);
        // As if it had never been.
        let mut reference = common::engine(build::deploy(2, vec![plan()]), &options());
        let (found, expected) = (drive(&mut engine, &bank, true), vehicle::drive(&mut reference, 0..FRAMES, true));
        assert!(found == expected);
        engine.close();
    });
    assert_eq!(report, Report::CLEAN);
}
