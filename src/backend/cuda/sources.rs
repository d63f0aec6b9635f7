//! The kernels' sources as they are part of the program: units, headers, compiler options, and their digests.
//!
//! A unit is one `.cu` file of the folder `kernels` and becomes one cubin of a kernel archive. The digest of all sources
//! ties four things together: the program (whose tables mirror the kernels' parameters), the archive, the plan whose
//! tactics were chosen for these kernels, and measured times.

mod said;

use super::architecture::Toolkit;
use crate::plan::format::{Digest, Kernel};
use said::Said;
use std::collections::BTreeSet;

/// A source file that becomes one cubin.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// Name of the file without extension: what launches and archives call it.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
    /// The architectures it is compiled for; empty for all.
    pub only: &'static [&'static str],
}

impl Unit {
    /// True if an archive for the architecture holds this unit.
    pub fn serves(&self, architecture: &str) -> bool {
        self.only.is_empty() || self.only.contains(&architecture)
    }
}

/// A file that units and other headers include by its name.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Name of the file, as in `#include "name"`.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
}

/// The GPUs that have `wgmma` and the tensor memory accelerator.
const HOPPER: &[&str] = &["sm_90a"];
/// The GPUs that have not.
const OTHERS: &[&str] = &["sm_80", "sm_87", "sm_89", "sm_110", "sm_120"];

macro_rules! unit {
    ($name:literal) => {
        unit!($name, &[])
    };
    ($name:literal, $only:expr) => {
        Unit {
            name: $name,
            source: include_str!(concat!("kernels/", $name, ".cu")),
            only: $only,
        }
    };
}

macro_rules! header {
    ($name:literal) => {
        Header {
            name: $name,
            source: include_str!(concat!("kernels/", $name)),
        }
    };
}

/// Every unit, by name in ascending order.
pub const UNITS: &[Unit] = &[
    unit!("argmax"),
    unit!("attention"),
    unit!("attention_abreast", HOPPER),
    unit!("attention_mma", OTHERS),
    unit!("attention_wgmma", HOPPER),
    unit!("conv_affine", HOPPER),
    unit!("conv_chains", HOPPER),
    unit!("conv_deep", HOPPER),
    unit!("conv_direct"),
    unit!("conv_fma"),
    unit!("conv_grouped", HOPPER),
    unit!("conv_large", HOPPER),
    unit!("conv_mma"),
    unit!("conv_narrow"),
    unit!("conv_parts"),
    unit!("conv_patch", HOPPER),
    unit!("conv_pooled", HOPPER),
    unit!("conv_shallow", HOPPER),
    unit!("conv_slender", HOPPER),
    unit!("conv_spread"),
    unit!("conv_taps", HOPPER),
    unit!("conv_warps"),
    unit!("conv_wgmma", HOPPER),
    unit!("conv_wgmma_kept", HOPPER),
    unit!("conv_wgmma_pingpong", HOPPER),
    unit!("conv_wide", HOPPER),
    unit!("crop"),
    unit!("decode"),
    unit!("depthwise"),
    unit!("depthwise_burst"),
    unit!("depthwise_curved"),
    unit!("depthwise_patch"),
    unit!("depthwise_slab"),
    unit!("depthwise_strip"),
    unit!("depthwise_wide"),
    unit!("elementwise"),
    unit!("elementwise_channels"),
    unit!("elementwise_lanes"),
    unit!("elementwise_runs"),
    unit!("expectation"),
    unit!("gather_sum"),
    unit!("generic_map"),
    unit!("generic_sums"),
    unit!("generic_window"),
    unit!("group_normalise"),
    unit!("group_spread"),
    unit!("marks"),
    unit!("matmul"),
    unit!("matvec"),
    unit!("nms"),
    unit!("nms_choose"),
    unit!("normalise"),
    unit!("normalise_rows"),
    unit!("pad"),
    unit!("pair_mma"),
    unit!("permute"),
    unit!("permute_few"),
    unit!("pool"),
    unit!("pool_few"),
    unit!("pool_long"),
    unit!("pool_rows"),
    unit!("pool_wide"),
    unit!("prepare"),
    unit!("prologue_streamed", HOPPER),
    unit!("prologue_wgmma", HOPPER),
    unit!("recurrent"),
    unit!("recurrent_block"),
    unit!("recurrent_cluster"),
    unit!("recurrent_mma"),
    unit!("reduce"),
    unit!("reduce_few"),
    unit!("reduce_lanes"),
    unit!("reduce_short"),
    unit!("reduce_sums"),
    unit!("resize"),
    unit!("resize_columns"),
    unit!("resize_rows"),
    unit!("sample"),
    unit!("sample_planes"),
    unit!("sample_sums"),
    unit!("scatter"),
    unit!("softmax"),
    unit!("softmax_few"),
    unit!("softmax_long"),
    unit!("softmax_rows"),
    unit!("softmax_short"),
    unit!("squeeze"),
    unit!("stem", HOPPER),
    unit!("stem_band", HOPPER),
    unit!("stream_wgmma", HOPPER),
    unit!("topk"),
    unit!("transpose"),
];

