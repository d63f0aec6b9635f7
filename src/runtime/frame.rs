//! One frame on its way in: a slot is taken, filled, submitted, and in the end released.

use super::engine::Engine;
use super::images::{Image, ImageHeader};
use super::inputs::{self, Input};
use super::lifecycle::State;
use super::result::Place;
use super::slot::{Held, Stage, Ticket};
use crate::backend::cpu::arena::ImageParams;
use crate::backend::{DeviceBytes, Job};
use crate::error::{ImageFault, RunError};
use crate::ids::{CameraId, SlotId, TenantId};

/// A frame being filled. Dropped without [`Draft::submit`], it leaves everything as it was.
#[must_use = "a draft does nothing before it is submitted"]
pub struct Draft<'a> {
    engine: &'a mut Engine,
    slot: SlotId,
    sent: bool,
}

impl Draft<'_> {
    /// The number the frame will have.
    pub fn frame(&self) -> u64 {
        self.engine.next_frame
    }

    /// The camera's image memory, to be written in place and then described with [`Draft::set_image`]; as many bytes as
    /// its largest image has.
    pub fn image_mut(&mut self, camera: CameraId) -> Result<&mut [u8], RunError> {
        self.engine.keep_newest(self.slot, camera)?;
        self.engine.prepared_mut()?.image_mut(self.slot, camera)
    }

    /// Says that the camera's image is in place. [`RunError::Image`] if it does not fit the camera.
    pub fn set_image(&mut self, camera: CameraId, header: ImageHeader) -> Result<(), RunError> {
        let (params, _) = self.engine.newest.check(camera, &header, self.frame())?;
        self.engine.keep_newest(self.slot, camera)?;
        self.engine.prepared_mut()?.set_params(self.slot, camera, params)?;
        self.engine.slots.get_mut(self.slot).given |= 1 << camera.0;
        Ok(())
    }

    /// Copies an image. [`RunError::Image`] if it does not fit the camera or has too few bytes.
    pub fn copy_image(&mut self, camera: CameraId, image: &Image<'_>) -> Result<(), RunError> {
        let (params, bytes) = self.engine.newest.check(camera, &image.header(), self.frame())?;
        let data = image.data.get(..bytes).ok_or_else(|| too_short(camera, image, bytes))?;
        self.engine.keep_newest(self.slot, camera)?;
        self.engine.write_image(self.slot, camera, params, data)
    }

    /// Gives an image in the memory of the device: it is copied there when the frame begins, and must stay until the frame has
    /// ended. [`RunError::Image`] if it does not fit the camera, has too few bytes, or is not in memory of the device; on a backend
    /// without a device, always.
    pub fn set_device_image(&mut self, camera: CameraId, header: ImageHeader, image: DeviceBytes) -> Result<(), RunError> {
        self.set_image(camera, header)?;
        let given = self.engine.prepared_mut()?.set_device_image(self.slot, camera, image);
        if given.is_err() {
            self.engine.slots.get_mut(self.slot).given &= !(1 << camera.0);
        }
        given
    }

    /// The memory of a tensor input: C order, native endian. It must be written anew in every frame in which the tenant
    /// runs; a tenant of which this was called for some inputs only, or none, has no input.
    pub fn input_mut(&mut self, tenant: TenantId, port: usize) -> Result<&mut [u8], RunError> {
        let (engine, slot) = (&mut *self.engine, self.slot);
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
        self.engine.inputs.set(tenant, port, Input::Missing);
        Err(inputs::refused(port))
    }

    /// Gives a tensor input in the memory of the device, as long as the input or longer: it is copied there when the frame begins,
    /// and must stay until the frame has ended. Other inputs of the tenant may come from the host. [`RunError::Input`] if it has too
    /// few bytes or is not in memory of the device; on a backend without a device, always.
    pub fn set_device_input(&mut self, tenant: TenantId, port: usize, input: DeviceBytes) -> Result<(), RunError> {
        let engine = &mut *self.engine;
        let needed = engine.input_place(tenant, port)?.bytes as u64;
        let enough = input.bytes >= needed;
        let input = DeviceBytes { bytes: needed, ..input };
        engine.inputs.set(tenant, port, Input::Missing);
        if !enough || !engine.prepared()?.is_in_device(input)? {
            return Err(inputs::refused(port));
        }
        engine.inputs.set(tenant, port, Input::Given(input));
        Ok(())
    }

    /// Sets the draft aside, so that the engine can be used while its images are being written. [`Engine::resume`] gives it
    /// back; until then no other frame can be begun.
    pub fn hold(mut self) -> Held {
        self.sent = true;
        self.engine.slots.hold(self.slot)
    }

    /// Submits the frame. Waits for nothing.
    pub fn submit(mut self) -> Result<Ticket, RunError> {
        let ticket = self.engine.launch(self.slot)?;
        self.sent = true;
        Ok(ticket)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.sent {
            self.engine.slots.set_free(self.slot);
        }
    }
}

