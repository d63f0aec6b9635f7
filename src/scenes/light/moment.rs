//! Light of a moment, from hour and weather: what colours the sky has, how faces take light, how distance dims them.

use super::colour::{lit, mixed};
use super::hour::HOURS;
use crate::scenes::fixed::{Dice, ONE, cos, lerp, sin};
use crate::scenes::mesh::{Finish, Point, Rgb};

/// Depths for which the haze is known, in metres.
const REACH: usize = 320;

/// What falls from the sky.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Falling {
    /// Nothing.
    Nothing,
    /// Rain.
    Rain,
    /// Snow.
    Snow,
}

/// Light of a moment.
#[derive(Clone, Debug)]
pub struct Light {
    /// Colour of the sky overhead.
    pub top: Rgb,
    /// Colour of the sky at the horizon, which is the colour of the haze.
    pub horizon: Rgb,
    /// Colour of clouds.
    pub cloud: Rgb,
    /// How much of the sky they cover, 0..=256.
    pub cover: i32,
    /// Direct light, 256 = white.
    pub sun: [i32; 3],
    /// Light from everywhere, 256 = white.
    pub ambient: [i32; 3],
    /// Towards the sun, a unit vector in 1/[`ONE`].
    pub toward: Point,
    /// How far the lamps are on, 0..=256.
    pub lamps: i32,
    /// Depth over which the haze leaves a share of 1/e, in metres.
    pub clear: i32,
    /// How wet the road is, 0..=256.
    pub wet: i32,
    /// How white the ground is from snow, 0..=256.
    pub snow: i32,
    /// What falls.
    pub falling: Falling,
    /// Share of haze by metres of depth, 0..=256.
    haze: Vec<u16>,
}

impl Light {
    /// The light of a drive at a frame.
    pub fn new(seed: u64, number: u32) -> Light {
        let mut dice = Dice::new(seed, 0x51, 0);
        // 256 steps from one hour to the next; in some drives the hour moves on while one watches.
        let start = match dice.below(100) {
            0..50 => dice.between(0, 600),
            50..66 => dice.between(600, 800),
            66..82 => dice.between(800, 1100),
            _ => 1280,
        };
        let pace = dice.pick(&[0, 0, 0, 1, 2, 4]);
        let at = (i64::from(start) + i64::from(number) * pace / 16).min(1280) as i32;
        let (index, share) = ((at >> 8).min(4) as usize, if at >= 1280 { 256 } else { at & 255 });
        let (a, b) = (&HOURS[index], &HOURS[index + 1]);
        let light = |a: [i32; 3], b: [i32; 3]| [0, 1, 2].map(|i| lerp(a[i], b[i], share, 256));
        let (height, azimuth) = (lerp(a.height, b.height, share, 256), dice.between(0, 4095));
        let mut light = Light {
            top: mixed(a.top, b.top, share),
            horizon: mixed(a.horizon, b.horizon, share),
            cloud: mixed(a.cloud, b.cloud, share),
            cover: dice.between(0, 150),
            sun: light(a.sun, b.sun),
            ambient: light(a.ambient, b.ambient),
            toward: Point {
                x: sin(azimuth) * cos(height) / ONE,
                y: sin(height),
                z: cos(azimuth) * cos(height) / ONE,
            },
            lamps: lerp(a.lamps, b.lamps, share, 256),
            clear: dice.between(280, 900),
            wet: 0,
            snow: 0,
            falling: Falling::Nothing,
            haze: Vec::new(),
        };
        light.weather(&mut dice);
        light.fill_haze();
        light
    }

    /// Changes a clear day into that of the drive.
    fn weather(&mut self, dice: &mut Dice) {
        match dice.below(100) {
            0..52 => {}
            52..70 => self.overcast(dice.between(90, 240)),
            70..79 => {
                self.overcast(dice.between(160, 256));
                self.clear = dice.between(45, 120);
            }
            79..92 => {
                self.overcast(dice.between(190, 256));
                self.clear = dice.between(110, 240);
                self.wet = dice.between(110, 256);
                self.falling = Falling::Rain;
                self.lamps = self.lamps.max(70);
            }
            92..95 => {
                // After the rain.
                self.wet = dice.between(90, 220);
                self.cover = dice.between(120, 200);
            }
            _ => {
                self.overcast(dice.between(190, 256));
                self.clear = dice.between(90, 200);
                self.snow = dice.between(60, 235);
                self.wet = dice.between(0, 90);
                self.falling = Falling::Snow;
                self.lamps = self.lamps.max(50);
            }
        }
    }

