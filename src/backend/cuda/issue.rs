//! Issuing a program: into a capture, or live. Takes no memory.

use super::lanes::Streams;
use super::library::{FunctionId, Library};
use super::program::{Command, Program};
use super::raw::{DriverError, Event, Geometry};
use super::slots::SlotState;
use crate::ids::OperatorId;

/// A program with everything that its launches name at hand.
pub struct Ready {
    /// The commands.
    pub program: Program,
    /// Per launch, its function.
    pub functions: Vec<FunctionId>,
}

/// What programs are issued with.
pub struct Means<'a> {
    /// The streams.
    pub streams: &'a Streams,
    /// Events, as many as any program names.
    pub events: &'a [Event],
    /// The kernels.
    pub library: &'a Library,
}

impl Means<'_> {
    /// Issues every command in order. Tells which operator's launch was refused, if it was one.
    pub fn issue(&self, plan: usize, ready: &Ready, slot: &SlotState) -> Result<(), (Option<OperatorId>, DriverError)> {
        for command in &ready.program.commands {
            let lane = |lane| self.streams.lane(plan, lane);
            let done = match *command {
                Command::Launch {
                    lane: at,
                    launch,
                    operator,
                    early,
                } => {
                    let it = &ready.program.launches[launch];
                    let geometry = Geometry {
                        blocks: it.blocks,
                        threads: it.threads,
                        shared: it.shared,
                        cluster: it.cluster,
                        early,
                    };
                    let function = self.library.get(ready.functions[launch]);
                    function.launch(geometry, &it.params, lane(at)).map_err(|e| (operator, e))?;
                    continue;
                }
                Command::Download { lane: at, bytes } => match slot.areas.output.part(bytes.offset, bytes.bytes) {
                    Some(source) => slot.output.download(bytes.offset, source, lane(at)),
                    None => continue,
                },
                Command::Record { lane: at, event } => self.events[event.0].record(lane(at)),
                Command::Wait { lane: at, event } => lane(at).wait(&self.events[event.0]),
            };
            done.map_err(|e| (None, e))?;
        }
        Ok(())
    }
}
