//! The last stage: lowered tenants are scheduled and placed, and become a checked plan with its weight files.

use super::lower::{Lowered, Room};
use super::refinery::Refinery;
use super::report::Report;
use super::schedule::{Decisions, Problem, ScheduleError};
use super::scheduled::{self, Scheduled};
use super::search::{self, Effort, Idea, Workshop};
use super::simulate::Machine;
use super::{CompileOptions, Compiled, PlannerError, Searcher, tactics};
use crate::backend::cuda::sources;
use crate::board::{BackendKind, BoardRecord};
use crate::ids::TenantId;
use crate::plan::format::{Basis, Buffer, Digest, Operator, Plan, Prediction, Section, Space, WeightFile};
use crate::plan::weights::WeightFileBuilder;
use std::sync::Arc;

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
    tactics::choose(&mut plan, board, options);
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
    let offers = scheduled::offers(&plan, board, calibrated, options);
    let costs = scheduled::costs(&plan, board, calibrated, &offers, &measured);
    let found = search::search(&problem, &costs, options.searcher, effort, &|at, of| options.progress.tell(at, of))?;
    let settled = Scheduled {
        plan: &plan,
        problem,
        costs: &costs,
        best_effort: scheduled::best_effort(board, options),
    };
    let best = found.best().ok_or(ScheduleError::Cycle)?;
    let (mut finished, mut placement) = settled.finish(best.searcher, &best.decisions)?;
    if !fits(&finished, board) {
        // What runs side by side is in memory at once: where the board has too little, the best that needs less.
        let others = found.ranking.iter().skip(1);
        let mut finish = others.filter_map(|r| settled.finish(r.searcher, &r.decisions).ok());
        (finished, placement) = finish.find(|(plan, _)| fits(plan, board)).unwrap_or((finished, placement));
    }
    let report = Report::of(&finished, &placement, board, &found, &costs);
    // Of the others, those that miss deadlines or find no room are no rivals.
    let rivals = found
        .rivals(options.rivals)
        .filter_map(|r| settled.finish(r.searcher, &r.decisions).ok());
    // Drawn by the board's usual figures, so that fitted ones leave them as they were measured.
    let samples = match options.samples {
        0 => Vec::new(),
        count => {
            let usual = scheduled::costs(&plan, board, machine, &offers, &measured);
            search::samples(&problem, &usual, options.seed, count)
        }
    };
    let samples = samples.iter().filter_map(|d| settled.finish(Searcher::Random, d).ok());
    let rivals = rivals.chain(samples).map(|(plan, _)| plan).collect();
    let refinery = options.refine.then(|| {
        let start = |(idea, decisions): (Idea, &Decisions)| Some((settled.finish(idea.by, decisions).ok()?.0, idea));
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

/// Whether a plan alone finds room on its board, but for slots and cameras, which depend on the deployment and not on decisions.
fn fits(plan: &Plan, board: &BoardRecord) -> bool {
    let weights = plan.weight_files.iter().map(|f| f.bytes);
    let all = weights.chain([plan.arena_bytes, plan.persistent_bytes]);
    all.fold(0, u64::saturating_add) <= board.memory_budget
}
