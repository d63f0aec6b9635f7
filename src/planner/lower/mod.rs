//! Graph to operators: from values with names to strided views of buffers that have no place yet.

mod constants;
mod elide;
mod group;
mod layout;
mod network;
mod tails;

use super::attach::Attached;
use super::passes::PassSet;
use crate::ids::{CameraId, OperatorId, SectionId, TenantId};
use crate::plan::format::{Camera, Operator, Tenant};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Operators of all tenants over buffers without a place: the stage before scheduling.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Cameras of the table.
    pub cameras: Vec<Camera>,
    /// The networks, with their ports.
    pub tenants: Vec<Tenant>,
    /// For each tenant and each of its results, the operators that write it.
    pub writers: Vec<Vec<Arc<BTreeSet<OperatorId>>>>,
    /// Buffers: a view's [`crate::ids::BufferId`] is an index in here.
    pub buffers: Vec<Buffer>,
    /// Operators in an order in which each tenant's can run one after another; one chunk each, the generic tactic.
    pub operators: Vec<Operator>,
    /// For each operator, those that write what it reads; all earlier in [`Lowered::operators`].
    pub needs: Vec<Vec<OperatorId>>,
    /// Weight sections in order of first use; all of one tenant stand together.
    pub sections: Vec<Section>,
}

/// A buffer without an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// In which memory it will lie.
    pub room: Room,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The memory a buffer belongs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The arena.
    Arena,
    /// A tensor input of the slot.
    Input,
    /// A result in the slot.
    Output,
    /// A camera's newest image.
    Camera(CameraId),
    /// A weight section.
    Weights(SectionId),
}

/// A canonical tensor on its way into a weight file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The tenant whose network it belongs to.
    pub tenant: TenantId,
    /// Its elements, densely, in the order that the views on its buffer say.
    pub bytes: Arc<[u8]>,
}

/// Why a network does not become operators.
#[derive(Debug, thiserror::Error)]
pub enum LowerError {
    /// A count or a size is beyond the limits.
    #[error("{graph}: {what} exceeds the limits of a plan")]
    Limit {
        /// The network.
        graph: String,
        /// What is too large.
        what: &'static str,
    },
    /// A result of another tenant is read that is not lowered before.
    #[error("{graph}: input `{input}` is a result of a tenant that does not stand before this one")]
    Source {
        /// The network.
        graph: String,
        /// The input.
        input: String,
    },
    /// A view cannot be made: the graph says something that its shapes do not allow.
    #[error("{graph}, node `{node}`: a view that its input's shape does not allow")]
    View {
        /// The network.
        graph: String,
        /// The node.
        node: String,
    },
}

/// Lowers the tenants of a task set, in their order.
pub fn lower(cameras: Vec<Camera>, tenants: Vec<(Tenant, Attached)>, set: PassSet) -> Result<Lowered, LowerError> {
    let mut lowered = Lowered {
        cameras,
        tenants: Vec::new(),
        writers: Vec::new(),
        buffers: Vec::new(),
        operators: Vec::new(),
        needs: Vec::new(),
        sections: Vec::new(),
    };
    for (tenant, attached) in tenants {
        network::lower(&mut lowered, tenant, &attached, set)?;
    }
    Ok(lowered)
}
