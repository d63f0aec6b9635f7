//! PyTorch, for the zoo: our text of its modules and a script around them, in a Python that has torch and torchvision.

use super::{Peer, PeerError, start, times};
use crate::units::Nanos;
use serde_json::{Value, json};

const SCRIPT: &str = concat!(include_str!("../zoo/models.py"), "\n\n", include_str!("pytorch.py"));

/// How PyTorch runs a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Operator by operator, batch normalisations folded.
    Eager,
    /// Compiled by inductor in its default mode, with frozen weights.
    Inductor,
}

impl Mode {
    /// The mode's name, as the script knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Eager => "eager",
            Mode::Inductor => "inductor",
        }
    }
}

impl Peer {
    /// PyTorch in the Python interpreter `program`; on a GPU if it finds one, confined to `sms` of its SMs.
    pub fn pytorch(program: &str, sms: Option<u32>) -> Result<Peer, PeerError> {
        let confined = sms.map(|n| ("SMS", n.to_string()));
        start(program, "torch and torchvision", "pytorch", SCRIPT, confined.as_slice())
    }

    /// Loads networks of the zoo by short name and batch, replacing what was there: on a GPU one graph of all, else each on `threads`
    /// threads. `dtype` is `f32` or `f16`.
    pub fn load_zoo(&mut self, networks: &[(&str, u32)], dtype: &str, mode: Mode, threads: usize) -> Result<(), PeerError> {
        let answer = self.ask(&request(networks, dtype, mode, threads))?;
        let loaded = answer["loaded"].as_u64() == Some(networks.len() as u64);
        if loaded {
            Ok(())
        } else {
            Err(PeerError::Answer(answer.to_string()))
        }
    }

    /// Runs the loaded networks `warm` uncounted times, then `count` times: the times of these on the host's clock, and on a GPU
    /// those of as many further runs on its own.
    pub fn run_zoo(&mut self, warm: usize, count: usize) -> Result<(Vec<Nanos>, Option<Vec<Nanos>>), PeerError> {
        let answer = self.ask(&json!({ "run": count, "warm": warm }))?;
        let alone = match answer.get("network_ns") {
            Some(_) => Some(times(&answer, "network_ns", count)?),
            None => None,
        };
        Ok((times(&answer, "ns", count)?, alone))
    }
}

fn request(networks: &[(&str, u32)], dtype: &str, mode: Mode, threads: usize) -> Value {
    let load: Vec<Value> = networks
        .iter()
        .map(|(name, batch)| json!({ "network": name, "batch": batch }))
        .collect();
    json!({ "load": load, "dtype": dtype, "mode": mode.name(), "threads": threads })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_networks_batches_and_settings() {
        assert_eq!(
            request(&[("r18", 2), ("lstm", 128)], "f16", Mode::Inductor, 3),
            json!({
                "load": [{ "network": "r18", "batch": 2 }, { "network": "lstm", "batch": 128 }],
                "dtype": "f16", "mode": "inductor", "threads": 3,
            })
        );
    }
}
