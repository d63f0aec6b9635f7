//! A plan as a picture: for each frame of its cycle the timeline of its streams as the simulator sees it, with segments,
//! chunks and sync points, and the residue below.

use super::schedule::Schedule;
use super::simulate::{Costs, Frame, Machine, Trace, trace};
use crate::ids::SegmentId;
use crate::plan::format::{Plan, Stream};
use std::fmt::Write;

/// Width of the picture and of what stands left of the timelines, in pixels.
const WIDTH: f64 = 1400.0;
const LEFT: f64 = 124.0;
const RIGHT: f64 = 24.0;
/// Height of a stream's lane, of the residue curve, and of what separates them.
const LANE: f64 = 44.0;
const CURVE: f64 = 70.0;
const GAP: f64 = 26.0;
/// Frames that are drawn; a longer cycle ends with a line that says so.
const FRAMES: usize = 8;
/// Fill colours of tenants, in turn; all can be told apart by people who do not see red and green alike (Okabe and Ito 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a400"];

/// Escapes text for XML.
pub(super) fn plain(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The colour of a tenant.
pub(super) fn colour(tenant: usize) -> &'static str {
    COLOURS[tenant % COLOURS.len()]
}

/// The picture of a checked plan as SVG: the same text for the same plan and costs. `costs` are those of the plan's operators.
pub fn svg(plan: &Plan, costs: &Costs<'_>) -> String {
    let schedule = Schedule {
        operators: plan.operators.clone(),
        streams: plan.streams.clone(),
        cycle: plan.cycle.clone(),
    };
    let shown = plan.cycle.len().min(FRAMES);
    let frames: Vec<(Frame, Trace)> = (0..shown).map(|f| trace(&schedule, f, costs)).collect();
    let longest = frames
        .iter()
        .filter_map(|(_, t)| t.held.last())
        .map(|h| h.end)
        .max()
        .unwrap_or(1)
        .max(1);
    let mut canvas = Canvas {
        text: String::new(),
        y: 30.0,
        scale: (WIDTH - LEFT - RIGHT) / longest as f64,
        longest,
    };
    canvas.head(plan);
    for (index, (frame, trace)) in frames.iter().enumerate() {
        canvas.frame(plan, index, frame, trace, costs.machine());
    }
    if plan.cycle.len() > shown {
        let more = format!("and {} more frames of the cycle", plan.cycle.len() - shown);
        canvas.words(LEFT, &more, "start", "#333");
        canvas.y += GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{h}\" viewBox=\"0 0 {WIDTH} {h}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
        canvas.text,
        h = canvas.y.ceil(),
    )
}

struct Canvas {
    text: String,
    /// How far down it is drawn.
    y: f64,
    /// Pixels a nanosecond.
    scale: f64,
    /// The longest frame in nanoseconds.
    longest: u64,
}

