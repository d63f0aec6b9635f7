//! Comparisons: task sets against a peer in the same run on the same machine, and where their time goes.
//!
//! | file | idea |
//! |---|---|
//! | [`agree`] | a GPU against the processor, operator by operator |
//! | [`bed`] | an engine for many plans of the same networks, some at a time |
//! | [`choice`] | of the plans of several decisions the fastest |
//! | [`mixes`] | what is compared: a task set, and its networks alone |
//! | [`noise`] | numbers from a seed |
//! | [`inputs`] | pictures and tensors to run on, the same on every run |
//! | [`load`] | operands whose values decide how much an operator does |
//! | [`ours`] | our side: one engine that runs both |
//! | [`peers`] | the other side |
//! | [`looped`] | the frame loop: the host's cost and the jitter of frames |
//! | [`measure`] | how long a turn is, and the figures of a side |
//! | [`turns`] | turns of both sides |
//! | [`report`] | the figures as rows and as JSON, with what they depend on |
//! | [`tactics`] | the times of all tactics of operators, for a board's table |
//! | [`profile`] | the time of each operator alone |
//! | [`refine`] | plans made from measured ones, measured again |
//! | [`stage`] | an engine on a plan and its rivals, timed by two clocks |
//! | [`table`] | the papers' table: every searcher, MPS and PyTorch on the mixes |
//! | [`zoo`] | the networks of the papers, built here with seeded weights |

pub mod agree;
pub mod bed;
pub mod choice;
pub mod inputs;
pub mod load;
pub mod looped;
pub mod measure;
pub mod mixes;
pub mod noise;
pub mod ours;
pub mod peers;
pub mod profile;
pub mod refine;
pub mod report;
pub mod stage;
pub mod table;
pub mod tactics;
pub mod turns;
pub mod zoo;

use crate::backend::cpu::kernels::CompileError;
use crate::error::RunError;
use crate::plan::deployment::LoadError;
use crate::planner::PlannerError;
use crate::planner::import::ImportError;
use crate::runtime::OpenError;

/// Why something cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The task file has no such task set.
    #[error("no task set `{name}`; there are {known}")]
    TaskSet {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The zoo has no such network.
    #[error(
        "no networks `{name}`: give NAME or FILE.onnx, with a batch as NAME:BATCH, several that run side by side joined by `+`; there are {known}"
    )]
    Network {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The task set has no such tenant.
    #[error("task set `{task_set}` has no tenant `{name}`; there are {known}")]
    Tenant {
        /// The task set.
        task_set: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Networks alone are compiled with one batch, and the tenants' cameras do not say which.
    #[error("the tenants of task set `{0}` have different numbers of cameras: give the batch of their networks with --batch")]
    Batch(String),
    /// A task set does not compile.
    #[error("task set `{name}` does not compile")]
    Plan {
        /// The task set.
        name: String,
        /// Why.
        #[source]
        error: Box<PlannerError>,
    },
    /// Compiled plans are no deployment.
    #[error("the compiled plans do not load")]
    Load(#[from] LoadError),
    /// A file of the user's is not imported.
    #[error(transparent)]
    Import(Box<ImportError>),
    /// No engine opens on the plans.
    #[error("the compiled plans do not open")]
    Open(#[from] OpenError),
    /// A frame did not run.
    #[error("a frame did not run")]
    Run(#[from] RunError),
    /// A profiled operator has no kernel.
    #[error("operator `{name}` has no kernel here")]
    Kernel {
        /// The operator.
        name: String,
        /// Why.
        #[source]
        error: CompileError,
    },
    /// A file of figures cannot be written.
    #[error("{}: cannot be written", file.display())]
    Write {
        /// The file.
        file: std::path::PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The system has not enough memory.
    #[error("{0} bytes of memory are not to be had")]
    Memory(u64),
    /// The peer stopped in the middle of a comparison.
    #[error("the peer stopped")]
    Peer(#[from] peers::PeerError),
    /// MPS, or a process under it, stopped in the middle of a comparison.
    #[error("MPS stopped")]
    Mps(#[from] table::mps::MpsError),
}
