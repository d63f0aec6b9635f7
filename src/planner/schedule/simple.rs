//! The two plain searchers: every rival is measured against them.

use super::{Cut, Decisions, Issue, Problem};
use crate::ids::{StreamId, TenantId};
use crate::plan::format::{Segment, Step, Stream};
use crate::primitive::Region;

/// Every operator in one piece, as wide as the board.
pub(super) fn whole(problem: &Problem<'_>) -> Vec<Cut> {
    let cut = |o: &crate::plan::format::Operator| Cut {
        chunks: vec![
            o.outputs
                .first()
                .map_or(Region { batch: 0..1, rows: 0..1 }, |v| Region::whole(v.layout.shape)),
        ],
        tactic: o.tactic,
        width: 0,
    };
    problem.operators.iter().map(cut).collect()
}

fn segment(problem: &Problem<'_>, tenant: TenantId, stream: StreamId) -> Segment {
    let steps = problem.operators_of(tenant).map(|operator| Step { operator, chunk: 0 });
    Segment {
        tenant,
        stream,
        steps: steps.collect(),
    }
}

fn frames(problem: &Problem<'_>, stream_of: impl Fn(TenantId) -> StreamId) -> Vec<Issue> {
    let frame = |f: usize| {
        let segments = problem.issue_order(f).into_iter().map(|t| segment(problem, t, stream_of(t)));
        Issue {
            segments: segments.filter(|s| !s.steps.is_empty()).collect(),
            barriers: Vec::new(),
        }
    };
    (0..problem.cycle_length().unwrap_or(1)).map(frame).collect()
}

/// One tenant after another on one stream, the most urgent first.
pub fn sequential(problem: &Problem<'_>) -> Decisions {
    Decisions {
        cuts: whole(problem),
        streams: vec![Stream { priority: 0, units: 0 }],
        frames: frames(problem, |_| StreamId(0)),
    }
}

/// Each tenant on a stream of its own in one segment; the hardware, or the team, decides who runs when.
pub fn streams(problem: &Problem<'_>) -> Decisions {
    let streams = problem
        .tenants
        .iter()
        .map(|t| Stream {
            priority: t.urgency.priority,
            units: 0,
        })
        .collect();
    Decisions {
        cuts: whole(problem),
        streams,
        frames: frames(problem, |t| StreamId(t.0)),
    }
}
