//! What a compilation depends on besides its inputs: who decides, and how long it may look.

use super::half_floats::Ports;
use super::optable::OpTable;
use super::passes::PassSet;
use super::simulate::Calibration;
use crate::board::{BoardRecord, Division};
use crate::tensor::DType;
use std::sync::Arc;

/// Who decides chunks, widths, streams and order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Searcher {
    /// One tenant after another on one stream.
    Sequential,
    /// Each tenant on its own stream.
    Streams,
    /// The same, and on a GPU auxiliary streams for operators of a tenant that wait for nothing of each other, where that is shorter.
    #[default]
    Auxiliary,
    /// Barriers across all tenants, and their issue order (AutoMT).
    Barriers,
    /// A launch width for each tenant, its virtual resource (competitive sharing).
    Shares,
    /// Units of its own for each stream.
    Apart,
    /// Chunks only: GACER's spatial half.
    Spatial,
    /// Sync points only: GACER's temporal half.
    Temporal,
    /// Chunks and sync points together (GACER).
    Gacer,
    /// Everything, from the best that all others find.
    Platoon,
    /// Seeded random legal decisions: for tests.
    Random,
    /// What measurements led to, from what the searchers found.
    Measured,
}

impl Searcher {
    /// The searcher's name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Searcher::Sequential => "sequential",
            Searcher::Streams => "streams",
            Searcher::Auxiliary => "auxiliary",
            Searcher::Barriers => "barriers",
            Searcher::Shares => "shares",
            Searcher::Apart => "apart",
            Searcher::Spatial => "spatial",
            Searcher::Temporal => "temporal",
            Searcher::Gacer => "gacer",
            Searcher::Platoon => "platoon",
            Searcher::Random => "random",
            Searcher::Measured => "measured",
        }
    }
}

/// Candidates that a searcher looks at unless told otherwise.
pub const BUDGET: u64 = 20_000;

/// Who is told how far a search has come: candidates looked at, and how many may be. Has no part in what is found.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

/// Hears of candidates looked at, and how many may be.
type Listener = dyn Fn(u64, u64) + Send + Sync;

impl Progress {
    /// Tells `listener`.
    pub fn new(listener: impl Fn(u64, u64) + Send + Sync + 'static) -> Progress {
        Progress(Some(Arc::new(listener)))
    }

    pub(super) fn tell(&self, looked_at: u64, budget: u64) {
        if let Some(listener) = &self.0 {
            listener(looked_at, budget);
        }
    }
}

/// Nothing depends on who listens.
impl PartialEq for Progress {
    fn eq(&self, _: &Progress) -> bool {
        true
    }
}

impl Eq for Progress {}

/// Nothing depends on who listens: the text is part of what plans are known by.
impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

/// What a compilation depends on besides its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileOptions {
    /// The searcher.
    pub searcher: Searcher,
    /// Its seed.
    pub seed: u64,
    /// Candidates it may look at.
    pub budget: u64,
    /// Of each searcher that is at work, baselines too, the most plans that are made beside the best one: what a measurement
    /// may prefer.
    pub rivals: usize,
    /// Plans of random legal decisions that are made beside them: what predictions are held against.
    pub samples: usize,
    /// Keep what measurements need to go on from what was found, and let searches choose among more tactics.
    pub refine: bool,
    /// Who is told how far it is.
    pub progress: Progress,
    /// Store deadlines that the prediction misses instead of refusing. Board `host` is always best-effort.
    pub best_effort: bool,
    /// Element type of activations and weights: f32 or f16; a card may keep its network in f32.
    pub dtype: DType,
    /// With f16: the type of tensor inputs and results of networks without a card, which declare f32.
    pub ports: Ports,
    /// Extent of symbolic batch axes; by default the pictures of the tenant: its cameras or crops. Networks that fix theirs to another
    /// are refused.
    pub batch: Option<u32>,
    /// The same of tenants that have neither cameras nor crops, where `batch` is not given and their networks leave it open; 1 by default.
    pub pictures: Option<u32>,
    /// The tensors that are the results of a network without a card; none for those that its file lists.
    pub outputs: Vec<String>,
    /// The passes.
    pub passes: PassSet,
    /// Run every operator with the generic kernel: the oracle's setting.
    pub generic_kernels: bool,
    /// The board's measured times, which tactics are chosen by and predictions made from; `None` for estimates.
    pub times: Option<Arc<OpTable>>,
    /// What the simulator's rules weigh on the board; `None` for what they do on the H200.
    pub calibration: Option<Calibration>,
    /// Leave all streams on all units, where the board could be divided and the driver that will run the plan cannot do so.
    pub undivided: bool,
}

impl CompileOptions {
    /// How the board's units may be divided between streams.
    pub(super) fn division(&self, board: &BoardRecord) -> Division {
        match self.undivided {
            true => Division {
                parcel: 0,
                ..Division::of(board)
            },
            false => Division::of(board),
        }
    }
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            searcher: Searcher::default(),
            seed: 0,
            budget: BUDGET,
            rivals: 0,
            samples: 0,
            refine: false,
            progress: Progress::default(),
            best_effort: false,
            dtype: DType::F32,
            ports: Ports::Declared,
            batch: None,
            pictures: None,
            outputs: Vec::new(),
            passes: PassSet::ALL,
            generic_kernels: false,
            times: None,
            calibration: None,
            undivided: false,
        }
    }
}