/// Every header, by name in ascending order.
pub const HEADERS: &[Header] = &[
    header!("activations.cuh"),
    header!("attention.cuh"),
    header!("attention_panels.cuh"),
    header!("attention_sums.cuh"),
    header!("attention_weights.cuh"),
    header!("attention_wgmma.cuh"),
    header!("bounds.cuh"),
    header!("boxes.cuh"),
    header!("chain.cuh"),
    header!("choice.cuh"),
    header!("cluster.cuh"),
    header!("conv_grouped_store.cuh"),
    header!("conv_load.cuh"),
    header!("conv_params.cuh"),
    header!("conv_patch.cuh"),
    header!("conv_patch_tile.cuh"),
    header!("conv_wgmma_params.cuh"),
    header!("conv_wgmma_pingpong.cuh"),
    header!("conv_wgmma_store.cuh"),
    header!("conv_wgmma_tile.cuh"),
    header!("conv_wide.cuh"),
    header!("copy_single.cuh"),
    header!("depthwise_few.cuh"),
    header!("depthwise_strip.cuh"),
    header!("divide.cuh"),
    header!("elementwise.cuh"),
    header!("elementwise_chain.cuh"),
    header!("elementwise_halves.cuh"),
    header!("epilogue.cuh"),
    header!("generic.cuh"),
    header!("group_normalise.cuh"),
    header!("grouped_product.cuh"),
    header!("groups.cuh"),
    header!("halves.cuh"),
    header!("hopper.cuh"),
    header!("math.cuh"),
    header!("math_halves.cuh"),
    header!("matrix.cuh"),
    header!("maxima.cuh"),
    header!("mma.cuh"),
    header!("normalise_order.cuh"),
    header!("pair_load.cuh"),
    header!("parameters.cuh"),
    header!("patch_pixels.cuh"),
    header!("patch_product.cuh"),
    header!("pixel_product.cuh"),
    header!("pixels.cuh"),
    header!("placement.cuh"),
    header!("pool_taps.cuh"),
    header!("power.cuh"),
    header!("prologue_wgmma.cuh"),
    header!("quads.cuh"),
    header!("recurrent_mma.cuh"),
    header!("reduce.cuh"),
    header!("ring.cuh"),
    header!("run.cuh"),
    header!("sample.cuh"),
    header!("sample_pieces.cuh"),
    header!("scalar.cuh"),
    header!("select.cuh"),
    header!("slot.cuh"),
    header!("stem_params.cuh"),
    header!("stem_tile.cuh"),
    header!("tail.cuh"),
    header!("turned.cuh"),
    header!("types.cuh"),
    header!("view.cuh"),
    header!("wgmma.cuh"),
    header!("wgmma_cores.cuh"),
    header!("window.cuh"),
];

/// Options that every unit is compiled with, besides the architecture.
///
/// Multiply-adds are fused only where a kernel says so, so that its bits do not depend on the compiler's choices.
pub const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false", "--device-as-default-execution-space"];

/// Bytes of a version of this module's digests: raised when the way they are made changes.
const RECIPE: &str = "platoon kernels 2";

/// The unit of a name.
pub fn unit(name: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|u| u.name == name)
}

/// The units that an archive for the architecture holds, in its order.
pub fn units_for(architecture: &str) -> impl Iterator<Item = &'static Unit> + '_ {
    UNITS.iter().filter(move |u| u.serves(architecture))
}

