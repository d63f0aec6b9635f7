//! Rewrites of the graph. Each pass is one file and leaves the graph verified; what a pass may change of a network's
//! result is at most the rounding of the arithmetic it folds.

mod abreast;
mod attention;
mod averages;
mod beside;
mod branches;
mod collected;
mod columns;
mod common;
mod deformable;
mod drop_dead;
mod drop_noops;
mod edges;
mod expectation;
mod flattened;
mod fold_ahead;
mod fold_batchnorm;
mod fold_constants;
mod fold_pad;
mod gelu;
mod group_normalise;
mod hardswish;
mod heads;
mod integers;
mod lines;
mod masks;
mod maxima;
mod merged_axes;
mod mixed;
mod nested;
mod normalise;
mod norms;
mod parted;
mod patches;
mod pictured;
mod rearranged;
mod reaxed;
mod reduced;
mod rejoined;
pub(super) mod rewrite;
mod rotary;
mod rows;
mod scores;
mod share;
mod short_sums;
mod shuffled;
mod siblings;
mod silu;
mod spaced_heads;
mod spread;
mod squares;
mod stack;
mod subnormals;
mod temperatures;
#[cfg(test)]
mod tests;
mod through_views;
mod unsplit;
mod volumes;
mod whole_channels;

pub(super) use drop_dead::run as drop_dead;
pub(super) use rewrite::replace;

use super::graph::{Graph, VerifyError, verify};
use crate::plan::tactic::Target;
use crate::tensor::DType;

/// Which passes run. The set is part of a plan's source: compiling with and without a pass is how passes are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassSet(u64);

