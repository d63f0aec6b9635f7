//! What stands beside the road: buildings, trees, street lamps, parked cars, signs and traffic lights.

use super::ahead::Ahead;
use super::route::{JUNCTION, Rule, STRETCH, Setting, Stretch};
use super::signals::shown;
use super::thing::{Kin, Thing, id};
use crate::scenes::fixed::Dice;
use crate::scenes::light::Light;
use crate::scenes::models::VehicleKind;
use crate::scenes::models::body::{Body, Lit};
use crate::scenes::models::library::Library;
use crate::scenes::truth::{Class, Signal};

/// Depths between which things are set up, in millimetres.
const SIGHT: std::ops::Range<i32> = -30_000..230_000;
/// Looking back along the route.
const BACK: i32 = 2048;

/// Sets up what stands beside the road in sight.
pub fn stand(ahead: &Ahead, light: &Light, library: &mut Library, things: &mut Vec<Thing>) {
    for (before, stretch, start, until) in ahead.stretches() {
        if start > SIGHT.end || start + STRETCH < SIGHT.start {
            continue;
        }
        let place = Place {
            ahead,
            before,
            stretch,
            start,
            until,
            lit: light.lamps > 110,
        };
        for side in 0..2 {
            place.houses(side, library, things);
            place.trees(side, library, things);
            place.lamps(side, things);
            place.parked(side, things);
            place.clutter(side, things);
        }
        place.signs(things);
        place.lights(things);
    }
}

/// A stretch in one frame.
struct Place<'a> {
    ahead: &'a Ahead,
    before: &'a Stretch,
    stretch: &'a Stretch,
    /// Depth of its start.
    start: i32,
    /// Frames until the car comes there.
    until: i32,
    /// Lamps and windows are lit.
    lit: bool,
}

