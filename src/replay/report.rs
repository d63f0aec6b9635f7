//! Figures of a replay: latencies and counts, as a table and as JSON.

use super::results::decimals;
use super::score::accuracy::{Accuracy, TenantAccuracy};
use crate::plan::format::Plan;
use crate::runtime::FrameReport;
use crate::task::Status;
use crate::units::Nanos;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Duration;

/// Figures gathered frame by frame.
pub struct Summary {
    task_set: String,
    frame: Histogram<u64>,
    tenants: Vec<TenantSummary>,
    /// Pictures that could not be used.
    pub problems: u64,
    /// Frames that there were to run.
    pub asked: usize,
    /// Somebody stopped it before all of them had run.
    pub stopped: bool,
    /// Frames skipped because the next one was due already (only at a fixed rate).
    pub dropped: u64,
    /// From the first frame to the last, decoding and writing included.
    pub wall: Duration,
    /// How right the results were, where they were held against the ground truth.
    pub accuracy: Option<Accuracy>,
}

struct TenantSummary {
    name: String,
    deadline: Option<Nanos>,
    finish: Histogram<u64>,
    fresh: u64,
    held: u64,
    stale: u64,
    none: u64,
    misses: u64,
}

/// A histogram over three significant digits that grows as far as it has to.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are within hdrhistogram's 0 to 5"))
}

/// Counts a duration. A growing histogram takes every value.
fn record(histogram: &mut Histogram<u64>, duration: Nanos) {
    if histogram.record(duration.0).is_err() {
        log::warn!("a duration of {duration} was not counted");
    }
}

impl Summary {
    /// Nothing counted yet, for the tenants of `plan`.
    pub fn new(plan: &Plan) -> Summary {
        let tenant = |t: &crate::plan::format::Tenant| TenantSummary {
            name: t.name.clone(),
            deadline: t.urgency.deadline,
            finish: histogram(),
            fresh: 0,
            held: 0,
            stale: 0,
            none: 0,
            misses: 0,
        };
        Summary {
            task_set: plan.task_set.clone(),
            frame: histogram(),
            tenants: plan.tenants.iter().map(tenant).collect(),
            problems: 0,
            asked: 0,
            stopped: false,
            dropped: 0,
            wall: Duration::ZERO,
            accuracy: None,
        }
    }

    /// Counts a frame.
    pub fn add(&mut self, report: &FrameReport) {
        record(&mut self.frame, report.total);
        for of in &report.tenants {
            let Some(tenant) = self.tenants.get_mut(of.tenant.index()) else {
                continue;
            };
            if of.finish > Nanos(0) {
                record(&mut tenant.finish, of.finish);
            }
            match of.status {
                Status::Fresh => tenant.fresh += 1,
                Status::Held => tenant.held += 1,
                Status::Stale => tenant.stale += 1,
                Status::None => tenant.none += 1,
            }
            tenant.misses += u64::from(of.missed_deadline);
        }
    }

    /// Frames counted.
    pub fn frames(&self) -> u64 {
        self.frame.len()
    }

    /// Frames a second that the loop's work alone allows: 1 over the mean frame time; 0 without frames.
    pub fn loop_fps(&self) -> f64 {
        let mean = self.frame.mean();
        if mean > 0.0 { 1e9 / mean } else { 0.0 }
    }

    /// Frames a second of the whole replay, decoding and writing included; 0 without frames.
    pub fn wall_fps(&self) -> f64 {
        let seconds = self.wall.as_secs_f64();
        if seconds > 0.0 { self.frames() as f64 / seconds } else { 0.0 }
    }

    /// The figures for programs. Times in milliseconds.
    pub fn to_json(&self) -> Value {
        let tenants: Map<String, Value> = self.tenants.iter().map(|t| (t.name.clone(), t.to_json())).collect();
        let mut all = json!({
            "task_set": self.task_set,
            "frames": self.frames(),
            "asked": self.asked,
            "stopped": self.stopped,
            "dropped": self.dropped,
            "problems": self.problems,
            "frame_ms": latency(&self.frame),
            "loop_fps": decimals(self.loop_fps(), 2),
            "wall_s": decimals(self.wall.as_secs_f64(), 3),
            "wall_fps": decimals(self.wall_fps(), 2),
            "tenants": tenants,
        });
        if let Some(accuracy) = &self.accuracy {
            all["score"] = accuracy.to_json();
        }
        all
    }

