//! Vehicles: the bodies of cars and vans.

use super::fitting::{ARCH, GLASS, Lamps, PLATE, TRIM, VehicleKind, head_lamps, tail_lamps, wheel_arch, wheels};
use super::shape::{BACK, FRONT, LEFT, Paint, Plan, RIGHT, dice, frustum, mark_sides, patch, patch_outline, prism_x, rect};
use super::truck;
use crate::scenes::fixed::Dice;
use crate::scenes::mesh::{Face, Mesh, Part, Rgb};
use crate::scenes::truth::Class;

/// Faces of a car's lower body, whose profile begins at the underside and goes round by the front.
const UNDERSIDE: usize = 2;
const NOSE: usize = 4;
const DECK: usize = 7;
const TAIL: usize = 9;
const REAR_CHIN: usize = 10;

/// Where tail lamps reach, from the edge and from below, in thousandths of the rear face.
const TAIL_LAMPS: [((i32, i32), (i32, i32)); 4] = [
    ((15, 220), (560, 960)),
    ((10, 130), (460, 1000)),
    ((15, 300), (680, 930)),
    ((20, 190), (520, 860)),
];
/// Where headlights reach on the front face.
const HEAD_LAMPS: [((i32, i32), (i32, i32)); 3] = [((30, 250), (560, 960)), ((15, 290), (700, 980)), ((40, 210), (500, 940))];

/// Lacquers of cars, the frequent ones several times.
const LACQUERS: [Rgb; 24] = [
    Rgb(232, 233, 232),
    Rgb(224, 226, 228),
    Rgb(238, 238, 234),
    Rgb(176, 180, 184),
    Rgb(158, 163, 168),
    Rgb(190, 193, 194),
    Rgb(110, 114, 119),
    Rgb(84, 88, 93),
    Rgb(62, 66, 71),
    Rgb(134, 137, 140),
    Rgb(30, 31, 34),
    Rgb(22, 23, 26),
    Rgb(38, 40, 44),
    Rgb(28, 48, 96),
    Rgb(40, 78, 142),
    Rgb(26, 36, 62),
    Rgb(86, 128, 176),
    Rgb(150, 26, 30),
    Rgb(184, 36, 34),
    Rgb(104, 20, 26),
    Rgb(44, 74, 56),
    Rgb(214, 176, 44),
    Rgb(122, 98, 74),
    Rgb(204, 92, 32),
];

/// The measures of a car's body, in millimetres. Distances along are from the car's front or back end inwards.
struct Shell {
    /// Height of the sill, of the waist where the cabin begins, of the bonnet's and the boot's outer edge.
    sill: i32,
    waist: i32,
    nose: i32,
    tail: i32,
    /// Radius of the wheels, and the axles' distances from the front and the back end.
    wheel: i32,
    axles: (i32, i32),
    /// Feet of the windscreen and of the rear window from the ends.
    feet: (i32, i32),
    /// How far their tops lie inwards of their feet.
    rake: (i32, i32),
    /// How far the roof's edge lies inwards of the waist's.
    tumble: i32,
    /// Where pillars stand, in thousandths of the cabin's length from the front; the last window ends the row.
    pillars: &'static [i32],
}

const fn shell(kind: VehicleKind) -> Shell {
    match kind {
        VehicleKind::Hatchback => Shell {
            sill: 210,
            waist: 900,
            nose: 690,
            tail: 830,
            wheel: 315,
            axles: (780, 700),
            feet: (960, 60),
            rake: (720, 340),
            tumble: 170,
            pillars: &[300, 590, 900],
        },
        VehicleKind::Sedan => Shell {
            sill: 200,
            waist: 890,
            nose: 670,
            tail: 850,
            wheel: 325,
            axles: (860, 960),
            feet: (1240, 620),
            rake: (760, 620),
            tumble: 180,
            pillars: &[290, 590, 830],
        },
        VehicleKind::Estate => Shell {
            sill: 200,
            waist: 900,
            nose: 680,
            tail: 850,
            wheel: 325,
            axles: (880, 980),
            feet: (1250, 50),
            rake: (740, 360),
            tumble: 170,
            pillars: &[250, 480, 700, 930],
        },
        VehicleKind::Suv => Shell {
            sill: 270,
            waist: 1050,
            nose: 860,
            tail: 960,
            wheel: 370,
            axles: (860, 860),
            feet: (1120, 60),
            rake: (600, 300),
            tumble: 160,
            pillars: &[260, 520, 740, 930],
        },
        VehicleKind::Van => Shell {
            sill: 250,
            waist: 1200,
            nose: 980,
            tail: 1100,
            wheel: 345,
            axles: (900, 1000),
            feet: (700, 20),
            rake: (640, 60),
            tumble: 110,
            pillars: &[240, 260, 600, 940],
        },
        VehicleKind::Pickup => Shell {
            sill: 330,
            waist: 1120,
            nose: 930,
            tail: 1080,
            wheel: 385,
            axles: (920, 1160),
            feet: (1300, 1820),
            rake: (560, 130),
            tumble: 150,
            pillars: &[320, 620, 960],
        },
        _ => Shell {
            sill: 170,
            waist: 830,
            nose: 640,
            tail: 800,
            wheel: 325,
            axles: (880, 860),
            feet: (1420, 380),
            rake: (820, 1000),
            tumble: 210,
            pillars: &[420, 800],
        },
    }
}

/// A vehicle of [`VehicleKind::size`]; `paint` chooses colours and livery.
pub fn vehicle(kind: VehicleKind, paint: u32, lamps: Lamps) -> Mesh {
    match kind.class() {
        Class::Truck => truck::truck(kind, paint, lamps),
        _ => car(kind, paint, lamps),
    }
}

