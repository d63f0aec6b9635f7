//! Constants become weight sections: each stored once per content and order, in the order its reader likes best.

use super::{Buffer, Lowered, Room, Section};
use crate::ids::{BufferId, SectionId, TenantId};
use crate::plan::format::{Digest, View};
use crate::planner::strided::{Strided, gather};
use crate::primitive::Primitive;
use crate::tensor::{Layout, Tensor};
use std::collections::BTreeMap;

/// The weight sections of one tenant so far.
pub struct Constants {
    tenant: TenantId,
    stored: BTreeMap<Digest, BufferId>,
}

impl Constants {
    /// No sections yet.
    pub fn new(tenant: TenantId) -> Constants {
        Constants {
            tenant,
            stored: BTreeMap::new(),
        }
    }

    /// A view of `tensor` stored densely as `layout` says, whose shape is the tensor's; `None` beyond the limits.
    pub fn store(&mut self, lowered: &mut Lowered, tensor: &Tensor, layout: Layout) -> Option<View> {
        let bytes = arranged(tensor, &layout)?;
        let key = Digest::of(&bytes);
        let buffer = match self.stored.get(&key) {
            Some(buffer) => *buffer,
            None => {
                let section = SectionId::from_index(lowered.sections.len())?;
                let buffer = BufferId::from_index(lowered.buffers.len())?;
                lowered.buffers.push(Buffer {
                    room: Room::Weights(section),
                    bytes: bytes.len() as u64,
                });
                lowered.sections.push(Section {
                    tenant: self.tenant,
                    bytes: bytes.into(),
                });
                self.stored.insert(key, buffer);
                buffer
            }
        };
        Some(View {
            buffer,
            origin: 0,
            dtype: tensor.dtype(),
            layout,
        })
    }
}

/// The order in which `primitive`'s input `index` is stored if it is a constant; `None` where any order will do.
///
/// Convolutions: output channel, taps, input channel. Transposed convolutions: input channel, taps, output channel.
/// Matrix products: as ONNX has them, `[.., K, N]`.
pub fn weight_order(primitive: &Primitive, index: usize, layout: &Layout) -> Option<Layout> {
    match (primitive, index) {
        (Primitive::Conv { .. } | Primitive::ConvTranspose { .. }, 1) => Some(Layout::channels_last(layout.shape)),
        (Primitive::MatMul, 1) => Some(Layout::contiguous(layout.shape)),
        _ => None,
    }
}

/// The tensor's bytes in the order of the dense `layout`.
fn arranged(tensor: &Tensor, layout: &Layout) -> Option<Vec<u8>> {
    if layout.is_contiguous() {
        return Some(tensor.bytes().to_vec());
    }
    let mut order: Vec<usize> = (0..layout.shape.rank()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(layout.stride(axis)));
    let logical = Layout::contiguous(layout.shape);
    let nested = gather(tensor, &Strided::whole(logical.permuted(&order)?))?;
    Some(nested.bytes().to_vec())
}
