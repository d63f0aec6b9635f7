//! P8: the prediction belongs to the schedule and meets every deadline, or says which it expects to miss.

use crate::ids::TenantId;
use crate::plan::format::Plan;

/// The prediction does not belong to the schedule, or misses a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictionError {
    /// Not one prediction a frame, or not one finish a tenant.
    #[error("the prediction of frame {0} is missing, too much, or not one finish per tenant")]
    Shape(usize),
    /// A tenant that ends after its frame.
    #[error("tenant {tenant} finishes after the end of its frame {frame} in the prediction")]
    Late {
        /// The frame of the cycle.
        frame: usize,
        /// The tenant.
        tenant: TenantId,
    },
    /// Stored misses that are not the ones that follow from finish and deadline.
    #[error("the misses stored for frame {0} are not those that follow from its finishes and deadlines")]
    Misses(usize),
    /// A deadline that is missed, though they are no wishes.
    #[error("frame {0} misses a deadline: relax it, or ask for a best-effort plan")]
    Missed(usize),
}

pub(super) fn check(plan: &Plan) -> Result<(), PredictionError> {
    let (frames, cycle) = (&plan.prediction.frames, &plan.cycle);
    if frames.len() != cycle.len() {
        return Err(PredictionError::Shape(frames.len().min(cycle.len())));
    }
    for (f, (prediction, schedule)) in frames.iter().zip(cycle).enumerate() {
        if prediction.finish.len() != schedule.tenants.len() {
            return Err(PredictionError::Shape(f));
        }
        let finishes = || schedule.tenants.iter().zip(&prediction.finish);
        if let Some((&tenant, _)) = finishes().find(|(_, finish)| **finish > prediction.total) {
            return Err(PredictionError::Late { frame: f, tenant });
        }
        let missed = finishes().enumerate().filter(|(_, (tenant, finish))| {
            let deadline = plan.tenants[tenant.index()].urgency.deadline;
            deadline.is_some_and(|d| **finish > d)
        });
        if !missed.map(|(i, _)| i).eq(prediction.misses.iter().map(|&m| usize::from(m))) {
            return Err(PredictionError::Misses(f));
        }
        if !prediction.misses.is_empty() && !plan.prediction.best_effort {
            return Err(PredictionError::Missed(f));
        }
    }
    Ok(())
}
