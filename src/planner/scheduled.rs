//! What plans of several decisions share: their operators, what these may run with, what that costs; and how decisions become a
//! checked plan.

use super::memory::{self, Placement};
use super::schedule::{self, Decisions, Problem};
use super::simulate::paces::Paces;
use super::simulate::{self, Costs, Machine, Measured};
use super::{CompileOptions, PlannerError, Searcher};
use crate::board::BoardRecord;
use crate::plan::check;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};
use crate::plan::tactic;
use crate::units::Nanos;

/// Tactics beside its own that a search may run an operator with, none slower than this part of its own, in percent.
const OTHERS: (usize, u64) = (2, 120);
/// The same where measurements will judge.
const OTHERS_MEASURED: (usize, u64) = (4, 150);
/// Parts of the board for which the fastest tactics are offered, too.
const NARROW: [u32; 3] = [8, 4, 2];

/// The tactics of an operator beside its own whose times are known, fastest first: all give the same bits.
fn timed(plan: &Plan, operator: &Operator, board: &BoardRecord, times: &dyn Fn(Tactic) -> Option<Nanos>) -> Vec<(Nanos, Tactic)> {
    let menu = tactic::menu_on(plan, operator, board).into_iter().filter(|&t| t != operator.tactic);
    let mut timed: Vec<(Nanos, Tactic)> = menu.filter_map(|t| Some((times(t)?, t))).collect();
    timed.sort_by_key(|(time, _)| *time);
    timed
}

/// Whether deadlines that are missed are stored instead of refused.
pub(super) fn best_effort(board: &BoardRecord, options: &CompileOptions) -> bool {
    options.best_effort || board.name == "host"
}

/// For each operator the tactics that a search may run it with beside its own, fastest first: none for most searchers. They are
/// those that are hardly slower, and those that are fastest on a share of the board, where what fills it alone has no room.
pub(super) fn offers(plan: &Plan, board: &BoardRecord, machine: Machine, options: &CompileOptions) -> Vec<Vec<Tactic>> {
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
