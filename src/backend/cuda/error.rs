//! Why a deployment cannot be prepared on a GPU.

use super::archive::FindError;
use super::bind::BindError;
use super::raw::{DriverError, ProbeError};

/// What keeps a GPU from running a deployment. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// There is no GPU that can be used.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// There are no kernels for it.
    #[error(transparent)]
    Kernels(#[from] Box<FindError>),
    /// The plans were made for other kernels than this program's.
    #[error("task set {0} was compiled for other GPU kernels than this program's: compile it again")]
    Digest(String),
    /// The table is not for a GPU.
    #[error("the table's board {0} runs plans on the CPU: compile them for a GPU board")]
    CpuBoard(String),
    /// The GPU is not the board's.
    #[error("the plans are for board {board} ({architecture}), this GPU has compute capability {}.{}: compile them for this one", found.0, found.1)]
    Architecture {
        /// The board's name.
        board: String,
        /// The architecture of its record.
        architecture: String,
        /// What the GPU is.
        found: (u32, u32),
    },
    /// The number of SMs is not the board's.
    #[error(
        "the plans are for {units} SMs (board {board}), here are {found}: compile them for this board, or confine the run with --sms {units}"
    )]
    Units {
        /// The board's name.
        board: String,
        /// SMs of its record.
        units: u32,
        /// SMs at hand.
        found: u32,
    },
    /// SMs cannot be set aside.
    #[error("{sms} of the GPU's {of} SMs cannot be set aside")]
    Confine {
        /// SMs asked for.
        sms: u32,
        /// SMs of the GPU.
        of: u32,
        /// Why.
        #[source]
        source: DriverError,
    },
    /// Streams cannot be confined as a plan wants them.
    #[error(
        "plan `{task_set}` confines streams to {} of the GPU's SMs each, which this driver does not set aside so: install one of CUDA 12.4 \
         or newer, compile the plan for this GPU, or by another searcher than `apart` and `platoon`",
        .units.iter().map(|u| u.to_string()).collect::<Vec<_>>().join(", ")
    )]
    Divide {
        /// The plan's task set.
        task_set: String,
        /// SMs of its confined streams.
        units: Vec<u16>,
        /// Why, if the driver said so; else it gave another number of SMs.
        #[source]
        source: Option<DriverError>,
    },
    /// Memory is not to be had.
    #[error(
        "{bytes} bytes for the {what} are not to be had on the GPU: use fewer slots, a smaller task set, or end other programs that use it"
    )]
    Memory {
        /// What they are for.
        what: &'static str,
        /// How many.
        bytes: u64,
        /// What the driver said.
        #[source]
        source: DriverError,
    },
    /// The driver found no memory for something of its own: a context, a stream, machine code, a graph.
    #[error(
        "the GPU's memory is used up before the deployment is ready: use fewer slots, a smaller task set, or end other programs that use it"
    )]
    Exhausted {
        /// What the driver said.
        #[source]
        source: DriverError,
    },
    /// Everything together is more than the board may use.
    #[error("the deployment takes {needed} bytes of GPU memory, the board allows {budget}: use fewer slots or a smaller task set")]
    Budget {
        /// Bytes taken.
        needed: u64,
        /// Bytes allowed.
        budget: u64,
    },
    /// An operator's launches cannot be made.
    #[error("operator {name} of task set {task_set} cannot be launched: {source}")]
    Bind {
        /// The task set.
        task_set: String,
        /// The operator.
        name: String,
        /// Why.
        source: BindError,
    },
    /// The archive lacks a unit or a kernel that an operator needs, or the driver refuses its machine code.
    #[error("kernel {function} of unit {unit} cannot be loaded: make the kernels again with `platoon kernels`")]
    Kernel {
        /// The unit.
        unit: String,
        /// The function.
        function: String,
        /// What the driver said; nothing where the archive has no such unit.
        #[source]
        source: Option<DriverError>,
    },
    /// A frame's work cannot be put together.
    #[error("the frame's work of task set {task_set} is refused{}", named(operator))]
    Program {
        /// The task set.
        task_set: String,
        /// The operator that was being launched, if it was one.
        operator: Option<String>,
        /// What the driver said.
        #[source]
        source: DriverError,
    },
    /// A frame on zeros failed.
    #[error("task set {task_set} fails on the GPU before its first frame: run `platoon verify` on its plan")]
    WarmUp {
        /// The task set.
        task_set: String,
        /// What the driver said.
        #[source]
        source: DriverError,
    },
    /// A frame on zeros did not end, or did not say so.
    #[error("task set {task_set} does not finish a frame on the GPU ({what}): run `platoon verify` on its plan")]
    Stuck {
        /// The task set.
        task_set: String,
        /// What is missing.
        what: String,
    },
    /// Any other call.
    #[error("the GPU cannot be set up")]
    Driver(#[from] DriverError),
}

impl CudaError {
    /// The same error, or, where the driver failed for want of memory whatever it was doing, the one that says so.
    pub(super) fn or_exhausted(self) -> CudaError {
        match self {
            CudaError::Driver(source)
            | CudaError::Probe(ProbeError::Driver(source))
            | CudaError::Confine { source, .. }
            | CudaError::Divide { source: Some(source), .. }
            | CudaError::Kernel { source: Some(source), .. }
            | CudaError::Program { source, .. }
            | CudaError::WarmUp { source, .. }
                if source.out_of_memory() =>
            {
                CudaError::Exhausted { source }
            }
            other => other,
        }
    }
}

fn named(operator: &Option<String>) -> String {
    operator.as_ref().map_or(String::new(), |name| format!(" at operator {name}"))
}

impl From<FindError> for CudaError {
    fn from(error: FindError) -> CudaError {
        CudaError::Kernels(Box::new(error))
    }
}
