//! P4: whatever is read is complete before.
//!
//! Which steps write the bytes that a step reads does not depend on the frame: [`Accesses`] finds it once, byte by byte,
//! from the shares of its inputs that a chunk needs (halo rows included). Every frame then only has to order those pairs.
//!
//! A byte of a buffer has at most one step that writes it in the whole plan. Weights, inputs and images are complete
//! before a frame starts. Persistent memory may be read before it is written in a frame (then it holds the value of an
//! earlier frame, or zero), but reader and writer are ordered, one way or the other.

use super::CheckError;
use super::order::{Order, Place, Steps};
use super::runs::Runs;
use super::work::{TooMuchWork, Work};
use crate::ids::{BufferId, TenantId};
use crate::limits::MAX_CHECK_WORK;
use crate::plan::format::{Operand, Operator, Plan, Space, Step, View};
use crate::primitive::Region;

/// Something is read that may not be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nobody writes it.
    #[error("chunk {} of operator {} reads byte {byte} of buffer {buffer}, which nothing writes", reader.chunk, reader.operator)]
    Unwritten {
        /// The reading step.
        reader: Step,
        /// The buffer.
        buffer: BufferId,
        /// The first such byte.
        byte: u64,
    },
    /// Two steps write it.
    #[error(
        "byte {byte} of buffer {buffer} is written by chunk {} of operator {} and by chunk {} of operator {}",
        writers[0].chunk, writers[0].operator, writers[1].chunk, writers[1].operator
    )]
    WrittenTwice {
        /// The buffer.
        buffer: BufferId,
        /// The first such byte.
        byte: u64,
        /// Both steps.
        writers: [Step; 2],
    },
    /// Another tenant's value, without saying so.
    #[error("chunk {} of operator {} reads a result of tenant {writer}, which is not among its tenant's sources", reader.chunk, reader.operator)]
    NoSource {
        /// The reading step.
        reader: Step,
        /// Whose value it is.
        writer: TenantId,
    },
    /// The writer is not ordered before the reader.
    #[error(
        "in frame {frame}, chunk {} of operator {} reads what chunk {} of operator {} writes, and does not wait for it",
        reader.chunk, reader.operator, writer.chunk, writer.operator
    )]
    NotBefore {
        /// The frame of the cycle.
        frame: usize,
        /// The reading step.
        reader: Step,
        /// The writing step.
        writer: Step,
    },
    /// A result with bytes that its tenant does not write.
    #[error("result {port} of tenant {tenant} has a byte ({byte} of buffer {buffer}) that the tenant does not write")]
    Result {
        /// The tenant.
        tenant: TenantId,
        /// Which of its outputs.
        port: usize,
        /// The buffer.
        buffer: BufferId,
        /// The first such byte.
        byte: u64,
    },
}

/// Bytes written by one step.
#[derive(Clone, Copy)]
struct Write {
    start: u64,
    end: u64,
    step: u32,
}

/// A step that must be ordered with a reading one.
#[derive(Clone, Copy)]
struct Dependency {
    writer: u32,
    /// Either order is right: the memory is persistent.
    either: bool,
}

/// Who reads and writes what, in all frames.
pub(super) struct Accesses<'a> {
    steps: &'a Steps,
    /// Dependencies of step `s` are `dependencies[first[s]..first[s + 1]]`.
    first: Vec<u32>,
    dependencies: Vec<Dependency>,
    /// Arena buffers each operator touches, ascending.
    pub(super) arena_buffers: Vec<Vec<BufferId>>,
}

/// Storing a run or a dependency costs as much as this many steps over one.
const STORED: u64 = 16;

