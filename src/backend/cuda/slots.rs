//! The memory of one slot: what the host writes and reads, and where the device has it.
//!
//! A GPU with its own memory gets copies, made inside the frame; an integrated one works on the pinned memory itself, where
//! each byte of an image is read once and nothing is gained by a copy.

use super::bind::Area;
use super::bind::views::{Camera, SlotBlock};
use super::clock::DeviceClock;
use super::error::CudaError;
use super::memory::{Account, Parts};
use super::raw::{Context, DeviceMemory, Pinned};
use super::words::{Layout, SlotWords};
use crate::backend::cpu::arena::ImageParams;
use crate::backend::progress::Progress;
use crate::task::PixelFormat;
use std::sync::Arc;

/// Bytes of a slot's block.
const BLOCK_BYTES: u64 = size_of::<SlotBlock>() as u64;

/// How much a slot holds.
pub struct SlotSize {
    /// Bytes of each camera's largest image.
    pub images: Vec<u64>,
    /// Bytes of tensor inputs, the most of any plan.
    pub input: u64,
    /// Bytes of results, the most of any plan.
    pub output: u64,
    /// Its words.
    pub layout: Layout,
}

/// Device addresses of a slot.
pub struct SlotAreas {
    /// The block that kernels read.
    pub block: Area,
    /// The cameras' images.
    pub images: Vec<Area>,
    /// The tensor inputs.
    pub input: Area,
    /// The results.
    pub output: Area,
}

/// One slot.
pub struct SlotState {
    /// The block as the host writes it.
    pub block: Pinned,
    /// The cameras' images.
    pub images: Vec<Pinned>,
    /// The tensor inputs.
    pub input: Pinned,
    /// The results.
    pub output: Pinned,
    /// Where the device has them.
    pub areas: SlotAreas,
    /// Its words.
    pub words: Arc<SlotWords>,
    /// The progress among them.
    pub progress: Progress,
    /// The host's copy of the block, which is cheaper to read.
    params: SlotBlock,
    memory: DeviceMemory,
}

impl SlotState {
    /// Takes a slot's memory.
    pub fn new(
        context: &Arc<Context>,
        size: &SlotSize,
        mapped: bool,
        clock: &Arc<DeviceClock>,
        account: &mut Account,
    ) -> Result<SlotState, CudaError> {
        let images = size
            .images
            .iter()
            .map(|&bytes| account.pinned("camera images", bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let input = account.pinned("tensor inputs", size.input)?;
        let output = account.pinned("results", size.output)?;
        let block = account.pinned("slots' parameters", BLOCK_BYTES)?;
        let word_bytes = 8 * size.layout.count() as u64;
        let words = SlotWords::new(context, size.layout, clock.clone()).map_err(Account::refused("progress words", word_bytes))?;
        account.add("progress words", word_bytes);
        let words = Arc::new(words);

        let mut parts = Parts::default();
        let own_block = parts.push(BLOCK_BYTES);
        let own = if mapped {
            None
        } else {
            let images: Vec<usize> = size.images.iter().map(|&bytes| parts.push(bytes)).collect();
            Some((images, parts.push(size.input), parts.push(size.output)))
        };
        let memory = account.device("slots", parts.bytes())?;
        let area = |part: usize| parts.area(memory.area(), part);
        let areas = match own {
            None => SlotAreas {
                block: area(own_block),
                images: images.iter().map(Pinned::area).collect(),
                input: input.area(),
                output: output.area(),
            },
            Some((images, input, output)) => SlotAreas {
                block: area(own_block),
                images: images.into_iter().map(area).collect(),
                input: area(input),
                output: area(output),
            },
        };
        Ok(SlotState {
            block,
            images,
            input,
            output,
            areas,
            progress: Progress::on_device(size.layout.places, words.clone()),
            words,
            params: SlotBlock::default(),
            memory,
        })
    }

    /// The slot's device memory.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// What the frame will know of a camera's image.
    pub fn params(&self, camera: usize) -> ImageParams {
        let c = self.params.cameras[camera];
        ImageParams {
            frame: c.frame,
            width: c.width,
            height: c.height,
            stride: c.stride,
            format: PixelFormat::from_number(c.format),
        }
    }

    /// Sets it.
    pub fn set_params(&mut self, camera: usize, params: ImageParams) {
        self.params.cameras[camera] = Camera {
            frame: params.frame,
            width: params.width,
            height: params.height,
            stride: params.stride,
            format: params.format.map_or(0, |f| f as u32),
            padding: 0,
        };
    }

    /// Puts the block where the device reads it. The slot must not be in flight.
    pub fn publish(&mut self, frame: u64, skip: u32) {
        (self.params.frame, self.params.skip) = (frame, skip);
        self.block.bytes_mut().copy_from_slice(bytemuck::bytes_of(&self.params));
    }
}
