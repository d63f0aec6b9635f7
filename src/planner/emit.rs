//! The last stage: lowered tenants are scheduled and placed, and become a checked plan with its weight files.

use super::lower::{Lowered, Room};
use super::memory::{self, Placement};
use super::refinery::Refinery;
use super::report::Report;
use super::schedule::{self, Decisions, Problem, ScheduleError};
use super::search::{self, Effort, Idea, Workshop};
use super::simulate::paces::Paces;
use super::simulate::{self, Costs, Machine, Measured};
use super::{CompileOptions, Compiled, PlannerError, Searcher};
use crate::backend::cuda::sources;
use crate::board::{BackendKind, BoardRecord};
use crate::ids::TenantId;
use crate::plan::check;
use crate::plan::format::{Basis, Buffer, Digest, Kernel, Operator, Plan, Prediction, Section, Space, Tactic, WeightFile};
use crate::plan::tactic::{self, Target};
use crate::plan::weights::WeightFileBuilder;
use crate::units::Nanos;
use std::sync::Arc;

/// Tactics beside its own that a search may run an operator with, none slower than this part of its own, in percent.
const OTHERS: (usize, u64) = (2, 120);
/// The same where measurements will judge.
const OTHERS_MEASURED: (usize, u64) = (4, 150);
/// Parts of the board for which the fastest tactics are offered, too.
const NARROW: [u32; 3] = [8, 4, 2];

fn space(room: Room) -> Space {
    match room {
        Room::Arena => Space::Arena { offset: 0 },
        Room::Input => Space::Input { offset: 0 },
        Room::Output => Space::Output { offset: 0 },
        Room::Camera(camera) => Space::Camera(camera),
        Room::Weights(section) => Space::Weights(section),
    }
}

/// Digest of the kernels that a board's plans are made for; none on the CPU backend, whose kernels are the program itself.
pub(super) fn kernels(board: &BoardRecord) -> Option<Digest> {
    (board.backend == BackendKind::Cuda).then(sources::digest)
}

/// The tactic of an operator: the fastest that the board's table knows, else the fastest by pace, else the first of the menu.
fn best(plan: &Plan, operator: &Operator, board: &BoardRecord, options: &CompileOptions) -> Option<Tactic> {
    let mut menu = tactic::menu_on(plan, operator, board);
    if options.generic_kernels {
        return menu.pop();
    }
    let measured = options.times.as_ref().and_then(|t| t.fastest(plan, operator, &menu));
    let paced = || Paces::guide(board)?.fastest(operator, board, &menu);
    measured.map(|(tactic, _)| tactic).or_else(paced).or_else(|| menu.first().copied())
}

/// The tactics of an operator beside its own whose times are known, fastest first: all give the same bits.
fn timed(plan: &Plan, operator: &Operator, board: &BoardRecord, times: &dyn Fn(Tactic) -> Option<Nanos>) -> Vec<(Nanos, Tactic)> {
    let menu = tactic::menu_on(plan, operator, board).into_iter().filter(|&t| t != operator.tactic);
    let mut timed: Vec<(Nanos, Tactic)> = menu.filter_map(|t| Some((times(t)?, t))).collect();
    timed.sort_by_key(|(time, _)| *time);
    timed
}

/// Weight files as the plan records them, their sections, and their contents.
type Weights = (Vec<WeightFile>, Vec<Section>, Vec<(Digest, Vec<u8>)>);

/// Weight files, one a network that has weights, and the sections of all in the order of `lowered.sections`. Networks whose
/// files have one content share it.
fn weights(lowered: &Lowered) -> Weights {
    let (mut files, mut sections, mut bytes) = (Vec::<WeightFile>::new(), Vec::new(), Vec::new());
    for tenant in 0..lowered.tenants.len() {
        let mut builder = WeightFileBuilder::new(files.len() as u32);
        let before = sections.len();
        for section in lowered.sections.iter().filter(|s| s.tenant == TenantId(tenant as u16)) {
            sections.push(builder.push(&section.bytes));
        }
        if sections.len() == before {
            continue;
        }
        let (file, content) = builder.finish();
        match files.iter().position(|known| *known == file) {
            Some(shared) => sections[before..].iter_mut().for_each(|s| s.file = shared as u32),
            None => {
                bytes.push((file.digest, content));
                files.push(file);
            }
        }
    }
    (files, sections, bytes)
}