impl Canvas {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(element);
        self.text.push('\n');
    }

    fn words(&mut self, x: f64, words: &str, anchor: &str, fill: &str) {
        let y = self.y;
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{fill}\">{}</text>",
            plain(words)
        ));
    }

    fn x(&self, time: u64) -> f64 {
        LEFT + time as f64 * self.scale
    }

    /// Title and legend.
    fn head(&mut self, plan: &Plan) {
        let title = format!(
            "{}: {} streams by {}, as simulated",
            plan.task_set,
            plan.streams.len(),
            plan.searcher
        );
        let y = self.y;
        self.add(format_args!(
            "<text x=\"{LEFT}\" y=\"{y}\" font-size=\"17\" font-weight=\"bold\">{}</text>",
            plain(&title)
        ));
        self.y += 22.0;
        let mut x = LEFT;
        for (index, tenant) in plan.tenants.iter().enumerate() {
            let (y, fill) = (self.y - 10.0, colour(index));
            self.add(format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{fill}\"/>"
            ));
            self.words(x + 17.0, &tenant.name, "start", "#000");
            x += 40.0 + 8.0 * tenant.name.chars().count() as f64;
        }
        self.y += 18.0;
        let key =
            "a box is an operator's chunk, pale where its launch width is limited; a bar above is a segment; a dashed line is a sync point";
        self.words(LEFT, key, "start", "#666");
        self.y += GAP;
    }

    /// One frame: lanes, sync points, residue, axis.
    fn frame(&mut self, plan: &Plan, index: usize, frame: &Frame, trace: &Trace, machine: &Machine) {
        let end = trace.held.last().map_or(0, |h| h.end);
        let idle = trace.idle(machine.pool()) * 100.0;
        let words = format!(
            "frame {index} of {}: {:.1} us, {idle:.0} % of the units' time idle",
            plan.cycle.len(),
            end as f64 / 1e3
        );
        self.words(LEFT, &words, "start", "#000");
        self.y += 12.0;
        let top = self.y;
        for stream in 0..plan.streams.len() {
            let y = top + LANE * stream as f64;
            self.y = y + LANE * 0.6;
            let name = match plan.streams[stream] {
                Stream { priority, units: 0 } => format!("stream {stream}, rank {priority}"),
                Stream { priority, units } => format!("{stream}: rank {priority}, {units} units"),
            };
            self.words(LEFT - 8.0, &name, "end", "#333");
        }
        for (number, segment) in frame.segments().iter().enumerate() {
            let y = top + LANE * segment.stream.index() as f64;
            self.segment(plan, frame, trace, segment.launches, number, y);
        }
        let bottom = top + LANE * plan.streams.len() as f64;
        self.syncs(plan, index, frame, trace, top);
        self.deadlines(plan, index, top, bottom, end);
        self.y = bottom + GAP / 2.0;
        self.residue(trace, machine);
        self.axis(end);
        self.y += GAP * 1.4;
    }

    fn segment(&mut self, plan: &Plan, frame: &Frame, trace: &Trace, launches: (u32, u32), number: usize, y: f64) {
        let own = launches.0 as usize..launches.1 as usize;
        let tenant = frame.segments()[number].tenant;
        let fill = colour(tenant.index());
        for launch in own.clone() {
            let (span, step) = (trace.spans[launch], frame.launches()[launch].step);
            let operator = &plan.operators[step.operator.index()];
            let (x, width) = (self.x(span.start), ((span.end - span.start) as f64 * self.scale).max(0.5));
            let shade = if operator.width > 0 { 0.45 } else { 0.9 };
            let chunk = match operator.chunks.len() {
                0 | 1 => String::new(),
                n => format!(", chunk {} of {n}", step.chunk + 1),
            };
            let limited = if operator.width > 0 {
                format!(", width {}", operator.width)
            } else {
                String::new()
            };
            let stroke = if operator.chunks.len() > 1 { "#000" } else { "white" };
            self.add(format_args!(
                "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{:.1}\" fill=\"{fill}\" fill-opacity=\"{shade}\" \
                 stroke=\"{stroke}\" stroke-width=\"{:.2}\"><title>{}{chunk}{limited}: {:.2} to {:.2} us</title></rect>",
                y + 9.0,
                LANE - 16.0,
                (width / 8.0).min(0.6),
                plain(&operator.name),
                span.start as f64 / 1e3,
                span.end as f64 / 1e3,
            ));
        }
        let (first, last) = (trace.spans[own.start], trace.spans[own.end - 1]);
        let (a, b) = (self.x(first.start), self.x(last.end));
        self.add(format_args!(
            "<path d=\"M{a:.2} {:.1}V{:.1}H{b:.2}V{:.1}\" fill=\"none\" stroke=\"{fill}\" stroke-width=\"1.5\"/>",
            y + 8.0,
            y + 4.0,
            y + 8.0
        ));
    }

    /// A line from the end of each segment that is waited for to the begin of each that waits, where the streams differ.
    fn syncs(&mut self, plan: &Plan, index: usize, frame: &Frame, trace: &Trace, top: f64) {
        let schedule = &plan.cycle[index];
        let part = |s: SegmentId| frame.segments()[s.index()];
        for sync in &schedule.syncs {
            for (&after, &before) in sync.after.iter().flat_map(|a| sync.before.iter().map(move |b| (a, b))) {
                let (from, to) = (part(after), part(before));
                if from.stream == to.stream {
                    continue;
                }
                let middle = |p: crate::ids::StreamId| top + LANE * p.index() as f64 + LANE / 2.0;
                let x0 = self.x(trace.spans[from.launches.1 as usize - 1].end);
                let x1 = self.x(trace.spans[to.launches.0 as usize].start);
                self.add(format_args!(
                    "<line x1=\"{x0:.2}\" y1=\"{:.1}\" x2=\"{x1:.2}\" y2=\"{:.1}\" stroke=\"#000\" stroke-width=\"1\" stroke-dasharray=\"3 2\"/>",
                    middle(from.stream),
                    middle(to.stream)
                ));
            }
        }
    }

    /// A mark where a tenant's deadline lies within the picture.
    fn deadlines(&mut self, plan: &Plan, index: usize, top: f64, bottom: f64, end: u64) {
        for tenant in &plan.cycle[index].tenants {
            let own = &plan.tenants[tenant.index()];
            if let Some(deadline) = own.urgency.deadline.filter(|d| d.0 <= end) {
                let (x, fill) = (self.x(deadline.0), colour(tenant.index()));
                self.add(format_args!(
                    "<line x1=\"{x:.2}\" y1=\"{top:.1}\" x2=\"{x:.2}\" y2=\"{bottom:.1}\" stroke=\"{fill}\" stroke-width=\"2\"><title>deadline of {}</title></line>",
                    plain(&own.name)
                ));
            }
        }
    }

    /// What part of the units is idle over time.
    fn residue(&mut self, trace: &Trace, machine: &Machine) {
        let (top, bottom) = (self.y, self.y + CURVE);
        let mut path = format!("M{LEFT:.2} {bottom:.1}");
        for held in &trace.held {
            let idle = 1.0 - held.parts as f64 / machine.pool() as f64;
            let y = bottom - idle * CURVE;
            // Writing to a string does not fail.
            let _ = write!(path, "L{:.2} {y:.1}L{:.2} {y:.1}", self.x(held.start), self.x(held.end));
        }
        let end = self.x(trace.held.last().map_or(0, |h| h.end));
        self.add(format_args!(
            "<path d=\"{path}L{end:.2} {bottom:.1}Z\" fill=\"#d0d0d0\" stroke=\"#777\" stroke-width=\"0.7\"/>"
        ));
        self.y = top + 10.0;
        self.words(LEFT - 8.0, &format!("{} idle", machine.units), "end", "#333");
        self.y = bottom;
        self.words(LEFT - 8.0, "0", "end", "#333");
        self.y = top + CURVE / 2.0 + 5.0;
        self.words(LEFT - 8.0, "residue", "end", "#333");
        self.y = bottom;
    }

    /// Times below a frame.
    fn axis(&mut self, end: u64) {
        let (y, x) = (self.y, self.x(end));
        self.add(format_args!(
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{x:.2}\" y2=\"{y:.1}\" stroke=\"#333\"/>"
        ));
        let step = step(self.longest);
        self.y += 15.0;
        for tick in 0..=end / step {
            let at = self.x(tick * step);
            self.add(format_args!(
                "<line x1=\"{at:.2}\" y1=\"{y:.1}\" x2=\"{at:.2}\" y2=\"{:.1}\" stroke=\"#333\"/>",
                y + 4.0
            ));
            let unit = if tick == 0 { " us" } else { "" };
            self.words(at, &format!("{}{unit}", tick as f64 * step as f64 / 1e3), "middle", "#333");
        }
    }
}

/// Nanoseconds between two ticks: 1, 2 or 5 times a power of ten, for about ten ticks.
fn step(longest: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for times in [1, 2, 5] {
            if longest / (power.saturating_mul(times)) <= 12 {
                return power.saturating_mul(times);
            }
        }
        power = power.saturating_mul(10);
    }
}
