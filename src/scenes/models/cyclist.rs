//! People on bicycles.

use super::person::{HAIRS, SHOES, SKINS, TOPS, TROUSERS, head};
use super::shape::{Canvas, Dice, Paint, at, cos, face, ngon, prism_x, sin, stroke};
use crate::scenes::mesh::{Mesh, Part, Rgb, Role};

const RADIUS: i32 = 345;
const REAR: (i32, i32) = (-520, RADIUS);
const FORE: (i32, i32) = (530, RADIUS);
const CRANK: (i32, i32) = (-60, 290);
const SADDLE: (i32, i32) = (-230, 950);
const BAR: (i32, i32) = (400, 1030);

/// Someone on a bicycle: `look` chooses the rider and the bicycle, `phase` (0..4096, beyond it wraps) the turn of the pedals.
///
/// About 0.6 m wide, 1.75 m long and 1.6 to 1.8 m tall.
pub fn cyclist(look: u32, phase: u32) -> Mesh {
    let mut dice = Dice::new(look, 4);
    let skin = dice.pick(&SKINS);
    let top = Paint::matt(dice.pick(&TOPS));
    let trousers = Paint::matt(dice.pick(&TROUSERS));
    let shoes = Paint::matt(dice.pick(&SHOES));
    let steel = Paint::gloss(dice.pick(&TOPS));
    let sporty = dice.chance(40);
    let angle = -((phase % 4096) as i32);

    let mut parts = vec![wheel(REAR), wheel(FORE), frame(steel)];
    let hip = (SADDLE.0, SADDLE.1 + 60);
    let shoulder = if sporty { (170, 1400) } else { (40, 1480) };
    for (x, offset) in [((50, 160), 0), ((-160, -50), 2048)] {
        let pedal = (
            CRANK.0 + 170 * cos(angle + offset) / 4096,
            CRANK.1 + 170 * sin(angle + offset) / 4096,
        );
        let ankle = (pedal.0 - 30, pedal.1 + 90);
        let knee = knee(hip, ankle, 440);
        let inner = if x.0 > 0 { (20, 48) } else { (-48, -20) };
        parts.push(prism_x(&stroke(CRANK, pedal, 36), inner, Paint::matt(Rgb(60, 62, 66))));
        parts.push(prism_x(&limb(hip, knee, 165, 125), x, trousers));
        parts.push(prism_x(
            &limb(knee, ankle, 115, 80),
            x,
            if sporty { Paint::matt(skin) } else { trousers },
        ));
        parts.push(prism_x(
            &stroke((pedal.0 - 90, pedal.1 + 45), (pedal.0 + 150, pedal.1 + 45), 80),
            x,
            shoes,
        ));
    }
    parts.push(prism_x(&limb(hip, shoulder, 230, 230), (-180, 180), top));
    for x in [(185, 265), (-265, -185)] {
        parts.push(prism_x(&limb(shoulder, BAR, 100, 70), x, top.shaded(920)));
    }
    parts.push(prism_x(
        &stroke((BAR.0 - 20, BAR.1 - 10), (BAR.0 + 30, BAR.1 - 10), 36),
        (-280, 280),
        Paint::matt(Rgb(36, 37, 40)),
    ));
    let helmet = if dice.chance(65) {
        dice.pick(&[Rgb(226, 226, 222), Rgb(40, 42, 48), Rgb(190, 44, 40), Rgb(48, 96, 160)])
    } else {
        dice.pick(&HAIRS)
    };
    let ahead = if sporty { 90 } else { 50 };
    parts.push(prism_x(
        &limb(shoulder, (shoulder.0 + ahead * 6 / 10, shoulder.1 + 130), 110, 100),
        (-55, 55),
        Paint::matt(skin).shaded(900),
    ));
    parts.push(head(at(0, shoulder.1 + 215, shoulder.0 + ahead), 118, 128, skin, helmet));
    Mesh { parts }
}

/// A ring with tread: its hole shows what is behind.
fn wheel(hub: (i32, i32)) -> Part {
    let (outer, inner) = (ngon(hub, (RADIUS, RADIUS), 12, 0), ngon(hub, (RADIUS - 48, RADIUS - 48), 12, 0));
    let rubber = Paint::matt(Rgb(28, 28, 30));
    let mut faces = Vec::with_capacity(36);
    for i in 0..12 {
        let j = (i + 1) % 12;
        let (a, b, c, d) = (outer[i], outer[j], inner[j], inner[i]);
        let ring = [d, a, b, c];
        faces.push(face(ring.iter().map(|&(z, y)| at(22, y, z)).collect(), rubber));
        faces.push(face(ring.iter().rev().map(|&(z, y)| at(-22, y, z)).collect(), rubber));
        faces.push(face(
            vec![at(22, a.1, a.0), at(-22, a.1, a.0), at(-22, b.1, b.0), at(22, b.1, b.0)],
            rubber,
        ));
    }
    Part { faces, role: Role::Body }
}

/// Tubes in the bicycle's middle plane, seen from both sides.
fn frame(steel: Paint) -> Part {
    let seat = (SADDLE.0, SADDLE.1 - 60);
    let neck = (BAR.0 - 30, BAR.1 - 180);
    let dark = Paint::matt(Rgb(34, 34, 36));
    let tubes = [
        (CRANK, REAR, 34, steel),
        (seat, REAR, 26, steel),
        (CRANK, seat, 42, steel),
        (CRANK, neck, 48, steel),
        ((seat.0 + 30, seat.1 - 120), neck, 42, steel),
        (FORE, (BAR.0, BAR.1), 36, steel),
        ((SADDLE.0 - 130, SADDLE.1 - 30), (SADDLE.0 + 130, SADDLE.1 - 40), 60, dark),
    ];
    let mut faces = Vec::with_capacity(2 * tubes.len());
    for (a, b, thick, paint) in tubes {
        let tube = stroke(a, b, thick);
        faces.push(face(Canvas::right(18).outline(&tube), paint));
        faces.push(face(tube.iter().rev().map(|&(z, y)| at(-18, y, z)).collect(), paint));
    }
    Part { faces, role: Role::Body }
}

/// A tapered limb in (z, y).
fn limb(a: (i32, i32), b: (i32, i32), thick_a: i32, thick_b: i32) -> Vec<(i32, i32)> {
    let (from, to) = (stroke(a, b, thick_a), stroke(a, b, thick_b));
    vec![from[0], to[1], to[2], from[3]]
}

/// Where the knee is, ahead of the line from hip to ankle, when thigh and shin are `length` each.
fn knee(hip: (i32, i32), ankle: (i32, i32), length: i32) -> (i32, i32) {
    let (dz, dy) = (ankle.0 - hip.0, ankle.1 - hip.1);
    let squared = dz * dz + dy * dy;
    let distance = squared.isqrt().max(1);
    let out = (length * length - squared / 4).max(0).isqrt();
    (
        (hip.0 + ankle.0) / 2 - dy * out / distance,
        (hip.1 + ankle.1) / 2 + dz * out / distance,
    )
}
