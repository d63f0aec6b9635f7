//! People on foot.

use super::shape::{BACK, Dice, FRONT, Paint, Plan, at, blob, block, frustum, patch, prism_x, sin};
use crate::scenes::mesh::{Mesh, Part, Rgb};

pub(super) const SKINS: [Rgb; 6] = [
    Rgb(236, 196, 168),
    Rgb(224, 178, 146),
    Rgb(206, 156, 122),
    Rgb(168, 118, 86),
    Rgb(122, 82, 58),
    Rgb(84, 56, 42),
];
pub(super) const HAIRS: [Rgb; 7] = [
    Rgb(34, 28, 26),
    Rgb(58, 42, 32),
    Rgb(96, 66, 42),
    Rgb(150, 108, 62),
    Rgb(196, 160, 100),
    Rgb(132, 60, 34),
    Rgb(176, 174, 170),
];
pub(super) const TOPS: [Rgb; 16] = [
    Rgb(36, 40, 50),
    Rgb(66, 70, 78),
    Rgb(124, 126, 130),
    Rgb(226, 224, 218),
    Rgb(40, 62, 110),
    Rgb(84, 124, 170),
    Rgb(162, 40, 42),
    Rgb(196, 88, 66),
    Rgb(72, 104, 70),
    Rgb(104, 112, 72),
    Rgb(214, 176, 74),
    Rgb(128, 88, 120),
    Rgb(112, 84, 62),
    Rgb(176, 146, 112),
    Rgb(206, 140, 150),
    Rgb(48, 106, 112),
];
pub(super) const TROUSERS: [Rgb; 8] = [
    Rgb(36, 44, 66),
    Rgb(52, 68, 104),
    Rgb(30, 30, 33),
    Rgb(70, 72, 76),
    Rgb(126, 112, 90),
    Rgb(88, 74, 58),
    Rgb(88, 104, 134),
    Rgb(164, 152, 130),
];
pub(super) const SHOES: [Rgb; 4] = [Rgb(28, 26, 26), Rgb(84, 60, 42), Rgb(206, 204, 200), Rgb(56, 60, 74)];

