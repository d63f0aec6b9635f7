//! The bodies that move, speak or stand beside the road: vehicles, people, traffic lights, signs, buildings, trees.
//!
//! Every function is pure: the same arguments give the same body, and every `u32` is a look. Bodies stand on the ground at
//! the origin and look along +z: a vehicle drives there, a walker walks there, a sign's face and a shop's door are seen from
//! there. The parts of a body keep apart: for each two of them a face of one has the other beyond its plane, so that they can
//! be painted in a right order. Only the clumps of a tree and the tubes of a bicycle reach into each other.
//!
//! | file | what it builds |
//! |---|---|
//! | `shape` | solids, marks on faces, dice for looks: what the others build with |
//! | `fitting` | what vehicles share: kinds and sizes, wheels, lamps |
//! | `vehicle`, `truck` | cars, and trucks and buses |
//! | `person`, `cyclist` | people in any phase of a stride or a turn of the pedals |
//! | `traffic_light` | traffic lights beside and above the road |
//! | `sign`, `pictogram` | traffic signs, and what is painted on them |
//! | `building`, `tree`, `furniture` | what stands beside the road, boards that are no signs included |
//! | `body` | names of bodies, from which they are built |
//! | `solid` | a body made ready to be painted: normals, and the order of its parts for an eye |
//! | `library` | the bodies in use by name, made once |

pub(in crate::scenes) mod body;
mod building;
mod cyclist;
mod fitting;
mod furniture;
pub(in crate::scenes) mod library;
mod person;
mod pictogram;
mod shape;
mod sign;
pub(in crate::scenes) mod solid;
mod traffic_light;
mod tree;
mod truck;
mod vehicle;

pub use building::building;
pub use cyclist::cyclist;
pub use fitting::{Lamps, Side, VehicleKind};
pub use furniture::{barrier, board, furniture, street_lamp};
pub use person::person;
pub use sign::sign;
pub use traffic_light::{traffic_light, traffic_light_overhead};
pub use tree::tree;
pub use vehicle::vehicle;

use super::mesh::{Mesh, Point};

/// Least and greatest coordinates of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Left, bottom, back.
    pub min: Point,
    /// Right, top, front.
    pub max: Point,
}

impl Extent {
    /// Width to the right and depth ahead, in millimetres.
    pub fn footprint(&self) -> (i32, i32) {
        (self.max.x - self.min.x, self.max.z - self.min.z)
    }
}

/// The extent of a body; zero for a body without faces.
pub fn extent(mesh: &Mesh) -> Extent {
    let mut points = mesh.parts.iter().flat_map(|p| &p.faces).flat_map(|f| &f.corners);
    let Some(&first) = points.next() else {
        return Extent {
            min: Point::default(),
            max: Point::default(),
        };
    };
    points.fold(Extent { min: first, max: first }, |e, p| Extent {
        min: Point {
            x: e.min.x.min(p.x),
            y: e.min.y.min(p.y),
            z: e.min.z.min(p.z),
        },
        max: Point {
            x: e.max.x.max(p.x),
            y: e.max.y.max(p.y),
            z: e.max.z.max(p.z),
        },
    })
}

#[cfg(test)]
mod tests;
