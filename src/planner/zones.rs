//! Sweet zones of a plan's networks, the plans behind them for whoever measures, and their picture: frame time over pointers, and
//! over chunks, with the best of each curve marked; dashed as predicted where it is measured too.

use super::picture::{colour, plain};
use super::schedule::Problem;
use super::scheduled::Scheduled;
use super::search::{Curve, Point, Zones, zones};
use super::simulate::{Calibration, Costs, Machine, Measured};
use super::{PlannerError, Searcher};
use crate::board::{BoardRecord, Division};
use crate::ids::OperatorId;
use crate::plan::format::{Operand, Operator, Plan, View};
use crate::units::Nanos;
use std::fmt::Write;

/// Size of the picture and of each of its two plots, in pixels.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 420.0;
const PLOT: (f64, f64) = (390.0, 270.0);
/// Left edges of the plots, and the upper edge of both.
const LEFT: [f64; 2] = [80.0, 570.0];
const TOP: f64 = 80.0;
/// Lines across a plot, about.
const TICKS: f64 = 5.0;

/// A plan's operators uncut and at full width, with what they need of each other: a problem to be decided anew.
struct Bare {
    operators: Vec<Operator>,
    needs: Vec<Vec<OperatorId>>,
}

impl Bare {
    fn of(plan: &Plan) -> Bare {
        let plain = |o: &Operator| Operator {
            chunks: Vec::new(),
            width: 0,
            ..o.clone()
        };
        let operators: Vec<Operator> = plan.operators.iter().map(plain).collect();
        let needs = needs(&operators);
        Bare { operators, needs }
    }

    fn problem<'a>(&'a self, plan: &'a Plan) -> Problem<'a> {
        Problem {
            tenants: &plan.tenants,
            operators: &self.operators,
            needs: &self.needs,
            division: Division::default(),
        }
    }

    fn costs<'a>(&'a self, board: &BoardRecord, calibration: Option<Calibration>, measured: Measured<'a>) -> Costs<'a> {
        Costs::on(Machine::of(board).calibrated(calibration), &self.operators, board, measured)
    }
}

/// The sweet zones of a checked plan's networks on its board, whatever its own schedule; `None` where its rates do not repeat.
pub fn of_plan(plan: &Plan, board: &BoardRecord, calibration: Option<Calibration>, measured: Measured<'_>) -> Option<Zones> {
    let bare = Bare::of(plan);
    zones(&bare.problem(plan), &bare.costs(board, calibration, measured))
}

/// The plans behind the points of zones, in the order of [`points`]: the networks of `plan`, each time regulated otherwise.
pub fn plans(
    plan: &Plan,
    zones: &Zones,
    board: &BoardRecord,
    calibration: Option<Calibration>,
    measured: Measured<'_>,
) -> Result<Vec<Plan>, PlannerError> {
    let bare = Bare::of(plan);
    let costs = bare.costs(board, calibration, measured);
    let scheduled = Scheduled {
        plan,
        problem: bare.problem(plan),
        costs: &costs,
        best_effort: true,
    };
    let finish = |point: &Point| Ok(scheduled.finish(Searcher::Streams, &point.decisions)?.0);
    let all = std::iter::once(&zones.pointers).chain(&zones.chunks).flat_map(|c| &c.points);
    all.map(finish).collect()
}

/// The points of all curves, those over pointers first.
pub fn points(zones: &mut Zones) -> impl Iterator<Item = &mut Point> {
    std::iter::once(&mut zones.pointers)
        .chain(&mut zones.chunks)
        .flat_map(|c| &mut c.points)
}

/// For each operator those that write what it reads, by the buffers that they share.
fn needs(operators: &[Operator]) -> Vec<Vec<OperatorId>> {
    let reads = |operator: &Operator, written: &[View]| {
        let mut inputs = operator.calls.iter().flat_map(|c| &c.inputs);
        inputs.any(|input| matches!(input, Operand::View(v) if written.iter().any(|w| w.buffer == v.buffer)))
    };
    let of = |(index, operator): (usize, &Operator)| {
        let writers = operators[..index].iter().enumerate().filter(|(_, w)| reads(operator, &w.outputs));
        writers.map(|(w, _)| OperatorId(w as u32)).collect()
    };
    operators.iter().enumerate().map(of).collect()
}

/// The zones of a task set as SVG: the same text for the same zones.
pub fn svg(title: &str, zones: &Zones) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{x}\" y=\"28\" font-size=\"17\" font-weight=\"bold\">{}: frame time over granularity, {}</text>\n",
        plain(title),
        if measured(zones) {
            "measured, and dashed as simulated"
        } else {
            "as simulated"
        },
        x = LEFT[0],
    );
    let pointers = std::slice::from_ref(&zones.pointers);
    plot(&mut text, 0, "sync points of each network, at their best places", pointers);
    plot(&mut text, 1, "chunks of each operator of a network, others whole", &zones.chunks);
    text.push_str("</svg>\n");
    text
}

/// True if any point is measured.
fn measured(zones: &Zones) -> bool {
    let mut all = std::iter::once(&zones.pointers).chain(&zones.chunks).flat_map(|c| &c.points);
    all.any(|p| p.measured.is_some())
}

