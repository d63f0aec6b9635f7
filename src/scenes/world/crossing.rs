//! Vehicles of the crossing streets: they wait beside the road, and cross it while the ego car waits at the lights.

use super::ahead::Ahead;
use super::pace::STANDING;
use super::route::JUNCTION;
use super::thing::{Kin, Thing, id};
use crate::scenes::fixed::Dice;
use crate::scenes::light::Light;
use crate::scenes::models::VehicleKind;
use crate::scenes::models::body::{Body, Lit};
use crate::scenes::truth::Surface;

/// Depths between which they are set up, in millimetres.
const SIGHT: std::ops::Range<i32> = -2_000..150_000;
/// Speed of those that cross, in millimetres a frame.
const PACE: i32 = 880;

/// Puts the vehicles of crossing streets in place. Where one would stand in another vehicle, it is left out.
pub fn cross(ahead: &Ahead, light: &Light, things: &mut Vec<Thing>) {
    for (_, stretch, start, until) in ahead.stretches() {
        let Some((half, _)) = stretch.junction else { continue };
        let z = start + JUNCTION;
        if !SIGHT.contains(&z) {
            continue;
        }
        let mut dice = Dice::new(ahead.route.seed, 0xF0, stretch.index);
        let mut put = |dice: &mut Dice, index: usize, rightward: bool, u: i32| {
            let kind = if dice.chance(80) {
                dice.pick(&VehicleKind::ALL[..7])
            } else {
                dice.pick(&VehicleKind::ALL[7..])
            };
            let (width, _, length) = kind.size();
            let lit = Lit {
                head: light.lamps > 30,
                brake: false,
                indicator: 0,
            };
            // To the right they drive on the near half.
            let z = z + if rightward { -half / 2 } else { half / 2 };
            let u = if rightward { u - length / 2 } else { u + length / 2 };
            let taken = things.iter().any(|thing| {
                let Body::Vehicle(other, ..) = thing.body else { return false };
                let (other_width, _, other_length) = other.size();
                thing.surface() == Surface::Vehicle
                    && (thing.z - z).abs() < (other_length + width) / 2 + 600
                    && (thing.u - u).abs() < (other_width + length) / 2 + 600
            });
            let body = Body::Vehicle(kind, dice.below(40), lit);
            if !taken && u.abs() < 90_000 {
                things.push(Thing {
                    id: id(Kin::Traffic, stretch.index, 700 + index),
                    class: Some(kind.class()),
                    ..Thing::scenery(body, z, u, if rightward { 1024 } else { -1024 })
                });
            }
        };
        let (left, right) = (-stretch.sides[0].kerb - 6500, stretch.sides[1].kerb + 6500);
        match stretch.wait {
            Some(wait) => {
                for index in 0..4 {
                    let rightward = index % 2 == 0;
                    let (middle, comes) = (dice.between(20, STANDING + wait - 30), dice.chance(75));
                    let way = (-until - middle) * PACE;
                    if comes {
                        put(&mut dice, index, rightward, if rightward { way } else { -way });
                    }
                }
            }
            None => {
                for (index, (u, rightward)) in [(left, true), (right, false)].into_iter().enumerate() {
                    if dice.chance(50) {
                        put(&mut dice, 8 + index, rightward, u);
                    }
                }
            }
        }
    }
}