impl<'a> Accesses<'a> {
    /// Finds all accesses of a plan whose references, shapes and chunks are checked.
    pub(super) fn of(plan: &Plan, steps: &'a Steps, work: &mut Work) -> Result<Accesses<'a>, CheckError> {
        let writes = Writes::of(plan, steps, work)?;
        let mut accesses = Accesses {
            steps,
            first: vec![0],
            dependencies: Vec::new(),
            arena_buffers: Vec::with_capacity(plan.operators.len()),
        };
        // The last reader that found each writer, so that a pair is stored once.
        let mut found_by = vec![u32::MAX; steps.count()];
        for (o, operator) in plan.operators.iter().enumerate() {
            let mut arena = Vec::new();
            for (c, chunk) in operator.chunks.iter().enumerate() {
                let reader = steps.number(o, c);
                for (view, region) in inputs(operator, chunk) {
                    let either = match plan.buffers[view.buffer.index()].space {
                        Space::Arena { .. } => false,
                        Space::Output { .. } => false,
                        Space::Persistent { .. } => true,
                        Space::Input { .. } | Space::Camera(_) | Space::Weights(_) => continue,
                    };
                    let mut depend = |writer: u32| -> Result<(), CheckError> {
                        if std::mem::replace(&mut found_by[writer as usize], reader) == reader {
                            return Ok(());
                        }
                        work.spend(STORED)?;
                        let source = plan.operators[steps.step(writer).operator.index()].tenant;
                        let known = source == operator.tenant || plan.tenants[operator.tenant.index()].sources.contains(&source);
                        if !known && !either {
                            let (reader, writer) = (steps.step(reader), source);
                            return Err(ReadError::NoSource { reader, writer }.into());
                        }
                        accesses.dependencies.push(Dependency { writer, either });
                        Ok(())
                    };
                    let Some(runs) = Runs::of(view, Some(&region)) else { continue };
                    let gap = writes.each(view.buffer, &runs, &mut depend)?;
                    work.spend(gap.walked)?;
                    if let Some(byte) = gap.byte {
                        let (reader, buffer) = (steps.step(reader), view.buffer);
                        return Err(ReadError::Unwritten { reader, buffer, byte }.into());
                    }
                }
                accesses.first.push(accesses.dependencies.len() as u32);
            }
            let inputs = operator.calls.iter().flat_map(|c| &c.inputs).filter_map(|i| match i {
                Operand::View(view) => Some(view.buffer),
                Operand::Inner(_) => None,
            });
            let touched = inputs.chain(operator.outputs.iter().map(|v| v.buffer));
            arena.extend(touched.filter(|b| matches!(plan.buffers[b.index()].space, Space::Arena { .. })));
            arena.sort_unstable();
            arena.dedup();
            accesses.arena_buffers.push(arena);
        }
        writes.results(plan, steps, work)?;
        Ok(accesses)
    }

    /// The steps that run in a frame: each one's place and operator.
    pub(super) fn running(&self, plan: &Plan, order: &Order) -> impl Iterator<Item = (Place, usize)> {
        let all = plan.operators.iter().enumerate();
        all.flat_map(|(o, operator)| (0..operator.chunks.len()).map(move |c| (o, c)))
            .filter_map(|(o, c)| Some((order.place(self.steps.number(o, c))?, o)))
    }

    /// Checks that in one frame all pairs are ordered.
    pub(super) fn check(&self, order: &Order) -> Result<(), ReadError> {
        for reader in 0..self.steps.count() as u32 {
            let Some(place) = order.place(reader) else { continue };
            let range = self.first[reader as usize] as usize..self.first[reader as usize + 1] as usize;
            for dependency in &self.dependencies[range] {
                let ordered = match order.place(dependency.writer) {
                    Some(writer) => order.before(writer, place) || (dependency.either && order.before(place, writer)),
                    None => dependency.either,
                };
                if !ordered {
                    return Err(ReadError::NotBefore {
                        frame: order.frame,
                        reader: self.steps.step(reader),
                        writer: self.steps.step(dependency.writer),
                    });
                }
            }
        }
        Ok(())
    }
}

/// The tensors in memory that a chunk reads, with the share of each: what its last primitive needs for the chunk, and so
/// on back through the operator.
fn inputs<'a>(operator: &'a Operator, chunk: &Region) -> Vec<(&'a View, Region)> {
    const NOTHING: Region = Region { batch: 0..0, rows: 0..0 };
    let mut needed = vec![NOTHING; operator.calls.len()];
    if let Some(last) = needed.last_mut() {
        *last = chunk.clone();
    }
    let mut reads = Vec::new();
    for (i, call) in operator.calls.iter().enumerate().rev() {
        for (k, operand) in call.inputs.iter().enumerate() {
            match operand {
                Operand::View(view) => {
                    let share = call.primitive.needs(k, view.layout.shape, call.shape, &needed[i]);
                    reads.push((view, share));
                }
                Operand::Inner(j) => {
                    let inner = usize::from(*j);
                    let share = call.primitive.needs(k, operator.calls[inner].shape, call.shape, &needed[i]);
                    needed[inner] = needed[inner].hull(&share);
                }
            }
        }
    }
    reads
}

