//! The engine's states and the moves between them. Nothing else decides what may happen when.

use crate::error::{Fault, RunError};

/// Where an engine stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is loaded.
    Empty,
    /// Table, plans and weights are read and checked.
    Loaded,
    /// All plans are prepared and everything is allocated: sealed.
    Prepared,
    /// At least one frame was submitted.
    Running,
    /// Frames cannot go on; the first cause is kept.
    Faulted(Fault),
    /// Closed.
    Closed,
}

impl State {
    /// True if an engine may move from this state to `to`. The whole table.
    pub const fn may_become(self, to: State) -> bool {
        use State::*;
        matches!(
            (self, to),
            (Empty, Loaded)
                | (Loaded, Prepared)
                | (Prepared, Running)
                | (Prepared | Running, Faulted(_))
                | (Empty | Loaded | Prepared | Running | Faulted(_), Closed)
        )
    }
}

/// The state machine.
#[derive(Debug)]
pub struct Lifecycle {
    state: State,
}

impl Default for Lifecycle {
    fn default() -> Lifecycle {
        Lifecycle { state: State::Empty }
    }
}

impl Lifecycle {
    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Moves to `to`; [`RunError::State`] (or the fault, once there is one) if that is not legal, and nothing changes.
    pub fn advance(&mut self, to: State) -> Result<(), RunError> {
        if self.state.may_become(to) {
            self.state = to;
            return Ok(());
        }
        Err(match self.state {
            State::Faulted(fault) => RunError::Faulted(fault),
            _ => RunError::State,
        })
    }

    /// Ok where frames may be submitted and waited for.
    pub fn usable(&self) -> Result<(), RunError> {
        match self.state {
            State::Prepared | State::Running => Ok(()),
            State::Faulted(fault) => Err(RunError::Faulted(fault)),
            State::Empty | State::Loaded | State::Closed => Err(RunError::State),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SegmentId, TenantId};

    const FAULT: Fault = Fault::Hang {
        tenant: TenantId(1),
        segment: SegmentId(2),
        frame: 3,
    };
    const OTHER: Fault = Fault::Panic {
        tenant: TenantId(0),
        segment: SegmentId(0),
        frame: 4,
    };
    const STATES: [State; 6] = [
        State::Empty,
        State::Loaded,
        State::Prepared,
        State::Running,
        State::Faulted(FAULT),
        State::Closed,
    ];

    #[test]
    fn every_pair_of_states_is_legal_or_refused_as_the_table_says() {
        // Rows: from; columns: to; in the order of STATES.
        let legal = [
            [0, 1, 0, 0, 0, 1],
            [0, 0, 1, 0, 0, 1],
            [0, 0, 0, 1, 1, 1],
            [0, 0, 0, 0, 1, 1],
            [0, 0, 0, 0, 0, 1],
            [0, 0, 0, 0, 0, 0],
        ];
        for (from, row) in STATES.into_iter().zip(legal) {
            for (to, legal) in STATES.into_iter().zip(row) {
                let mut machine = Lifecycle { state: from };
                let moved = machine.advance(to);
                assert_eq!(moved.is_ok(), legal == 1, "{from:?} -> {to:?}");
                assert_eq!(machine.state(), if legal == 1 { to } else { from });
                if let (State::Faulted(_), Err(error)) = (from, moved) {
                    assert_eq!(error, RunError::Faulted(FAULT));
                }
            }
        }
    }

    #[test]
    fn the_first_fault_is_kept() {
        let mut machine = Lifecycle {
            state: State::Faulted(FAULT),
        };
        assert_eq!(machine.advance(State::Faulted(OTHER)), Err(RunError::Faulted(FAULT)));
        assert_eq!(machine.usable(), Err(RunError::Faulted(FAULT)));
    }
}
