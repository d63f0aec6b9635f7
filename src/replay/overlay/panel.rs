//! The panel in the picture's corner: the frame, and each tenant with its status and findings.

use super::canvas::{Canvas, Color, INK, Rect, WHITE};
use super::{detections, font, maps, name, palette};
use crate::replay::results::{FrameRecord, ItemRecord, Output, TenantRecord};
use crate::task::Status;

const DIM: Color = [176, 182, 192];
const FRESH: Color = [90, 220, 120];
const HELD: Color = [255, 190, 60];
const STALE: Color = [255, 80, 70];
/// Darkness of the panel, of 256 parts.
const ALPHA: u32 = 168;
/// Most findings listed for a tenant.
const MOST: usize = 6;
/// Labels below this share of the picture are not listed.
const LEAST_SHARE: f64 = 0.001;
/// Length of a full score bar, in font dots.
const BAR: u32 = 36;

/// One line of the panel.
enum Line {
    /// The frame, above everything else.
    Title(String),
    /// A tenant: its name, its status, and the status's colour.
    Tenant(String, String, Color),
    /// A finding with its colour.
    Swatch(Color, String),
    /// A finding with a bar of this share of the full length.
    Bar(f32, String),
}

/// Space around the panel, between its edge and its text, and between tenants, in font dots.
const SPACE: i32 = 6;
/// Space between two columns, in font dots.
const GUTTER: i32 = 16;
/// Height of a line, in font dots.
const ROW: i32 = font::GLYPH_HEIGHT as i32 + 3;

/// Draws the panel at the bottom left, where a camera sees the road right before the car: the frame, and below it a column
/// for each tenant, side by side as far as the picture is wide.
pub fn draw(canvas: &mut Canvas, frame: &FrameRecord, camera: usize, scale: u32) {
    let unit = scale as i32;
    let title = title(frame, camera);
    let columns: Vec<Column> = frame.tenants.iter().map(|t| Column::new(t, camera, scale)).collect();
    let inside = canvas.width() as i32 - 4 * SPACE * unit;
    let mut shelves: Vec<Vec<Column>> = Vec::new();
    let mut used = 0;
    for column in columns {
        let next = used + GUTTER * unit + column.width;
        match shelves.last_mut() {
            Some(shelf) if next <= inside => {
                used = next;
                shelf.push(column);
            }
            _ => {
                used = column.width;
                shelves.push(vec![column]);
            }
        }
    }
    let breadth = |shelf: &Vec<Column>| shelf.iter().map(|c| c.width + GUTTER * unit).sum::<i32>() - GUTTER * unit;
    let depth = |shelf: &Vec<Column>| shelf.iter().map(|c| c.lines.len()).max().unwrap_or(0) as i32 * ROW * unit + SPACE * unit;
    let content = shelves.iter().map(breadth).chain([width(&title, scale)]).max().unwrap_or(0);
    let height = ROW * unit + shelves.iter().map(depth).sum::<i32>();
    let panel = Rect {
        x: SPACE * unit,
        y: (canvas.height() as i32 - height - 3 * SPACE * unit).max(0),
        width: content + 2 * SPACE * unit,
        height: height + 2 * SPACE * unit - 3 * unit,
    };
    canvas.fill(panel, INK, ALPHA);
    let (left, mut y) = (panel.x + SPACE * unit, panel.y + SPACE * unit);
    title.draw(canvas, left, y, scale);
    y += (ROW + SPACE) * unit;
    for shelf in &shelves {
        let mut x = left;
        for column in shelf {
            for (line, row) in column.lines.iter().zip(0..) {
                line.draw(canvas, x, y + row * ROW * unit, scale);
            }
            x += column.width + GUTTER * unit;
        }
        y += depth(shelf);
    }
}

/// A tenant's lines.
struct Column {
    lines: Vec<Line>,
    /// In pixels.
    width: i32,
}

impl Column {
    fn new(tenant: &TenantRecord, camera: usize, scale: u32) -> Column {
        let lines = lines(tenant, camera);
        Column {
            width: lines.iter().map(|l| width(l, scale)).max().unwrap_or(0),
            lines,
        }
    }
}

impl Line {
    /// Draws the line with its top left corner at `(x, y)`.
    fn draw(&self, canvas: &mut Canvas, x: i32, y: i32, scale: u32) {
        let unit = scale as i32;
        match self {
            Line::Title(text) => canvas.text(x, y, text, scale, WHITE),
            Line::Tenant(tenant, status, color) => {
                let mark = Rect {
                    x,
                    y,
                    width: 3 * unit,
                    height: 7 * unit,
                };
                canvas.fill(mark, *color, 256);
                canvas.text(x + 6 * unit, y, tenant, scale, WHITE);
                let after = font::width(tenant, scale) as i32 + (6 + 2 * font::ADVANCE as i32) * unit;
                canvas.text(x + after, y, status, scale, *color);
            }
            Line::Swatch(color, text) => {
                let swatch = Rect {
                    x: x + 6 * unit,
                    y,
                    width: 7 * unit,
                    height: 7 * unit,
                };
                canvas.fill(swatch, *color, 256);
                canvas.text(x + 17 * unit, y, text, scale, DIM);
            }
            Line::Bar(share, text) => {
                let full = (BAR * scale) as i32;
                let bar = Rect {
                    x: x + 6 * unit,
                    y: y + unit,
                    width: full,
                    height: 5 * unit,
                };
                canvas.fill(bar, WHITE, 48);
                let width = (share.clamp(0.0, 1.0) * full as f32).round() as i32;
                canvas.fill(Rect { width, ..bar }, FRESH, 256);
                canvas.text(x + full + 10 * unit, y, text, scale, DIM);
            }
        }
    }
}