impl PassSet {
    /// No pass at all: every node an operator of its own, every view a copy, everything in C order.
    pub const NONE: PassSet = PassSet(0);
    /// Nodes whose inputs are all constant become constants, and so do integers that can be but one number.
    pub const FOLD_CONSTANTS: PassSet = PassSet(1);
    /// Nodes that change nothing go; views of views become one.
    pub const DROP_NOOPS: PassSet = PassSet(1 << 1);
    /// Zero padding before a window moves into the window.
    pub const FOLD_PAD: PassSet = PassSet(1 << 2);
    /// Per-channel scale and shift after a convolution or matrix product move into its weights and bias.
    pub const FOLD_BATCHNORM: PassSet = PassSet(1 << 3);
    /// `x * sigmoid(x)` becomes one function.
    pub const SILU: PassSet = PassSet(1 << 4);
    /// The spellings of hard swish become one function.
    pub const HARDSWISH: PassSet = PassSet(1 << 5);
    /// Nodes nobody reads go.
    pub const DROP_DEAD: PassSet = PassSet(1 << 6);
    /// Lowering groups nodes into operators of up to eight primitives.
    pub const GROUP: PassSet = PassSet(1 << 7);
    /// Lowering stores image-like values channels-last.
    pub const LAYOUT: PassSet = PassSet(1 << 8);
    /// Lowering turns views and concatenations into strides instead of copies.
    pub const ELIDE: PassSet = PassSet(1 << 9);
    /// Gelu, spelled with the error function or with the hyperbolic tangent, becomes one function.
    pub const GELU: PassSet = PassSet(1 << 10);
    /// Layer normalisation, spelled with means, becomes one primitive.
    pub const NORMALISE: PassSet = PassSet(1 << 11);
    /// Two matrix products around a softmax become one primitive.
    pub const ATTENTION: PassSet = PassSet(1 << 12);
    /// Lowering joins a convolution and the maxima of its results, on boards whose kernels compute both at once.
    pub const POOLED: PassSet = PassSet(1 << 13);
    /// Matrix products of flattened pictures read these as they are stored.
    pub const FLATTENED: PassSet = PassSet(1 << 14);
    /// Windows over lines become those of pictures of one row, and those over volumes those of slices as pictures.
    pub const LINES: PassSet = PassSet(1 << 15);
    /// Attention of any length and with masks too, for kernels on tensor cores.
    pub const LONG_ATTENTION: PassSet = PassSet(1 << 16);
    /// Convolutions of windows side by side take their pixels as channels.
    pub const PATCHES: PassSet = PassSet(1 << 17);
    /// Products of one matrix with several constant ones become one.
    pub const SIBLINGS: PassSet = PassSet(1 << 18);
    /// Lowering leaves the factors of products of two computed matrices as they lie.
    pub const PAIRS: PassSet = PassSet(1 << 19);
    /// Products of more than a matrix a sample by one constant matrix become those of one matrix a sample.
    pub const MERGED_AXES: PassSet = PassSet(1 << 20);
    /// Concatenations that begin or end with an earlier one's parts take its result.
    pub const NESTED: PassSet = PassSet(1 << 21);
    /// Sums of few elements become additions.
    pub const SHORT_SUMS: PassSet = PassSet(1 << 22);
    /// Branches that convolve one input and are added become one convolution.
    pub const BRANCHES: PassSet = PassSet(1 << 23);
    /// Normalisations of groups of channels become those of pictures as they are stored, of which a kernel has a sample whole.
    pub const GROUP_NORMALISE: PassSet = PassSet(1 << 24);
    /// Parts of one value that a concatenation puts side by side again become one part.
    pub const REJOINED: PassSet = PassSet(1 << 25);
    /// Functions behind a concatenation of products go to each part.
    pub const PARTED: PassSet = PassSet(1 << 26);
    /// Per-channel scale and shift before a convolution move into its weights and bias.
    pub const FOLD_AHEAD: PassSet = PassSet(1 << 27);
    /// Lowering joins chains of elementwise functions where they meet.
    pub const MEETING: PassSet = PassSet(1 << 28);
    /// Slices of a shuffle are those of what was shuffled.
    pub const SHUFFLED: PassSet = PassSet(1 << 29);
    /// The root of the sum of squares becomes one reduction.
    pub const NORMS: PassSet = PassSet(1 << 30);
    /// Convolutions of one picture with windows alike become one, and so do those of heads that collect several maps.
    pub const ABREAST: PassSet = PassSet(1 << 31);
    /// Functions behind views of what a product makes go in front of the views.
    pub const THROUGH_VIEWS: PassSet = PassSet(1 << 32);
    /// Features and their partners, turned by angles, are one function.
    pub const ROTARY: PassSet = PassSet(1 << 33);
    /// Reductions of reductions become one.
    pub const REDUCED: PassSet = PassSet(1 << 34);
    /// Rows of channels that several steps bring into another order are gathered at once.
    pub const ROWS: PassSet = PassSet(1 << 35);
    /// Transposed convolutions of windows side by side become ordinary ones of single pixels.
    pub const BESIDE: PassSet = PassSet(1 << 36);
    /// Behind large products lowering leaves what their kernels have no path for to operators of its own.
    pub const SHORT_TAILS: PassSet = PassSet(1 << 37);
    /// Squares, spelled as powers, become products.
    pub const SQUARES: PassSet = PassSet(1 << 38);
    /// Padding by a constant becomes concatenations.
    pub const EDGES: PassSet = PassSet(1 << 39);
    /// Depthwise convolutions of shares of channels by windows of several sizes become one.
    pub const MIXED: PassSet = PassSet(1 << 40);
    /// Shares that go through the same functions, by numbers of their own, before they are joined again stay one.
    pub const UNSPLIT: PassSet = PassSet(1 << 41);
    /// Pictures that convolutions make get channels of zeros behind theirs, until these are whole pieces of 16 bytes.
    pub const WHOLE_CHANNELS: PassSet = PassSet(1 << 42);
    /// Convolutions of few channels become ones whose products are full, of volumes and of many channels to one; lowering moves many
    /// short rows of products to whole pieces.
    pub const FULLER: PassSet = PassSet(1 << 43);
    /// Views in a row that cut, turn and join axes more than once do so once.
    pub const REARRANGED: PassSet = PassSet(1 << 44);
    /// Heads of attention that fill no whole pieces of 16 bytes get columns of zeros behind them.
    pub const SPACED_HEADS: PassSet = PassSet(1 << 45);
    /// Averages of large windows that lie side by side become means.
    pub const AVERAGES: PassSet = PassSet(1 << 46);
    /// Samples that are weighed and added are never stored.
    pub const DEFORMABLE: PassSet = PassSet(1 << 47);
    /// Maxima of very many elements are taken in shares.
    pub const MAXIMA: PassSet = PassSet(1 << 48);
    /// Shares of a softmax that weigh constants and are added are never stored.
    pub const EXPECTATION: PassSet = PassSet(1 << 49);
    /// Shares of what several maps are collected to are collected themselves.
    pub const COLLECTED: PassSet = PassSet(1 << 50);
    /// Functions behind concatenations go to each part, and those of few elements to each operator that reads them.
    pub const SPREAD: PassSet = PassSet(1 << 51);
    /// Channels that are the same at all places are multiplied once.
    pub const COMMON: PassSet = PassSet(1 << 52);
    /// Weights, slopes and shifts that are subnormal become zeros.
    pub const SUBNORMALS: PassSet = PassSet(1 << 53);
    /// Every pass.
    pub const ALL: PassSet = PassSet(u64::MAX);

