//! Buildings.

use super::shape::{BACK, FRONT, LEFT, Paint, Plan, RIGHT, block, dice, patch, prism_x};
use crate::scenes::fixed::Dice;
use crate::scenes::mesh::{Face, Mesh, Part, Rgb};

const WALLS: [Rgb; 12] = [
    Rgb(214, 204, 186),
    Rgb(226, 220, 208),
    Rgb(196, 176, 150),
    Rgb(170, 112, 88),
    Rgb(150, 92, 76),
    Rgb(206, 190, 150),
    Rgb(186, 190, 190),
    Rgb(222, 206, 176),
    Rgb(176, 160, 146),
    Rgb(200, 170, 144),
    Rgb(158, 168, 170),
    Rgb(230, 228, 222),
];
const ROOFS: [Rgb; 6] = [
    Rgb(140, 72, 54),
    Rgb(116, 62, 50),
    Rgb(84, 78, 78),
    Rgb(96, 88, 84),
    Rgb(66, 66, 72),
    Rgb(156, 90, 64),
];
/// How far a roof reaches beyond the walls before and behind.
const OVERHANG: i32 = 300;
const PANE: Paint = Paint::gloss(Rgb(62, 74, 86));
const WARM: [Paint; 3] = [
    Paint::lamp(Rgb(255, 206, 128)),
    Paint::lamp(Rgb(250, 222, 166)),
    Paint::lamp(Rgb(226, 230, 236)),
];

/// A building whose door looks along +z: a house, a row house, an office block or a shop; by `night` some windows are lit.
///
/// 7 to 26 m wide, 8 to 16 m deep, 4 to 26 m high; the exact measures are its [`extent`](super::extent).
pub fn building(look: u32, night: bool) -> Mesh {
    let mut lights = Lights {
        dice: dice(look, 14),
        night,
    };
    let mut dice = dice(look, 8);
    match dice.below(10) {
        0..=2 => house(&mut dice, &mut lights),
        3..=5 => row_house(&mut dice, &mut lights),
        6..=7 => office(&mut dice, &mut lights),
        _ => shop(&mut dice, &mut lights),
    }
}

/// The windows' own dice: which are lit does not change the building.
struct Lights {
    dice: Dice,
    night: bool,
}

impl Lights {
    /// A window, by night lit in 35 of 100 cases.
    fn pane(&mut self) -> Paint {
        if self.night && self.dice.chance(35) {
            self.dice.pick(&WARM)
        } else {
            PANE
        }
    }
}

/// `columns` by `rows` windows over a facade between the heights `t`, in thousandths.
fn windows(face: &mut Face, columns: i32, rows: i32, t: (i32, i32), lights: &mut Lights) {
    let (pitch_s, pitch_t) = (1000 / columns, (t.1 - t.0) / rows);
    for row in 0..rows {
        for column in 0..columns {
            let s = column * pitch_s + pitch_s * 28 / 100;
            let low = t.0 + row * pitch_t + pitch_t * 24 / 100;
            let paint = lights.pane();
            patch(face, paint, (s, s + pitch_s * 44 / 100), (low, low + pitch_t * 54 / 100));
        }
    }
}

fn house(dice: &mut Dice, lights: &mut Lights) -> Mesh {
    let (width, depth) = (dice.between(8000, 12000), dice.between(8000, 10000));
    let wall = Paint::matt(dice.pick(&WALLS));
    let roof = Paint::matt(dice.pick(&ROOFS));
    let storeys = dice.between(1, 3);
    let eaves = 800 + 2700 * storeys;
    let mut body = block(Plan::centred(width, depth), (0, eaves), wall);
    for side in [FRONT, BACK, LEFT, RIGHT] {
        windows(&mut body.faces[side], 3, storeys, (60, 980), lights);
    }
    patch(&mut body.faces[FRONT], wall, (400, 600), (0, 900 / storeys));
    patch(
        &mut body.faces[FRONT],
        Paint::matt(Rgb(88, 62, 46)),
        (450, 550),
        (0, 2200 * 1000 / eaves),
    );
    let mut parts = vec![body, gable(width, depth, eaves, depth * 2 / 5, roof, wall)];
    if dice.chance(60) {
        parts.push(chimney(width / 4, depth / 2 + OVERHANG, eaves, depth * 2 / 5));
    }
    Mesh { parts }
}

/// A roof with its ridge across.
fn gable(width: i32, depth: i32, eaves: i32, rise: i32, roof: Paint, wall: Paint) -> Part {
    let half = depth / 2 + OVERHANG;
    let mut part = prism_x(
        &[(-half, eaves), (half, eaves), (0, eaves + rise)],
        (-width / 2 - 250, width / 2 + 250),
        roof,
    );
    part.faces[RIGHT].colour = wall.colour;
    part.faces[LEFT].colour = wall.colour;
    part
}

/// A chimney on the front slope of a roof that falls by `rise` over `run`, cut along the slope.
fn chimney(x: i32, run: i32, eaves: i32, rise: i32) -> Part {
    let slope = |z: i32| eaves + rise - z * rise / run + 1;
    let (near, far) = (900, 300);
    let top = eaves + rise + 600;
    let profile = [(far, slope(far)), (near, slope(near)), (near, top), (far, top)];
    prism_x(&profile, (x - 350, x + 350), Paint::matt(Rgb(120, 78, 64)))
}

