//! The CPU backend's kernels.

<<<<<<< HEAD
pub mod generic;
=======
pub mod vision;
>>>>>>> vision
