//! Tensor inputs in the GPU's memory: the bits of those from the host.

use crate::data;
use crate::gpu;
use crate::network::Machine;
use crate::road::{self, Results};
use platoon::backend::cuda::device_bytes;
use platoon::backend::cuda::raw::{Context, DeviceMemory, Event, Stream};
use platoon::backend::{SlotMemory, Submission};
use platoon::bench::zoo::run::Group;
use platoon::error::RunError;
use platoon::ids::TenantId;
use platoon::plan::deployment::Deployment;
use platoon::planner::table;
use platoon::runtime::{Draft, Engine, Options, Ticket};
use std::collections::VecDeque;

const SLOTS: u16 = 2;
const FRAMES: usize = 8;
const BATCH: usize = 8;

/// Two networks of the zoo: pictures for the one, token numbers for the other.
struct Pair {
    machine: Machine,
    group: Group,
    /// By tenant.
    inputs: Vec<Vec<u8>>,
}

impl Pair {
    fn new(machine: Machine) -> Pair {
        let mut pair = Pair {
            machine,
            group: Group::parse("r18+bst", Some(BATCH as u32)).unwrap(),
            inputs: Vec::new(),
        };
        let inputs = pair.group.inputs(&pair.compiled());
        pair.inputs = inputs.tensors.into_iter().map(|(_, _, bytes)| bytes).collect();
        pair
    }

    fn compiled(&self) -> platoon::planner::Compiled {
        self.group.plan(&self.machine.board, &road::half()).unwrap()
    }

    fn open(&self, slot_memory: SlotMemory, submission: Submission) -> Engine {
        let compiled = self.compiled();
        let name = compiled.plan.task_set.clone();
        let table = table(std::slice::from_ref(&compiled), &self.machine.board, &name, SLOTS).unwrap();
        let weights = compiled.weight_files.into_iter().map(|(_, bytes)| bytes).collect();
        let options = Options {
            slot_memory,
            submission,
            ..Options::default()
        };
        road::open(
            &self.machine,
            Deployment::assemble(table, vec![compiled.plan], weights).unwrap(),
            &options,
        )
    }

    /// A tenant's input in a frame: whole rows of the batch turned, so that token numbers stay in their columns.
    fn input(&self, frame: usize, tenant: usize) -> Vec<u8> {
        let mut bytes = self.inputs[tenant].clone();
        let row = bytes.len() / BATCH;
        bytes.rotate_left(frame % BATCH * row);
        bytes
    }

    /// Runs all frames, as many in flight as there are slots.
    fn drive(&self, engine: &mut Engine, mut give: impl FnMut(&mut Draft<'_>, usize, usize)) -> Vec<Results> {
        let (mut results, mut flight) = (Vec::new(), VecDeque::<Ticket>::new());
        for frame in 0..FRAMES {
            let mut draft = engine.begin().unwrap();
            (0..self.inputs.len()).for_each(|tenant| give(&mut draft, frame, tenant));
            flight.push_back(draft.submit().unwrap());
            if flight.len() == usize::from(SLOTS) {
                results.extend(flight.pop_front().map(|ticket| road::finish(engine, ticket)));
            }
        }
        results.extend(flight.into_iter().map(|ticket| road::finish(engine, ticket)));
        results
    }
}

#[test]
#[allow(unsafe_code)] // names device memory and events
fn tensors_in_the_gpus_memory_give_the_bits_of_the_hosts() {
    let test = "gpu_tensors_in_the_gpus_memory_give_the_bits_of_the_hosts";
    let Some(facts) = gpu::need(test) else { return };
    let pair = Pair::new(Machine::gpu(&facts));
    let mut engine = pair.open(SlotMemory::Copied, Submission::Frame);
    let expected = pair.drive(&mut engine, |draft, frame, tenant| {
        let id = TenantId(tenant as u16);
        draft.copy_input(id, 0, &pair.input(frame, tenant)).unwrap();
    });
    assert_eq!(engine.close(), 0);
    assert!(expected.iter().all(|r| r.len() == 2), "both networks compute in every frame");
    assert!(
        expected.windows(2).all(|w| w[0].keys().all(|name| w[0][name] != w[1][name])),
        "frames differ"
    );

    let context = Context::open().unwrap();
    let stream = Stream::new(&context, None, 0).unwrap();
    let event = Event::new(&context).unwrap();
    let longest = pair.inputs.iter().map(Vec::len).max().unwrap_or(0) as u64;
    // More than there are frames in flight: what comes before has ended when one is written again.
    let memory: Vec<DeviceMemory> = (0..3 * pair.inputs.len())
        .map(|_| DeviceMemory::new(&context, longest).unwrap())
        .collect();
    for (slot_memory, submission) in [
        (SlotMemory::Copied, Submission::Frame),
        (SlotMemory::Copied, Submission::Segments),
        (SlotMemory::Mapped, Submission::Frame),
    ] {
        let mut engine = pair.open(slot_memory, submission);
        let found = pair.drive(&mut engine, |draft, frame, tenant| {
            let (id, bytes) = (TenantId(tenant as u16), pair.input(frame, tenant));
            // Every third comes from the host, so that frames have inputs of both kinds.
            if (frame + tenant) % 3 == 0 {
                return draft.copy_input(id, 0, &bytes).unwrap();
            }
            let room = &memory[frame % 3 * pair.inputs.len() + tenant];
            // Nobody waits for the copy but the frame.
            context.enter().unwrap();
            room.write(0, &bytes, &stream).unwrap();
            event.record(&stream).unwrap();
            // SAFETY: the event lives as long as the engine.
            let input = unsafe { device_bytes(room.area().address, bytes.len() as u64, event.handle()) };
            draft.set_device_input(id, 0, input).unwrap();
        });
        assert_eq!(
            road::differ(&found, &expected),
            None,
            "frame and tenant, {slot_memory:?}, {submission:?}"
        );
        // What is not the GPU's, or too short, is refused, and the engine goes on.
        let mut draft = engine.begin().unwrap();
        let whole = pair.inputs[0].len() as u64;
        for (address, bytes) in [(memory[0].area().address, whole - 1), (4096, whole)] {
            // SAFETY: no event.
            let input = unsafe { device_bytes(address, bytes, 0) };
            let refused = draft.set_device_input(TenantId(0), 0, input);
            assert_eq!(refused, Err(RunError::Input(0)), "{address:#x} {bytes}");
        }
        drop(draft);
        assert_eq!(engine.close(), 0);
    }
    data::ran(
        test,
        "8 frames of two networks, copied and mapped slots, in a graph and segment by segment",
    );
}
