//! Under which conditions figures were measured: the day, the GPU's clocks, the commit.

use super::zoo::{Setting, command};
use crate::bench::table::report::Conditions;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// What figures of a setting depend on, but for the clocks, which are not known before the GPU has worked.
pub fn conditions(setting: &Setting<'_>) -> Conditions {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let told = option_env!("PLATOON_COMMIT")
        .map(String::from)
        .or_else(|| std::env::var("PLATOON_COMMIT").ok());
    Conditions {
        date: date(now.as_secs() / 86_400),
        clocks: String::new(),
        commit: told
            .or_else(|| said("git", &["describe", "--always", "--dirty", "--abbrev=12"]))
            .unwrap_or_default(),
        command: command(),
        dtype: setting.activations().to_string(),
        frames: setting.frames,
    }
}

/// The clocks of the GPU that has just worked; empty if nobody knows.
pub fn clocks() -> String {
    let wanted = ["--query-gpu=clocks.sm,clocks.mem,clocks.max.sm", "--format=csv,noheader"];
    let line = said("nvidia-smi", &wanted).unwrap_or_default();
    match line.split(", ").collect::<Vec<_>>()[..] {
        [sm, memory, most] => format!("SMs {sm} of {most}, memory {memory}"),
        _ => String::new(),
    }
}

/// The first line that a program says; `None` if there is no such program or it fails.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().next()?.trim().to_string())
}

/// The date of a day, counted from the first of 1970.
fn date(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        let days = [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_778, "2026-11-21"),
            (20_818, "2026-12-31"),
        ];
        days.iter().for_each(|&(day, name)| assert_eq!(date(day), name));
    }
}
