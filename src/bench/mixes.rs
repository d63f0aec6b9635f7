//! What is compared: a task set as it runs on board, and its networks alone, which is what a peer computes too.

use super::{BenchError, inputs};
use crate::board::BoardRecord;
use crate::planner::card::Decode;
use crate::planner::tasks::{TaskSetSpec, Tasks, TenantSpec};
use crate::planner::{self, CompileOptions, Compiled};
use crate::task::Rate;
use std::path::PathBuf;

/// A task set to compare.
pub struct Mix {
    /// The task set's name.
    pub name: String,
    /// Its networks, one a tenant, in order.
    pub networks: Vec<Network>,
    /// Batch of networks that leave it open, where they run without cameras.
    batch: Option<u32>,
    tasks: Tasks,
}

/// A network of a task set.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Its model card's name.
    pub model: String,
    /// Its file.
    pub onnx: PathBuf,
    /// Values its input takes: lowest and highest.
    pub range: (f32, f32),
}

/// A task set compiled both ways.
pub struct CompiledMix {
    /// With preparation of camera images and decoding of results.
    pub frame: Compiled,
    /// Tensors in, tensors out.
    pub networks: Compiled,
}

impl Mix {
    /// The task set `name`, with every tenant in every frame and without deadlines: a peer knows neither.
    pub fn of(tasks: &Tasks, name: &str) -> Result<Mix, BenchError> {
        let set = tasks.sets.get(name).ok_or_else(|| BenchError::TaskSet {
            name: name.to_string(),
            known: tasks.sets.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        let network = |t: &TenantSpec| Network {
            model: t.card.name.clone(),
            onnx: t.card.onnx.clone(),
            range: inputs::range(&t.card.input),
        };
        let mut counts: Vec<usize> = set.tenants.iter().map(|t| t.cameras.len().max(1)).collect();
        counts.dedup();
        let frame = TaskSetSpec {
            tenants: set.tenants.iter().map(every_frame).collect(),
        };
        let networks = TaskSetSpec {
            tenants: frame.tenants.iter().map(alone).collect(),
        };
        let mut tasks = tasks.clone();
        tasks.default = name.to_string();
        tasks.sets = [(name.to_string(), frame), (alone_name(name), networks)].into();
        Ok(Mix {
            name: name.to_string(),
            networks: set.tenants.iter().map(network).collect(),
            batch: if let [one] = counts[..] { Some(one as u32) } else { None },
            tasks,
        })
    }

    /// The task set as it runs on board, compiled.
    pub fn compile_frame(&self, board: &BoardRecord, options: &CompileOptions) -> Result<Compiled, BenchError> {
        self.compile_set(&self.name, board, options)
    }

    /// Compiles both.
    pub fn compile(&self, board: &BoardRecord, options: &CompileOptions) -> Result<CompiledMix, BenchError> {
        let pictures = options.batch.or(self.batch);
        let pictures = Some(pictures.ok_or_else(|| BenchError::Batch(self.name.clone()))?);
        let networks = CompileOptions {
            pictures,
            ..options.clone()
        };
        Ok(CompiledMix {
            frame: self.compile_frame(board, options)?,
            networks: self.compile_set(&alone_name(&self.name), board, &networks)?,
        })
    }

    fn compile_set(&self, name: &str, board: &BoardRecord, options: &CompileOptions) -> Result<Compiled, BenchError> {
        planner::compile_task_set(&self.tasks, name, board, options).map_err(|error| BenchError::Plan {
            name: name.to_string(),
            error: Box::new(error),
        })
    }
}

/// The name of the task set of networks alone.
fn alone_name(name: &str) -> String {
    format!("{name}, networks")
}

fn every_frame(tenant: &TenantSpec) -> TenantSpec {
    let mut tenant = tenant.clone();
    tenant.rate = Rate::EVERY_FRAME;
    tenant.urgency.deadline = None;
    tenant
}

fn alone(tenant: &TenantSpec) -> TenantSpec {
    let mut tenant = tenant.clone();
    tenant.cameras = Vec::new();
    tenant.card.decode = Decode::Tensors;
    tenant.card.input.crops = None;
    tenant
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::Searcher;
    use crate::planner::boards;
    use std::path::Path;

    /// `signal` fixes a batch of eight crops, the others leave theirs open or fix it to one.
    #[test]
    fn the_repositorys_task_sets_compile_with_their_networks_alone() {
        let tasks = Tasks::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/tasks.toml")).unwrap();
        let options = CompileOptions {
            searcher: Searcher::Sequential,
            best_effort: true,
            ..CompileOptions::default()
        };
        for name in tasks.sets.keys() {
            let mix = Mix::of(&tasks, name).unwrap();
            let compiled = mix.compile(&boards::load("host").unwrap(), &options).unwrap();
            let batches: Vec<u32> = compiled
                .networks
                .plan
                .tenants
                .iter()
                .map(|t| t.inputs[0].view.layout.shape.dim(0))
                .collect();
            let expected: Vec<u32> = mix.networks.iter().map(|n| if n.model == "signal" { 8 } else { 1 }).collect();
            assert_eq!(batches, expected, "{name}");
        }
    }
}
