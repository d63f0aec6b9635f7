//! What falls between the camera and the scene: rain and snow.

use super::painter::{Canvas, Ink, Spot};
use crate::scenes::fixed::Dice;
use crate::scenes::light::{Falling, Light, mixed};
use crate::scenes::mesh::Rgb;
use crate::scenes::{HEIGHT, WIDTH};

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
