//! People on bicycles.

use super::person::{HAIRS, SHOES, SKINS, TOPS, TROUSERS, head};
use super::shape::{Canvas, Paint, Spot, at, clipped, dice, face, ngon, prism_x, stroke};
use crate::scenes::fixed::{ONE, cos, sin};
use crate::scenes::mesh::{Mesh, Part, Rgb, Role};

const RADIUS: i32 = 345;
const REAR: Spot = (-520, RADIUS);
const FORE: Spot = (530, RADIUS);
const CRANK: Spot = (-60, 290);
const SADDLE: Spot = (-230, 950);
const BAR: Spot = (400, 1030);

const HELMETS: [Rgb; 4] = [Rgb(226, 226, 222), Rgb(40, 42, 48), Rgb(190, 44, 40), Rgb(48, 96, 160)];

/// Someone on a bicycle: `look` chooses the rider and the bicycle, `phase` (0..4096, beyond it wraps) the turn of the pedals.
///
/// 0.52 m wide, 1.74 m long and 1.74 to 1.82 m tall.
pub fn cyclist(look: u32, phase: u32) -> Mesh {
    let mut dice = dice(look, 4);
    let skin = dice.pick(&SKINS);
    let top = Paint::matt(dice.pick(&TOPS));
    let trousers = Paint::matt(dice.pick(&TROUSERS));
    let shoes = Paint::matt(dice.pick(&SHOES));
    let steel = Paint::gloss(dice.pick(&TOPS));
    let sporty = dice.chance(40);
    let angle = -((phase % 4096) as i32);

    let mut parts = vec![wheel(REAR), wheel(FORE), frame(steel)];
    let hip = (SADDLE.0, SADDLE.1 + 60);
    let shins = if sporty { Paint::matt(skin) } else { trousers };
    for (side, offset) in [(1, 0), (-1, 2048)] {
        let across = |inner: i32, outer: i32| (side * inner).min(side * outer)..(side * inner).max(side * outer);
        let (crank, leg) = (across(23, 48), across(50, 160));
        let pedal = (CRANK.0 + 170 * cos(angle + offset) / ONE, CRANK.1 + 170 * sin(angle + offset) / ONE);
        let sole = pedal.1 + 5;
        let ankle = (pedal.0 - 30, sole + 85);
        let knee = Knee::between(hip, ankle, 440);
        parts.push(prism_x(
            &stroke(CRANK, pedal, 36),
            (crank.start, crank.end),
            Paint::matt(Rgb(60, 62, 66)),
        ));
        parts.push(prism_x(
            &clipped(&knee.thigh(hip, 165), hip.1, false),
            (leg.start, leg.end),
            trousers,
        ));
        parts.push(prism_x(
            &clipped(&knee.shin(ankle, 80), sole + 80, true),
            (leg.start, leg.end),
            shins,
        ));
        let shoe = [
            (pedal.0 - 90, sole),
            (pedal.0 + 150, sole),
            (pedal.0 + 150, sole + 50),
            (pedal.0 + 60, sole + 80),
            (pedal.0 - 90, sole + 80),
        ];
        parts.push(prism_x(&shoe, (leg.start, leg.end), shoes));
    }
    let shoulder = if sporty { (170, 1400) } else { (40, 1480) };
    let (collar, chin) = (shoulder.1 + 40, shoulder.1 + 88);
    let back = stroke(
        hip,
        (shoulder.0 + (shoulder.0 - hip.0) / 4, shoulder.1 + (shoulder.1 - hip.1) / 4),
        230,
    );
    parts.push(prism_x(&clipped(&clipped(&back, hip.1, true), collar, false), (-180, 180), top));
    for x in [(184, 262), (-262, -184)] {
        parts.push(prism_x(&tapered(shoulder, BAR, 100, 70), x, top.shaded(920)));
    }
    parts.push(prism_x(
        &stroke((BAR.0 - 20, BAR.1 - 10), (BAR.0 + 30, BAR.1 - 10), 36),
        (-182, 182),
        Paint::matt(Rgb(36, 37, 40)),
    ));
    let ahead = if sporty { 90 } else { 50 };
    let neck = stroke((shoulder.0 - 10, shoulder.1), (shoulder.0 + ahead * 3 / 4, chin + 40), 110);
    parts.push(prism_x(
        &clipped(&clipped(&neck, collar, true), chin, false),
        (-55, 55),
        Paint::matt(skin).shaded(900),
    ));
    let helmet = if dice.chance(65) { dice.pick(&HELMETS) } else { dice.pick(&HAIRS) };
    parts.push(head(at(0, chin + 127, shoulder.0 + ahead), 118, 126, Paint::matt(skin), helmet));
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
        (FORE, (BAR.0, BAR.1 - 44), 36, steel),
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

/// A limb in (z, y) that tapers from `a` to `b`.
fn tapered(a: Spot, b: Spot, thick_a: i32, thick_b: i32) -> Vec<Spot> {
    let (from, to) = (stroke(a, b, thick_a), stroke(a, b, thick_b));
    vec![from[0], to[1], to[2], from[3]]
}

/// A knee in (z, y): thigh and shin meet in its cut, so that neither reaches into the other.
struct Knee {
    behind: Spot,
    before: Spot,
}

impl Knee {
    /// The knee of a thigh and a shin, `length` each, ahead of the line from hip to ankle.
    fn between(hip: Spot, ankle: Spot, length: i32) -> Knee {
        let (dz, dy) = (ankle.0 - hip.0, ankle.1 - hip.1);
        let squared = dz * dz + dy * dy;
        let distance = squared.isqrt().max(1);
        let out = (length * length - squared / 4).max(0).isqrt();
        // The cut lies across the line from hip to ankle and halves the knee's angle.
        let at = |out: i32| {
            (
                (hip.0 + ankle.0) / 2 - dy * out / distance,
                (hip.1 + ankle.1) / 2 + dz * out / distance,
            )
        };
        Knee {
            behind: at(out - 75),
            before: at(out + 65),
        }
    }

    fn thigh(&self, hip: Spot, thick: i32) -> Vec<Spot> {
        let [below, .., above] = end(hip, self, thick);
        vec![below, self.behind, self.before, above]
    }

    fn shin(&self, ankle: Spot, thick: i32) -> Vec<Spot> {
        let [above, .., below] = end(ankle, self, thick);
        vec![below, above, self.before, self.behind]
    }
}

/// Corners of a limb's end, as seen towards the knee: to the right and to the left.
fn end(at: Spot, knee: &Knee, thick: i32) -> [Spot; 2] {
    let middle = ((knee.behind.0 + knee.before.0) / 2, (knee.behind.1 + knee.before.1) / 2);
    let limb = stroke(at, middle, thick);
    [limb[0], limb[3]]
}
