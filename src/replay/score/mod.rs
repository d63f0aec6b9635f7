//! How right the results of a replay are, against the ground truth of the synthetic camera.
//!
//! | file | idea |
//! |---|---|
//! | [`detection`] | average precision of boxes |
//! | [`segmentation`] | intersection over union of label maps |
//! | [`classification`] | top-1 of classified crops |
//! | [`judge`] | what of a tenant's results is held against what of the ground truth |
//! | [`accuracy`] | the figures, and their JSON |
//! | [`overlap`] | areas of boxes |
//!
//! Only fresh results count: a held or stale one is of another frame. A tenant's classes are those of the ground truth that
//! have the same name, whatever their numbers; its other classes are passed over.
pub mod accuracy;
pub mod classification;
pub mod detection;
pub mod judge;
pub mod overlap;
#[cfg(test)]
mod reference;
pub mod segmentation;

use super::results::FrameRecord;
use super::source::Truth;
use crate::plan::format::{Plan, Tenant};
use crate::task::Status;
use accuracy::{Accuracy, TenantAccuracy};
use judge::{Judge, Unscored};

/// The tenants' results so far, held against the ground truth.
pub struct Score {
    frames: u64,
    tenants: Vec<TenantScore>,
}

struct TenantScore {
    name: String,
    fresh: u64,
    judge: Result<Judge, Unscored>,
}

/// Why nothing can be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// There is no ground truth to hold results against.
    #[error("recorded pictures have no ground truth: score on a synthetic drive, as in --input synthetic:7")]
    NoTruth,
    /// No tenant's result can be held against the ground truth.
    #[error("task set `{task_set}`: nothing to score: {reasons}")]
    Nothing {
        /// The task set.
        task_set: String,
        /// Each tenant with why it cannot be scored.
        reasons: String,
    },
}

impl Score {
    /// A score of the tenants of `plan`, nothing counted yet; an error where none of them can be scored.
    pub fn new(plan: &Plan) -> Result<Score, ScoreError> {
        let score = |tenant: &Tenant| TenantScore {
            name: tenant.name.clone(),
            fresh: 0,
            judge: Judge::of(&plan.tenants, tenant),
        };
        let tenants: Vec<TenantScore> = plan.tenants.iter().map(score).collect();
        if tenants.iter().any(|t| t.judge.is_ok()) {
            return Ok(Score { frames: 0, tenants });
        }
        let reason = |t: &TenantScore| Some(format!("`{}` {}", t.name, t.judge.as_ref().err()?));
        Err(ScoreError::Nothing {
            task_set: plan.task_set.clone(),
            reasons: tenants.iter().filter_map(reason).collect::<Vec<_>>().join("; "),
        })
    }

    /// Counts the results of a frame, once, in any order of frames. `truth` is that frame's ground truth.
    pub fn add(&mut self, frame: &FrameRecord, truth: &Truth) {
        self.frames += 1;
        for (score, record) in self.tenants.iter_mut().zip(&frame.tenants) {
            if let (Ok(judge), Status::Fresh) = (&mut score.judge, record.status) {
                score.fresh += 1;
                judge.add(frame.frame, &record.output, truth);
            }
        }
    }

    /// The figures.
    pub fn accuracy(&self) -> Accuracy {
        let tenant = |t: &TenantScore| TenantAccuracy {
            name: t.name.clone(),
            frames: t.fresh,
            figures: match &t.judge {
                Ok(judge) => Ok(judge.figures()),
                Err(reason) => Err(reason.to_string()),
            },
        };
        Accuracy {
            frames: self.frames,
            tenants: self.tenants.iter().map(tenant).collect(),
        }
    }
}

/// The mean of some values; `None` where there are none.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}
