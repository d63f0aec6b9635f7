//! A drive: what is fixed by its seed alone.

use super::route::Route;
use super::soil::Soil;

/// Frames a second of a drive.
pub const FRAMES_PER_SECOND: u32 = 10;

/// A drive without end, fixed by its seed.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Its seed.
    pub(in crate::scenes) seed: u64,
    pub(in crate::scenes) route: Route,
    pub(in crate::scenes) soil: Soil,
}

impl Drive {
    /// The drive of a seed.
    pub fn new(seed: u64) -> Drive {
        Drive {
            seed,
            route: Route::new(seed),
            soil: Soil::new(seed),
        }
    }

    /// Its seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}
