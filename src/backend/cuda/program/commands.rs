//! Commands, and the lanes and events that they name.

use super::super::ports::Stretch;
use crate::ids::{CameraId, OperatorId, StreamId, TenantId};
use crate::plan::format::Plan;

/// A lane's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(pub usize);

/// An event's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId(pub usize);

/// The lanes of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    streams: usize,
    cameras: usize,
    tenants: usize,
}

impl Lanes {
    /// Where frames begin and end.
    pub const ROOT: Lane = Lane(0);

    /// The lanes of `plan`.
    pub fn of(plan: &Plan) -> Lanes {
        Lanes {
            streams: plan.streams.len(),
            cameras: plan.cameras.len(),
            tenants: plan.tenants.len(),
        }
    }

    /// Where a stream's segments run.
    pub fn stream(self, stream: StreamId) -> Lane {
        Lane(1 + stream.index())
    }

    /// Where a stream's segments are marked.
    pub(super) fn marks(self, stream: StreamId) -> Lane {
        Lane(1 + self.streams + stream.index())
    }

    /// Where a camera's image comes in.
    pub(super) fn camera(self, camera: CameraId) -> Lane {
        Lane(1 + 2 * self.streams + camera.index())
    }

    /// Where a tenant's inputs come in and its results go out.
    pub(super) fn tenant(self, tenant: TenantId) -> Lane {
        Lane(1 + 2 * self.streams + self.cameras + tenant.index())
    }

    /// The stream of the plan that the lane is, if it is one.
    pub fn is_stream(self, lane: Lane) -> Option<StreamId> {
        let index = lane.0.checked_sub(1).filter(|&s| s < self.streams)?;
        StreamId::from_index(index)
    }

    /// Number of lanes.
    pub fn count(self) -> usize {
        1 + 2 * self.streams + self.cameras + self.tenants
    }
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Launches a kernel: the index of a launch in [`Program::launches`].
    Launch {
        /// Where.
        lane: Lane,
        /// Which.
        launch: usize,
        /// For which operator, if it is for one.
        operator: Option<OperatorId>,
        /// It may begin before the lane's launch in front of it has ended.
        early: bool,
    },
    /// Copies results to the host by a copy engine.
    Download {
        /// Where.
        lane: Lane,
        /// Which bytes of the slot's results.
        bytes: Stretch,
    },
    /// Marks what the lane holds.
    Record {
        /// Where.
        lane: Lane,
        /// By which event.
        event: EventId,
    },
    /// What comes after waits for the event.
    Wait {
        /// Where.
        lane: Lane,
        /// For which event.
        event: EventId,
    },
}
