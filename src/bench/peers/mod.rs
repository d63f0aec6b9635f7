//! The other side of a comparison: a process that loads the same networks and is told when to run them.
//!
//! It talks lines of JSON over its standard streams, so that turns of both sides can alternate in one run.

mod ort;
mod pytorch;

pub use pytorch::{Mode, Way};

use crate::plan::format::Plan;
use crate::units::Nanos;
use serde_json::{Map, Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::mixes::Network;

/// Longest line that a peer may send, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// Why there is no peer, or no more.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Its interpreter does not start.
    #[error("`{program}` does not start: name a Python that has {libraries} with --peer or PLATOON_PEER_PYTHON")]
    Start {
        /// The interpreter.
        program: String,
        /// What it should have.
        libraries: &'static str,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It started and cannot work.
    #[error("`{program}` lacks {libraries} ({why}): install them there, or name another with --peer or PLATOON_PEER_PYTHON")]
    Absent {
        /// The interpreter.
        program: String,
        /// What it should have.
        libraries: &'static str,
        /// What it said.
        why: String,
    },
    /// It reports that something failed.
    #[error("it says: {0}")]
    Failed(String),
    /// It said something that is no answer.
    #[error("its answer is not understood: {0:?}")]
    Answer(String),
    /// It ended, or its streams broke.
    #[error("it does not answer")]
    Lost(#[source] io::Error),
}

/// A peer at work.
pub struct Peer {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Loads networks, replacing those before; each session gets `threads` threads. Inputs get the shapes that `plan`,
    /// which has the networks as its tenants, gives them. The peer keeps the fastest of its own settings: its name.
    pub fn load(&mut self, networks: &[Network], plan: &Plan, threads: usize) -> Result<&'static str, PeerError> {
        let inputs = |tenant: usize| -> Map<String, Value> {
            let ports = plan.tenants.get(tenant).map_or(&[][..], |t| &t.inputs);
            ports.iter().map(|p| (p.name.clone(), json!(p.view.layout.shape.dims()))).collect()
        };
        let network = |(index, n): (usize, &Network)| json!({ "onnx": n.onnx, "inputs": inputs(index), "range": [n.range.0, n.range.1] });
        let all: Vec<Value> = networks.iter().enumerate().map(network).collect();
        let answer = self.ask(&json!({ "load": all, "threads": threads }))?;
        setting(&answer, networks.len()).ok_or_else(|| PeerError::Answer(answer.to_string()))
    }

    /// Runs the networks one after another, `warm` uncounted times, then `count` times: the times of these.
    pub fn run(&mut self, warm: usize, count: usize) -> Result<Vec<Nanos>, PeerError> {
        let answer = self.ask(&json!({ "run": count, "warm": warm }))?;
        times(&answer, "ns", count)
    }

    fn ask(&mut self, request: &Value) -> Result<Value, PeerError> {
        let gone = || PeerError::Lost(io::ErrorKind::BrokenPipe.into());
        let requests = self.requests.as_mut().ok_or_else(gone)?;
        writeln!(requests, "{request}")
            .and_then(|()| requests.flush())
            .map_err(PeerError::Lost)?;
        read_answer(&mut self.answers)
    }
}

/// Starts `script` in the interpreter `program`, with further environment variables, and waits for its first line, which has its version.
fn start(
    program: &str,
    libraries: &'static str,
    name: &'static str,
    script: &str,
    variables: &[(&str, String)],
) -> Result<Peer, PeerError> {
    let failed = |error| PeerError::Start {
        program: program.to_string(),
        libraries,
        error,
    };
    let mut process = Command::new(program)
        .args(["-c", script])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(failed(io::ErrorKind::BrokenPipe.into()));
    };
    let mut peer = Peer {
        name,
        version: String::new(),
        process,
        requests: Some(requests),
        answers: BufReader::new(answers),
    };
    let absent = |why: String| PeerError::Absent {
        program: program.to_string(),
        libraries,
        why,
    };
    let greeting = read_answer(&mut peer.answers).map_err(|error| match error {
        PeerError::Failed(why) => absent(why),
        other => absent(other.to_string()),
    })?;
    let version = greeting["version"].as_str().ok_or_else(|| absent(greeting.to_string()))?;
    peer.version = version.to_string();
    Ok(peer)
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends at the end of its input; one that does not is ended.
        drop(self.requests.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The next line as JSON; what the peer reports as failed is an error.
pub(super) fn read_answer(answers: &mut impl BufRead) -> Result<Value, PeerError> {
    let mut line = String::new();
    let read = io::Read::take(answers, MAX_LINE).read_line(&mut line).map_err(PeerError::Lost)?;
    if read == 0 {
        return Err(PeerError::Lost(io::ErrorKind::UnexpectedEof.into()));
    }
    let answer: Value = serde_json::from_str(&line).map_err(|_| PeerError::Answer(line.trim_end().to_string()))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(why) => Err(PeerError::Failed(why.to_string())),
        None => Ok(answer),
    }
}

/// The name of the setting in the answer to a load of `count` networks.
fn setting(answer: &Value, count: usize) -> Option<&'static str> {
    let spinning = answer["spinning"].as_bool()?;
    (answer["loaded"].as_u64()? == count as u64).then_some(if spinning { "idle threads spin" } else { "idle threads sleep" })
}

