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
//! From the seed to the frame, each room knowing only those above it in the table, `light/` and `models/` nothing of each other:
//!
//! | room | what it is | files |
//! |---|---|---|
//! | at the root | words that all share | `fixed` arithmetic in integers: sines, easing, dice; `mesh` bodies of flat convex faces; `truth` what is in a frame: objects, surfaces, signals |
//! | `light/` | hour and weather: colours, sun, haze, lamps | `colour`, `hour`, `moment` |
//! | `models/` | bodies: vehicles, people, lights, signs, houses, trees | `shape`, `fitting`, `vehicle`, `truck`, `person`, `cyclist`, `traffic_light`, `sign`, `pictogram`, `building`, `tree`, `furniture`, `body`, `solid`, `library` |
//! | `world/` | what there is and where | `drive`, `route`, `soil`, `pace`, `ahead`, `thing`, `signals`, `roadside`, `traffic`, `crossing`, `walkers` |
//! | `paint/` | the picture of it | `painter`, `camera`, `sky`, `ground`, `marks`, `shadow`, `glare`, `brush`, `falling`, `sensor`, `census` |
//! | at the root | all of it in order, from far to near | `render` |

mod fixed;
mod light;
pub mod mesh;
pub mod models;
mod paint;
mod render;
#[cfg(test)]
mod tests;
pub mod truth;
mod world;

pub use render::Renderer;
pub use truth::{Class, Object, Signal, Surface};
pub use world::drive::{Drive, FRAMES_PER_SECOND};

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