    /// The figures for people: one line a tenant, then the frame.
    pub fn to_table(&self) -> String {
        let accuracy = |heading: &str| match self.accuracy {
            Some(_) => format!(" {heading:>14}"),
            None => String::new(),
        };
        let mut text = format!(
            "{:<18} {:>9} {:>9} {:>9} {:>7} {:>6} {:>6} {:>6} {:>7} {:>10}{}\n",
            "tenant",
            "p50 ms",
            "p99 ms",
            "max ms",
            "fresh",
            "held",
            "stale",
            "none",
            "misses",
            "deadline",
            accuracy("accuracy")
        );
        // Writing to a string does not fail.
        for t in &self.tenants {
            let [p50, p99, max] = percentiles(&t.finish).map(|ms| format!("{ms:.2}"));
            let deadline = t.deadline.map_or("-".into(), |d| format!("{:.1} ms", d.as_ms()));
            let of = self.accuracy.iter().flat_map(|a| &a.tenants).find(|a| a.name == t.name);
            let accuracy = accuracy(&of.map_or("-".into(), TenantAccuracy::to_text));
            let _ = writeln!(
                text,
                "{:<18} {p50:>9} {p99:>9} {max:>9} {:>7} {:>6} {:>6} {:>6} {:>7} {deadline:>10}{accuracy}",
                t.name, t.fresh, t.held, t.stale, t.none, t.misses
            );
        }
        let [p50, p99, max] = percentiles(&self.frame).map(|ms| format!("{ms:.2}"));
        let _ = writeln!(text, "{:<18} {p50:>9} {p99:>9} {max:>9}", "frame");
        let _ = write!(
            text,
            "{}: {} frames, {:.1} a second in the loop, {:.1} with decoding and writing",
            self.task_set,
            self.frames(),
            self.loop_fps(),
            self.wall_fps()
        );
        if self.stopped {
            let _ = write!(text, "; stopped, of {} frames", self.asked);
        }
        if self.dropped > 0 {
            let _ = write!(text, "; {} dropped", self.dropped);
        }
        if self.problems > 0 {
            let _ = write!(text, "; {} pictures could not be used", self.problems);
        }
        text.push('\n');
        let unscored = self.accuracy.iter().flat_map(|a| &a.tenants);
        for (name, reason) in unscored.filter_map(|t| Some((&t.name, t.figures.as_ref().err()?))) {
            let _ = writeln!(text, "{name} is not scored: it {reason}");
        }
        text
    }
}

impl TenantSummary {
    fn to_json(&self) -> Value {
        json!({
            "finish_ms": latency(&self.finish),
            "fresh": self.fresh,
            "held": self.held,
            "stale": self.stale,
            "none": self.none,
            "deadline_ms": self.deadline.map(|d| decimals(d.as_ms(), 3)),
            "misses": self.misses,
        })
    }
}

fn percentiles(histogram: &Histogram<u64>) -> [f64; 3] {
    [histogram.value_at_quantile(0.5), histogram.value_at_quantile(0.99), histogram.max()].map(|n| Nanos(n).as_ms())
}

fn latency(histogram: &Histogram<u64>) -> Value {
    let [p50, p99, max] = percentiles(histogram).map(|ms| decimals(ms, 3));
    json!({ "p50": p50, "p99": p99, "max": max })
}

/// A frame's line of `timing.jsonl`: times in milliseconds since the start of the frame's work, and what was not met.
pub fn timing(plan: &Plan, report: &FrameReport) -> Value {
    let tenants: Map<String, Value> = report
        .tenants
        .iter()
        .filter_map(|of| {
            let tenant = plan.tenants.get(of.tenant.index())?;
            let finish = (of.status == Status::Fresh).then(|| decimals(of.finish.as_ms(), 3));
            let value = json!({ "finish_ms": finish, "missed_deadline": of.missed_deadline, "old_image": of.old_image });
            Some((tenant.name.clone(), value))
        })
        .collect();
    json!({
        "frame": report.frame,
        "schedule": report.schedule,
        "total_ms": decimals(report.total.as_ms(), 3),
        "tenants": tenants,
    })
}
