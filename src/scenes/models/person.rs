//! People on foot.

use super::shape::{BACK, LEFT, Paint, Plan, RIGHT, at, blob, block, dice, frustum, loft, patch, prism_x, rect};
use crate::scenes::fixed::{Dice, ONE, sin};
use crate::scenes::mesh::{Mesh, Part, Point, Rgb};

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

/// Heights of hip, hem of skirts and coats, shoulder and root of the neck, in thousandths of the stature.
const HIP: i32 = 500;
const HEM: i32 = 300;
const SHOULDER: i32 = 800;
const NECK: i32 = 838;

/// Stature, girth and place in the stride.
struct Figure {
    tall: i32,
    stout: i32,
    phase: i32,
}

/// What someone wears.
struct Clothes {
    skin: Paint,
    top: Paint,
    trousers: Paint,
    shoes: Paint,
    /// A skirt, or the skirt of a coat.
    hem: Option<Paint>,
    /// Whether the shins are bare.
    bare: bool,
}

/// Someone on foot: `look` chooses stature and clothes, `phase` (0..4096, beyond it wraps) the place in a stride of two
/// steps.
///
/// Adults are 1.56 to 1.9 m tall, children 1.05 to 1.4 m; they are 0.34 to 0.41 of that wide, arms included, and a long
/// stride takes half of it ahead.
pub fn person(look: u32, phase: u32) -> Mesh {
    let mut dice = dice(look, 3);
    let child = dice.chance(18);
    let figure = Figure {
        tall: if child {
            dice.between(1050, 1400)
        } else {
            dice.between(1560, 1900)
        },
        stout: dice.between(900, 1180),
        phase: (phase % 4096) as i32,
    };
    let top = Paint::matt(dice.pick(&TOPS));
    let coat = dice.chance(18);
    let skirt = !coat && dice.chance(14);
    let clothes = Clothes {
        skin: Paint::matt(dice.pick(&SKINS)),
        top,
        trousers: Paint::matt(dice.pick(&TROUSERS)),
        shoes: Paint::matt(dice.pick(&SHOES)),
        hem: if skirt {
            Some(Paint::matt(dice.pick(&TOPS)))
        } else {
            coat.then_some(top.shaded(940))
        },
        bare: skirt || dice.chance(if child { 35 } else { 8 }),
    };
    let hair = dice.pick(&HAIRS);
    let of = |thousandths| figure.of(thousandths);
    let mut parts = Vec::with_capacity(14);
    figure.legs(&clothes, &mut parts);
    parts.push(figure.torso(&clothes, &mut dice));
    figure.arms(&clothes, &mut parts);
    if dice.chance(30) {
        parts.push(figure.backpack(Paint::matt(dice.pick(&TOPS)).shaded(850)));
    }
    let (chin, half) = (of(868), of(66));
    parts.push(block(Plan::centred(of(60), of(60)), (of(NECK), chin), clothes.skin.shaded(900)));
    let radius = of(if child { 74 } else { 62 });
    parts.push(head(at(0, chin + half, of(12)), radius, half, clothes.skin, hair));
    stand(&mut parts);
    Mesh { parts }
}

impl Figure {
    /// A length in thousandths of the stature.
    fn of(&self, thousandths: i32) -> i32 {
        self.tall * thousandths / 1000
    }

    /// A width or depth in thousandths of the stature, by girth.
    fn wide(&self, thousandths: i32) -> i32 {
        self.of(thousandths) * self.stout / 1000
    }

    /// Where a leg or arm is in its swing that is `ahead` of the phase: from -`reach` to `reach`.
    fn swing(&self, ahead: i32, reach: i32) -> i32 {
        self.of(reach) * sin(self.phase + ahead) / ONE
    }

    /// Legs and shoes, and what hides the thighs.
    fn legs(&self, clothes: &Clothes, parts: &mut Vec<Part>) {
        let of = |thousandths| self.of(thousandths);
        let hip = of(HIP);
        let reach = if clothes.hem.is_some() { 650 } else { 1000 };
        let shins = if clothes.bare { clothes.skin } else { clothes.trousers };
        for (x, ahead) in [((of(3), self.wide(88)), 0), ((-self.wide(88), -of(3)), 2048)] {
            let swing = self.swing(ahead, 1000) * reach / 1000;
            // The knee bends while the leg comes forward.
            let bend = self.swing(ahead + 1024, 1000).max(0) * reach / 1000;
            let knee = (of(2) + swing * 105 / 1000 + bend * 35 / 1000, of(270) + bend * 10 / 1000);
            let ankle = (swing * 190 / 1000 - bend * 90 / 1000, of(45) + bend * 55 / 1000);
            match clothes.hem {
                Some(_) => parts.push(limb(x, (knee.0, of(HEM)), ankle, (of(46), of(32)), shins)),
                None => {
                    parts.push(limb(x, (0, hip), knee, (of(64), of(48)), clothes.trousers));
                    parts.push(limb(x, knee, ankle, (of(48), of(32)), shins));
                }
            }
            let foot = Plan::new(x, (ankle.0 - of(36), ankle.0 + of(108)));
            parts.push(block(foot, (ankle.1 - of(45), ankle.1), clothes.shoes));
        }
        if let Some(paint) = clothes.hem {
            let lower = Plan::new((-self.wide(114), self.wide(114)), (-of(138), of(138)));
            parts.push(frustum(lower, self.waist(), (of(HEM), hip), paint));
        }
    }

