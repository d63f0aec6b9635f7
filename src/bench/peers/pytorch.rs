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

/// How PyTorch runs several networks on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What the figures call it.
    pub name: &'static str,
    /// What runs each network.
    pub mode: Mode,
    /// Captured into one CUDA graph, else issued from Python.
    pub graph: bool,
    /// Each network on a stream of its own, else one after another.
    pub streams: bool,
}

impl Way {
    /// All networks one after another in one graph: the way of a single network.
    pub const fn single(mode: Mode) -> Way {
        Way {
            name: "graph",
            mode,
            graph: true,
            streams: false,
        }
    }

    /// The ways that a mix is compared with. The papers' sequential cuDNN is the first, their stream-parallel the second.
    pub const ALL: [Way; 5] = [
        Way::new("eager, sequential", Mode::Eager, false, false),
        Way::new("eager, streams", Mode::Eager, false, true),
        Way::new("graph, streams", Mode::Eager, true, true),
        Way::new("inductor + graph, sequential", Mode::Inductor, true, false),
        Way::new("inductor + graph, streams", Mode::Inductor, true, true),
    ];

    const fn new(name: &'static str, mode: Mode, graph: bool, streams: bool) -> Way {
        Way {
            name,
            mode,
            graph,
            streams,
        }
    }
}

impl Peer {
    /// PyTorch in the Python interpreter `program`; on a GPU if it finds one, confined to `sms` of its SMs. Inductor compiles
    /// with as many processes as `compilers` says, by default with all cores.
    pub fn pytorch(program: &str, sms: Option<u32>, compilers: Option<usize>) -> Result<Peer, PeerError> {
        let confined = sms.map(|n| ("SMS", n.to_string()));
        let compilers = compilers.map(|n| ("TORCHINDUCTOR_COMPILE_THREADS", n.to_string()));
        let variables: Vec<(&str, String)> = confined.into_iter().chain(compilers).collect();
        start(program, "torch and torchvision", "pytorch", SCRIPT, &variables)
    }

    /// Loads networks by the zoo's short name or a saved program's file, and batch, replacing what was there: on a GPU ready to run in
    /// each of some ways, else each on `threads` threads. `dtype` is `f32` or `f16`.
    pub fn load_zoo(&mut self, networks: &[(String, u32)], dtype: &str, ways: &[Way], threads: usize) -> Result<(), PeerError> {
        let answer = self.ask(&request(networks, dtype, ways, threads))?;
        let loaded = (answer["loaded"].as_u64(), answer["ways"].as_u64());
        if loaded == (Some(networks.len() as u64), Some(ways.len() as u64)) {
            Ok(())
        } else {
            Err(PeerError::Answer(answer.to_string()))
        }
    }

    /// Runs the loaded networks in a way, by its place among those loaded, `warm` uncounted times, then `count` times: the times of
    /// these on the host's clock, and of graphs on a GPU those of as many further runs on its own.
    pub fn run_zoo(&mut self, way: usize, warm: usize, count: usize) -> Result<(Vec<Nanos>, Option<Vec<Nanos>>), PeerError> {
        let answer = self.ask(&json!({ "run": count, "warm": warm, "way": way }))?;
        let alone = match answer.get("network_ns") {
            Some(_) => Some(times(&answer, "network_ns", count)?),
            None => None,
        };
        Ok((times(&answer, "ns", count)?, alone))
    }
}

fn request(networks: &[(String, u32)], dtype: &str, ways: &[Way], threads: usize) -> Value {
    let networks = networks.iter().map(|(name, batch)| json!({ "network": name, "batch": batch }));
    let ways = ways
        .iter()
        .map(|way| json!({ "mode": way.mode.name(), "graph": way.graph, "streams": way.streams }));
    json!({
        "load": networks.collect::<Vec<_>>(), "dtype": dtype, "threads": threads,
        "ways": ways.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_networks_batches_and_ways() {
        assert_eq!(
            request(
                &[("r18".into(), 2), ("lstm".into(), 128)],
                "f16",
                &[Way::single(Mode::Inductor), Way::ALL[1]],
                3
            ),
            json!({
                "load": [{ "network": "r18", "batch": 2 }, { "network": "lstm", "batch": 128 }],
                "dtype": "f16", "threads": 3,
                "ways": [
                    { "mode": "inductor", "graph": true, "streams": false },
                    { "mode": "eager", "graph": false, "streams": true },
                ],
            })
        );
    }
}