impl Place<'_> {
    fn dice(&self, purpose: u64, side: usize) -> Dice {
        Dice::new(self.ahead.route.seed, purpose + side as u64 * 0x100, self.stretch.index)
    }

    /// Whether a length of the stretch overlaps the crossing street with a margin.
    fn open(&self, from: i32, to: i32, margin: i32) -> bool {
        self.stretch
            .junction
            .is_some_and(|(half, _)| from < JUNCTION + half + margin && to > JUNCTION - half - margin)
    }

    fn houses(&self, side: usize, library: &mut Library, things: &mut Vec<Thing>) {
        let mut dice = self.dice(0x70, side);
        let sign = if side == 0 { -1 } else { 1 };
        let (share, gap) = match self.stretch.setting {
            Setting::Town => (94, (0, 1500)),
            Setting::Suburb => (66, (3000, 14_000)),
            Setting::Country => (12, (9000, 30_000)),
        };
        let mut at = dice.between(0, gap.1);
        while at < STRETCH {
            let look = dice.below(56);
            let (built, free, inset) = (dice.chance(share), dice.between(gap.0, gap.1), dice.between(0, 100));
            let body = Body::Building(look, self.lit);
            let extent = library.solid(body).extent;
            let (width, depth) = extent.footprint();
            let (from, to) = (at, at + width);
            if self.open(from, to, 4200) {
                // On, to behind the crossing street.
                at = at.max(self.stretch.junction.map_or(0, |(half, _)| JUNCTION + half + 4300));
                if at == from {
                    at += 1000;
                }
                continue;
            }
            if to > STRETCH {
                break;
            }
            if built {
                let inset = if self.stretch.setting == Setting::Town {
                    inset * 3
                } else {
                    inset * 50
                };
                let front = self.stretch.sides[side]
                    .front
                    .max(self.before.sides[side].front.min(if at < 24_000 { i32::MAX } else { 0 }))
                    + inset;
                // Its door looks to the road.
                let u = sign * (front + extent.max.z.max(depth / 2));
                let z = self.start + (from + to) / 2;
                if SIGHT.contains(&z) {
                    things.push(Thing {
                        rank: z + width / 2,
                        ..Thing::scenery(body, z, u, -sign * 1024)
                    });
                }
            }
            at = to + free;
        }
    }

    fn trees(&self, side: usize, library: &mut Library, things: &mut Vec<Thing>) {
        let mut dice = self.dice(0x71, side);
        let sign = if side == 0 { -1 } else { 1 };
        let beside = &self.stretch.sides[side];
        let (alley, spacing) = (dice.chance(40), dice.between(7, 14) * 1000);
        if self.stretch.setting == Setting::Town && !alley {
            return;
        }
        let mut at = dice.between(0, spacing);
        while at < STRETCH {
            let (local, look) = (at, dice.below(48));
            let (aside, skip) = (dice.between(0, 100), dice.chance(16));
            at += if alley { spacing } else { dice.between(1500, 11_000) };
            let (_, walk) = self.stretch.edges(self.before, side, local);
            let u = match self.stretch.setting {
                Setting::Town => beside.walk.min(walk) - 700,
                _ if alley => walk + 1800,
                Setting::Suburb => walk + 2600 + aside * 60,
                Setting::Country => walk + 3000 + aside * aside * 5,
            };
            let z = self.start + local;
            if skip
                || !SIGHT.contains(&z)
                || self.open(local, local, 5500)
                || (self.stretch.setting == Setting::Town && beside.walk - beside.kerb < 3000)
            {
                continue;
            }
            let body = Body::Tree(look);
            let _ = library.solid(body);
            things.push(Thing::scenery(body, z, sign * u, aside * 40));
        }
    }

    fn lamps(&self, side: usize, things: &mut Vec<Thing>) {
        let mut dice = self.dice(0x72, 0);
        let sign = if side == 0 { -1 } else { 1 };
        let (spacing, look) = (dice.between(24, 36) * 1000, dice.below(12));
        if self.stretch.setting == Setting::Country {
            return;
        }
        let mut local = spacing / 3 + side as i32 * spacing / 2;
        while local < STRETCH {
            let z = self.start + local;
            if SIGHT.contains(&z) && !self.open(local, local, 1000) {
                let (kerb, _) = self.stretch.edges(self.before, side, local);
                things.push(Thing::scenery(
                    Body::StreetLamp(look, self.lit),
                    z,
                    sign * (kerb + 450),
                    -sign * 1024,
                ));
            }
            local += spacing;
        }
    }

    fn parked(&self, side: usize, things: &mut Vec<Thing>) {
        let beside = &self.stretch.sides[side];
        if beside.parking == 0 {
            return;
        }
        let mut dice = self.dice(0x73, side);
        let sign = if side == 0 { -1 } else { 1 };
        let full = dice.between(20, 90) as u32;
        let mut at = 26_000;
        let mut index = side * 64;
        while at < STRETCH - 3000 {
            let kind = if dice.chance(92) {
                dice.pick(&VehicleKind::ALL[..7])
            } else {
                VehicleKind::BoxTruck
            };
            let (width, _, length) = kind.size();
            let (paint, taken, gap, aside) = (dice.below(40), dice.chance(full), dice.between(700, 2200), dice.between(-120, 120));
            let (from, to) = (at, at + length);
            at = to + gap;
            index += 1;
            let crossing = self.stretch.zebras().any(|(a, b)| from < b + 1500 && to > a - 5000);
            if !taken || crossing || self.open(from, to, 8000) {
                continue;
            }
            let z = self.start + (from + to) / 2;
            let u = sign * (beside.lanes_end + beside.cycling + beside.parking / 2 + aside.min((beside.parking - width) / 2).max(0));
            if SIGHT.contains(&z) {
                let yaw = if side == 0 { BACK } else { 0 } + aside / 8;
                let body = Body::Vehicle(kind, paint, Lit::default());
                things.push(Thing {
                    id: id(Kin::Parked, self.stretch.index, index),
                    class: Some(kind.class()),
                    ..Thing::scenery(body, z, u, yaw)
                });
            }
        }
    }

    /// Boards, benches, bins and barriers.
    fn clutter(&self, side: usize, things: &mut Vec<Thing>) {
        let mut dice = self.dice(0x74, side);
        let sign = if side == 0 { -1 } else { 1 };
        for _ in 0..7 {
            let (local, look, what) = (dice.between(2000, STRETCH - 2000), dice.below(40), dice.below(100));
            let z = self.start + local;
            if !SIGHT.contains(&z)
                || self.open(local, local, 3000)
                || self.stretch.zebras().any(|(a, b)| local > a - 1000 && local < b + 1000)
            {
                continue;
            }
            let (kerb, walk) = self.stretch.edges(self.before, side, local);
            let built = self.stretch.setting != Setting::Country;
            let thing = if what < 38 {
                Thing::scenery(Body::Board(look), z, sign * (walk + 700), BACK)
            } else if what < 80 && built && walk - kerb > 2000 {
                Thing::scenery(Body::Furniture(look), z, sign * (walk - 500), -sign * 1024)
            } else if !built && what > 50 {
                Thing::scenery(Body::Barrier(look), z, sign * (walk + 900), -sign * 1024)
            } else {
                continue;
            };
            things.push(thing);
        }
    }

    fn signs(&self, things: &mut Vec<Thing>) {
        let mut dice = self.dice(0x75, 0);
        let lights = matches!(self.stretch.junction, Some((_, Rule::Lights)));
        for index in 0..14 {
            let local = 3_000 + index * 9_000 + dice.between(0, 5_500);
            let (signal, style, right, shown) = (dice.pick(&Signal::SIGNS), dice.below(32), dice.chance(68), dice.chance(82));
            let (aside, back) = (dice.between(350, 900), dice.chance(10));
            let side = usize::from(right);
            let sign = if right { 1 } else { -1 };
            let z = self.start + local;
            if !shown || !SIGHT.contains(&z) || self.open(local, local, if lights { 2500 } else { 600 }) {
                continue;
            }
            let (kerb, _) = self.stretch.edges(self.before, side, local);
            let u = sign * (kerb + aside);
            let body = Body::Sign(signal, style);
            things.push(if back {
                Thing::scenery(body, z, u, 0)
            } else {
                Thing {
                    id: id(Kin::Sign, self.stretch.index, index as usize),
                    class: Some(Class::TrafficSign),
                    signal: Some(signal),
                    ..Thing::scenery(body, z, u, BACK + sign * 30)
                }
            });
        }
    }

    fn lights(&self, things: &mut Vec<Thing>) {
        let (Some((half, Rule::Lights)), Some(stop)) = (self.stretch.junction, self.stretch.stop_line()) else {
            return;
        };
        let signal = shown(&self.ahead.route, self.stretch, -self.until);
        let mut dice = self.dice(0x76, 0);
        let style = dice.below(16);
        let (overhead, left, beyond) = (dice.chance(45), dice.chance(45), dice.chance(70));
        let right_kerb = self.stretch.sides[1].kerb;
        let left_kerb = self.stretch.sides[0].kerb;
        let far = JUNCTION + half + 1500;
        let mut stand = |index: usize, body: Body, local: i32, u: i32, yaw: i32| {
            let z = self.start + local;
            if SIGHT.contains(&z) {
                things.push(Thing {
                    id: id(Kin::Light, self.stretch.index, index),
                    class: Some(Class::TrafficLight),
                    signal: Some(signal),
                    ..Thing::scenery(body, z, u, yaw)
                });
            }
        };
        stand(0, Body::Light(signal, style), stop + 900, right_kerb + 600, BACK);
        if left {
            stand(1, Body::Light(signal, style), stop + 900, -left_kerb - 600, BACK);
        }
        if beyond {
            stand(2, Body::Light(signal, style), far, right_kerb + 700, BACK);
        }
        if overhead {
            // The arm is about 4 m long.
            let u = right_kerb - 3200;
            stand(3, Body::LightOverhead(signal, style), far + 500, u, BACK);
        }
        // Those for the others show their backs.
        for (local, u) in [(JUNCTION + half + 6800, -left_kerb - 600), (stop + 1500, -left_kerb - 900)] {
            let z = self.start + local;
            if SIGHT.contains(&z) && left_kerb > 3000 {
                things.push(Thing::scenery(Body::Light(Signal::Off, style), z, u, 0));
            }
        }
    }
}
