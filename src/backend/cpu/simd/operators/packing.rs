//! Packed weights, shared by all plans that use the same section in the same packing.

use super::Context;
use super::site::Site;
use crate::backend::cpu::arena::Block;
use crate::plan::format::{Digest, Space, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How weights are packed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Convolution panels, one run per group.
    Panels {
        /// Groups of the convolution.
        groups: u32,
    },
    /// Panels of a `[K, N]` matrix.
    Matrix,
    /// Panels of the transposed of an `[N, K]` matrix.
    Recurrence,
    /// Depthwise: taps outside, channels padded to sixteen.
    Depthwise,
    /// Panels per phase of a transposed convolution.
    Phases {
        /// Strides down and across.
        stride: (u32, u32),
        /// Padding above and left.
        pad: (u32, u32),
        /// Dilation down and across.
        dilation: (u32, u32),
        /// Groups.
        groups: u32,
    },
}

type Key = (Digest, u64, u64, Vec<u32>, Vec<i64>, Form);

/// The packings made so far at prepare.
#[derive(Default)]
pub struct Packings {
    made: BTreeMap<Key, Arc<Block>>,
}

impl Packings {
    /// Bytes of all packings.
    pub fn bytes(&self) -> u64 {
        self.made.values().map(|b| b.bytes().len() as u64).sum()
    }

    /// The packing of a constant view in `form`: from the cache, or `floats` floats filled by `fill` from the view's
    /// elements in C order. `None` if the view is not constant, if `fill` says so, or if memory is short.
    pub fn get(
        &mut self,
        context: &Context<'_>,
        view: &View,
        form: Form,
        floats: usize,
        fill: impl FnOnce(&[f32], &mut [f32]) -> Option<()>,
    ) -> Option<Arc<Block>> {
        let site = Site::of(context.plan, view)?;
        let Space::Weights(id) = context.plan.buffers.get(view.buffer.index())?.space else {
            return None;
        };
        let section = context.plan.sections.get(id.index())?;
        let file = context.plan.weight_files.get(section.file as usize)?;
        let layout = view.layout;
        let key = (
            file.digest,
            section.offset,
            view.origin,
            layout.shape.dims().to_vec(),
            layout.strides().to_vec(),
            form,
        );
        if let Some(block) = self.made.get(&key) {
            return Some(block.clone());
        }
        let source = site.gather(context.sections)?;
        let mut block = Block::new(floats.checked_mul(4)?)?;
        fill(&source, bytemuck::cast_slice_mut(block.bytes_mut()))?;
        let block = Arc::new(block);
        self.made.insert(key, block.clone());
        Some(block)
    }
}

/// An empty array with room for so many floats; `None` if memory is short.
pub fn room(floats: usize) -> Option<Vec<f32>> {
    let mut array = Vec::new();
    array.try_reserve_exact(floats).ok()?;
    Some(array)
}

/// The packed floats of a block.
pub fn floats(block: &Block) -> &[f32] {
    bytemuck::cast_slice(block.bytes())
}
