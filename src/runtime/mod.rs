//! On board: open a deployment, submit frames, wait, read results.
//!
//! | file | idea |
//! |---|---|
//! | [`engine`] | the object a vehicle holds |
//! | [`lifecycle`] | its states and their legal moves |
//! | `load` | from a plan directory to a running engine |
//! | `images` | camera images on their way into slots |
//! | `inputs` | tensor inputs on their way into slots |
//! | [`frame`] | one frame on its way in |
//! | `latest` | each tenant's latest result, for frames that bring none |
//! | `ending` | the end of a frame: who computed, what is current |
//! | [`report`] | what became of a frame |
//! | [`slot`] | the memory of frames in flight, and the tickets that own it |
//! | `deadline` | waiting, deadlines, the watchdog |
//! | `switch` | changing the task set at a frame boundary |
//! | [`result`] | typed views of a tenant's outputs |
//! | [`realtime`] | pinning, locking memory, scheduling class |
//! | [`cores`] | sets of processor cores |
//! | [`stats`] | latencies and counts since the engine opened |

pub mod cores;
mod deadline;
mod ending;
pub mod engine;
pub mod frame;
mod images;
mod inputs;
mod latest;
pub mod lifecycle;
mod load;
pub mod realtime;
pub mod report;
pub mod result;
pub mod slot;
pub mod stats;
mod switch;

pub use engine::{Engine, Options};
pub use frame::Draft;
pub use images::{Image, ImageHeader};
pub use lifecycle::State;
pub use load::{OpenError, keeping};
pub use report::{FrameReport, TenantReport};
pub use result::{Crop, Detection, LabelMap, TenantResult};
pub use slot::{Held, Ticket};
