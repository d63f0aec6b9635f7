//! The offline half: ONNX networks to plans.
//!
//! ```text
//! model.onnx --import--> Graph --passes--> Graph --attach (card)--> Attached --lower--> Lowered
//!                                                                                          |
//!              plan, weights, report <--emit-- Placement <--memory-- Schedule <--schedule--+
//! ```
//! Each stage takes the type that the one before it makes, so a wrong order does not compile. The same inputs, options
//! and seed give the same bytes.

pub mod attach;
pub mod boards;
pub mod card;
pub mod cost;
mod deployment;
mod document;
pub mod durable;
mod emit;
pub mod floor;
pub mod graph;
mod half_floats;
pub mod import;
pub mod isolate;
mod lots;
pub mod lower;
pub mod machine;
pub mod memory;
mod networks;
pub mod optable;
mod options;
pub mod passes;
pub mod picture;
pub mod rates;
pub mod refinery;
pub mod report;
pub mod schedule;
mod scheduled;
pub mod search;
pub mod simulate;
mod single_floats;
mod strided;
mod tactics;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod what_if;
pub mod zones;

pub use deployment::table;
pub use document::TomlError;
pub use half_floats::Ports;
pub use networks::{compile_graph, compile_graphs, compile_network};
pub use options::{BUDGET, CompileOptions, Progress, Searcher};

use crate::board::BoardRecord;
use crate::ids::CameraId;
use crate::limits::MAX_WEIGHT_FILE;
use crate::plan::check::CheckError;
use crate::plan::file::VERSION;
use crate::plan::format::{Camera, Digest, Plan, Tenant};
use crate::plan::regular;
use crate::plan::table::TableError;
use crate::plan::tactic::Target;
use crate::tensor::DType;
use attach::{AttachError, Attached, CropSource};
use card::CardError;
use import::{ImportError, ImportOptions};
use lower::LowerError;
use memory::MemoryError;
use passes::PassError;
use refinery::Refinery;
use report::Report;
use schedule::ScheduleError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tasks::crops::CropsError;
use tasks::{TaskSetSpec, Tasks, TenantSpec};

/// A plan with what belongs beside it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The plan, checked.
    pub plan: Plan,
    /// Plans of other decisions for the same task set, checked, best by prediction first: those of each searcher that were asked
    /// for; then those of random decisions. They share the plan's weight files and differ from it in chunks, widths, streams, order and places in memory.
    pub rivals: Vec<Plan>,
    /// Its weight files by digest.
    pub weight_files: Vec<(Digest, Vec<u8>)>,
    /// Its evidence.
    pub report: Report,
    /// What measurements go on with, if that was asked for.
    pub refinery: Option<Arc<Refinery>>,
}

