//! The structs of `platoon.h`, field by field. A test compiles the header and compares sizes and offsets.
//!
//! Structs that begin with `size` may grow at their end; all others are never changed.

use super::layout::{Address, c_structs};
use crate::limits::{MAX_RANK, MAX_TENANTS};
use std::ffi::{c_char, c_void};

/// Receives what the library has to say while it opens and closes engines.
pub type LogCallback = extern "C" fn(context: *mut c_void, level: i32, message: *const c_char);

/// Bytes of [`Error::message`], its closing zero included.
pub const MESSAGE: usize = 256;

c_structs! {
    /// An engine, by number.
    plain "platoon_engine" Engine {
        /// 0 names no engine.
        id: u64,
    }

    /// The right to a frame's results.
    plain "platoon_ticket" Ticket {
        /// 0 names no ticket.
        id: u64,
    }

    /// A frame being filled in place.
    plain "platoon_draft" Draft {
        /// 0 names no draft.
        id: u64,
    }

    /// How an engine is opened.
    sized "platoon_options" Options since close_limit_ns {
        /// The struct's bytes.
        size: u32,
        /// The header's `PLATOON_ABI`.
        abi: u32,
        /// Folder of plans.
        plans: Address<c_char>,
        /// Folder of the board in it; null if `plans` is that folder itself.
        board: Address<c_char>,
        /// First task set; null for the table's default.
        task_set: Address<c_char>,
        /// Folder of kernel archives; null for the one beside the plans.
        kernels: Address<c_char>,
        /// A number of [`crate::capi::values`].
        backend: i32,
        /// A set of bits of [`crate::capi::values`].
        flags: u32,
        /// CPU workers, 0 for one a core.
        workers: u32,
        /// Frames in flight or unreleased, 0 for what the table says.
        slots: u32,
        /// `SCHED_FIFO` priority of the workers, 1 to 99; 0 for none.
        fifo: u32,
        /// SMs of the GPU, 0 for all.
        sms: u32,
        /// Where messages go; null for nowhere.
        log: Option<LogCallback>,
        /// Handed to the callback.
        log_context: Address<c_void>,
        /// Longest time of a frame in nanoseconds, 0 for 30 s, all ones for no limit.
        watchdog_ns: u64,
        /// Longest time that closing waits in nanoseconds, 0 for 2 s.
        close_limit_ns: u64,
        /// Bit set of the cores for workers; 0 for all that the process may use.
        worker_cores: u64,
        /// Bit set of the cores that the calling thread is confined to; 0 leaves it as it is.
        loop_cores: u64,
        /// `SCHED_FIFO` priority of the calling thread, 1 to 99; 0 for none.
        loop_fifo: u32,
        /// 0.
        reserved: u32,
    }

    /// The last error of a thread.
    sized "platoon_error" Error since message {
        /// The struct's bytes.
        size: u32,
        /// What the failed call returned.
        status: i32,
        /// The tenant, or -1.
        tenant: i32,
        /// The segment, or -1.
        segment: i32,
        /// The camera, or -1.
        camera: i32,
        /// The kind of fault, 0 for none.
        fault: u32,
        /// The frame, where a tenant or a segment is named.
        frame: u64,
        /// The device's number of the fault.
        device_code: u32,
        /// Segments that may be to blame.
        suspects: u32,
        /// One line, ended by a zero.
        message: [c_char; MESSAGE],
    }

    /// A camera image in the caller's memory.
    plain "platoon_image" Image {
        /// Its first row; null where the camera has no new image.
        data: Address<u8>,
        /// Bytes at `data`.
        bytes: u64,
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Bytes from row to row.
        stride: u32,
        /// A number of [`crate::task::PixelFormat`].
        format: u32,
    }

    /// A camera image in the memory of the GPU.
    plain "platoon_device_image" DeviceImage {
        /// Address of its first row.
        address: u64,
        /// Bytes at the address.
        bytes: u64,
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Bytes from row to row.
        stride: u32,
        /// A number of [`crate::task::PixelFormat`].
        format: u32,
        /// The event after which it is complete; null if it is.
        event: Address<c_void>,
    }

    /// A tensor in the memory of the GPU.
    plain "platoon_device_tensor" DeviceTensor {
        /// Address of its first byte.
        address: u64,
        /// Bytes at the address.
        bytes: u64,
        /// The event after which it is complete; null if it is.
        event: Address<c_void>,
    }

    /// What became of a tenant in a frame.
    plain "platoon_tenant_report" TenantReport {
        /// A number of [`crate::task::Status`].
        currency: u32,
        /// 1 if it computed, but after its deadline.
        missed_deadline: u8,
        /// 1 if it computed from an image of an earlier frame.
        old_image: u8,
        /// 0.
        reserved: u16,
        /// The frame its result is of.
        of_frame: u64,
        /// From the start of the frame's work to its result.
        finish_ns: u64,
    }

    /// What became of a frame.
    sized "platoon_report" Report since tenants {
        /// The struct's bytes.
        size: u32,
        /// Index of the task set it ran under.
        task_set: u32,
        /// Its number.
        frame: u64,
        /// From the start of its work to its end.
        total_ns: u64,
        /// Entries of `tenants` in use.
        tenant_count: u32,
        /// 0.
        reserved: u32,
        /// One entry per tenant.
        tenants: [TenantReport; MAX_TENANTS],
    }

    /// A detected object.
    plain "platoon_detection" Detection {
        /// Index of its class.
        class_index: u32,
        /// From 0 to 1.
        score: f32,
        /// Left edge in pixels of the source picture.
        x0: f32,
        /// Upper edge.
        y0: f32,
        /// Right edge.
        x1: f32,
        /// Lower edge.
        y1: f32,
        /// Which picture of the tenant's batch.
        image: u32,
        /// Row among the source's detections, for crops; else its own row in the picture.
        row: u32,
    }

    /// A class with its score.
    plain "platoon_class_score" ClassScore {
        /// Which picture of the tenant's batch.
        image: u32,
        /// Index of the class.
        class_index: u32,
        /// Its score.
        score: f32,
    }

    /// A label map.
    plain "platoon_label_map" LabelMap {
        /// The head's name.
        name: Address<c_char>,
        /// One class a pixel, row by row.
        data: Address<u8>,
        /// Names of the classes.
        labels: Address<Address<c_char>>,
        /// How many names.
        label_count: u32,
        /// Which picture of the tenant's batch.
        image: u32,
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
    }

    /// An output as it is.
    plain "platoon_tensor" Tensor {
        /// Its name.
        name: Address<c_char>,
        /// The elements in C order; null where there is no result.
        data: Address<u8>,
        /// Bytes at `data`.
        bytes: u64,
        /// Address of the same bytes in the GPU's memory, or 0.
        device: u64,
        /// A number of [`crate::capi::values`].
        dtype: u32,
        /// Extents in use.
        rank: u32,
        /// Extents.
        dims: [u32; MAX_RANK],
    }

    /// A tenant's result.
    sized "platoon_result" Result since tensor_count {
        /// The struct's bytes.
        size: u32,
        /// A number of [`crate::task::Status`].
        currency: u32,
        /// The frame it is of.
        of_frame: u64,
        /// A number of [`crate::capi::values`].
        kind: u32,
        /// Pictures in the tenant's batch.
        images: u32,
        /// Objects, best first in each picture.
        detections: Address<Detection>,
        /// For a tenant that looks at crops: what each crop shows.
        crops: Address<Detection>,
        /// Best classes, best first in each picture.
        scores: Address<ClassScore>,
        /// Label maps.
        maps: Address<LabelMap>,
        /// All outputs.
        tensors: Address<Tensor>,
        /// Entries at `detections`.
        detection_count: u32,
        /// Entries at `crops`.
        crop_count: u32,
        /// Entries at `scores`.
        score_count: u32,
        /// Entries at `maps`.
        map_count: u32,
        /// Entries at `tensors`.
        tensor_count: u32,
        /// 0.
        reserved: u32,
    }

    /// What an engine was opened on.
    sized "platoon_info" Info since version {
        /// The struct's bytes.
        size: u32,
        /// The backend in use: a number of [`crate::capi::values`].
        backend: u32,
        /// Cameras.
        cameras: u32,
        /// Task sets.
        task_sets: u32,
        /// Frames in flight or unreleased.
        slots: u32,
        /// Threads that the engine started.
        threads: u32,
        /// Wishes that the operating system refused.
        refused: u32,
        /// 0.
        reserved: u32,
        /// Time from the call to sealed.
        open_ns: u64,
        /// The board's name.
        board: Address<c_char>,
        /// The library's version.
        version: Address<c_char>,
    }

    /// A camera.
    sized "platoon_camera_info" CameraInfo since bytes {
        /// The struct's bytes.
        size: u32,
        /// Largest width in pixels.
        max_width: u32,
        /// Largest height in pixels.
        max_height: u32,
        /// 0.
        reserved: u32,
        /// Its name.
        name: Address<c_char>,
        /// Bytes of its image memory.
        bytes: u64,
    }

    /// A task set.
    sized "platoon_task_set_info" TaskSetInfo since name {
        /// The struct's bytes.
        size: u32,
        /// Tenants.
        tenants: u32,
        /// Its name.
        name: Address<c_char>,
    }

    /// A tenant of a task set.
    sized "platoon_tenant_info" TenantInfo since labels {
        /// The struct's bytes.
        size: u32,
        /// A number of [`crate::capi::values`].
        kind: u32,
        /// It runs in every how many frames.
        divisor: u32,
        /// In which of them.
        phase: u32,
        /// Higher goes first.
        priority: u32,
        /// Pictures in its batch.
        images: u32,
        /// Bit set of its cameras.
        cameras: u32,
        /// Bit set of the tenants whose results it reads.
        sources: u32,
        /// Tensor inputs.
        inputs: u32,
        /// Outputs.
        outputs: u32,
        /// Entries at `labels`.
        label_count: u32,
        /// 0.
        reserved: u32,
        /// From the start of a frame's work to its result; 0 for none.
        deadline_ns: u64,
        /// Its name.
        name: Address<c_char>,
        /// Its network's name.
        model: Address<c_char>,
        /// Names of its classes.
        labels: Address<Address<c_char>>,
    }

    /// An input or output of a tenant.
    sized "platoon_port_info" PortInfo since bytes {
        /// The struct's bytes.
        size: u32,
        /// A number of [`crate::capi::values`].
        dtype: u32,
        /// Extents in use.
        rank: u32,
        /// Extents.
        dims: [u32; MAX_RANK],
        /// 0.
        reserved: u32,
        /// Its name.
        name: Address<c_char>,
        /// Bytes of its elements.
        bytes: u64,
    }

    /// Figures of a task set's frames since the engine was opened.
    sized "platoon_stats" Stats since max_ns {
        /// The struct's bytes.
        size: u32,
        /// 0.
        reserved: u32,
        /// Frames that ended.
        frames: u64,
        /// Time of a frame that half of all do not exceed.
        p50_ns: u64,
        /// Time of a frame that 99 % do not exceed.
        p99_ns: u64,
        /// Longest time of a frame.
        max_ns: u64,
    }

    /// Figures of a tenant's results since the engine was opened.
    sized "platoon_tenant_stats" TenantStats since max_ns {
        /// The struct's bytes.
        size: u32,
        /// 0.
        reserved: u32,
        /// Frames with a fresh result.
        fresh: u64,
        /// Frames in which it was not due.
        held: u64,
        /// Frames in which it was due and gave none, or one from an old image.
        stale: u64,
        /// Frames without any result yet.
        none: u64,
        /// Results after the deadline.
        missed: u64,
        /// Time to a fresh result that half of all do not exceed.
        p50_ns: u64,
        /// Time to a fresh result that 99 % do not exceed.
        p99_ns: u64,
        /// Longest time to a fresh result.
        max_ns: u64,
    }

    /// How an engine is.
    sized "platoon_health" Health since drafting {
        /// The struct's bytes.
        size: u32,
        /// A number of [`crate::capi::values`].
        state: u32,
        /// The kind of fault, 0 for none.
        fault: u32,
        /// The fault's tenant, or -1.
        tenant: i32,
        /// The fault's segment, or -1.
        segment: i32,
        /// The device's number of the fault.
        device_code: u32,
        /// Segments that may be to blame.
        suspects: u32,
        /// Index of the task set of the next frame.
        task_set: u32,
        /// The fault's frame.
        frame: u64,
        /// Number of the next frame.
        next_frame: u64,
        /// Tickets that were not released.
        tickets: u32,
        /// 1 while a draft is open.
        drafting: u32,
    }
}
