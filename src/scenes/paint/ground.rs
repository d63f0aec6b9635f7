//! The ground, row by row: road, sidewalks, meadows, and the lines along the road.
//!
//! Every row of pixels below the horizon shows one depth, so that across it all borders are places on one line. Rows far away
//! show a length of road in one row; marks cover it in part and their colour is mixed by that share.

use super::camera::{Camera, FOCAL};
use super::painter::{Canvas, blend};
use crate::scenes::fixed::mix;
use crate::scenes::light::{Light, lit, mixed};
use crate::scenes::mesh::{Point, Rgb};
use crate::scenes::truth::Surface;
use crate::scenes::world::ahead::Ahead;
use crate::scenes::world::route::{JUNCTION, Middle, Setting, Stretch};
use crate::scenes::world::soil::Soil;
use crate::scenes::{HEIGHT, WIDTH};

/// Side of the tiles of noise.
const TILE: usize = 256;
/// Beyond this depth the ground repeats its last row, in millimetres.
const FAR: i32 = 300_000;
/// Across the road, further than any picture shows.
const WIDE: i32 = 2_000_000;

/// What the ground is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Material {
    Verge,
    Paving,
    Kerb,
    Road,
    Cycling,
}

/// Tiles of noise, the same for all drives.
#[derive(Clone, Debug)]
pub struct Grain {
    fine: Vec<i8>,
    coarse: Vec<i8>,
}

impl Grain {
    /// Makes the tiles.
    pub fn new() -> Grain {
        let random = |purpose: u64, x: usize, y: usize| (mix(mix(purpose) ^ (y * TILE + x) as u64) >> 40) as i32 & 255;
        let fine = (0..TILE * TILE)
            .map(|at| ((random(1, at % TILE, at / TILE) + random(2, at % TILE, at / TILE)) / 2 - 128) as i8)
            .collect();
        let coarse = (0..TILE * TILE)
            .map(|at| {
                let mut sum = 0;
                for (octave, weight) in [(32usize, 5), (16, 3), (8, 2)] {
                    let (x, y) = (at % TILE, at / TILE);
                    let corner = |dx: usize, dy: usize| {
                        random(
                            3 + octave as u64,
                            ((x / octave + dx) * octave) % TILE,
                            ((y / octave + dy) * octave) % TILE,
                        )
                    };
                    let (fx, fy, o) = ((x % octave) as i32, (y % octave) as i32, octave as i32);
                    let above = corner(0, 0) * (o - fx) + corner(1, 0) * fx;
                    let below = corner(0, 1) * (o - fx) + corner(1, 1) * fx;
                    sum += (above * (o - fy) + below * fy) / (o * o) * weight;
                }
                (sum / 10 - 128) as i8
            })
            .collect();
        Grain { fine, coarse }
    }
}

/// Paints the ground.
pub struct Ground<'a> {
    /// Where the camera is.
    pub camera: &'a Camera,
    /// The light.
    pub light: &'a Light,
    /// The route.
    pub ahead: &'a Ahead,
    /// The drive's colours.
    pub soil: &'a Soil,
    /// Noise.
    pub grain: &'a Grain,
}

/// One row of pixels.
struct Row {
    /// Row of the picture.
    y: usize,
    /// Depth of its middle.
    z: i32,
    /// Route from its lower to its upper edge.
    near: i64,
    far: i64,
}

