//! The camera and the bend of the road ahead of it.
//!
//! The route is measured by its length and the place across it (right positive). Seen from the camera, a place `z` ahead and
//! `u` across stands at `x = u + bend(z) - camera.u`: the bend is the integral of the integral of the route's curvature.

use super::painter::Spot;
use crate::scenes::fixed::TURN;
use crate::scenes::mesh::Point;

/// Focal length, in pixels.
pub const FOCAL: i32 = 1000;
/// Height of the lens above the road, in millimetres.
pub const EYE: i32 = 1400;
/// Nearest depth at which things are drawn, in millimetres.
pub const NEAR: i32 = 600;
/// How far the bend is known, in metres.
const REACH: usize = 320;

/// Where the camera is and looks in one frame.
#[derive(Clone, Debug)]
pub struct Camera {
    /// Length of the route behind it, in millimetres.
    pub s: i64,
    /// Place across the route, in millimetres.
    pub u: i32,
    /// Column that it looks along, in 1/256 pixels.
    pub centre: i32,
    /// Row of the horizon, in 1/256 pixels.
    pub horizon: i32,
    /// Shift of the route to the right in 1/16 mm and its heading (1/2^30), by metres ahead.
    bend: Vec<(i64, i64)>,
}

impl Camera {
    /// A camera at `s`, `u` on a route whose curvature (1/2^30 per millimetre, right positive) by metres ahead is given.
    pub fn new(s: i64, u: i32, centre: i32, horizon: i32, curvature: impl Fn(i32) -> i32) -> Camera {
        let mut bend = Vec::with_capacity(REACH);
        let (mut shift, mut heading) = (0i64, 0i64);
        for metre in 0..REACH as i32 {
            bend.push((shift >> 26, heading));
            // A metre on along the mean heading, which never turns so far that depth and length of the route part ways.
            let next = (heading + i64::from(curvature(metre)) * 1000).clamp(-(1 << 29), 1 << 29);
            shift += (heading + next) / 2 * 1000;
            heading = next;
        }
        Camera {
            s,
            u,
            centre,
            horizon,
            bend,
        }
    }

    /// How far the route has moved to the right at a depth, in millimetres.
    pub fn bend(&self, z: i32) -> i32 {
        let z = z.clamp(0, (REACH as i32 - 2) * 1000);
        let (metre, rest) = ((z / 1000) as usize, i64::from(z % 1000));
        let (from, to) = (self.bend[metre].0, self.bend[metre + 1].0);
        ((from + (to - from) * rest / 1000) >> 4) as i32
    }

    /// Direction of the route at a depth, in 1/4096 turns to the right.
    pub fn heading(&self, z: i32) -> i32 {
        let metre = (z / 1000).clamp(0, REACH as i32 - 1) as usize;
        // An angle of 2^30 is one radian.
        ((self.bend[metre].1 * i64::from(TURN) * 1000 / 6283) >> 30) as i32
    }

    /// Place in the picture of a point in camera space (y up from the ground), whose depth is at least [`NEAR`].
    pub fn project(&self, point: Point) -> Spot {
        let z = i64::from(point.z);
        let scale = i64::from(FOCAL) * 256;
        Spot {
            x: self.centre + (i64::from(point.x) * scale / z) as i32,
            y: self.horizon + (i64::from(EYE - point.y) * scale / z) as i32,
        }
    }

    /// A place on the route in camera space.
    pub fn place(&self, z: i32, u: i32) -> Point {
        Point {
            x: u + self.bend(z) - self.u,
            y: 0,
            z,
        }
    }

    /// Depth of the ground at a row of the picture (1/256 pixels), if the row is below the horizon.
    pub fn depth(&self, y: i32) -> Option<i32> {
        let below = y - self.horizon;
        (below > 0).then(|| FOCAL * EYE * 256 / below)
    }
}

/// Keeps of a convex polygon in camera space what is at least [`NEAR`] away; `kept` is emptied first.
pub fn clip_near(corners: &[Point], kept: &mut Vec<Point>) {
    kept.clear();
    for (index, &a) in corners.iter().enumerate() {
        let b = corners[if index + 1 == corners.len() { 0 } else { index + 1 }];
        if a.z >= NEAR {
            kept.push(a);
        }
        if (a.z >= NEAR) != (b.z >= NEAR) {
            let (part, whole) = (i64::from(NEAR - a.z), i64::from(b.z - a.z));
            let cut = |from: i32, to: i32| from + (i64::from(to - from) * part / whole) as i32;
            kept.push(Point {
                x: cut(a.x, b.x),
                y: cut(a.y, b.y),
                z: NEAR,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ground_at_a_row_projects_to_that_row() {
        let camera = Camera::new(0, 0, 640 * 256, 330 * 256, |_| 0);
        for row in 340..720 {
            let z = camera.depth(row * 256).unwrap();
            let spot = camera.project(Point { x: 0, y: 0, z });
            // A depth is known to the millimetre: near the car that is a tenth of a pixel.
            assert!((spot.y - row * 256).abs() <= 30, "row {row}: {spot:?}");
        }
    }

    #[test]
    fn a_steady_curve_bends_as_a_circle() {
        // Radius 200 m: after 50 m the road is 50²/(2·200) = 6.25 m aside.
        let camera = Camera::new(0, 0, 0, 0, |_| (1 << 30) / 200_000);
        assert!((camera.bend(50_000) - 6_250).abs() < 60, "{}", camera.bend(50_000));
        assert!((camera.heading(50_000) - 163).abs() <= 2, "{}", camera.heading(50_000));
    }

    #[test]
    fn clipping_cuts_at_the_near_plane() {
        let corners = [
            Point { x: 0, y: 0, z: 0 },
            Point { x: 0, y: 1000, z: 1200 },
            Point { x: 1000, y: 0, z: 1200 },
        ];
        let mut kept = Vec::new();
        clip_near(&corners, &mut kept);
        assert_eq!(kept.len(), 4);
        assert!(kept.iter().all(|point| point.z >= NEAR));
    }
}
