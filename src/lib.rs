//! Platoon runs several neural networks in formation on one GPU, once per camera frame.
pub mod backend;
