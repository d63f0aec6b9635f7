//! Preparing a deployment for the GPU: everything is taken, loaded, uploaded, captured and tried once here.

use super::archive::{self, Archive};
use super::bind::{Addresses, Area, BindError, Kernel, Packer, Packs};
use super::clock::DeviceClock;
use super::error::CudaError;
use super::frames::{CudaPrepared, PlanState, Work};
use super::issue::{Means, Ready};
use super::lanes::Streams;
use super::library::{Library, Modules};
use super::memory::{Account, Parts};
use super::persistent::Guard;
use super::program::{Frame, Pinned};
use super::raw::{Capture, Context, Event, GreenContext, Sms};
use super::slots::{SlotSize, SlotState};
use super::turns::in_turns;
use super::weights::{Uploaded, Weights};
use super::words::Layout;
use super::{architecture, sources};
use crate::backend::progress::{Clock, Places};
use crate::backend::{PrepareError, PrepareOptions, SlotMemory, Submission};
use crate::board::BackendKind;
use crate::ids::{PlanId, SectionId};
use crate::limits::MAX_SLOTS;
use crate::plan::deployment::Deployment;
use crate::plan::format::{Operand, Operator, Plan};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What makes the launches of operators.
pub type Compile = fn(&Packer<'_>, &Operator) -> Result<Box<dyn Kernel>, BindError>;

/// One kernel per operator of a plan.
type Kernels = Vec<Box<dyn Kernel>>;

/// What a backend keeps from one deployment for the next: whoever tries many plans of the same networks waits for their weights
/// and kernels once. It lives as long as one of its deployments or the backend.
#[derive(Default)]
pub struct Kept {
    context: Option<Arc<Context>>,
    archive: Option<Arc<Archive>>,
    modules: Modules,
    packs: Packs,
    uploaded: Uploaded,
}

/// Prepares every plan of the deployment, with what is `kept`; afterwards it holds what may be kept of this one, or nothing where
/// something failed.
pub fn prepare(
    kernels: &Path,
    compile: Compile,
    deployment: &Arc<Deployment>,
    options: &PrepareOptions,
    kept: &mut Kept,
) -> Result<CudaPrepared, PrepareError> {
    if options.slots == 0 || usize::from(options.slots) > MAX_SLOTS {
        return Err(PrepareError::Slots(options.slots));
    }
    check_plans(deployment)?;
    Ok(prepare_on_gpu(kernels, compile, deployment, options, kept).map_err(CudaError::or_exhausted)?)
}

/// [`prepare`], once its arguments are known to be sound.
fn prepare_on_gpu(
    kernels: &Path,
    compile: Compile,
    deployment: &Arc<Deployment>,
    options: &PrepareOptions,
    kept: &mut Kept,
) -> Result<CudaPrepared, CudaError> {
    let mut own = std::mem::take(kept);
    let context = match own.context.take() {
        Some(context) => context,
        None => Context::open()?,
    };
    let (archive, green) = board(&context, kernels, deployment, options.sms, own.archive.take())?;
    let compiled = compile_all(deployment, compile, &mut own.packs)?;
    let prepared = Builder {
        context: &context,
        deployment,
        options,
        kernels: &compiled,
        mapped: match options.slot_memory {
            SlotMemory::OfBoard => context.facts().integrated,
            SlotMemory::Mapped => true,
            SlotMemory::Copied => false,
        },
        account: Account::new(&context),
    }
    .build(&archive, green, &mut own)?;
    *kept = Kept {
        context: Some(context.clone()),
        archive: Some(archive),
        ..own
    };
    Ok(prepared)
}

/// The plans are for a GPU, and for this program's kernels.
fn check_plans(deployment: &Deployment) -> Result<(), CudaError> {
    let board = &deployment.table.board;
    if board.backend != BackendKind::Cuda {
        return Err(CudaError::CpuBoard(board.name.clone()));
    }
    match deployment.plans.iter().find(|p| p.kernels != Some(sources::digest())) {
        Some(plan) => Err(CudaError::Digest(plan.task_set.clone())),
        None => Ok(()),
    }
}

/// The GPU is the board's: its architecture, its kernels, its SMs.
fn board(
    context: &Arc<Context>,
    kernels: &Path,
    deployment: &Deployment,
    sms: Option<u32>,
    archive: Option<Arc<Archive>>,
) -> Result<(Arc<Archive>, Option<Arc<GreenContext>>), CudaError> {
    let (board, facts) = (&deployment.table.board, context.facts());
    if !architecture::runs_on(&board.architecture, facts.capability) {
        return Err(CudaError::Architecture {
            board: board.name.clone(),
            architecture: board.architecture.clone(),
            found: facts.capability,
        });
    }
    let archive = match archive.filter(|a| a.architecture() == board.architecture) {
        Some(archive) => archive,
        None => Arc::new(archive::find(kernels, &board.architecture, facts.driver)?),
    };
    let confine = |sms| {
        let of = facts.sms;
        let made = Sms::new(context, sms).and_then(|sms| GreenContext::new(context, sms));
        made.map_err(|source| CudaError::Confine { sms, of, source })
    };
    let green = sms.map(confine).transpose()?;
    let found = green.as_ref().map_or(facts.sms, |g| g.sms());
    if found != board.units {
        return Err(CudaError::Units {
            board: board.name.clone(),
            units: board.units,
            found,
        });
    }
    Ok((archive, green))
}

/// The kernels of every plan's operators; weights that are not packed yet are added to the packings. All cores take part, whoever is
/// free the operator of the most weights that is left: a large layer begun last would keep one busy alone.
fn compile_all(deployment: &Deployment, compile: Compile, packs: &mut Packs) -> Result<Vec<Kernels>, CudaError> {
    let plans = || deployment.plans.iter().enumerate();
    let sections: Vec<Vec<&[u8]>> = plans().map(|(p, _)| sections(deployment, p)).collect();
    let shared = Mutex::new(std::mem::take(packs));
    let packers = plans().zip(&sections).map(|((_, plan), sections)| Packer {
        plan,
        sections,
        packs: &shared,
    });
    let packers: Vec<Packer<'_>> = packers.collect();
    let mut work: Vec<(usize, usize)> = plans()
        .flat_map(|(p, plan)| (0..plan.operators.len()).map(move |o| (p, o)))
        .collect();
    work.sort_by_cached_key(|&(p, o)| Reverse(weight_bytes(&packers[p], o)));
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let compiled = in_turns(&work, cores, |&(p, o)| compile(&packers[p], &packers[p].plan.operators[o]));
    let compiled: BTreeMap<(usize, usize), _> = work.into_iter().zip(compiled).collect();
    *packs = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut all: Vec<Kernels> = deployment.plans.iter().map(|_| Vec::new()).collect();
    for ((p, o), kernel) in compiled {
        let plan = &deployment.plans[p];
        all[p].push(kernel.map_err(|source| CudaError::Bind {
            task_set: plan.task_set.clone(),
            name: plan.operators[o].name.clone(),
            source,
        })?);
    }
    Ok(all)
}

/// The contents of a plan's weight sections.
fn sections(deployment: &Deployment, p: usize) -> Vec<&[u8]> {
    let count = deployment.plans[p].sections.len();
    (0..count)
        .map(|s| deployment.section(PlanId(p as u16), SectionId(s as u32)))
        .collect()
}

/// Bytes of the weight sections that an operator reads.
fn weight_bytes(packer: &Packer<'_>, operator: usize) -> u64 {
    let inputs = packer.plan.operators[operator].calls.iter().flat_map(|c| &c.inputs);
    let sections = inputs.filter_map(|input| match input {
        Operand::View(view) => packer.plan.sections.get(packer.section(view)?.index()),
        Operand::Inner(_) => None,
    });
    sections.map(|s| s.bytes).sum()
}

/// What all steps of building share.
struct Builder<'a> {
    context: &'a Arc<Context>,
    deployment: &'a Arc<Deployment>,
    options: &'a PrepareOptions,
    kernels: &'a [Kernels],
    /// Kernels work on slots in the host's memory: nothing is copied.
    mapped: bool,
    account: Account,
}

