//! Traffic lights.

use super::shape::{Canvas, FRONT, Paint, Plan, block, dice, ngon, patch, prism_x, rect};
use crate::scenes::fixed::Dice;
use crate::scenes::mesh::{Mesh, Part, Rgb, Role};
use crate::scenes::truth::Signal;

const POLE: Paint = Paint::matt(Rgb(112, 116, 120));

/// A traffic light on a pole beside the road, seen from +z; `signal` says which disc is lit, none for all but the first
/// three; `style` chooses housing and height.
///
/// The housing is about 0.35 m wide and 1 m high, its centre 2.6 to 3.2 m above the ground.
pub fn traffic_light(signal: Signal, style: u32) -> Mesh {
    let mut dice = dice(style, 5);
    let centre = dice.between(2600, 3200);
    let mut parts = vec![support(block(Plan::centred(110, 110), (0, centre + 420), POLE))];
    parts.extend(housing((0, centre, 150), signal, &mut dice));
    Mesh { parts }
}

/// A traffic light hung over the road from an arm: the housing is over the origin, its centre about 5 m above the ground; the
/// pole stands about 4 m to +x.
pub fn traffic_light_overhead(signal: Signal, style: u32) -> Mesh {
    let mut dice = dice(style, 6);
    let centre = dice.between(4900, 5300);
    let reach = dice.between(3600, 4400);
    let mut parts = vec![
        support(block(Plan::new((reach - 90, reach + 90), (-90, 90)), (0, centre + 700), POLE)),
        support(block(Plan::new((-300, reach - 90), (-60, 60)), (centre + 260, centre + 380), POLE)),
    ];
    parts.extend(housing((0, centre, 150), signal, &mut dice));
    Mesh { parts }
}

fn support(mut part: Part) -> Part {
    part.role = Role::Support;
    part
}

/// The housing with its board and visors.
fn housing((x, y, z): (i32, i32, i32), signal: Signal, dice: &mut Dice) -> Vec<Part> {
    let colour = dice.pick(&[Rgb(30, 32, 34), Rgb(24, 25, 27), Rgb(38, 54, 44), Rgb(206, 160, 36)]);
    let half = (dice.between(160, 190), dice.between(470, 530));
    let shell = Paint::matt(colour);
    let mut parts = Vec::new();
    if dice.chance(35) {
        let (w, h) = (half.0 + 120, half.1 + 120);
        let mut board = block(
            Plan::new((x - w, x + w), (z - 85, z - 65)),
            (y - h, y + h),
            Paint::matt(Rgb(22, 23, 24)),
        );
        let rim = Paint::reflector(Rgb(224, 224, 220));
        for (s, t) in [
            ((0, 1000), (0, 35)),
            ((0, 1000), (965, 1000)),
            ((0, 60), (0, 1000)),
            ((940, 1000), (0, 1000)),
        ] {
            patch(&mut board.faces[FRONT], rim, s, t);
        }
        parts.push(board);
    }
    let mut body = block(
        Plan::new((x - half.0, x + half.0), (z - 65, z + 65)),
        (y - half.1, y + half.1),
        shell,
    );
    let canvas = Canvas::front(z + 65).moved(x, y);
    let discs = [
        (Signal::Red, 1, Rgb(255, 44, 30), Rgb(66, 18, 16)),
        (Signal::Yellow, 0, Rgb(255, 190, 30), Rgb(66, 50, 14)),
        (Signal::Green, -1, Rgb(40, 240, 150), Rgb(12, 52, 36)),
    ];
    let radius = half.0 * 70 / 100;
    let pitch = half.1 * 62 / 100;
    let face = &mut body.faces[FRONT];
    for (lit, row, bright, dark) in discs {
        let middle = (0, row * pitch);
        canvas.mark(face, shell.shaded(450), &ngon(middle, (radius + 18, radius + 18), 12, 0));
        let paint = if lit == signal { Paint::lamp(bright) } else { Paint::gloss(dark) };
        canvas.mark(face, paint, &ngon(middle, (radius, radius), 16, 0));
        if lit == signal {
            let core = Rgb(bright.0, bright.1.saturating_add(60), bright.2.saturating_add(60));
            canvas.mark(face, Paint::lamp(core), &ngon(middle, (radius / 2, radius / 2), 12, 0));
        } else {
            canvas.mark(
                face,
                Paint::gloss(dark).shaded(1500),
                &rect((-radius / 2, 0), (middle.1 + radius / 5, middle.1 + radius / 2)),
            );
        }
    }
    parts.push(body);
    for (_, row, ..) in discs {
        let base = y + row * pitch + radius;
        let visor = [
            (z + 65, base - 20),
            (z + 65 + 150, base - 50),
            (z + 65 + 150, base - 25),
            (z + 65, base + 12),
        ];
        parts.push(prism_x(&visor, (x - radius, x + radius), shell.shaded(700)));
    }
    parts
}
