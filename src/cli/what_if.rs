//! `platoon plan --what-if`: what changes of a task set, or of the board, would do to its frame, by prediction.

use super::options::Common;
use super::{Outcome, compile, output};
use crate::board::BoardRecord;
use crate::plan::format::Plan;
use crate::planner::tasks::Tasks;
use crate::planner::what_if::Change;
use crate::planner::{self, CompileOptions, boards};
use anyhow::Context;
use serde_json::{Value, json};

/// What is predicted of a task set as it is, or as it might be.
struct Predicted {
    task_set: String,
    /// The change; empty for none.
    change: String,
    /// The plan; why there is none.
    plan: anyhow::Result<Plan>,
}

/// Predictions of task sets as they are and with each of some changes by itself, as a table or as JSON. Nothing is written.
/// [`Outcome::Bad`] if a change can be made to none of them.
pub fn run(
    common: &Common,
    tasks: &Tasks,
    sets: &[&str],
    changes: &[Change],
    how: &compile::HowToCompile,
    as_json: bool,
) -> anyhow::Result<(String, Outcome)> {
    let board = common.board()?;
    let mut all = Vec::new();
    for &set in sets {
        let plain = predict(tasks, set, &board, how).with_context(|| format!("task set `{set}`"))?;
        let base = mean_ms(&plain);
        all.push((None, told(set, String::new(), Ok(plain))));
        for change in changes {
            let plan = changed(tasks, set, &board, change, how);
            all.push((Some(base), told(set, change.to_string(), plan)));
        }
    }
    // A change need not be of every task set, but of one.
    let of_some = |change: &Change| all.iter().any(|(_, one)| one.change == change.to_string() && one.plan.is_ok());
    let outcome = match changes.iter().all(of_some) {
        true => Outcome::Good,
        false => Outcome::Bad,
    };
    if as_json {
        let rows: Vec<Value> = all.iter().map(|(base, one)| figures(one, *base)).collect();
        return Ok((format!("{:#}", json!({ "predictions": rows })), outcome));
    }
    let mut table = output::Table::new(&["task set", "change", "mean ms", "longest ms", "%", "misses", "finishes ms"]);
    let mut impossible = Vec::new();
    for (base, one) in &all {
        match &one.plan {
            Ok(plan) => table.row(row(one, plan, *base)),
            Err(error) => impossible.push(format!("{}, {}: {}", one.task_set, one.change, output::chain(error.as_ref()))),
        }
    }
    if !impossible.is_empty() {
        output::complain(&impossible.join("; "));
    }
    Ok((table.render(), outcome))
}

fn told(task_set: &str, change: String, plan: anyhow::Result<Plan>) -> Predicted {
    Predicted {
        task_set: task_set.to_string(),
        change,
        plan,
    }
}

fn changed(tasks: &Tasks, set: &str, board: &BoardRecord, change: &Change, how: &compile::HowToCompile) -> anyhow::Result<Plan> {
    let tasks = change.apply(tasks, set)?;
    match change {
        Change::Board(name) => predict(&tasks, set, &boards::load(name)?, how),
        _ => predict(&tasks, set, board, how),
    }
}

/// A plan as it would be made; misses are told, not refused.
fn predict(tasks: &Tasks, set: &str, board: &BoardRecord, how: &compile::HowToCompile) -> anyhow::Result<Plan> {
    let options = CompileOptions {
        best_effort: true,
        ..how.options(board)?
    };
    Ok(planner::compile_task_set(tasks, set, board, &options)?.plan)
}

/// The frames of a cycle on average, in milliseconds.
fn mean_ms(plan: &Plan) -> f64 {
    let frames = &plan.prediction.frames;
    frames.iter().map(|f| f.total.as_ms()).sum::<f64>() / frames.len().max(1) as f64
}

/// When each tenant finishes at the latest, in milliseconds.
fn finishes(plan: &Plan) -> Vec<(&str, f64)> {
    let latest = |tenant: usize| {
        let frames = plan.cycle.iter().zip(&plan.prediction.frames);
        let own = frames.flat_map(|(schedule, frame)| schedule.tenants.iter().zip(&frame.finish));
        own.filter(|(t, _)| t.index() == tenant).map(|(_, f)| f.as_ms()).fold(0.0, f64::max)
    };
    plan.tenants.iter().enumerate().map(|(i, t)| (t.name.as_str(), latest(i))).collect()
}

fn misses(plan: &Plan) -> usize {
    plan.prediction.frames.iter().map(|f| f.misses.len()).sum()
}

fn row(one: &Predicted, plan: &Plan, base: Option<f64>) -> [String; 7] {
    let mean = mean_ms(plan);
    let finishes = finishes(plan).into_iter().map(|(name, ms)| format!("{name} {ms:.3}"));
    [
        one.task_set.clone(),
        if one.change.is_empty() {
            "as it is".into()
        } else {
            one.change.clone()
        },
        format!("{mean:.3}"),
        format!("{:.3}", plan.prediction.longest().as_ms()),
        base.map_or(String::new(), |b| format!("{:+.1}", 100.0 * (mean / b - 1.0))),
        misses(plan).to_string(),
        finishes.collect::<Vec<_>>().join(", "),
    ]
}

fn figures(one: &Predicted, base: Option<f64>) -> Value {
    let (task_set, change) = (&one.task_set, (!one.change.is_empty()).then_some(&one.change));
    match &one.plan {
        Ok(plan) => json!({
            "task_set": task_set, "change": change, "mean_ms": mean_ms(plan), "longest_ms": plan.prediction.longest().as_ms(),
            "to_as_it_is": base.map(|b| mean_ms(plan) / b), "misses": misses(plan),
            "finishes_ms": finishes(plan).into_iter().map(|(name, ms)| (name.to_string(), json!(ms))).collect::<serde_json::Map<_, _>>(),
        }),
        Err(error) => json!({ "task_set": task_set, "change": change, "error": output::chain(error.as_ref()) }),
    }
}
