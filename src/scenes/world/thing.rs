//! A thing that stands or moves in the scene, and the list of them in one frame.

use crate::scenes::models::body::Body;
use crate::scenes::truth::{Class, Signal, Surface};

/// A thing in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thing {
    /// The same in all frames.
    pub id: u32,
    /// How it looks.
    pub body: Body,
    /// Depth of its origin, along the route from the camera, in millimetres.
    pub z: i32,
    /// Place across the route, in millimetres.
    pub u: i32,
    /// Which way it looks, relative to the route, in 1/4096 turns to the right.
    pub yaw: i32,
    /// What a detector finds; `None` for what is no object.
    pub class: Option<Class>,
    /// What it says to the ego car.
    pub signal: Option<Signal>,
    /// Depth that orders it among the others: the further is painted first.
    pub rank: i32,
}

impl Thing {
    /// A thing that is no object.
    pub fn scenery(body: Body, z: i32, u: i32, yaw: i32) -> Thing {
        Thing {
            id: 0,
            body,
            z,
            u,
            yaw,
            class: None,
            signal: None,
            rank: z,
        }
    }

    /// What its pixels show.
    pub fn surface(&self) -> Surface {
        match self.class {
            Some(Class::Car | Class::Truck) => Surface::Vehicle,
            Some(Class::Person | Class::Cyclist) => Surface::Person,
            Some(Class::TrafficLight | Class::TrafficSign) | None => Surface::Other,
        }
    }
}

/// What a thing is, in the number that follows it from frame to frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kin {
    /// Vehicles that move.
    Traffic = 1,
    /// Vehicles that are parked.
    Parked = 2,
    /// Walkers.
    Walker = 3,
    /// Cyclists.
    Cyclist = 4,
    /// Traffic lights.
    Light = 5,
    /// Traffic signs.
    Sign = 6,
}

/// Number of the `index`th thing of its kin in a stretch or a generation. Repeats after 32768 of them.
pub fn id(kin: Kin, generation: i64, index: usize) -> u32 {
    (kin as u32) << 28 | (generation.rem_euclid(1 << 15) as u32) << 12 | (index as u32 & 0xFFF)
}
