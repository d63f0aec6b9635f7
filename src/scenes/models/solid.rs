//! A body made ready to be painted: normals of its faces, and which part hides which.
//!
//! Two convex parts that a plane parts can be ordered by the side of it on which the camera is: the one on the other side
//! cannot hide the one on the camera's. All such planes are found once; a frame asks for the sides and paints the parts in an
//! order that respects all pairs on which the planes agree.

use super::{Extent, extent};
use crate::scenes::fixed::ONE;
use crate::scenes::mesh::{Mesh, Part, Point};

/// Parts that can be ordered; those beyond are painted last.
const PARTS: usize = 64;

/// A plane: a point is in front of it where `normal · point > offset`.
#[derive(Clone, Copy, Debug)]
struct Plane {
    normal: Point,
    offset: i64,
}

/// `front` lies in front of the plane, `back` behind it.
#[derive(Clone, Copy, Debug)]
struct Divide {
    plane: Plane,
    front: usize,
    back: usize,
}

/// A body made ready.
#[derive(Clone, Debug)]
pub struct Solid {
    /// The body.
    pub mesh: Mesh,
    /// Its extent at rest.
    pub extent: Extent,
    /// Outward normals of the faces by part, of length [`ONE`].
    pub normals: Vec<Vec<Point>>,
    centres: Vec<Point>,
    divides: Vec<Divide>,
}

/// The way from `b` to `a`.
pub fn minus(a: Point, b: Point) -> Point {
    Point {
        x: a.x - b.x,
        y: a.y - b.y,
        z: a.z - b.z,
    }
}

/// Product of two vectors, in the product of their units.
pub fn dot(a: Point, b: Point) -> i64 {
    i64::from(a.x) * i64::from(b.x) + i64::from(a.y) * i64::from(b.y) + i64::from(a.z) * i64::from(b.z)
}

/// Outward normal of a polygon that is anticlockwise as seen from outside, of length [`ONE`]; zero for one without area.
fn normal(corners: &[Point]) -> Point {
    let (mut x, mut y, mut z) = (0i64, 0i64, 0i64);
    for pair in corners[1..].windows(2) {
        let (a, b) = (minus(pair[0], corners[0]), minus(pair[1], corners[0]));
        // With z ahead the axes are left-handed: the outward side is against the usual product.
        x -= i64::from(a.y) * i64::from(b.z) - i64::from(a.z) * i64::from(b.y);
        y -= i64::from(a.z) * i64::from(b.x) - i64::from(a.x) * i64::from(b.z);
        z -= i64::from(a.x) * i64::from(b.y) - i64::from(a.y) * i64::from(b.x);
    }
    // Products of lengths up to 100 m: shortened so that their squares fit.
    let most = x.unsigned_abs().max(y.unsigned_abs()).max(z.unsigned_abs());
    let spare = (64 - most.leading_zeros()).saturating_sub(30);
    let (x, y, z) = (x >> spare, y >> spare, z >> spare);
    let length = (x * x + y * y + z * z).isqrt().max(1);
    let unit = |value: i64| (value * i64::from(ONE) / length) as i32;
    Point {
        x: unit(x),
        y: unit(y),
        z: unit(z),
    }
}

impl Solid {
    /// Makes a body ready.
    pub fn new(mesh: Mesh) -> Solid {
        let normals: Vec<Vec<Point>> = mesh
            .parts
            .iter()
            .map(|part| part.faces.iter().map(|face| normal(&face.corners)).collect())
            .collect();
        let centres = mesh.parts.iter().map(centre).collect();
        let extent = extent(&mesh);
        let mut divides = Vec::new();
        let count = mesh.parts.len().min(PARTS);
        for a in 0..count {
            for b in a + 1..count {
                divide(&mesh.parts, &normals, a, b, &mut divides);
                divide(&mesh.parts, &normals, b, a, &mut divides);
            }
        }
        Solid {
            mesh,
            extent,
            normals,
            centres,
            divides,
        }
    }