/// The times of an answer under `key`, of which there must be `count`.
pub(super) fn times(answer: &Value, key: &str, count: usize) -> Result<Vec<Nanos>, PeerError> {
    let times: Option<Vec<Nanos>> = answer[key]
        .as_array()
        .and_then(|all| all.iter().map(|n| n.as_u64().map(Nanos)).collect());
    times
        .filter(|t| t.len() == count)
        .ok_or_else(|| PeerError::Answer(answer.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Result<Value, PeerError> {
        read_answer(&mut text.as_bytes())
    }

    #[test]
    fn answers_are_read_a_line_at_a_time() {
        let mut stream = "{\"version\": \"1.2\"}\n{\"ns\": [3, 4]}\n".as_bytes();
        assert_eq!(read_answer(&mut stream).unwrap()["version"], "1.2");
        assert_eq!(times(&read_answer(&mut stream).unwrap(), "ns", 2).unwrap(), [Nanos(3), Nanos(4)]);
        assert!(
            matches!(read_answer(&mut stream), Err(PeerError::Lost(_))),
            "the stream is at its end"
        );
    }

    #[test]
    fn whatever_is_no_answer_is_an_error_that_shows_it() {
        assert!(matches!(answer("{\"error\": \"no such file\"}\n"), Err(PeerError::Failed(why)) if why == "no such file"));
        assert!(matches!(answer("Traceback\n"), Err(PeerError::Answer(line)) if line == "Traceback"));
        for text in [
            "{\"ns\": [3]}",
            "{\"ns\": [3, -4]}",
            "{\"ns\": [3, 4.5]}",
            "{\"ns\": 3}",
            "{}",
            "[]",
        ] {
            let answer = answer(text).unwrap();
            assert!(matches!(times(&answer, "ns", 2), Err(PeerError::Answer(_))), "{text}");
        }
    }

    #[test]
    fn an_answer_to_a_load_counts_the_networks_and_names_the_setting() {
        let setting = |text: &str| setting(&answer(text).unwrap(), 2);
        assert_eq!(setting("{\"loaded\": 2, \"spinning\": false}"), Some("idle threads sleep"));
        assert_eq!(setting("{\"loaded\": 2, \"spinning\": true}"), Some("idle threads spin"));
        assert_eq!(setting("{\"loaded\": 1, \"spinning\": true}"), None);
        assert_eq!(setting("{\"loaded\": 2}"), None);
    }

    #[test]
    fn a_missing_interpreter_says_how_to_name_one() {
        let error = Peer::onnxruntime("./no-such-python").err().expect("there is no such program");
        assert!(matches!(error, PeerError::Start { .. }));
        assert!(
            error.to_string().contains("`./no-such-python`") && error.to_string().contains("--peer"),
            "{error}"
        );
    }

    #[test]
    fn a_program_that_is_no_python_is_told_from_one_that_does_not_start() {
        let error = Peer::onnxruntime("true").err().expect("it says nothing");
        assert!(matches!(&error, PeerError::Absent { program, .. } if program == "true"), "{error}");
    }
}