/// Someone on foot: `look` chooses stature and clothes, `phase` (0..4096, beyond it wraps) the place in a stride of two
/// steps.
///
/// Adults are 1.55 to 1.9 m tall, children 1.05 to 1.4 m; the shoulders are about a quarter of that wide, and a stride
/// reaches about 0.4 of it ahead and behind together.
pub fn person(look: u32, phase: u32) -> Mesh {
    let mut dice = Dice::new(look, 3);
    let child = dice.chance(18);
    let tall = if child {
        dice.between(1050, 1400)
    } else {
        dice.between(1560, 1900)
    };
    let of = |thousandths: i32| tall * thousandths / 1000;
    let stout = dice.between(900, 1180);
    let wide = |thousandths: i32| tall * thousandths / 1000 * stout / 1000;
    let skin = dice.pick(&SKINS);
    let hair = dice.pick(&HAIRS);
    let top = Paint::matt(dice.pick(&TOPS));
    let trousers = Paint::matt(dice.pick(&TROUSERS));
    let shoes = Paint::matt(dice.pick(&SHOES));
    let style = dice.between(0, 10);
    let angle = (phase % 4096) as i32;

    let hip = of(500);
    let mut parts = Vec::with_capacity(14);
    let mut lowest = i32::MAX;
    for (side, offset) in [(1, 0), (-1, 2048)] {
        let swing = sin(angle + offset);
        // The knee bends while the leg comes forward.
        let bend = sin(angle + offset + 1024).max(0);
        let knee = (
            of(2) + of(105) * swing / 4096 + of(35) * bend / 4096,
            of(270) + of(10) * bend / 4096,
        );
        let ankle = (of(190) * swing / 4096 - of(90) * bend / 4096, of(45) + of(55) * bend / 4096);
        let x = if side > 0 { (of(8), wide(85)) } else { (-wide(85), -of(8)) };
        let bare = style == 1 || (child && style < 4);
        let thigh = leg(x, (0, hip), knee, (of(62), of(48)), trousers);
        let shin = leg(x, knee, ankle, (of(46), of(32)), if bare { Paint::matt(skin) } else { trousers });
        let sole = ankle.1 - of(45);
        lowest = lowest.min(sole);
        let foot = block(Plan::new(x, (ankle.0 - of(36), ankle.0 + of(110))), (sole, ankle.1), shoes);
        parts.extend([thigh, shin, foot]);
    }
    let coat = style == 2 || style == 3;
    let skirt = style == 1;
    let shoulder = of(820);
    let waist = Plan::new((-wide(100), wide(100)), (-wide(60), wide(64)));
    let chest = Plan::new((-wide(128), wide(128)), (-wide(66), wide(60)));
    if coat || skirt {
        let hem = Plan::new((-wide(112), wide(112)), (-of(120), of(120)));
        let paint = if coat { top } else { Paint::matt(dice.pick(&TOPS)) };
        parts.push(frustum(hem, waist, (of(300), hip + of(20)), paint));
    }
    let mut torso = frustum(waist, chest, (hip + of(20), shoulder), top);
    match dice.between(0, 5) {
        0 => patch(&mut torso.faces[FRONT], top.shaded(600), (480, 520), (0, 1000)),
        1 => {
            let stripe = Paint::matt(dice.pick(&TOPS));
            for face in 0..4 {
                patch(&mut torso.faces[face], stripe, (0, 1000), (500, 680));
            }
        }
        2 => patch(&mut torso.faces[FRONT], Paint::matt(dice.pick(&TOPS)), (360, 640), (200, 1000)),
        _ => {}
    }
    if !coat {
        for face in 0..4 {
            patch(&mut torso.faces[face], trousers.shaded(700), (0, 1000), (0, 60));
        }
    }
    parts.push(torso);
    for (side, offset) in [(1, 2048), (-1, 0)] {
        let swing = sin(angle + offset);
        let hand = (of(130) * swing / 4096, of(470) + of(30) * swing.abs() / 4096);
        let x = if side > 0 {
            (wide(132), wide(132) + of(52))
        } else {
            (-wide(132) - of(52), -wide(132))
        };
        let mut arm = leg(x, (0, shoulder), hand, (of(34), of(24)), top.shaded(930));
        for face in &mut arm.faces[3..6] {
            if face.corners.len() == 4 {
                patch(face, Paint::matt(skin), (0, 1000), (0, 200));
            }
        }
        parts.push(arm);
    }
    if dice.chance(30) {
        let bag = Paint::matt(dice.pick(&TOPS)).shaded(850);
        let mut pack = block(
            Plan::new((-wide(90), wide(90)), (-wide(66) - of(85), -wide(66))),
            (of(600), of(815)),
            bag,
        );
        patch(&mut pack.faces[BACK], bag.shaded(700), (150, 850), (120, 450));
        parts.push(pack);
    }
    parts.push(block(
        Plan::centred(of(62), of(62)),
        (shoulder, of(862)),
        Paint::matt(skin).shaded(900),
    ));
    parts.push(head(at(0, of(930), of(12)), of(if child { 78 } else { 66 }), of(70), skin, hair));
    for corner in parts
        .iter_mut()
        .flat_map(|p| &mut p.faces)
        .flat_map(|f| f.corners.iter_mut().chain(f.decals.iter_mut().flat_map(|d| &mut d.corners)))
    {
        corner.y -= lowest;
    }
    Mesh { parts }
}

/// A limb from `upper` to `lower` in (z, y), as thick there as half of `thick` to either side, between the heights of both.
fn leg(x: (i32, i32), upper: (i32, i32), lower: (i32, i32), thick: (i32, i32), paint: Paint) -> Part {
    let profile = [
        (lower.0 - thick.1, lower.1),
        (lower.0 + thick.1, lower.1),
        (upper.0 + thick.0, upper.1),
        (upper.0 - thick.0, upper.1),
    ];
    prism_x(&profile, x, paint)
}

/// A head with hair above and behind.
pub(super) fn head(centre: crate::scenes::mesh::Point, radius: i32, half_height: i32, skin: Rgb, hair: Rgb) -> Part {
    let mut head = blob(centre, radius, half_height, 6, Paint::matt(skin));
    let middle = centre.z;
    head.faces[0].colour = hair;
    for (index, face) in head.faces.iter_mut().enumerate().skip(2) {
        let z: i32 = face.corners.iter().map(|p| p.z - middle).sum();
        if index >= 14 || z < radius / 2 && index >= 8 || z < -radius {
            face.colour = hair;
        }
    }
    head
}
