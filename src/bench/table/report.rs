//! The table as Markdown for people and as JSON, with what its figures depend on.

use super::contest::{Entry, Runner};
use super::targets::{self, Verdict, geometric_mean};
use crate::bench::measure::Samples;
use crate::bench::report::Provenance;
use crate::bench::zoo::rivals;
use crate::planner::report::RefinedReport;
use serde_json::{Value, json};
use std::fmt::Write;

/// What figures depend on besides machine and program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The day, as `2026-11-21`.
    pub date: String,
    /// The GPU's clocks while it works, in words; empty if they are not known.
    pub clocks: String,
    /// The commit that the program was built from; empty if that is not known.
    pub commit: String,
    /// How the program was called.
    pub command: String,
    /// Type of activations: `f32` or `f16`.
    pub dtype: String,
    /// Counted frames of each line.
    pub frames: usize,
}

/// Seconds that the parts of a row took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    /// Building the networks and searching for plans.
    pub compile: f64,
    /// Loading PyTorch's networks, and compiling them.
    pub peer: f64,
    /// Starting the processes under MPS.
    pub mps: f64,
    /// Refining our plans by measurement.
    pub refine: f64,
    /// Opening our engine, and choosing among our plans.
    pub qualify: f64,
    /// The turns.
    pub turns: f64,
}

