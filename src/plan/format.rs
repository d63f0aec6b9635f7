//! The plan as data. Every field says what it means, in which unit, and which invariant of [`super`] covers it.
//!
//! Written by `planner::emit`, verified by `plan::check`, relied on by the backends. Decoding alone proves nothing.

use crate::ids::*;
use crate::primitive::{Primitive, Region};
use crate::task::{Rate, ResultKind, Urgency};
use crate::tensor::{DType, Layout, Shape};
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// SHA-256 of a file or a canonical text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0[..6].iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The immutable result for one task set on one board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the task set.
    pub task_set: String,
    /// Digest of the board record the plan was made for (P7).
    pub board: Digest,
    /// Digest of everything the plan was made from: models, cards, tasks, board, options. Tells a stale plan.
    pub source: Digest,
    /// Digest of the GPU kernels' sources that its tactics were chosen for; `None` for a plan of the CPU backend (P7).
    pub kernels: Option<Digest>,
    /// Which searcher made it, for people.
    pub searcher: String,
    /// Cameras of the table, in table order; the same in all plans of a table.
    pub cameras: Vec<Camera>,
    /// The networks.
    pub tenants: Vec<Tenant>,
    /// Weight files, each one network's canonical tensors (P7).
    pub weight_files: Vec<WeightFile>,
    /// Sections of those files.
    pub sections: Vec<Section>,
    /// Memory by name: views refer to these (P5).
    pub buffers: Vec<Buffer>,
    /// The operators of all tenants. Order carries no meaning; the schedules say when each runs.
    pub operators: Vec<Operator>,
    /// The streams (P3).
    pub streams: Vec<Stream>,
    /// The frame schedules of one cycle: frame `f` runs `cycle[f % cycle.len()]` (P3).
    pub cycle: Vec<FrameSchedule>,
    /// Bytes of the arena all `Space::Arena` buffers lie in (P5).
    pub arena_bytes: u64,
    /// Bytes of the region all `Space::Persistent` buffers lie in; zeroed before the first frame and on a switch (P5).
    pub persistent_bytes: u64,
    /// Bytes of tensor inputs in a slot: `Space::Input` buffers lie in there (P5).
    pub input_bytes: u64,
    /// Bytes of results in a slot: `Space::Output` buffers lie in there (P5).
    pub output_bytes: u64,
    /// What the planner expects (P8).
    pub prediction: Prediction,
}

/// A camera: where pictures come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Camera {
    /// Name in tasks.toml.
    pub name: String,
    /// Widest image it may give, in pixels.
    pub max_width: u32,
    /// Highest image it may give, in pixels.
    pub max_height: u32,
    /// Bytes reserved in a slot for its newest image (P5).
    pub bytes: u64,
}

/// One network of the task set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Name in tasks.toml.
    pub name: String,
    /// Name of its model card.
    pub model: String,
    /// The camera of each picture of its batch, the one camera of all its crops; empty for a network fed with tensors.
    pub cameras: Vec<CameraId>,
    /// When it runs.
    pub rate: Rate,
    /// Priority and deadline.
    pub urgency: Urgency,
    /// What its outputs mean.
    pub kind: ResultKind,
    /// Tenants whose results it reads in the same frame (P4).
    pub sources: Vec<TenantId>,
    /// Named tensor inputs, for a network fed with tensors: views into `Space::Input`.
    pub inputs: Vec<Port>,
    /// Named results: views into `Space::Output`, contiguous in C order.
    pub outputs: Vec<Port>,
}

impl Tenant {
    /// The result that says which detections the crops of its batch show; `None` for a tenant whose pictures are not crops.
    pub fn crop_rows(&self) -> Option<&Port> {
        self.outputs.iter().find(|p| p.role == Role::CropRows)
    }

    /// Pictures in its batch: its crops, or one from each of its cameras; 1 for a network fed with tensors.
    pub fn pictures(&self) -> usize {
        self.crop_rows()
            .map_or(self.cameras.len().max(1), |rows| rows.view.layout.shape.batch() as usize)
    }
}

