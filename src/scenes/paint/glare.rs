//! What lamps do by night and in the wet: their glow, pools of light under street lamps, reflections of bodies and lamps.

use super::camera::{Camera, NEAR};
use super::marks::Marker;
use super::painter::{Canvas, Ink, Spot};
use crate::scenes::fixed::{TURN, cos, sin};
use crate::scenes::light::{Light, mixed};
use crate::scenes::mesh::{Point, Rgb};
use crate::scenes::models::body::Body;
use crate::scenes::models::library::Library;
use crate::scenes::truth::Class;
use crate::scenes::world::thing::Thing;
use crate::scenes::{HEIGHT, WIDTH};

/// Lights further away leave nothing on the ground, in millimetres.
const SIGHT: i32 = 90_000;

/// Pools of light under lit street lamps.
pub fn pools(canvas: &mut Canvas, marker: &mut Marker, camera: &Camera, light: &Light, things: &[Thing]) {
    for thing in things {
        let Body::StreetLamp(_, true) = thing.body else { continue };
        if thing.z > SIGHT {
            continue;
        }
        let at = camera.place(thing.z, thing.u - thing.u.signum() * 1500);
        let seen = (light.lamps * (256 - light.haze(thing.z))) >> 8;
        for radius in [8500, 6800, 5300, 4000, 2700] {
            let ring = (0..20).map(|corner| {
                let angle = corner * TURN / 20;
                Point {
                    x: at.x + ((cos(angle) * (radius / 4)) >> 12),
                    y: 0,
                    z: at.z + ((sin(angle) * (radius / 4)) >> 12),
                }
            });
            marker.polygon(canvas, ring, &Ink::wash(Rgb(255, 206, 140), (seen * 15) >> 8));
        }
    }
}

/// What a wet road mirrors: vehicles darkly, lit lamps as long streaks.
pub fn reflections(canvas: &mut Canvas, camera: &Camera, light: &Light, library: &mut Library, things: &[Thing]) {
    if light.wet < 60 {
        return;
    }
    for thing in things {
        let at = camera.place(thing.z, thing.u);
        if at.z < 3 * NEAR || at.z > SIGHT || thing.class.is_none_or(|class| class == Class::TrafficSign) {
            continue;
        }
        let extent = library.solid(thing.body).extent;
        let clear = ((256 - light.haze(at.z)) * light.wet) >> 8;
        let streak = |canvas: &mut Canvas, middle: i32, half: i32, height: i32, z: i32, colour: Rgb, alpha: i32| {
            // The mirror image hangs below the ground, fainter further down.
            for (part, share) in [(8, 3), (7, 3), (6, 3), (5, 3), (4, 3), (2, 3)] {
                let corner = |x: i32, y: i32| camera.project(Point { x: at.x + x, y, z });
                let (left, right) = (corner(middle - half, 0), corner(middle + half, 0));
                let below = corner(middle, -height * part / 8).y;
                let corners = [left, right, Spot { x: right.x, y: below }, Spot { x: left.x, y: below }];
                canvas.polygon(&corners, &Ink::wash(colour, (alpha * clear * share) >> 12));
            }
        };
        match thing.body {
            Body::Vehicle(_, _, lit) => {
                let near = at.z + if thing.yaw == TURN / 2 { -extent.max.z } else { extent.min.z };
                let z = near.max(2 * NEAR);
                streak(
                    canvas,
                    0,
                    extent.max.x,
                    extent.max.y * 3 / 4,
                    z,
                    mixed(light.horizon, Rgb(0, 0, 0), 190),
                    110,
                );
                if lit.head && light.lamps > 60 {
                    let oncoming = (thing.yaw - TURN / 2).abs() < 200;
                    let colour = if oncoming { Rgb(255, 246, 214) } else { Rgb(226, 30, 24) };
                    for middle in [-extent.max.x * 3 / 4, extent.max.x * 3 / 4] {
                        streak(canvas, middle, 110, 3200, z, colour, light.lamps * 3 / 8);
                    }
                }
            }
            Body::Light(..) | Body::LightOverhead(..) => {
                let colour = match thing.signal.map(|signal| signal as u8) {
                    Some(0) => Rgb(240, 40, 30),
                    Some(1) => Rgb(250, 180, 40),
                    Some(2) => Rgb(40, 230, 150),
                    _ => continue,
                };
                streak(canvas, 0, 110, 4500, at.z, colour, 40 + light.lamps / 3);
            }
            _ => {}
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
