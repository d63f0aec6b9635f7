//! How the ego car moves along the route: at which frame it is where.
//!
//! Every stretch is entered and left at the same speed. On most the speed swells and ebbs once; on some the car waits at the
//! lights. So a frame's place follows from adding up whole stretches, with no state kept from frame to frame.

use super::route::{Route, STRETCH, Stretch};
use crate::scenes::fixed::{Dice, TURN, cos};

/// Frames that a stretch takes without a wait: 10.9 m/s at ten frames a second.
pub const CRUISE: i32 = 120;
/// Where the car waits, in millimetres from the start of the stretch.
pub const HALT: i32 = STRETCH / 8 * 5;
/// Frames in which it comes to a halt or gets up to speed again, over twice this many cruising frames' half.
const BRAKE: i32 = 60;
/// Frames from the start of a stretch with a wait until the car stands.
pub const STANDING: i32 = CRUISE * 5 / 8 - BRAKE / 2 + BRAKE;

/// Where the car is in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The stretch that it is on.
    pub index: i64,
    /// Frames since it came there.
    pub since: i32,
    /// Millimetres since the start of the stretch.
    pub local: i32,
}

/// Frames that the car spends on a stretch.
pub fn frames(stretch: &Stretch) -> i32 {
    match stretch.wait {
        Some(wait) => CRUISE + BRAKE + wait,
        None => CRUISE,
    }
}

/// Place on a stretch so many frames after its start, in millimetres.
pub fn local(route: &Route, stretch: &Stretch, since: i32) -> i32 {
    let cruise = |frames: i32| STRETCH / CRUISE * frames + STRETCH % CRUISE * frames / CRUISE;
    let Some(wait) = stretch.wait else {
        let mut dice = Dice::new(route.seed, 0x30, stretch.index);
        // Up to 0.25 of the speed faster or slower in between.
        let swell = dice.between(-5000, 5000);
        return cruise(since) + ((i64::from(swell) * i64::from((1 << 14) - cos(since * TURN / CRUISE))) >> 14) as i32;
    };
    let start = STANDING - BRAKE;
    if since < start {
        return cruise(since);
    }
    // Steady braking: half of the way that cruising would make.
    let reach = cruise(BRAKE) / 2;
    if since < STANDING {
        let left = STANDING - since;
        return HALT - reach * left / BRAKE * left / BRAKE;
    }
    let moving = since - STANDING - wait;
    if moving <= 0 {
        HALT
    } else if moving < BRAKE {
        HALT + reach * moving / BRAKE * moving / BRAKE
    } else {
        HALT + reach + cruise(moving - BRAKE)
    }
}

/// Where the car is at a frame. Takes time in proportion to the stretches behind it.
pub fn moment(route: &Route, number: u32) -> Moment {
    let mut left = i64::from(number) + 40;
    let mut index = 0;
    loop {
        let stretch = route.stretch(index);
        let whole = i64::from(frames(&stretch));
        if left < whole {
            let since = left as i32;
            return Moment {
                index,
                since,
                local: local(route, &stretch, since),
            };
        }
        left -= whole;
        index += 1;
    }
}

/// Frames from now until the car comes to the start of a stretch nearby; negative once it was there.
pub fn until(route: &Route, now: &Moment, index: i64) -> i32 {
    let mut frames_between = -now.since;
    for passed in now.index..index {
        frames_between += frames(&route.stretch(passed));
    }
    for behind in index..now.index {
        frames_between -= frames(&route.stretch(behind));
    }
    frames_between
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_car_never_jumps_nor_goes_back() {
        for seed in 0..20 {
            let route = Route::new(seed);
            let mut last = None;
            for number in 0..2000 {
                let now = moment(&route, number);
                let place = now.index * i64::from(STRETCH) + i64::from(now.local);
                if let Some(last) = last {
                    assert!((0..1600).contains(&(place - last)), "seed {seed} frame {number}: {}", place - last);
                }
                last = Some(place);
            }
        }
    }

    #[test]
    fn it_waits_before_the_stop_line() {
        let mut waits = 0;
        for seed in 0..40 {
            let route = Route::new(seed);
            for index in 0..20 {
                let stretch = route.stretch(index);
                if stretch.wait.is_some() {
                    waits += 1;
                    assert_eq!(local(&route, &stretch, STANDING), HALT);
                    assert!(stretch.stop_line().unwrap() > HALT + 2000);
                }
            }
        }
        assert!(waits > 50, "{waits}");
    }
}
