//! Names of bodies: what a thing looks like, in a value small enough to be copied and compared.

use super::{Lamps, Side, VehicleKind};
use crate::scenes::mesh::{Mesh, Point};
use crate::scenes::truth::Signal;

/// Names of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Body {
    /// A vehicle: kind, paint, lamps.
    Vehicle(VehicleKind, u32, Lit),
    /// Someone on foot: look, phase of the stride.
    Person(u32, u32),
    /// Someone on a bicycle: look, phase of the pedals.
    Cyclist(u32, u32),
    /// A traffic light on a pole: what it shows, style.
    Light(Signal, u32),
    /// A traffic light above the road on an arm that, seen from its face, reaches it from the left.
    LightOverhead(Signal, u32),
    /// A traffic sign.
    Sign(Signal, u32),
    /// A building: look, whether windows are lit.
    Building(u32, bool),
    /// A tree.
    Tree(u32),
    /// A street lamp: look, whether it is lit.
    StreetLamp(u32, bool),
    /// A barrier.
    Barrier(u32),
    /// A bench, a bin, a box.
    Furniture(u32),
    /// A board that is no sign.
    Board(u32),
}

/// Which lamps of a vehicle are lit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lit {
    /// Headlights and tail lamps.
    pub head: bool,
    /// Brake lamps.
    pub brake: bool,
    /// Indicator: -1 left, 1 right, 0 none.
    pub indicator: i8,
}

impl Body {
    /// Builds a body.
    pub fn mesh(self) -> Mesh {
        match self {
            Body::Vehicle(kind, paint, lit) => {
                let indicator = match lit.indicator {
                    0 => None,
                    side if side < 0 => Some(Side::Left),
                    _ => Some(Side::Right),
                };
                super::vehicle(
                    kind,
                    paint,
                    Lamps {
                        head: lit.head,
                        brake: lit.brake,
                        reverse: false,
                        indicator,
                    },
                )
            }
            Body::Person(look, phase) => super::person(look, phase),
            Body::Cyclist(look, phase) => super::cyclist(look, phase),
            Body::Light(signal, style) => super::traffic_light(signal, style),
            Body::LightOverhead(signal, style) => mirrored(super::traffic_light_overhead(signal, style)),
            Body::Sign(signal, style) => super::sign(signal, style),
            Body::Building(look, lit) => super::building(look, lit),
            Body::Tree(look) => super::tree(look),
            Body::StreetLamp(look, lit) => super::street_lamp(look, lit),
            Body::Barrier(look) => super::barrier(look),
            Body::Furniture(look) => super::furniture(look),
            Body::Board(look) => super::board(look),
        }
    }
}

/// A body as a mirror shows it, left and right exchanged.
fn mirrored(mut mesh: Mesh) -> Mesh {
    let turn = |corners: &mut Vec<Point>| {
        corners.iter_mut().for_each(|corner| corner.x = -corner.x);
        // Anticlockwise again.
        corners.reverse();
    };
    for face in mesh.parts.iter_mut().flat_map(|part| &mut part.faces) {
        turn(&mut face.corners);
        face.decals.iter_mut().for_each(|decal| turn(&mut decal.corners));
    }
    mesh
}