/// Why a task set or network does not become a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    /// There is no task set of that name.
    #[error("there is no task set `{name}`; there are: {known}")]
    TaskSet {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A tenant's network or card.
    #[error("tenant `{tenant}`")]
    Tenant {
        /// The tenant.
        tenant: String,
        /// What is wrong.
        source: Box<PlannerError>,
    },
    /// A card that does not match its network's file.
    #[error(transparent)]
    Card(Box<CardError>),
    /// The ONNX file.
    #[error(transparent)]
    Import(Box<ImportError>),
    /// The network is not what its card says.
    #[error(transparent)]
    Attach(Box<AttachError>),
    /// A pass broke the graph: a bug.
    #[error(transparent)]
    Pass(Box<PassError>),
    /// The network does not become operators.
    #[error(transparent)]
    Lower(Box<LowerError>),
    /// The decisions are not legal.
    #[error(transparent)]
    Schedule(Box<ScheduleError>),
    /// The deadlines cannot be met.
    #[error(transparent)]
    Infeasible(Box<cost::Infeasible>),
    /// The frames do not keep up with the cameras.
    #[error(transparent)]
    Overrun(Box<rates::Overrun>),
    /// The buffers do not fit.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The plans of a table do not fit their board.
    #[error(
        "the plans of task sets {task_sets} take {needed} bytes (arena, slots, persistent memory and weights), board {board} has {budget}: \
         give the task file fewer `slots`, smaller cameras or networks, or fewer task sets"
    )]
    Budget {
        /// The task sets of the table.
        task_sets: String,
        /// The board.
        board: String,
        /// Bytes needed.
        needed: u64,
        /// The board's memory budget.
        budget: u64,
    },
    /// The emitted plan breaks an invariant: a bug.
    #[error("the emitted plan does not pass its own checks: report this bug")]
    Check(#[source] Box<CheckError>),
    /// The table of the plans is not legal.
    #[error("the table of plans")]
    Table(#[source] Box<TableError>),
    /// A camera that the task file does not have.
    #[error("there is no camera `{0}` in the task file")]
    Camera(String),
    /// A source that is not a tenant of the set.
    #[error("source `{0}` is not a tenant of the task set")]
    Source(String),
    /// Crops of detections that cannot be had.
    #[error(transparent)]
    Crops(Box<CropsError>),
    /// More of something than a plan may hold.
    #[error("more {0} than a plan may hold")]
    Limit(&'static str),
    /// An input file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A file that an ONNX file keeps elements in cannot be read.
    #[error("{}: its external data {} cannot be read", model.display(), path.display())]
    External {
        /// The ONNX file.
        model: PathBuf,
        /// The file beside it.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// An output cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
}

/// Errors of the stages are boxed, so that a result stays small.
macro_rules! boxed {
    ($($variant:ident($error:ty)),*) => {$(
        impl From<$error> for PlannerError {
            fn from(error: $error) -> PlannerError {
                PlannerError::$variant(Box::new(error))
            }
        }
    )*};
}

boxed!(
    Card(CardError),
    Crops(CropsError),
    Import(ImportError),
    Attach(AttachError),
    Pass(PassError),
    Lower(LowerError),
    Schedule(ScheduleError),
    Infeasible(cost::Infeasible),
    Overrun(rates::Overrun)
);

/// Bytes a camera's image may take: four a pixel, so that rows of three-byte pixels may be padded.
fn camera_bytes(width: u32, height: u32) -> u64 {
    u64::from(width) * u64::from(height) * 4
}

fn cameras(tasks: &Tasks) -> Vec<Camera> {
    let camera = |c: &tasks::CameraSpec| Camera {
        name: c.name.clone(),
        max_width: c.max_width,
        max_height: c.max_height,
        bytes: camera_bytes(c.max_width, c.max_height),
    };
    tasks.cameras.iter().map(camera).collect()
}

fn task_set<'t>(tasks: &'t Tasks, name: &str) -> Result<&'t TaskSetSpec, PlannerError> {
    let known = || tasks.sets.keys().cloned().collect::<Vec<_>>().join(", ");
    tasks.sets.get(name).ok_or_else(|| PlannerError::TaskSet {
        name: name.to_string(),
        known: known(),
    })
}

/// Import, passes and the card's ends of one tenant, whose pictures are its cameras' or crops.
fn tenant(
    spec: &TenantSpec,
    ids: &[CameraId],
    crops: Option<CropSource<'_>>,
    table: &[Camera],
    board: &BoardRecord,
    options: &CompileOptions,
) -> Result<Attached, PlannerError> {
    spec.card.verify()?;
    let halves = options.dtype == DType::F16 && !spec.card.single;
    let pictures = match &spec.card.input.crops {
        Some(crops) => crops.count.unwrap_or(1),
        None if ids.is_empty() => options.pictures.unwrap_or(1),
        None => ids.len() as u32,
    };
    let import = ImportOptions {
        batch: Some(options.batch.unwrap_or(pictures)),
        outputs: spec.card.read_outputs(),
        ..ImportOptions::default()
    };
    let graph = import::import(&spec.card.onnx, &import)?;
    if let Some(batch) = options.batch {
        import::takes_batch(&graph, &spec.card.onnx, batch)?;
    }
    let graph = if halves { graph } else { single_floats::convert(graph) };
    let passes = options.passes.of(if halves { DType::F16 } else { DType::F32 }, Target::of(board));
    let graph = passes::run(graph, passes)?;
    let attached = match crops {
        Some(source) => attach::attach_crops(graph, &spec.card, &source, table)?,
        None => attach::attach(graph, &spec.card, ids, table)?,
    };
    Ok(if halves {
        half_floats::convert(attached, Ports::Declared)
    } else {
        attached
    })
}

/// Compiles one task set for a board.
pub fn compile_task_set(tasks: &Tasks, name: &str, board: &BoardRecord, options: &CompileOptions) -> Result<Compiled, PlannerError> {
    let set = task_set(tasks, name)?;
    let table = cameras(tasks);
    let source = source_digest(tasks, name, board, options)?;
    let mut tenants: Vec<(Tenant, Attached)> = Vec::with_capacity(set.tenants.len());
    for (position, spec) in set.tenants.iter().enumerate() {
        let within = |source| PlannerError::Tenant {
            tenant: spec.name.clone(),
            source: Box::new(source),
        };
        let camera = |name: &String| table.iter().position(|c| c.name == *name).and_then(CameraId::from_index);
        let find = |name: &String| camera(name).ok_or_else(|| within(PlannerError::Camera(name.clone())));
        let ids = spec.cameras.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let index = |name: &String| {
            set.tenants
                .iter()
                .position(|t| t.name == *name)
                .and_then(crate::ids::TenantId::from_index)
        };
        let source_of = |name: &String| index(name).ok_or_else(|| within(PlannerError::Source(name.clone())));
        let sources = spec.sources.iter().map(source_of).collect::<Result<Vec<_>, _>>()?;
        let crops = tasks::crops::resolve(spec, &set.tenants[..position]).map_err(|e| within(e.into()))?;
        let crops = crops.map(|crops| CropSource {
            tenant: sources[0],
            attached: &tenants[crops.source].1,
            image: crops.image,
            camera: ids[0],
            classes: crops.classes,
            margin: crops.margin,
        });
        let attached = tenant(spec, &ids, crops, &table, board, options).map_err(within)?;
        let record = Tenant {
            name: spec.name.clone(),
            model: spec.card.name.clone(),
            cameras: ids,
            rate: spec.rate,
            urgency: spec.urgency,
            kind: spec.card.decode.kind(),
            sources,
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        tenants.push((record, attached));
    }
    let lowered = lower::lower(table, tenants, options.passes.on(Target::of(board)))?;
    let mut compiled = emit::emit(name, source, lowered, board, options)?;
    if let Some(hz) = tasks.base_hz.filter(|_| !compiled.plan.prediction.best_effort) {
        rates::keeps_up(&compiled.plan, hz)?;
        compiled.rivals.retain(|plan| rates::keeps_up(plan, hz).is_ok());
        compiled.refinery = compiled.refinery.map(|r| Arc::new(r.keeping_up(hz)));
    }
    Ok(compiled)
}

/// Digest of a network's file and of the files of its external data.
fn file_digest(path: &Path) -> Result<Digest, PlannerError> {
    let read = |path: &Path| Ok(Digest::of(&regular::read(path, MAX_WEIGHT_FILE)?));
    let own = read(path).map_err(|error| PlannerError::Read {
        path: path.to_path_buf(),
        error,
    })?;
    let mut text = own.to_string();
    for beside in import::external_files(path)? {
        let digest = read(&beside).map_err(|error| PlannerError::External {
            model: path.to_path_buf(),
            path: beside,
            error,
        })?;
        text.push_str(&digest.to_string());
    }
    Ok(Digest::of(text.as_bytes()))
}

/// What every plan depends on besides its networks.
fn digest_text(board: &BoardRecord, options: &CompileOptions) -> String {
    let (version, format, record) = (env!("CARGO_PKG_VERSION"), VERSION, Digest::of_board(board));
    let kernels = emit::kernels(board);
    // How a schedule was searched for, and whether a measurement chose it, is not what it is made from: a plan that was
    // searched for once serves until something else changes.
    let CompileOptions {
        searcher,
        seed,
        budget,
        rivals,
        samples,
        refine,
        ..
    } = CompileOptions::default();
    let options = CompileOptions {
        searcher,
        seed,
        budget,
        rivals,
        samples,
        refine,
        ..options.clone()
    };
    format!("platoon {version}, plan format {format}, board {record}, kernels {kernels:?}, {options:?}\n")
}

/// Digest of everything a task set's plan is made from: networks, cards, tasks, board, options but for the search's, this
/// crate's version, the GPU's kernels.
/// A stored plan whose `source` differs is stale. A network that is not the one its card vouches for is an error, as it is where a plan is made.
pub fn source_digest(tasks: &Tasks, name: &str, board: &BoardRecord, options: &CompileOptions) -> Result<Digest, PlannerError> {
    let set = task_set(tasks, name)?;
    let mut text = digest_text(board, options);
    text.push_str(&format!("{name} {:?}\n", cameras(tasks)));
    // Where no rate is given, none is looked at.
    text.extend(tasks.base_hz.map(|hz| format!("{hz} frames a second\n")));
    for spec in &set.tenants {
        let card = &spec.card;
        card.verify()?;
        text.push_str(&format!(
            "{} {:?} {:?} {:?} {:?}\n",
            spec.name, spec.cameras, spec.rate, spec.urgency, spec.sources
        ));
        text.push_str(&format!(
            "{} {} {:?} {:?} {}\n",
            card.name,
            card.single,
            card.input,
            card.decode,
            file_digest(&card.onnx)?
        ));
    }
    Ok(Digest::of(text.as_bytes()))
}

/// Writes compiled task sets as a deployment into `dir` (`plans/<board>`): the table, a plan and a report each, weights.
///
/// Plans that are already there for other task sets of the same file and board are kept. The names of task sets whose plans went.
pub fn write_deployment(dir: &Path, tasks: &Tasks, board: &BoardRecord, compiled: &[Compiled]) -> Result<Vec<String>, PlannerError> {
    let table = deployment::table(compiled, board, &tasks.default, tasks.slots)?;
    let mut keep = vec![tasks.default.clone()];
    keep.extend(tasks.sets.keys().filter(|k| **k != tasks.default).cloned());
    deployment::write(dir, table, compiled, &keep)
}
