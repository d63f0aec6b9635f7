//! Trucks and buses: cabs, chassis, boxes, tanks, beds and their liveries.

use super::fitting::{ARCH, GLASS, Lamps, PLATE, TRIM, VehicleKind, head_lamps, tail_lamps, wheel_arch, wheels};
use super::shape::{BACK, FRONT, LEFT, Paint, Plan, RIGHT, TOP, block, dice, frustum, mark_sides, ngon, patch, prism_x, prism_z, rect};
use crate::scenes::fixed::Dice;
use crate::scenes::mesh::{Mesh, Part, Rgb};

const CHASSIS: Paint = Paint::matt(Rgb(38, 39, 42));
const WHEEL: i32 = 500;
const SILL: i32 = 430;
const FLOOR: i32 = 1060;

/// Faces of cabs and buses, whose profiles begin at the underside and go round by the front.
const CHIN: usize = 3;
const NOSE: usize = 4;
const SCREEN: usize = 5;
/// The slope above a cab's windscreen.
const BROW: usize = 6;
/// Faces of buses only.
const REAR_WINDOW: usize = 7;
const REAR: usize = 8;

const CABS: [Rgb; 10] = [
    Rgb(230, 231, 230),
    Rgb(236, 236, 232),
    Rgb(170, 30, 32),
    Rgb(32, 66, 132),
    Rgb(40, 44, 52),
    Rgb(206, 140, 30),
    Rgb(58, 110, 76),
    Rgb(126, 132, 138),
    Rgb(24, 92, 128),
    Rgb(202, 206, 208),
];

/// Ground colour and stripe of boxes and tarpaulins.
const LIVERIES: [(Rgb, Rgb); 10] = [
    (Rgb(232, 232, 230), Rgb(40, 90, 168)),
    (Rgb(236, 236, 234), Rgb(190, 40, 38)),
    (Rgb(228, 229, 226), Rgb(60, 130, 80)),
    (Rgb(210, 212, 212), Rgb(230, 138, 30)),
    (Rgb(36, 64, 124), Rgb(228, 230, 232)),
    (Rgb(172, 32, 34), Rgb(236, 234, 230)),
    (Rgb(232, 178, 40), Rgb(40, 42, 50)),
    (Rgb(60, 116, 78), Rgb(224, 226, 210)),
    (Rgb(92, 98, 106), Rgb(206, 208, 210)),
    (Rgb(240, 240, 238), Rgb(88, 94, 102)),
];

/// Ground colour and stripe of buses.
const LINES: [(Rgb, Rgb); 7] = [
    (Rgb(222, 180, 44), Rgb(52, 54, 60)),
    (Rgb(178, 36, 36), Rgb(236, 234, 228)),
    (Rgb(236, 236, 232), Rgb(44, 104, 176)),
    (Rgb(44, 88, 150), Rgb(226, 228, 230)),
    (Rgb(58, 128, 84), Rgb(236, 236, 230)),
    (Rgb(232, 233, 232), Rgb(196, 60, 44)),
    (Rgb(178, 184, 188), Rgb(224, 140, 38)),
];

/// A truck or bus of its kind's size.
pub(super) fn truck(kind: VehicleKind, paint: u32, lamps: Lamps) -> Mesh {
    let mut dice = dice(paint, 2);
    let (width, height, length) = kind.size();
    let (front, back, half) = (length / 2, -length / 2, width / 2);
    if kind == VehicleKind::Bus {
        return bus(&mut dice, (half, height, front), lamps);
    }
    let livery = dice.pick(&LIVERIES);
    let lacquer = Paint::gloss(if dice.chance(40) { livery.0 } else { dice.pick(&CABS) });
    let (cab_length, cab_top) = match kind {
        VehicleKind::SemiTruck => (2250, 3640),
        VehicleKind::BoxTruck => (1900, 2560),
        _ => (2150, 2900),
    };
    let axles: &[i32] = match kind {
        VehicleKind::SemiTruck => &[front - 1350, front - 4900, back + 3900, back + 2600],
        VehicleKind::BoxTruck => &[front - 1250, back + 1750],
        _ => &[front - 1350, back + 2600, back + 1300],
    };
    let mut parts = Vec::with_capacity(2 * axles.len() + 3);
    for &z in axles {
        parts.extend(wheels(z, WHEEL, half - 20, SILL));
    }
    let mut chassis = block(
        Plan::new((20 - half, half - 20), (back, front - cab_length)),
        (SILL, FLOOR),
        CHASSIS,
    );
    for &z in &axles[1..] {
        wheel_arch(&mut chassis, z, WHEEL, SILL);
    }
    rear_end(&mut chassis, lamps);
    parts.push(chassis);
    parts.push(cab((half, front, cab_length, cab_top), axles[0], lacquer, lamps));

    let gap = if kind == VehicleKind::SemiTruck { 700 } else { 120 };
    let bed = (back, front - cab_length - gap);
    parts.push(match kind {
        VehicleKind::Tanker => tank((half, height), bed, livery, &mut dice),
        VehicleKind::Tipper => tipper((half, height), bed, lacquer, livery.1),
        _ => cargo((half, height), bed, livery, &mut dice),
    });
    Mesh { parts }
}