/// Memory that programs refer to.
struct Memory {
    arena: Area,
    weights: Weights,
    persistent: Vec<Area>,
    workspaces: Vec<Area>,
}

impl Builder<'_> {
    fn build(mut self, archive: &Arc<Archive>, green: Option<Arc<GreenContext>>, kept: &mut Kept) -> Result<CudaPrepared, CudaError> {
        let plans = || self.deployment.plans.iter().map(|p| &**p);
        let most = |bytes: fn(&Plan) -> u64| plans().map(bytes).max().unwrap_or(0);
        let (arena_bytes, input, output) = (most(|p| p.arena_bytes), most(|p| p.input_bytes), most(|p| p.output_bytes));
        let segments = plans().flat_map(|p| p.cycle.iter().map(|c| c.segments.len())).max().unwrap_or(0);
        let images = plans().next().map_or(Vec::new(), |p| p.cameras.iter().map(|c| c.bytes).collect());
        let streams = Streams::new(self.context, green.as_ref(), &self.deployment.table.board, plans())?;

        let arena = self.account.device("arena", arena_bytes)?;
        let there = std::mem::take(&mut kept.uploaded);
        let weights = Weights::upload(self.deployment, &kept.packs, there, streams.root(), &mut self.account)?;
        kept.uploaded = weights.uploaded.clone();
        let parts = self.workspaces();
        let workspace = self.account.device("workspaces", parts.bytes())?;
        let mut persistent = Vec::new();
        let mut guards = Vec::new();
        for plan in &self.deployment.plans {
            persistent.push(self.account.device("persistent buffers", plan.persistent_bytes)?);
            guards.push(Guard::new(plan, &mut self.account)?);
        }
        let size = SlotSize {
            images,
            input,
            output,
            layout: Layout {
                places: Places { segments },
                trace: self.options.trace > 0,
            },
        };
        let clock = Arc::new(DeviceClock::new(Clock::start()));
        let mut slots = Vec::new();
        for _ in 0..self.options.slots {
            slots.push(SlotState::new(self.context, &size, self.mapped, &clock, &mut self.account)?);
        }
        let memory = Memory {
            arena: arena.area(),
            weights,
            persistent: persistent.iter().map(|m| m.area()).collect(),
            workspaces: (0..parts.count()).map(|s| parts.area(workspace.area(), s)).collect(),
        };
        let mut library = Library::new(self.context, archive.clone(), std::mem::take(&mut kept.modules));
        let programs = self.programs(&memory, &slots, &mut library)?;
        kept.modules = library.modules().clone();
        let count = programs.iter().flatten().flatten().map(|r| r.program.events).max().unwrap_or(0);
        let events = (0..count).map(|_| Event::new(self.context)).collect::<Result<Vec<_>, _>>()?;
        let means = Means {
            streams: &streams,
            events: &events,
            library: &library,
        };
        let before = self.context.free_memory()?;
        let works = self.works(programs, &means, &slots)?;
        let graphs = before.saturating_sub(self.context.free_memory()?);
        self.account.add("graphs", graphs);
        let (needed, budget) = (self.account.total(), self.deployment.table.board.memory_budget);
        if needed > budget {
            return Err(CudaError::Budget { needed, budget });
        }
        let plans = works.into_iter().zip(persistent).zip(guards);
        let plans = plans.map(|((works, persistent), guard)| PlanState { works, persistent, guard });
        let plans = plans.collect();
        let Memory { weights, .. } = memory;
        let mut prepared = CudaPrepared::new(
            self.context.clone(),
            self.deployment.clone(),
            self.options,
            super::frames::Parts {
                plans,
                slots,
                streams,
                events,
                library,
                clock,
                account: self.account,
                _weights: weights,
                arena,
                workspace,
            },
        );
        super::warm_up::warm_up(&mut prepared)?;
        Ok(prepared)
    }

    /// One workspace a stream number, as large as any operator needs that any plan runs there: frames follow one another,
    /// so plans share them.
    fn workspaces(&self) -> Parts {
        let mut bytes: Vec<u64> = Vec::new();
        for (plan, kernels) in self.deployment.plans.iter().zip(self.kernels) {
            bytes.resize(bytes.len().max(plan.streams.len()), 0);
            for segment in plan.cycle.iter().flat_map(|c| &c.segments) {
                let needs = segment.steps.iter().map(|s| kernels[s.operator.index()].workspace()).max();
                let room = &mut bytes[segment.stream.index()];
                *room = (*room).max(needs.unwrap_or(0));
            }
        }
        let mut parts = Parts::default();
        bytes.into_iter().for_each(|b| {
            parts.push(b);
        });
        parts
    }

    /// By plan, frame schedule and slot.
    fn programs(&self, memory: &Memory, slots: &[SlotState], library: &mut Library) -> Result<Vec<Vec<Vec<Ready>>>, CudaError> {
        let mut all = Vec::new();
        for (p, plan) in self.deployment.plans.iter().enumerate() {
            let mut of_plan = Vec::with_capacity(plan.cycle.len());
            for index in 0..plan.cycle.len() {
                let program = |slot| self.program(p, index, slot, memory, library);
                of_plan.push(slots.iter().map(program).collect::<Result<Vec<_>, _>>()?);
            }
            all.push(of_plan);
        }
        Ok(all)
    }

    fn program(&self, p: usize, index: usize, slot: &SlotState, memory: &Memory, library: &mut Library) -> Result<Ready, CudaError> {
        let plan: &Plan = &self.deployment.plans[p];
        let pinned: Vec<Area> = slot.images.iter().map(|i| i.area()).collect();
        let frame = Frame {
            schedule: &plan.cycle[index],
            index,
            kernels: &self.kernels[p],
            at: Addresses {
                plan,
                arena: memory.arena,
                persistent: memory.persistent[p],
                input: slot.areas.input,
                output: slot.areas.output,
                images: &slot.areas.images,
                weights: &memory.weights.sections[p],
                packs: &memory.weights.uploaded.packs,
                slot: slot.areas.block.address,
                workspace: Area::default(),
                clusters: self.context.facts().capability.0 >= 9,
                multiprocessors: self.deployment.table.board.units,
                maps: &**self.context,
            },
            workspaces: &memory.workspaces,
            block: slot.block.area().address,
            pinned: Pinned {
                images: &pinned,
                input: slot.input.area(),
                output: slot.output.area(),
            },
            mapped: self.mapped,
            words: slot.words.address(),
            layout: slot.words.layout(),
            segment_words: self.options.segment_words,
            early: !self.options.no_early_launches && self.context.facts().capability.0 >= 9,
            faults: &self.options.faults,
        };
        let program = frame.program().map_err(|(operator, source)| CudaError::Bind {
            task_set: plan.task_set.clone(),
            name: plan.operators[operator.index()].name.clone(),
            source,
        })?;
        let functions = program.launches.iter().map(|launch| library.function(launch));
        let functions = functions.collect::<Result<_, _>>()?;
        Ok(Ready { program, functions })
    }

    /// Captures the programs into graphs, or keeps them to be issued live.
    fn works(&self, programs: Vec<Vec<Vec<Ready>>>, means: &Means<'_>, slots: &[SlotState]) -> Result<Vec<Vec<Vec<Work>>>, CudaError> {
        let root = means.streams.root();
        let work = |p: usize, ready: Ready, slot: &SlotState| -> Result<Work, CudaError> {
            if self.options.submission == Submission::Segments {
                return Ok(Work::Live(ready));
            }
            let plan = &self.deployment.plans[p];
            let refused = |operator: Option<crate::ids::OperatorId>, source| CudaError::Program {
                task_set: plan.task_set.clone(),
                operator: operator.map(|o| plan.operators[o.index()].name.clone()),
                source,
            };
            let capture = Capture::begin(root).map_err(|e| refused(None, e))?;
            means.issue(p, &ready, slot).map_err(|(operator, e)| refused(operator, e))?;
            let graph = capture.end().map_err(|e| refused(None, e))?;
            graph.upload(root).map_err(|e| refused(None, e))?;
            Ok(Work::Graph(graph))
        };
        let mut all = Vec::with_capacity(programs.len());
        for (p, schedules) in programs.into_iter().enumerate() {
            let mut of_plan = Vec::with_capacity(schedules.len());
            for ready in schedules {
                let of_slots = ready.into_iter().zip(slots).map(|(r, slot)| work(p, r, slot));
                of_plan.push(of_slots.collect::<Result<Vec<_>, _>>()?);
            }
            all.push(of_plan);
        }
        Ok(all)
    }
}