/// What one port of a tenant carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Detections `[max, 6]` f32: x0, y0, x1, y1 (source pixels), score, class; rows from the count on are undefined.
    /// Of a batch of crops, the detection that each shows, `[B, 6]`; rows of empty crops are undefined.
    Detections,
    /// Number of detections, `[1]` i32.
    Count,
    /// Label map `[1, H, W]` u8.
    LabelMap,
    /// Scores of the best classes, `[B, k]` f32, best first.
    TopValues,
    /// Classes of the best scores, `[B, k]` i32.
    TopIndices,
    /// Any tensor.
    Tensor,
    /// Of a batch of crops, which row of the source's detections each shows, `[B]` i32; -1 for an empty crop, whose other
    /// results mean nothing.
    CropRows,
}

/// A named input or output of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The ONNX tensor's name, or the head's name in the card.
    pub name: String,
    /// Which picture of the batch it belongs to; 0 for ports that carry the whole batch.
    pub image: u16,
    /// What it carries.
    pub role: Role,
    /// Where, and in which shape and type.
    pub view: View,
    /// Names of the classes, if it has classes; may be shorter than their number.
    pub labels: Vec<String>,
    /// How the picture was fitted into the network's input, for ports that are maps of it.
    pub fit: Option<crate::primitive::Fit>,
    /// True for an integer tensor that ONNX declares as i64.
    pub widened: bool,
}

/// A weight file `weights/<digest>` (P7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightFile {
    /// SHA-256 of the whole file, and its name in hexadecimal.
    pub digest: Digest,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A dense tensor in a weight file (P7). Its layout is said by the views on its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Index into the plan's weight files.
    pub file: u32,
    /// First byte, a multiple of 64.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// In which memory a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Space {
    /// The arena, one for all plans of the table; contents live within one frame.
    Arena {
        /// First byte, a multiple of 64.
        offset: u64,
    },
    /// Memory that survives frames of this plan.
    Persistent {
        /// First byte, a multiple of 64.
        offset: u64,
    },
    /// Tensor inputs of the slot.
    Input {
        /// First byte, a multiple of 64.
        offset: u64,
    },
    /// Results of the slot.
    Output {
        /// First byte, a multiple of 64.
        offset: u64,
    },
    /// The newest image of a camera in the slot.
    Camera(CameraId),
    /// A weight section. Read only.
    Weights(SectionId),
}

/// A piece of memory (P5). Arena and output buffers are written at most once per byte and frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Where it lies.
    pub space: Space,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A tensor somewhere in a buffer (P6: inside it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// The buffer.
    pub buffer: BufferId,
    /// Element `[0, .., 0]`, counted in elements from the buffer's first byte.
    pub origin: u64,
    /// Element type.
    pub dtype: DType,
    /// Logical shape and strides in elements.
    pub layout: Layout,
}

/// An input of a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operand {
    /// A tensor in memory.
    View(View),
    /// The first output of an earlier primitive of the same operator; never leaves the operator. Its logical shape may be
    /// read under a broadcast only through a view, so it has exactly the shape it was computed in.
    Inner(u8),
}

/// Whether an intermediate is rounded to its type before it is read. In f32 both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rounding {
    /// Rounded to the call's type, as if it had been stored.
    Rounded,
    /// Kept in f32.
    Kept,
}

/// One primitive of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// What is computed.
    pub primitive: Primitive,
    /// Its inputs, in the primitive's order.
    pub inputs: Vec<Operand>,
    /// Element type of its first output.
    pub dtype: DType,
    /// Logical shape of its first output.
    pub shape: Shape,
    /// What happens to the value before a later primitive of the operator reads it; of no meaning for the last.
    pub rounding: Rounding,
}

/// The instruction family that computes an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Family {
    /// f32 fused multiply-add, sequential over K; reductions in 16 partials (index mod 16), then a binary tree.
    Fma,
    /// Tensor cores by `mma.sync.m16n8k16`: f16 products, f32 accumulation in ascending K.
    TensorCore,
    /// Tensor cores by `wgmma` (sm_90a): f16 products, f32 accumulation in ascending K, sixteen at a time.
    Wgmma,
}