fn rear_end(chassis: &mut Part, lamps: Lamps) {
    let face = &mut chassis.faces[BACK];
    patch(face, Paint::reflector(Rgb(196, 40, 34)), (20, 980), (80, 150));
    patch(face, PLATE, (400, 600), (330, 530));
    tail_lamps(face, lamps, (40, 230), (340, 700));
}

fn cab((half, front, length, top): (i32, i32, i32, i32), axle: i32, lacquer: Paint, lamps: Lamps) -> Part {
    let profile = [
        (front - length, SILL),
        (front - 60, SILL),
        (front, SILL + 120),
        (front, 1500),
        (front - 180, top - 260),
        (front - 420, top),
        (front - length, top),
    ];
    let mut cab = prism_x(&profile, (-half, half), lacquer);
    wheel_arch(&mut cab, axle, WHEEL, SILL);
    let window = [
        (front - length + 560, 1560),
        (front - 130, 1560),
        (front - 260, top - 420),
        (front - length + 560, top - 420),
    ];
    mark_sides(&mut cab, GLASS, &window);
    let line = lacquer.shaded(620);
    mark_sides(
        &mut cab,
        line,
        &rect((front - length + 460, front - length + 484), (FLOOR, top - 360)),
    );
    mark_sides(&mut cab, TRIM, &rect((front - length, front - length + 300), (SILL, 900)));
    cab.faces[CHIN].colour = TRIM.colour;
    let grille = &mut cab.faces[NOSE];
    patch(grille, ARCH, (180, 820), (420, 860));
    patch(grille, TRIM, (0, 1000), (0, 330));
    patch(grille, PLATE, (400, 600), (80, 200));
    head_lamps(grille, lamps, (20, 220), (60, 290));
    patch(&mut cab.faces[SCREEN], GLASS, (40, 960), (60, 920));
    patch(&mut cab.faces[BROW], lacquer.shaded(820), (100, 900), (150, 850));
    cab
}

fn cargo((half, height): (i32, i32), z: (i32, i32), (ground, stripe): (Rgb, Rgb), dice: &mut Dice) -> Part {
    let mut cargo = block(Plan::new((-half, half), z), (FLOOR, height), Paint::matt(ground));
    let (ground, stripe) = (Paint::matt(ground), Paint::matt(stripe));
    let design = dice.below(3);
    for side in [RIGHT, LEFT] {
        let face = &mut cargo.faces[side];
        match design {
            0 => patch(face, stripe, (0, 1000), (250, 420)),
            1 => {
                patch(face, stripe, (120, 880), (380, 720));
                patch(face, ground, (180, 820), (480, 620));
            }
            _ => patch(face, stripe, (0, 330), (0, 1000)),
        }
        patch(face, TRIM, (0, 1000), (0, 40));
        patch(face, ground.shaded(800), (0, 1000), (965, 1000));
    }
    let doors = &mut cargo.faces[BACK];
    patch(doors, ground.shaded(880), (40, 960), (40, 960));
    patch(doors, ground.shaded(600), (494, 506), (40, 960));
    for s in [250, 740] {
        patch(doors, ground.shaded(650), (s, s + 14), (40, 960));
    }
    if design != 2 {
        patch(doors, stripe, (40, 960), (420, 560));
    }
    let red = Paint::reflector(Rgb(190, 40, 36));
    for s in [0, 930] {
        patch(doors, red, (s, s + 70), (0, 36));
    }
    patch(&mut cargo.faces[FRONT], ground.shaded(880), (60, 940), (60, 940));
    cargo
}

