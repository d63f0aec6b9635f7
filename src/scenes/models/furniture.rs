//! Street furniture, and boards that look a little like signs but are none.

use super::shape::{BACK, Canvas, FRONT, LEFT, Paint, Plan, RIGHT, block, dice, frustum, loft, ngon, patch, prism_z, rect};
use crate::scenes::mesh::{Mesh, Rgb, Role};

const STEEL: Paint = Paint::matt(Rgb(118, 122, 126));

/// A street lamp, 6 to 9 m high, its arm reaching 1.2 to 2 m along +z; at night it is `lit`.
pub fn street_lamp(look: u32, lit: bool) -> Mesh {
    let mut dice = dice(look, 10);
    let tall = dice.between(6000, 9000);
    let reach = dice.between(1200, 2000);
    let paint = Paint::matt(dice.pick(&[Rgb(118, 122, 126), Rgb(70, 74, 76), Rgb(56, 72, 62)]));
    let ring = |r| ngon((0, 0), (r, r), 6, 0);
    let pole = loft(&[(0, ring(95)), (tall, ring(50))], paint);
    let arm = block(Plan::new((-40, 40), (50, reach)), (tall - 120, tall - 50), paint);
    let mut head = frustum(
        Plan::new((-150, 150), (reach - 500, reach + 100)),
        Plan::new((-90, 90), (reach - 440, reach + 40)),
        (tall - 50, tall + 70),
        paint.shaded(900),
    );
    if lit {
        let lamp = Paint::lamp(Rgb(255, 232, 182));
        head.faces[5].colour = lamp.colour;
        head.faces[5].finish = lamp.finish;
        for side in [RIGHT, LEFT, FRONT, BACK] {
            patch(&mut head.faces[side], lamp, (80, 920), (0, 450));
        }
    }
    Mesh {
        parts: vec![pole, arm, head],
    }
}

/// A crash barrier along x, 4 m long and 0.75 m high; or one of red and white boards, 2 m long and 1 m high.
pub fn barrier(look: u32) -> Mesh {
    let mut dice = dice(look, 11);
    if dice.chance(65) {
        let mut parts: Vec<_> = [-1500, 0, 1500]
            .map(|x| block(Plan::new((x - 40, x + 40), (-90, -30)), (0, 680), STEEL))
            .into();
        let profile = Plan::new((-2000, 2000), (-30, 50));
        let mut rail = block(profile, (430, 750), Paint::matt(Rgb(168, 172, 176)));
        for side in [FRONT, BACK] {
            patch(&mut rail.faces[side], STEEL, (0, 1000), (420, 580));
        }
        parts.push(rail);
        return Mesh { parts };
    }
    let (red, white) = (Paint::reflector(Rgb(200, 40, 36)), Paint::reflector(Rgb(236, 234, 230)));
    let mut parts: Vec<_> = [-900, 900]
        .map(|x| block(Plan::new((x - 60, x + 60), (-200, 200)), (0, 700), Paint::matt(Rgb(70, 70, 72))))
        .into();
    let mut board = block(Plan::new((-1000, 1000), (-20, 20)), (700, 1000), white);
    for side in [FRONT, BACK] {
        for i in 0..5 {
            patch(&mut board.faces[side], red, (i * 200, i * 200 + 100), (0, 1000));
        }
    }
    parts.push(board);
    Mesh { parts }
}

/// A bench, a bin, a hydrant, a bollard or a letter box: no higher than 1.4 m, no wider than 1.8 m.
pub fn furniture(look: u32) -> Mesh {
    let mut dice = dice(look, 12);
    let parts = match dice.below(5) {
        0 => {
            let wood = Paint::matt(dice.pick(&[Rgb(134, 96, 62), Rgb(112, 82, 58), Rgb(92, 104, 84)]));
            let legs = [-700, 700].map(|x| block(Plan::new((x - 40, x + 40), (-200, 220)), (0, 400), STEEL));
            let seat = block(Plan::new((-900, 900), (-200, 240)), (400, 460), wood);
            let mut rest = block(Plan::new((-900, 900), (-250, -200)), (460, 860), wood);
            for side in [FRONT, BACK] {
                patch(&mut rest.faces[side], wood.shaded(500), (0, 1000), (420, 500));
            }
            let [a, b] = legs;
            vec![a, b, seat, rest]
        }
        1 => {
            let paint = Paint::matt(dice.pick(&[Rgb(60, 84, 66), Rgb(70, 72, 74), Rgb(206, 128, 40)]));
            let ring = |r| ngon((0, 0), (r, r), 8, 256);
            let mut bin = loft(&[(0, ring(210)), (860, ring(260))], paint);
            bin.faces[0].colour = Rgb(24, 24, 26);
            vec![bin]
        }
        2 => {
            let paint = Paint::matt(dice.pick(&[Rgb(186, 44, 38), Rgb(206, 160, 44)]));
            let ring = |r| ngon((0, 0), (r, r), 6, 341);
            vec![loft(&[(0, ring(150)), (90, ring(150)), (600, ring(115)), (720, ring(60))], paint)]
        }
        3 => {
            let ring = |r| ngon((0, 0), (r, r), 6, 341);
            let mut post = loft(&[(0, ring(70)), (950, ring(60))], Paint::matt(Rgb(56, 58, 62)));
            for face in &mut post.faces[2..] {
                patch(face, Paint::reflector(Rgb(232, 232, 228)), (0, 1000), (780, 900));
            }
            vec![post]
        }
        _ => {
            let paint = Paint::matt(dice.pick(&[Rgb(226, 180, 36), Rgb(180, 40, 40), Rgb(44, 86, 150)]));
            let mut case = block(Plan::centred(480, 400), (600, 1400), paint);
            patch(&mut case.faces[FRONT], paint.shaded(400), (160, 840), (740, 800));
            patch(&mut case.faces[FRONT], Paint::matt(Rgb(236, 234, 226)), (300, 700), (360, 580));
            vec![block(Plan::centred(100, 100), (0, 600), STEEL), case]
        }
    };
    Mesh { parts }
}

