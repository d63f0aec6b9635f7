//! The table as bars: for each mix the time by each way of running it, as a part of our sequential plan's.

use super::contest::{Entry, FREE, Runner};
use super::report::{Measured, Report};
use crate::bench::choice::REFERENCE;
use std::fmt::Write;

/// Width of the picture, and where its bars begin, in pixels.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 250.0;
/// Pixels of our sequential plan's time; what is longer than the room ends in a mark.
const UNIT: f64 = 330.0;
const ROOM: f64 = WIDTH - LEFT - 60.0;
/// Height of a bar, and the space between two groups.
const BAR: f64 = 13.0;
const GAP: f64 = 14.0;
/// Our methods, then MPS and PyTorch; all can be told apart by people who do not see red and green alike (Okabe and Ito 2008).
const OURS: &str = "#0072b2";
const KEPT: &str = "#003e6b";
const MPS: &str = "#009e73";
const PEER: &str = "#e69f00";

/// The bars of a report as SVG: the same text for the same report.
pub fn svg(report: &Report) -> String {
    let mut body = String::new();
    let mut y = 76.0;
    for row in &report.rows {
        group(&mut body, row, &mut y);
    }
    let height = y + 8.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "<text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"bold\">Mixes on board {}: time of a frame beside our sequential plan's</text>",
        escaped(&report.provenance.board)
    );
    let mut x = 12.0;
    for (fill, words) in [
        (KEPT, "the plan that is kept"),
        (OURS, "our other plans"),
        (MPS, "MPS"),
        (PEER, "PyTorch"),
    ] {
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{fill}\"/><text x=\"{}\" y=\"46\">{words}</text>",
            x + 17.0
        );
        x += 40.0 + 7.0 * words.len() as f64;
    }
    for (part, words) in [(0.5, "0.5"), (1.0, "1"), (1.5, "1.5"), (2.0, "2")] {
        let x = LEFT + part * UNIT;
        let _ = writeln!(
            text,
            "<line x1=\"{x}\" y1=\"66\" x2=\"{x}\" y2=\"{y}\" stroke=\"#ccc\"/><text x=\"{x}\" y=\"62\" text-anchor=\"middle\" fill=\"#555\" font-size=\"11\">{words}</text>"
        );
    }
    text.push_str(&body);
    text.push_str("</svg>\n");
    text
}

fn group(text: &mut String, row: &Measured, y: &mut f64) {
    let Some(reference) = row.entries.iter().find(|e| e.name == REFERENCE).map(|e| time(e, false)) else {
        return;
    };
    let _ = writeln!(
        text,
        "<text x=\"12\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        *y + BAR - 2.0,
        escaped(&row.name)
    );
    for (index, entry) in shown(row) {
        let against = if entry.runner == Runner::Mps {
            // Of processes there are only frames, which stand beside the sequential plan's frames.
            row.entries
                .iter()
                .find(|e| e.name == REFERENCE)
                .map_or(reference, |e| time(e, true))
        } else {
            reference
        };
        let part = time(entry, entry.runner == Runner::Mps) / against.max(1.0);
        let long = (part * UNIT).min(ROOM);
        let fill = match entry.runner {
            Runner::Plan { .. } if index == 0 => KEPT,
            Runner::Plan { .. } => OURS,
            Runner::Mps => MPS,
            Runner::Peer => PEER,
        };
        let more = if part * UNIT > ROOM { " \u{2192}" } else { "" };
        let at = *y + BAR - 3.0;
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{at:.1}\" text-anchor=\"end\" font-size=\"10.5\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{long:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>\
             <text x=\"{:.1}\" y=\"{at:.1}\" font-size=\"10.5\" fill=\"#333\">{part:.2}{more}</text>",
            LEFT - 5.0,
            escaped(&entry.name.replace("inductor + graph", "inductor")),
            *y,
            BAR - 2.0,
            LEFT + long + 4.0,
        );
        *y += BAR;
    }
    *y += GAP;
}

/// The kept plan first, then the baselines, then the others: the papers' own methods stand behind the plan only where they are it.
fn shown(row: &Measured) -> impl Iterator<Item = (usize, &Entry)> {
    let wanted = |(index, e): &(usize, &Entry)| *index == 0 || e.runner == Runner::Mps || e.runner == Runner::Peer || is_baseline(e);
    let all = || row.entries.iter().enumerate();
    let rest = all().filter(move |e| !wanted(e) && matches!(e.1.runner, Runner::Plan { .. }));
    let ours = all().filter(move |e| wanted(e) && matches!(e.1.runner, Runner::Plan { .. }));
    let others = all().filter(|(_, e)| !matches!(e.runner, Runner::Plan { .. }));
    ours.chain(rest).chain(others)
}

fn is_baseline(entry: &Entry) -> bool {
    entry.name == REFERENCE || entry.name == FREE
}

/// Nanoseconds at the median, of frames or of the device's clock.
fn time(entry: &Entry, frame: bool) -> f64 {
    let samples = if frame { &entry.side.frame } else { entry.side.device() };
    samples.median().0 as f64
}

/// Text for XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::report::{Conditions, Seconds};
    use super::super::rows::Row;
    use super::super::targets::{Verdict, tests::entries};
    use super::*;
    use crate::bench::report::Provenance;

    #[test]
    fn every_line_is_a_bar_beside_the_sequential_plan() {
        let row = Row::of("r50+v16+m3", None).unwrap();
        let entries = entries();
        let report = Report {
            provenance: Provenance::here("a<b", 2, None),
            conditions: Conditions::default(),
            rows: vec![Measured {
                name: row.name.clone(),
                networks: row.networks(),
                floor: 1.0,
                verdict: Verdict::of(&row, &entries, 1.0).unwrap(),
                entries,
                mps_sms: Vec::new(),
                refined: None,
                seconds: Seconds::default(),
            }],
            left_out: Vec::new(),
        };
        let text = svg(&report);
        let bars =
            |fill: &str| text.matches(&format!("fill=\"{fill}\"/>\n")).count() + text.matches(&format!("fill=\"{fill}\"/><text")).count();
        // One of each in the legend.
        assert_eq!([KEPT, OURS, MPS, PEER].map(bars), [2, 3, 2, 3], "{text}");
        assert!(
            text.contains(">0.67<") && text.contains(">1.00<") && text.contains("26.67 \u{2192}<"),
            "{text}"
        );
        assert!(text.contains("a&lt;b") && !text.contains("a<b"));
    }
}
