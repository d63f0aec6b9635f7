//! The world: what there is in a drive, and where it is in a frame.
//!
//! All of it follows from the seed and the frame's number. Places are given along and across the route, in millimetres, so that
//! nothing here knows how it will look in a picture.
//!
//! | file | what it is |
//! |---|---|
//! | `drive` | what the seed alone fixes: route and soil |
//! | `route` | stretches of road: lanes, kerbs, junctions, what stands beside them |
//! | `soil` | colours of the ground and of its marks |
//! | `pace` | where the car is when |
//! | `ahead` | the stretches in sight in one frame |
//! | `thing` | one thing in one frame: body, place, what it counts as |
//! | `signals` | what traffic lights show when |
//! | `roadside` | houses, trees, lamps, parked cars, signs, traffic lights |
//! | `traffic`, `crossing` | vehicles along the road; those of crossing streets |
//! | `walkers` | people on foot and on bicycles |

pub mod ahead;
pub mod crossing;
pub mod drive;
pub mod pace;
pub mod roadside;
pub mod route;
pub mod signals;
pub mod soil;
pub mod thing;
pub mod traffic;
pub mod walkers;
