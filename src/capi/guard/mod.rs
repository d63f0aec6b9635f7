//! The border: everything unsafe of the C ABI, and nothing else of it.
//!
//! | file | idea |
//! |---|---|
//! | [`exports`] | the exported functions |
//! | `pointers` | what is taken from and written to the caller's pointers |
//! | [`types`] | the structs of the header |
//! | [`layout`] | how they are declared |
#![allow(unsafe_code)]

pub mod exports;
pub mod layout;
mod pointers;
pub mod types;
