//! The figures as rows for people and as JSON, with what they depend on.

use super::measure::Samples;
use super::turns::Measured;
use crate::backend::cpu::simd::Isa;
use crate::units::Nanos;
use serde_json::{Map, Value, json};

/// Headings of [`Report::rows`].
pub const HEADINGS: [&str; 7] = ["task set", "what", "median ms", "p90 ms", "min ms", "to peer", "peer's setting"];

/// A comparison.
pub struct Report {
    /// What the figures depend on.
    pub provenance: Provenance,
    /// Task sets in the order they were measured, each with its networks.
    pub sets: Vec<(String, Vec<String>, Measured)>,
}

/// What figures depend on, as far as it is known without a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The processor's name for itself.
    pub processor: String,
    /// Its architecture, as `x86_64`.
    pub architecture: String,
    /// The instruction family of our kernels.
    pub isa: String,
    /// Cores at hand.
    pub cores: usize,
    /// Our workers, and the threads of each of the peer's sessions.
    pub workers: usize,
    /// The board's name.
    pub board: String,
    /// Our version.
    pub version: String,
    /// The commit that the program was built from, if the build said so in `PLATOON_COMMIT`.
    pub commit: Option<String>,
    /// The GPU that plans run on, in words; `None` on the processor.
    pub device: Option<String>,
    /// Name and version of the peer.
    pub peer: Option<(String, String)>,
}

impl Provenance {
    /// Of this machine and this program.
    pub fn here(board: &str, workers: usize, peer: Option<(String, String)>) -> Provenance {
        Provenance {
            processor: processor_here(),
            architecture: std::env::consts::ARCH.to_string(),
            isa: Isa::detect().name().to_string(),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            workers,
            board: board.to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: option_env!("PLATOON_COMMIT").map(String::from),
            device: None,
            peer,
        }
    }

    /// The same, on a GPU.
    pub fn on(self, device: Option<String>) -> Provenance {
        Provenance { device, ..self }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let peer = match &self.peer {
            Some((name, version)) => format!("{name} {version}, {} threads, one network after another", self.workers),
            None => "no peer".to_string(),
        };
        format!("{}; {peer}", self.machine())
    }

    /// The same without the peer.
    pub fn machine(&self) -> String {
        let device = self.device.as_ref().map(|d| format!("{d}; host ")).unwrap_or_default();
        format!(
            "{device}{} ({}, {} of {} cores); platoon {}",
            self.processor, self.isa, self.workers, self.cores, self.version
        )
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "processor": self.processor,
            "architecture": self.architecture,
            "isa": self.isa,
            "cores": self.cores,
            "workers": self.workers,
            "board": self.board,
            "device": self.device,
            "platoon": self.version,
            "commit": self.commit,
            "peer": self.peer.as_ref().map(|(name, version)| json!({ "name": name, "version": version, "threads": self.workers })),
        })
    }
}

/// This machine's processor in its own words.
pub fn processor_here() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    processor(&info).unwrap_or("unknown").to_string()
}

/// The processor's name in the text of `/proc/cpuinfo`.
fn processor(info: &str) -> Option<&str> {
    let value = |key: &str| info.lines().find_map(|l| l.strip_prefix(key)?.trim_start().strip_prefix(':'));
    value("model name").or_else(|| value("CPU part")).map(str::trim)
}

/// How many times as long as the peer's median ours is; `None` without a peer.
pub fn ratio(ours: &Samples, peer: Option<&Samples>) -> Option<f64> {
    let peer = peer.map(|p| p.median().0).filter(|&p| p > 0)?;
    Some(ours.median().0 as f64 / peer as f64)
}

