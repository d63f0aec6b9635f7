//! Synthetic camera: driving scenes drawn in integer arithmetic, with their ground truth.
//!
//! A [`Drive`] is fixed by its seed: the road, what stands beside it, who drives on it, the hour and the weather. A frame is
//! fixed by the drive and its number: [`Renderer::render`] gives the same pixels and the same truth on every machine, in any
//! order of frames. Nothing is carried from frame to frame: every place is a formula of the seed and the number.
//!
//! ```
//! use platoon::scenes::{Drive, Frame, Renderer};
//!
//! let (drive, mut renderer, mut frame) = (Drive::new(7), Renderer::new(), Frame::default());
//! renderer.render(&drive, 120, &mut frame);
//! assert!(frame.objects.iter().all(|object| object.bounds[2] <= 1280));
//! ```
//!
//! From the seed to the frame:
//!
//! | file | what it is |
//! |---|---|
//! | `fixed` | arithmetic: sines, easing, dice; integers only |
//! | `truth` | what is in a frame: objects with class and box, surfaces, signals |
//! | `mesh`, `models/` | bodies of flat convex faces in millimetres: vehicles, people, lights, signs, houses, trees |
//! | `drive`, `route`, `pace`, `ahead` | the drive; its stretches of road; where the car is when; what lies ahead in one frame |
//! | `light` | hour and weather: colours, sun, haze, lamps |
//! | `thing`, `roadside`, `signals`, `traffic`, `crossing`, `walkers` | who and what is in the scene, with places and looks |
//! | `camera`, `painter` | perspective; convex polygons with soft edges, labels and owners of pixels |
//! | `sky`, `ground`, `marks`, `shadow`, `glare` | what lies behind and under the things |
//! | `library`, `solid` | bodies made ready, kept, and painted part by part |
//! | `weather`, `sensor` | rain, snow, glows; lens and noise |
//! | `census` | which pixels show which object |
//! | `render` | all of it in order, from far to near |

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
