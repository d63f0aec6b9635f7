//! The C ABI of `include/platoon.h`: the runtime's [`Engine`](crate::runtime::Engine) for vehicle software in C and C++.
//!
//! | file | idea |
//! |---|---|
//! | [`guard`] | the border, and everything unsafe: exported functions, the caller's pointers, the structs of the header |
//! | [`status`] | what calls return, and a thread's last failure |
//! | [`values`] | the other numbers that cross |
//! | `table` | engines by handle, so that a closed one is seen |
//! | `session` | what a handle stands for, and its lock |
//! | `frames` | submit, wait, release |
//! | `views` | results as arrays of structs |
//! | `names` | names as zero-ended texts |
//! | `figures` | descriptions, statistics, health |
//!
//! A call passes from the top down: an exported function checks the caller's pointers, finds the session, and writes what
//! the session gives back. After an engine is open no call takes memory, and no lock is held while one waits.

#![allow(
    clippy::result_large_err,
    reason = "a failure carries its message by value: a box would take memory on board"
)]

mod figures;
mod frames;
pub mod guard;
mod names;
mod session;
pub mod status;
mod table;
pub mod values;
mod views;
