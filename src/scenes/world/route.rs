//! The route: stretches of road, each fixed by the drive's seed and its number.

use crate::scenes::fixed::{Dice, lerp, smooth};

/// Length of a stretch, in millimetres.
pub const STRETCH: i32 = 1 << 17;
/// Where crossing streets meet a stretch, in millimetres from its start.
pub const JUNCTION: i32 = 100_000;

/// What stands beside the road.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Houses wall to wall, sidewalks.
    Town,
    /// Houses with gardens and trees.
    Suburb,
    /// Meadows and trees.
    Country,
}

/// What rules a crossing street or a crossing for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Traffic lights.
    Lights,
    /// Signs.
    Signs,
}

/// One side of a stretch, measured outwards from the line between the directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Lanes on this side.
    pub lanes: i32,
    /// Where the lanes end.
    pub lanes_end: i32,
    /// Width of the parking strip; 0 for none.
    pub parking: i32,
    /// Width of the cycle lane; 0 for none.
    pub cycling: i32,
    /// Where the road ends.
    pub kerb: i32,
    /// Where the sidewalk ends; the kerb where there is none.
    pub walk: i32,
    /// Where the houses begin.
    pub front: i32,
}

/// What divides the directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Middle {
    /// Nothing: all lanes lead one way, or the road is too narrow for a line.
    Bare,
    /// A dashed line.
    Dashed,
    /// A line.
    Solid,
    /// Two lines.
    Double,
}

/// A stretch of the road.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Its number from the start of the drive.
    pub index: i64,
    /// What stands beside it.
    pub setting: Setting,
    /// The sides: left, right.
    pub sides: [Side; 2],
    /// What divides them.
    pub middle: Middle,
    /// Edge lines are drawn.
    pub edged: bool,
    /// A crossing street: half of its width, and what rules it.
    pub junction: Option<(i32, Rule)>,
    /// A crossing for people away from junctions: where it starts.
    pub zebra: Option<i32>,
    /// The ego waits at its lights, so many frames.
    pub wait: Option<i32>,
    /// Curvature in its middle, 1/2^30 per millimetre.
    pub curvature: i32,
}

/// What is the same on the whole route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Seed of the drive.
    pub seed: u64,
    /// Width of a lane.
    pub lane: i32,
    /// Lane of the ego, counted from the line between the directions.
    pub own: i32,
    /// How the settings are mixed: per cent of town and of suburb.
    towns: [u32; 2],
}

impl Route {
    /// The route of a drive.
    pub fn new(seed: u64) -> Route {
        let mut dice = Dice::new(seed, 0x20, 0);
        let towns = dice.pick(&[[90, 10], [60, 30], [40, 30], [20, 60], [10, 25], [45, 30]]);
        Route {
            seed,
            lane: dice.between(30, 36) * 100,
            own: dice.pick(&[0, 0, 0, 1, 1, 2]),
            towns,
        }
    }

    /// A stretch of it.
    pub fn stretch(&self, index: i64) -> Stretch {
        let mut run = Dice::new(self.seed, 0x21, index.div_euclid(3));
        let setting = match run.below(100) {
            roll if roll < self.towns[0] => Setting::Town,
            roll if roll < self.towns[0] + self.towns[1] => Setting::Suburb,
            _ => Setting::Country,
        };
        let sides = [self.side(&mut run, setting, false), self.side(&mut run, setting, true)];
        let middle = if sides[0].lanes == 0 {
            Middle::Bare
        } else {
            run.pick(&[Middle::Dashed, Middle::Dashed, Middle::Solid, Middle::Double])
        };
        let edged = setting == Setting::Country || run.chance(30);
        let mut dice = Dice::new(self.seed, 0x22, index);
        let (junctions, lights) = match setting {
            Setting::Town => (72, 84),
            Setting::Suburb => (60, 70),
            Setting::Country => (40, 60),
        };
        let junction = dice.chance(junctions).then(|| {
            (
                dice.between(40, 68) * 100,
                if dice.chance(lights) { Rule::Lights } else { Rule::Signs },
            )
        });
        let zebra = (setting != Setting::Country && dice.chance(45)).then(|| dice.between(30, 60) * 1000);
        let wait = (matches!(junction, Some((_, Rule::Lights))) && dice.chance(28)).then(|| dice.between(20, 60));
        let sharp = if setting == Setting::Country { 5200 } else { 2700 };
        let curvature = if dice.chance(45) { 0 } else { dice.between(-sharp, sharp) };
        Stretch {
            index,
            setting,
            sides,
            middle,
            edged,
            junction,
            zebra,
            wait,
            curvature,
        }
    }

    fn side(&self, dice: &mut Dice, setting: Setting, right: bool) -> Side {
        let lanes = if right {
            self.own + 1 + dice.pick(&[0, 0, 1])
        } else {
            dice.pick(&[0, 1, 1, 1, 2, 2, 3])
        };
        let lanes_end = lanes.max(if right { 1 } else { 0 }) * self.lane;
        let built = setting != Setting::Country;
        let cycling = if built && dice.chance(25) { dice.between(14, 19) * 100 } else { 0 };
        let parking = if built && dice.chance(50) { dice.between(21, 24) * 100 } else { 0 };
        let shoulder = if cycling + parking > 0 { 0 } else { dice.between(2, 9) * 100 };
        let kerb = lanes_end + cycling + parking + shoulder;
        let walk = match setting {
            Setting::Town => kerb + dice.between(24, 52) * 100,
            Setting::Suburb => kerb + dice.between(16, 30) * 100,
            Setting::Country => kerb + if dice.chance(20) { dice.between(14, 24) * 100 } else { 0 },
        };
        let front = match setting {
            Setting::Town => walk + dice.between(0, 10) * 100,
            Setting::Suburb => walk + dice.between(40, 90) * 100,
            Setting::Country => walk + dice.between(60, 140) * 100,
        };
        Side {
            lanes,
            lanes_end,
            parking,
            cycling,
            kerb,
            walk,
            front,
        }
    }

    /// Curvature at a place, 1/2^30 per millimetre: eases from the middle of one stretch to that of the next.
    pub fn curvature(&self, before: &Stretch, here: &Stretch, after: &Stretch, local: i32) -> i32 {
        let half = STRETCH / 2;
        let (from, to, at) = if local < half {
            (before, here, local + half)
        } else {
            (here, after, local - half)
        };
        lerp(from.curvature, to.curvature, smooth(at, STRETCH), 256)
    }
}

impl Stretch {
    /// Where kerb and sidewalk end on a side at `local`; easing from the stretch before in the first 24 m.
    pub fn edges(&self, before: &Stretch, side: usize, local: i32) -> (i32, i32) {
        let share = smooth(local, 24_000);
        let (from, to) = (&before.sides[side], &self.sides[side]);
        (lerp(from.kerb, to.kerb, share, 256), lerp(from.walk, to.walk, share, 256))
    }

    /// Start and end of the crossings for people on it.
    pub fn zebras(&self) -> impl Iterator<Item = (i32, i32)> {
        let beside = match self.junction {
            Some((half, _)) if self.setting != Setting::Country => [
                Some((JUNCTION - half - 5200, JUNCTION - half - 1700)),
                Some((JUNCTION + half + 1700, JUNCTION + half + 5200)),
            ],
            _ => [None, None],
        };
        beside.into_iter().flatten().chain(self.zebra.map(|start| (start, start + 3800)))
    }

    /// Where one stops before the junction.
    pub fn stop_line(&self) -> Option<i32> {
        self.junction
            .map(|(half, _)| JUNCTION - half - if self.setting == Setting::Country { 1800 } else { 6800 })
    }
}
