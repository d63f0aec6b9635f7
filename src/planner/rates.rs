//! Whether a plan keeps up with the cameras: frames come at the task file's rate, and run one after another.
//!
//! A frame that is longer than the time between two is no harm by itself, as the next may be shorter: it begins later. The waits of
//! one cycle follow from those of the cycle before it; where they grow from cycle to cycle, the plan falls behind without end.

use crate::plan::format::Plan;
use crate::units::Nanos;

/// Cycles after which waits that do not grow without end have settled: each begins with what the last one left, and all of them
/// leave the same from the second on.
const CYCLES: usize = 3;

/// A plan that its predicted times do not let run at the rate that was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Overrun {
    /// Frames take longer than there is time.
    #[error(
        "frames take {mean} on average, and {hz} a second leave {period}: tenant `{tenant}`, the last to finish, is {late} too long \
         for a frame of the cycle's average; lower its rate or load, or ask for best effort"
    )]
    Rate {
        /// Frames a second.
        hz: f64,
        /// The time between two.
        period: Nanos,
        /// The average predicted frame.
        mean: Nanos,
        /// The tenant that finishes last in the longest frame.
        tenant: String,
        /// By how much the average frame is too long.
        late: Nanos,
    },
    /// A frame waits for those before it, and so a tenant is late.
    #[error(
        "tenant `{tenant}` would finish {late} after its deadline of {deadline}: at {hz} frames a second its frame waits {wait} for \
         the one before it; lower its rate or load, or ask for best effort"
    )]
    Deadline {
        /// Frames a second.
        hz: f64,
        /// The tenant.
        tenant: String,
        /// Its deadline.
        deadline: Nanos,
        /// How long its frame waits before it begins.
        wait: Nanos,
        /// By how much the deadline is missed.
        late: Nanos,
    },
}

/// Whether a plan's predicted frames keep up with `hz` frames a second (above 0), and meet deadlines counted from when a frame is due.
/// The worst that is found is told.
pub fn keeps_up(plan: &Plan, hz: f64) -> Result<(), Overrun> {
    let period = 1e9 / hz;
    let totals: Vec<u64> = plan.prediction.frames.iter().map(|f| f.total.0).collect();
    if totals.is_empty() {
        return Ok(());
    }
    let mean = totals.iter().sum::<u64>() as f64 / totals.len() as f64;
    if mean > period {
        return Err(Overrun::Rate {
            hz,
            period: nanos(period),
            mean: nanos(mean),
            tenant: last(plan),
            late: nanos(mean - period),
        });
    }
    let mut worst: Option<(Nanos, Overrun)> = None;
    let mut wait = 0.0f64;
    for _ in 0..CYCLES {
        for (schedule, frame) in plan.cycle.iter().zip(&plan.prediction.frames) {
            for (tenant, finish) in schedule.tenants.iter().zip(&frame.finish) {
                let own = &plan.tenants[tenant.index()];
                let Some(deadline) = own.urgency.deadline else { continue };
                let late = nanos(wait + finish.0 as f64 - deadline.0 as f64);
                if late.0 > worst.as_ref().map_or(0, |(worst, _)| worst.0) {
                    let overrun = Overrun::Deadline {
                        hz,
                        tenant: own.name.clone(),
                        deadline,
                        wait: nanos(wait),
                        late,
                    };
                    worst = Some((late, overrun));
                }
            }
            wait = (wait + frame.total.0 as f64 - period).max(0.0);
        }
    }
    worst.map_or(Ok(()), |(_, overrun)| Err(overrun))
}

/// The tenant that finishes last in the longest frame.
fn last(plan: &Plan) -> String {
    let frames = plan.cycle.iter().zip(&plan.prediction.frames);
    let longest = frames.max_by_key(|(_, frame)| frame.total);
    let latest = longest.and_then(|(schedule, frame)| schedule.tenants.iter().zip(&frame.finish).max_by_key(|(_, finish)| **finish));
    latest
        .map(|(tenant, _)| plan.tenants[tenant.index()].name.clone())
        .unwrap_or_default()
}

/// Whole nanoseconds, none below 0.
fn nanos(value: f64) -> Nanos {
    Nanos(value.max(0.0).round() as u64)
}