/// One plot: its axes from a little below the shortest time to a little above the longest.
fn plot(text: &mut String, place: usize, words: &str, curves: &[Curve]) {
    let (left, (width, height)) = (LEFT[place], PLOT);
    let points = || curves.iter().flat_map(|c| &c.points);
    let times = || points().flat_map(|p| p.measured.into_iter().chain([p.predicted])).map(Nanos::as_ms);
    let (low, high) = times().fold((f64::INFINITY, 0.0f64), |(l, h), t| (l.min(t), h.max(t)));
    if high <= 0.0 {
        return;
    }
    let (low, high) = (low * 0.97, high * 1.02);
    let most = points().map(|p| p.count).max().unwrap_or(0);
    let least = points().map(|p| p.count).min().unwrap_or(0);
    let x = |count: u32| left + f64::from(count - least) / f64::from((most - least).max(1)) * width;
    let y = |ms: f64| TOP + height - (ms - low) / (high - low) * height;
    // Writing to a string does not fail.
    let _ = writeln!(text, "<text x=\"{left}\" y=\"{:.1}\" fill=\"#333\">{words}</text>", TOP - 22.0);
    let step = round_step((high - low) / TICKS);
    let mut tick = (low / step).ceil();
    while tick * step <= high {
        let (ms, at) = (tick * step, y(tick * step));
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#333\">{} ms</text>",
            left + width,
            left - 6.0,
            at + 4.0,
            decimals(ms, step),
        );
        tick += 1.0;
    }
    let bottom = TOP + height;
    let _ = writeln!(
        text,
        "<path d=\"M{left} {TOP}V{bottom}H{:.1}\" fill=\"none\" stroke=\"#333\"/>",
        left + width
    );
    for count in least..=most {
        let at = x(count);
        let _ = writeln!(
            text,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#333\">{count}</text>",
            bottom + 16.0
        );
    }
    for (index, curve) in curves.iter().enumerate() {
        let predicted: Vec<(u32, Nanos)> = curve.points.iter().map(|p| (p.count, p.predicted)).collect();
        let measured: Vec<(u32, Nanos)> = curve.points.iter().filter_map(|p| Some((p.count, p.measured?))).collect();
        line(text, index, &curve.name, &predicted, !measured.is_empty(), &x, &y);
        line(text, index, &curve.name, &measured, false, &x, &y);
        let at = left + 110.0 * index as f64;
        if curves.len() > 1 {
            let _ = writeln!(
                text,
                "<rect x=\"{at:.1}\" y=\"{:.1}\" width=\"12\" height=\"3\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 34.0,
                colour(index),
                at + 17.0,
                bottom + 40.0,
                plain(&curve.name)
            );
        }
    }
}

/// A line with a dot a point, a larger one at its best.
fn line(
    text: &mut String,
    index: usize,
    name: &str,
    points: &[(u32, Nanos)],
    dashed: bool,
    x: &impl Fn(u32) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    let best = points.iter().min_by_key(|(_, time)| *time);
    let place = |&(count, time): &(u32, Nanos)| (x(count), y(time.as_ms()));
    let path: Vec<String> = points.iter().map(place).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let fill = colour(index);
    if points.len() > 1 {
        let dashes = if dashed { " stroke-dasharray=\"4 4\"" } else { "" };
        let _ = writeln!(
            text,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{fill}\" stroke-width=\"2\"{dashes}/>",
            path.join("L")
        );
    }
    for point in points {
        let (x, y) = place(point);
        let radius = if best == Some(point) { 5.0 } else { 2.5 };
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\"><title>{}, {}: {:.4} ms</title></circle>",
            plain(name),
            point.0,
            point.1.as_ms()
        );
    }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|t| t * power >= least);
    times.unwrap_or(10.0) * power
}

/// A time with as many decimals as its steps need.
fn decimals(ms: f64, step: f64) -> String {
    let places = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{ms:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::schedule::Decisions;

    #[test]
    fn curves_are_drawn_with_their_best_points() {
        let point = |(count, &ms): (u32, &u64)| Point {
            count,
            predicted: Nanos(ms * 1_000_000),
            measured: None,
            decisions: Decisions {
                cuts: Vec::new(),
                streams: Vec::new(),
                frames: Vec::new(),
            },
        };
        let curve = |name: &str, times: &[u64]| Curve {
            name: name.into(),
            points: (1..).zip(times).map(point).collect(),
        };
        let mut zones = Zones {
            pointers: curve("all", &[9, 7, 8]),
            chunks: vec![curve("a<b", &[9, 10]), curve("c", &[9])],
        };
        let text = svg("mix & match", &zones);
        assert_eq!((text.matches("<circle").count(), text.matches("r=\"5\"").count()), (6, 3), "{text}");
        assert!(
            text.contains("mix &amp; match") && text.contains("a&lt;b") && text.contains("<title>all, 2: 7.0000 ms"),
            "{text}"
        );
        assert!(text == svg("mix & match", &zones) && !text.contains("dasharray"));
        points(&mut zones).for_each(|p| p.measured = Some(Nanos(p.predicted.0 + 500_000)));
        let text = svg("mix", &zones);
        assert_eq!(
            (text.matches("<circle").count(), text.matches("dasharray").count()),
            (12, 2),
            "{text}"
        );
        assert!(text.contains("measured, and dashed as simulated"), "{text}");
    }

    #[test]
    fn steps_between_lines_are_round() {
        assert_eq!([0.03, 0.11, 6.0, 1.0].map(round_step), [0.05, 0.2, 10.0, 1.0]);
        assert_eq!([decimals(0.25, 0.05), decimals(10.0, 2.0)], ["0.25", "10"]);
    }
}
