//! What a handle stands for: an engine, its tickets and drafts, and the lock that puts calls in order.
//!
//! The lock is held while the engine is looked at or a frame is copied into it, never while one waits.

use super::guard::layout::Address;
use super::guard::types::LogCallback;
use super::names::{Names, text};
use super::status::{Failure, Status, plain};
use super::values::{LOG_ERROR, LOG_INFO, LOG_WARNING};
use super::views::{Shelf, shelves};
use crate::backend::Wait;
use crate::board::BackendKind;
use crate::error::RunError;
use crate::ids::PlanId;
use crate::limits::MAX_SLOTS;
use crate::runtime::{Engine, Held, OpenError, Options, Ticket};
use std::error::Error;
use std::ffi::c_void;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where messages go.
#[derive(Clone, Copy)]
pub(super) struct Log {
    pub(super) callback: Option<LogCallback>,
    pub(super) context: Address<c_void>,
}

impl Log {
    fn say(self, level: i32, message: &str) {
        if let Some(callback) = self.callback {
            let line: String = message.chars().map(plain).collect();
            callback(self.context.raw().cast_mut(), level, text(&line).as_ptr());
        }
    }
}

/// An engine that C code holds.
pub(super) struct Session {
    inner: Mutex<Inner>,
    pub(super) names: Names,
    pub(super) facts: Facts,
    log: Log,
}

/// What does not change while the engine is open.
pub(super) struct Facts {
    pub(super) backend: BackendKind,
    pub(super) slots: usize,
    pub(super) open: Duration,
    /// Waiting keeps a core busy.
    pub(super) spin: bool,
}

/// What the lock guards.
pub(super) struct Inner {
    /// `None` once it is closed.
    pub(super) engine: Option<Engine>,
    /// Tickets that were not released, with the numbers they were given out under.
    pub(super) tickets: [Option<Issued>; MAX_SLOTS],
    /// The draft that is open.
    pub(super) draft: Option<(u64, Held)>,
    /// Per slot, per tenant.
    pub(super) shelves: Vec<Vec<Shelf>>,
}

/// A ticket that was given out.
pub(super) struct Issued {
    pub(super) id: u64,
    pub(super) plan: PlanId,
    pub(super) ticket: Ticket,
}

/// An error with its causes on one line.
fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // An error that is its cause says it once.
        if !line.ends_with(&more) {
            // Writing to a string does not fail.
            let _ = write!(line, ": {more}");
        }
        cause = error.source();
    }
    line
}

impl Session {
    /// Opens the plans in `folder` under the task set, if one is named.
    pub(super) fn open(folder: &Path, task_set: Option<&str>, options: &Options, log: Log) -> Result<Session, Failure> {
        let began = Instant::now();
        let opened = Engine::open(folder, options);
        let mut engine = opened.map_err(|error| {
            let line = chain(&error);
            log.say(LOG_ERROR, &line);
            let status = match error {
                OpenError::Prepare(_) => Status::Prepare,
                OpenError::Load(_) | OpenError::DefaultTaskSet(_) => Status::Load,
                OpenError::State(_) => Status::State,
            };
            Failure::new(status, format_args!("{line}"))
        })?;
        if let Some(name) = task_set {
            engine.select(name).map_err(|error| match error {
                RunError::Unknown => Failure::new(
                    Status::Unknown,
                    format_args!("no task set {name:?}; there are {}", engine.task_sets().join(", ")),
                ),
                other => other.into(),
            })?;
        }
        let slots = usize::from(options.slots.unwrap_or(engine.deployment().table.slots));
        let shelves = (0..slots).map(|_| shelves(&engine)).collect::<Result<_, _>>();
        let shelves = shelves.map_err(|error| {
            log.say(LOG_ERROR, &error.to_string());
            Failure::new(Status::Prepare, format_args!("{error}"))
        })?;
        let session = Session {
            names: Names::of(engine.deployment()),
            facts: Facts {
                backend: options.backend.unwrap_or(engine.deployment().table.backend),
                slots,
                open: began.elapsed(),
                spin: options.wait == Wait::Spin,
            },
            inner: Mutex::new(Inner {
                tickets: [const { None }; MAX_SLOTS],
                draft: None,
                shelves,
                engine: Some(engine),
            }),
            log,
        };
        session.say_opened();
        Ok(session)
    }

    fn say_opened(&self) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = &inner.engine else { return };
        for refused in engine.refused() {
            self.log.say(LOG_WARNING, &refused.to_string());
        }
        self.log.say(
            LOG_INFO,
            &format!(
                "board {}, task sets {}: sealed after {} ms with {} slots",
                engine.deployment().table.board.name,
                engine.task_sets().join(", "),
                self.facts.open.as_millis(),
                self.facts.slots
            ),
        );
    }

    /// The engine, for one short use. [`Status::Internal`] if a bug ended an earlier use midway.
    pub(super) fn enter(&self) -> Result<MutexGuard<'_, Inner>, Failure> {
        self.inner.lock().map_err(|_| {
            Failure::new(
                Status::Internal,
                format_args!("an earlier call ended in a bug of the library: close this engine"),
            )
        })
    }

    /// Stops the engine; calls that wait elsewhere end with [`Status::Handle`]. Returns how many workers or devices were
    /// leaked.
    pub(super) fn close(&self) -> usize {
        let engine = self.inner.lock().unwrap_or_else(PoisonError::into_inner).engine.take();
        let leaked = engine.map_or(0, Engine::close);
        if leaked > 0 {
            self.log
                .say(LOG_WARNING, &format!("closed; {leaked} workers or devices were stuck and leaked"));
        } else {
            self.log.say(LOG_INFO, "closed");
        }
        leaked
    }
}

impl Inner {
    /// The engine, unless it was closed meanwhile.
    pub(super) fn engine(&mut self) -> Result<&mut Engine, Failure> {
        self.engine.as_mut().ok_or_else(closed_meanwhile)
    }

    /// The engine and a ticket of it.
    pub(super) fn issued(&mut self, id: u64) -> Result<(&mut Engine, &Issued), Failure> {
        let engine = self.engine.as_mut().ok_or_else(closed_meanwhile)?;
        let issued = self.tickets.iter().flatten().find(|t| t.id == id);
        Ok((engine, issued.ok_or(RunError::Ticket)?))
    }
}

pub(super) fn closed_meanwhile() -> Failure {
    Failure::new(Status::Handle, format_args!("the engine was closed by another thread"))
}
