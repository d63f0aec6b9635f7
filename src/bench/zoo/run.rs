//! Networks of the zoo at work: what to run, an engine on it, its times and its results.
//!
//! A frame has two times. The host's goes from submission until the last result is there: on a GPU the launch, the copies of
//! inputs and results, and the wait are in it. The networks' own goes from the start of the first segment to the end of the
//! last, by the stamps of the progress words: nothing but the networks, on the device's clock.

use super::build::Model;
use super::{ALL, Network, find};
use crate::bench::measure::{REST, Samples, TURN, WARM};
use crate::bench::peers::Peer;
use crate::bench::{BenchError, ours};
use crate::board::BoardRecord;
use crate::ids::{SegmentId, TenantId};
use crate::plan::format::Port;
use crate::planner::{self, CompileOptions, Compiled};
use crate::runtime::{Draft, Engine, Options};
use crate::tensor::{DType, Data, Tensor};
use crate::units::Nanos;
use half::f16;
use std::collections::BTreeMap;
use std::time::Instant;

/// Frames that the trace holds; one is looked at as soon as it has ended.
const TRACED: usize = 4;

/// A network with its batch.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The network.
    pub network: Network,
    /// Its batch, at least 1.
    pub batch: u32,
}

/// Networks that run side by side, one tenant each.
#[derive(Clone, Debug)]
pub struct Group {
    /// Their names as they were given, such as `r50+v16:4`.
    pub name: String,
    /// The networks.
    pub members: Vec<Member>,
}

/// A network's outputs by name.
pub type Results = Vec<(String, Tensor)>;

impl Group {
    /// Networks by their short names, joined by `+`, each with an own batch behind a `:`; else `batch`, else its usual one.
    pub fn parse(text: &str, batch: Option<u32>) -> Result<Group, BenchError> {
        let unknown = || BenchError::Network {
            name: text.to_string(),
            known: ALL.map(|n| n.name).join(", "),
        };
        let member = |part: &str| {
            let (name, own) = match part.split_once(':') {
                Some((name, own)) => (name, Some(own.parse().map_err(|_| unknown())?)),
                None => (part, None),
            };
            let network = *find(name).ok_or_else(unknown)?;
            let batch = own.or(batch).unwrap_or(network.batch);
            if batch == 0 {
                Err(unknown())
            } else {
                Ok(Member { network, batch })
            }
        };
        Ok(Group {
            name: text.to_string(),
            members: text.split('+').map(member).collect::<Result<_, _>>()?,
        })
    }

    /// Names of the tenants: the network's, numbered from its second appearance on.
    fn tenants(&self) -> Vec<String> {
        let appearance = |at: usize| {
            let name = self.members[at].network.name;
            match self.members[..at].iter().filter(|m| m.network.name == name).count() {
                0 => name.to_string(),
                before => format!("{name}.{}", before + 1),
            }
        };
        (0..self.members.len()).map(appearance).collect()
    }
}

impl Group {
    /// Compiles the group as one task set. `models` are its networks, in its order.
    pub fn compile(&self, models: Vec<Model>, board: &BoardRecord, options: &CompileOptions) -> Result<Compiled, BenchError> {
        let tenants = self
            .tenants()
            .into_iter()
            .zip(models)
            .map(|(name, model)| (name, model.graph))
            .collect();
        planner::compile_graphs(&self.name, tenants, board, options).map_err(|error| BenchError::Plan {
            name: self.name.clone(),
            error: Box::new(error),
        })
    }
}

/// Times of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Whole frames, on the host's clock.
    pub frame: Vec<Nanos>,
    /// The networks alone, on the device's clock; empty if it was not asked.
    pub networks: Vec<Nanos>,
    /// On the same clock, for each frame when each segment began and ended, from the start of the first.
    pub segments: Vec<Vec<(Nanos, Nanos)>>,
}

/// An engine on one group, with its inputs: on its plan, and on those of other decisions if there are any.
pub struct Zoo {
    engine: Engine,
    /// The task sets that the plans are told apart by.
    plans: Vec<String>,
    inputs: Vec<Tensor>,
}

impl Zoo {
    /// Opens an engine on a compiled group.
    pub fn open(group: &Group, compiled: Compiled, board: &BoardRecord, options: &Options) -> Result<Zoo, BenchError> {
        let all = std::iter::once(&compiled.plan).chain(&compiled.rivals);
        let segments = all.flat_map(|p| &p.cycle).map(|f| f.segments.len()).max().unwrap_or(0);
        let inputs = group.members.iter().zip(&compiled.plan.tenants).map(|(member, tenant)| {
            let dtype = tenant.inputs.first().map(|port| port.view.dtype);
            stored(member.network.data(member.batch), dtype)
        });
        let inputs = inputs.collect();
        let compiled = ours::apart(compiled);
        let plans = compiled.iter().map(|c| c.plan.task_set.clone()).collect();
        let deployment = ours::deployment(compiled, board)?;
        let options = Options {
            trace: segments * TRACED,
            ..options.clone()
        };
        Ok(Zoo {
            engine: Engine::with(deployment, &options)?,
            plans,
            inputs,
        })
    }

    /// Lets the frames that follow run by the plan (0) or one of its rivals, in their order (from 1).
    pub fn select(&mut self, plan: usize) -> Result<(), BenchError> {
        Ok(self.engine.select(&self.plans[plan])?)
    }