    /// The set without what the target's kernels do not take.
    pub fn on(self, target: Target) -> PassSet {
        match target {
            Target::Cuda { wgmma: true } => self,
            Target::Cuda { wgmma: false } => [PassSet::POOLED, PassSet::BESIDE, PassSet::FULLER]
                .into_iter()
                .fold(self, PassSet::without),
            Target::Cpu => [
                PassSet::POOLED,
                PassSet::LONG_ATTENTION,
                PassSet::PAIRS,
                PassSet::GROUP_NORMALISE,
                PassSet::MEETING,
                PassSet::BESIDE,
                PassSet::SHORT_TAILS,
                PassSet::MIXED,
                PassSet::FULLER,
                PassSet::SPACED_HEADS,
                PassSet::WHOLE_CHANNELS,
                PassSet::AVERAGES,
                PassSet::DEFORMABLE,
                PassSet::MAXIMA,
                PassSet::EXPECTATION,
                PassSet::COLLECTED,
                PassSet::SPREAD,
            ]
            .into_iter()
            .fold(self, PassSet::without),
        }
    }

    /// The set without what the target's kernels do not take of floats of `dtype`.
    pub fn of(self, dtype: DType, target: Target) -> PassSet {
        match dtype {
            DType::F16 => self.on(target),
            _ => [
                PassSet::LONG_ATTENTION,
                PassSet::BESIDE,
                PassSet::FULLER,
                PassSet::SPACED_HEADS,
                PassSet::WHOLE_CHANNELS,
            ]
            .into_iter()
            .fold(self.on(target), PassSet::without),
        }
    }

