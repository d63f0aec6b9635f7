//! Recorded frames through the on-board loop, and what came out: results, pictures to look at, figures.
pub mod labels;
pub mod overlay;
pub mod picture;
pub mod results;
pub mod source;
