//! What the ground of a drive is made of: its colours, and how its marks are painted and worn.

use crate::scenes::fixed::Dice;
use crate::scenes::light::mixed;
use crate::scenes::mesh::Rgb;

/// Colours of the ground of one drive.
#[derive(Clone, Copy, Debug)]
pub struct Soil {
    /// Colour of the road.
    pub road: Rgb,
    /// Colour of cycle lanes.
    pub cycling: Rgb,
    /// Colour of sidewalks.
    pub paving: Rgb,
    /// Colour of kerbs.
    pub kerb: Rgb,
    /// Colour of verges and meadows.
    pub meadow: Rgb,
    /// Colour of the marks.
    pub paint: Rgb,
    /// Colour of the line between the directions.
    pub middle: Rgb,
    /// How well the marks still cover, 0..=256.
    pub cover: i32,
    /// Length of dashes and of their period, in millimetres.
    pub dash: (i32, i32),
}

impl Soil {
    /// The colours of a drive.
    pub fn new(seed: u64) -> Soil {
        let mut dice = Dice::new(seed, 0x40, 0);
        let grey = dice.between(82, 128);
        let tint = dice.between(-5, 6);
        let shade = |value: i32| value.clamp(0, 255) as u8;
        let paving = dice.pick(&[
            Rgb(168, 162, 154),
            Rgb(150, 150, 150),
            Rgb(178, 166, 150),
            Rgb(160, 148, 140),
            Rgb(140, 142, 146),
        ]);
        let paint = Rgb(238, 238, 232);
        Soil {
            road: Rgb(shade(grey + tint), shade(grey), shade(grey + 3 - tint)),
            cycling: if dice.chance(45) {
                Rgb(146, 84, 74)
            } else {
                Rgb(shade(grey + 6), shade(grey + 4), shade(grey + 2))
            },
            paving,
            kerb: mixed(paving, Rgb(214, 212, 206), 150),
            meadow: dice.pick(&[
                Rgb(94, 128, 62),
                Rgb(108, 134, 66),
                Rgb(84, 116, 60),
                Rgb(136, 136, 78),
                Rgb(116, 126, 72),
                Rgb(150, 134, 88),
            ]),
            paint,
            middle: if dice.chance(20) { Rgb(236, 186, 62) } else { paint },
            cover: dice.between(170, 256),
            dash: dice.pick(&[(3000, 9000), (4000, 12000), (6000, 12000), (3000, 6000), (3000, 12000)]),
        }
    }
}
