//! Indices of the plan's tables, one type each, so that a stream is never mistaken for a segment.
//!
//! An id is a claim until the plan that holds it passed `plan::check` (invariant P1).

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($repr:ty) = $tag:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $repr);

        impl $name {
            /// The position in the table that this id names.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of position `index`, or `None` where the table is larger than the id can name.
            pub fn from_index(index: usize) -> Option<Self> {
                <$repr>::try_from(index).ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($tag, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($tag, "{}"), self.0)
            }
        }
    )*};
}

ids! {
    /// A tenant: one network of the task set. Numbered per plan.
    TenantId(u16) = "t";
    /// A camera. Numbered per plan table, the same in all its plans.
    CameraId(u16) = "cam";
    /// An operator of a plan.
    OperatorId(u32) = "op";
    /// A buffer of a plan.
    BufferId(u32) = "b";
    /// A section of a weight file.
    SectionId(u32) = "w";
    /// A stream of a plan.
    StreamId(u16) = "s";
    /// A segment of one frame schedule.
    SegmentId(u32) = "seg";
    /// A sync point of one frame schedule.
    SyncId(u32) = "sync";
    /// A plan of the table.
    PlanId(u16) = "plan";
    /// A slot: the memory of one frame in flight.
    SlotId(u16) = "slot";
}
