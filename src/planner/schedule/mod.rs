//! From operators to frame schedules: searchers decide, one gate makes the decisions legal, one emitter stores them.
//!
//! A searcher gives [`Decisions`]: how each operator is cut, what runs it and how wide, and in which order the steps of all
//! tenants are issued on which streams. [`apply`] is the only way from decisions to a [`Schedule`]: it refuses what cannot
//! be legal, with the reason, and adds the sync points that data across streams needs. Searchers never run on board.

mod legal;
mod random;
mod simple;

#[cfg(test)]
pub(super) mod tests;

pub use legal::{ScheduleError, apply};
pub use random::{random, splits};
pub use simple::{sequential, streams};

use crate::board::Division;
use crate::ids::{OperatorId, TenantId};
use crate::limits::MAX_CYCLE;
use crate::plan::format::{FrameSchedule, Operator, Segment, Stream, SyncPoint, Tactic, Tenant};
use crate::primitive::Region;

/// What is to be scheduled.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The tenants, with rates, priorities and sources.
    pub tenants: &'a [Tenant],
    /// The operators of all tenants; each tenant's in an order in which they can run one after another.
    pub operators: &'a [Operator],
    /// For each operator, those that write what it reads; all earlier in `operators`.
    pub needs: &'a [Vec<OperatorId>],
    /// How the board's units can be divided between streams.
    pub division: Division,
}

/// How one operator runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Its chunks, in order.
    pub chunks: Vec<Region>,
    /// What runs it: one of its tactics, all of which give the same bits.
    pub tactic: Tactic,
    /// Blocks or workers it may hold at once, 0 for all.
    pub width: u16,
}

/// What runs in one frame, before data dependences are turned into sync points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issue {
    /// Segments in issue order.
    pub segments: Vec<Segment>,
    /// Sync points wanted for their own sake: barriers of clusters, bounds on co-running.
    pub barriers: Vec<SyncPoint>,
}

/// Everything a searcher decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// One per operator.
    pub cuts: Vec<Cut>,
    /// The streams.
    pub streams: Vec<Stream>,
    /// One per frame of the cycle.
    pub frames: Vec<Issue>,
}

impl Decisions {
    /// Whether some stream has units of its own.
    pub fn is_confined(&self) -> bool {
        self.streams.iter().any(|s| s.units > 0)
    }
}

/// A legal schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The operators with chunks, tactics and widths set.
    pub operators: Vec<Operator>,
    /// The streams.
    pub streams: Vec<Stream>,
    /// The frame schedules of the cycle.
    pub cycle: Vec<FrameSchedule>,
}

impl Problem<'_> {
    /// Frames until the rates repeat: the least common multiple of the divisors, or `None` beyond [`MAX_CYCLE`].
    pub fn cycle_length(&self) -> Option<usize> {
        fn gcd(a: usize, b: usize) -> usize {
            if b == 0 { a } else { gcd(b, a % b) }
        }
        let divisors = self.tenants.iter().map(|t| usize::from(t.rate.divisor.max(1)));
        let length = divisors.fold(1, |l, d| l / gcd(l, d) * d);
        (length <= MAX_CYCLE).then_some(length)
    }

    /// The tenants due in `frame`, ascending.
    pub fn due(&self, frame: usize) -> Vec<TenantId> {
        let due = self.tenants.iter().enumerate().filter(|(_, t)| t.rate.due(frame as u64));
        due.map(|(i, _)| TenantId(i as u16)).collect()
    }

    /// The tenants due in `frame` in issue order: sources before those that read them, then by priority, then by number.
    pub fn issue_order(&self, frame: usize) -> Vec<TenantId> {
        let mut left = self.due(frame);
        left.sort_by_key(|t| (std::cmp::Reverse(self.tenants[t.index()].urgency.priority), *t));
        let mut order: Vec<TenantId> = Vec::with_capacity(left.len());
        while !left.is_empty() {
            // A tenant whose sources are all issued or not due; a circle of sources is refused by the gate.
            let ready = |t: &TenantId| self.tenants[t.index()].sources.iter().all(|s| !left.contains(s));
            let next = left.iter().position(ready).unwrap_or(0);
            order.push(left.remove(next));
        }
        order
    }

    /// The operators of a tenant, in their order.
    pub fn operators_of(&self, tenant: TenantId) -> impl Iterator<Item = OperatorId> {
        let own = self.operators.iter().enumerate().filter(move |(_, o)| o.tenant == tenant);
        own.map(|(i, _)| OperatorId(i as u32))
    }
}
