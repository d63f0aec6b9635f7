//! Colours mixed with colours and under a light.

use crate::scenes::mesh::Rgb;

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
