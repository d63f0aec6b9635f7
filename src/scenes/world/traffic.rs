//! Who drives: vehicles ahead in the own lane, in the lanes beside it, and oncoming.
//!
//! Each vehicle's place is a formula of the frame's number, so that frames can be made in any order. Those of a lane keep
//! their distances; one that leaves the picture comes back at the other end as another vehicle.

use super::ahead::Ahead;
use super::pace::local;
use super::route::STRETCH;
use super::thing::{Kin, Thing, id};
use crate::scenes::fixed::{Dice, TURN, cos};
use crate::scenes::light::Light;
use crate::scenes::models::VehicleKind;
use crate::scenes::models::body::{Body, Lit};

/// Length of road on which the vehicles of a lane follow each other in a ring, in millimetres.
const RING: i64 = 240_000;
/// Where the ring begins, behind the camera.
const BEHIND: i32 = -24_000;
/// Paints of vehicles.
const PAINTS: u32 = 40;

/// Puts the moving vehicles in place.
pub fn drive(ahead: &Ahead, light: &Light, things: &mut Vec<Thing>) {
    let mut dice = Dice::new(ahead.route.seed, 0x90, 0);
    let dense = dice.between(1, 6);
    leader(ahead, light, things);
    for lane in 0..6usize {
        let oncoming = lane >= 3;
        let place = lane as i32 % 3;
        let count = dense + dice.between(-1, 1) - i32::from(oncoming && dice.chance(30));
        // Relative to the ego car for its own direction, over ground for the other.
        let speed = i64::from(if oncoming {
            dice.between(800, 1500)
        } else {
            dice.between(-260, 260)
        });
        if !oncoming && place == ahead.route.own {
            continue;
        }
        for index in 0..count.max(0) {
            let base = i64::from(index) * RING / i64::from(count) + i64::from(dice.between(0, (RING / 12 / i64::from(count)) as i32));
            let way = i64::from(ahead.number) * speed;
            let travelled = if oncoming { -base - way - ahead.total(0) } else { base + way };
            let (generation, z) = (travelled.div_euclid(RING), travelled.rem_euclid(RING) as i32 + BEHIND);
            let mut look = Dice::new(ahead.route.seed, 0x91 + lane as u64 * 64 + index as u64, generation);
            let kind = kind(&mut look);
            let (before, stretch, local) = ahead.at(z);
            let side = &stretch.sides[usize::from(!oncoming)];
            let lanes = if local < 24_000 {
                side.lanes.min(before.sides[usize::from(!oncoming)].lanes)
            } else {
                side.lanes
            };
            let sway = look.between(-250, 250);
            if place >= lanes {
                continue;
            }
            let u = (if oncoming { -1 } else { 1 }) * (place * ahead.route.lane + ahead.route.lane / 2) + sway;
            let braking = !oncoming && slowing(ahead);
            let lit = Lit {
                head: light.lamps > 30,
                brake: braking,
                indicator: blink(&mut look, ahead.number),
            };
            things.push(Thing {
                id: id(Kin::Traffic, generation, lane * 64 + index as usize),
                class: Some(kind.class()),
                ..Thing::scenery(
                    Body::Vehicle(kind, look.below(PAINTS), lit),
                    z,
                    u,
                    if oncoming { TURN / 2 } else { 0 } + sway / 40,
                )
            });
        }
    }
}

/// The vehicle ahead in the own lane: falls back towards the ego car and draws away again.
fn leader(ahead: &Ahead, light: &Light, things: &mut Vec<Thing>) {
    let mut dice = Dice::new(ahead.route.seed, 0x92, 0);
    let period = dice.between(280, 900);
    let phase = dice.between(0, period - 1);
    let nearest = dice.between(7, 26) * 1000;
    if dice.chance(18) {
        return;
    }
    let at = ahead.number as i64 + i64::from(phase);
    let (generation, within) = (at / i64::from(period), (at % i64::from(period)) as i32);
    // From far to near and back again in one generation.
    let share = (1 << 14) + cos((i64::from(within) * i64::from(TURN) / i64::from(period)) as i32);
    let mut look = Dice::new(ahead.route.seed, 0x93, generation);
    let kind = kind(&mut look);
    let (_, _, length) = kind.size();
    let z = nearest + length / 2 + ((i64::from(220_000 - nearest) * i64::from(share)) >> 15) as i32;
    let sway = look.between(-200, 200);
    let u = ahead.route.own * ahead.route.lane + ahead.route.lane / 2 + sway;
    let brake = within < period / 2 && within > period / 3 || slowing(ahead);
    let lit = Lit {
        head: light.lamps > 30,
        brake,
        indicator: blink(&mut look, ahead.number),
    };
    things.push(Thing {
        id: id(Kin::Traffic, generation, 600),
        class: Some(kind.class()),
        ..Thing::scenery(Body::Vehicle(kind, look.below(PAINTS), lit), z, u, 0)
    });
}

/// Whether the ego car slows down or stands, and the others of its direction with it.
fn slowing(ahead: &Ahead) -> bool {
    let (_, stretch, _) = ahead.at(0);
    let now = local(&ahead.route, stretch, ahead.now.since);
    stretch.wait.is_some() && now + 400 > local(&ahead.route, stretch, ahead.now.since + 1) && now < STRETCH
}

fn kind(dice: &mut Dice) -> VehicleKind {
    if dice.chance(72) {
        dice.pick(&VehicleKind::ALL[..7])
    } else {
        dice.pick(&VehicleKind::ALL[7..])
    }
}

fn blink(dice: &mut Dice, number: u32) -> i8 {
    let side = dice.pick(&[0, 0, 0, 0, 0, 0, 0, 0, -1, 1]);
    if (number / 4).is_multiple_of(2) { side } else { 0 }
}
