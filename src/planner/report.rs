//! The evidence beside a plan: what was counted and predicted, as JSON. Never read on board.

use super::cost;
use super::memory::Placement;
use super::search::Found;
use super::simulate::{Costs, Source};
use crate::board::BoardRecord;
use crate::plan::format::{Basis, Plan};
use crate::units::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;

/// The report of one plan.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The task set.
    pub task_set: String,
    /// The board.
    pub board: String,
    /// The searcher that decided.
    pub searcher: String,
    /// Schedules that the searchers looked at.
    pub looked_at: u64,
    /// The best that each searcher found, by prediction, best first.
    pub searchers: Vec<SearcherReport>,
    /// What was measured of plans that were measured, fastest first; the first is the plan.
    pub measured: Vec<MeasuredReport>,
    /// What a refinement by measurement tried, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refined: Option<RefinedReport>,
    /// `estimated` or `measured`.
    pub basis: &'static str,
    /// Where the operators' times come from.
    pub times: TimesReport,
    /// One per tenant.
    pub tenants: Vec<TenantReport>,
    /// One per frame of the cycle.
    pub frames: Vec<FrameReport>,
    /// Memory, in bytes.
    pub memory: MemoryReport,
}

/// How many operators have their times from where.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TimesReport {
    /// From the board's operator table.
    pub measured: usize,
    /// From the paces of their tactics on other operators.
    pub paced: usize,
    /// From the board's rates.
    pub estimated: usize,
}

impl TimesReport {
    pub(super) fn of(costs: &Costs<'_>) -> TimesReport {
        TimesReport {
            measured: costs.from(Source::Measured),
            paced: costs.from(Source::Paced),
            estimated: costs.from(Source::Estimated),
        }
    }
}

/// What a searcher found.
#[derive(Clone, Debug, Serialize)]
pub struct SearcherReport {
    /// The searcher.
    pub searcher: &'static str,
    /// Predicted time of a frame in milliseconds, on average over the cycle.
    pub frame_ms: f64,
    /// By how much deadlines are missed in it, in milliseconds, all together over the cycle.
    pub late_ms: f64,
}

/// A plan that was measured, from before its pictures were copied in until its last result was there.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredReport {
    /// The searcher that decided.
    pub searcher: String,
    /// The longest predicted frame of its cycle, in milliseconds.
    pub predicted_ms: f64,
    /// Half of its frames took no longer, in milliseconds.
    pub p50_ms: f64,
    /// All but a hundredth of its frames took no longer, in milliseconds.
    pub p99_ms: f64,
    /// Frames.
    pub frames: usize,
    /// True if its results are those of the sequential plan, bit for bit; a plan with others is not kept.
    pub identical: bool,
}

/// What a refinement by measurement tried.
#[derive(Clone, Debug, Serialize)]
pub struct RefinedReport {
    /// Its rounds; the first is of the searchers' plans.
    pub rounds: Vec<RoundReport>,
    /// Every plan, best first, those last that ran a few frames only.
    pub tried: Vec<TriedReport>,
}

/// A round of a refinement. Times are the middles between a plan's median and its p90.
#[derive(Clone, Debug, Serialize)]
pub struct RoundReport {
    /// Plans that were new in it.
    pub plans: usize,
    /// Time of the baseline that all rounds have, in milliseconds.
    pub anchor_ms: f64,
    /// Median of the best plan so far in milliseconds.
    pub best_ms: f64,
    /// Its time over that baseline's, by all rounds in which it ran.
    pub best_of_anchor: f64,
    /// How long it took to make the plans ready, in milliseconds.
    pub opening_ms: f64,
}

impl RoundReport {
    /// The round in words.
    pub fn told(&self) -> String {
        format!(
            "{} new plans, the best takes {:.3} of the best baseline's time ({:.3} ms)",
            self.plans, self.best_of_anchor, self.best_ms
        )
    }
}

/// A plan that a refinement tried.
#[derive(Clone, Debug, Serialize)]
pub struct TriedReport {
    /// The searcher whose decision it is, or was once.
    pub searcher: &'static str,
    /// What was changed; `None` for the searcher's own.
    pub direction: Option<&'static str>,
    /// Place in this list of the plan that was changed.
    pub parent: Option<usize>,
    /// The round in which it was new.
    pub round: usize,
    /// The longest predicted frame of its cycle in milliseconds.
    pub predicted_ms: f64,
    /// Median of its frames in the last round in which it ran, in milliseconds.
    pub ms: f64,
    /// Its time over the baseline's in the same rounds.
    pub of_anchor: f64,
    /// Counted frames.
    pub frames: usize,
}

