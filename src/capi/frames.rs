//! Frames through a session: filled, submitted, waited for, read, released.

use super::guard::types::{Report, Result as View, TenantReport};
use super::session::{Inner, Issued, Session, closed_meanwhile};
use super::status::{Failure, Status};
use crate::backend::DeviceBytes;
use crate::board::BackendKind;
use crate::error::RunError;
use crate::ids::{CameraId, TenantId};
use crate::limits::MAX_CAMERAS;
use crate::runtime::{Draft, FrameReport, Image, ImageHeader};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a waiting thread looks again and again before it sleeps in between.
const SPIN: Duration = Duration::from_micros(100);
/// A sleep between two looks: a result is noticed that much late at most.
const NAP: Duration = Duration::from_micros(50);

/// Numbers of tickets and drafts, unlike in the whole process.
static NEXT: AtomicU64 = AtomicU64::new(1);

fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn tenant_id(tenant: u32) -> Result<TenantId, Failure> {
    u16::try_from(tenant).map(TenantId).map_err(|_| RunError::Unknown.into())
}

fn camera_id(camera: u32) -> Result<CameraId, Failure> {
    u16::try_from(camera).map(CameraId).map_err(|_| RunError::Unknown.into())
}

/// What becomes of a limited wait between two looks at the engine.
struct Patience {
    began: Instant,
    limit: Option<Duration>,
    spin: bool,
}

impl Patience {
    /// Lets a little time pass; [`RunError::Timeout`] when none is left.
    fn rest(&self) -> Result<(), Failure> {
        let waited = self.began.elapsed();
        let left = self.limit.map_or(NAP, |limit| limit.saturating_sub(waited));
        if left.is_zero() {
            return Err(RunError::Timeout.into());
        }
        if self.spin || waited < SPIN {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(NAP.min(left));
        }
        Ok(())
    }
}

impl Session {
    fn patience(&self, limit: Option<Duration>) -> Patience {
        Patience {
            began: Instant::now(),
            limit,
            spin: self.facts.spin,
        }
    }

