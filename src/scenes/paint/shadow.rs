//! Shadows on the ground: a dark rim under every body, and the shadow that the sun throws.

use super::camera::Camera;
use super::marks::Marker;
use super::painter::{Canvas, Ink};
use crate::scenes::fixed::{TURN, cos, sin};
use crate::scenes::light::Light;
use crate::scenes::mesh::{Point, Rgb};
use crate::scenes::models::body::Body;
use crate::scenes::models::library::Library;
use crate::scenes::world::thing::Thing;

/// Shadows further away are too flat to be seen, in millimetres.
const SIGHT: i32 = 120_000;
/// The sun's shadow is at most so many times as long as a body is high.
const LONGEST: i32 = 4;

/// Paints the shadows of all things.
pub fn cast(canvas: &mut Canvas, marker: &mut Marker, camera: &Camera, light: &Light, library: &mut Library, things: &[Thing]) {
    let sun = (light.sun[0] + light.sun[1] + light.sun[2]) / 3;
    let ambient = (light.ambient[0] + light.ambient[1] + light.ambient[2]) / 3;
    let strength = sun * 190 / (sun + ambient).max(1) * sun.min(90) / 90;
    // Way of a shadow for a metre of height.
    let rise = light.toward.y.max(1);
    let way = |part: i32| (-part * 1000 / rise).clamp(-LONGEST * 1000, LONGEST * 1000);
    let shift = (way(light.toward.x), way(light.toward.z));
    for thing in things {
        if thing.z > SIGHT {
            continue;
        }
        let extent = library.solid(thing.body).extent;
        let at = camera.place(thing.z, thing.u);
        let yaw = thing.yaw + camera.heading(thing.z);
        let (cosine, sine) = (cos(yaw), sin(yaw));
        let ground = |x: i32, z: i32| {
            let (x, z) = (i64::from(x), i64::from(z));
            let turned = (
                (x * i64::from(cosine) + z * i64::from(sine)) >> 14,
                (z * i64::from(cosine) - x * i64::from(sine)) >> 14,
            );
            Point {
                x: at.x + turned.0 as i32,
                y: 0,
                z: at.z + turned.1 as i32,
            }
        };
        let (min, max) = (extent.min, extent.max);
        let far = light.haze(thing.z);
        let dark = |alpha: i32| Ink::wash(Rgb(14, 16, 24), (alpha * (256 - far)) >> 8);
        let slim = matches!(
            thing.body,
            Body::Sign(..) | Body::Light(..) | Body::LightOverhead(..) | Body::StreetLamp(..) | Body::Tree(_) | Body::Board(_)
        );
        // The sun's shadow: what the base sweeps on its way to where the top's shadow lies.
        if strength > 24 {
            let moved = |point: Point, height: i32| Point {
                x: point.x + shift.0 * (height / 8) / 125,
                y: 0,
                z: point.z + shift.1 * (height / 8) / 125,
            };
            let mut points: Vec<Point> = Vec::with_capacity(24);
            if let Body::Tree(_) = thing.body {
                let radius = (max.x - min.x + max.z - min.z) / 4;
                let middle = moved(at, max.y * 11 / 20);
                points.extend((0..16).map(|corner| {
                    let angle = corner * TURN / 16;
                    Point {
                        x: middle.x + cos(angle) * (radius / 4) / 4096,
                        y: 0,
                        z: middle.z + sin(angle) * (radius / 4) / 4096,
                    }
                }));
                let trunk = [
                    ground(-120, 0),
                    ground(120, 0),
                    moved(ground(120, 0), max.y / 2),
                    moved(ground(-120, 0), max.y / 2),
                ];
                marker.polygon(canvas, trunk.into_iter(), &dark(strength));
            } else if slim {
                let top = max.y - 200;
                points.extend([ground(-60, 0), ground(60, 0), moved(ground(60, 0), top), moved(ground(-60, 0), top)]);
            } else {
                let base = [
                    ground(min.x, min.z),
                    ground(max.x, min.z),
                    ground(max.x, max.z),
                    ground(min.x, max.z),
                ];
                points.extend(base);
                points.extend(base.map(|point| moved(point, max.y - max.y / 12)));
            }
            hull(&mut points);
            marker.polygon(canvas, points.iter().copied(), &dark(strength));
        }
        if slim {
            continue;
        }
        for (wider, alpha) in [(260, 46), (90, 70), (-120, 70)] {
            let (x, z, cut) = (
                (max.x - min.x) / 2 + wider,
                (max.z - min.z) / 2 + wider,
                ((max.x - min.x) / 3).clamp(60, 700),
            );
            let middle = ((max.x + min.x) / 2, (max.z + min.z) / 2);
            let cut = cut.min(x).min(z);
            if x <= 0 || z <= 0 {
                continue;
            }
            let corners = [
                (x - cut, z),
                (x, z - cut),
                (x, cut - z),
                (x - cut, -z),
                (cut - x, -z),
                (-x, cut - z),
                (-x, z - cut),
                (cut - x, z),
            ];
            marker.polygon(
                canvas,
                corners.into_iter().map(|(x, z)| ground(middle.0 + x, middle.1 + z)),
                &dark(alpha),
            );
        }
    }
}

/// Leaves the convex hull of points on the ground, in order around it (the monotone chain method).
fn hull(points: &mut Vec<Point>) {
    points.sort_by_key(|point| (point.x, point.z));
    points.dedup();
    let turns = |a: Point, b: Point, c: Point| i64::from(b.x - a.x) * i64::from(c.z - a.z) - i64::from(b.z - a.z) * i64::from(c.x - a.x);
    let mut chain: Vec<Point> = Vec::with_capacity(points.len() + 1);
    for pass in 0..2 {
        let base = chain.len();
        let mut add = |point: Point| {
            while chain.len() >= base + 2 && turns(chain[chain.len() - 2], chain[chain.len() - 1], point) <= 0 {
                chain.pop();
            }
            chain.push(point);
        };
        if pass == 0 {
            points.iter().copied().for_each(&mut add);
        } else {
            points.iter().rev().copied().for_each(&mut add);
        }
        chain.pop();
    }
    *points = chain;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hull_keeps_the_outer_corners_only() {
        let at = |x: i32, z: i32| Point { x, y: 0, z };
        let mut points = vec![at(0, 0), at(10, 0), at(5, 5), at(10, 10), at(0, 10), at(5, 0), at(10, 0)];
        hull(&mut points);
        assert_eq!(points, [at(0, 0), at(10, 0), at(10, 10), at(0, 10)]);
    }
}
