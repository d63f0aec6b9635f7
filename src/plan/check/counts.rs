//! P6: counts, names, sizes and rates are within their limits. The first check: all others walk what is counted here.

use crate::ids::{CameraId, TenantId};
use crate::limits::*;
use crate::plan::format::{Plan, Port};

/// A count, a size, a name or a rate is beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// Too many of something, or too few.
    #[error("{what} is {found}, allowed is {low} to {high}")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// Fewest.
        low: u64,
        /// Most.
        high: u64,
    },
    /// Two tenants, or two cameras, of one name.
    #[error("two {0} have the same name")]
    Name(&'static str),
    /// A rate that is no rate.
    #[error("tenant {0} has a rate with divisor 0 or a phase that is not below the divisor")]
    Rate(TenantId),
    /// The cycle does not end where all rates begin anew.
    #[error("the cycle's length is no multiple of the rate's divisor of tenant {0}")]
    Cycle(TenantId),
    /// A camera with no pixels or too many.
    #[error("camera {0} has sides outside 1 to {MAX_IMAGE_SIDE} pixels")]
    Camera(CameraId),
}

fn limit(what: &'static str, found: usize, low: usize, high: usize) -> Result<(), CountError> {
    large(what, found as u64, low as u64, high as u64)
}

fn large(what: &'static str, found: u64, low: u64, high: u64) -> Result<(), CountError> {
    let error = CountError::Limit { what, found, low, high };
    if (low..=high).contains(&found) { Ok(()) } else { Err(error) }
}

pub(super) fn check(plan: &Plan) -> Result<(), CountError> {
    limit("the length of the task set's name", plan.task_set.len(), 1, MAX_NAME)?;
    limit("the length of the searcher's name", plan.searcher.len(), 0, MAX_NAME)?;
    limit("the number of cameras", plan.cameras.len(), 0, MAX_CAMERAS)?;
    limit("the number of tenants", plan.tenants.len(), 1, MAX_TENANTS)?;
    limit("the number of weight files", plan.weight_files.len(), 0, MAX_TENANTS)?;
    limit("the number of weight sections", plan.sections.len(), 0, MAX_SECTIONS)?;
    limit("the number of buffers", plan.buffers.len(), 0, MAX_BUFFERS)?;
    limit("the number of operators", plan.operators.len(), 0, MAX_OPERATORS)?;
    limit("the number of streams", plan.streams.len(), 1, MAX_STREAMS)?;
    limit("the number of frames in the cycle", plan.cycle.len(), 1, MAX_CYCLE)?;
    for (what, bytes) in [
        ("the size of the arena in bytes", plan.arena_bytes),
        ("the size of the persistent region in bytes", plan.persistent_bytes),
        ("the size of the inputs in bytes", plan.input_bytes),
        ("the size of the outputs in bytes", plan.output_bytes),
    ] {
        large(what, bytes, 0, MAX_BYTES)?;
    }
    for file in &plan.weight_files {
        large("the size of a weight file in bytes", file.bytes, 0, MAX_WEIGHT_FILE)?;
    }
    for buffer in &plan.buffers {
        large("the size of a buffer in bytes", buffer.bytes, 0, MAX_BYTES)?;
    }
    cameras(plan)?;
    tenants(plan)?;
    for operator in &plan.operators {
        limit("the length of an operator's name", operator.name.len(), 0, MAX_NAME)?;
        limit("the number of primitives of an operator", operator.calls.len(), 1, MAX_PRIMITIVES)?;
        limit("the number of outputs of an operator", operator.outputs.len(), 1, MAX_OUTPUTS)?;
        limit("the number of chunks of an operator", operator.chunks.len(), 1, MAX_CHUNKS)?;
        for call in &operator.calls {
            limit("the number of inputs of a primitive", call.inputs.len(), 1, MAX_INPUTS)?;
        }
    }
    for frame in &plan.cycle {
        limit("the number of tenants of a frame", frame.tenants.len(), 0, MAX_TENANTS)?;
        limit("the number of segments of a frame", frame.segments.len(), 0, MAX_SEGMENTS)?;
        let steps = frame.segments.iter().map(|s| s.steps.len()).sum();
        limit("the number of steps of a frame", steps, 0, MAX_STEPS)?;
        limit("the number of sync points of a frame", frame.syncs.len(), 0, MAX_SYNCS)?;
        let ends = frame.syncs.iter().map(|s| s.after.len() + s.before.len()).sum();
        limit("the number of segments in a frame's sync points", ends, 0, MAX_SYNC_ENDS)?;
    }
    Ok(())
}

fn cameras(plan: &Plan) -> Result<(), CountError> {
    for (i, camera) in plan.cameras.iter().enumerate() {
        limit("the length of a camera's name", camera.name.len(), 1, MAX_NAME)?;
        large("the size of a camera's image in bytes", camera.bytes, 1, MAX_BYTES)?;
        let side = 1..=MAX_IMAGE_SIDE;
        if !side.contains(&camera.max_width) || !side.contains(&camera.max_height) {
            return Err(CountError::Camera(CameraId(i as u16)));
        }
        if plan.cameras[..i].iter().any(|other| other.name == camera.name) {
            return Err(CountError::Name("cameras"));
        }
    }
    Ok(())
}

fn tenants(plan: &Plan) -> Result<(), CountError> {
    for (i, tenant) in plan.tenants.iter().enumerate() {
        let id = TenantId(i as u16);
        limit("the length of a tenant's name", tenant.name.len(), 1, MAX_NAME)?;
        limit("the length of a model's name", tenant.model.len(), 0, MAX_NAME)?;
        limit("the number of pictures of a tenant", tenant.cameras.len(), 0, usize::from(u16::MAX))?;
        limit("the number of sources of a tenant", tenant.sources.len(), 0, MAX_TENANTS)?;
        limit("the number of inputs of a tenant", tenant.inputs.len(), 0, MAX_PORTS)?;
        limit("the number of results of a tenant", tenant.outputs.len(), 1, MAX_PORTS)?;
        let ports = || tenant.inputs.iter().chain(&tenant.outputs);
        ports().try_for_each(port)?;
        limit(
            "the number of labels of a tenant",
            ports().map(|p| p.labels.len()).sum(),
            0,
            MAX_LABELS,
        )?;
        if plan.tenants[..i].iter().any(|other| other.name == tenant.name) {
            return Err(CountError::Name("tenants"));
        }
        let rate = tenant.rate;
        if rate.divisor == 0 || rate.phase >= rate.divisor {
            return Err(CountError::Rate(id));
        }
        if !plan.cycle.len().is_multiple_of(usize::from(rate.divisor)) {
            return Err(CountError::Cycle(id));
        }
    }
    Ok(())
}

fn port(port: &Port) -> Result<(), CountError> {
    limit("the length of a port's name", port.name.len(), 0, MAX_NAME)?;
    port.labels
        .iter()
        .try_for_each(|label| limit("the length of a label", label.len(), 0, MAX_NAME))
}