/// An image with fewer bytes than its header asks for.
fn too_short(camera: CameraId, image: &Image<'_>, needed: usize) -> RunError {
    let (found, needed) = (image.data.len() as u64, needed as u64);
    RunError::Image(camera, ImageFault::Bytes { found, needed })
}

impl Engine {
    /// Takes a slot for the next frame. [`RunError::Busy`] if there is none, [`RunError::State`] while a draft is held;
    /// after a change of the task set it waits for the frames in flight.
    pub fn begin(&mut self) -> Result<Draft<'_>, RunError> {
        self.lifecycle.usable()?;
        self.advance()?;
        if self.slots.is_drafting() {
            return Err(RunError::State);
        }
        self.slots.free()?;
        self.switch()?;
        let slot = self.slots.free()?;
        self.slots.take(slot);
        self.inputs.forget();
        Ok(Draft {
            engine: self,
            slot,
            sent: false,
        })
    }

    /// Takes up a draft that was set aside. [`RunError::Ticket`] if it is another engine's.
    pub fn resume(&mut self, held: Held) -> Result<Draft<'_>, RunError> {
        self.lifecycle.usable()?;
        let slot = self.slots.unhold(held)?;
        Ok(Draft {
            engine: self,
            slot,
            sent: false,
        })
    }

    /// Submits a frame: one entry per camera of the table, `None` where the camera has no new image. Images are copied.
    ///
    /// Errors: [`RunError::Busy`] without a free slot, [`RunError::Unknown`] if the number of entries is not the number of
    /// cameras, [`RunError::Image`] for an image that does not fit. None of them changes anything.
    pub fn submit(&mut self, images: &[Option<Image<'_>>]) -> Result<Ticket, RunError> {
        if images.len() != self.newest.cameras.len() {
            return Err(RunError::Unknown);
        }
        let cameras = || {
            images
                .iter()
                .enumerate()
                .filter_map(|(c, i)| Some((CameraId(c as u16), i.as_ref()?)))
        };
        for (camera, image) in cameras() {
            let (_, bytes) = self.newest.check(camera, &image.header(), self.next_frame)?;
            if image.data.len() < bytes {
                return Err(too_short(camera, image, bytes));
            }
        }
        let draft = self.begin()?;
        for (camera, image) in cameras() {
            // Everything was checked, so the newest image in the slot may be overwritten: nothing can go wrong any more.
            let (params, bytes) = draft.engine.newest.check(camera, &image.header(), draft.frame())?;
            draft.engine.write_image(draft.slot, camera, params, &image.data[..bytes])?;
        }
        draft.submit()
    }

    /// Before a slot's image memory is written by hand.
    fn keep_newest(&mut self, slot: SlotId, camera: CameraId) -> Result<(), RunError> {
        self.newest.keep(self.prepared.as_deref().ok_or(RunError::State)?, slot, camera)
    }

    /// Copies an image into the slot and describes it.
    fn write_image(&mut self, slot: SlotId, camera: CameraId, params: ImageParams, data: &[u8]) -> Result<(), RunError> {
        let prepared = self.prepared_mut()?;
        let room = prepared.image_mut(slot, camera)?;
        let bytes = room.len() as u64;
        let room = room.get_mut(..data.len()).ok_or(RunError::Image(
            camera,
            ImageFault::Room {
                room: bytes,
                needed: data.len() as u64,
            },
        ))?;
        room.copy_from_slice(data);
        prepared.set_params(slot, camera, params)?;
        self.slots.get_mut(slot).given |= 1 << camera.0;
        Ok(())
    }

    fn input_place(&self, tenant: TenantId, port: usize) -> Result<Place, RunError> {
        let inputs = self.facts[self.active.index()].inputs.get(tenant.index());
        Ok(*inputs.ok_or(RunError::Unknown)?.get(port).ok_or(RunError::Unknown)?)
    }

    fn launch(&mut self, slot: SlotId) -> Result<Ticket, RunError> {
        let given = self.slots.get(slot).given;
        let prepared = self.prepared.as_deref_mut().ok_or(RunError::State)?;
        let (old, none) = self.newest.complete(prepared, slot, given)?;
        let (plan, frame) = (self.active, self.next_frame);
        let schedule = (frame % self.plan_of(plan).cycle.len().max(1) as u64) as usize;
        let (skip, old) = self.consequences(schedule, old, none);
        self.save_latest_of(slot)?;
        let submitted = self.prepared()?.clock().now();
        let places = &self.facts[plan.index()].inputs;
        let tenants = &self.deployment.plans[plan.index()].cycle[schedule].tenants;
        let prepared = self.prepared.as_deref_mut().ok_or(RunError::State)?;
        let issued = self.inputs.send(prepared, slot, tenants, places, skip).and_then(|sent| {
            prepared.submit(&Job {
                frame,
                slot,
                plan,
                schedule,
                skip,
                sent,
            })
        });
        if let Err(error) = issued {
            return Err(match error {
                RunError::Faulted(fault) => self.fail(fault),
                other => other,
            });
        }
        if self.lifecycle.state() == State::Prepared {
            self.lifecycle.advance(State::Running)?;
        }
        self.newest.remember(slot, given);
        let s = self.slots.get_mut(slot);
        (s.frame, s.plan, s.schedule, s.skip, s.old) = (frame, plan, schedule, skip, old);
        (s.submitted, s.entered) = (submitted, false);
        self.next_frame += 1;
        Ok(self.slots.launch(slot))
    }

    /// From the sets of cameras with an old image and with none: the tenants that cannot compute, and those that compute
    /// from something old. Both pass on to the tenants that read their results.
    fn consequences(&self, schedule: usize, old: u32, none: u32) -> (u32, u32) {
        let plan = self.plan_of(self.active);
        let running = &plan.cycle[schedule].tenants;
        let (mut skip, mut aged) = (0u32, 0u32);
        // A chain of sources is no longer than the tenants are many.
        for _ in 0..running.len() {
            let before = (skip, aged);
            for &t in running {
                let tenant = &plan.tenants[t.index()];
                let inputs = self.inputs.of(t, tenant.inputs.len());
                let any = |set: u32| tenant.cameras.iter().any(|c| set >> c.0 & 1 != 0);
                let source = |set: u32| tenant.sources.iter().any(|s| set >> s.0 & 1 != 0);
                skip |= u32::from(any(none) || source(skip) || inputs.contains(&Input::Missing)) << t.0;
                aged |= u32::from(any(old) || source(aged)) << t.0;
            }
            if before == (skip, aged) {
                break;
            }
        }
        (skip, aged & !skip)
    }

    /// True if the tenant computes in the slot's frame.
    pub(super) fn computes(&self, slot: SlotId, tenant: TenantId) -> bool {
        let s = self.slots.get(slot);
        self.is_due(slot, tenant) && s.skip >> tenant.0 & 1 == 0
    }

    pub(super) fn is_due(&self, slot: SlotId, tenant: TenantId) -> bool {
        let s = self.slots.get(slot);
        self.plan_of(s.plan).cycle[s.schedule].tenants.contains(&tenant)
    }

    /// Gives the slot back. Released before its frame has ended, the frame still runs, and the slot is free afterwards.
    pub fn release(&mut self, ticket: Ticket) -> Result<(), RunError> {
        let slot = self.slots.of(&ticket)?;
        if self.slots.get(slot).stage == Stage::Done {
            self.slots.set_free(slot);
            if self.slots.free() == Ok(slot) && self.lifecycle.usable().is_ok() {
                self.save_latest_of(slot)?;
            }
        } else {
            self.slots.get_mut(slot).released = true;
        }
        Ok(())
    }
}
