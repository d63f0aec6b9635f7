//! What plans of several decisions share: their operators, what these may run with, what that costs; and how decisions become a
//! checked plan.

use super::memory::{self, Placement};
use super::schedule::{self, Decisions, Problem};
use super::simulate::paces::Paces;
use super::simulate::{self, Costs, Machine, Measured};
use super::{CompileOptions, PlannerError, Searcher, tactics};
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

/// What a search may run operators with beside their own tactics.
#[derive(Clone, Debug)]
pub(super) struct Offers {
    /// For each operator tactics, fastest first.
    others: Vec<Vec<Tactic>>,
    /// For some numbers of units, ascending, the tactic of each operator on a stream that has so many for itself.
    confined: Vec<(u32, Vec<Tactic>)>,
}

/// The tactics that a search may run operators with beside their own: none for most searchers. They are those that are hardly slower,
/// those that are fastest on a share of the board, where what fills it alone has no room, and those for streams with units of their own.
pub(super) fn offers(plan: &Plan, board: &BoardRecord, machine: Machine, options: &CompileOptions) -> Offers {
    let none = Offers {
        others: vec![Vec::new(); plan.operators.len()],
        confined: Vec::new(),
    };
    if options.generic_kernels || options.searcher != Searcher::Platoon {
        return none;
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
    let tactics = all.iter().map(|own| own.iter().map(|(_, t)| *t).collect()).collect();
    let costs = costs(plan, board, machine, &Offers { others: tactics, ..none }, &measured);
    let division = options.division(board);
    // A network alone is not confined.
    let confined = match plan.tenants.len() {
        0 | 1 => Vec::new(),
        _ => tactics::confined(plan, board, options, &division.sizes()),
    };
    let (most, percent) = if options.refine { OTHERS_MEASURED } else { OTHERS };
    let of = |(index, own): (usize, &Vec<(Nanos, Tactic)>)| {
        let operator = &plan.operators[index];
        let slowest = measured(operator)
            .or_else(|| paced(operator))
            .map_or(0, |own| own.0 * percent / 100);
        let hardly_slower = own.iter().take_while(|(time, _)| time.0 <= slowest).take(most);
        let mut offered: Vec<Tactic> = hardly_slower.map(|(_, tactic)| *tactic).collect();
        let narrow = NARROW.iter().flat_map(|part| {
            let width = u16::try_from(board.units / part).unwrap_or(u16::MAX).max(1);
            let smaller = confined.iter().rfind(|(units, _)| *units <= u32::from(width));
            [costs.narrow(index, width), smaller.map(|(_, tactics)| tactics[index])]
        });
        for tactic in narrow.flatten() {
            if tactic != operator.tactic && !offered.contains(&tactic) {
                offered.push(tactic);
            }
        }
        offered
    };
    Offers {
        others: all.iter().enumerate().map(of).collect(),
        confined,
    }
}

/// What the operators of a plan cost on a board's machine, under their own tactics and those that are offered.
pub(super) fn costs<'a>(plan: &'a Plan, board: &BoardRecord, machine: Machine, offers: &Offers, measured: Measured<'a>) -> Costs<'a> {
    let mut costs = Costs::on(machine, &plan.operators, board, measured);
    for (operator, tactics) in offers.others.iter().enumerate() {
        costs.offer(operator, board, tactics);
    }
    costs.confine(offers.confined.clone());
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
