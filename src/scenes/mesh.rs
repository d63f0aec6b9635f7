//! Bodies of flat faces. Lengths are millimetres; x points to the right, y up, z ahead; angles are 1/4096 of a turn.
//!
//! A body stands with its footprint's middle at the origin on the ground and looks along +z. Seen from the camera behind it
//! (at z < 0, looking along +z) one sees its back. Parts are convex solids; the painter draws the parts from far to near,
//! of each part the faces that look at the camera, and on each face its decals in order.

/// A colour, red green blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rgb(pub u8, pub u8, pub u8);

/// A place in millimetres.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Point {
    /// To the right.
    pub x: i32,
    /// Up from the ground.
    pub y: i32,
    /// Ahead.
    pub z: i32,
}

/// How a face takes light.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Darker the further it is turned from the sun.
    Matt,
    /// As `Matt`, and mirrors some of the sky: lacquer, glass.
    Gloss,
    /// Gives light of its own at night and in the rain: lamps, lit windows. Never darkened.
    Lamp,
    /// Its own colour by day, bright in headlights at night: signs, plates.
    Reflector,
}

/// A flat convex polygon with 3 to 16 corners, anticlockwise as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    /// Corners.
    pub corners: Vec<Point>,
    /// Its colour in white light.
    pub colour: Rgb,
    /// How it takes light.
    pub finish: Finish,
    /// Flat convex polygons lying on it, painted after it in order, seen only where it is seen.
    pub decals: Vec<Decal>,
}

/// A mark on a face: a flat convex polygon in the face's plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decal {
    /// Corners, 3 to 16 of them, in the face's plane.
    pub corners: Vec<Point>,
    /// Its colour in white light.
    pub colour: Rgb,
    /// How it takes light.
    pub finish: Finish,
}

/// What a part is, where one body shows several things to be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Belongs to the object that the body is.
    #[default]
    Body,
    /// Holds it up and does not count as the object: the pole of a sign or light.
    Support,
}

/// A convex solid.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Part {
    /// Its faces.
    pub faces: Vec<Face>,
    /// What it is.
    pub role: Role,
}

/// A body.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Mesh {
    /// Its parts, in any order.
    pub parts: Vec<Part>,
}
