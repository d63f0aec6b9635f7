//! The memory that an engine holds once it is open, worked out from its plans alone: what `platoon inspect` predicts and the
//! tests of size hold a process to.

use super::format::{Digest, Plan};
use crate::board::BackendKind;
use std::collections::BTreeMap;

/// Bytes by what they are for. All are touched when the engine opens, and none come later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Of the process.
    pub host: Vec<(&'static str, u64)>,
    /// Of the GPU; where it shares the host's memory, `slots` of it are the host's.
    pub device: Vec<(&'static str, u64)>,
}

/// Bytes of tables that a backend keeps for an operator, a chunk or a segment: measured, they vary by a few hundred.
const PER_ENTRY: u64 = 1 << 10;

impl Footprint {
    /// Of an engine with these plans and so many slots.
    pub fn of(plans: &[&Plan], slots: u16, backend: BackendKind) -> Footprint {
        let most = |bytes: fn(&Plan) -> u64| plans.iter().map(|p| bytes(p)).max().unwrap_or(0);
        let images = plans.first().map_or(0, |p| sum(p.cameras.iter().map(|c| c.bytes)));
        let slot = images
            .saturating_add(most(|p| p.input_bytes))
            .saturating_add(most(|p| p.output_bytes));
        let slots = slot.saturating_mul(slots.into());
        let persistent = sum(plans.iter().map(|p| p.persistent_bytes));
        let files: BTreeMap<Digest, u64> = plans.iter().flat_map(|p| &p.weight_files).map(|w| (w.digest, w.bytes)).collect();
        let weights = sum(files.into_values());
        let tables = sum(plans.iter().map(|p| entries(p))).saturating_mul(PER_ENTRY);
        // Each camera's newest image, where its slot is written anew, and each tenant's latest result.
        let kept = images.saturating_add(most(|p| p.output_bytes));
        let arena = most(|p| p.arena_bytes);
        let (mut host, mut device) = (
            vec![
                ("slots", slots),
                ("weight files", weights),
                ("kept frames", kept),
                ("tables", tables),
            ],
            Vec::new(),
        );
        let working = [("arena", arena), ("persistent buffers", persistent), ("packed weights", weights)];
        match backend {
            BackendKind::Cpu => host.extend(working),
            BackendKind::Cuda => {
                device.extend(working);
                device.push(("slots", slots));
            }
        }
        Footprint { host, device }
    }

    /// Bytes of the process.
    pub fn host_bytes(&self) -> u64 {
        sum(self.host.iter().map(|e| e.1))
    }

    /// Bytes of the GPU's memory.
    pub fn device_bytes(&self) -> u64 {
        sum(self.device.iter().map(|e| e.1))
    }
}

/// What tables have entries for.
fn entries(plan: &Plan) -> u64 {
    let chunks: usize = plan.operators.iter().map(|o| 1 + o.chunks.len()).sum();
    let steps: usize = plan.cycle.iter().flat_map(|c| &c.segments).map(|s| 1 + s.steps.len()).sum();
    (chunks + plan.buffers.len() + steps) as u64
}

fn sum(bytes: impl IntoIterator<Item = u64>) -> u64 {
    bytes.into_iter().fold(0, u64::saturating_add)
}