impl Ground<'_> {
    /// Paints all rows below the horizon.
    pub fn paint(&self, canvas: &mut Canvas) {
        // Less of the beams to the sides.
        let beams: Vec<i32> = (0..WIDTH as i32)
            .map(|column| {
                let aside = (column * 256 - self.camera.centre).abs() >> 8;
                256 - (aside * aside / 2600).min(226)
            })
            .collect();
        for y in 0..HEIGHT {
            let edge = |y: usize| self.camera.depth(y as i32 * 256).unwrap_or(FAR).min(FAR);
            let Some(z) = self.camera.depth(y as i32 * 256 + 128) else {
                continue;
            };
            let row = Row {
                y,
                z: z.min(FAR),
                near: self.ahead.total(edge(y + 1)),
                far: self.ahead.total(edge(y)),
            };
            self.row(canvas, &row, &beams);
        }
    }

    /// Column of a place across the route, in 1/256 pixels.
    fn column(&self, row: &Row, u: i32) -> i32 {
        let x = i64::from(u - self.camera.u + self.camera.bend(row.z));
        (i64::from(self.camera.centre) + x * i64::from(FOCAL) * 256 / i64::from(row.z)).clamp(-(1 << 20), 1 << 20) as i32
    }

    fn row(&self, canvas: &mut Canvas, row: &Row, beams: &[i32]) {
        let (before, stretch, local) = self.ahead.at(row.z);
        let mut from = 0;
        let mut last: Option<Rgb> = None;
        let mut lay = |canvas: &mut Canvas, material: Material, end: i32| {
            let end = self.column(row, end).clamp(0, WIDTH as i32 * 256);
            if end > from {
                let colour = self.band(
                    canvas,
                    row,
                    (from >> 8) as usize,
                    ((end + 255) >> 8) as usize,
                    material,
                    stretch,
                    beams,
                );
                if let Some(last) = last
                    && from & 255 > 0
                {
                    let at = (row.y * WIDTH + (from >> 8) as usize) * 3;
                    blend(&mut canvas.pixels[at..at + 3], last, from & 255);
                }
                last = Some(colour);
                from = end;
            }
        };
        let beyond = stretch.junction.map_or(i32::MAX, |(half, _)| (local - JUNCTION).abs() - half);
        if beyond < 0 {
            lay(canvas, Material::Road, WIDE);
            return;
        }
        let corner = 3500;
        let round = if beyond < corner {
            let rest = i64::from(corner - beyond);
            corner - (i64::from(corner).pow(2) - rest * rest).isqrt() as i32
        } else {
            0
        };
        let built = stretch.setting != Setting::Country;
        let across = built && beyond < 2600;
        let (left, right) = (stretch.edges(before, 0, local), stretch.edges(before, 1, local));
        let kerbs = (-left.0 - round, right.0 + round);
        let walks = if across {
            (-WIDE, WIDE)
        } else {
            ((-left.1).min(kerbs.0), right.1.max(kerbs.1))
        };
        lay(canvas, Material::Verge, walks.0);
        if walks.0 < kerbs.0 - 150 {
            lay(canvas, Material::Paving, kerbs.0 - 150);
            lay(canvas, Material::Kerb, kerbs.0);
        } else {
            lay(canvas, Material::Verge, kerbs.0);
        }
        let [sl, sr] = &stretch.sides;
        if sl.cycling > 0 && local > 24_000 {
            lay(canvas, Material::Road, -sl.lanes_end - sl.cycling);
            lay(canvas, Material::Cycling, -sl.lanes_end);
        }
        if sr.cycling > 0 && local > 24_000 {
            lay(canvas, Material::Road, sr.lanes_end);
            lay(canvas, Material::Cycling, sr.lanes_end + sr.cycling);
        }
        lay(canvas, Material::Road, kerbs.1);
        if walks.1 > kerbs.1 + 150 {
            lay(canvas, Material::Kerb, kerbs.1 + 150);
            lay(canvas, Material::Paving, walks.1);
        }
        lay(canvas, Material::Verge, WIDE);
        self.lines(canvas, row, stretch, local, (left.0, right.0));
    }

    /// Fills columns of a row with a material; returns its plain colour there.
    #[allow(clippy::too_many_arguments, reason = "what a band is: where, of what, under which light")]
    fn band(&self, canvas: &mut Canvas, row: &Row, from: usize, to: usize, material: Material, stretch: &Stretch, beams: &[i32]) -> Rgb {
        let (soil, light) = (self.soil, self.light);
        let (colour, surface, fine, coarse, snow) = match material {
            Material::Verge if stretch.setting == Setting::Town => (mixed(soil.paving, soil.meadow, 60), Surface::Other, 40, 40, 256),
            Material::Verge => (soil.meadow, Surface::Other, 74, 84, 256),
            Material::Paving => (soil.paving, Surface::Sidewalk, 26, 26, 200),
            Material::Kerb => (soil.kerb, Surface::Sidewalk, 20, 16, 110),
            Material::Road => (soil.road, Surface::Road, 34, 30, 70),
            Material::Cycling => (soil.cycling, Surface::Road, 30, 26, 80),
        };
        let mut colour = mixed(colour, Rgb(236, 240, 246), (light.snow * snow) >> 8);
        // Slabs: every second one a shade darker.
        if material == Material::Paving && row.z < 40_000 && (row.near / 1200) & 1 == 1 {
            colour = mixed(colour, Rgb(60, 60, 60), 16);
        }
        let mut plain = lit(colour, light.on(Point { x: 0, y: 1 << 14, z: 0 }, 0));
        let mut beam = light.beam(row.z);
        let paved = matches!(material, Material::Road | Material::Cycling | Material::Kerb | Material::Paving);
        if light.wet > 0 && paved {
            let shine = ((40 + row.z / 400).min(170) * light.wet) >> 8;
            plain = mixed(
                mixed(plain, Rgb(0, 0, 0), (light.wet * 70) >> 8),
                mixed(light.horizon, light.top, 60),
                shine,
            );
            beam = (beam * (256 - light.wet / 2)) >> 8;
        }
        let haze = light.haze(row.z);
        let plain = mixed(plain, light.horizon, haze);
        let warm = lit(colour, [beam, beam * 15 / 16, beam * 13 / 16]);
        let warm = mixed(warm, Rgb(0, 0, 0), haze);
        // Fine grain fades where a pixel is larger than it.
        let near = (256 - row.z / 120).clamp(24, 256);
        let (fine, coarse) = ((fine * near) >> 8, (coarse * (256 - row.z / 600).clamp(60, 256)) >> 8);
        let step = i64::from(row.z) * 256 / i64::from(FOCAL);
        let left = ((from as i64) * 256 + 128 - i64::from(self.camera.centre)) * i64::from(row.z) / i64::from(FOCAL)
            + i64::from(self.camera.u - self.camera.bend(row.z)) * 256;
        let shift = 8 + (row.z.max(8000) / 1000).ilog2();
        let fine_row = &self.grain.fine[((row.near >> (shift - 8)) as usize % TILE) * TILE..][..TILE];
        let coarse_row = &self.grain.coarse[((row.near >> 7) as usize % TILE) * TILE..][..TILE];
        let at = row.y * WIDTH;
        let mut u = left;
        for (pixel, beam) in canvas.pixels[(at + from) * 3..(at + to) * 3]
            .chunks_exact_mut(3)
            .zip(&beams[from..to])
        {
            let grain =
                i32::from(fine_row[(u >> shift) as usize % TILE]) * fine + i32::from(coarse_row[(u >> 15) as usize % TILE]) * coarse;
            let gain = (1 << 15) + grain;
            let tone = |plain: u8, warm: u8| ((((i32::from(plain) * 256 + i32::from(warm) * beam) >> 8) * gain) >> 15).clamp(0, 255) as u8;
            pixel[0] = tone(plain.0, warm.0);
            pixel[1] = tone(plain.1, warm.1);
            pixel[2] = tone(plain.2, warm.2);
            u += step;
        }
        canvas.labels[at + from..at + to].fill(surface as u8);
        plain
    }

    /// Lines along the road.
    fn lines(&self, canvas: &mut Canvas, row: &Row, stretch: &Stretch, local: i32, kerbs: (i32, i32)) {
        let stop = stretch.stop_line();
        let past = stretch.junction.map(|(half, _)| JUNCTION + half + 6500);
        let gap = |from: i32, to: i32| local > from && local < to;
        let junction = stop.zip(past).is_some_and(|(stop, past)| gap(stop, past));
        if junction || stretch.zebras().any(|(from, to)| gap(from - 400, to + 400)) {
            return;
        }
        let soil = self.soil;
        // Before a stop line the dashes become a line.
        let firm = stop.is_some_and(|stop| local < stop && local > stop - 18_000);
        let (length, period) = if firm { (1, 1) } else { soil.dash };
        let [left, right] = &stretch.sides;
        match stretch.middle {
            Middle::Bare => {}
            Middle::Dashed => self.line(canvas, row, 0, 150, length, period, soil.middle),
            Middle::Solid => self.line(canvas, row, 0, 150, 1, 1, soil.middle),
            Middle::Double => {
                self.line(canvas, row, -140, 130, 1, 1, soil.middle);
                self.line(canvas, row, 140, 130, 1, 1, soil.middle);
            }
        }
        for (side, sign, kerb) in [(left, -1, kerbs.0), (right, 1, kerbs.1)] {
            for lane in 1..side.lanes {
                self.line(canvas, row, sign * lane * self.ahead.route.lane, 140, length, period, soil.paint);
            }
            if side.cycling > 0 {
                self.line(canvas, row, sign * side.lanes_end, 180, 1, 1, soil.paint);
            }
            if side.parking > 0 && local > 24_000 {
                self.line(canvas, row, sign * (side.lanes_end + side.cycling), 120, 500, 1000, soil.paint);
            } else if stretch.edged {
                self.line(canvas, row, sign * (kerb - 350), 140, 1, 1, soil.paint);
            }
        }
    }

    /// One line along the road at `u`, dashes of `length` in every `period`.
    #[allow(
        clippy::too_many_arguments,
        reason = "what a line is: where, how wide, how dashed, of which colour"
    )]
    fn line(&self, canvas: &mut Canvas, row: &Row, u: i32, width: i32, length: i32, period: i32, colour: Rgb) {
        let (length, period) = (i64::from(length), i64::from(period));
        let painted = |s: i64| s / period * length + (s % period).min(length);
        let share = ((painted(row.far) - painted(row.near)) * 256 / (row.far - row.near).max(1)) as i32;
        let (from, to) = (self.column(row, u - width / 2), self.column(row, u + width / 2));
        let (from, to) = (from.clamp(0, WIDTH as i32 * 256), to.clamp(0, WIDTH as i32 * 256));
        if share == 0 || from >= to {
            return;
        }
        let beam = self.light.beam(row.z);
        let flat = Point { x: 0, y: 1 << 14, z: 0 };
        let colour = mixed(lit(colour, self.light.on(flat, beam)), self.light.horizon, self.light.haze(row.z));
        let cover = (self.soil.cover * (256 - self.light.snow * 3 / 5)) >> 8;
        for column in from >> 8..(to + 255) >> 8 {
            let part = ((to.min((column + 1) << 8) - from.max(column << 8)) * share) >> 8;
            let at = row.y * WIDTH + column as usize;
            blend(&mut canvas.pixels[at * 3..at * 3 + 3], colour, (part * cover) >> 8);
            if part >= 128 {
                canvas.labels[at] = Surface::LaneMark as u8;
            }
        }
    }
}
