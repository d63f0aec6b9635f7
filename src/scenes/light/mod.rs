//! Light: the hour and the weather of a moment, and the colours that they give to the sky and to faces.
//!
//! | file | what it is |
//! |---|---|
//! | `colour` | colours mixed with colours and under a light |
//! | `hour` | the hours of a clear day |
//! | `moment` | the light of a moment under the drive's weather: sky, sun, haze, lamps, and how faces take it |

mod colour;
mod hour;
mod moment;

pub use colour::{lit, mixed};
pub use moment::{Falling, Light};
