//! The bodies in use, made once and kept from frame to frame.

use std::collections::BTreeMap;

use super::body::Body;
use super::solid::Solid;

/// Bodies kept at most; then the library starts anew.
const KEPT: usize = 1500;

/// Bodies by name.
#[derive(Clone, Debug, Default)]
pub struct Library {
    solids: BTreeMap<Body, Solid>,
}

impl Library {
    /// Forgets bodies if there are too many.
    pub fn tidy(&mut self) {
        if self.solids.len() > KEPT {
            self.solids.clear();
        }
    }

    /// A body by name.
    pub fn solid(&mut self, body: Body) -> &Solid {
        self.solids.entry(body).or_insert_with(|| Solid::new(body.mesh()))
    }
}