    /// Order in which the parts are painted for a camera at a point of the body's own space.
    pub fn order(&self, eye: Point, order: &mut Vec<usize>) {
        order.clear();
        let count = self.mesh.parts.len().min(PARTS);
        // Bit b of before[a]: b is painted before a.
        let mut before = [0u64; PARTS];
        for divide in &self.divides {
            let in_front = dot(divide.plane.normal, eye) > divide.plane.offset;
            let (later, earlier) = if in_front {
                (divide.front, divide.back)
            } else {
                (divide.back, divide.front)
            };
            before[later] |= 1 << earlier;
        }
        // Where two planes disagree, neither part hides any of the other.
        for a in 0..count {
            for b in 0..a {
                if before[a] >> b & before[b] >> a & 1 == 1 {
                    before[a] &= !(1 << b);
                    before[b] &= !(1 << a);
                }
            }
        }
        let mut waiting = if count == 64 { u64::MAX } else { (1 << count) - 1 };
        while waiting != 0 {
            let mut best: Option<(bool, i64, usize)> = None;
            for (part, earlier) in before.iter().enumerate().take(count) {
                if waiting >> part & 1 == 1 {
                    let away = minus(self.centres[part], eye);
                    let candidate = (earlier & waiting == 0, dot(away, away), part);
                    best = Some(best.map_or(candidate, |best| best.max(candidate)));
                }
            }
            let Some((_, _, part)) = best else { break };
            order.push(part);
            waiting &= !(1 << part);
        }
        order.extend(count..self.mesh.parts.len());
    }
}

/// Adds the planes of faces of part `back` that have all of part `front` in front of them.
fn divide(parts: &[Part], normals: &[Vec<Point>], back: usize, front: usize, divides: &mut Vec<Divide>) {
    for (face, &normal) in parts[back].faces.iter().zip(&normals[back]) {
        let offset = dot(normal, face.corners[0]);
        // Parts may touch, and roundings may let them reach into each other by 2 mm.
        let least = offset - 2 * i64::from(ONE);
        let clear = parts[front]
            .faces
            .iter()
            .flat_map(|face| &face.corners)
            .all(|&corner| dot(normal, corner) >= least);
        if clear && normal != Point::default() {
            divides.push(Divide {
                plane: Plane { normal, offset },
                front,
                back,
            });
        }
    }
}

fn centre(part: &Part) -> Point {
    let mut sum = (0i64, 0i64, 0i64, 0i64);
    for corner in part.faces.iter().flat_map(|face| &face.corners) {
        sum = (
            sum.0 + i64::from(corner.x),
            sum.1 + i64::from(corner.y),
            sum.2 + i64::from(corner.z),
            sum.3 + 1,
        );
    }
    let count = sum.3.max(1);
    Point {
        x: (sum.0 / count) as i32,
        y: (sum.1 / count) as i32,
        z: (sum.2 / count) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::fixed::{cos, sin};
    use crate::scenes::models::{Lamps, VehicleKind, person, vehicle};

    #[test]
    fn normals_point_outwards() {
        let at = |x: i32, y: i32| Point { x, y, z: 0 };
        // Anticlockwise for a camera at z < 0.
        assert_eq!(normal(&[at(0, 0), at(10, 0), at(10, 10), at(0, 10)]), Point { x: 0, y: 0, z: -ONE });
    }

    /// How often a part comes before one that the planes want before it, over views from all around.
    fn violations(solid: &Solid) -> usize {
        let mut order = Vec::new();
        let mut count = 0;
        for turn in 0..64 {
            for away in [4_000, 9_000, 40_000] {
                let eye = Point {
                    x: sin(turn * 64) * (away / 100) / 164,
                    y: 1400,
                    z: cos(turn * 64) * (away / 100) / 164,
                };
                solid.order(eye, &mut order);
                let place = |part: usize| order.iter().position(|&other| other == part);
                for a in 0..solid.mesh.parts.len() {
                    for b in 0..a {
                        let says: Vec<bool> = solid
                            .divides
                            .iter()
                            .filter(|divide| (divide.front, divide.back) == (a, b) || (divide.front, divide.back) == (b, a))
                            .map(|divide| (dot(divide.plane.normal, eye) > divide.plane.offset) == (divide.front == a))
                            .collect();
                        let agreed = says.first().filter(|first| says.iter().all(|says| says == *first));
                        count += usize::from(agreed.is_some_and(|&a_later| a_later != (place(a) > place(b))));
                    }
                }
            }
        }
        count
    }

    #[test]
    fn parts_of_bodies_are_painted_from_far_to_near() {
        for kind in VehicleKind::ALL {
            let count = violations(&Solid::new(vehicle(kind, 1, Lamps::default())));
            assert_eq!(count, 0, "{kind:?}");
        }
        for look in 0..6 {
            assert_eq!(violations(&Solid::new(person(look, 700))), 0, "person {look}");
        }
    }
}
