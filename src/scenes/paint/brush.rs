//! Bodies in the picture: part by part from far to near, of each part the faces that look at the camera, in their light.

use super::camera::{Camera, EYE, NEAR, clip_near};
use super::painter::{Canvas, Ink, Spot};
use crate::scenes::fixed::{cos, sin};
use crate::scenes::light::Light;
use crate::scenes::mesh::{Finish, Point, Rgb, Role};
use crate::scenes::models::solid::{Solid, dot, minus};
use crate::scenes::truth::Surface;

/// How a body is placed in camera space.
#[derive(Clone, Copy, Debug)]
pub struct Pose {
    /// Where its origin is.
    pub at: Point,
    /// Which way it looks, in 1/4096 turns to the right.
    pub yaw: i32,
}

/// What a body counts as.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// What its pixels show.
    pub surface: Surface,
    /// Number of its object in this frame; 0 for none.
    pub owner: u16,
}

/// What a painted body was in the picture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Footprint {
    /// Pixels inside the picture that it covers alone.
    pub covered: u32,
    /// Rectangle around its corners, those outside the picture included, in 1/256 pixels: left, top, right, bottom.
    pub reach: Option<[i32; 4]>,
}

impl Footprint {
    fn extend(&mut self, spots: &[Spot]) {
        for spot in spots {
            let reach = self.reach.get_or_insert([spot.x, spot.y, spot.x, spot.y]);
            *reach = [
                reach[0].min(spot.x),
                reach[1].min(spot.y),
                reach[2].max(spot.x),
                reach[3].max(spot.y),
            ];
        }
    }
}

/// Paints bodies; keeps its buffers from one to the next.
#[derive(Clone, Debug, Default)]
pub struct Brush {
    order: Vec<usize>,
    placed: Vec<Point>,
    kept: Vec<Point>,
    spots: Vec<Spot>,
    /// Places of bright lamps painted, with radius in pixels and colour, for their glow.
    pub glows: Vec<(Spot, i32, Rgb)>,
}

impl Brush {
    /// Paints a body. `beam` is the light it gets from the car's lamps.
    #[allow(
        clippy::too_many_arguments,
        reason = "what is painted: which body, where, as what, in which light, on what"
    )]
    pub fn paint(
        &mut self,
        canvas: &mut Canvas,
        camera: &Camera,
        light: &Light,
        solid: &Solid,
        pose: Pose,
        meaning: Meaning,
        beam: i32,
    ) -> Footprint {
        let (cosine, sine) = (i64::from(cos(pose.yaw)), i64::from(sin(pose.yaw)));
        let turn = |x: i32, z: i32, sine: i64| {
            let (x, z) = (i64::from(x), i64::from(z));
            (
                ((x * cosine + z * sine + (1 << 13)) >> 14) as i32,
                ((z * cosine - x * sine + (1 << 13)) >> 14) as i32,
            )
        };
        let place = |point: &Point| {
            let (x, z) = turn(point.x, point.z, sine);
            Point {
                x: x + pose.at.x,
                y: point.y + pose.at.y,
                z: z + pose.at.z,
            }
        };
        let (eye_x, eye_z) = turn(-pose.at.x, -pose.at.z, -sine);
        let eye = Point {
            x: eye_x,
            y: EYE - pose.at.y,
            z: eye_z,
        };
        let mut footprint = Footprint::default();
        let mut order = std::mem::take(&mut self.order);
        solid.order(eye, &mut order);
        for &index in &order {
            let part = &solid.mesh.parts[index];
            let body = part.role == Role::Body;
            let claim = if body {
                (meaning.surface, meaning.owner)
            } else {
                (Surface::Other, 0)
            };
            for (face, &normal) in part.faces.iter().zip(&solid.normals[index]) {
                if dot(normal, minus(eye, face.corners[0])) <= 0 {
                    continue;
                }
                let (x, z) = turn(normal.x, normal.z, sine);
                let turned = Point { x, y: normal.y, z };
                let colour = light.shade(face.colour, face.finish, turned, beam, pose.at.z);
                let ink = Ink {
                    colour,
                    alpha: 256,
                    sealed: true,
                    claim: Some(claim),
                };
                if !self.flat(camera, face.corners.iter().map(&place)) {
                    continue;
                }
                let covered = canvas.polygon(&self.spots, &ink);
                if body {
                    footprint.covered += covered;
                    footprint.extend(&self.spots);
                }
                for decal in &face.decals {
                    if !self.flat(camera, decal.corners.iter().map(&place)) {
                        continue;
                    }
                    let colour = light.shade(decal.colour, decal.finish, turned, beam, pose.at.z);
                    canvas.polygon(
                        &self.spots,
                        &Ink {
                            colour,
                            alpha: 256,
                            sealed: false,
                            claim: None,
                        },
                    );
                    if decal.finish == Finish::Lamp && light.lamps > 30 {
                        self.glow(decal.colour, pose.at.z);
                    }
                }
                if face.finish == Finish::Lamp && light.lamps > 30 {
                    self.glow_of_face(camera, face.corners.iter().map(&place), face.colour, pose.at.z);
                }
            }
        }
        self.order = order;
        footprint
    }

    /// Brings a polygon in camera space into the picture; false if nothing of it is there.
    fn flat(&mut self, camera: &Camera, corners: impl Iterator<Item = Point>) -> bool {
        self.placed.clear();
        self.placed.extend(corners);
        self.spots.clear();
        if self.placed.iter().any(|point| point.z < NEAR) {
            clip_near(&self.placed, &mut self.kept);
            self.spots.extend(self.kept.iter().map(|&point| camera.project(point)));
        } else {
            self.spots.extend(self.placed.iter().map(|&point| camera.project(point)));
        }
        self.spots.len() >= 3
    }

    fn glow_of_face(&mut self, camera: &Camera, corners: impl Iterator<Item = Point>, colour: Rgb, z: i32) {
        if self.flat(camera, corners) {
            self.glow(colour, z);
        }
    }

    /// Remembers the glow of the lamp whose outline is at hand.
    fn glow(&mut self, colour: Rgb, z: i32) {
        let most = colour.0.max(colour.1).max(colour.2);
        if most < 170 || z < 2 * NEAR {
            return;
        }
        let count = self.spots.len() as i32;
        let middle = Spot {
            x: self.spots.iter().map(|s| s.x / count).sum(),
            y: self.spots.iter().map(|s| s.y / count).sum(),
        };
        self.glows.push((middle, (340_000 / z).clamp(3, 44), colour));
    }
}
