//! What the lens and the sensor do to the picture: darker corners, exposure, noise.

use crate::scenes::fixed::{Dice, mix};
use crate::scenes::light::Light;
use crate::scenes::{HEIGHT, WIDTH};

/// Noise values kept; rows start at random places in them.
const TILE: usize = 1 << 16;

/// The sensor.
#[derive(Clone, Debug)]
pub struct Sensor {
    noise: Vec<i8>,
    /// Share of light that is kept by column, 256 times for each channel.
    columns: Vec<u16>,
}

impl Sensor {
    /// Makes the noise.
    pub fn new() -> Sensor {
        // The sum of four dice is close to a bell.
        let noise = (0..TILE + WIDTH * 3)
            .map(|at| {
                let bits = mix(at as u64 ^ 0x5E45);
                let sum: i32 = (0..4).map(|die| (bits >> (die * 8)) as i32 & 63).sum();
                (sum - 126) as i8
            })
            .collect();
        let middle = (WIDTH / 2) as i32;
        let columns = (0..WIDTH * 3)
            .map(|at| {
                let aside = at as i32 / 3 - middle;
                (256 - aside * aside * 18 / (middle * middle)) as u16
            })
            .collect();
        Sensor { noise, columns }
    }

    /// Takes the picture.
    pub fn take(&self, pixels: &mut [u8], light: &Light, seed: u64, number: u32) {
        let mut drive = Dice::new(seed, 0xA0, 0);
        // 128 is one.
        let exposure = drive.between(122, 158);
        let strength = (drive.between(2, 9) + light.lamps / 26) as i16;
        let mut dice = Dice::new(seed, 0xA1, i64::from(number));
        for (y, row) in pixels.chunks_exact_mut(WIDTH * 3).enumerate() {
            let aside = y as i32 - (HEIGHT / 2) as i32;
            let gain = ((exposure * (256 - aside * aside * 10 / (360 * 360))) >> 8) as u16;
            let from = dice.below(TILE as u32) as usize;
            let noise = &self.noise[from..from + WIDTH * 3];
            for ((value, &column), &grain) in row.iter_mut().zip(&self.columns).zip(noise) {
                // 128 is one: the products fit 16 bits, which makes the row twice as fast.
                let kept = (u16::from(*value) * ((gain * column) >> 8)) >> 7;
                *value = (kept as i16 + ((i16::from(grain) * strength) >> 7)).clamp(0, 255) as u8;
            }
        }
    }
}