fn width(line: &Line, scale: u32) -> i32 {
    let dots = |text: &str| font::width(text, 1);
    let width = match line {
        Line::Title(text) => dots(text),
        Line::Tenant(tenant, status, _) => 6 + dots(tenant) + 2 * font::ADVANCE + dots(status),
        Line::Swatch(_, text) => 17 + dots(text),
        Line::Bar(_, text) => BAR + 10 + dots(text),
    };
    (width * scale) as i32
}

fn title(frame: &FrameRecord, camera: usize) -> Line {
    let file = frame.sources.get(camera).and_then(|s| s.1.as_deref()).unwrap_or("no picture");
    Line::Title(format!("{}  frame {}  {}", frame.task_set, frame.frame, shorten(file, 20)))
}

/// A tenant's name and status, then what it found.
fn lines(tenant: &TenantRecord, camera: usize) -> Vec<Line> {
    let (status, color) = status(tenant);
    let mut lines = vec![Line::Tenant(shorten(&tenant.name, 24), status, color)];
    match &tenant.output {
        Output::Detections(_) => counts(tenant, camera, &mut lines),
        Output::Maps(_) => shares(tenant, camera, &mut lines),
        Output::Items(items) => {
            let (crops, pictures): (Vec<_>, Vec<_>) = items.iter().filter(|i| i.camera == camera).partition(|i| i.crop.is_some());
            pictures.into_iter().for_each(|i| best(i, 3, &mut lines));
            crops.into_iter().take(MOST).for_each(|i| best(i, 1, &mut lines));
        }
        Output::Tensors(_) => {}
    }
    lines
}

fn status(tenant: &TenantRecord) -> (String, Color) {
    let of = |word: &str| tenant.of_frame.map_or(word.to_string(), |f| format!("{word}, of frame {f}"));
    match tenant.status {
        Status::Fresh => ("fresh".into(), FRESH),
        Status::Held => (of("HELD"), HELD),
        Status::Stale => (of("STALE"), STALE),
        Status::None => ("no result yet".into(), DIM),
    }
}

/// How many boxes of each class, the most frequent first.
fn counts(tenant: &TenantRecord, camera: usize, lines: &mut Vec<Line>) {
    let mut classes: Vec<(u32, &str, usize)> = Vec::new();
    for found in detections(tenant, camera) {
        match classes.iter_mut().find(|c| c.0 == found.class) {
            Some(class) => class.2 += 1,
            None => classes.push((found.class, &found.label, 1)),
        }
    }
    classes.sort_by_key(|&(class, _, n)| (std::cmp::Reverse(n), class));
    for (class, label, n) in classes.into_iter().take(MOST) {
        lines.push(Line::Swatch(
            palette::color(class, label),
            format!("{n} x {}", shorten(&name(label, class), 24)),
        ));
    }
}

/// The labels that cover most of each map.
fn shares(tenant: &TenantRecord, camera: usize, lines: &mut Vec<Line>) {
    for map in maps(tenant, camera) {
        let mut labels: Vec<(usize, &str, f64)> = map
            .fractions
            .iter()
            .enumerate()
            .map(|(i, &share)| (i, map.labels.get(i).map_or("", String::as_str), share))
            .filter(|(i, label, share)| *share >= LEAST_SHARE && !palette::is_background(*i, label))
            .collect();
        labels.sort_by(|a, b| b.2.total_cmp(&a.2));
        for (i, label, share) in labels.into_iter().take(MOST) {
            let number = u32::try_from(i).unwrap_or(u32::MAX);
            let text = format!("{} {:.1}%", shorten(&name(label, number), 24), 100.0 * share);
            lines.push(Line::Swatch(palette::color(number, label), text));
        }
    }
}

/// The best classes, at most `most`.
fn best(item: &ItemRecord, most: usize, lines: &mut Vec<Line>) {
    for class in item.top.iter().take(most) {
        let text = format!("{:.2} {}", class.score, shorten(&name(&class.label, class.class), 24));
        lines.push(Line::Bar(class.score, text));
    }
}

/// At most `most` characters of `text`, the cut marked; only the first of several comma-separated names.
fn shorten(text: &str, most: usize) -> String {
    let text = text.split(',').next().unwrap_or_default();
    if text.chars().count() <= most {
        return text.to_string();
    }
    text.chars().take(most.saturating_sub(2)).chain("..".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shorten("tabby, tabby cat", 10), "tabby");
        assert_eq!(shorten("0123456789", 10), "0123456789");
        assert_eq!(shorten("0123456789a", 10), "01234567..");
    }
}
