//! The simulator: how long a frame schedule takes on a board, without the board.
//!
//! ```text
//! operators, board, measured times --Costs--> cost of each chunk and width
//! frame schedule --Frame--> flat tables --Simulator--> frame time, ends, Trace (spans, residue)
//! ```
//! Several streams share a pool of units (SMs or workers) and the memory's bandwidth; a launch is so many blocks that stay
//! where they are until they are done. `engine` says the rules, `bays` keeps the units, `footprint` and `room` know the kernels, from `extents`,
//! `costs` says where the figures of operators come from, `paces` those that nobody measured, `calibration` where those of the rules, which `fit` fits.

mod bays;
mod calibration;
mod costs;
mod engine;
mod extents;
mod fit;
mod footprint;
mod frame;
mod machine;
pub mod paces;
mod predict;
mod room;
mod trace;

#[cfg(test)]
mod tests;

pub use calibration::Calibration;
pub use costs::{Cost, Costs, Group, Measured, Source};
pub use engine::{Simulator, Witness};
pub use fit::Observed;
pub use footprint::Footprint;
pub use frame::{Frame, Launch, Part};
pub use machine::{GRAIN, Machine};
pub use predict::{predict, trace};
pub use trace::{Held, Span, Trace};