    /// Draws clouds over the whole sky, `much` of 256.
    fn overcast(&mut self, much: i32) {
        let grey = |colour: Rgb, lift: i32| {
            let mean = ((i32::from(colour.0) + i32::from(colour.1) + i32::from(colour.2)) / 3 + lift).clamp(0, 255) as u8;
            Rgb(mean, mean, mean.saturating_add(4))
        };
        self.horizon = mixed(self.horizon, grey(self.horizon, -30), much);
        self.top = mixed(self.top, mixed(grey(self.top, 20), self.horizon, 120), much);
        self.cloud = mixed(self.cloud, grey(self.horizon, -14), much);
        self.cover = self.cover.max(much);
        let mean = (self.sun[0] + self.sun[1] + self.sun[2]) / 3;
        for channel in 0..3 {
            let sun = self.sun[channel];
            self.sun[channel] = sun - ((sun * much * 9 / 10) >> 8);
            self.ambient[channel] += (mean * much / 3) >> 8;
        }
    }

    fn fill_haze(&mut self) {
        let mut left = 1i32 << 16;
        for _ in 0..REACH {
            self.haze.push((((1 << 16) - left) >> 8) as u16);
            left -= left / self.clear;
        }
    }

    /// Share of haze at a depth in millimetres, 0..=256.
    pub fn haze(&self, z: i32) -> i32 {
        i32::from(self.haze[(z / 1000).clamp(0, REACH as i32 - 1) as usize])
    }

    /// A colour seen through the haze from a depth in millimetres.
    pub fn through(&self, colour: Rgb, z: i32) -> Rgb {
        mixed(colour, self.horizon, self.haze(z))
    }

    /// Light of the car's own lamps at a depth, straight ahead, 0..=256.
    pub fn beam(&self, z: i32) -> i32 {
        let decimetres = (z / 100).clamp(0, 650);
        let far = 650 - decimetres;
        (self.lamps * far / 650 * far / 650).min(self.lamps * (decimetres + 50) / 140)
    }

    /// Light on a flat thing with its normal (a unit vector in 1/[`ONE`]), 256 = white.
    pub fn on(&self, normal: Point, beam: i32) -> [i32; 3] {
        let facing = (i64::from(normal.x) * i64::from(self.toward.x)
            + i64::from(normal.y) * i64::from(self.toward.y)
            + i64::from(normal.z) * i64::from(self.toward.z))
            >> 14;
        let direct = (facing.max(0) >> 6) as i32;
        // The ground sends back less light than the sky.
        let open = 226 + normal.y * 30 / ONE;
        let warm = [beam, beam * 15 / 16, beam * 13 / 16];
        [0, 1, 2].map(|channel| ((self.ambient[channel] * open) >> 8) + ((self.sun[channel] * direct) >> 8) + warm[channel] * 3 / 4)
    }

    /// Colour of a face as seen from `z` away, where the car's lamps give it `beam` light.
    pub fn shade(&self, colour: Rgb, finish: Finish, normal: Point, beam: i32, z: i32) -> Rgb {
        let seen = match finish {
            Finish::Matt => lit(colour, self.on(normal, beam)),
            Finish::Gloss => {
                let sky = mixed(self.horizon, self.top, (normal.y >> 6).clamp(0, 256));
                mixed(lit(colour, self.on(normal, beam)), sky, 26 + ((normal.y.max(0) * 34) >> 14))
            }
            Finish::Reflector => {
                let light = self.on(normal, beam);
                lit(colour, light.map(|value| (value + beam).min(300)))
            }
            Finish::Lamp => colour,
        };
        let haze = self.haze(z);
        // Lamps shine through the haze.
        mixed(
            seen,
            self.horizon,
            if finish == Finish::Lamp {
                haze * (320 - self.lamps) / 512
            } else {
                haze
            },
        )
    }
}
