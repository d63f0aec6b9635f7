//! What falls between the camera and the scene, and what light does in the dark: rain, snow, glows of lamps.

use super::fixed::Dice;
use super::light::{Falling, Light, mixed};
use super::mesh::Rgb;
use super::painter::{Canvas, Ink, Spot};
use super::{HEIGHT, WIDTH};

/// Paints what falls in a frame.
pub fn fall(canvas: &mut Canvas, light: &Light, seed: u64, number: u32) {
    let mut drive = Dice::new(seed, 0xE0, 0);
    let mut dice = Dice::new(seed, 0xE1, i64::from(number));
    let count = drive.between(150, 520);
    let slant = drive.between(-40, 40);
    let bright = mixed(light.horizon, Rgb(255, 255, 255), 70);
    match light.falling {
        Falling::Nothing => {}
        Falling::Rain => {
            for _ in 0..count {
                let (x, y) = (dice.between(0, WIDTH as i32) * 256, dice.between(-60, HEIGHT as i32) * 256);
                let (length, wide) = (dice.between(12, 70), dice.between(100, 300));
                let (dx, dy) = (length * slant * 256 / 100, length * 256);
                let corners = [
                    Spot { x, y },
                    Spot { x: x + wide, y },
                    Spot {
                        x: x + dx + wide,
                        y: y + dy,
                    },
                    Spot { x: x + dx, y: y + dy },
                ];
                canvas.polygon(&corners, &Ink::wash(bright, dice.between(16, 60)));
            }
        }
        Falling::Snow => {
            for _ in 0..count {
                let (x, y) = (dice.between(0, WIDTH as i32) * 256, dice.between(0, HEIGHT as i32) * 256);
                let near = dice.between(0, 100);
                let radius = 180 + near * near / 9;
                let ring = [(2, 0), (1, 2), (-1, 2), (-2, 0), (-1, -2), (1, -2)].map(|(a, b)| Spot {
                    x: x + a * radius / 2,
                    y: y + b * radius * 7 / 16,
                });
                canvas.polygon(&ring, &Ink::wash(mixed(bright, Rgb(255, 255, 255), 120), 210 - near * 3 / 2));
            }
        }
    }
}

/// Adds the glow of a lamp: light that falls off with the square of the distance to nothing at `radius` pixels.
pub fn glow(canvas: &mut Canvas, middle: Spot, radius: i32, colour: Rgb, strength: i32) {
    let (x, y) = (middle.x >> 8, middle.y >> 8);
    let square = radius * radius;
    for row in (y - radius).max(0)..(y + radius + 1).min(HEIGHT as i32) {
        for column in (x - radius).max(0)..(x + radius + 1).min(WIDTH as i32) {
            let away = (row - y) * (row - y) + (column - x) * (column - x);
            if away >= square {
                continue;
            }
            let part = 256 - away * 256 / square;
            let add = (part * part * part) >> 16;
            let at = (row as usize * WIDTH + column as usize) * 3;
            for (value, tone) in canvas.pixels[at..at + 3].iter_mut().zip([colour.0, colour.1, colour.2]) {
                *value = (i32::from(*value) + ((i32::from(tone) * add * strength) >> 16)).min(255) as u8;
            }
        }
    }
}
