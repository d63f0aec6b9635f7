//! The largest counts a plan, a table or a model may hold (invariant P6).
//!
//! They bound the memory a hostile file can make the loader take and the work its checks can cost.
//! Each is far above what a vehicle needs and small enough to be walked at start-up.

/// Axes of a tensor view.
pub const MAX_RANK: usize = 6;
/// Primitives in one operator.
pub const MAX_PRIMITIVES: usize = 8;
/// Inputs of one primitive.
pub const MAX_INPUTS: usize = 4;
/// Outputs of one primitive.
pub const MAX_OUTPUTS: usize = 2;
/// Tenants of one plan.
pub const MAX_TENANTS: usize = 32;
/// Cameras of a plan table.
pub const MAX_CAMERAS: usize = 16;
/// Streams of one plan.
pub const MAX_STREAMS: usize = 64;
/// Frame schedules in one cycle.
pub const MAX_CYCLE: usize = 64;
/// Operators of one plan.
pub const MAX_OPERATORS: usize = 65_536;
/// Chunks of one operator.
pub const MAX_CHUNKS: usize = 256;
/// Buffers of one plan.
pub const MAX_BUFFERS: usize = 131_072;
/// Weight sections of one plan.
pub const MAX_SECTIONS: usize = 131_072;
/// Segments of one frame schedule.
pub const MAX_SEGMENTS: usize = 16_384;
/// Steps of one frame schedule.
pub const MAX_STEPS: usize = 262_144;
/// Sync points of one frame schedule.
pub const MAX_SYNCS: usize = 65_536;
/// Plans of one table.
pub const MAX_PLANS: usize = 64;
/// Slots (frames in flight) of one table.
pub const MAX_SLOTS: usize = 8;
/// Crops in one tenant's batch.
pub const MAX_CROPS: u32 = 1_024;
/// Detections that crops are chosen from.
pub const MAX_CROP_CANDIDATES: u32 = 65_536;
/// Bytes of a name or a label.
pub const MAX_NAME: usize = 512;
/// Bytes of the name of a tenant, a camera, a model, a board or a label map in the files that people write: two of them, a frame's
/// number and an ending make a file's name, of which file systems take 255 bytes.
pub const MAX_FILE_PART: usize = 100;
/// Labels of one tenant.
pub const MAX_LABELS: usize = 65_536;
/// Elements of one tensor.
pub const MAX_ELEMENTS: u64 = 1 << 31;
/// Bytes of one buffer, the arena, or a slot.
pub const MAX_BYTES: u64 = 1 << 36;
/// Named inputs, or outputs, of one tenant.
pub const MAX_PORTS: usize = 4_096;
/// Segment references in all sync points of one frame schedule.
pub const MAX_SYNC_ENDS: usize = 262_144;
/// Steps of work the checks of one plan may take, as `plan::check` counts them: a few seconds.
pub const MAX_CHECK_WORK: u64 = 1 << 28;
/// Bytes of a plan file or a table file. A decoded plan takes some tens of bytes of memory a byte of file.
pub const MAX_PLAN_FILE: u64 = 32 << 20;
/// Bytes of a weight file.
pub const MAX_WEIGHT_FILE: u64 = 8 << 30;
/// Width or height of a camera image, in pixels.
pub const MAX_IMAGE_SIDE: u32 = 16_384;
