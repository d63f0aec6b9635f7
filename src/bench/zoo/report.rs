//! The zoo's figures as rows for people and as JSON.

use super::run::Group;
use crate::bench::measure::Samples;
use crate::bench::report::{Provenance, ratio};
use crate::units::Nanos;
use serde_json::{Value, json};

/// Headings of [`Report::rows`].
pub const HEADINGS: [&str; 10] = [
    "networks",
    "batch",
    "GMAC",
    "side",
    "median ms",
    "p90 ms",
    "p99 ms",
    "min ms",
    "TFLOP/s",
    "to peer",
];

/// What a group took.
pub struct Measured {
    /// The group.
    pub group: Group,
    /// Multiply-adds of a frame, all networks and batches together.
    pub multiply_adds: u64,
    /// Our frames.
    pub ours: Samples,
    /// The peer's; `None` without a peer.
    pub peer: Option<Samples>,
}

/// All groups, and what their figures depend on.
pub struct Report {
    /// What the figures depend on.
    pub provenance: Provenance,
    /// How activations are stored: `f32` or `f16`.
    pub dtype: &'static str,
    /// How the peer ran; empty without a peer.
    pub peer_mode: &'static str,
    /// The groups in the order they were measured.
    pub groups: Vec<Measured>,
}

/// The times that are reported.
fn figures(samples: &Samples) -> [Nanos; 4] {
    [samples.median(), samples.quantile(0.9), samples.quantile(0.99), samples.min()]
}

/// Floating point operations, two a multiply-add, in millions of millions a second at the median.
fn teraflops(multiply_adds: u64, samples: &Samples) -> f64 {
    2.0 * multiply_adds as f64 / samples.median().0.max(1) as f64 / 1e3
}

impl Report {
    /// A row for each group and side.
    pub fn rows(&self) -> Vec<[String; 10]> {
        let peer_name = self.provenance.peer.as_ref().map_or("peer", |p| p.0.as_str());
        let mut rows = Vec::new();
        for one in &self.groups {
            let batches: Vec<String> = one.group.members.iter().map(|m| m.batch.to_string()).collect();
            for (side, samples) in [("platoon", Some(&one.ours)), (peer_name, one.peer.as_ref())] {
                let Some(samples) = samples else { continue };
                let [median, p90, p99, min] = figures(samples).map(|t| format!("{:.3}", t.as_ms()));
                rows.push([
                    one.group.name.clone(),
                    batches.join("+"),
                    format!("{:.2}", one.multiply_adds as f64 / 1e9),
                    side.to_string(),
                    median,
                    p90,
                    p99,
                    min,
                    format!("{:.2}", teraflops(one.multiply_adds, samples)),
                    ratio(samples, one.peer.as_ref()).map_or("-".to_string(), |r| format!("{r:.2}")),
                ]);
            }
        }
        rows
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let group = |one: &Measured| {
            let side = |samples: &Samples| {
                let [median, p90, p99, min] = figures(samples).map(Nanos::as_ms);
                json!({
                    "frames": samples.count(), "median_ms": median, "p90_ms": p90, "p99_ms": p99, "min_ms": min,
                    "to_peer": ratio(samples, one.peer.as_ref()),
                })
            };
            let members = one.group.members.iter();
            json!({
                "name": one.group.name,
                "networks": members.map(|m| json!({ "name": m.network.name, "batch": m.batch })).collect::<Vec<_>>(),
                "multiply_adds": one.multiply_adds,
                "ours": side(&one.ours),
                "peer": one.peer.as_ref().map(side),
            })
        };
        json!({
            "provenance": self.provenance.json(),
            "dtype": self.dtype,
            "peer_mode": self.provenance.peer.as_ref().map(|_| self.peer_mode),
            "zoo": self.groups.iter().map(group).collect::<Vec<_>>(),
        })
    }
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
            group: Group::parse("r18:2+bst", None).unwrap(),
            multiply_adds: 4_000_000_000,
            ours: samples(1),
            peer: peer.then(|| samples(3)),
        };
        Report {
            provenance: Provenance::here("box", 2, peer.then(|| ("pytorch".into(), "2.11".into()))),
            dtype: "f16",
            peer_mode: "eager",
            groups: vec![measured],
        }
    }

    #[test]
    fn each_side_is_a_row() {
        let rows: Vec<String> = report(true).rows().iter().map(|row| row.join(" ")).collect();
        assert_eq!(
            rows,
            [
                "r18:2+bst 2+64 4.00 platoon 2.000 3.000 3.000 1.000 4.00 0.50",
                "r18:2+bst 2+64 4.00 pytorch 4.000 5.000 5.000 3.000 2.00 1.00",
            ]
        );
        let alone = report(false).rows();
        assert!(alone.len() == 1 && alone[0][9] == "-", "{alone:?}");
    }

    #[test]
    fn json_holds_networks_figures_and_settings() {
        let json = report(true).json();
        assert_eq!((&json["dtype"], &json["peer_mode"]), (&json!("f16"), &json!("eager")));
        let group = &json["zoo"][0];
        assert_eq!(
            group["networks"],
            json!([{ "name": "r18", "batch": 2 }, { "name": "bst", "batch": 64 }])
        );
        assert_eq!(
            group["ours"],
            json!({ "frames": 3, "median_ms": 2.0, "p90_ms": 3.0, "p99_ms": 3.0, "min_ms": 1.0, "to_peer": 0.5 })
        );
        let alone = report(false).json();
        assert!(alone["zoo"][0]["peer"].is_null() && alone["peer_mode"].is_null());
    }
}
