//! From a decoded plan to one that can be relied on: every invariant of [`super`], one module each.
//!
//! | module | invariant |
//! |---|---|
//! | `counts` | P6: counts, names, sizes and rates are within their limits |
//! | `references` | P1: what is named exists |
//! | `sections` | P7: weight sections lie in their files |
//! | `shapes`, `ports` | P6: operators and results agree with their tensors |
//! | `chunks` | P2: chunks cover their operators |
//! | `order` | P3: the schedules are orders; gives the happens-before relation |
//! | `reads` | P4: what is read was written before |
//! | `memory` | P5: buffers that live at once do not overlap |
//! | `prediction` | P8: rates and deadlines are met |
//!
//! They run in this order, each relying on those above it. What needs the table (the board's digest and budget, the
//! weights' digests) is checked by [`super::deployment`].

mod chunks;
mod counts;
mod memory;
mod order;
mod ports;
mod prediction;
mod reads;
mod references;
mod runs;
mod sections;
mod shapes;
mod work;

pub use chunks::ChunkError;
pub use counts::CountError;
pub use memory::MemoryError;
pub use order::OrderError;
pub use ports::PortError;
pub use prediction::PredictionError;
pub use reads::ReadError;
pub use references::ReferenceError;
pub use sections::SectionError;
pub use shapes::ShapeError;
pub use work::TooMuchWork;

use super::format::Plan;

/// A plan of which every invariant that needs nothing but the plan is established. It cannot be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedPlan(Plan);

impl std::ops::Deref for CheckedPlan {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.0
    }
}

impl CheckedPlan {
    /// Gives the plan back, and the guarantee up.
    pub fn into_inner(self) -> Plan {
        self.0
    }
}

/// Which invariant a plan breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// P1: something is named that does not exist.
    #[error("P1: {0}")]
    Reference(#[from] ReferenceError),
    /// P2: chunks do not cover their operator.
    #[error("P2: {0}")]
    Chunk(#[from] ChunkError),
    /// P3: a schedule is no order of what is due.
    #[error("P3: {0}")]
    Order(#[from] OrderError),
    /// P4: something is read that may not be complete.
    #[error("P4: {0}")]
    Read(#[from] ReadError),
    /// P5: buffers overlap or leave their region.
    #[error("P5: {0}")]
    Memory(#[from] MemoryError),
    /// P6: a count, a size, a name or a rate is beyond its limit.
    #[error("P6: {0}")]
    Count(#[from] CountError),
    /// P6: an operator does not agree with its tensors.
    #[error("P6: {0}")]
    Shape(#[from] ShapeError),
    /// P6: an input or result does not agree with its meaning.
    #[error("P6: {0}")]
    Port(#[from] PortError),
    /// P6: the checks would take too long.
    #[error("P6: {0}")]
    Work(#[from] TooMuchWork),
    /// P7: a weight section is not inside its file.
    #[error("P7: {0}")]
    Section(#[from] SectionError),
    /// P8: the prediction does not belong to the schedule, or misses a deadline.
    #[error("P8: {0}")]
    Prediction(#[from] PredictionError),
}

impl CheckError {
    /// The number of the invariant that is broken: 4 for P4.
    pub const fn invariant(&self) -> u8 {
        match self {
            CheckError::Reference(_) => 1,
            CheckError::Chunk(_) => 2,
            CheckError::Order(_) => 3,
            CheckError::Read(_) => 4,
            CheckError::Memory(_) => 5,
            CheckError::Count(_) | CheckError::Shape(_) | CheckError::Port(_) | CheckError::Work(_) => 6,
            CheckError::Section(_) => 7,
            CheckError::Prediction(_) => 8,
        }
    }
}

/// Checks everything about a plan that can be told from the plan alone. Takes time and memory bounded by `limits`.
pub fn check(plan: Plan) -> Result<CheckedPlan, CheckError> {
    let mut work = work::Work::new();
    counts::check(&plan)?;
    references::check(&plan)?;
    sections::check(&plan)?;
    shapes::check(&plan)?;
    ports::check(&plan)?;
    chunks::check(&plan)?;
    let steps = order::Steps::of(&plan);
    let accesses = reads::Accesses::of(&plan, &steps, &mut work)?;
    memory::check_regions(&plan)?;
    for frame in 0..plan.cycle.len() {
        let order = order::Order::of(&plan, &steps, frame)?;
        accesses.check(&order)?;
        memory::check_frame(&plan, &order, &accesses, &mut work)?;
    }
    prediction::check(&plan)?;
    Ok(CheckedPlan(plan))
}