impl Report {
    /// A row for each task set and side.
    pub fn rows(&self) -> Vec<[String; 7]> {
        let peer_name = self.provenance.peer.as_ref().map_or("peer", |p| p.0.as_str());
        let mut rows = Vec::new();
        for (name, _, measured) in &self.sets {
            let sides = [
                ("frame", Some(&measured.frame)),
                ("networks", Some(&measured.networks)),
                (peer_name, measured.peer.as_ref()),
            ];
            for (what, samples) in sides {
                let Some(samples) = samples else { continue };
                let [median, p90, min] = figures(samples).map(|t| format!("{:.2}", t.as_ms()));
                let ratio = ratio(samples, measured.peer.as_ref()).map_or("-".to_string(), |r| format!("{r:.2}"));
                let setting = if what == peer_name {
                    measured.setting.to_string()
                } else {
                    String::new()
                };
                rows.push([name.clone(), what.to_string(), median, p90, min, ratio, setting]);
            }
        }
        rows
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let mut sets = Map::new();
        for (name, networks, measured) in &self.sets {
            let peer = measured.peer.as_ref();
            let side = |samples: &Samples| {
                let [median, p90, min] = figures(samples).map(Nanos::as_ms);
                json!({ "frames": samples.count(), "median_ms": median, "p90_ms": p90, "min_ms": min, "to_peer": ratio(samples, peer) })
            };
            let set = json!({
                "networks": networks,
                "ours": { "frame": side(&measured.frame), "networks": side(&measured.networks) },
                "peer": peer.map(side),
                "peer_setting": peer.map(|_| measured.setting),
            });
            sets.insert(name.clone(), set);
        }
        json!({ "provenance": self.provenance.json(), "task_sets": sets })
    }
}

fn figures(samples: &Samples) -> [Nanos; 3] {
    [samples.median(), samples.quantile(0.9), samples.min()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(ms: u64) -> Samples {
        let mut samples = Samples::default();
        samples.extend([ms, ms + 1, ms + 2].map(|ms| Nanos(ms * 1_000_000)));
        samples
    }

    fn report(peer: bool) -> Report {
        let measured = Measured {
            frame: samples(29),
            networks: samples(14),
            peer: peer.then(|| samples(9)),
            setting: if peer { "quick" } else { "" },
        };
        let mut provenance = Provenance::here("box", 2, peer.then(|| ("onnxruntime".into(), "1.30".into())));
        (provenance.processor, provenance.isa, provenance.cores) = ("Some CPU".into(), "avx2".into(), 8);
        Report {
            provenance,
            sets: vec![("urban".into(), vec!["a".into(), "b".into()], measured)],
        }
    }

    #[test]
    fn each_side_is_a_row_with_its_ratio() {
        let rows = report(true).rows().map_join();
        assert_eq!(
            rows,
            [
                "urban frame 30.00 31.00 29.00 3.00",
                "urban networks 15.00 16.00 14.00 1.50",
                "urban onnxruntime 10.00 11.00 9.00 1.00 quick"
            ]
        );
        let alone = report(false).rows().map_join();
        assert_eq!(alone, ["urban frame 30.00 31.00 29.00 -", "urban networks 15.00 16.00 14.00 -"]);
    }

    trait Joined {
        fn map_join(&self) -> Vec<String>;
    }

    impl Joined for Vec<[String; 7]> {
        fn map_join(&self) -> Vec<String> {
            self.iter().map(|row| row.join(" ").trim_end().to_string()).collect()
        }
    }

    #[test]
    fn json_holds_figures_and_what_they_depend_on() {
        let json = report(true).json();
        let set = &json["task_sets"]["urban"];
        assert_eq!(set["networks"], json!(["a", "b"]));
        assert_eq!(
            set["ours"]["frame"],
            json!({ "frames": 3, "median_ms": 30.0, "p90_ms": 31.0, "min_ms": 29.0, "to_peer": 3.0 })
        );
        assert_eq!((&set["peer"]["median_ms"], &set["peer_setting"]), (&json!(10.0), &json!("quick")));
        assert_eq!(
            json["provenance"]["peer"],
            json!({ "name": "onnxruntime", "version": "1.30", "threads": 2 })
        );
        let alone = report(false).json();
        assert!(alone["task_sets"]["urban"]["peer"].is_null() && alone["provenance"]["peer"].is_null());
        assert!(alone["task_sets"]["urban"]["ours"]["networks"]["to_peer"].is_null());
    }

    #[test]
    fn the_line_names_machine_and_peer() {
        let line = report(true).provenance.line();
        assert!(line.starts_with("Some CPU (avx2, 2 of 8 cores); platoon "), "{line}");
        assert!(line.ends_with("; onnxruntime 1.30, 2 threads, one network after another"), "{line}");
        assert!(report(false).provenance.line().ends_with("; no peer"));
    }

    #[test]
    fn the_processor_is_found_in_both_kinds_of_listings() {
        assert_eq!(
            processor("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n"),
            Some("Some CPU @ 3 GHz")
        );
        assert_eq!(processor("CPU implementer\t: 0x41\nCPU part\t: 0xd42\n"), Some("0xd42"));
        assert_eq!(processor(""), None);
    }
}
