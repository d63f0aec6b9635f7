//! A bound on what the checks of one plan may cost, so that a hostile plan cannot hold a start-up up.

use crate::limits::MAX_CHECK_WORK;

/// Checking the plan would take longer than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its accesses are too many or too scattered to be checked: use fewer chunks, or larger runs of consecutive bytes")]
pub struct TooMuchWork;

/// What is left of the bound.
pub(super) struct Work(u64);

impl Work {
    pub(super) fn new() -> Work {
        Work(MAX_CHECK_WORK)
    }

    /// Takes `steps` off, before they are done.
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), TooMuchWork> {
        self.0 = self.0.checked_sub(steps).ok_or(TooMuchWork)?;
        Ok(())
    }
}
