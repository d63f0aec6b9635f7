//! The sky: a gradient, clouds on a ceiling that moves past, sun, stars, and the hills at the horizon.

use super::camera::{Camera, FOCAL};
use super::glare::glow;
use super::painter::{Canvas, Spot, blend};
use crate::scenes::fixed::{Dice, mix};
use crate::scenes::light::{Light, lit, mixed};
use crate::scenes::mesh::Rgb;
use crate::scenes::truth::Surface;
use crate::scenes::{HEIGHT, WIDTH};

/// Side of the tile of clouds.
const TILE: usize = 512;
/// Height of the ceiling of clouds over focal length, in units of the tile's cells times 256.
const CEILING: i64 = 90 * 256;

/// Clouds and hills of all drives.
#[derive(Clone, Debug)]
pub struct Clouds {
    density: Vec<u8>,
}

impl Clouds {
    /// Makes the tile.
    pub fn new() -> Clouds {
        let random = |x: usize, y: usize, octave: usize| (mix((octave * TILE * TILE + y * TILE + x) as u64 ^ 0xC10D) >> 33) as i32 & 255;
        let density = (0..TILE * TILE)
            .map(|at| {
                let (x, y) = (at % TILE, at / TILE);
                let mut sum = 0;
                for (octave, weight) in [(128usize, 8), (64, 6), (32, 4), (16, 3), (8, 2), (4, 1)] {
                    let corner =
                        |dx: usize, dy: usize| random(((x / octave + dx) * octave) % TILE, ((y / octave + dy) * octave) % TILE, octave);
                    let ease = |rest: usize| {
                        let t = (rest * 256 / octave) as i32;
                        (t * t * (768 - 2 * t)) >> 16
                    };
                    let (fx, fy) = (ease(x % octave), ease(y % octave));
                    let above = corner(0, 0) * (256 - fx) + corner(1, 0) * fx;
                    let below = corner(0, 1) * (256 - fx) + corner(1, 1) * fx;
                    sum += ((above * (256 - fy) + below * fy) >> 16) * weight;
                }
                (sum / 24) as u8
            })
            .collect();
        Clouds { density }
    }
}

/// Paints everything above the horizon. `turned` is how far the route has turned to the right, 2^30 for one radian.
pub fn paint(canvas: &mut Canvas, clouds: &Clouds, camera: &Camera, light: &Light, seed: u64, turned: i64) {
    // Far clouds and hills move aside by so many pixels.
    let turned = ((turned * i64::from(FOCAL)) >> 30) as i32;
    let bottom = ((camera.horizon >> 8) + 1).clamp(0, HEIGHT as i32) as usize;
    let mut dice = Dice::new(seed, 0x60, 0);
    let (drift_x, drift_y) = (i64::from(dice.below(TILE as u32)), i64::from(dice.below(TILE as u32)));
    // Clouds are where the density exceeds the level; the edge is soft.
    let level = 150 - light.cover * 110 / 256;
    for y in 0..bottom {
        let above = ((camera.horizon >> 8) - y as i32).max(1);
        let share = (above * 256 / 340).min(256);
        // The gradient is steep near the horizon.
        let share = 256 - (256 - share) * (256 - share) / 256;
        let base = mixed(light.horizon, light.top, share);
        let depth = CEILING * 40 / i64::from(above + 12);
        let row = &clouds.density[(((depth >> 8) + drift_y + camera.s / 4_000) as usize % TILE) * TILE..][..TILE];
        let next = &clouds.density[(((depth >> 8) + 1 + drift_y + camera.s / 4_000) as usize % TILE) * TILE..][..TILE];
        let part = (depth & 255) as i32;
        // Columns in 1/65536 cells, so that neighbouring rows do not part.
        let step = depth * 256 / 300;
        let mut x = (drift_x << 16) + (1 << 32) - (i64::from(camera.centre >> 8) - i64::from(turned)) * step;
        let thin = (above * 4).min(256);
        let sample = |x: i64| {
            let (cell, rest) = ((x >> 16) as usize % TILE, (x >> 8 & 255) as i32);
            let after = (cell + 1) % TILE;
            let here = i32::from(row[cell]) * (256 - part) + i32::from(next[cell]) * part;
            let there = i32::from(row[after]) * (256 - part) + i32::from(next[after]) * part;
            (here * (256 - rest) + there * rest) >> 8
        };
        let line = &mut canvas.pixels[y * WIDTH * 3..(y + 1) * WIDTH * 3];
        // Clouds are smooth: one sample for four pixels, straight in between.
        let mut density = sample(x);
        for pixels in line.chunks_exact_mut(12) {
            x += 4 * step;
            let following = sample(x);
            let slope = (following - density) / 4;
            for (index, pixel) in pixels.chunks_exact_mut(3).enumerate() {
                let density = (density + slope * index as i32) >> 8;
                let cloud = (((density - level) * 6).clamp(0, 256) * thin) >> 8;
                // Thick clouds are darker below.
                let dark = 256 - (((density - level - 20).clamp(0, 200) * 80) >> 8);
                let tone = |base: u8, cloud_tone: u8| {
                    let base = i32::from(base);
                    (base + (((((i32::from(cloud_tone) * dark) >> 8) - base) * cloud) >> 8)) as u8
                };
                pixel[0] = tone(base.0, light.cloud.0);
                pixel[1] = tone(base.1, light.cloud.1);
                pixel[2] = tone(base.2, light.cloud.2);
            }
            density = following;
        }
        canvas.labels[y * WIDTH..(y + 1) * WIDTH].fill(Surface::Sky as u8);
    }
    sun(canvas, camera, light);
    stars(canvas, light, &mut dice, bottom);
    hills(canvas, clouds, camera, light, &mut dice, turned, bottom);
}

