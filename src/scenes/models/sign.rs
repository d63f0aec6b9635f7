//! Traffic signs on poles.

use super::pictogram;
use super::shape::{BACK, Canvas, FRONT, Paint, Plan, block, dice, face, mix, patch};
use crate::scenes::mesh::{Mesh, Part, Rgb, Role};
use crate::scenes::truth::Signal;

const POLE: Paint = Paint::matt(Rgb(142, 146, 150));
const GREY: Paint = Paint::matt(Rgb(132, 135, 138));

/// A traffic sign on a pole, seen from +z; `style` chooses size, height, wear, tilt and a plate under it. A signal that is no
/// sign gives a bare grey disc.
///
/// The face is 0.7 to 0.9 m wide, its centre 2.2 to 2.6 m above the ground.
pub fn sign(signal: Signal, style: u32) -> Mesh {
    let mut dice = dice(style, 7);
    let centre = dice.between(2200, 2600);
    let radius = dice.between(350, 450);
    let tilt = if dice.chance(50) { dice.between(-68, 69) } else { 0 };
    let fade = dice.between(0, 180);
    let mut pole = block(Plan::centred(70, 70), (0, centre + radius * 45 / 100), POLE);
    pole.role = Role::Support;
    let canvas = Canvas::front(45).moved(0, centre).rolled(tilt);
    let art = pictogram::art(signal, radius);
    let mut front = face(canvas.outline(&art.outline), art.ground);
    for (paint, spots) in &art.marks {
        canvas.mark(&mut front, *paint, spots);
    }
    let worn = |c: Rgb| mix(c, Rgb(176, 176, 170), fade);
    front.colour = worn(front.colour);
    for decal in &mut front.decals {
        decal.colour = worn(decal.colour);
    }
    let back = canvas.outline(&art.outline).into_iter().rev().map(|mut p| {
        p.z = 36;
        p
    });
    let back = face(back.collect(), GREY);
    let mut parts = vec![
        pole,
        Part {
            faces: vec![front, back],
            role: Role::Body,
        },
    ];
    if dice.chance(20) {
        let (w, h) = (radius * 8 / 10, dice.between(120, 180));
        let top = centre - radius - 90;
        let mut plate = block(
            Plan::new((-w, w), (36, 45)),
            (top - 2 * h, top),
            Paint::reflector(worn(Rgb(232, 232, 228))),
        );
        plate.role = Role::Support;
        let ink = Paint::matt(Rgb(40, 40, 42));
        patch(&mut plate.faces[FRONT], ink, (150, 700), (560, 700));
        patch(&mut plate.faces[FRONT], ink, (250, 850), (300, 440));
        plate.faces[BACK].colour = GREY.colour;
        plate.faces[BACK].finish = GREY.finish;
        parts.push(plate);
    }
    Mesh { parts }
}