fn tank((half, height): (i32, i32), z: (i32, i32), (ground, stripe): (Rgb, Rgb), dice: &mut Dice) -> Part {
    let shell = if dice.chance(60) { Rgb(196, 200, 204) } else { ground };
    let middle = (FLOOR + height) / 2;
    let round = ngon((0, middle), (half, (height - FLOOR) / 2), 12, 171);
    let scale = |&(x, y): &(i32, i32)| {
        let top = round.iter().map(|p| p.1).max().unwrap_or(height);
        let side = round.iter().map(|p| p.0).max().unwrap_or(half);
        (x * half / side, middle + (y - middle) * (height - middle) / (top - middle))
    };
    let fitted: Vec<_> = round.iter().map(scale).collect();
    let mut tank = prism_z(&fitted, z, Paint::gloss(shell));
    for face in &mut tank.faces[2..] {
        for s in [240, 490, 740] {
            patch(face, Paint::gloss(shell).shaded(700), (s, s + 12), (0, 1000));
        }
    }
    for index in [2, 13, 7, 8] {
        if let Some(face) = tank.faces.get_mut(index) {
            patch(face, Paint::matt(stripe), (100, 900), (200, 800));
        }
    }
    let inner: Vec<_> = fitted.iter().map(|&(x, y)| (x * 4 / 5, middle + (y - middle) * 4 / 5)).collect();
    super::shape::Canvas::back(z.0).mark(&mut tank.faces[1], Paint::gloss(shell).shaded(850), &inner);
    let sign = rect((-350, 350), (middle - 200, middle + 160));
    super::shape::Canvas::back(z.0).mark(&mut tank.faces[1], Paint::reflector(Rgb(232, 120, 24)), &sign);
    tank
}

fn tipper((half, height): (i32, i32), z: (i32, i32), lacquer: Paint, stripe: Rgb) -> Part {
    let low = Plan::new((-half + 160, half - 160), (z.0 + 260, z.1));
    let mut bed = frustum(low, Plan::new((-half, half), z), (FLOOR, height - 280), lacquer.shaded(900));
    for side in [RIGHT, LEFT] {
        for s in [180, 380, 580, 780] {
            patch(&mut bed.faces[side], lacquer.shaded(640), (s, s + 22), (0, 1000));
        }
        patch(&mut bed.faces[side], Paint::matt(stripe), (0, 1000), (900, 1000));
    }
    patch(&mut bed.faces[BACK], lacquer.shaded(700), (90, 910), (120, 880));
    patch(&mut bed.faces[TOP], Paint::matt(Rgb(112, 92, 70)), (40, 960), (20, 980));
    bed
}

fn bus(dice: &mut Dice, (half, height, front): (i32, i32, i32), lamps: Lamps) -> Mesh {
    let (ground, stripe) = dice.pick(&LINES);
    let (paint, stripe) = (Paint::gloss(ground), Paint::gloss(stripe));
    let sill = 340;
    let profile = [
        (-front, sill),
        (front - 40, sill),
        (front, sill + 160),
        (front, 1300),
        (front - 170, height),
        (-front + 40, height),
        (-front, height - 500),
    ];
    let mut body = prism_x(&profile, (-half, half), paint);
    let axles = [front - 2650, -front + 3300];
    mark_sides(&mut body, stripe, &rect((-front, front), (sill + 260, sill + 420)));
    mark_sides(&mut body, GLASS, &rect((-front + 250, front - 160), (1380, height - 480)));
    let doors = dice.chance(60);
    for i in 1..8 {
        let z = front - 160 - i * (2 * front - 410) / 8;
        mark_sides(
            &mut body,
            Paint::matt(Rgb(22, 24, 28)),
            &rect((z - 35, z + 35), (1380, height - 480)),
        );
    }
    for z in axles {
        wheel_arch(&mut body, z, WHEEL, sill);
    }
    if doors {
        for z in [front - 1500, front - 6300] {
            super::shape::Canvas::right(half).mark(&mut body.faces[RIGHT], GLASS, &rect((z, z + 1150), (sill + 80, height - 480)));
            super::shape::Canvas::right(half).mark(&mut body.faces[RIGHT], stripe, &rect((z + 550, z + 600), (sill + 80, height - 480)));
        }
    }
    patch(&mut body.faces[NOSE], TRIM, (0, 1000), (0, 130));
    patch(&mut body.faces[NOSE], PLATE, (400, 600), (160, 290));
    head_lamps(&mut body.faces[NOSE], lamps, (30, 220), (180, 420));
    patch(&mut body.faces[SCREEN], GLASS, (30, 970), (20, 760));
    patch(&mut body.faces[SCREEN], Paint::matt(Rgb(16, 16, 18)), (150, 850), (800, 950));
    patch(&mut body.faces[SCREEN], Paint::lamp(Rgb(255, 176, 48)), (220, 780), (840, 910));
    patch(&mut body.faces[REAR_WINDOW], GLASS, (120, 880), (100, 700));
    let rear = &mut body.faces[REAR];
    patch(rear, TRIM, (0, 1000), (0, 110));
    patch(rear, paint.shaded(720), (200, 800), (160, 520));
    patch(rear, PLATE, (400, 600), (560, 640));
    tail_lamps(rear, lamps, (30, 150), (300, 640));
    let mut parts = Vec::with_capacity(5);
    for z in axles {
        parts.extend(wheels(z, WHEEL, half, sill));
    }
    parts.push(body);
    Mesh { parts }
}
