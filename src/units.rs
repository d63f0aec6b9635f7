//! Units that travel between the halves: time in integer nanoseconds, memory in bytes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A duration in nanoseconds. Integers, so that predictions are the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The duration in milliseconds, for people.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// From a number of milliseconds; negative and NaN become zero.
    pub fn from_ms(ms: f64) -> Nanos {
        Nanos((ms * 1e6).max(0.0) as u64)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 10_000 => write!(f, "{n} ns"),
            n if n < 10_000_000 => write!(f, "{:.1} us", n as f64 / 1e3),
            n => write!(f, "{:.2} ms", n as f64 / 1e6),
        }
    }
}

/// Rounds `value` up to a multiple of `align` (a power of two); `None` on overflow.
pub fn align_up(value: u64, align: u64) -> Option<u64> {
    debug_assert!(align.is_power_of_two());
    Some(value.checked_add(align - 1)? & !(align - 1))
}