    /// The engine when a frame can be begun: at once, but for a change of the task set.
    fn enter_to_begin(&self) -> Result<MutexGuard<'_, Inner>, Failure> {
        let patience = self.patience(None);
        loop {
            let mut inner = self.enter()?;
            if inner.draft.is_some() {
                let what = "a draft is open: submit or drop it first";
                return Err(Failure::new(Status::State, format_args!("{what}")));
            }
            if !inner.engine()?.waits_to_switch()? {
                return Ok(inner);
            }
            drop(inner);
            patience.rest()?;
        }
    }

    /// Refuses another number of images than there are cameras, before any of them is read. A number that no table has is left to
    /// whoever looks at the array: it is no argument at all.
    pub(super) fn takes(&self, images: u32) -> Result<(), Failure> {
        match self.names.cameras.len() {
            cameras if cameras == images as usize || images as usize > MAX_CAMERAS => Ok(()),
            cameras => Err(Failure::new(
                Status::Unknown,
                format_args!("{images} images for {cameras} cameras: give one entry for each"),
            )),
        }
    }

    /// Copies images and submits the frame.
    pub(super) fn submit(&self, images: &[Option<Image<'_>>]) -> Result<u64, Failure> {
        let mut inner = self.enter_to_begin()?;
        let ticket = inner.engine()?.submit(images)?;
        inner.issue(ticket)
    }

    /// Takes a slot for a frame that is filled in place.
    pub(super) fn begin(&self) -> Result<u64, Failure> {
        let mut inner = self.enter_to_begin()?;
        let held = inner.engine()?.begin()?.hold();
        let id = next();
        inner.draft = Some((id, held));
        Ok(id)
    }

    /// The camera's image memory of a draft.
    pub(super) fn draft_image(&self, draft: u64, camera: u32) -> Result<(*mut u8, u64), Failure> {
        let camera = camera_id(camera)?;
        self.enter()?.with_draft(draft, |d| d.image_mut(camera).map(place))
    }

    /// Says that a camera's image is in place.
    pub(super) fn draft_set_image(&self, draft: u64, camera: u32, header: ImageHeader) -> Result<(), Failure> {
        let camera = camera_id(camera)?;
        self.enter()?.with_draft(draft, |d| d.set_image(camera, header))
    }

    /// Copies a camera's image.
    pub(super) fn draft_copy_image(&self, draft: u64, camera: u32, image: &Image<'_>) -> Result<(), Failure> {
        let camera = camera_id(camera)?;
        self.enter()?.with_draft(draft, |d| d.copy_image(camera, image))
    }

    /// Gives a camera's image in the GPU's memory.
    pub(super) fn draft_device_image(&self, draft: u64, camera: u32, header: ImageHeader, image: DeviceBytes) -> Result<(), Failure> {
        let camera = camera_id(camera)?;
        self.needs_device("images")?;
        self.enter()?.with_draft(draft, |d| d.set_device_image(camera, header, image))
    }

    fn needs_device(&self, what: &str) -> Result<(), Failure> {
        match self.facts.backend {
            BackendKind::Cuda => Ok(()),
            BackendKind::Cpu => {
                let what = format_args!("the processor's backend reads no {what} in a GPU's memory");
                Err(Failure::new(Status::Argument, what))
            }
        }
    }

    /// Gives a tensor input in the GPU's memory.
    pub(super) fn draft_device_input(&self, draft: u64, tenant: u32, port: u32, input: DeviceBytes) -> Result<(), Failure> {
        let id = tenant_id(tenant)?;
        self.needs_device("tensors")?;
        self.enter()?.with_draft(draft, |d| d.set_device_input(id, port as usize, input))
    }

    /// The memory of a tensor input of a draft.
    pub(super) fn draft_input(&self, draft: u64, tenant: u32, port: u32) -> Result<(*mut u8, u64), Failure> {
        let id = tenant_id(tenant)?;
        self.enter()?.with_draft(draft, |d| d.input_mut(id, port as usize).map(place))
    }

    /// Submits a draft. Refused, the draft is dropped.
    pub(super) fn draft_submit(&self, draft: u64) -> Result<u64, Failure> {
        let mut inner = self.enter()?;
        let ticket = inner.resume(draft)?.submit()?;
        inner.issue(ticket)
    }

    /// Drops a draft: everything is as before it.
    pub(super) fn draft_drop(&self, draft: u64) -> Result<(), Failure> {
        let mut inner = self.enter()?;
        drop(inner.resume(draft)?);
        Ok(())
    }

    /// Waits for the frame's end.
    pub(super) fn wait(&self, ticket: u64, limit: Option<Duration>) -> Result<Report, Failure> {
        let patience = self.patience(limit);
        loop {
            let mut inner = self.enter()?;
            let (engine, issued) = inner.issued(ticket)?;
            if let Some(report) = engine.poll(&issued.ticket)? {
                return Ok(c_report(&report));
            }
            drop(inner);
            patience.rest()?;
        }
    }

    /// Waits for one tenant's result; gives its currency.
    pub(super) fn wait_tenant(&self, ticket: u64, tenant: u32, limit: Option<Duration>) -> Result<u32, Failure> {
        let id = tenant_id(tenant)?;
        let patience = self.patience(limit);
        loop {
            let mut inner = self.enter()?;
            let (engine, issued) = inner.issued(ticket)?;
            match engine.wait_tenant(&issued.ticket, id, Some(Duration::ZERO)) {
                Ok(status) => return Ok(status as u32),
                Err(RunError::Timeout) => {}
                Err(error) => return Err(error.into()),
            }
            drop(inner);
            patience.rest().map_err(|failure| failure.of_tenant(tenant))?;
        }
    }

    /// A tenant's result.
    pub(super) fn result(&self, ticket: u64, tenant: u32) -> Result<View, Failure> {
        let id = tenant_id(tenant)?;
        let mut inner = self.enter()?;
        let inner = &mut *inner;
        let (engine, issued) = {
            let engine = inner.engine.as_mut().ok_or_else(closed_meanwhile)?;
            let issued = inner.tickets.iter().flatten().find(|t| t.id == ticket);
            (engine, issued.ok_or(RunError::Ticket)?)
        };
        let result = engine.result(&issued.ticket, id)?;
        let shelf = inner
            .shelves
            .get_mut(issued.ticket.slot().index())
            .and_then(|s| s.get_mut(id.index()));
        let names = self
            .names
            .task_sets
            .get(issued.plan.index())
            .and_then(|p| p.tenants.get(id.index()));
        Ok(shelf.ok_or(RunError::Unknown)?.show(&result, names.ok_or(RunError::Unknown)?))
    }

    /// Gives the ticket back.
    pub(super) fn release(&self, ticket: u64) -> Result<(), Failure> {
        let mut inner = self.enter()?;
        let inner = &mut *inner;
        let engine = inner.engine.as_mut().ok_or_else(closed_meanwhile)?;
        let issued = inner.tickets.iter_mut().find(|t| t.as_ref().is_some_and(|t| t.id == ticket));
        let issued = issued.and_then(Option::take).ok_or(RunError::Ticket)?;
        for shelf in inner.shelves.get_mut(issued.ticket.slot().index()).into_iter().flatten() {
            shelf.clear();
        }
        Ok(engine.release(issued.ticket)?)
    }
}

