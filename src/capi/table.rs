//! Engines by handle. A handle is a place and how often the place was taken, so a closed engine's handle fits no other.

use super::session::Session;
use super::status::{Failure, Status};
use super::values::MAX_ENGINES;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Place {
    /// How often the place was taken.
    turn: u64,
    session: Option<Arc<Session>>,
}

static PLACES: [Mutex<Place>; MAX_ENGINES] = [const { Mutex::new(Place { turn: 0, session: None }) }; MAX_ENGINES];

fn enter(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    // Nothing that may panic happens inside.
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handle(place: usize, turn: u64) -> u64 {
    turn * MAX_ENGINES as u64 + place as u64
}

fn closed() -> Failure {
    Failure::new(
        Status::Handle,
        format_args!("no open engine has this handle: it was closed, or never opened"),
    )
}

/// The handle's place, if the handle is that of the engine in it.
fn place_of(id: u64) -> Result<MutexGuard<'static, Place>, Failure> {
    let index = (id % MAX_ENGINES as u64) as usize;
    let place = enter(&PLACES[index]);
    if id == handle(index, place.turn) {
        Ok(place)
    } else {
        Err(closed())
    }
}

/// Gives a session a handle, never 0. [`Status::Limit`] if too many are open.
pub(super) fn insert(session: Session) -> Result<u64, Failure> {
    let session = Arc::new(session);
    for (index, place) in PLACES.iter().enumerate() {
        let mut place = enter(place);
        if place.session.is_none() {
            place.turn += 1;
            place.session = Some(session);
            return Ok(handle(index, place.turn));
        }
    }
    session.close();
    Err(Failure::new(
        Status::Limit,
        format_args!("{MAX_ENGINES} engines are open: close one"),
    ))
}

/// The session of a handle.
pub(super) fn find(id: u64) -> Result<Arc<Session>, Failure> {
    place_of(id)?.session.clone().ok_or_else(closed)
}

/// Takes the session of a handle away; the handle fits nothing any more.
pub(super) fn remove(id: u64) -> Result<Arc<Session>, Failure> {
    place_of(id)?.session.take().ok_or_else(closed)
}
