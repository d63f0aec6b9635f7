//! Trees and bushes.

use super::shape::{Paint, at, blob, dice, loft, mix, ngon, shade};
use crate::scenes::fixed::{Dice, ONE, TURN, cos, sin};
use crate::scenes::mesh::{Mesh, Part, Rgb};

const LEAVES: [Rgb; 6] = [
    Rgb(70, 104, 48),
    Rgb(86, 122, 56),
    Rgb(58, 92, 52),
    Rgb(104, 130, 62),
    Rgb(76, 110, 66),
    Rgb(94, 112, 50),
];
const AUTUMN: [Rgb; 5] = [
    Rgb(196, 140, 48),
    Rgb(180, 92, 40),
    Rgb(206, 172, 66),
    Rgb(150, 70, 44),
    Rgb(140, 124, 56),
];
const NEEDLES: [Rgb; 3] = [Rgb(40, 70, 50), Rgb(50, 80, 54), Rgb(44, 66, 42)];
const BARK: Paint = Paint::matt(Rgb(92, 76, 60));

/// A broadleaf tree (5 to 10 m), a conifer (6 to 12 m) or a bush (0.9 to 1.8 m).
pub fn tree(look: u32) -> Mesh {
    let mut dice = dice(look, 9);
    match dice.below(10) {
        0..=5 => broadleaf(&mut dice),
        6..=7 => conifer(&mut dice),
        _ => bush(&mut dice),
    }
}

fn trunk(radius: i32, height: i32) -> Part {
    let ring = |r| ngon((0, 0), (r, r), 5, 0);
    loft(&[(0, ring(radius)), (height, ring(radius * 7 / 10))], BARK)
}

/// A clump of leaves: lighter above, darker below.
fn clump(x: i32, y: i32, z: i32, radius: i32, half_height: i32, leaf: Rgb) -> Part {
    let mut part = blob(at(x, y, z), radius, half_height, 8, Paint::matt(leaf));
    part.faces[0].colour = shade(leaf, 1180);
    part.faces[1].colour = shade(leaf, 560);
    for (index, face) in part.faces.iter_mut().enumerate().skip(2) {
        let ring = [680, 940, 1120][(index - 2) / 8];
        face.colour = shade(leaf, ring + [0, 50, -40, 20][index % 4]);
    }
    part
}

fn broadleaf(dice: &mut Dice) -> Mesh {
    let tall = dice.between(5000, 10000);
    let leaf = if dice.chance(22) { dice.pick(&AUTUMN) } else { dice.pick(&LEAVES) };
    let radius = tall * dice.between(22, 32) / 100;
    let mut parts = vec![trunk(tall / 45 + 60, tall * 34 / 100)];
    parts.push(clump(0, tall * 64 / 100, 0, radius, tall * 30 / 100, leaf));
    for i in 0..dice.between(2, 4) {
        let angle = i * TURN / 3 + dice.between(0, 900);
        let out = radius * 6 / 10;
        let (x, z) = (out * cos(angle) / ONE, out * sin(angle) / ONE);
        let y = tall * dice.between(52, 76) / 100;
        parts.push(clump(
            x,
            y,
            z,
            radius * 6 / 10,
            tall * 16 / 100,
            mix(leaf, Rgb(120, 140, 60), dice.between(0, 200)),
        ));
    }
    Mesh { parts }
}

fn conifer(dice: &mut Dice) -> Mesh {
    let tall = dice.between(6000, 12000);
    let needle = dice.pick(&NEEDLES);
    let radius = tall * dice.between(16, 24) / 100;
    let mut parts = vec![trunk(tall / 60 + 60, tall * 12 / 100)];
    for step in 0..3 {
        let low = tall * (12 + 26 * step) / 100;
        let wide = radius * (100 - 26 * step) / 100;
        let top = if step == 2 { tall } else { low + tall * 26 / 100 };
        let ring = |r| ngon((0, 0), (r, r), 7, step * 170);
        let mut tier = loft(
            &[(low, ring(wide)), (top, ring(wide * if step == 2 { 8 } else { 36 } / 100))],
            Paint::matt(needle),
        );
        for (index, face) in tier.faces.iter_mut().enumerate().skip(2) {
            face.colour = shade(needle, [900, 1060, 980][index % 3]);
        }
        tier.faces[1].colour = shade(needle, 500);
        parts.push(tier);
    }
    Mesh { parts }
}

fn bush(dice: &mut Dice) -> Mesh {
    let leaf = dice.pick(&LEAVES);
    let half = dice.between(450, 900);
    let radius = dice.between(600, 1100);
    let mut parts = vec![clump(0, half, 0, radius, half, leaf)];
    if dice.chance(60) {
        parts.push(clump(
            radius * 9 / 10,
            half * 7 / 10,
            radius / 4,
            radius * 7 / 10,
            half * 7 / 10,
            shade(leaf, 940),
        ));
    }
    Mesh { parts }
}
