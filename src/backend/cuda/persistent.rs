//! Persistent buffers of tenants that have no input in a frame.
//!
//! A graph computes every tenant that is due, whether its input is there or not: its results are not read then. But what
//! survives the frame must be as if the tenant had not run. So a frame with such a tenant is put between two copies: its
//! persistent buffers are saved before the frame and put back after it, in the order of the root.

use super::error::CudaError;
use super::memory::Account;
use super::ports::Stretch;
use super::raw::{DeviceMemory, DriverError, Stream};
use crate::ids::TenantId;
use crate::plan::format::{Plan, Space};
use std::collections::BTreeSet;

/// A plan's persistent buffers by tenant, and room to save them.
pub struct Guard {
    tenants: Vec<Vec<Stretch>>,
    /// Tenants that have any.
    having: u32,
    room: DeviceMemory,
}

impl Guard {
    /// Takes the room.
    pub fn new(plan: &Plan, account: &mut Account) -> Result<Guard, CudaError> {
        let mut tenants: Vec<BTreeSet<Stretch>> = vec![BTreeSet::new(); plan.tenants.len()];
        for operator in &plan.operators {
            for view in &operator.outputs {
                let buffer = &plan.buffers[view.buffer.index()];
                if let Space::Persistent { offset } = buffer.space {
                    let bytes = buffer.bytes;
                    tenants[operator.tenant.index()].insert(Stretch { offset, bytes });
                }
            }
        }
        let having = tenants.iter().enumerate().filter(|(_, s)| !s.is_empty());
        Ok(Guard {
            having: having.fold(0, |set, (t, _)| set | 1 << t),
            tenants: tenants.into_iter().map(|s| s.into_iter().collect()).collect(),
            room: account.device("persistent buffers", plan.persistent_bytes)?,
        })
    }

    /// Before a frame in which the tenants of the bit set `skip` have no input: saves their buffers in `persistent`.
    pub fn save(&self, skip: u32, persistent: &DeviceMemory, root: &Stream) -> Result<(), DriverError> {
        self.stretches(skip)
            .try_for_each(|s| persistent.copy_to(&self.room, s.offset, s.bytes, root))
    }

    /// After the frame: puts them back.
    pub fn restore(&self, skip: u32, persistent: &DeviceMemory, root: &Stream) -> Result<(), DriverError> {
        self.stretches(skip)
            .try_for_each(|s| self.room.copy_to(persistent, s.offset, s.bytes, root))
    }

    fn stretches(&self, skip: u32) -> impl Iterator<Item = &Stretch> {
        let skip = skip & self.having;
        let tenants = self.tenants.iter().enumerate();
        tenants
            .filter(move |&(t, _)| TenantId::from_index(t).is_some_and(|t| skip >> t.0 & 1 != 0))
            .flat_map(|(_, stretches)| stretches)
    }
}