/// The share of output `index` that a chunk of the operator's first output writes; `None` for all of it.
fn share(operator: &Operator, chunk: &Region, index: usize) -> Option<Region> {
    let first = operator.outputs[0].layout.shape;
    let last = operator.calls.last().filter(|_| *chunk != Region::whole(first))?;
    Some(last.primitive.writes(index, operator.outputs[index].layout.shape, first, chunk))
}

/// What a walk over written bytes found.
struct Gap {
    /// Steps taken.
    walked: u64,
    /// The first byte that is not written.
    byte: Option<u64>,
}

/// All written bytes of every buffer, ascending, each once.
struct Writes(Vec<Vec<Write>>);

impl Writes {
    fn of(plan: &Plan, steps: &Steps, work: &mut Work) -> Result<Writes, CheckError> {
        let mut writes: Vec<Vec<Write>> = vec![Vec::new(); plan.buffers.len()];
        for (o, operator) in plan.operators.iter().enumerate() {
            for (c, chunk) in operator.chunks.iter().enumerate() {
                let step = steps.number(o, c);
                for (index, view) in operator.outputs.iter().enumerate() {
                    let share = share(operator, chunk, index);
                    let Some(runs) = Runs::of(view, share.as_ref()) else { continue };
                    work.spend(runs.count().saturating_mul(STORED))?;
                    let all = runs.iter().map(|(start, end)| Write { start, end, step });
                    writes[view.buffer.index()].extend(all);
                }
            }
        }
        for (b, writes) in writes.iter_mut().enumerate() {
            writes.sort_unstable_by_key(|w| w.start);
            if let Some(pair) = writes.windows(2).find(|pair| pair[1].start < pair[0].end) {
                return Err(ReadError::WrittenTwice {
                    buffer: BufferId(b as u32),
                    byte: pair[1].start,
                    writers: [steps.step(pair[0].step), steps.step(pair[1].step)],
                }
                .into());
            }
        }
        Ok(Writes(writes))
    }

    /// Calls `found` for the writers of the runs' bytes, up to the first byte that has none.
    fn each<E>(&self, buffer: BufferId, runs: &Runs, found: &mut impl FnMut(u32) -> Result<(), E>) -> Result<Gap, E>
    where
        E: From<TooMuchWork>,
    {
        let writes = &self.0[buffer.index()];
        let at = |byte: u64| writes.partition_point(|w| w.end <= byte);
        // Most tensors are written in one piece: their runs need not be looked at one by one.
        let (low, high) = runs.hull();
        if let Some(write) = writes.get(at(low)).filter(|w| w.start <= low && high <= w.end) {
            found(write.step)?;
            return Ok(Gap { walked: 1, byte: None });
        }
        let mut walked = 0;
        for (start, end) in runs.iter() {
            let mut byte = start;
            for write in &writes[at(start)..] {
                walked += 1;
                if byte >= end || write.start > byte {
                    break;
                }
                found(write.step)?;
                byte = write.end;
            }
            walked += 4;
            if walked > MAX_CHECK_WORK {
                return Err(TooMuchWork.into());
            }
            if byte < end {
                return Ok(Gap { walked, byte: Some(byte) });
            }
        }
        Ok(Gap { walked, byte: None })
    }

    /// Every byte of every result is written by the result's tenant, so that its end makes them all visible.
    fn results(&self, plan: &Plan, steps: &Steps, work: &mut Work) -> Result<(), CheckError> {
        for (t, tenant) in plan.tenants.iter().enumerate() {
            for (port, output) in tenant.outputs.iter().enumerate() {
                let (id, buffer) = (TenantId(t as u16), output.view.buffer);
                let error = |byte| ReadError::Result {
                    tenant: id,
                    port,
                    buffer,
                    byte,
                };
                let Some(runs) = Runs::of(&output.view, None) else { continue };
                let mut own = |writer: u32| -> Result<(), CheckError> {
                    let operator = &plan.operators[steps.step(writer).operator.index()];
                    if operator.tenant == id {
                        Ok(())
                    } else {
                        Err(error(runs.hull().0).into())
                    }
                };
                let gap = self.each(buffer, &runs, &mut own)?;
                work.spend(gap.walked)?;
                if let Some(byte) = gap.byte {
                    return Err(error(byte).into());
                }
            }
        }
        Ok(())
    }
}
