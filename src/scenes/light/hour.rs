//! The hours of a clear day: colours of the sky and of the light that comes from it.

use crate::scenes::mesh::Rgb;

/// Light at an hour of a clear day.
pub struct Hour {
    /// Colour of the sky overhead.
    pub top: Rgb,
    /// Colour of the sky at the horizon.
    pub horizon: Rgb,
    /// Colour of clouds.
    pub cloud: Rgb,
    /// Colour of the light that comes straight from the sun or moon, 256 = white.
    pub sun: [i32; 3],
    /// Colour of the light from all over the sky.
    pub ambient: [i32; 3],
    /// Height of the sun, in 1/4096 turns.
    pub height: i32,
    /// How far the lamps are on, 0..=256.
    pub lamps: i32,
}

/// A day, from morning to night.
pub const HOURS: [Hour; 6] = [
    Hour {
        top: Rgb(108, 160, 214),
        horizon: Rgb(238, 224, 204),
        cloud: Rgb(255, 244, 232),
        sun: [196, 172, 138],
        ambient: [126, 134, 150],
        height: 260,
        lamps: 0,
    },
    Hour {
        top: Rgb(62, 124, 204),
        horizon: Rgb(182, 212, 234),
        cloud: Rgb(252, 252, 255),
        sun: [176, 170, 154],
        ambient: [132, 140, 154],
        height: 620,
        lamps: 0,
    },
    Hour {
        top: Rgb(78, 136, 204),
        horizon: Rgb(208, 216, 222),
        cloud: Rgb(255, 250, 240),
        sun: [190, 170, 134],
        ambient: [124, 132, 146],
        height: 420,
        lamps: 0,
    },
    Hour {
        top: Rgb(92, 118, 172),
        horizon: Rgb(252, 206, 148),
        cloud: Rgb(255, 206, 164),
        sun: [222, 146, 72],
        ambient: [112, 108, 124],
        height: 150,
        lamps: 40,
    },
    Hour {
        top: Rgb(46, 54, 98),
        horizon: Rgb(222, 146, 122),
        cloud: Rgb(176, 122, 134),
        sun: [44, 34, 36],
        ambient: [88, 84, 108],
        height: 120,
        lamps: 170,
    },
    Hour {
        top: Rgb(14, 18, 38),
        horizon: Rgb(46, 50, 76),
        cloud: Rgb(58, 60, 80),
        sun: [22, 26, 38],
        ambient: [46, 50, 72],
        height: 500,
        lamps: 256,
    },
];
