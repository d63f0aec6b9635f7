//! From an operator of a plan to the launches of its chunks: tables only, no driver, so all of it runs without a GPU.
//!
//! [`compile`] looks at an operator once: it checks what its kernel demands, and packs weights. The [`Kernel`] it gives
//! then says, for every chunk and every set of addresses (a slot has its own), what is launched. The bytes of a launch's
//! parameters mirror a struct of the kernel's source.

mod attention;
mod constants;
mod conv_affine;
mod conv_chains;
mod conv_direct;
mod conv_fma;
mod conv_grouped;
mod conv_large;
pub mod conv_mma;
mod conv_narrow;
mod conv_parts;
mod conv_patch;
mod conv_pooled;
mod conv_shallow;
mod conv_slender;
mod conv_spread;
mod conv_taps;
mod conv_warps;
pub mod conv_wgmma;
mod conv_wide;
mod depthwise;
mod depthwise_patch;
mod depthwise_slab;
mod depthwise_strip;
mod depthwise_wide;
mod elementwise;
pub mod epilogue;
mod expectation;
mod frame;
mod generic;
mod group_normalise;
mod groups;
mod matmul;
mod matrices;
mod matvec;
mod normalise;
mod operands;
mod packs;
mod pad;
mod pair_mma;
mod patches;
mod permute;
mod permute_few;
mod pieces;
mod places;
mod pool;
mod pool_few;
mod pool_long;
mod pool_rows;
mod pool_wide;
mod prologue_wgmma;
mod recurrent;
mod recurrent_mma;
mod reduce;
mod resize;
mod resize_columns;
mod resize_rows;
mod softmax;
mod softmax_few;
mod softmax_long;
mod squeeze;
mod stem;
mod stream_wgmma;
mod swizzle;
pub mod tail;
#[cfg(test)]
mod tests;
mod transpose;
pub mod views;
pub mod vision;
mod window;

pub use self::packs::{PackId, Packer, Packs};

use crate::ids::BufferId;
use crate::plan::format::{Family, Kernel as Named, Operator, Plan, Space, View};
use crate::primitive::{PrimitiveError, Region};

/// Most bytes of a kernel's parameters.
pub const MAX_PARAMS: usize = 4032;

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The unit of the kernel archive: the name of its source file, without extension.
    pub unit: &'static str,
    /// The kernel in that unit.
    pub function: String,
    /// Thread blocks; they stride over the tiles.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Blocks of a cluster, 1 for none; divides `blocks`.
    pub cluster: u32,
    /// The kernel's one argument, at most [`MAX_PARAMS`] bytes.
    pub params: Box<[u8]>,
}

impl Launch {
    /// A launch of `tiles` tiles by at most `width` blocks (0 for as many as there are tiles) without shared memory.
    pub fn new<P: bytemuck::Pod>(
        unit: &'static str,
        function: impl Into<String>,
        tiles: u32,
        width: u16,
        threads: u32,
        params: &P,
    ) -> Launch {
        Launch {
            unit,
            function: function.into(),
            blocks: blocks(tiles, width),
            threads,
            shared: 0,
            cluster: 1,
            params: bytemuck::bytes_of(params).into(),
        }
    }
}

/// Blocks that stride over `tiles` tiles under launch width `width`; 0 means as many as there are tiles.
pub fn blocks(tiles: u32, width: u16) -> u32 {
    match width {
        0 => tiles.max(1),
        width => tiles.clamp(1, u32::from(width)),
    }
}

/// Blocks of a launch that make as many tiles as each other where they can, of which so many share a multiprocessor: for kernels whose
/// blocks begin with what serves all of their tiles.
fn evenly(at: &Addresses<'_>, tiles: u32, together: u32) -> u32 {
    let places = match at.multiprocessors {
        0 => tiles,
        units => units.saturating_mul(together),
    };
    tiles.div_ceil(tiles.div_ceil(places.max(1)).max(1))
}

/// A stretch of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Device address of its first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
}

impl Area {
    /// The part from byte `offset`, `bytes` bytes long; `None` if it is not inside.
    pub fn part(self, offset: u64, bytes: u64) -> Option<Area> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        inside.then(|| Area {
            address: self.address + offset,
            bytes,
        })
    }
}

/// Makes the descriptors that the tensor memory accelerator reads. The driver does; tests give any bytes.
pub trait TensorMaps {
    /// A tiled map (`cuTensorMapEncodeTiled`).
    fn tiled(&self, map: &TiledMap) -> Result<TensorMap, BindError>;
    /// An im2col map (`cuTensorMapEncodeIm2col`).
    fn im2col(&self, map: &Im2colMap) -> Result<TensorMap, BindError>;
}

/// An encoded descriptor; 64-byte aligned in a kernel's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct TensorMap(pub [u64; 16]);