/// Schedules, places and emits lowered tenants.
pub(super) fn emit(
    task_set: &str,
    source: Digest,
    lowered: Lowered,
    board: &BoardRecord,
    options: &CompileOptions,
) -> Result<Compiled, PlannerError> {
    let (weight_files, sections, files) = weights(&lowered);
    let buffers = lowered.buffers.iter();
    let mut plan = Plan {
        task_set: task_set.to_string(),
        board: Digest::of_board(board),
        source,
        kernels: kernels(board),
        searcher: options.searcher.name().to_string(),
        cameras: lowered.cameras,
        tenants: lowered.tenants,
        weight_files,
        sections,
        buffers: buffers
            .map(|b| Buffer {
                space: space(b.room),
                bytes: b.bytes,
            })
            .collect(),
        operators: lowered.operators,
        streams: Vec::new(),
        cycle: Vec::new(),
        arena_bytes: 0,
        persistent_bytes: 0,
        input_bytes: 0,
        output_bytes: 0,
        prediction: Prediction {
            basis: Basis::Estimated,
            best_effort: options.best_effort,
            frames: Vec::new(),
        },
    };
    let target = Target::of(board);
    for index in 0..plan.operators.len() {
        // The menu depends on the class.
        plan.operators[index].class = tactic::arithmetic_class(&plan, &plan.operators[index], target);
        if let Some(best) = best(&plan, &plan.operators[index], board, options) {
            plan.operators[index].tactic = best;
        }
    }
    let effort = Effort {
        seed: options.seed,
        budget: options.budget,
    };
    let problem = Problem {
        tenants: &plan.tenants,
        operators: &plan.operators,
        needs: &lowered.needs,
        division: options.division(board),
    };
    let measured = |o: &Operator| options.times.as_ref()?.of(&plan, o);
    let machine = Machine::of(board);
    let calibrated = machine.calibrated(options.calibration);
    let offers = offers(&plan, board, calibrated, options);
    let costs = costs(&plan, board, calibrated, &offers, &measured);
    let found = search::search(&problem, &costs, options.searcher, effort, &|at, of| options.progress.tell(at, of))?;
    let scheduled = Scheduled {
        plan: &plan,
        problem,
        costs: &costs,
        best_effort: best_effort(board, options),
    };
    let best = found.best().ok_or(ScheduleError::Cycle)?;
    let (finished, placement) = scheduled.finish(best.searcher, &best.decisions)?;
    let report = Report::of(&finished, &placement, board, &found, &costs);
    // Of the others, those that miss deadlines or find no room are no rivals.
    let rivals = found
        .rivals(options.rivals)
        .filter_map(|r| scheduled.finish(r.searcher, &r.decisions).ok());
    // Drawn by the board's usual figures, so that fitted ones leave them as they were measured.
    let samples = match options.samples {
        0 => Vec::new(),
        count => {
            let usual = self::costs(&plan, board, machine, &offers, &measured);
            search::samples(&problem, &usual, options.seed, count)
        }
    };
    let samples = samples.iter().filter_map(|d| scheduled.finish(Searcher::Random, d).ok());
    let rivals = rivals.chain(samples).map(|(plan, _)| plan).collect();
    let refinery = options.refine.then(|| {
        let start = |(idea, decisions): (Idea, &Decisions)| Some((scheduled.finish(idea.by, decisions).ok()?.0, idea));
        let starts = Workshop::starts(&found, options.rivals).filter_map(start).collect();
        let workshop = Workshop::of(&problem, &costs);
        Refinery::new(
            plan.clone(),
            lowered.needs.clone(),
            offers.clone(),
            starts,
            workshop,
            board,
            options,
        )
    });
    Ok(Compiled {
        plan: finished,
        rivals,
        weight_files: files,
        report,
        refinery: refinery.map(Arc::new),
    })
}

/// Whether deadlines that are missed are stored instead of refused.
pub(super) fn best_effort(board: &BoardRecord, options: &CompileOptions) -> bool {
    options.best_effort || board.name == "host"
}

