//! The zoo's figures as rows for people, as JSON, and beside their floors as Markdown.

use super::gaps::{Alike, Gaps};
use super::member::Member;
use super::run::Group;
use crate::bench::measure::Samples;
use crate::bench::report::{Provenance, ratio};
use crate::bench::stage::Side;
use crate::board::BoardRecord;
use crate::planner::floor::Limits;
use crate::units::Nanos;
use serde_json::{Value, json};
use std::fmt::Write;

/// Headings of [`Report::rows`].
pub const HEADINGS: [&str; 11] = [
    "networks",
    "batch",
    "GMAC",
    "side",
    "what",
    "median ms",
    "p90 ms",
    "p99 ms",
    "min ms",
    "TFLOP/s",
    "to peer",
];

/// Operators of a network that are shown beside their floors.
const SHOWN: usize = 5;

/// What a group took.
pub struct Measured {
    /// The group.
    pub group: Group,
    /// Multiply-adds of a frame, all networks and batches together.
    pub multiply_adds: u64,
    /// Our frames.
    pub ours: Side,
    /// The peer's; `None` without a peer.
    pub peer: Option<Side>,
    /// The operators beside their floors; `None` if that was not asked for.
    pub gaps: Option<Gaps>,
}

impl Measured {
    /// How many times as long as the peer's median that of `samples` is, each part beside the same of the peer. A peer without
    /// a device has no clock but the host's, and runs nothing but networks.
    fn to_peer(&self, what: &str, samples: &Samples) -> Option<f64> {
        let peer = self.peer.as_ref()?;
        let same = if what == "networks" && peer.networks.count() > 0 {
            &peer.networks
        } else {
            &peer.frame
        };
        ratio(samples, Some(same))
    }
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
    /// Two rows for each group and side: the frame, and the networks alone.
    pub fn rows(&self) -> Vec<[String; 11]> {
        let peer_name = self.provenance.peer.as_ref().map_or("peer", |p| p.0.as_str());
        let mut rows = Vec::new();
        for one in &self.groups {
            let batches: Vec<String> = one.group.members.iter().map(|m| m.batch.to_string()).collect();
            for (side, samples) in [("platoon", Some(&one.ours)), (peer_name, one.peer.as_ref())] {
                let Some(side_of) = samples else { continue };
                for (what, samples) in [("frame", &side_of.frame), ("networks", &side_of.networks)] {
                    if samples.count() == 0 {
                        continue;
                    }
                    let [median, p90, p99, min] = figures(samples).map(|t| format!("{:.3}", t.as_ms()));
                    rows.push([
                        one.group.name.clone(),
                        batches.join("+"),
                        format!("{:.2}", one.multiply_adds as f64 / 1e9),
                        side.to_string(),
                        what.to_string(),
                        median,
                        p90,
                        p99,
                        min,
                        format!("{:.2}", teraflops(one.multiply_adds, samples)),
                        one.to_peer(what, samples).map_or("-".to_string(), |r| format!("{r:.2}")),
                    ]);
                }
            }
        }
        rows
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let group = |one: &Measured| {
            let part = |what: &str, samples: &Samples| {
                let [median, p90, p99, min] = figures(samples).map(Nanos::as_ms);
                json!({
                    "frames": samples.count(), "median_ms": median, "p90_ms": p90, "p99_ms": p99, "min_ms": min,
                    "to_peer": one.to_peer(what, samples),
                })
            };
            let side = |side: &Side| json!({ "frame": part("frame", &side.frame), "networks": (side.networks.count() > 0).then(|| part("networks", &side.networks)) });
            let members = one.group.members.iter();
            json!({
                "name": one.group.name,
                "networks": members.map(|m| json!({ "name": m.name(), "batch": m.batch })).collect::<Vec<_>>(),
                "multiply_adds": one.multiply_adds,
                "ours": side(&one.ours),
                "peer": one.peer.as_ref().map(side),
                "gaps": one.gaps.as_ref().map(Gaps::json),
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

/// The median of a group's networks in milliseconds in the JSON of an earlier run on a board: of `platoon bench --zoo`, or of
/// several such under names.
pub fn before(earlier: &Value, measured: &Measured, board: &str) -> Option<f64> {
    let members = |g: &Value| -> Vec<(String, u64)> {
        let one = |m: &Value| Some((m["name"].as_str()?.to_string(), m["batch"].as_u64()?));
        g["networks"]
            .as_array()
            .map_or(Vec::new(), |all| all.iter().filter_map(one).collect())
    };
    let own: Vec<(String, u64)> = measured.group.members.iter().map(|m| (m.name(), u64::from(m.batch))).collect();
    let runs = std::iter::once(earlier).chain(earlier.as_object().into_iter().flat_map(|o| o.values()));
    let groups = runs
        .filter(|run| run["provenance"]["board"] == board)
        .filter_map(|run| run["zoo"].as_array())
        .flatten();
    groups
        .filter(|g| members(g) == own)
        .find_map(|g| g["ours"]["networks"]["median_ms"].as_f64())
}

/// The report as Markdown: a table of networks, and one of operators for each. `command` reproduces it.
pub fn markdown(report: &Report, limits: &Limits, board: &BoardRecord, earlier: &Value, command: &str) -> String {
    let mut text = format!(
        "# Gaps of {} to its floors\n\n    {command}\n\n{}; {}.\n\n",
        board.name,
        report.provenance.line(),
        report.dtype
    );
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        text,
        "An operator's floor is max(multiply-adds / {:.0} a nanosecond, bytes / {:.0} a nanosecond, results' bytes / {:.0}) + {:.0} ns for\n\
         its launch in a chain: the best rates measured on {} SMs. Bytes are those of operands, results and weights, once each. A\n\
         network's floor is the sum over the operators of its plan. *Platoon* and *peer* are the networks on the device's clock, medians of turns in one\n\
         run; *sum* is that of the operators, each timed alone in a chain of repetitions. Operators that are alike are one row.\n\n",
        limits.macs_per_ns, limits.bytes_per_ns, limits.written_per_ns, limits.launch_ns, board.units
    );
    text.push_str("| network | operators | floor ms | peer ms | Platoon before ms | Platoon ms | to peer | to floor | sum ms |\n");
    text.push_str("|---|---|---|---|---|---|---|---|---|\n");
    let number = |value: Option<f64>, digits: usize| value.map_or("-".to_string(), |v| format!("{v:.digits$}"));
    for one in &report.groups {
        let Some(gaps) = &one.gaps else { continue };
        let ours = one.ours.device().median().as_ms();
        let peer = one.peer.as_ref().map(|p| p.device().median().as_ms());
        let _ = writeln!(
            text,
            "| {} | {} | {:.3} | {} | {} | {ours:.3} | {} | {:.2} | {:.3} |",
            title(one),
            gaps.count(),
            gaps.floor() / 1e6,
            number(peer, 3),
            number(before(earlier, one, &board.name), 3),
            number(peer.filter(|p| *p > 0.0).map(|p| ours / p), 2),
            ours * 1e6 / gaps.floor().max(1.0),
            gaps.sum() / 1e6,
        );
    }
    for one in &report.groups {
        let Some(gaps) = &one.gaps else { continue };
        let _ = write!(
            text,
            "\n## {}\n\n| operator | times | output | tactic | MMAC | MB | bound by | floor us | Platoon us | gap of all us |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
            title(one)
        );
        for o in gaps.operators.iter().take(SHOWN) {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {:.1} | {:.2} | {} | {:.2} | {} | {:.1} |",
                o.name,
                o.count,
                o.shape,
                o.tactic,
                o.macs as f64 / 1e6,
                o.bytes as f64 / 1e6,
                o.floor.bound(),
                o.floor.total() / 1e3,
                number(o.time.map(|t| t.0 as f64 / 1e3), 2),
                o.gap() / 1e3,
            );
        }
        let rest: f64 = gaps.operators.iter().skip(SHOWN).map(Alike::gap).sum();
        let _ = writeln!(text, "\nThe others together: {:.1} us above their floors.", rest / 1e3);
    }
    text
}

/// Names and batches.
fn title(one: &Measured) -> String {
    let member = |m: &Member| format!("{} x {}", m.title(), m.batch);
    one.group.members.iter().map(member).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(ms: u64, networks: bool) -> Side {
        let mut side = Side::default();
        side.frame.extend([ms, ms + 1, ms + 2].map(|ms| Nanos(ms * 1_000_000)));
        if networks {
            side.networks.extend([Nanos(ms * 500_000)]);
        }
        side
    }

    fn report(peer: bool, device: bool) -> Report {
        let measured = Measured {
            group: Group::parse("r18:2+bst", None).unwrap(),
            multiply_adds: 4_000_000_000,
            ours: side(1, true),
            peer: peer.then(|| side(3, device)),
            gaps: None,
        };
        Report {
            provenance: Provenance::here("box", 2, peer.then(|| ("pytorch".into(), "2.11".into()))),
            dtype: "f16",
            peer_mode: "eager",
            groups: vec![measured],
        }
    }

    #[test]
    fn each_part_is_a_row_beside_the_same_part_of_the_peer() {
        let rows: Vec<String> = report(true, true).rows().iter().map(|row| row.join(" ")).collect();
        assert_eq!(
            rows,
            [
                "r18:2+bst 2+64 4.00 platoon frame 2.000 3.000 3.000 1.000 4.00 0.50",
                "r18:2+bst 2+64 4.00 platoon networks 0.500 0.500 0.500 0.500 16.00 0.33",
                "r18:2+bst 2+64 4.00 pytorch frame 4.000 5.000 5.000 3.000 2.00 1.00",
                "r18:2+bst 2+64 4.00 pytorch networks 1.500 1.500 1.500 1.500 5.33 1.00",
            ]
        );
        let on_processor = report(true, false).rows();
        assert_eq!(
            (on_processor.len(), on_processor[1][10].as_str()),
            (3, "0.12"),
            "beside all that the peer took"
        );
        let alone = report(false, false).rows();
        assert!(alone.len() == 2 && alone[0][10] == "-", "{alone:?}");
    }

    #[test]
    fn markdown_has_floors_and_what_was_before() {
        let mut report = report(true, true);
        let earlier = json!({ "some": { "provenance": { "board": "box" }, "zoo": report.json()["zoo"].clone() } });
        report.groups[0].gaps = Some(Gaps { operators: Vec::new() });
        let limits = Limits {
            macs_per_ns: 1.0,
            bytes_per_ns: 1.0,
            written_per_ns: 1.0,
            launch_ns: 1.0,
        };
        let board = crate::planner::boards::load("host").unwrap();
        let board = BoardRecord {
            name: "box".into(),
            ..board
        };
        let text = markdown(&report, &limits, &board, &earlier, "platoon bench");
        let row = text.lines().find(|l| l.starts_with("| ResNet-18 x 2 + ")).unwrap();
        assert!(row.contains("| 1.500 | 0.500 | 0.500 | 0.33 |"), "{row}");
        let other = markdown(&report, &limits, &board, &json!({}), "platoon bench");
        assert!(other.contains("| 1.500 | - | 0.500 | 0.33 |"), "{other}");
    }

    #[test]
    fn json_holds_networks_figures_and_settings() {
        let json = report(true, true).json();
        assert_eq!((&json["dtype"], &json["peer_mode"]), (&json!("f16"), &json!("eager")));
        let group = &json["zoo"][0];
        assert_eq!(
            group["networks"],
            json!([{ "name": "r18", "batch": 2 }, { "name": "bst", "batch": 64 }])
        );
        assert_eq!(
            group["ours"]["frame"],
            json!({ "frames": 3, "median_ms": 2.0, "p90_ms": 3.0, "p99_ms": 3.0, "min_ms": 1.0, "to_peer": 0.5 })
        );
        assert_eq!(group["peer"]["networks"]["median_ms"], json!(1.5));
        let alone = report(false, true).json();
        assert!(alone["zoo"][0]["peer"].is_null() && alone["peer_mode"].is_null());
    }
}