/// The kernels that have units of their own; any other unit may serve any other kernel.
const OWN: &[(Kernel, &[&str])] = &[
    (Kernel::ConvAffine, &["conv_affine"]),
    (Kernel::ConvChains, &["conv_chains"]),
    (Kernel::ConvFma, &["conv_fma"]),
    (Kernel::ConvGrouped, &["conv_grouped"]),
    (Kernel::ConvLarge, &["conv_large"]),
    (Kernel::ConvMma, &["conv_mma"]),
    (Kernel::ConvDirect, &["conv_direct"]),
    (Kernel::ConvNarrow, &["conv_narrow"]),
    (Kernel::ConvParts, &["conv_parts"]),
    (Kernel::ConvPooled, &["conv_pooled"]),
    (Kernel::ConvShallow, &["conv_shallow"]),
    (Kernel::ConvSlender, &["conv_slender"]),
    (Kernel::ConvSpread, &["conv_spread"]),
    (Kernel::ConvTaps, &["conv_taps"]),
    (Kernel::ConvWarps, &["conv_warps"]),
    (Kernel::ConvWgmma, &["conv_wgmma", "conv_wgmma_kept", "conv_wgmma_pingpong"]),
    (Kernel::PrologueWgmma, &["prologue_streamed", "prologue_wgmma"]),
    (Kernel::StreamWgmma, &["stream_wgmma"]),
    (Kernel::ConvPatch, &["conv_deep", "conv_patch", "conv_wide"]),
    (Kernel::Prepare, &["prepare", "crop"]),
    (Kernel::Decode, &["argmax", "decode", "nms", "nms_choose", "topk"]),
    (Kernel::Squeeze, &["squeeze"]),
    (Kernel::Stem, &["stem", "stem_band"]),
    (Kernel::AttentionMma, &["attention_mma"]),
    (Kernel::AttentionWgmma, &["attention_abreast", "attention_wgmma"]),
    (Kernel::PairMma, &["pair_mma"]),
    (Kernel::Normalise, &["normalise", "normalise_rows"]),
    (Kernel::GroupNormalise, &["group_normalise", "group_spread"]),
    (
        Kernel::Reduce,
        &["reduce", "reduce_few", "reduce_lanes", "reduce_short", "reduce_sums"],
    ),
    (
        Kernel::Elementwise,
        &["elementwise", "elementwise_channels", "elementwise_lanes", "elementwise_runs"],
    ),
    (
        Kernel::Copy,
        &["elementwise", "elementwise_channels", "elementwise_runs", "permute", "permute_few"],
    ),
    (Kernel::Places, &["sample", "sample_planes", "sample_sums", "scatter"]),
];

/// The same of kernels whose units others launch as well: the generic one runs what it can run better through them.
const PLAIN: &[(Kernel, &[&str])] = &[
    (Kernel::Attention, &["attention"]),
    (
        Kernel::ConvDepthwise,
        &[
            "depthwise",
            "depthwise_burst",
            "depthwise_curved",
            "depthwise_patch",
            "depthwise_slab",
            "depthwise_strip",
            "depthwise_wide",
        ],
    ),
    (Kernel::ConvTranspose, &["transpose"]),
    (Kernel::MatMul, &["matmul"]),
    (Kernel::MatVec, &["matvec"]),
    (Kernel::Pool, &["pool", "pool_few", "pool_long", "pool_rows", "pool_wide"]),
    (
        Kernel::Recurrent,
        &["recurrent", "recurrent_block", "recurrent_cluster", "recurrent_mma"],
    ),
    (Kernel::Resize, &["resize", "resize_columns", "resize_rows"]),
    (
        Kernel::Softmax,
        &[
            "expectation",
            "softmax",
            "softmax_few",
            "softmax_long",
            "softmax_rows",
            "softmax_short",
        ],
    ),
];

/// True if a kernel may be launched from a unit. Says yes where nothing is known, so that a time which is kept for a kernel
/// is never older than its sources.
pub fn serves(unit: &str, kernel: Kernel) -> bool {
    match OWN.iter().chain(PLAIN).find(|(own, _)| *own == kernel) {
        Some((_, units)) => units.contains(&unit),
        None => !OWN.iter().any(|(_, units)| units.contains(&unit)),
    }
}

