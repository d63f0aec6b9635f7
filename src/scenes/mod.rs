//! Synthetic camera: driving scenes drawn in integer arithmetic, with their ground truth.
//!
//! A `Drive` is fixed by its seed: the road, what stands beside it, who drives on it, the hour and the weather. A frame is
//! fixed by the drive and its number: `Drive::render` gives the same pixels on every machine, in any order of frames.
//!
//! | file | what it is |
//! |---|---|
//! | `truth` | what is in a frame: objects with class and box, surfaces, signals |
//! | `mesh` | bodies of flat convex faces in millimetres, and how they are turned and moved |
//! | `models/` | the bodies: vehicles, people, cyclists, traffic lights, signs |

mod ahead;
mod camera;
mod census;
mod crossing;
mod drive;
mod fixed;
mod glare;
mod ground;
mod library;
mod light;
mod marks;
pub mod mesh;
pub mod models;
mod pace;
mod painter;
mod render;
mod roadside;
mod route;
mod sensor;
mod shadow;
mod signals;
mod sky;
mod solid;
#[cfg(test)]
mod tests;
mod thing;
mod traffic;
pub mod truth;
mod walkers;
mod weather;

pub use drive::{Drive, FRAMES_PER_SECOND};
pub use render::Renderer;
pub use truth::{Class, Object, Signal, Surface};

/// Width of the camera's pictures, in pixels.
pub const WIDTH: usize = 1280;
/// Height of the camera's pictures, in pixels.
pub const HEIGHT: usize = 720;

/// A picture with its ground truth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// RGB8, `WIDTH * HEIGHT * 3` bytes, rows from the top.
    pub pixels: Vec<u8>,
    /// [`Surface`] of every pixel by number, `WIDTH * HEIGHT` bytes.
    pub labels: Vec<u8>,
    /// What is in the picture, from far to near.
    pub objects: Vec<Object>,
}
