//! A process that runs one network's frames when it is told to: a tenant by itself under MPS.
//!
//! Lines of JSON on its standard streams. Its first line is `{"sms": n}`, the SMs that its work may hold. Then, for each line
//! `{"start": ns since 1970, "period": ns, "frames": n}`, it starts a frame at `start` and at every `period` after it, and answers
//! `{"ns": [..]}`: for each frame the time from when it was to start until its result was there. So frames of several processes
//! begin together without a word between them.

use crate::bench::BenchError;
use crate::bench::stage::Stage;
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest wait for the first frame that is obeyed: clocks of one machine do not differ by more.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Most frames of one request.
const MOST_FRAMES: u64 = 1 << 16;

/// Obeys until the input ends.
pub fn follow(stage: &mut Stage, sms: u32, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    writeln!(output, "{}", json!({ "sms": sms }))?;
    output.flush()?;
    for line in input.lines() {
        let answer = match request(&line?) {
            Some((start, period, frames)) => match frames_at(stage, start, period, frames) {
                Ok(times) => json!({ "ns": times }),
                Err(error) => json!({ "error": error.to_string() }),
            },
            None => json!({ "error": "the request is not understood" }),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

/// When the first frame starts, the time between two, and how many there are.
fn request(line: &str) -> Option<(Instant, Duration, u64)> {
    let wanted: Value = serde_json::from_str(line).ok()?;
    let nanos = |key: &str| wanted[key].as_u64().map(Duration::from_nanos);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let wait = nanos("start")?.saturating_sub(now).min(LONGEST_WAIT);
    let frames = wanted["frames"].as_u64().filter(|&n| n <= MOST_FRAMES)?;
    Some((Instant::now() + wait, nanos("period")?.min(LONGEST_WAIT), frames))
}

fn frames_at(stage: &mut Stage, start: Instant, period: Duration, frames: u64) -> Result<Vec<u64>, BenchError> {
    let mut times = Vec::with_capacity(frames as usize);
    for frame in 0..frames as u32 {
        let one = stage.frame_at(Some(start + period * frame))?;
        times.extend(one.frame.iter().map(|t| t.0));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::rows::Row;
    use crate::planner::{CompileOptions, boards};
    use crate::runtime::Options;

    #[test]
    fn frames_run_at_the_times_that_were_asked_for() {
        let row = Row::of("bst:1", None).unwrap();
        let board = boards::load("host").unwrap();
        let options = Options {
            workers: Some(1),
            ..Options::default()
        };
        let compiled = row.compile(&board, &CompileOptions::default(), 0).unwrap();
        let mut stage = row.open(compiled, &board, &options).unwrap();
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 + 20_000_000;
        let lines = format!("{{\"start\": {start}, \"period\": 30000000, \"frames\": 3}}\nwhat?\n{{\"start\": 0, \"period\": 1}}\n");
        let (mut said, begun) = (Vec::new(), Instant::now());
        follow(&mut stage, 7, lines.as_bytes(), &mut said).unwrap();
        assert!(
            begun.elapsed() >= Duration::from_millis(60),
            "the third frame starts after two periods"
        );
        stage.close();
        let answers: Vec<Value> = String::from_utf8(said)
            .unwrap()
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(answers[0], json!({ "sms": 7 }));
        assert!(answers[1]["ns"].as_array().unwrap().iter().all(|t| t.as_u64().unwrap() > 0));
        assert_eq!(answers[1]["ns"].as_array().unwrap().len(), 3);
        assert!(answers[2]["error"].is_string() && answers[3]["error"].is_string());
    }
}