/// The sun or moon and the light around it, where clouds leave it.
fn sun(canvas: &mut Canvas, camera: &Camera, light: &Light) {
    let clear = 256 - light.cover * 5 / 4;
    if clear <= 0 || light.toward.z < 2000 {
        return;
    }
    let along = |side: i32| (i64::from(side) * i64::from(FOCAL) * 256 / i64::from(light.toward.z)) as i32;
    let middle = Spot {
        x: camera.centre + along(light.toward.x),
        y: camera.horizon - along(light.toward.y),
    };
    if middle.x.abs() > 2 * WIDTH as i32 * 256 || middle.y < -200 * 256 {
        return;
    }
    let colour = mixed(light.horizon, Rgb(255, 250, 236), 150);
    glow(canvas, middle, 250, colour, (clear * 130) >> 8);
    glow(canvas, middle, 70, colour, (clear * 200) >> 8);
    glow(canvas, middle, 22, Rgb(255, 252, 244), clear);
}

/// Stars of a clear night.
fn stars(canvas: &mut Canvas, light: &Light, dice: &mut Dice, bottom: usize) {
    let bright = (light.lamps - 200).max(0) * (256 - light.cover) / 100;
    if bright == 0 {
        return;
    }
    for _ in 0..160 {
        let (x, y) = (dice.below(WIDTH as u32) as usize, dice.below(bottom.max(1) as u32) as usize);
        let at = (y * WIDTH + x) * 3;
        blend(
            &mut canvas.pixels[at..at + 3],
            Rgb(230, 235, 255),
            ((bright * dice.between(20, 200)) >> 8).min(256),
        );
    }
}

/// Hills or a far town's skyline: two rows of them, the further one paler.
fn hills(canvas: &mut Canvas, clouds: &Clouds, camera: &Camera, light: &Light, dice: &mut Dice, turned: i32, bottom: usize) {
    let green = dice.pick(&[Rgb(86, 108, 76), Rgb(96, 112, 108), Rgb(112, 110, 92), Rgb(84, 98, 104)]);
    let town = dice.chance(35);
    for (layer, (height, haze)) in [(dice.between(8, 46), 190), (dice.between(4, 22), 140)].into_iter().enumerate() {
        let day = [0, 1, 2].map(|channel| light.ambient[channel] + light.sun[channel] / 3);
        let haze = haze.max(light.haze(200_000));
        let colour = mixed(lit(green, day), light.horizon, haze);
        let row = &clouds.density[(layer * 177 + dice.below(TILE as u32) as usize) % TILE * TILE..][..TILE];
        for x in 0..WIDTH {
            let place = (x as i32 - (camera.centre >> 8) + turned + (1 << 20)) as usize;
            let rise = if town && layer == 0 {
                // Blocks of a skyline.
                i32::from(row[place / 22 % TILE] / 16) * height / 10
            } else {
                let (cell, rest) = (place / 6 % TILE, (place % 6) as i32);
                (i32::from(row[cell]) * (6 - rest) + i32::from(row[(cell + 1) % TILE]) * rest) * height / (6 * 128)
            };
            let top = (camera.horizon - rise * 256).max(0);
            let first = (top >> 8) as usize;
            for y in first..bottom {
                let at = y * WIDTH + x;
                let part = if y == first { 256 - (top & 255) } else { 256 };
                blend(&mut canvas.pixels[at * 3..at * 3 + 3], colour, part);
                if part >= 128 {
                    canvas.labels[at] = Surface::Other as u8;
                }
            }
        }
    }
}