/// A board that is no traffic sign, seen from +z: an advertisement, a town map, a direction board, a bus stop, a small plate,
/// or the grey back of a sign. Its ground and outline recall signs; its marks say nothing.
///
/// 0.4 to 3.8 m wide and up to 4.4 m high.
pub fn board(look: u32) -> Mesh {
    let mut dice = dice(look, 13);
    let grounds = [
        Rgb(36, 92, 166),
        Rgb(44, 110, 74),
        Rgb(232, 230, 222),
        Rgb(196, 54, 48),
        Rgb(240, 190, 50),
        Rgb(140, 142, 144),
        Rgb(110, 72, 130),
    ];
    let ground = Paint::matt(dice.pick(&grounds));
    let ink = Paint::matt(if dice.chance(60) { Rgb(240, 240, 236) } else { Rgb(34, 34, 38) });
    let kind = dice.below(6);
    let post = |x: i32, top: i32| {
        let mut post = block(Plan::new((x - 35, x + 35), (-35, 35)), (0, top), STEEL);
        post.role = Role::Support;
        post
    };
    if kind == 0 {
        // The back of a sign: a grey disc, octagon or triangle.
        let (sides, radius, centre) = (dice.pick(&[3, 4, 8, 12]), dice.between(350, 450), dice.between(2200, 2600));
        let outline = ngon((0, centre), (radius, radius), sides, 1024);
        let lowest = outline.iter().map(|spot| spot.1).min().unwrap_or(0);
        return Mesh {
            parts: vec![post(0, lowest), prism_z(&outline, (-10, 10), Paint::matt(Rgb(132, 135, 138)))],
        };
    }
    if kind == 1 {
        // A bus stop's disc.
        let (radius, centre) = (dice.between(230, 330), dice.between(2300, 2700));
        let disc = ngon((0, centre), (radius, radius), 12, 171);
        let (yellow, white, green) = (Rgb(240, 196, 60), Rgb(232, 232, 226), Rgb(30, 96, 62));
        let (ground, letter) = dice.pick(&[(yellow, green), (white, green), (green, white), (green, yellow)]);
        let mut plate = prism_z(&disc, (36, 56), Paint::matt(ground));
        let canvas = Canvas::front(56).moved(0, centre);
        for (u, v) in [((-55, -30), (-55, 55)), ((30, 55), (-55, 55)), ((-30, 30), (-12, 12))] {
            let of = |(a, b): (i32, i32)| (radius * a / 100, radius * b / 100);
            canvas.mark(&mut plate.faces[0], Paint::matt(letter), &rect(of(u), of(v)));
        }
        plate.faces[1].colour = Rgb(132, 135, 138);
        return Mesh {
            parts: vec![post(0, centre), plate],
        };
    }
    let (half, low, high) = match kind {
        2 => (dice.between(1400, 1900), 1500, dice.between(3600, 4400)),
        3 => (dice.between(500, 700), 500, dice.between(1900, 2300)),
        4 => (dice.between(700, 1200), 2200, dice.between(2700, 3300)),
        _ => (dice.between(250, 420), 2100, dice.between(2450, 2900)),
    };
    let mut panel = block(Plan::new((-half, half), (36, 76)), (low, high), ground);
    panel.faces[BACK].colour = Rgb(132, 135, 138);
    let face = &mut panel.faces[FRONT];
    patch(face, ink, (0, 1000), (0, 30));
    patch(face, ink, (0, 1000), (970, 1000));
    let rows = dice.between(1, 4);
    for row in 0..rows {
        let t = 120 + row * 760 / rows;
        let s = dice.between(80, 300);
        patch(face, ink, (s, s + dice.between(200, 600)), (t, t + 300 / rows));
    }
    if kind < 4 {
        let s = dice.between(150, 550);
        patch(face, Paint::matt(dice.pick(&grounds)), (s, s + 280), (480, 880));
    }
    let posts = if half > 450 {
        vec![post(60 - half, high - 60), post(half - 60, high - 60)]
    } else {
        vec![post(0, high - 60)]
    };
    Mesh {
        parts: posts.into_iter().chain([panel]).collect(),
    }
}