/// For each operator the tactics that a search may run it with beside its own, fastest first: none for most searchers. They are
/// those that are hardly slower, and those that are fastest on a share of the board, where what fills it alone has no room.
fn offers(plan: &Plan, board: &BoardRecord, machine: Machine, options: &CompileOptions) -> Vec<Vec<Tactic>> {
    if options.generic_kernels || options.searcher != Searcher::Platoon {
        return vec![Vec::new(); plan.operators.len()];
    }
    let measured = |o: &Operator| options.times.as_ref()?.of(plan, o);
    let paced = |o: &Operator| Paces::of(board).filter(|_| o.tactic.kernel != Kernel::Generic)?.time(o, board);
    let with = |operator: &Operator, tactic| Operator {
        tactic,
        ..operator.clone()
    };
    // Measured times beside a measured one, paces beside a pace.
    let all = plan.operators.iter().map(|o| match measured(o) {
        Some(_) => timed(plan, o, board, &|t| measured(&with(o, t))),
        None => timed(plan, o, board, &|t| paced(&with(o, t))),
    });
    let all: Vec<Vec<(Nanos, Tactic)>> = all.collect();
    let tactics: Vec<Vec<Tactic>> = all.iter().map(|own| own.iter().map(|(_, t)| *t).collect()).collect();
    let costs = costs(plan, board, machine, &tactics, &measured);
    let (most, percent) = if options.refine { OTHERS_MEASURED } else { OTHERS };
    let division = options.division(board);
    let of = |(index, own): (usize, &Vec<(Nanos, Tactic)>)| {
        let operator = &plan.operators[index];
        let slowest = measured(operator)
            .or_else(|| paced(operator))
            .map_or(0, |own| own.0 * percent / 100);
        let hardly_slower = own.iter().take_while(|(time, _)| time.0 <= slowest).take(most);
        let mut offered: Vec<Tactic> = hardly_slower.map(|(_, tactic)| *tactic).collect();
        for part in NARROW {
            let width = u16::try_from(board.units / part).unwrap_or(u16::MAX).max(1);
            let parcels = u32::from(width).checked_div(division.parcel).unwrap_or(0);
            let apart = (parcels > 0).then(|| costs.apart(index, parcels * division.parcel)).flatten();
            for tactic in [costs.narrow(index, width), apart].into_iter().flatten() {
                if tactic != operator.tactic && !offered.contains(&tactic) {
                    offered.push(tactic);
                }
            }
        }
        offered
    };
    all.iter().enumerate().map(of).collect()
}

/// What the operators of a plan cost on a board's machine, under their own tactics and those that are offered.
pub(super) fn costs<'a>(
    plan: &'a Plan,
    board: &BoardRecord,
    machine: Machine,
    offers: &[Vec<Tactic>],
    measured: Measured<'a>,
) -> Costs<'a> {
    let mut costs = Costs::on(machine, &plan.operators, board, measured);
    for (operator, tactics) in offers.iter().enumerate() {
        costs.offer(operator, board, tactics);
    }
    costs
}

/// Everything that plans of several decisions share.
pub(super) struct Scheduled<'a> {
    /// A plan without its schedule, or with one that is replaced.
    pub plan: &'a Plan,
    /// What is scheduled.
    pub problem: Problem<'a>,
    /// What it costs.
    pub costs: &'a Costs<'a>,
    /// Store deadlines that are missed instead of refusing.
    pub best_effort: bool,
}

impl Scheduled<'_> {
    /// The checked plan of a searcher's decisions, and where its buffers lie.
    pub(super) fn finish(&self, searcher: Searcher, decisions: &Decisions) -> Result<(Plan, Placement), PlannerError> {
        let schedule = schedule::apply(&self.problem, decisions)?;
        let mut plan = self.plan.clone();
        plan.searcher = searcher.name().to_string();
        plan.prediction = simulate::predict(&plan.tenants, &schedule, self.costs, self.best_effort)?;
        let placement = memory::place(&schedule.operators, &mut plan.buffers, schedule.streams.len(), &schedule.cycle)?;
        (plan.operators, plan.streams, plan.cycle) = (schedule.operators, schedule.streams, schedule.cycle);
        (plan.arena_bytes, plan.persistent_bytes) = (placement.arena_bytes, placement.persistent_bytes);
        (plan.input_bytes, plan.output_bytes) = (placement.input_bytes, placement.output_bytes);
        let plan = check::check(plan).map_err(|e| PlannerError::Check(Box::new(e)))?.into_inner();
        Ok((plan, placement))
    }
}
