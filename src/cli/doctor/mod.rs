//! `platoon doctor`: what this machine has, and what to do about what it lacks.

mod graphics;
mod plans;
mod system;
mod timing;

use super::options::Common;
use super::{Outcome, jetson, output};
use crate::backend::cuda::raw;
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::Path;

#[derive(Args)]
#[command(after_help = "\
Example:
  platoon doctor

Each line says what was found; lines that start with `!` say what keeps something from working well, and what to do.
Real-time options are tried, in threads that end at once; nothing is changed. Exit code 1 if plans are there that do
not load, or are for this machine and do not fit it, or if the task file is not in order.")]
pub struct Arguments {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
struct Finding {
    key: &'static str,
    value: Value,
    text: String,
    advice: Option<String>,
    bad: bool,
}

impl Finding {
    fn new(key: &'static str, value: Value, text: impl Into<String>) -> Finding {
        Finding {
            key,
            value,
            text: text.into(),
            advice: None,
            bad: false,
        }
    }

    fn advise(mut self, unless: bool, advice: impl Into<String>) -> Finding {
        if !unless {
            self.advice = Some(advice.into());
        }
        self
    }
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    if common.names_board() {
        common.board()?;
    }
    let tasks = plans::tasks(common);
    let probe = raw::probe();
    let jetson = jetson::read(Path::new("/"));
    let mut findings = vec![system::processor(), system::cores(), system::memory()];
    findings.extend(jetson.as_ref().map(|found| system::jetson(found, Path::new("boards"))));
    findings.extend(timing::all());
    findings.extend([
        graphics::cuda(&probe),
        graphics::kernels(common, &probe),
        graphics::compiler(common),
    ]);
    findings.push(plans::boards_found());
    findings.extend(tasks);
    findings.extend(plans::all(common, probe.as_ref().ok(), jetson.as_ref()));
    if arguments.json {
        let mut all = Map::new();
        for f in &findings {
            let value = match &f.advice {
                Some(advice) => json!({ "found": f.value, "advice": advice }),
                None => json!({ "found": f.value }),
            };
            match all.entry(f.key) {
                serde_json::map::Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                serde_json::map::Entry::Occupied(mut entry) => match entry.get_mut() {
                    Value::Array(several) => several.push(value),
                    first => *first = json!([first.take(), value]),
                },
            }
        }
        output::print(&format!("{:#}", Value::Object(all)))?;
    } else {
        let mut text = String::new();
        for f in &findings {
            text.push_str(&format!("  {:<12} {}\n", f.key, f.text));
            if let Some(advice) = &f.advice {
                text.push_str(&format!("! {:<12} {advice}\n", ""));
            }
        }
        output::print(&text)?;
    }
    Ok(if findings.iter().any(|f| f.bad) {
        Outcome::Bad
    } else {
        Outcome::Good
    })
}
