//! ONNX Runtime, through a script of ours in a Python that has its wheel.

use super::{Peer, PeerError, read_answer};
use std::io::BufReader;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("ort.py");

/// Starts the script and waits for its first line.
pub fn start(program: &str) -> Result<Peer, PeerError> {
    let failed = |error| PeerError::Start {
        program: program.to_string(),
        error,
    };
    let mut process = Command::new(program)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
    };
    let mut peer = Peer {
        name: "onnxruntime",
        version: String::new(),
        process,
        requests: Some(requests),
        answers: BufReader::new(answers),
    };
    let absent = |why: String| PeerError::Absent {
        program: program.to_string(),
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
