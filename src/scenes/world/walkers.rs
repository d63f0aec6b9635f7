//! People on foot and on bicycles.
//!
//! Their places follow from the frames since the ego car came to their stretch, so that they are where it meets them. People
//! on crossings have reached the other side before it comes, or walk while it waits.

use super::ahead::Ahead;
use super::pace::{CRUISE, STANDING};
use super::route::{STRETCH, Setting, Side, Stretch};
use super::thing::{Kin, Thing, id};
use crate::scenes::fixed::Dice;
use crate::scenes::models::body::Body;
use crate::scenes::truth::Class;

/// Depths between which people are set up, in millimetres.
const SIGHT: std::ops::Range<i32> = -3_000..120_000;
/// Looks of people.
const LOOKS: u32 = 64;
/// Steps in which strides and pedals turn, in 1/4096 turns.
const PHASE: u32 = 256;
/// Length of a stride of two steps and of a turn of the pedals, in millimetres.
const STRIDE: i64 = 1400;
const PEDAL: i64 = 4800;

/// Puts the people in place.
pub fn walk(ahead: &Ahead, things: &mut Vec<Thing>) {
    for (before, stretch, start, until) in ahead.stretches() {
        if start > SIGHT.end || start + STRETCH < -60_000 {
            continue;
        }
        for side in 0..2 {
            on_sidewalk(ahead, before, stretch, start, -until, side, things);
            on_wheels(ahead, stretch, start, -until, side, things);
        }
        on_crossings(ahead, stretch, start, -until, things);
    }
}

fn phase(way: i64, length: i64) -> u32 {
    ((way * 4096).div_euclid(length).rem_euclid(4096) as u32) / PHASE * PHASE
}

fn on_sidewalk(ahead: &Ahead, before: &Stretch, stretch: &Stretch, start: i32, since: i32, side: usize, things: &mut Vec<Thing>) {
    let mut dice = Dice::new(ahead.route.seed, 0xD0 + side as u64, stretch.index);
    let beside = &stretch.sides[side];
    let sign = if side == 0 { -1 } else { 1 };
    let wide = beside.walk - beside.kerb;
    let most = match stretch.setting {
        Setting::Town => 16,
        Setting::Suburb => 8,
        Setting::Country => 3,
    };
    if wide < 1300 {
        return;
    }
    for index in 0..dice.between(0, most) {
        let (base, pace, stands) = (dice.between(0, STRETCH), dice.between(80, 165), dice.chance(18));
        let (look, away, aside, turn) = (dice.below(LOOKS), dice.chance(50), dice.between(0, 1000), dice.between(-100, 100));
        let direction = if away { 1 } else { -1 };
        let way = if stands { 0 } else { pace * since };
        let local = base + direction * way;
        let z = start + local;
        if !SIGHT.contains(&z) {
            continue;
        }
        let (kerb, walk) = if (0..STRETCH).contains(&local) {
            stretch.edges(before, side, local)
        } else {
            (beside.kerb, beside.walk)
        };
        let u = sign * (kerb + 450 + (walk - kerb - 800).max(100) * aside / 1000);
        let yaw = if stands { turn * 20 } else { turn + if away { 0 } else { 2048 } };
        let body = Body::Person(look, phase(i64::from(way) + i64::from(base), STRIDE));
        let body = if stands { Body::Person(look, 0) } else { body };
        things.push(Thing {
            id: id(Kin::Walker, stretch.index, side * 64 + index as usize),
            class: Some(Class::Person),
            ..Thing::scenery(body, z, u, yaw)
        });
    }
}

fn on_crossings(ahead: &Ahead, stretch: &Stretch, start: i32, since: i32, things: &mut Vec<Thing>) {
    for (number, (from, to)) in stretch.zebras().enumerate() {
        let mut dice = Dice::new(ahead.route.seed, 0xD4 + number as u64, stretch.index);
        let (left, right) = (-stretch.sides[0].kerb - 900, stretch.sides[1].kerb + 900);
        for index in 0..dice.between(0, 5) {
            let (local, pace, early) = (dice.between(from + 300, to - 300), dice.between(95, 160), dice.between(14, 70));
            let (look, rightward) = (dice.below(LOOKS), dice.chance(50));
            let free = match stretch.wait {
                Some(wait) if from > super::pace::HALT => STANDING + wait + 8 - early / 3,
                _ => from / (STRETCH / CRUISE) - early,
            };
            // Millimetres left to the other side.
            let left_over = (free - since) * pace;
            let width = right - left;
            let way = (width - left_over).clamp(0, width);
            let u = if rightward { left + way } else { right - way };
            let z = start + local;
            let still = way == 0 || way == width;
            if !SIGHT.contains(&z) {
                continue;
            }
            let body = Body::Person(look, if still { 0 } else { phase(i64::from(way), STRIDE) });
            things.push(Thing {
                id: id(Kin::Walker, stretch.index, 128 + number * 8 + index as usize),
                class: Some(Class::Person),
                ..Thing::scenery(body, z, u, if rightward { 1024 } else { -1024 })
            });
        }
    }
}

/// Where cyclists ride on a side.
fn track(side: &Side) -> i32 {
    if side.cycling > 0 {
        side.lanes_end + side.cycling / 2
    } else {
        side.lanes_end - 550
    }
}

fn on_wheels(ahead: &Ahead, stretch: &Stretch, start: i32, since: i32, side: usize, things: &mut Vec<Thing>) {
    let mut dice = Dice::new(ahead.route.seed, 0xD2 + side as u64, stretch.index);
    let beside = &stretch.sides[side];
    let sign = if side == 0 { -1 } else { 1 };
    if beside.lanes == 0 {
        return;
    }
    for index in 0..dice.pick(&[0, 0, 1, 1, 2, 3]) {
        let (base, pace, look, aside) = (
            dice.between(0, STRETCH),
            dice.between(330, 560),
            dice.below(LOOKS),
            dice.between(-200, 200),
        );
        let way = pace * since;
        let z = start + base + if side == 0 { -way } else { way };
        if !SIGHT.contains(&z) {
            continue;
        }
        let (_, here, local) = ahead.at(z);
        let u = sign * track(if local > 24_000 { &here.sides[side] } else { beside }) + aside;
        let body = Body::Cyclist(look, phase(i64::from(way) + i64::from(base), PEDAL));
        things.push(Thing {
            id: id(Kin::Cyclist, stretch.index, side * 16 + index as usize),
            class: Some(Class::Cyclist),
            ..Thing::scenery(body, z, u, if side == 0 { 2048 } else { 0 } + aside / 8)
        });
    }
}
