//! Errors on board: small, `Copy`, with stable numbers and ids instead of strings.

use crate::ids::{CameraId, SegmentId, SlotId, TenantId};
use std::fmt;

/// Why frames cannot go on. Kept by the lifecycle's `Faulted` state and reported with every later call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A segment did not finish within the watchdog's time. The hung objects are leaked; a new process is needed.
    #[error("tenant {tenant} hangs in segment {segment} (frame {frame}): restart the process")]
    Hang {
        /// Tenant of the segment.
        tenant: TenantId,
        /// The first segment that started and did not end.
        segment: SegmentId,
        /// The frame.
        frame: u64,
    },
    /// A segment failed on the device; the context is poisoned and not used again.
    ///
    /// A GPU stops everything that runs on it and does not say whose kernel it was. Where segments of several streams were
    /// running, the first is named and `suspects` says how many there were.
    #[error("tenant {tenant} failed in segment {segment}{} (frame {frame}, device code {code}): restart the process", among(*suspects))]
    Device {
        /// Tenant of the segment.
        tenant: TenantId,
        /// The first segment that started and did not end.
        segment: SegmentId,
        /// The frame.
        frame: u64,
        /// The driver's number.
        code: u32,
        /// How many segments were running, the named one among them: with 1, it is certain.
        suspects: u16,
    },
    /// A kernel of the CPU backend panicked: a bug, contained.
    #[error("a kernel of tenant {tenant} panicked in segment {segment} (frame {frame}): report this bug, restart the process")]
    Panic {
        /// Tenant of the segment.
        tenant: TenantId,
        /// The segment.
        segment: SegmentId,
        /// The frame.
        frame: u64,
    },
}

/// What a fault says of segments that may be to blame beside the named one.
fn among(suspects: u16) -> impl fmt::Display {
    // No string is made: this is said on board.
    fmt::from_fn(move |f| match suspects {
        0 | 1 => Ok(()),
        n => write!(f, ", or it was one of {} other segments that were running", n - 1),
    })
}

impl Fault {
    /// The fault's stable number.
    pub const fn number(self) -> u32 {
        match self {
            Fault::Hang { .. } => 1,
            Fault::Device { .. } => 2,
            Fault::Panic { .. } => 3,
        }
    }

    /// True if it names the tenant's work in a frame.
    pub const fn blames(self, at: TenantId, of_frame: u64) -> bool {
        let (Fault::Hang { frame, .. } | Fault::Device { frame, .. } | Fault::Panic { frame, .. }) = self;
        self.tenant().0 == at.0 && frame == of_frame
    }

    /// The tenant that it names.
    pub const fn tenant(self) -> TenantId {
        let (Fault::Hang { tenant, .. } | Fault::Device { tenant, .. } | Fault::Panic { tenant, .. }) = self;
        tenant
    }
}

/// What of an image does not fit its camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageFault {
    /// A side of 0 pixels.
    #[error("it has no pixels")]
    Empty,
    /// More pixels along a side than the camera may give.
    #[error("{}x{} pixels, the camera's largest image has {}x{}", found.0, found.1, most.0, most.1)]
    Large {
        /// Width and height.
        found: (u32, u32),
        /// Those of the camera's largest image.
        most: (u32, u32),
    },
    /// Rows that overlap.
    #[error("a stride of {stride} bytes is shorter than a row, which has {row}")]
    Stride {
        /// Bytes from row to row.
        stride: u32,
        /// Bytes of a row.
        row: u64,
    },
    /// NV12 with an odd side.
    #[error("NV12 has an even width and an even height")]
    Odd,
    /// Too few bytes for its size.
    #[error("{found} bytes where {needed} are needed")]
    Bytes {
        /// Bytes at hand.
        found: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// With its stride too many bytes for the camera's memory.
    #[error("it takes {needed} bytes, the camera's memory has {room}: give it a smaller stride")]
    Room {
        /// Bytes of the camera's memory.
        room: u64,
        /// Bytes that the image takes.
        needed: u64,
    },
    /// What was given as memory or event of the device is none, or there is no device.
    #[error("no such memory, or no such event, of a device that images are read from")]
    Device,
}

/// Why a call on a prepared engine was refused. The numbers of [`RunError::number`] are stable and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// All slots are in flight or unreleased: release a ticket first.
    #[error("all slots are in use: release a ticket first")]
    Busy,
    /// The call is not legal in the engine's state.
    #[error("not legal in this state of the engine")]
    State,
    /// The engine is faulted.
    #[error(transparent)]
    Faulted(#[from] Fault),
    /// The ticket was released, or is another engine's.
    #[error("the ticket was released or belongs to another engine")]
    Ticket,
    /// There is no such tenant, camera, task set or port.
    #[error("no such tenant, camera, task set, input or output")]
    Unknown,
    /// An image does not fit its camera.
    #[error("image of camera {0}: {1}")]
    Image(CameraId, ImageFault),
    /// A tensor input has the wrong length.
    #[error("input {0} has the wrong number of bytes")]
    Input(u16),
    /// The time given to a wait ran out; the frame goes on.
    #[error("not finished within the given time")]
    Timeout,
    /// A slot that is not at hand.
    #[error("slot {0} is not at hand")]
    Slot(SlotId),
}

impl RunError {
    /// The error's stable number.
    pub const fn number(self) -> u32 {
        match self {
            RunError::Busy => 1,
            RunError::State => 2,
            RunError::Faulted(_) => 3,
            RunError::Ticket => 4,
            RunError::Unknown => 5,
            RunError::Image(..) => 6,
            RunError::Input(_) => 7,
            RunError::Timeout => 8,
            RunError::Slot(_) => 9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_blames_its_tenant_in_its_frame_alone() {
        let (tenant, segment, frame) = (TenantId(1), SegmentId(4), 7);
        let device = Fault::Device {
            tenant,
            segment,
            frame,
            code: 700,
            suspects: 2,
        };
        for fault in [
            Fault::Hang { tenant, segment, frame },
            device,
            Fault::Panic { tenant, segment, frame },
        ] {
            assert!(fault.blames(tenant, frame), "{fault}");
            assert!(!fault.blames(TenantId(0), frame) && !fault.blames(tenant, frame - 1), "{fault}");
        }
    }
}