/// One tenant of a report.
#[derive(Clone, Debug, Serialize)]
pub struct TenantReport {
    /// Its name.
    pub name: String,
    /// Its model.
    pub model: String,
    /// Operators.
    pub operators: usize,
    /// Primitives in them.
    pub primitives: usize,
    /// Multiply-adds a run.
    pub operations: u64,
    /// Bytes read and written a run, were nothing cached.
    pub bytes: u64,
    /// Operators by kernel.
    pub kernels: BTreeMap<String, usize>,
}

/// One frame of a report.
#[derive(Clone, Debug, Serialize)]
pub struct FrameReport {
    /// Predicted time of the whole frame in milliseconds.
    pub total_ms: f64,
    /// Predicted finish of each tenant that runs, in milliseconds.
    pub finish_ms: BTreeMap<String, f64>,
    /// Time that each tenant with a deadline has left in milliseconds; below 0 where it misses it.
    pub slack_ms: BTreeMap<String, f64>,
    /// Tenants whose deadline the prediction misses.
    pub misses: Vec<String>,
}

/// Memory of a report.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryReport {
    /// The arena.
    pub arena: u64,
    /// All arena buffers together.
    pub buffers: u64,
    /// How often the arena is used over: buffers over arena.
    pub reuse: f64,
    /// Weight files.
    pub weights: u64,
    /// Results in a slot.
    pub outputs: u64,
}

impl Report {
    /// The report of a plan that has its schedule, prediction and placement.
    pub fn of(plan: &Plan, placement: &Placement, board: &BoardRecord, found: &Found, costs: &Costs<'_>) -> Report {
        let searchers = found.best_of_each().map(|r| SearcherReport {
            searcher: r.searcher.name(),
            frame_ms: Nanos(r.score.time).as_ms() / plan.cycle.len().max(1) as f64,
            late_ms: Nanos(r.score.late).as_ms(),
        });
        let tenants = plan.tenants.iter().enumerate().map(|(i, tenant)| {
            let own = || plan.operators.iter().filter(move |o| o.tenant.index() == i);
            let mut kernels = BTreeMap::new();
            own().for_each(|o| *kernels.entry(format!("{:?}", o.tactic.kernel)).or_insert(0) += 1);
            TenantReport {
                name: tenant.name.clone(),
                model: tenant.model.clone(),
                operators: own().count(),
                primitives: own().map(|o| o.calls.len()).sum(),
                operations: own().map(|o| cost::work(o).0).fold(0, u64::saturating_add),
                bytes: own().map(|o| cost::work(o).1).fold(0, u64::saturating_add),
                kernels,
            }
        });
        Report {
            task_set: plan.task_set.clone(),
            board: board.name.clone(),
            searcher: plan.searcher.clone(),
            looked_at: found.looked_at,
            searchers: searchers.collect(),
            measured: Vec::new(),
            refined: None,
            basis: match plan.prediction.basis {
                Basis::Estimated => "estimated",
                Basis::Measured => "measured",
            },
            times: TimesReport::of(costs),
            tenants: tenants.collect(),
            frames: frames(plan),
            memory: MemoryReport {
                arena: placement.arena_bytes,
                buffers: placement.total_bytes,
                reuse: placement.total_bytes as f64 / placement.arena_bytes.max(1) as f64,
                weights: plan.weight_files.iter().map(|f| f.bytes).sum(),
                outputs: placement.output_bytes,
            },
        }
    }

    /// A measurement prefers `plan`, of the same task set: it is the plan that this is the report of.
    pub fn choose(&mut self, plan: &Plan, measured: Vec<MeasuredReport>) {
        self.searcher = plan.searcher.clone();
        self.measured = measured;
        self.frames = frames(plan);
        self.memory.arena = plan.arena_bytes;
        self.memory.reuse = self.memory.buffers as f64 / plan.arena_bytes.max(1) as f64;
    }

    /// The report as indented JSON, the same text for the same plan.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// What is predicted of each frame of the cycle.
fn frames(plan: &Plan) -> Vec<FrameReport> {
    let name = |t: &crate::ids::TenantId| plan.tenants[t.index()].name.clone();
    let frames = plan.cycle.iter().zip(&plan.prediction.frames).map(|(schedule, frame)| FrameReport {
        total_ms: frame.total.as_ms(),
        finish_ms: schedule
            .tenants
            .iter()
            .map(name)
            .zip(frame.finish.iter().map(|f| f.as_ms()))
            .collect(),
        slack_ms: (schedule.tenants.iter().zip(&frame.finish))
            .filter_map(|(t, finish)| {
                let deadline = plan.tenants[t.index()].urgency.deadline?;
                Some((name(t), deadline.as_ms() - finish.as_ms()))
            })
            .collect(),
        misses: frame.misses.iter().map(|&m| name(&schedule.tenants[usize::from(m)])).collect(),
    });
    frames.collect()
}
