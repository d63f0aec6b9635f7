//! P3: every frame schedule is an order of exactly what is due, and which of its steps happen before which.
//!
//! Streams run their steps in order; a sync point lets segments wait for earlier ones. Since every wait points back in
//! issue order, there is no cycle and issuing in stored order cannot deadlock. Frames of the cycle run one after another.

use crate::ids::{OperatorId, SegmentId, StreamId, SyncId, TenantId};
use crate::plan::clocks::Clocks;
use crate::plan::format::{FrameSchedule, Plan, Step};

/// A schedule is no order of what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Not exactly the due tenants, ascending.
    #[error("frame {0} of the cycle does not list exactly the tenants that are due, in ascending order")]
    Due(usize),
    /// A tenant without its source.
    #[error("tenant {tenant} runs in frame {frame} of the cycle, where its source {source_tenant} does not, or is its own source")]
    Source {
        /// The frame.
        frame: usize,
        /// The dependent tenant.
        tenant: TenantId,
        /// Its source.
        source_tenant: TenantId,
    },
    /// A segment of a tenant that does not run, or with a step of another tenant, or without steps.
    #[error("segment {segment} of frame {frame} is empty, or has a step that is not of a tenant that runs")]
    Segment {
        /// The frame.
        frame: usize,
        /// The segment.
        segment: SegmentId,
    },
    /// A step that occurs twice.
    #[error("chunk {} of operator {} runs twice in frame {frame}", step.chunk, step.operator)]
    Twice {
        /// The frame.
        frame: usize,
        /// The step.
        step: Step,
    },
    /// A step that is due and missing.
    #[error("a chunk of operator {operator} is due in frame {frame}, but missing")]
    Missing {
        /// The frame.
        frame: usize,
        /// The operator.
        operator: OperatorId,
    },
    /// A sync point that waits for a later segment.
    #[error("sync point {sync} of frame {frame} waits for a segment that is not issued before the waiting one")]
    Backward {
        /// The frame.
        frame: usize,
        /// The sync point.
        sync: SyncId,
    },
}

/// The steps of a plan, numbered: chunk `c` of operator `o` is `first[o] + c`.
pub(super) struct Steps {
    first: Vec<u32>,
}

impl Steps {
    /// Numbers the steps of a plan whose counts are checked.
    pub(super) fn of(plan: &Plan) -> Steps {
        let mut next = 0;
        let mut first: Vec<u32> = Vec::with_capacity(plan.operators.len() + 1);
        for operator in &plan.operators {
            first.push(next);
            next += operator.chunks.len() as u32;
        }
        first.push(next);
        Steps { first }
    }

    /// How many steps there are.
    pub(super) fn count(&self) -> usize {
        self.first.last().map_or(0, |&n| n as usize)
    }

    /// The number of chunk `chunk` of operator `operator`.
    pub(super) fn number(&self, operator: usize, chunk: usize) -> u32 {
        self.first[operator] + chunk as u32
    }

    /// The step with this number.
    pub(super) fn step(&self, number: u32) -> Step {
        let operator = self.first.partition_point(|&f| f <= number) - 1;
        Step {
            operator: OperatorId(operator as u32),
            chunk: (number - self.first[operator]) as u16,
        }
    }
}

/// Where a step runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) stream: StreamId,
    segment: u32,
    /// Which step of its stream it is.
    pub(super) position: u32,
}

/// The happens-before relation of one frame schedule.
pub(super) struct Order {
    pub(super) frame: usize,
    /// Place of every step that runs, by number.
    places: Vec<Option<Place>>,
    clocks: Clocks,
}

impl Order {
    /// Checks frame `frame` of the cycle, and gives its order.
    pub(super) fn of(plan: &Plan, steps: &Steps, frame: usize) -> Result<Order, OrderError> {
        let schedule = &plan.cycle[frame];
        due(plan, schedule, frame)?;
        let places = places(plan, steps, schedule, frame)?;
        Ok(Order {
            frame,
            places,
            clocks: Clocks::of(plan.streams.len(), schedule).map_err(|sync| OrderError::Backward { frame, sync })?,
        })
    }

    /// Where a step runs, if it does.
    pub(super) fn place(&self, step: u32) -> Option<Place> {
        self.places[step as usize]
    }

    /// True if the step at `a` is complete before the step at `b` starts.
    pub(super) fn before(&self, a: Place, b: Place) -> bool {
        self.position_before(a.stream, a.position, b)
    }

    /// True if step `position` of `stream`, and so every one before it, is complete before the step at `b` starts.
    pub(super) fn position_before(&self, stream: StreamId, position: u32, b: Place) -> bool {
        if stream == b.stream {
            return position < b.position;
        }
        position < self.clocks.complete(b.segment as usize, stream.index())
    }
}

/// The schedule runs exactly the tenants that are due, and each with its sources.
fn due(plan: &Plan, schedule: &FrameSchedule, frame: usize) -> Result<(), OrderError> {
    let is_due = |(_, t): &(usize, &crate::plan::format::Tenant)| t.rate.due(frame as u64);
    let due = plan.tenants.iter().enumerate().filter(is_due).map(|(i, _)| i);
    if !due.eq(schedule.tenants.iter().map(|t| t.index())) {
        return Err(OrderError::Due(frame));
    }
    for &tenant in &schedule.tenants {
        for &source in &plan.tenants[tenant.index()].sources {
            if source == tenant || !schedule.tenants.contains(&source) {
                return Err(OrderError::Source {
                    frame,
                    tenant,
                    source_tenant: source,
                });
            }
        }
    }
    Ok(())
}

/// Every step of the tenants that run has exactly one place.
fn places(plan: &Plan, steps: &Steps, schedule: &FrameSchedule, frame: usize) -> Result<Vec<Option<Place>>, OrderError> {
    let mut places = vec![None; steps.count()];
    let mut position = vec![0u32; plan.streams.len()];
    for (i, segment) in schedule.segments.iter().enumerate() {
        let own = |step: &Step| plan.operators[step.operator.index()].tenant == segment.tenant;
        let runs = schedule.tenants.binary_search(&segment.tenant).is_ok();
        if !runs || segment.steps.is_empty() || !segment.steps.iter().all(own) {
            return Err(OrderError::Segment {
                frame,
                segment: SegmentId(i as u32),
            });
        }
        let next = &mut position[segment.stream.index()];
        for &step in &segment.steps {
            let number = steps.number(step.operator.index(), usize::from(step.chunk));
            let place = Place {
                stream: segment.stream,
                segment: i as u32,
                position: *next,
            };
            if places[number as usize].replace(place).is_some() {
                return Err(OrderError::Twice { frame, step });
            }
            *next += 1;
        }
    }
    for (i, operator) in plan.operators.iter().enumerate() {
        let runs = schedule.tenants.binary_search(&operator.tenant).is_ok();
        let own = steps.first[i] as usize..steps.first[i + 1] as usize;
        if runs && places[own].iter().any(Option::is_none) {
            return Err(OrderError::Missing {
                frame,
                operator: OperatorId(i as u32),
            });
        }
    }
    Ok(places)
}
