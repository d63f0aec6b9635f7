//! Recorded and synthetic frames through the on-board loop, and what came out of them.
//!
//! | file | idea |
//! |---|---|
//! | [`source`] | which pictures make up a frame |
//! | [`picture`] | pictures in memory; JPEG and PNG |
//! | [`run`] | the loop: pictures in, frames through the engine, records out |
//! | [`record`] | from the engine's views to records that stay |
//! | [`results`] | the records, and their JSON |
//! | [`labels`] | label maps at the size of their pictures |
//! | [`names`] | names as parts of file names |
//! | [`score`] | the records held against the ground truth |
//! | [`overlay`] | records drawn on pictures |
//! | [`report`] | latencies and counts |
//! | [`folder`] | one writer of a folder at a time |
//! | [`sink`] | the folder all that is written to |
//! | [`trace`] | when each segment ran, for trace viewers |
pub mod drives;
pub mod folder;
pub mod labels;
pub mod names;
pub mod overlay;
pub mod picture;
pub mod record;
pub mod report;
pub mod results;
pub mod run;
pub mod score;
pub mod sink;
pub mod source;
pub mod trace;