    /// Runs frames one after another: `warm` uncounted ones, then `count` of which the times are returned. Inputs are in
    /// place before the clock is read.
    pub fn run(&mut self, warm: usize, count: usize) -> Result<Times, BenchError> {
        let mut times = Times::default();
        for run in 0..warm + count {
            let draft = self.draft()?;
            let frame = draft.frame();
            let start = Instant::now();
            let ticket = draft.submit()?;
            self.engine.wait(&ticket, None)?;
            let time = start.elapsed();
            self.engine.release(ticket)?;
            if run >= warm {
                times.frame.push(Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
                let segments = self.segments(frame);
                times.networks.extend(segments.iter().map(|(_, end)| *end).max());
                times.segments.push(segments);
            }
        }
        Ok(times)
    }

    /// When each segment of a frame began and ended, from the start of the first; none where nothing was traced.
    fn segments(&self, frame: u64) -> Vec<(Nanos, Nanos)> {
        let mut seen: BTreeMap<SegmentId, (u64, u64)> = BTreeMap::new();
        self.engine.trace(|event| {
            if event.frame == frame {
                seen.insert(event.segment, (event.start, event.end));
            }
        });
        let first = seen.values().map(|(start, _)| *start).min().unwrap_or(0);
        let since = |at: u64| Nanos(at.saturating_sub(first));
        seen.values().map(|&(start, end)| (since(start), since(end))).collect()
    }

    /// Runs a frame: the results of each tenant.
    pub fn results(&mut self) -> Result<Vec<Results>, BenchError> {
        let ticket = self.draft()?.submit()?;
        self.engine.wait(&ticket, None)?;
        let mut all = Vec::with_capacity(self.inputs.len());
        for tenant in 0..self.inputs.len() {
            let result = self.engine.result(&ticket, TenantId(tenant as u16))?;
            let tensor = |(port, bytes): (&Port, &[u8])| {
                let tensor = Tensor::from_bytes(port.view.dtype, port.view.layout.shape, bytes)?;
                Some((port.name.clone(), tensor))
            };
            all.push(result.tensors().filter_map(tensor).collect());
        }
        self.engine.release(ticket)?;
        Ok(all)
    }

    /// A frame with its inputs in place.
    fn draft(&mut self) -> Result<Draft<'_>, BenchError> {
        let mut draft = self.engine.begin()?;
        for (tenant, input) in self.inputs.iter().enumerate() {
            draft.copy_input(TenantId(tenant as u16), 0, input.bytes())?;
        }
        Ok(draft)
    }

    /// Stops the engine.
    pub fn close(self) {
        self.engine.close();
    }
}

/// A tensor as its port stores it: f32 data of an f16 port is rounded.
fn stored(tensor: Tensor, dtype: Option<DType>) -> Tensor {
    let rounded = match (tensor.as_f32(), dtype) {
        (Some(data), Some(DType::F16)) => Tensor::new(tensor.shape(), Data::F16(data.iter().map(|&x| f16::from_f32(x)).collect())),
        _ => None,
    };
    rounded.unwrap_or(tensor)
}

/// What a side took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Whole frames, on the host's clock.
    pub frame: Samples,
    /// The networks alone, on the device's clock; empty if there is none.
    pub networks: Samples,
}

impl Side {
    /// The networks alone; whole frames of a side that has no device.
    pub fn device(&self) -> &Samples {
        if self.networks.count() > 0 { &self.networks } else { &self.frame }
    }

    /// Adds frames.
    pub fn add(&mut self, times: Times) {
        self.frame.extend(times.frame);
        self.networks.extend(times.networks);
    }
}

/// Runs `frames` counted frames of each side in turns: our times, and the peer's. `progress` gets the number of those done.
pub fn compare(
    ours: &mut Zoo,
    mut peer: Option<&mut Peer>,
    frames: usize,
    mut progress: impl FnMut(usize),
) -> Result<(Side, Option<Side>), BenchError> {
    let mut own = Side::default();
    let mut other = peer.as_ref().map(|_| Side::default());
    let mut done = 0;
    while done < frames {
        let count = TURN.min(frames - done);
        own.add(ours.run(WARM, count)?);
        if let (Some(peer), Some(side)) = (&mut peer, &mut other) {
            std::thread::sleep(REST);
            let (frame, networks) = peer.run_zoo(WARM, count)?;
            side.add(Times {
                frame,
                networks: networks.unwrap_or_default(),
                segments: Vec::new(),
            });
            std::thread::sleep(REST);
        }
        done += count;
        progress(done);
    }
    Ok((own, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_name_networks_and_batches() {
        let group = Group::parse("r50+v16:4+r50", None).unwrap();
        let batches: Vec<u32> = group.members.iter().map(|m| m.batch).collect();
        assert_eq!(batches, [8, 4, 8]);
        assert_eq!(group.tenants(), ["r50", "v16", "r50.2"]);
        let batches: Vec<u32> = Group::parse("r50+v16:4", Some(2))
            .unwrap()
            .members
            .iter()
            .map(|m| m.batch)
            .collect();
        assert_eq!(batches, [2, 4]);
        for wrong in ["", "r51", "r50:", "r50:0", "r50:-1", "r50+"] {
            let error = Group::parse(wrong, None).unwrap_err().to_string();
            assert!(error.contains("d121"), "{wrong}: {error}");
        }
    }
}
