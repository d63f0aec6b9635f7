//! A trace as a file that trace viewers open (Chrome's trace event format, which Perfetto reads): when each segment of each frame
//! ran, and where.

use crate::backend::trace::TraceEvent;
use crate::plan::format::Plan;
use serde_json::{Value, json};

/// The events as one document: a row a worker or stream, times in microseconds from the first event. Segments that the plans
/// do not have are left out.
pub fn document(plans: &[&Plan], events: &[TraceEvent]) -> Value {
    let origin = events.iter().map(|e| e.start).min().unwrap_or(0);
    let event = |e: &TraceEvent| {
        let plan = plans.get(e.plan.index())?;
        // The schedules of a cycle take turns.
        let schedule = plan.cycle.get((e.frame % plan.cycle.len().max(1) as u64) as usize)?;
        let segment = schedule.segments.get(e.segment.index())?;
        let tenant = plan.tenants.get(segment.tenant.index())?;
        let us = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e3;
        Some(json!({
            "name": format!("{} {}", tenant.name, e.segment),
            "cat": plan.task_set,
            "ph": "X",
            "ts": us(origin, e.start),
            "dur": us(e.start, e.end),
            "pid": 0,
            "tid": e.worker,
            "args": { "frame": e.frame, "tenant": tenant.name, "stream": segment.stream.0 },
        }))
    };
    let shown: Vec<Value> = events.iter().filter_map(event).collect();
    json!({ "displayTimeUnit": "ms", "traceEvents": shown })
}
