//! Tensor inputs on their way into a slot: written by the host, or given in the device's memory. Unlike images, they must come anew
//! in every frame in which their tenant runs.

use super::engine::{Engine, PlanFacts};
use super::frame::Draft;
use super::result::Place;
use crate::backend::DeviceBytes;
use crate::error::RunError;
use crate::ids::{SlotId, TenantId};

/// What a draft has of a tensor input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing.
    Missing,
    /// The host has written it, or is about to.
    Written,
    /// It lies in the device's memory.
    Given(DeviceBytes),
}

/// The tensor inputs of a draft, by tenant and port of the active plan.
pub(super) struct Inputs(Vec<Vec<Input>>);

impl Inputs {
    /// Room for the inputs of any of the plans.
    pub(super) fn new(facts: &[PlanFacts]) -> Inputs {
        let tenants = facts.iter().map(|f| f.inputs.len()).max().unwrap_or(0);
        let ports = |t: usize| facts.iter().filter_map(|f| f.inputs.get(t).map(Vec::len)).max().unwrap_or(0);
        Inputs((0..tenants).map(|t| vec![Input::Missing; ports(t)]).collect())
    }

    /// Forgets what an earlier draft had.
    pub(super) fn forget(&mut self) {
        self.0.iter_mut().for_each(|ports| ports.fill(Input::Missing));
    }

    /// The first `count` of a tenant's.
    pub(super) fn of(&self, tenant: TenantId, count: usize) -> &[Input] {
        let ports = self.0.get(tenant.index()).map_or(&[][..], |ports| ports);
        &ports[..count.min(ports.len())]
    }

    fn set(&mut self, tenant: TenantId, port: usize, input: Input) {
        if let Some(known) = self.0.get_mut(tenant.index()).and_then(|ports| ports.get_mut(port)) {
            *known = input;
        }
    }
}

impl Draft<'_> {
    /// The memory of a tensor input: C order, native endian. It must be written anew in every frame in which the tenant
    /// runs; a tenant of which this was called for some inputs only, or none, has no input.
    pub fn input_mut(&mut self, tenant: TenantId, port: usize) -> Result<&mut [u8], RunError> {
        let (engine, slot) = self.parts();
        let Place { offset, bytes } = engine.input_place(tenant, port)?;
        engine.inputs.set(tenant, port, Input::Written);
        engine.prepared_mut()?.input_mut(slot, offset, bytes)
    }

    /// Copies a tensor input. [`RunError::Input`] if the number of bytes is not the input's.
    pub fn copy_input(&mut self, tenant: TenantId, port: usize, data: &[u8]) -> Result<(), RunError> {
        let room = self.input_mut(tenant, port)?;
        if room.len() == data.len() {
            room.copy_from_slice(data);
            return Ok(());
        }
        self.parts().0.inputs.set(tenant, port, Input::Missing);
        Err(refused(port))
    }

    /// Gives a tensor input in the memory of the device, as long as the input or longer: it is copied there when the frame begins,
    /// and must stay until the frame has ended. Other inputs of the tenant may come from the host. [`RunError::Input`] if it has too
    /// few bytes or is not in memory of the device; on a backend without a device, always.
    pub fn set_device_input(&mut self, tenant: TenantId, port: usize, input: DeviceBytes) -> Result<(), RunError> {
        let (engine, _) = self.parts();
        let needed = engine.input_place(tenant, port)?.bytes as u64;
        let enough = input.bytes >= needed;
        let input = DeviceBytes { bytes: needed, ..input };
        engine.inputs.set(tenant, port, Input::Missing);
        if !enough || !engine.prepared()?.is_in_device(input)? {
            return Err(refused(port));
        }
        engine.inputs.set(tenant, port, Input::Given(input));
        Ok(())
    }
}

impl Engine {
    fn input_place(&self, tenant: TenantId, port: usize) -> Result<Place, RunError> {
        let inputs = self.facts[self.active.index()].inputs.get(tenant.index());
        Ok(*inputs.ok_or(RunError::Unknown)?.get(port).ok_or(RunError::Unknown)?)
    }

    /// Before a frame is submitted: has the inputs of the tenants that compute, and are given any in the device's memory, brought to
    /// the slot. The set of these tenants.
    pub(super) fn send_inputs(&mut self, slot: SlotId, schedule: usize, skip: u32) -> Result<u32, RunError> {
        let (plan, facts) = (&self.deployment.plans[self.active.index()], &self.facts[self.active.index()]);
        let prepared = self.prepared.as_deref_mut().ok_or(RunError::State)?;
        let mut sent = 0;
        for &tenant in &plan.cycle[schedule].tenants {
            let places = facts.inputs.get(tenant.index()).map_or(&[][..], |places| places);
            let inputs = self.inputs.of(tenant, places.len());
            let given = inputs.iter().any(|input| matches!(input, Input::Given(_)));
            if !given || skip >> tenant.0 & 1 != 0 {
                continue;
            }
            for (port, (input, place)) in inputs.iter().zip(places).enumerate() {
                let from = match input {
                    Input::Given(from) => Some(*from),
                    _ => None,
                };
                if !prepared.send_input(slot, place.offset, place.bytes, from)? {
                    // What the caller calls an event is none: nothing has come of it.
                    return Err(refused(port));
                }
            }
            sent |= 1 << tenant.0;
        }
        Ok(sent)
    }
}

fn refused(port: usize) -> RunError {
    RunError::Input(u16::try_from(port).unwrap_or(u16::MAX))
}