    fn waist(&self) -> Plan {
        Plan::new((-self.wide(102), self.wide(102)), (-self.wide(62), self.wide(66)))
    }

    fn torso(&self, clothes: &Clothes, dice: &mut Dice) -> Part {
        let of = |thousandths| self.of(thousandths);
        let (waist, wide, deep) = (self.waist(), self.wide(130), self.wide(66));
        let rings = [
            (of(HIP), rect(waist.x, waist.z)),
            (of(SHOULDER), rect((-wide, wide), (-deep, deep))),
            (of(NECK), rect((-wide / 2, wide / 2), (-deep * 7 / 10, deep * 7 / 10))),
        ];
        let mut torso = loft(&rings, clothes.top);
        const LOWER: std::ops::Range<usize> = 2..6;
        const CHEST: usize = 4;
        let other = Paint::matt(dice.pick(&TOPS));
        match dice.below(5) {
            0 => patch(&mut torso.faces[CHEST], clothes.top.shaded(600), (480, 520), (0, 1000)),
            1 => torso.faces[LOWER]
                .iter_mut()
                .for_each(|face| patch(face, other, (0, 1000), (500, 680))),
            2 => patch(&mut torso.faces[CHEST], other, (370, 630), (60, 1000)),
            _ => {}
        }
        if clothes.hem.is_none() {
            torso.faces[LOWER]
                .iter_mut()
                .for_each(|face| patch(face, clothes.trousers.shaded(700), (0, 1000), (0, 60)));
        }
        torso
    }

    fn arms(&self, clothes: &Clothes, parts: &mut Vec<Part>) {
        let (inner, outer) = (self.wide(130) + 2, self.wide(130) + self.of(52));
        for (x, ahead) in [((inner, outer), 2048), ((-outer, -inner), 0)] {
            let swing = self.swing(ahead, 130);
            let hand = (swing, self.of(470) + swing.abs() / 5);
            let mut arm = limb(
                x,
                (0, self.of(SHOULDER) + self.of(8)),
                hand,
                (self.of(36), self.of(24)),
                clothes.top.shaded(930),
            );
            // The right side lists its corners from below, the left side from above.
            patch(&mut arm.faces[RIGHT], clothes.skin, (0, 1000), (0, 200));
            patch(&mut arm.faces[LEFT], clothes.skin, (0, 1000), (800, 1000));
            for face in [3, 5] {
                patch(&mut arm.faces[face], clothes.skin, (0, 1000), (0, 200));
            }
            parts.push(arm);
        }
    }

    fn backpack(&self, bag: Paint) -> Part {
        let (half, back) = (self.wide(88), -self.wide(68) - 2);
        let mut pack = block(
            Plan::new((-half, half), (back - self.of(82), back)),
            (self.of(600), self.of(805)),
            bag,
        );
        patch(&mut pack.faces[BACK], bag.shaded(700), (150, 850), (120, 450));
        patch(&mut pack.faces[BACK], bag.shaded(800), (0, 1000), (740, 770));
        pack
    }
}

/// A limb from `upper` to `lower` in (z, y), cut level at both ends; half as thick to either side as `thick` says there.
fn limb(x: (i32, i32), upper: (i32, i32), lower: (i32, i32), thick: (i32, i32), paint: Paint) -> Part {
    let profile = [
        (lower.0 - thick.1, lower.1),
        (lower.0 + thick.1, lower.1),
        (upper.0 + thick.0, upper.1),
        (upper.0 - thick.0, upper.1),
    ];
    prism_x(&profile, x, paint)
}

/// A head with hair or a helmet above and behind.
pub(super) fn head(centre: Point, radius: i32, half_height: i32, skin: Paint, hair: Rgb) -> Part {
    let mut head = blob(centre, radius, half_height, 6, skin);
    head.faces[0].colour = hair;
    // Rings of six faces each: chin, cheeks, crown.
    for (index, face) in head.faces.iter_mut().enumerate().skip(2) {
        let ahead = face.corners.iter().map(|p| p.z - centre.z).sum::<i32>();
        let covered = match (index - 2) / 6 {
            0 => ahead < -radius,
            1 => ahead < radius / 2,
            _ => true,
        };
        if covered {
            face.colour = hair;
        }
    }
    head
}

/// Lowers a body so that it stands on the ground.
fn stand(parts: &mut [Part]) {
    let faces = || parts.iter().flat_map(|p| &p.faces);
    let lowest = faces().flat_map(|f| &f.corners).map(|c| c.y).min().unwrap_or(0);
    for face in parts.iter_mut().flat_map(|p| &mut p.faces) {
        let marks = face.decals.iter_mut().flat_map(|d| &mut d.corners);
        face.corners.iter_mut().chain(marks).for_each(|corner| corner.y -= lowest);
    }
}
