//! Images in the GPU's memory, and slots in the host's: the bits of images that are copied.

use crate::data;
use crate::gpu;
use crate::network::Machine;
use crate::road::{self, Results};
use platoon::backend::cuda::device_bytes;
use platoon::backend::cuda::raw::{Context, DeviceMemory, Event, Stream};
use platoon::backend::{SlotMemory, Submission};
use platoon::error::RunError;
use platoon::ids::CameraId;
use platoon::replay::picture::Picture;
use platoon::runtime::{Engine, ImageHeader, Options, Ticket};
use platoon::task::PixelFormat;

/// The machine, and what `urban` gives with images from the host, copied; the fourth frame comes without one.
fn copied(test: &str) -> Option<(Machine, Vec<Results>)> {
    let machine = Machine::gpu(&gpu::need(test)?);
    let mut engine = open(&machine, SlotMemory::Copied, Submission::Frame);
    let results = drive(&mut engine, |engine, frame, picture| {
        let image = crate::av::image(picture);
        engine.submit(&[(frame != 3).then_some(image)]).unwrap_or_else(|e| panic!("{e}"))
    });
    assert_eq!(engine.close(), 0);
    assert!(results.windows(2).any(|w| w[0] != w[1]), "frames of a drive differ");
    Some((machine, results))
}

fn open(machine: &Machine, slot_memory: SlotMemory, submission: Submission) -> Engine {
    let deployment = road::deployment(machine, &road::tasks(), &["urban"], 2, &road::half());
    let options = Options {
        slot_memory,
        submission,
        ..Options::default()
    };
    road::open(machine, deployment, &options)
}

/// Runs the pictures, two frames in flight.
fn drive(engine: &mut Engine, mut submit: impl FnMut(&mut Engine, usize, &Picture) -> Ticket) -> Vec<Results> {
    let (mut results, mut ahead) = (Vec::new(), None);
    for (frame, picture) in road::pictures().iter().enumerate() {
        let ticket = submit(engine, frame, picture);
        if let Some(before) = ahead.replace(ticket) {
            results.push(road::finish(engine, before));
        }
    }
    results.extend(ahead.map(|last| road::finish(engine, last)));
    results
}

#[test]
fn mapped_slots_give_the_bits_of_copied_ones() {
    let test = "gpu_mapped_slots_give_the_bits_of_copied_ones";
    let Some((machine, expected)) = copied(test) else { return };
    for submission in [Submission::Frame, Submission::Segments] {
        let mut engine = open(&machine, SlotMemory::Mapped, submission);
        let found = drive(&mut engine, |engine, frame, picture| {
            let image = crate::av::image(picture);
            engine.submit(&[(frame != 3).then_some(image)]).unwrap_or_else(|e| panic!("{e}"))
        });
        assert_eq!(road::differ(&found, &expected), None, "frame and tenant, {submission:?}");
        assert_eq!(engine.close(), 0);
    }
    data::ran(test, "6 frames in a graph and segment by segment");
}

#[test]
#[allow(unsafe_code)] // names device memory and events
fn images_in_the_gpus_memory_give_the_bits_of_the_hosts() {
    let test = "gpu_images_in_the_gpus_memory_give_the_bits_of_the_hosts";
    let Some((machine, expected)) = copied(test) else { return };
    let context = Context::open().unwrap();
    let stream = Stream::new(&context, None, 0).unwrap();
    // One picture's memory at a time: what comes before has ended when it is written again.
    let largest = road::pictures().iter().map(|p| p.rgb().len()).max().unwrap_or(0);
    let memory: Vec<DeviceMemory> = (0..3).map(|_| DeviceMemory::new(&context, largest as u64).unwrap()).collect();
    for (slot_memory, submission) in [
        (SlotMemory::Copied, Submission::Frame),
        (SlotMemory::Copied, Submission::Segments),
        (SlotMemory::Mapped, Submission::Frame),
    ] {
        let mut engine = open(&machine, slot_memory, submission);
        let event = Event::new(&context).unwrap();
        let found = drive(&mut engine, |engine, frame, picture| {
            let mut draft = engine.begin().unwrap_or_else(|e| panic!("{e}"));
            let header = ImageHeader {
                width: picture.width(),
                height: picture.height(),
                stride: 3 * picture.width(),
                format: PixelFormat::Rgb8,
            };
            let (room, bytes) = (&memory[frame % 3], picture.rgb().len() as u64);
            if frame != 3 {
                // Nobody waits for the copy but the frame.
                context.enter().unwrap();
                room.write(0, picture.rgb(), &stream).unwrap();
                event.record(&stream).unwrap();
                // SAFETY: the event lives as long as the engine.
                let image = unsafe { device_bytes(room.area().address, bytes, event.handle()) };
                draft.set_device_image(CameraId(0), header, image).unwrap_or_else(|e| panic!("{e}"));
            }
            draft.submit().unwrap_or_else(|e| panic!("{e}"))
        });
        assert_eq!(
            road::differ(&found, &expected),
            None,
            "frame and tenant, {slot_memory:?}, {submission:?}"
        );
        // What is not the GPU's is refused, and the engine goes on.
        let mut draft = engine.begin().unwrap();
        let outside = memory[0].area().address + largest as u64 - 8;
        let header = ImageHeader {
            width: 64,
            height: 64,
            stride: 192,
            format: PixelFormat::Rgb8,
        };
        for (address, bytes) in [(outside, 64 * 192), (4096, 64 * 192), (memory[0].area().address, 100)] {
            // SAFETY: no event.
            let image = unsafe { device_bytes(address, bytes, 0) };
            let refused = draft.set_device_image(CameraId(0), header, image);
            assert!(matches!(refused, Err(RunError::Image(CameraId(0), _))), "{address:#x}: {refused:?}");
        }
        drop(draft);
        assert_eq!(engine.close(), 0);
    }
    data::ran(test, "6 frames, copied and mapped slots");
}
