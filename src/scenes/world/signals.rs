//! What the traffic lights of a stretch show, by the frames since the ego car came to it.
//!
//! Where the car waits, its lights turn red before it and green when its wait ends; elsewhere they turn green before it comes
//! or yellow as it passes; some are out of order.

use super::pace::{CRUISE, STANDING};
use super::route::{JUNCTION, Route, STRETCH, Stretch};
use crate::scenes::fixed::Dice;
use crate::scenes::truth::Signal;

/// What the lights show `since` frames after the car came to the stretch; negative before.
pub fn shown(route: &Route, stretch: &Stretch, since: i32) -> Signal {
    let mut dice = Dice::new(route.seed, 0x80, stretch.index);
    let (roll, early, long) = (dice.below(100), dice.between(-70, 50), dice.between(20, 44));
    if let Some(wait) = stretch.wait {
        let go = STANDING + wait - 4;
        return match since {
            _ if since >= go => Signal::Green,
            _ if since >= go - long / 2 => Signal::Yellow,
            _ if since >= early + long => Signal::Red,
            _ if since >= early => Signal::Yellow,
            _ => Signal::Green,
        };
    }
    // About when the car passes the lights.
    let pass = CRUISE * (JUNCTION / 1000) / (STRETCH / 1000);
    match roll {
        0..34 => Signal::Off,
        34..62 => match since {
            _ if since >= early => Signal::Green,
            _ if since >= early - long => Signal::Yellow,
            _ => Signal::Red,
        },
        _ => {
            let turn = pass + 4 - long - early.rem_euclid(24);
            match since {
                _ if since >= turn + long => Signal::Red,
                _ if since >= turn => Signal::Yellow,
                _ => Signal::Green,
            }
        }
    }
}