/// What fixes an operator's bits, whatever its tactic, width, chunks and order (P2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArithmeticClass {
    /// Instruction family.
    pub family: Family,
    /// Number of K ranges summed on their own and added in order, 1 for none; from the per-sample shape and the board only.
    pub split_k: u16,
}

/// Which kernel runs an operator, with its tile and launch shape: one entry of the menu in `plan::tactic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tactic {
    /// The kernel.
    pub kernel: Kernel,
    /// Rows (or pixels) and columns (or channels) of one tile; 0 leaves the choice to the kernel's fixed rule.
    pub tile: (u16, u16),
    /// What else the kernel chooses by (stages, warps, depth of a K block); of no meaning to anyone but the kernel.
    pub variant: u16,
}

/// The kernels a plan can name. The numbers of variants are part of the file format: only ever append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kernel {
    /// Any operator of any types and layouts, primitive by primitive. Slow and right.
    Generic,
    /// Convolution by indirect matrix product over channels-last pixels, with an elementwise tail.
    ConvIgemm,
    /// Depthwise convolution over channels-last rows, with an elementwise tail.
    ConvDepthwise,
    /// Transposed convolution as one matrix product per tap phase, with an elementwise tail.
    ConvTranspose,
    /// Matrix product with an elementwise tail.
    MatMul,
    /// A chain of elementwise primitives over contiguous runs.
    Elementwise,
    /// Pooling over channels-last rows.
    Pool,
    /// Reduction over contiguous runs or over channels-last pixels.
    Reduce,
    /// Softmax over contiguous runs or across channels.
    Softmax,
    /// Bilinear resampling over channels-last rows.
    Resize,
    /// Copies of contiguous runs.
    Copy,
    /// Image preparation.
    Prepare,
    /// Decoding and result operators.
    Decode,
    /// GPU: convolution or matrix product with constant weights on tensor cores, by `mma.sync` and `cp.async`.
    ConvMma,
    /// GPU: the same by `wgmma` and the tensor memory accelerator.
    ConvWgmma,
    /// GPU: matrix product of few rows with constant weights, which streams the weights once.
    MatVec,
    /// Recurrent layers: all steps of a sequence in one launch.
    Recurrent,
    /// GPU: products of few pixels with constant weights by `wgmma`, which streams the weights at the speed of memory.
    StreamWgmma,
    /// GPU: layer normalisation, some threads a row.
    Normalise,
    /// GPU: attention, whose scores never leave the kernel.
    Attention,
    /// GPU: squeeze and excitation, from the pixels to the gate of each channel.
    Squeeze,
    /// GPU: convolution of pictures of few channels by `wgmma`.
    Stem,
    /// GPU: convolution of few pixels by `mma.sync`, whose warps share out K and keep their weights in registers.
    ConvWarps,
    /// GPU: convolution of 3 by 3 neighbours by `wgmma`, whose taps share a patch of pixels.
    ConvPatch,
    /// GPU: grouped and transposed convolutions and pictures cut into patches, several matrix products in one launch, by `mma.sync`.
    ConvParts,
    /// GPU: attention of halves by `mma.sync`, whose scores never leave the registers.
    AttentionMma,
    /// GPU: matrix product of two computed tensors of halves by `mma.sync`.
    PairMma,
    /// GPU: attention of halves by `wgmma`, whose scores never leave the registers.
    AttentionWgmma,
    /// GPU: group normalisation of pictures, whose parts the blocks of a cluster share.
    GroupNormalise,
    /// GPU: samples of pictures at computed places, and the sources of what is scattered to such.
    Places,
    /// GPU: convolution of one tap behind scale, shift and relu by `mma.sync`, whose blocks keep their weights.
    ConvAffine,
    /// GPU: convolution of 3 by 3 neighbours to few channels by `mma.sync`, a warp a tap, whose taps share a patch of pixels.
    ConvTaps,
    /// GPU: convolution or matrix product of floats with constant weights, tile by tile, on ordinary arithmetic units.
    ConvFma,
    /// GPU: convolution of few channels by `mma.sync`, whose taps share a patch of pixels.
    ConvNarrow,
    /// GPU: convolution by `wgmma`, for small pictures of many channels: chains of products side by side in a block.
    ConvChains,
    /// GPU: convolution of few channels of large pictures by `wgmma`, whose taps share a patch of pixels.
    ConvShallow,
    /// GPU: grouped convolution of 3 by 3 neighbours by `wgmma`, whose taps share a patch of pixels.
    ConvGrouped,
    /// GPU: convolution or matrix product of many pixels by `wgmma`, in large tiles.
    ConvLarge,
    /// GPU: convolution of one tap behind scale, shift and relu or behind factors by `wgmma`.
    PrologueWgmma,
    /// GPU: convolution of 3 by 3 neighbours from many channels to few by `wgmma`, whose taps share a patch of pixels.
    ConvSlender,
    /// GPU: convolution of 3 by 3 neighbours by `wgmma`, and the greatest of every 2 by 2 results.
    ConvPooled,
    /// GPU: transposed convolution of few channels by `mma.sync` whose windows lie side by side.
    ConvSpread,
    /// GPU: convolution of few channels by `mma.sync` whose pixels come straight into registers.
    ConvDirect,
}

