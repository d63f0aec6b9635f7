//! What lies ahead in one frame: the stretches in sight and when the car comes to them.

use super::pace::{Moment, moment, until};
use super::route::{Route, STRETCH, Stretch};

/// Stretches in sight: one behind, the car's own, and three ahead.
const IN_SIGHT: usize = 5;

/// The route around the car in one frame.
#[derive(Clone, Debug)]
pub struct Ahead {
    /// The whole route.
    pub route: Route,
    /// Where the car is.
    pub now: Moment,
    /// Number of the frame.
    pub number: u32,
    /// Stretches, from the one behind the car's own.
    stretches: [Stretch; IN_SIGHT],
    /// Frames until the car comes to the start of each.
    until: [i32; IN_SIGHT],
}

impl Ahead {
    /// What lies ahead at a frame.
    pub fn new(route: &Route, number: u32) -> Ahead {
        let now = moment(route, number);
        let index = |slot: usize| now.index - 1 + slot as i64;
        Ahead {
            route: *route,
            now,
            number,
            stretches: std::array::from_fn(|slot| route.stretch(index(slot))),
            until: std::array::from_fn(|slot| until(route, &now, index(slot))),
        }
    }

    /// The stretches in sight whose predecessor is known: the one before each, itself, depth of its start, frames until there.
    pub fn stretches(&self) -> impl Iterator<Item = (&Stretch, &Stretch, i32, i32)> {
        (1..IN_SIGHT).map(|slot| {
            let start = (slot as i32 - 1) * STRETCH - self.now.local;
            (&self.stretches[slot - 1], &self.stretches[slot], start, self.until[slot])
        })
    }

    /// The stretch at a depth, the one before it, and the place on it.
    pub fn at(&self, z: i32) -> (&Stretch, &Stretch, i32) {
        let s = self.now.local + z;
        let slot = (s.div_euclid(STRETCH) + 1).clamp(1, IN_SIGHT as i32 - 1) as usize;
        (&self.stretches[slot - 1], &self.stretches[slot], s - (slot as i32 - 1) * STRETCH)
    }

    /// Curvature at a depth, 1/2^30 per millimetre.
    pub fn curvature(&self, z: i32) -> i32 {
        let s = self.now.local + z;
        let slot = (s.div_euclid(STRETCH) + 1).clamp(1, IN_SIGHT as i32 - 2) as usize;
        let local = (s - (slot as i32 - 1) * STRETCH).clamp(0, STRETCH - 1);
        self.route
            .curvature(&self.stretches[slot - 1], &self.stretches[slot], &self.stretches[slot + 1], local)
    }

    /// How far the route has turned to the right since its start: an angle of 2^30 is one radian.
    pub fn turned(&self) -> i64 {
        let mut sum = 0i64;
        for index in 0..self.now.index {
            sum += i64::from(self.route.stretch(index).curvature);
        }
        let local = i64::from(self.now.local);
        let stretch = i64::from(STRETCH);
        // The curvature eases from one stretch to the next, so that the turn of the current one lags by at most a part of it.
        let (_, here, _) = self.at(0);
        sum * stretch + i64::from(here.curvature) * local
    }

    /// Millimetres of the route that lie behind a depth.
    pub fn total(&self, z: i32) -> i64 {
        self.now.index * i64::from(STRETCH) + i64::from(self.now.local + z)
    }
}
