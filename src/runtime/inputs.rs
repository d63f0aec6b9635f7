//! Tensor inputs on their way into a slot: written by the host, or given in the device's memory. Unlike images, they must come anew
//! in every frame in which their tenant runs.

use super::result::Place;
use crate::backend::{DeviceBytes, Prepared};
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
    /// Room for the inputs of any of the plans, each given as places of its tenants' inputs.
    pub(super) fn new<'a>(plans: impl Iterator<Item = &'a [Vec<Place>]> + Clone) -> Inputs {
        let tenants = plans.clone().map(<[_]>::len).max().unwrap_or(0);
        let ports = |t: usize| plans.clone().filter_map(|inputs| inputs.get(t).map(Vec::len)).max().unwrap_or(0);
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

    /// Notes what the draft has of an input.
    pub(super) fn set(&mut self, tenant: TenantId, port: usize, input: Input) {
        if let Some(known) = self.0.get_mut(tenant.index()).and_then(|ports| ports.get_mut(port)) {
            *known = input;
        }
    }

    /// Before a frame is submitted: has the inputs of `tenants`, but for those that do not compute (`skip`), brought to the slot where
    /// any of a tenant's were given in the device's memory. The set of these tenants.
    pub(super) fn send(
        &self,
        prepared: &mut dyn Prepared,
        slot: SlotId,
        tenants: &[TenantId],
        places: &[Vec<Place>],
        skip: u32,
    ) -> Result<u32, RunError> {
        let mut sent = 0;
        for &tenant in tenants {
            let places = places.get(tenant.index()).map_or(&[][..], |places| places);
            let inputs = self.of(tenant, places.len());
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

/// An input that cannot be taken.
pub(super) fn refused(port: usize) -> RunError {
    RunError::Input(u16::try_from(port).unwrap_or(u16::MAX))
}