/// Bytes of a row of shared memory whose 16-byte pieces are permuted against bank conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// None.
    None,
    /// 32 bytes.
    B32,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
}

/// A tensor of f16 seen in boxes, innermost axis first; 1 to 5 axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiledMap {
    /// Device address, a multiple of 16.
    pub address: u64,
    /// Extents.
    pub extents: Vec<u64>,
    /// Bytes from one position to the next along axes 1 and on; multiples of 16.
    pub strides: Vec<u64>,
    /// Extents of a box, at most 256 each.
    pub tile: Vec<u32>,
    /// Steps inside a box, at most 8 each.
    pub steps: Vec<u32>,
    /// Arrangement in shared memory.
    pub swizzle: Swizzle,
}

/// An `[N, H, W, C]` tensor of f16 seen pixel by pixel under a window; axes innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Im2colMap {
    /// Device address, a multiple of 16.
    pub address: u64,
    /// Extents C, W, H, N.
    pub extents: [u64; 4],
    /// Bytes from one position to the next along W, H, N; multiples of 16.
    pub strides: [u64; 3],
    /// First corner of the box of base pixels, W and H.
    pub lower: [i32; 2],
    /// Last corner, relative to the extents, W and H.
    pub upper: [i32; 2],
    /// Channels a load.
    pub channels: u32,
    /// Pixels a load.
    pub pixels: u32,
    /// Steps along C, W, H, N.
    pub steps: [u32; 4],
    /// Arrangement in shared memory.
    pub swizzle: Swizzle,
}

/// Where everything lies when a launch is made: one set of addresses for each slot and stream.
#[derive(Clone, Copy)]
pub struct Addresses<'a> {
    /// The plan whose views are looked up.
    pub plan: &'a Plan,
    /// The arena.
    pub arena: Area,
    /// The plan's persistent region.
    pub persistent: Area,
    /// The slot's tensor inputs.
    pub input: Area,
    /// The slot's results.
    pub output: Area,
    /// The slot's camera images.
    pub images: &'a [Area],
    /// The plan's weight sections as they are in their files.
    pub weights: &'a [Area],
    /// Packed weights, by [`PackId`].
    pub packs: &'a [Area],
    /// The slot's block: frame number and image parameters.
    pub slot: u64,
    /// Workspace of the stream: at least [`Kernel::workspace`] bytes.
    pub workspace: Area,
    /// The GPU has clusters of blocks that share their memory (sm_90 and newer).
    pub clusters: bool,
    /// Multiprocessors that launches may use; 0 where they are not known.
    pub multiprocessors: u32,
    /// Descriptors.
    pub maps: &'a dyn TensorMaps,
}

impl Addresses<'_> {
    /// The GPU's multiprocessors: blocks that there is room for where one fills a multiprocessor; no end of them where they are not known.
    pub fn rooms(&self) -> u32 {
        if self.multiprocessors == 0 {
            u32::MAX
        } else {
            self.multiprocessors
        }
    }

    /// The bytes of a buffer.
    pub fn buffer(&self, buffer: BufferId) -> Result<Area, BindError> {
        let it = self.plan.buffers.get(buffer.index()).ok_or(BindError::Reference)?;
        let whole = |area: Option<&Area>| area.and_then(|a| a.part(0, it.bytes));
        let area = match it.space {
            Space::Arena { offset } => self.arena.part(offset, it.bytes),
            Space::Persistent { offset } => self.persistent.part(offset, it.bytes),
            Space::Input { offset } => self.input.part(offset, it.bytes),
            Space::Output { offset } => self.output.part(offset, it.bytes),
            Space::Camera(camera) => whole(self.images.get(camera.index())),
            Space::Weights(section) => whole(self.weights.get(section.index())),
        };
        area.ok_or(BindError::Reference)
    }

    /// The first `bytes` of the counters at the workspace's head, at most [`COUNTER_BYTES`].
    fn counters(&self, bytes: u64) -> Result<Area, BindError> {
        self.workspace.part(0, bytes).ok_or(BindError::Reference)
    }

    /// The `bytes` of the workspace behind its counters, for anything else.
    fn scratch(&self, bytes: u64) -> Result<Area, BindError> {
        self.workspace.part(COUNTER_BYTES, bytes).ok_or(BindError::Reference)
    }

    /// Device address of a view's element `[0, .., 0]`. The view lies inside its buffer (P6).
    pub fn view(&self, view: &View) -> Result<u64, BindError> {
        let offset = view.origin.checked_mul(view.dtype.bytes()).ok_or(BindError::Reference)?;
        let area = self.buffer(view.buffer)?;
        (offset <= area.bytes).then_some(area.address + offset).ok_or(BindError::Reference)
    }

    /// Packed weights.
    pub fn pack(&self, pack: PackId) -> Result<Area, BindError> {
        self.packs.get(pack.0).copied().ok_or(BindError::Reference)
    }
}