fn car(kind: VehicleKind, paint: u32, lamps: Lamps) -> Mesh {
    let mut dice = dice(paint, 1);
    let lacquer = if kind == VehicleKind::Van && dice.chance(50) {
        Rgb(234, 235, 233)
    } else {
        dice.pick(&LACQUERS)
    };
    let lacquer = Paint::gloss(lacquer);
    let (width, height, length) = kind.size();
    let s = shell(kind);
    let (front, back, half) = (length / 2, -length / 2, width / 2);
    let profile = [
        (back + 90, s.sill),
        (front - 110, s.sill),
        (front, s.sill + 140),
        (front, s.nose - 130),
        (front - 110, s.nose),
        (front - s.feet.0, s.waist),
        (back + 60, s.waist),
        (back, s.tail - 60),
        (back, s.sill + 150),
    ];
    let mut body = prism_x(&profile, (-half, half), lacquer);
    for face in [UNDERSIDE, REAR_CHIN] {
        body.faces[face].colour = TRIM.colour;
    }
    let axles = [front - s.axles.0, back + s.axles.1];
    for z in axles {
        wheel_arch(&mut body, z, s.wheel, s.sill);
    }
    doors(&mut body, &s, kind, lacquer, axles);
    front_end(&mut body.faces[NOSE], lamps, kind, &mut dice);
    rear_end(&mut body.faces[TAIL], lamps, lacquer, &mut dice);

    let inset = 30;
    let low = Plan::new((-half + inset, half - inset), (back + s.feet.1, front - s.feet.0));
    let roof = half - inset - s.tumble;
    let high = Plan::new((-roof, roof), (low.z.0 + s.rake.1, low.z.1 - s.rake.0));
    let mut cabin = frustum(low, high, (s.waist, height), lacquer);
    glaze(&mut cabin, &s, kind, &mut dice, lamps);

    let mut parts = Vec::with_capacity(6);
    for z in axles {
        parts.extend(wheels(z, s.wheel, half, s.sill));
    }
    if kind == VehicleKind::Pickup {
        patch(&mut body.faces[DECK], ARCH, (50, 950), (590, 980));
    }
    parts.push(body);
    parts.push(cabin);
    Mesh { parts }
}

fn doors(body: &mut Part, s: &Shell, kind: VehicleKind, lacquer: Paint, axles: [i32; 2]) {
    let line = lacquer.shaded(620);
    let (a, b) = (axles[0] - s.wheel - 140, axles[1] + s.wheel + 60);
    mark_sides(body, lacquer.shaded(760), &rect((b, a), (s.sill, s.sill + 110)));
    let joints: &[i32] = if kind == VehicleKind::Sports { &[0, 760] } else { &[0, 480, 960] };
    for &j in joints {
        let z = a - (a - b) * j / 1000;
        mark_sides(body, line, &rect((z - 12, z + 12), (s.sill + 110, s.waist - 20)));
        if j < 900 {
            mark_sides(body, TRIM, &rect((z - 330, z - 170), (s.waist - 170, s.waist - 130)));
        }
    }
}

/// Headlights, grille, plate and indicators on a front face.
fn front_end(face: &mut Face, lamps: Lamps, kind: VehicleKind, dice: &mut Dice) {
    let grille = if kind == VehicleKind::Sports { (250, 750) } else { (300, 700) };
    patch(face, ARCH, grille, (420, 840));
    patch(face, TRIM, (100, 900), (0, 140));
    patch(face, PLATE, (355, 645), (170, 380));
    let (s, t) = dice.pick(&HEAD_LAMPS);
    head_lamps(face, lamps, s, t);
}

/// Tail lamps, plate, bumper and boot line on a rear face.
fn rear_end(face: &mut Face, lamps: Lamps, lacquer: Paint, dice: &mut Dice) {
    patch(face, TRIM, (0, 1000), (0, if dice.chance(40) { 230 } else { 90 }));
    patch(face, lacquer.shaded(620), (40, 960), (400, 425));
    patch(face, PLATE, (350, 650), (480, 720));
    let (s, t) = dice.pick(&TAIL_LAMPS);
    tail_lamps(face, lamps, s, t);
}

/// Windows of the cabin.
fn glaze(cabin: &mut Part, s: &Shell, kind: VehicleKind, dice: &mut Dice, lamps: Lamps) {
    let panel_van = kind == VehicleKind::Van && dice.chance(60);
    patch(&mut cabin.faces[FRONT], GLASS, (50, 950), (40, 930));
    let rear = if kind == VehicleKind::Van { (480, 900) } else { (120, 880) };
    patch(&mut cabin.faces[BACK], GLASS, (70, 930), rear);
    if lamps.brake {
        patch(&mut cabin.faces[BACK], Paint::lamp(Rgb(255, 36, 26)), (420, 580), (900, 950));
    }
    let (low, high) = if kind == VehicleKind::Van { (60, 600) } else { (50, 880) };
    let mut from = 60;
    for &to in s.pillars {
        if to - from > 60 && !(panel_van && from > 100) {
            // On the right side the front is to the right.
            patch(&mut cabin.faces[RIGHT], GLASS, (1000 - to, 1000 - from), (low, high));
            patch(&mut cabin.faces[LEFT], GLASS, (from, to), (low, high));
        }
        from = to + 30;
    }
    let glint = Paint::gloss(Rgb(70, 84, 98));
    patch_outline(&mut cabin.faces[FRONT], glint, &[(600, 40), (720, 40), (860, 930), (740, 930)]);
}