impl Inner {
    /// Notes a ticket under a number of its own.
    fn issue(&mut self, ticket: crate::runtime::Ticket) -> Result<u64, Failure> {
        let plan = self.engine()?.plan_id();
        let id = next();
        // A ticket holds a slot, and there is room for every slot.
        let room = self.tickets.iter_mut().find(|t| t.is_none()).ok_or(RunError::Busy)?;
        *room = Some(Issued { id, plan, ticket });
        Ok(id)
    }

    /// Takes up the draft of this number; it is spent.
    fn resume(&mut self, id: u64) -> Result<Draft<'_>, Failure> {
        let engine = self.engine.as_mut().ok_or_else(closed_meanwhile)?;
        let open = self.draft.take_if(|d| d.0 == id);
        let (_, held) = open.ok_or_else(|| {
            let what = "the draft was submitted or dropped, or belongs to another engine: begin another";
            Failure::new(Status::Ticket, format_args!("{what}"))
        })?;
        Ok(engine.resume(held)?)
    }

    /// Does something to the draft of this number.
    fn with_draft<R>(&mut self, id: u64, act: impl FnOnce(&mut Draft<'_>) -> Result<R, RunError>) -> Result<R, Failure> {
        let mut draft = self.resume(id)?;
        let done = act(&mut draft);
        let held = draft.hold();
        self.draft = Some((id, held));
        Ok(done?)
    }
}

/// Where bytes lie, and how many.
fn place(bytes: &mut [u8]) -> (*mut u8, u64) {
    (bytes.as_mut_ptr(), bytes.len() as u64)
}

fn c_report(report: &FrameReport) -> Report {
    let mut c = Report {
        task_set: u32::from(report.plan.0),
        frame: report.frame,
        total_ns: report.total.0,
        tenant_count: report.tenants.len() as u32,
        ..Report::default()
    };
    for (to, from) in c.tenants.iter_mut().zip(&report.tenants) {
        *to = TenantReport {
            currency: from.status as u32,
            missed_deadline: u8::from(from.missed_deadline),
            old_image: u8::from(from.old_image),
            reserved: 0,
            of_frame: from.of_frame,
            finish_ns: from.finish.0,
        };
    }
    c
}