/// Bytes at the head of every workspace that hold counters: zero before the first launch, and left zero by each. Operators of one
/// stream share its workspace, so whatever else one of them leaves there lies behind them.
pub const COUNTER_BYTES: u64 = 64 << 10;

/// Bytes of a workspace with so many behind its counters; none for none.
fn workspace_of(scratch: u64) -> u64 {
    match scratch {
        0 => 0,
        bytes => COUNTER_BYTES + bytes,
    }
}

/// An operator ready to be launched.
pub trait Kernel: Send {
    /// Bytes of workspace that a launch in flight needs, the [`COUNTER_BYTES`] at its head included; zeros before the first launch.
    fn workspace(&self) -> u64 {
        0
    }

    /// The launches of a chunk, in order, under launch width `width` (0 for as many blocks as there are tiles).
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError>;
}

/// Why an operator has no launches. Of a checked plan whose tactics fit, only want of memory is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The operator refers to something that is not there (P1).
    #[error("the operator refers to a buffer that is not there")]
    Reference,
    /// A primitive does not fit its operands (P6).
    #[error(transparent)]
    Primitive(#[from] PrimitiveError),
    /// The tactic's kernel does not serve the operator.
    #[error("the kernel does not serve the operator: {0}")]
    Tactic(&'static str),
    /// A number that the kernel's parameters cannot hold.
    #[error("{0} is too large for the kernel")]
    Large(&'static str),
    /// The driver refused a tensor map.
    #[error("the driver refused a tensor map (code {0})")]
    TensorMap(u32),
}

/// Tiles, threads or elements of so many along each axis: what kernels count, and step over by less than as much again, in 32 bits.
/// Fails with `of` where there are 2^31 or more.
pub fn count(extents: impl IntoIterator<Item = u32>, of: &'static str) -> Result<u32, BindError> {
    let all = extents.into_iter().try_fold(1u64, |all, n| all.checked_mul(u64::from(n)));
    all.filter(|&n| n < 1 << 31).map(|n| n as u32).ok_or(BindError::Large(of))
}

/// Looks at an operator and gives what launches it: the dispatch by its tactic's kernel.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    match operator.tactic.kernel {
        Named::Generic => generic::compile(packer, operator),
        Named::ConvDepthwise => depthwise::compile(packer, operator),
        Named::ConvTranspose => transpose::compile(packer, operator),
        Named::MatMul => matmul::compile(operator),
        Named::MatVec => matvec::compile(packer, operator),
        Named::Elementwise | Named::Copy => elementwise::compile(operator),
        Named::Pool => pool::compile(operator),
        Named::Reduce => reduce::compile(operator),
        Named::Softmax => softmax::compile(operator),
        Named::Squeeze => squeeze::compile(packer, operator),
        Named::Resize => resize::compile(packer, operator),
        Named::Normalise => normalise::compile(operator),
        Named::GroupNormalise => group_normalise::compile(operator),
        Named::Attention => attention::plain::compile(operator),
        Named::Places => places::compile(operator),
        Named::PairMma => pair_mma::compile(operator),
        Named::AttentionMma => attention::mma::compile(operator),
        Named::AttentionWgmma => attention::wgmma::compile(packer, operator),
        Named::Recurrent if operator.class.family == Family::TensorCore => recurrent_mma::compile(packer, operator),
        Named::Recurrent => recurrent::compile(packer, operator),
        Named::PrologueWgmma => prologue_wgmma::compile(packer, operator),
        Named::ConvAffine => conv_affine::compile(packer, operator),
        Named::ConvChains => conv_chains::compile(packer, operator),
        Named::ConvLarge => conv_large::compile(packer, operator),
        Named::ConvGrouped => conv_grouped::compile(packer, operator),
        Named::ConvFma => conv_fma::compile(packer, operator),
        Named::ConvMma => conv_mma::compile(packer, operator),
        Named::ConvNarrow => conv_narrow::compile(packer, operator),
        Named::Stem => stem::compile(packer, operator),
        Named::Prepare | Named::Decode => vision::compile(operator),
        Named::ConvTaps => conv_taps::compile(packer, operator),
        Named::ConvWarps => conv_warps::compile(packer, operator),
        Named::ConvWgmma => conv_wgmma::compile(packer, operator),
        Named::ConvParts => conv_parts::compile(packer, operator),
        Named::ConvPatch => conv_patch::compile(packer, operator),
        Named::ConvPooled => conv_pooled::compile(packer, operator),
        Named::ConvDirect => conv_direct::compile(packer, operator),
        Named::ConvSpread => conv_spread::compile(packer, operator),
        Named::ConvShallow => conv_shallow::compile(packer, operator),
        Named::ConvSlender => conv_slender::compile(packer, operator),
        Named::StreamWgmma => stream_wgmma::compile(packer, operator),
        _ => Err(BindError::Tactic("no kernel of this backend has the name")),
    }
}
