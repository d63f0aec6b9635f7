//! What is painted or worn into the ground in single pieces: crossings, stop lines, arrows, patches, cracks, lids.

use super::camera::{Camera, NEAR, clip_near};
use super::painter::{Canvas, Ink, Spot};
use crate::scenes::fixed::{Dice, TURN, cos, sin};
use crate::scenes::light::{Light, lit, mixed};
use crate::scenes::mesh::{Point, Rgb};
use crate::scenes::truth::Surface;
use crate::scenes::world::ahead::Ahead;
use crate::scenes::world::route::{JUNCTION, STRETCH, Stretch};
use crate::scenes::world::soil::Soil;

/// Pieces further away are too flat to be seen, in millimetres.
const SIGHT: i32 = 110_000;

/// Paints flat polygons on the ground.
pub struct Marker<'a> {
    /// Where the camera is.
    pub camera: &'a Camera,
    /// The light.
    pub light: &'a Light,
    /// The drive's colours.
    pub soil: &'a Soil,
    placed: Vec<Point>,
    kept: Vec<Point>,
    spots: Vec<Spot>,
}

impl<'a> Marker<'a> {
    /// A marker for one frame.
    pub fn new(camera: &'a Camera, light: &'a Light, soil: &'a Soil) -> Marker<'a> {
        Marker {
            camera,
            light,
            soil,
            placed: Vec::new(),
            kept: Vec::new(),
            spots: Vec::new(),
        }
    }

    /// A convex polygon on the ground in camera space.
    pub fn polygon(&mut self, canvas: &mut Canvas, corners: impl Iterator<Item = Point>, ink: &Ink) {
        self.placed.clear();
        self.placed.extend(corners);
        if self.placed.iter().all(|point| point.z < NEAR) {
            return;
        }
        clip_near(&self.placed, &mut self.kept);
        self.spots.clear();
        self.spots.extend(self.kept.iter().map(|&point| self.camera.project(point)));
        if self.spots.len() >= 3 {
            canvas.polygon(&self.spots, ink);
        }
    }

    /// A convex polygon by places along and across the route.
    fn piece(&mut self, canvas: &mut Canvas, places: &[(i32, i32)], ink: &Ink) {
        let camera = self.camera;
        self.polygon(canvas, places.iter().map(|&(z, u)| camera.place(z, u)), ink);
    }

    /// Road paint.
    fn paint(&mut self, canvas: &mut Canvas, places: &[(i32, i32)]) {
        let z = places.iter().map(|place| place.0).max().unwrap_or(0).max(NEAR);
        let flat = Point { x: 0, y: 1 << 14, z: 0 };
        let colour = self.light.through(lit(self.soil.paint, self.light.on(flat, self.light.beam(z))), z);
        let alpha = (self.soil.cover * (256 - self.light.snow * 3 / 5)) >> 8;
        self.piece(canvas, places, &Ink::mark(colour, alpha, Surface::LaneMark));
    }

    /// A rectangle of road paint.
    fn bar(&mut self, canvas: &mut Canvas, z: (i32, i32), u: (i32, i32)) {
        self.paint(canvas, &[(z.0, u.0), (z.0, u.1), (z.1, u.1), (z.1, u.0)]);
    }

    /// Paints the pieces of all stretches in sight.
    pub fn pieces(&mut self, canvas: &mut Canvas, ahead: &Ahead) {
        for (_, stretch, start, _) in ahead.stretches() {
            if start < SIGHT && start + STRETCH > 0 {
                self.wear(canvas, ahead, stretch, start);
                self.crossings(canvas, stretch, start);
                self.junction(canvas, ahead, stretch, start);
            }
        }
    }

    /// Patches, cracks and lids.
    fn wear(&mut self, canvas: &mut Canvas, ahead: &Ahead, stretch: &Stretch, start: i32) {
        let mut dice = Dice::new(ahead.route.seed, 0xC0, stretch.index);
        let lane = ahead.route.lane;
        let [left, right] = &stretch.sides;
        for _ in 0..dice.between(0, 16) {
            let (local, what, bright) = (dice.between(0, STRETCH - 20_000), dice.below(100), dice.chance(40));
            let index = dice.between(-left.lanes, right.lanes - 1);
            let (a, b) = (dice.between(200, lane / 2), dice.between(300, lane / 2));
            let (length, turn) = (dice.between(900, 9000), dice.between(0, 5));
            let z = start + local;
            let tone = if bright { Rgb(150, 148, 144) } else { Rgb(24, 24, 28) };
            let tone = lit(tone, self.light.on(Point { x: 0, y: 1 << 14, z: 0 }, self.light.beam(z.max(NEAR))));
            let ink = Ink::wash(tone, dice.between(26, if bright { 50 } else { 90 }));
            if z > 60_000 {
                continue;
            }
            let from = index * lane;
            match what {
                0..45 => {
                    let (u0, u1) = (from + a.min(lane - 500), (from + a + b).min(from + lane - 150));
                    self.piece(canvas, &[(z, u0), (z, u1), (z + length, u1), (z + length, u0)], &ink);
                }
                45..80 => {
                    // A crack wanders along the lane.
                    let (mut u, mut z) = (from + a, z);
                    for step in 0..6 + turn {
                        let (next_u, next_z) = (u + dice.between(-350, 350), z + dice.between(300, 1100));
                        let wide = 12 + (step % 3) * 8;
                        let ink = Ink::wash(tone, 90);
                        self.piece(
                            canvas,
                            &[(z, u - wide), (z, u + wide), (next_z, next_u + wide), (next_z, next_u - wide)],
                            &ink,
                        );
                        (u, z) = (next_u, next_z);
                    }
                }
                _ => {
                    let middle = (z, from + lane / 2);
                    let ring: [(i32, i32); 12] = std::array::from_fn(|corner| {
                        let angle = corner as i32 * TURN / 12;
                        (middle.0 + cos(angle) * 340 / (1 << 14), middle.1 + sin(angle) * 340 / (1 << 14))
                    });
                    self.piece(canvas, &ring, &Ink::wash(mixed(tone, Rgb(60, 56, 52), 90), 170));
                }
            }
        }
    }

    /// Zebra crossings.
    fn crossings(&mut self, canvas: &mut Canvas, stretch: &Stretch, start: i32) {
        let (left, right) = (stretch.sides[0].kerb, stretch.sides[1].kerb);
        for (from, to) in stretch.zebras() {
            let (near, far) = (start + from, start + to);
            if far < NEAR || near > SIGHT {
                continue;
            }
            let mut u = -left + 300;
            while u + 500 < right {
                self.bar(canvas, (near, far), (u, u + 500));
                u += 1000;
            }
        }
    }

    /// Stop lines, arrows, and the marks of the crossing street.
    fn junction(&mut self, canvas: &mut Canvas, ahead: &Ahead, stretch: &Stretch, start: i32) {
        let (Some((half, _)), Some(stop)) = (stretch.junction, stretch.stop_line()) else {
            return;
        };
        let mut dice = Dice::new(ahead.route.seed, 0xC1, stretch.index);
        let [left, right] = &stretch.sides;
        let z = start + stop;
        if z > SIGHT {
            return;
        }
        let inner = if left.lanes == 0 { 0 } else { 150 };
        self.bar(canvas, (z, z + 450), (inner, right.lanes_end));
        if left.lanes > 0 {
            let past = start + JUNCTION + half + (JUNCTION - half - stop);
            self.bar(canvas, (past - 450, past), (-left.lanes_end, -inner));
        }
        let arrows = dice.chance(60);
        for lane in 0..right.lanes {
            let turn = match dice.below(3) {
                0 if lane == 0 => -1,
                1 if lane + 1 == right.lanes => 1,
                _ => 0,
            };
            let middle = lane * ahead.route.lane + ahead.route.lane / 2;
            if arrows {
                for back in [9_000, 27_000] {
                    self.arrow(canvas, z - back, middle, turn);
                }
            }
        }
        // The crossing street: dashes in its middle, a line across its end.
        let middle = start + JUNCTION;
        for (sign, kerb) in [(-1, left.kerb), (1, right.kerb)] {
            for dash in 0..5 {
                let u = sign * (kerb + 7000 + dash * 6000);
                self.bar(canvas, (middle - 70, middle + 70), (u.min(u + sign * 3000), u.max(u + sign * 3000)));
            }
            let (from, to) = if sign > 0 {
                (middle, middle + half)
            } else {
                (middle - half, middle)
            };
            let u = sign * (kerb + 6000);
            self.bar(canvas, (from, to), (u.min(u + sign * 400), u.max(u + sign * 400)));
        }
    }

    /// An arrow of 5 m: straight on, or to a side.
    fn arrow(&mut self, canvas: &mut Canvas, z: i32, u: i32, turn: i32) {
        if z < -6000 {
            return;
        }
        if turn == 0 {
            self.bar(canvas, (z, z + 3000), (u - 80, u + 80));
            self.paint(canvas, &[(z + 3000, u - 420), (z + 3000, u + 420), (z + 5000, u)]);
        } else {
            self.bar(canvas, (z, z + 2600), (u - 80, u + 80));
            let (a, b) = (u, u + turn * 560);
            self.paint(canvas, &[(z + 2200, a), (z + 2900, b), (z + 3500, b), (z + 2800, a)]);
            self.paint(canvas, &[(z + 2300, b), (z + 4100, b), (z + 3300, b + turn * 520)]);
        }
    }
}
