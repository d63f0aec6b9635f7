//! P1: everything that is named exists.

use crate::plan::format::{Operand, Plan, Space, View};
use crate::primitive::Primitive;

/// Something is named that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{holder} {index} names {kind} {target}, of which there are {count}")]
pub struct ReferenceError {
    /// What holds the name.
    pub holder: &'static str,
    /// Which one.
    pub index: usize,
    /// What is named.
    pub kind: &'static str,
    /// The number given.
    pub target: u64,
    /// How many there are.
    pub count: usize,
}

/// Names held by one thing.
#[derive(Clone, Copy)]
struct Holder<'a> {
    plan: &'a Plan,
    holder: &'static str,
    index: usize,
}

impl Holder<'_> {
    fn names(self, kind: &'static str, target: usize, count: usize) -> Result<(), ReferenceError> {
        let (holder, index, target) = (self.holder, self.index, target as u64);
        if target < count as u64 {
            return Ok(());
        }
        Err(ReferenceError {
            holder,
            index,
            kind,
            target,
            count,
        })
    }

    fn view(self, view: &View) -> Result<(), ReferenceError> {
        self.names("buffer", view.buffer.index(), self.plan.buffers.len())
    }
}

pub(super) fn check(plan: &Plan) -> Result<(), ReferenceError> {
    let holder = |holder, index| Holder { plan, holder, index };
    let (tenants, cameras) = (plan.tenants.len(), plan.cameras.len());
    for (i, tenant) in plan.tenants.iter().enumerate() {
        let holder = holder("tenant", i);
        tenant.cameras.iter().try_for_each(|c| holder.names("camera", c.index(), cameras))?;
        tenant.sources.iter().try_for_each(|t| holder.names("tenant", t.index(), tenants))?;
        tenant.inputs.iter().chain(&tenant.outputs).try_for_each(|p| holder.view(&p.view))?;
    }
    for (i, section) in plan.sections.iter().enumerate() {
        holder("weight section", i).names("weight file", section.file as usize, plan.weight_files.len())?;
    }
    for (i, buffer) in plan.buffers.iter().enumerate() {
        match buffer.space {
            Space::Camera(c) => holder("buffer", i).names("camera", c.index(), cameras)?,
            Space::Weights(w) => holder("buffer", i).names("weight section", w.index(), plan.sections.len())?,
            Space::Arena { .. } | Space::Persistent { .. } | Space::Input { .. } | Space::Output { .. } => {}
        }
    }
    for (i, operator) in plan.operators.iter().enumerate() {
        let holder = holder("operator", i);
        holder.names("tenant", operator.tenant.index(), tenants)?;
        operator.outputs.iter().try_for_each(|v| holder.view(v))?;
        for call in &operator.calls {
            for input in &call.inputs {
                if let Operand::View(view) = input {
                    holder.view(view)?;
                }
            }
            match &call.primitive {
                Primitive::Prepare(p) => holder.names("camera", p.camera.index(), cameras)?,
                Primitive::Crop(c) => holder.names("camera", c.camera.index(), cameras)?,
                Primitive::Nms(n) => holder.names("camera", n.camera.index(), cameras)?,
                _ => {}
            }
        }
    }
    for (i, frame) in plan.cycle.iter().enumerate() {
        let in_frame = holder("frame", i);
        frame
            .tenants
            .iter()
            .try_for_each(|t| in_frame.names("tenant", t.index(), tenants))?;
        for (j, segment) in frame.segments.iter().enumerate() {
            let holder = holder("segment", j);
            holder.names("tenant", segment.tenant.index(), tenants)?;
            holder.names("stream", segment.stream.index(), plan.streams.len())?;
            for step in &segment.steps {
                holder.names("operator", step.operator.index(), plan.operators.len())?;
                let chunks = plan.operators[step.operator.index()].chunks.len();
                holder.names("chunk", usize::from(step.chunk), chunks)?;
            }
        }
        for (j, sync) in frame.syncs.iter().enumerate() {
            let ends = sync.after.iter().chain(&sync.before);
            let holder = holder("sync point", j);
            ends.map(|s| s.index())
                .try_for_each(|s| holder.names("segment", s, frame.segments.len()))?;
        }
    }
    Ok(())
}