/// What plan, table and search count: 1 to 8 primitives run as one launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Name of the ONNX node it ends with, for people.
    pub name: String,
    /// The primitives in order; every one but the last is read by a later one.
    pub calls: Vec<Call>,
    /// Where the last primitive's outputs go.
    pub outputs: Vec<View>,
    /// What fixes its bits.
    pub class: ArithmeticClass,
    /// What runs it.
    pub tactic: Tactic,
    /// Thread blocks, or CPU workers, it may hold at once; 0 means as many as there are.
    pub width: u16,
    /// Shares of the last primitive's first output, in order (P2). One chunk covering everything is the plain case.
    pub chunks: Vec<Region>,
}

/// An in-order queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Higher goes first.
    pub priority: u8,
    /// SMs that its work is confined to and that no other confined stream has; 0 for all. How a board's can be shared out, says
    /// [`crate::board::Division`].
    pub units: u16,
}

/// What runs in one frame of the cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSchedule {
    /// Tenants that run, ascending.
    pub tenants: Vec<TenantId>,
    /// Segments in issue order.
    pub segments: Vec<Segment>,
    /// Sync points.
    pub syncs: Vec<SyncPoint>,
}

/// Consecutive steps of one tenant on one stream, run without waiting for anyone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Whose steps these are.
    pub tenant: TenantId,
    /// The stream that runs it.
    pub stream: StreamId,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// One chunk of one operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Step {
    /// The operator.
    pub operator: OperatorId,
    /// Index into its chunks.
    pub chunk: u16,
}

/// Where streams meet: every segment of `before` waits for every segment of `after` (P3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncPoint {
    /// Segments that must have ended; all stand before every segment of `before` in issue order.
    pub after: Vec<SegmentId>,
    /// Segments that wait.
    pub before: Vec<SegmentId>,
}

/// Where a prediction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Basis {
    /// Counted operations and bytes over the board's sustained rates; no measurement.
    Estimated,
    /// An operator lookup table measured on the board.
    Measured,
}

/// What the planner expects of each frame of the cycle (P8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// Where the numbers come from.
    pub basis: Basis,
    /// True if deadlines are wishes: misses are then stored, not refused.
    pub best_effort: bool,
    /// One per frame schedule of the cycle.
    pub frames: Vec<FramePrediction>,
}

impl Prediction {
    /// The longest frame of the cycle.
    pub fn longest(&self) -> Nanos {
        self.frames.iter().map(|f| f.total).max().unwrap_or_default()
    }
}

/// What the planner expects of one frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FramePrediction {
    /// From the start of the frame's work to its end.
    pub total: Nanos,
    /// Finish of each tenant that runs, in the schedule's order of tenants.
    pub finish: Vec<Nanos>,
    /// Indices into the schedule's tenants whose deadline the prediction misses; empty unless best-effort.
    pub misses: Vec<u16>,
}
