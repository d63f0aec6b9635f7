//! Hour and weather of a moment: what colours the sky has, how faces take light, how distance dims them.

use super::fixed::{Dice, ONE, cos, lerp, sin};
use super::mesh::{Finish, Point, Rgb};

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

/// Light at an hour of a clear day.
struct Hour {
    top: Rgb,
    horizon: Rgb,
    cloud: Rgb,
    /// Colour of the light that comes straight from the sun or moon, 256 = white.
    sun: [i32; 3],
    /// Colour of the light from all over the sky.
    ambient: [i32; 3],
    /// Height of the sun, in 1/4096 turns.
    height: i32,
    /// How far the lamps are on, 0..=256.
    lamps: i32,
}

/// A day, from morning to night.
const HOURS: [Hour; 6] = [
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

/// Mixes colours, `share`/256 of the second.
pub fn mixed(a: Rgb, b: Rgb, share: i32) -> Rgb {
    let one = |a: u8, b: u8| (i32::from(a) + (((i32::from(b) - i32::from(a)) * share) >> 8)) as u8;
    Rgb(one(a.0, b.0), one(a.1, b.1), one(a.2, b.2))
}

/// A colour under a light, 256 = white.
pub fn lit(colour: Rgb, light: [i32; 3]) -> Rgb {
    let one = |value: u8, light: i32| ((i32::from(value) * light) >> 8).clamp(0, 255) as u8;
    Rgb(one(colour.0, light[0]), one(colour.1, light[1]), one(colour.2, light[2]))
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
