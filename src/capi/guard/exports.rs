//! The exported functions. `platoon.h` says what each one does; here pointers are checked and results handed back.

use super::layout::Address;
use super::pointers::{Caller, call};
use super::types::*;
use crate::backend::{SlotMemory, Submission, Wait};
use crate::board::BackendKind;
use crate::capi::figures::VERSION;
use crate::capi::session::{Log, Session};
use crate::capi::status::{Failure, Status, last};
use crate::capi::table;
use crate::capi::values::{
    ABI, BACKEND_CPU, BACKEND_CUDA, BACKEND_OF_TABLE, FOREVER, OPEN_COPIED, OPEN_FLAGS, OPEN_LOCK_MEMORY, OPEN_MAPPED, OPEN_PREFAULT,
    OPEN_SEGMENTS, OPEN_SPIN, OPEN_UNPINNED,
};
use crate::limits::{MAX_CAMERAS, MAX_SLOTS};
use crate::runtime;
use crate::runtime::cores::Cores;
use crate::runtime::realtime::Realtime;
use crate::task::PixelFormat;
use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An exported function: its name, and its parameters with their Rust types.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// Its name.
    pub name: &'static str,
    /// Names and types of its parameters.
    pub parameters: &'static [(&'static str, &'static str)],
}

macro_rules! exports {
    ($($(#[$doc:meta])* fn $name:ident($($parameter:ident: $type:ty),* $(,)?) |$caller:ident| $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Every pointer is null, or points to what `platoon.h` says of it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($parameter: $type),*) -> i32 {
                // SAFETY: who calls this function answers for its pointers.
                let $caller = unsafe { Caller::new() };
                call(|| $body)
            }
        )*

        /// All functions that return a status.
        pub const EXPORTS: &[Export] = &[$(
            Export {
                name: stringify!($name),
                parameters: &[$((stringify!($parameter), stringify!($type)),)*],
            },
        )*];
    };
}

/// The library's [`ABI`].
#[unsafe(no_mangle)]
pub extern "C" fn platoon_abi() -> u32 {
    ABI
}

/// The library's version.
#[unsafe(no_mangle)]
pub extern "C" fn platoon_version() -> *const c_char {
    VERSION.as_ptr()
}

/// A status' name in the header; of a number that is none, `"unknown status"`.
#[unsafe(no_mangle)]
pub extern "C" fn platoon_status_name(status: i32) -> *const c_char {
    let known = usize::try_from(status).ok().and_then(|n| Status::ALL.get(n));
    known.map_or(c"unknown status", |s| s.name()).as_ptr()
}

