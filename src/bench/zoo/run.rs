//! Networks of the zoo at work: what to run, an engine on it, and turns with the peer.

use super::ALL;
use super::build::Model;
use super::member::Member;
use crate::bench::BenchError;
use crate::bench::measure::{REST, TURN, WARM};
use crate::bench::peers::Peer;
use crate::bench::stage::{Inputs, Side, Stage, Times};
use crate::board::BoardRecord;
use crate::planner::{self, CompileOptions, Compiled};
use crate::runtime::Options;
use std::path::PathBuf;

/// Networks that run side by side, one tenant each.
#[derive(Clone, Debug)]
pub struct Group {
    /// Their names as they were given, such as `r50+v16:4`.
    pub name: String,
    /// The networks.
    pub members: Vec<Member>,
}

impl Group {
    /// Networks by their short names or ONNX files, joined by `+`, each with an own batch behind a `:`; else `batch`, else its usual one.
    pub fn parse(text: &str, batch: Option<u32>) -> Result<Group, BenchError> {
        let members: Option<Vec<Member>> = text.split('+').map(|part| Member::parse(part, batch)).collect();
        let members = members.ok_or_else(|| BenchError::Network {
            name: text.to_string(),
            known: ALL.map(|n| n.name).join(", "),
        })?;
        Ok(Group {
            name: text.to_string(),
            members,
        })
    }

    /// Their graphs.
    pub fn models(&self) -> Result<Vec<Model>, BenchError> {
        self.members.iter().map(Member::model).collect()
    }

    /// What PyTorch runs, with batches. The error is a program that is not there.
    pub fn programs(&self) -> Result<Vec<(String, u32)>, PathBuf> {
        self.members.iter().map(|m| Ok((m.program()?, m.batch))).collect()
    }

    /// Names of the tenants: the network's, numbered from its second appearance on.
    fn tenants(&self) -> Vec<String> {
        let appearance = |at: usize| {
            let name = self.members[at].name();
            match self.members[..at].iter().filter(|m| m.name() == name).count() {
                0 => name,
                before => format!("{name}.{}", before + 1),
            }
        };
        (0..self.members.len()).map(appearance).collect()
    }
}

impl Group {
    /// Compiles the group's networks as one task set.
    pub fn plan(&self, board: &BoardRecord, options: &CompileOptions) -> Result<Compiled, BenchError> {
        self.compile(self.models()?, board, options)
    }

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

impl Group {
    /// Opens an engine on the compiled group with the networks' seeded data.
    pub fn open(&self, compiled: Compiled, board: &BoardRecord, options: &Options) -> Result<Stage, BenchError> {
        let inputs = self.inputs(&compiled);
        Stage::open(compiled, inputs, board, options)
    }

    /// The networks' seeded data for a compiled group.
    pub fn inputs(&self, compiled: &Compiled) -> Inputs {
        let tenants = self.members.iter().zip(&compiled.plan.tenants).enumerate();
        let tensors = tenants.flat_map(|(tenant, (member, record))| {
            let ports = member.inputs(record).into_iter();
            ports.map(move |(port, bytes)| (tenant, port, bytes))
        });
        Inputs {
            tensors: tensors.collect(),
            ..Inputs::default()
        }
    }
}

/// Runs `frames` counted frames of each side in turns: our times, and the peer's. `progress` gets the number of those done.
pub fn compare(
    ours: &mut Stage,
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
            let (frame, networks) = peer.run_zoo(0, WARM, count)?;
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
