//! Which bytes of a slot's inputs and results are a tenant's: what is copied at the ends of a frame.

use crate::ids::TenantId;
use crate::plan::format::{Plan, Port, Space};

/// Offsets of buffers are multiples of this; gaps below it are padding.
const ALIGN: u64 = 64;

/// Bytes of a slot's inputs or results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    /// The first.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// The tenant's tensor inputs, neighbours merged.
pub fn inputs(plan: &Plan, tenant: TenantId) -> Vec<Stretch> {
    merged(plan, &plan.tenants[tenant.index()].inputs, |space| match space {
        Space::Input { offset } => Some(offset),
        _ => None,
    })
}

/// The tenant's results, neighbours merged.
pub fn outputs(plan: &Plan, tenant: TenantId) -> Vec<Stretch> {
    merged(plan, &plan.tenants[tenant.index()].outputs, |space| match space {
        Space::Output { offset } => Some(offset),
        _ => None,
    })
}

fn merged(plan: &Plan, ports: &[Port], offset: impl Fn(Space) -> Option<u64>) -> Vec<Stretch> {
    let buffers = ports.iter().map(|p| &plan.buffers[p.view.buffer.index()]);
    let mut found: Vec<Stretch> = buffers
        .filter_map(|b| {
            let offset = offset(b.space)?;
            Some(Stretch { offset, bytes: b.bytes })
        })
        .filter(|s| s.bytes > 0)
        .collect();
    found.sort_unstable();
    let mut merged: Vec<Stretch> = Vec::new();
    for next in found {
        match merged.last_mut() {
            // Buffers of one plan do not overlap (P5); what lies between neighbours is padding.
            Some(last) if next.offset <= (last.offset + last.bytes).next_multiple_of(ALIGN) => {
                last.bytes = last.bytes.max(next.offset + next.bytes - last.offset);
            }
            _ => merged.push(next),
        }
    }
    merged
}