exports! {
    /// Copies the calling thread's last failure.
    fn platoon_last_error(error: *mut Error) |caller| {
        caller.out_sized(error)?.set(last());
        Ok(())
    }

    /// Opens the plans of a board.
    fn platoon_open(options: *const Options, engine: *mut Engine) |caller| {
        let engine = caller.out(engine, "platoon_engine")?;
        let given = caller.read(options)?;
        engine.set(Engine { id: open(caller, &given)? });
        Ok(())
    }

    /// Closes an engine.
    fn platoon_close(engine: Engine, leaked: *mut u32) |caller| {
        let leaked = if leaked.is_null() { None } else { Some(caller.out(leaked, "leaked")?) };
        let count = table::remove(engine.id)?.close();
        if let Some(leaked) = leaked {
            leaked.set(u32::try_from(count).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    /// What an engine was opened on.
    fn platoon_describe(engine: Engine, info: *mut Info) |caller| {
        let out = caller.out_sized(info)?;
        out.set(table::find(engine.id)?.info()?);
        Ok(())
    }

    /// A camera.
    fn platoon_describe_camera(engine: Engine, camera: u32, info: *mut CameraInfo) |caller| {
        let out = caller.out_sized(info)?;
        out.set(table::find(engine.id)?.camera(camera)?);
        Ok(())
    }

    /// A task set.
    fn platoon_describe_task_set(engine: Engine, task_set: u32, info: *mut TaskSetInfo) |caller| {
        let out = caller.out_sized(info)?;
        out.set(table::find(engine.id)?.task_set(task_set)?);
        Ok(())
    }

    /// A tenant of a task set.
    fn platoon_describe_tenant(engine: Engine, task_set: u32, tenant: u32, info: *mut TenantInfo) |caller| {
        let out = caller.out_sized(info)?;
        out.set(table::find(engine.id)?.tenant(task_set, tenant)?);
        Ok(())
    }

    /// A tensor input of a tenant.
    fn platoon_describe_input(engine: Engine, task_set: u32, tenant: u32, input: u32, info: *mut PortInfo) |caller| {
        let out = caller.out_sized(info)?;
        out.set(table::find(engine.id)?.input(task_set, tenant, input)?);
        Ok(())
    }

    /// An output of a tenant.
    fn platoon_describe_output(engine: Engine, task_set: u32, tenant: u32, output: u32, info: *mut PortInfo) |caller| {
        let out = caller.out_sized(info)?;
        out.set(table::find(engine.id)?.output(task_set, tenant, output)?);
        Ok(())
    }

    /// Selects the task set of the next frame.
    fn platoon_select(engine: Engine, task_set: *const c_char) |caller| {
        let name = caller.text(task_set, "task_set")?;
        let name = name.ok_or_else(|| Failure::new(Status::Null, format_args!("task_set is null")))?;
        table::find(engine.id)?.select(name)
    }

    /// Copies images and submits the frame.
    fn platoon_submit(engine: Engine, images: *const Image, count: u32, ticket: *mut Ticket) |caller| {
        let out = caller.out(ticket, "platoon_ticket")?;
        let engine = table::find(engine.id)?;
        engine.takes(count)?;
        let given = caller.array(images, count, MAX_CAMERAS)?;
        let mut images = [None; MAX_CAMERAS];
        for (to, from) in images.iter_mut().zip(given) {
            *to = if from.data.is_null() { None } else { Some(image(caller, from)?) };
        }
        let id = engine.submit(&images[..given.len()])?;
        out.set(Ticket { id });
        Ok(())
    }

    /// Begins a frame that is filled in place.
    fn platoon_begin(engine: Engine, draft: *mut Draft) |caller| {
        let out = caller.out(draft, "platoon_draft")?;
        out.set(Draft { id: table::find(engine.id)?.begin()? });
        Ok(())
    }

    /// A camera's image memory.
    fn platoon_draft_image(engine: Engine, draft: Draft, camera: u32, data: *mut *mut u8, bytes: *mut u64) |caller| {
        let (data, bytes) = (caller.out(data, "data")?, caller.out(bytes, "bytes")?);
        let place = table::find(engine.id)?.draft_image(draft.id, camera)?;
        data.set(place.0);
        bytes.set(place.1);
        Ok(())
    }

    /// Says that a camera's image is in place.
    fn platoon_draft_set_image(engine: Engine, draft: Draft, camera: u32, width: u32, height: u32, stride: u32, format: u32) |_caller| {
        let format = pixel_format(format)?;
        let header = runtime::ImageHeader { width, height, stride, format };
        table::find(engine.id)?.draft_set_image(draft.id, camera, header)
    }

    /// Copies a camera's image.
    fn platoon_draft_copy_image(engine: Engine, draft: Draft, camera: u32, picture: *const Image) |caller| {
        let given = caller.read_plain(picture)?;
        let image = image(caller, &given)?;
        table::find(engine.id)?.draft_copy_image(draft.id, camera, &image)
    }

    /// Gives a camera's image in the GPU's memory.
    fn platoon_draft_device_image(engine: Engine, draft: Draft, camera: u32, picture: *const DeviceImage) |caller| {
        let given = caller.read_plain(picture)?;
        let format = pixel_format(given.format)?;
        let header = runtime::ImageHeader { width: given.width, height: given.height, stride: given.stride, format };
        let (address, bytes, event) = (given.address, given.bytes, given.event.raw() as usize);
        // Who calls this function answers for the event.
        let image = crate::backend::DeviceBytes { address, bytes, event };
        table::find(engine.id)?.draft_device_image(draft.id, camera, header, image)
    }

    /// Gives a tensor input in the GPU's memory.
    fn platoon_draft_device_input(engine: Engine, draft: Draft, tenant: u32, input: u32, tensor: *const DeviceTensor) |caller| {
        let given = caller.read_plain(tensor)?;
        let (address, bytes, event) = (given.address, given.bytes, given.event.raw() as usize);
        // Who calls this function answers for the event.
        let bytes = crate::backend::DeviceBytes { address, bytes, event };
        table::find(engine.id)?.draft_device_input(draft.id, tenant, input, bytes)
    }

    /// The memory of a tensor input.
    fn platoon_draft_input(engine: Engine, draft: Draft, tenant: u32, input: u32, data: *mut *mut u8, bytes: *mut u64) |caller| {
        let (data, bytes) = (caller.out(data, "data")?, caller.out(bytes, "bytes")?);
        let place = table::find(engine.id)?.draft_input(draft.id, tenant, input)?;
        data.set(place.0);
        bytes.set(place.1);
        Ok(())
    }

    /// Submits a draft.
    fn platoon_draft_submit(engine: Engine, draft: Draft, ticket: *mut Ticket) |caller| {
        let out = caller.out(ticket, "platoon_ticket").inspect_err(|_| {
            // The draft is spent all the same, if there is one.
            let _ = table::find(engine.id).and_then(|engine| engine.draft_drop(draft.id));
        })?;
        out.set(Ticket { id: table::find(engine.id)?.draft_submit(draft.id)? });
        Ok(())
    }

    /// Drops a draft.
    fn platoon_draft_drop(engine: Engine, draft: Draft) |_caller| {
        table::find(engine.id)?.draft_drop(draft.id)
    }

    /// Waits for a frame's end.
    fn platoon_wait(engine: Engine, ticket: Ticket, timeout_ns: u64, report: *mut Report) |caller| {
        let out = caller.out_sized(report)?;
        out.set(table::find(engine.id)?.wait(ticket.id, limit(timeout_ns))?);
        Ok(())
    }

    /// Waits for one tenant's result.
    fn platoon_wait_tenant(engine: Engine, ticket: Ticket, tenant: u32, timeout_ns: u64, currency: *mut u32) |caller| {
        let out = caller.out(currency, "currency")?;
        out.set(table::find(engine.id)?.wait_tenant(ticket.id, tenant, limit(timeout_ns))?);
        Ok(())
    }

    /// A tenant's result.
    fn platoon_result_of(engine: Engine, ticket: Ticket, tenant: u32, result: *mut Result) |caller| {
        let out = caller.out_sized(result)?;
        out.set(table::find(engine.id)?.result(ticket.id, tenant)?);
        Ok(())
    }

    /// Gives a ticket back.
    fn platoon_release(engine: Engine, ticket: Ticket) |_caller| {
        table::find(engine.id)?.release(ticket.id)
    }

    /// Figures of a task set.
    fn platoon_stats_of(engine: Engine, task_set: u32, stats: *mut Stats) |caller| {
        let out = caller.out_sized(stats)?;
        out.set(table::find(engine.id)?.stats(task_set)?);
        Ok(())
    }

    /// Figures of a tenant.
    fn platoon_tenant_stats_of(engine: Engine, task_set: u32, tenant: u32, stats: *mut TenantStats) |caller| {
        let out = caller.out_sized(stats)?;
        out.set(table::find(engine.id)?.tenant_stats(task_set, tenant)?);
        Ok(())
    }

    /// How an engine is.
    fn platoon_health_of(engine: Engine, health: *mut Health) |caller| {
        let out = caller.out_sized(health)?;
        out.set(table::find(engine.id)?.health()?);
        Ok(())
    }
}

/// The duration of a wait.
fn limit(nanos: u64) -> Option<Duration> {
    (nanos != FOREVER).then(|| Duration::from_nanos(nanos))
}

fn pixel_format(number: u32) -> std::result::Result<PixelFormat, Failure> {
    PixelFormat::from_number(number).ok_or_else(|| Failure::new(Status::Argument, format_args!("there is no pixel format {number}")))
}

fn image<'a>(caller: Caller, given: &Image) -> std::result::Result<runtime::Image<'a>, Failure> {
    Ok(runtime::Image {
        data: caller.bytes(given.data, given.bytes)?,
        width: given.width,
        height: given.height,
        stride: given.stride,
        format: pixel_format(given.format)?,
    })
}

/// Opens what the options ask for; the new engine's handle.
fn open(caller: Caller, given: &Options) -> std::result::Result<u64, Failure> {
    let wrong = |what: std::fmt::Arguments<'_>| Failure::new(Status::Argument, what);
    if !(1..=ABI).contains(&given.abi) {
        let what = format_args!("the header's ABI is {}, this library runs 1 to {ABI}", given.abi);
        return Err(Failure::new(Status::Version, what));
    }
    if given.flags & !OPEN_FLAGS != 0 {
        return Err(wrong(format_args!(
            "flags have bits without a meaning: {:#x}",
            given.flags & !OPEN_FLAGS
        )));
    }
    let text = |address: Address<c_char>, what| caller.text(address.raw(), what);
    let plans = text(given.plans, "plans")?.ok_or_else(|| Failure::new(Status::Null, format_args!("plans is null")))?;
    let folder = match text(given.board, "board")? {
        Some(board) => Path::new(plans).join(board),
        None => PathBuf::from(plans),
    };
    let backend = match given.backend {
        BACKEND_OF_TABLE => None,
        BACKEND_CPU => Some(BackendKind::Cpu),
        BACKEND_CUDA => Some(BackendKind::Cuda),
        other => return Err(wrong(format_args!("there is no backend {other}"))),
    };
    let slots = match given.slots {
        0 => None,
        n if n as usize <= MAX_SLOTS => Some(n as u16),
        n => return Err(wrong(format_args!("{n} slots: give 1 to {MAX_SLOTS}"))),
    };
    let priority = |given| match given {
        0 => Ok(None),
        n @ 1..=99 => Ok(Some(n as u8)),
        n => Err(wrong(format_args!("a SCHED_FIFO priority of {n}: give 1 to 99"))),
    };
    let (fifo, loop_fifo) = (priority(given.fifo)?, priority(given.loop_fifo)?);
    let cores = |bits| (bits != 0).then(|| Cores::of_bits(bits));
    if given.reserved != 0 {
        return Err(wrong(format_args!("`reserved` must be 0")));
    }
    let has = |flag| given.flags & flag != 0;
    let slot_memory = match (has(OPEN_MAPPED), has(OPEN_COPIED)) {
        (false, false) => SlotMemory::OfBoard,
        (true, false) => SlotMemory::Mapped,
        (false, true) => SlotMemory::Copied,
        (true, true) => return Err(wrong(format_args!("the flags for mapped and for copied memory exclude each other"))),
    };
    let default = runtime::Options::default();
    let options = runtime::Options {
        backend,
        kernels: text(given.kernels, "kernels")?.map(PathBuf::from),
        workers: (given.workers != 0).then_some(given.workers as usize),
        slots,
        submission: if has(OPEN_SEGMENTS) {
            Submission::Segments
        } else {
            Submission::Frame
        },
        watchdog: match given.watchdog_ns {
            0 => default.watchdog,
            nanos => limit(nanos),
        },
        close_limit: match given.close_limit_ns {
            0 => default.close_limit,
            nanos => Duration::from_nanos(nanos),
        },
        realtime: Realtime {
            pin: !has(OPEN_UNPINNED),
            cores: cores(given.worker_cores),
            loop_cores: cores(given.loop_cores),
            lock_memory: has(OPEN_LOCK_MEMORY),
            fifo,
            loop_fifo,
            prefault: has(OPEN_PREFAULT),
        },
        sms: (given.sms != 0).then_some(given.sms),
        wait: if has(OPEN_SPIN) { Wait::Spin } else { Wait::Block },
        slot_memory,
        ..default
    };
    let log = Log {
        callback: given.log,
        context: given.log_context,
    };
    table::insert(Session::open(&folder, text(given.task_set, "task_set")?, &options, log)?)
}