fn row_house(dice: &mut Dice, lights: &mut Lights) -> Mesh {
    let (width, depth) = (dice.between(7000, 14000), dice.between(9000, 12000));
    let wall = Paint::matt(dice.pick(&WALLS));
    let storeys = dice.between(3, 6);
    let eaves = 600 + 3000 * storeys;
    let mut body = block(Plan::centred(width, depth), (0, eaves), wall);
    let columns = width / 2200;
    for side in [FRONT, BACK] {
        windows(&mut body.faces[side], columns, storeys, (30, 990), lights);
    }
    let door = 500 / columns;
    patch(&mut body.faces[FRONT], wall.shaded(820), (0, 1000), (0, 40));
    patch(
        &mut body.faces[FRONT],
        Paint::matt(Rgb(70, 54, 44)),
        (door - 60, door + 60),
        (0, 2400 * 1000 / eaves),
    );
    patch(&mut body.faces[FRONT], wall.shaded(850), (0, 1000), (975, 1000));
    for side in [LEFT, RIGHT] {
        windows(&mut body.faces[side], 2, storeys, (30, 990), lights);
    }
    let roof = Paint::matt(dice.pick(&ROOFS));
    Mesh {
        parts: vec![body, gable(width, depth, eaves, depth / 3, roof, wall)],
    }
}

fn office(dice: &mut Dice, lights: &mut Lights) -> Mesh {
    let (width, depth) = (dice.between(14000, 26000), dice.between(12000, 16000));
    let storeys = dice.between(4, 8);
    let height = 3200 * storeys;
    let wall = Paint::matt(dice.pick(&[
        Rgb(176, 180, 184),
        Rgb(150, 154, 158),
        Rgb(198, 194, 186),
        Rgb(126, 136, 146),
        Rgb(206, 208, 208),
    ]));
    let mut body = block(Plan::centred(width, depth), (0, height), wall);
    let glass = Paint::gloss(dice.pick(&[Rgb(64, 84, 102), Rgb(54, 66, 78), Rgb(84, 108, 122)]));
    for side in [FRONT, BACK, LEFT, RIGHT] {
        let face = &mut body.faces[side];
        for storey in 0..storeys {
            let low = storey * 1000 / storeys + 300 / storeys;
            patch(face, glass, (20, 980), (low, low + 560 / storeys));
            if lights.night {
                for _ in 0..2 {
                    let s = 20 + lights.dice.between(0, 11) * 80;
                    patch(face, lights.dice.pick(&WARM), (s, s + 70), (low, low + 560 / storeys));
                }
            }
        }
        for pillar in 1..6 {
            let s = pillar * 1000 / 6;
            patch(face, wall.shaded(930), (s - 8, s + 8), (0, 1000));
        }
    }
    patch(&mut body.faces[FRONT], glass.shaded(700), (430, 570), (0, 800 / storeys));
    Mesh { parts: vec![body] }
}

fn shop(dice: &mut Dice, lights: &mut Lights) -> Mesh {
    let (width, depth) = (dice.between(8000, 13000), dice.between(8000, 11000));
    let wall = Paint::matt(dice.pick(&WALLS));
    let storeys = dice.between(1, 4);
    let height = 1200 + 3300 * storeys;
    let mut body = block(Plan::centred(width, depth), (0, height), wall);
    if storeys > 1 {
        for side in [FRONT, BACK, LEFT, RIGHT] {
            windows(&mut body.faces[side], 4, storeys - 1, (3700 * 1000 / height, 970), lights);
        }
    }
    let face = &mut body.faces[FRONT];
    let show = if lights.night { WARM[1] } else { Paint::gloss(Rgb(96, 110, 120)) };
    let top = 2600 * 1000 / height;
    patch(face, show, (60, 420), (500 * 1000 / height, top));
    patch(face, show, (580, 940), (500 * 1000 / height, top));
    patch(face, Paint::gloss(Rgb(58, 60, 64)), (455, 545), (0, top));
    let colour = dice.pick(&[
        Rgb(170, 44, 42),
        Rgb(44, 92, 150),
        Rgb(52, 116, 76),
        Rgb(196, 128, 44),
        Rgb(70, 62, 92),
    ]);
    let name = Paint::matt(Rgb(236, 232, 222));
    patch(face, Paint::matt(colour), (40, 960), (3050 * 1000 / height, 3650 * 1000 / height));
    let mut s = 240;
    while s < 700 {
        let long = dice.between(30, 80);
        patch(face, name, (s, s + long), (3220 * 1000 / height, 3480 * 1000 / height));
        s += long + 18;
    }
    let z = depth / 2;
    let (left, right) = (-width / 2 + 400, width / 2 - 400);
    let mut awning = prism_x(
        &[(z, 2700), (z + 1300, 2450), (z + 1300, 2560), (z, 3000)],
        (left, right),
        Paint::matt(colour),
    );
    for stripe in 0..6 {
        let s = stripe * 1000 / 6;
        patch(&mut awning.faces[4], name, (s, s + 83), (0, 1000));
    }
    Mesh { parts: vec![body, awning] }
}
