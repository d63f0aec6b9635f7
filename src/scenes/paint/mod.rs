//! The picture: the camera that sees the world, and the painting of all that it sees.
//!
//! | file | what it is |
//! |---|---|
//! | `painter` | convex polygons with soft edges; colour, label and owner of every pixel |
//! | `camera` | perspective, and the bend of the road ahead |
//! | `sky` | gradient, clouds, sun, stars, hills |
//! | `ground` | road, sidewalks and meadows row by row, lines along the road |
//! | `marks` | single pieces on the ground: crossings, arrows, patches |
//! | `shadow`, `glare` | what things do to the ground: shadows; pools of light, reflections, glows |
//! | `brush` | bodies, part by part |
//! | `falling` | rain and snow |
//! | `sensor` | darker corners, exposure, noise |
//! | `census` | which pixels show which object: the list of objects |

pub mod brush;
pub mod camera;
pub mod census;
pub mod falling;
pub mod glare;
pub mod ground;
pub mod marks;
pub mod painter;
pub mod sensor;
pub mod shadow;
pub mod sky;
