//! The k largest of each row, largest first; equal values by lower index, NaN last.

use super::operand::{Place, read_f32};
use crate::backend::cpu::arena::{Bytes, Memory};
use crate::backend::cpu::kernel::Kernel;
use crate::primitive::Region;
use crate::tensor::DType;
use std::ops::Range;

/// Keeps the k largest along the last axis: `[B, C]` to values `[B, k]` and indices `[B, k]`.
pub(super) struct TopK {
    input: Place,
    values: Place,
    indices: Place,
}

/// A number that grows as `value` falls: equal for both zeros, largest for NaN.
pub(super) fn falling(value: f32) -> u32 {
    if value.is_nan() {
        return u32::MAX;
    }
    // Adding 0 makes one zero of both. Setting the sign bit, or flipping all bits of a negative number, orders the bits.
    let bits = (value + 0.0).to_bits();
    let rising = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !rising
}

impl TopK {
    pub(super) fn new(input: Place, [values, indices]: [Place; 2]) -> TopK {
        TopK { input, values, indices }
    }

    fn key(&self, bytes: Bytes<'_>, element: usize) -> u32 {
        match self.input.dtype {
            DType::F32 | DType::F16 => falling(read_f32(bytes, self.input.dtype, element)),
            DType::I32 => !(bytes.read::<i32>(element) as u32 ^ 1 << 31),
            DType::U8 | DType::Bool => !u32::from(bytes.read::<u8>(element)),
        }
    }

    fn row(&self, memory: &Memory<'_>, row: u32, keys: &mut [u64]) {
        let input = self.input.read(memory);
        for (i, key) in keys.iter_mut().enumerate() {
            *key = u64::from(self.key(input, self.input.at(&[row, i as u32]))) << 32 | i as u64;
        }
        let k = self.values.shape().dim(1) as usize;
        if k == 0 {
            return;
        }
        // Keys are unique, so the selection has one outcome.
        keys.select_nth_unstable(k - 1);
        keys[..k].sort_unstable();
        let (values, indices) = (self.values.write(memory), self.indices.write(memory));
        for (rank, key) in (0..).zip(&keys[..k]) {
            let index = *key as u32;
            let (from, to) = (self.input.at(&[row, index]), self.values.at(&[row, rank]));
            match self.input.dtype.bytes() {
                1 => values.write(to, input.read::<u8>(from)),
                2 => values.write(to, input.read::<u16>(from)),
                _ => values.write(to, input.read::<u32>(from)),
            }
            indices.write(self.indices.at(&[row, rank]), index as i32);
        }
    }
}

impl Kernel for TopK {
    fn tiles(&self, region: &Region) -> u32 {
        region.batch.len() as u32
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        let keys: &mut [u64] = bytemuck::cast_slice_mut(&mut scratch[..self.scratch_bytes()]);
        for tile in tiles {
            self.row(memory, region.batch.start + tile, keys);
        }
    }

    fn scratch_bytes(&self) -> usize {
        self.input.shape().dim(1) as usize * size_of::<u64>()
    }
}
