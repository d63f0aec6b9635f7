//! Changing the task set at a frame boundary. Every plan is prepared already, so a switch moves nothing.

use super::engine::Engine;
use crate::error::RunError;
use crate::ids::PlanId;

impl Engine {
    /// Selects the task set of the next frame.
    ///
    /// The next submit waits for the frames in flight. It discards the persistent buffers and the held results: under
    /// the new plan every tenant's status is none until it has run. Images stay, for cameras are the table's. Selecting
    /// the task set that is active already, before a frame of another one, changes nothing.
    ///
    /// [`RunError::Unknown`] if the table has no such task set.
    pub fn select(&mut self, task_set: &str) -> Result<(), RunError> {
        self.lifecycle.usable()?;
        self.selected = self
            .deployment
            .plans
            .iter()
            .position(|p| p.task_set == task_set)
            .and_then(PlanId::from_index)
            .ok_or(RunError::Unknown)?;
        Ok(())
    }

    /// Makes the selected plan the active one, if it is not.
    pub(super) fn switch(&mut self) -> Result<(), RunError> {
        if self.selected == self.active {
            return Ok(());
        }
        self.drain()?;
        let selected = self.selected;
        self.prepared_mut()?.reset(selected)?;
        self.latest.forget();
        self.active = selected;
        Ok(())
    }
}
