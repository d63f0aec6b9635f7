//! What became of a frame.

use crate::ids::{PlanId, TenantId};
use crate::limits::MAX_TENANTS;
use crate::task::Status;
use crate::units::Nanos;

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameReport {
    /// Its number.
    pub frame: u64,
    /// The plan it ran under.
    pub plan: PlanId,
    /// The frame schedule of the plan's cycle.
    pub schedule: usize,
    /// From the start of its work (submitted, and the frame before ended) to its end.
    pub total: Nanos,
    /// One entry per tenant of the plan, in order.
    pub tenants: heapless::Vec<TenantReport, MAX_TENANTS>,
}

impl FrameReport {
    /// A report of nothing, to be filled in place.
    pub(super) const EMPTY: FrameReport = FrameReport {
        frame: 0,
        plan: PlanId(0),
        schedule: 0,
        total: Nanos(0),
        tenants: heapless::Vec::new(),
    };
}

/// What became of a tenant in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantReport {
    /// The tenant.
    pub tenant: TenantId,
    /// How current its result is.
    pub status: Status,
    /// The frame its result is of: that of the oldest image it was computed from. Of no meaning for [`Status::None`].
    pub of_frame: u64,
    /// From the start of the frame's work to its result; 0 unless it computed in this frame.
    pub finish: Nanos,
    /// Computed, but after its deadline.
    pub missed_deadline: bool,
    /// Computed in this frame, but from an image of an earlier one, because a camera missed this one: stale.
    pub old_image: bool,
}