/// A row that was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Networks and batches; empty for a task set.
    pub networks: Vec<(String, u32)>,
    /// The shortest time that it could take, in nanoseconds.
    pub floor: f64,
    /// Who ran it; the first is the plan that is kept.
    pub entries: Vec<Entry>,
    /// What the plan reaches.
    pub verdict: Verdict,
    /// The SMs that each process under MPS might hold.
    pub mps_sms: Vec<u32>,
    /// What a refinement by measurement tried, if there was one.
    pub refined: Option<RefinedReport>,
    /// What it cost.
    pub seconds: Seconds,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Report {
    /// The machine and the program.
    pub provenance: Provenance,
    /// The rest.
    pub conditions: Conditions,
    /// The rows in the order they were measured.
    pub rows: Vec<Measured>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// Plans of a refinement that the JSON has, best first.
const SHOWN: usize = 24;

fn ms(samples: &Samples, quantile: f64) -> String {
    match samples.count() {
        0 => "-".to_string(),
        _ => format!("{:.3}", samples.quantile(quantile).as_ms()),
    }
}

/// A ratio beside what it should be, with a mark where it is not.
fn aimed(ratio: Option<f64>, aim: Option<f64>, met: Option<bool>) -> String {
    let Some(ratio) = ratio else { return "-".to_string() };
    let aim = aim.map(|a| format!(" ({a:.2})")).unwrap_or_default();
    match met {
        Some(false) => format!("**{ratio:.2}**{aim}"),
        _ => format!("{ratio:.2}{aim}"),
    }
}

impl Measured {
    fn of(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// The errors of all predictions.
    fn errors(&self) -> impl Iterator<Item = f64> {
        self.entries.iter().filter_map(targets::error)
    }

    fn summary(&self) -> String {
        let v = &self.verdict;
        let time = |name| self.of(name).map_or("-".into(), |e| ms(e.side.device(), 0.5));
        let plan = self.entries.first();
        let cells = [
            self.name.clone(),
            format!("{:.3}", self.floor / 1e6),
            time(crate::bench::choice::REFERENCE),
            time(super::contest::FREE),
            plan.map_or("-".into(), |e| ms(e.side.device(), 0.5)),
            plan.map_or(String::new(), |e| e.name.clone()),
            aimed(v.over_sequential, v.sequential_aim(), v.meets_sequential()),
            v.possible.map_or("-".into(), |p| format!("{p:.2}")),
            aimed(v.over_streams, None, v.meets_streams()),
            aimed(v.over_peer.as_ref().map(|p| p.0), v.peer_aim, v.meets_peer()),
            v.over_peer.as_ref().map_or("-".into(), |p| p.1.replace("PyTorch ", "")),
            aimed(v.over_mps, None, None),
            format!("{:.2}", v.of_floor),
            if v.identical { "same" } else { "**differ**" }.to_string(),
        ];
        format!("| {} |", cells.join(" | "))
    }

    fn line(&self, entry: &Entry) -> String {
        let (predicted, bits) = match entry.runner {
            Runner::Plan { predicted, identical } => (
                format!("{:.3}", predicted.as_ms()),
                if identical { "same" } else { "**differ**" }.to_string(),
            ),
            Runner::Mps | Runner::Peer => ("-".into(), "-".into()),
        };
        let error = targets::error(entry).map_or("-".into(), |e| format!("{:+.1}", 100.0 * e));
        let side = &entry.side;
        let cells = [
            self.name.clone(),
            entry.name.clone(),
            predicted,
            ms(&side.networks, 0.5),
            ms(&side.networks, 0.99),
            error,
            ms(&side.frame, 0.5),
            ms(&side.frame, 0.99),
            bits,
        ];
        format!("| {} |", cells.join(" | "))
    }

    fn json(&self) -> Value {
        let v = &self.verdict;
        let part = |s: &Samples| {
            let at = |q| s.quantile(q).as_ms();
            (s.count() > 0)
                .then(|| json!({ "frames": s.count(), "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "min_ms": at(0.0) }))
        };
        let entry = |e: &Entry| {
            let (who, predicted, identical) = match e.runner {
                Runner::Plan { predicted, identical } => ("plan", Some(predicted.as_ms()), Some(identical)),
                Runner::Mps => ("mps", None, None),
                Runner::Peer => ("pytorch", None, None),
            };
            json!({
                "name": e.name, "runner": who, "predicted_ms": predicted, "error": targets::error(e), "identical": identical,
                "network": part(&e.side.networks), "frame": part(&e.side.frame),
            })
        };
        json!({
            "name": self.name,
            "networks": self.networks.iter().map(|(name, batch)| json!({ "name": name, "batch": batch })).collect::<Vec<_>>(),
            "floor_ms": self.floor / 1e6,
            "entries": self.entries.iter().map(entry).collect::<Vec<_>>(),
            "verdict": {
                "of_floor": v.of_floor,
                "over_sequential": v.over_sequential, "paper": v.paper, "possible": v.possible, "meets_sequential": v.meets_sequential(),
                "over_streams": v.over_streams, "meets_streams": v.meets_streams(),
                "over_peer": v.over_peer.as_ref().map(|p| p.0), "best_peer": v.over_peer.as_ref().map(|p| p.1.as_str()),
                "peer_aim": v.peer_aim, "meets_peer": v.meets_peer(),
                "over_mps": v.over_mps, "identical": v.identical,
            },
            "mps_sms": self.mps_sms,
            "refined": self.refined.as_ref().map(|r| json!({
                "rounds": r.rounds, "plans": r.tried.len(), "best": &r.tried[..r.tried.len().min(SHOWN)],
            })),
            "seconds": {
                "compile": self.seconds.compile, "peer": self.seconds.peer, "mps": self.seconds.mps, "refine": self.seconds.refine,
                "qualify": self.seconds.qualify, "turns": self.seconds.turns,
            },
        })
    }
}

impl Report {
    /// The table for people.
    pub fn markdown(&self) -> String {
        let c = &self.conditions;
        let mut text = format!("# The papers' table on board {}\n\n", self.provenance.board);
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {}\n", c.command);
        let known = |what: &str, value: &str| match value {
            "" => String::new(),
            value => format!("; {what} {value}"),
        };
        let _ = writeln!(
            text,
            "{}{}{}{}{}; activations {}; medians of {} frames, all lines of a row in turns of one run.\n",
            self.provenance.machine(),
            self.provenance
                .peer
                .as_ref()
                .map(|(name, version)| format!("; {name} {version}"))
                .unwrap_or_default(),
            known("clocks", &c.clocks),
            known("measured on", &c.date),
            known("commit", &c.commit),
            c.dtype,
            c.frames,
        );
        text.push_str(LEGEND);
        text.push_str(
            "\n| mix | floor ms | sequential ms | free streams ms | plan ms | by | over sequential (aim) | possible | over streams | \
             over PyTorch (aim) | which | over MPS | plan / floor | bits |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        self.rows.iter().for_each(|row| text.push_str(&format!("{}\n", row.summary())));
        let over_streams = self.rows.iter().filter_map(|r| r.verdict.over_streams);
        if let Some(mean) = geometric_mean(over_streams) {
            let _ = writeln!(text, "\nThe plans over free streams, geometric mean: {mean:.3}.");
        }
        let errors: Vec<f64> = self.rows.iter().flat_map(Measured::errors).collect();
        let _ = writeln!(text, "The simulator: {}.", rivals::verdict(&errors));
        for what in &self.left_out {
            let _ = writeln!(text, "\nLeft out: {what}.");
        }
        text.push_str(
            "\n## Every line\n\n| mix | who | predicted ms | network ms p50 | p99 | off % | frame ms p50 | p99 | bits |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            row.entries.iter().for_each(|e| text.push_str(&format!("{}\n", row.line(e))));
        }
        text.push_str("\n## What it cost, in seconds\n\nRows are made ready side by side, and measured one after another.\n\n");
        text.push_str("| mix | compile and search | PyTorch | MPS | refinement | choice | turns |\n|---|---|---|---|---|---|---|\n");
        for row in &self.rows {
            let s = row.seconds;
            let _ = writeln!(
                text,
                "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
                row.name, s.compile, s.peer, s.mps, s.refine, s.qualify, s.turns
            );
        }
        text
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let c = &self.conditions;
        let over_streams = self.rows.iter().filter_map(|r| r.verdict.over_streams);
        json!({
            "provenance": self.provenance.json(),
            "date": c.date, "clocks": c.clocks, "commit": c.commit, "command": c.command, "dtype": c.dtype, "frames": c.frames,
            "rows": self.rows.iter().map(Measured::json).collect::<Vec<_>>(),
            "over_streams_mean": geometric_mean(over_streams),
            "left_out": self.left_out,
        })
    }
}

const LEGEND: &str = "\
`network` is the device's clock: from the stamp of the first segment's start to that of the last one's end; of PyTorch's graphs
the time between two events around the replay. `frame` is the host's clock: from submission until the last result is there. Of
PyTorch without a graph and of MPS there are only frames. Ratios are medians of `network`, over MPS of `frame`; above 1 the plan is
faster, and what misses its aim is bold. The plan is the fastest of all searchers' best, chosen on frames of its own; `measured` are
plans that measurements led to. `possible` is 0.9 of sequential over floor, which bounds the aim; over PyTorch 1.25 times the floor does as well. `floor` is the longest of: the
longest network's floor, all arithmetic, all bytes, at the best rates measured on the board.
";

#[cfg(test)]
mod tests {
    use super::super::rows::Row;
    use super::super::targets::tests::entries;
    use super::*;

    fn report() -> Report {
        let row = Row::of("r50+v16+m3", None).unwrap();
        let entries = entries();
        let verdict = Verdict::of(&row, &entries, 80_000.0).unwrap();
        Report {
            provenance: Provenance::here("box", 2, None),
            conditions: Conditions {
                date: "2026-11-21".into(),
                dtype: "f16".into(),
                command: "platoon bench --table out".into(),
                frames: 40,
                ..Conditions::default()
            },
            rows: vec![Measured {
                name: row.name.clone(),
                networks: row.networks(),
                floor: 80_000.0,
                entries,
                verdict,
                mps_sms: vec![66, 66, 12],
                refined: None,
                seconds: Seconds::default(),
            }],
            left_out: vec!["MPS: there is none".into()],
        }
    }

    #[test]
    fn markdown_has_a_row_a_mix_and_a_line_for_each_who_ran_it() {
        let text = report().markdown();
        let starts = |with: &str| text.lines().filter(|l| l.starts_with(with)).collect::<Vec<_>>();
        let lines = starts("| R50+V16+M3 |");
        assert_eq!(lines.len(), 1 + 6 + 1, "{text}");
        assert_eq!(
            lines[0],
            "| R50+V16+M3 | 0.080 | 0.150 | 0.110 | 0.100 | platoon | 1.50 (1.50) | 1.69 | 1.10 | 1.80 (1.50) | graph, streams | 1.50 | 1.25 | same |"
        );
        assert_eq!(
            lines[1],
            "| R50+V16+M3 | platoon | 0.090 | 0.100 | 0.100 | -10.0 | 0.120 | 0.120 | same |"
        );
        assert!(lines[4].contains("eager, sequential | - | - | - | - | 4.000"), "{}", lines[4]);
        assert!(text.contains("measured on 2026-11-21") && !text.contains("clocks ;"), "{text}");
        assert!(
            text.contains("Left out: MPS: there is none.") && text.contains("geometric mean: 1.100"),
            "{text}"
        );
    }

    #[test]
    fn json_has_every_ratio_and_whether_it_is_met() {
        let json = report().json();
        let row = &json["rows"][0];
        assert_eq!(
            (&row["verdict"]["over_streams"], &row["verdict"]["meets_peer"]),
            (&json!(1.1), &json!(true))
        );
        assert_eq!(row["entries"][0]["identical"], json!(true));
        assert!(row["entries"][3]["network"].is_null() && row["entries"][3]["frame"]["p50_ms"] == json!(4.0));
        assert_eq!(json["left_out"], json!(["MPS: there is none"]));
    }
}