/// Digest of all units, headers and options: of the kernels as a whole, whatever compiles them for whatever GPU.
///
/// The texts are folded as the program is compiled: a program that compiles no kernels, such as a vehicle's, does not hold their sources.
#[allow(long_running_const_eval, reason = "half a megabyte, one byte after the other")]
pub fn digest() -> Digest {
    // In steps: of longer evaluations the compiler warns whatever is allowed.
    const QUARTER: usize = UNITS.len() / 4;
    const FIRST: u128 = fold_units(fold(FNV_BASIS, RECIPE), 0, QUARTER);
    const SECOND: u128 = fold_units(FIRST, QUARTER, 2 * QUARTER);
    const THIRD: u128 = fold_units(SECOND, 2 * QUARTER, 3 * QUARTER);
    const FOURTH: u128 = fold_units(THIRD, 3 * QUARTER, UNITS.len());
    const ALL: u128 = fold_rest(FOURTH);
    Digest::of(&ALL.to_le_bytes())
}

/// Folds the units from one on up to another into a hash.
const fn fold_units(mut hash: u128, from: usize, to: usize) -> u128 {
    let mut at = from;
    while at < to {
        hash = fold_source(fold(hash, UNITS[at].name), UNITS[at].source);
        let mut only = 0;
        while only < UNITS[at].only.len() {
            hash = fold(hash, UNITS[at].only[only]);
            only += 1;
        }
        at += 1;
    }
    hash
}

/// Folds headers and options into a hash.
const fn fold_rest(mut hash: u128) -> u128 {
    let mut at = 0;
    while at < HEADERS.len() {
        hash = fold_source(fold(hash, HEADERS[at].name), HEADERS[at].source);
        at += 1;
    }
    at = 0;
    while at < OPTIONS.len() {
        hash = fold(hash, OPTIONS[at]);
        at += 1;
    }
    hash
}

/// Fowler, Noll and Vo's FNV-1a of 128 bits: where it begins, and what it multiplies by.
const FNV_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// Folds a text and its end, a byte that no text has, into a hash.
const fn fold(mut hash: u128, text: &str) -> u128 {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u128).wrapping_mul(FNV_PRIME);
        at += 1;
    }
    (hash ^ 0xff).wrapping_mul(FNV_PRIME)
}

/// The same of a source, of which [`Said`] counts.
const fn fold_source(mut hash: u128, source: &str) -> u128 {
    let mut said = Said::new(source);
    while let Some(byte) = said.next() {
        hash = (hash ^ byte as u128).wrapping_mul(FNV_PRIME);
    }
    (hash ^ 0xff).wrapping_mul(FNV_PRIME)
}

/// Digest of what one unit's cubin is made from: its source, the headers it includes, options, architecture, toolkit.
pub fn unit_digest(unit: &Unit, architecture: &str, toolkit: Toolkit) -> Digest {
    let mut text = Text::new();
    text.push(architecture);
    text.push(&toolkit.to_string());
    text.push(unit.name);
    text.push_source(unit.source);
    for header in included(unit) {
        text.push(header.name);
        text.push_source(header.source);
    }
    text.digest()
}

/// The headers that a unit includes, directly or through others, in the list's order.
pub fn included(unit: &Unit) -> Vec<&'static Header> {
    let mut seen = BTreeSet::new();
    let mut open = vec![unit.source];
    while let Some(source) = open.pop() {
        for name in includes(source) {
            let header = HEADERS.iter().find(|h| h.name == name);
            if let Some(header) = header.filter(|h| seen.insert(h.name)) {
                open.push(header.source);
            }
        }
    }
    HEADERS.iter().filter(|h| seen.contains(h.name)).collect()
}

/// The names in a source's `#include` lines, quotation marks or brackets removed.
fn includes(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let rest = rest.trim_start();
        let end = if rest.starts_with('<') { '>' } else { '"' };
        rest.get(1..)?.split(end).next()
    })
}

/// Texts one after another, each behind its length, so that no two lists of texts give the same bytes.
struct Text(Vec<u8>);

impl Text {
    fn new() -> Text {
        let mut text = Text(Vec::new());
        text.push(RECIPE);
        OPTIONS.iter().for_each(|o| text.push(o));
        text
    }

    fn push(&mut self, part: &str) {
        self.0.extend((part.len() as u64).to_le_bytes());
        self.0.extend(part.as_bytes());
    }

    fn push_source(&mut self, source: &str) {
        let mut said = Said::new(source);
        let bytes: Vec<u8> = std::iter::from_fn(|| said.next()).collect();
        self.0.extend((bytes.len() as u64).to_le_bytes());
        self.0.extend(bytes);
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }
}

#[cfg(test)]
mod tests;