    /// True if all passes of `other` are in the set.
    pub const fn has(self, other: PassSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set with the passes of `other` as well.
    pub const fn with(self, other: PassSet) -> PassSet {
        PassSet(self.0 | other.0)
    }

    /// The set without the passes of `other`.
    pub const fn without(self, other: PassSet) -> PassSet {
        PassSet(self.0 & !other.0)
    }

    /// The set as a number, for digests.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl Default for PassSet {
    fn default() -> Self {
        PassSet::ALL
    }
}

/// A pass that left the graph broken: a bug, named.
#[derive(Debug, thiserror::Error)]
#[error("pass `{pass}` broke the graph of {graph}: report this bug, compile without the pass")]
pub struct PassError {
    /// The pass.
    pub pass: &'static str,
    /// The network.
    pub graph: String,
    /// What the verifier found.
    pub source: VerifyError,
}

struct Pass {
    name: &'static str,
    flag: PassSet,
    run: fn(&mut Graph),
}

/// In the order they run. Constants come first because the patterns look for them; folding into weights leaves new ones, and joined
/// branches may be scaled before they are added to their input again. What a function spelled in pieces is made of is folded into
/// nothing behind it before it is known.
const PASSES: [Pass; 59] = [
    Pass {
        name: "drop_dead",
        flag: PassSet::DROP_DEAD,
        run: drop_dead::run,
    },
    Pass {
        name: "fold_constants",
        flag: PassSet::FOLD_CONSTANTS,
        run: fold_constants::run,
    },
    Pass {
        name: "integers",
        flag: PassSet::FOLD_CONSTANTS,
        run: integers::run,
    },
    Pass {
        name: "drop_noops",
        flag: PassSet::DROP_NOOPS,
        run: drop_noops::run,
    },
    Pass {
        name: "collected",
        flag: PassSet::COLLECTED,
        run: collected::run,
    },
    Pass {
        name: "rejoined",
        flag: PassSet::REJOINED,
        run: rejoined::run,
    },
    Pass {
        name: "nested",
        flag: PassSet::NESTED,
        run: nested::run,
    },
    Pass {
        name: "reduced",
        flag: PassSet::REDUCED,
        run: reduced::run,
    },
    Pass {
        name: "deformable",
        flag: PassSet::DEFORMABLE,
        run: deformable::run,
    },
    Pass {
        name: "maxima",
        flag: PassSet::MAXIMA,
        run: maxima::run,
    },
    Pass {
        name: "averages",
        flag: PassSet::AVERAGES,
        run: averages::run,
    },
    Pass {
        name: "short sums",
        flag: PassSet::SHORT_SUMS,
        run: short_sums::run,
    },
    Pass {
        name: "unsplit",
        flag: PassSet::UNSPLIT,
        run: unsplit::run,
    },
    Pass {
        name: "fold_pad",
        flag: PassSet::FOLD_PAD,
        run: fold_pad::run,
    },
    Pass {
        name: "mixed",
        flag: PassSet::MIXED,
        run: mixed::run,
    },
    Pass {
        name: "common",
        flag: PassSet::COMMON,
        run: common::run,
    },
    Pass {
        name: "parted",
        flag: PassSet::PARTED,
        run: parted::run,
    },
    Pass {
        name: "fold_batchnorm",
        flag: PassSet::FOLD_BATCHNORM,
        run: fold_batchnorm::run,
    },
    Pass {
        name: "branches",
        flag: PassSet::BRANCHES,
        run: branches::run,
    },
    Pass {
        name: "fold_batchnorm",
        flag: PassSet::FOLD_BATCHNORM,
        run: fold_batchnorm::run,
    },
    Pass {
        name: "branches",
        flag: PassSet::BRANCHES,
        run: branches::run,
    },
    Pass {
        name: "lines",
        flag: PassSet::LINES,
        run: lines::run,
    },
    Pass {
        name: "pictured",
        flag: PassSet::FULLER,
        run: pictured::run,
    },
    Pass {
        name: "volumes",
        flag: PassSet::LINES,
        run: volumes::run,
    },
    Pass {
        name: "silu",
        flag: PassSet::SILU,
        run: silu::run,
    },
    Pass {
        name: "hardswish",
        flag: PassSet::HARDSWISH,
        run: hardswish::run,
    },
    Pass {
        name: "gelu",
        flag: PassSet::GELU,
        run: gelu::run,
    },
    Pass {
        name: "norms",
        flag: PassSet::NORMS,
        run: norms::run,
    },
    Pass {
        name: "parted",
        flag: PassSet::PARTED,
        run: parted::run,
    },
    Pass {
        name: "normalise",
        flag: PassSet::NORMALISE,
        run: normalise::run,
    },
    Pass {
        name: "group normalise",
        flag: PassSet::GROUP_NORMALISE,
        run: group_normalise::run,
    },
    Pass {
        name: "fold_ahead",
        flag: PassSet::FOLD_AHEAD,
        run: fold_ahead::run,
    },
    Pass {
        name: "attention",
        flag: PassSet::ATTENTION,
        run: attention::run,
    },
    Pass {
        name: "temperatures",
        flag: PassSet::LONG_ATTENTION,
        run: temperatures::run,
    },
    Pass {
        name: "masks",
        flag: PassSet::LONG_ATTENTION,
        run: masks::run,
    },
    Pass {
        name: "scores",
        flag: PassSet::LONG_ATTENTION,
        run: scores::run,
    },
    Pass {
        name: "expectation",
        flag: PassSet::EXPECTATION,
        run: expectation::run,
    },
    Pass {
        name: "long attention",
        flag: PassSet::LONG_ATTENTION,
        run: attention::run_long,
    },
    Pass {
        name: "merged axes",
        flag: PassSet::MERGED_AXES,
        run: merged_axes::run,
    },
    Pass {
        name: "heads",
        flag: PassSet::ABREAST,
        run: heads::run,
    },
    Pass {
        name: "abreast",
        flag: PassSet::ABREAST,
        run: abreast::run,
    },
    Pass {
        name: "siblings",
        flag: PassSet::SIBLINGS,
        run: siblings::run,
    },
    Pass {
        name: "spaced heads",
        flag: PassSet::SPACED_HEADS,
        run: spaced_heads::run,
    },
    Pass {
        name: "columns",
        flag: PassSet::FULLER,
        run: columns::run,
    },
    Pass {
        name: "whole channels",
        flag: PassSet::WHOLE_CHANNELS,
        run: whole_channels::run,
    },
    Pass {
        name: "patches",
        flag: PassSet::PATCHES,
        run: patches::run,
    },
    Pass {
        name: "flattened",
        flag: PassSet::FLATTENED,
        run: flattened::run,
    },
    Pass {
        name: "rotary",
        flag: PassSet::ROTARY,
        run: rotary::run,
    },
    Pass {
        name: "squares",
        flag: PassSet::SQUARES,
        run: squares::run,
    },
    Pass {
        name: "rearranged",
        flag: PassSet::REARRANGED,
        run: rearranged::run,
    },
    Pass {
        name: "edges",
        flag: PassSet::EDGES,
        run: edges::run,
    },
    Pass {
        name: "spread",
        flag: PassSet::SPREAD,
        run: spread::run,
    },
    Pass {
        name: "through views",
        flag: PassSet::THROUGH_VIEWS,
        run: through_views::run,
    },
    Pass {
        name: "shuffled",
        flag: PassSet::SHUFFLED,
        run: shuffled::run,
    },
    Pass {
        name: "rows",
        flag: PassSet::ROWS,
        run: rows::run,
    },
    Pass {
        name: "beside",
        flag: PassSet::BESIDE,
        run: beside::run,
    },
    Pass {
        name: "drop_noops",
        flag: PassSet::DROP_NOOPS,
        run: drop_noops::run,
    },
    Pass {
        name: "drop_dead",
        flag: PassSet::DROP_DEAD,
        run: drop_dead::run,
    },
    Pass {
        name: "subnormals",
        flag: PassSet::SUBNORMALS,
        run: subnormals::run,
    },
];

/// Runs the graph passes of `set`, verifying the graph after each.
pub fn run(mut graph: Graph, set: PassSet) -> Result<Graph, PassError> {
    for pass in PASSES.iter().filter(|pass| set.has(pass.flag)) {
        (pass.run)(&mut graph);
        verify(&graph).map_err(|source| PassError {
            pass: pass.name,
            graph: graph.name.clone(),
            source,
        })?;
    }
    Ok(graph)
}
