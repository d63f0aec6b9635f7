//! The memory of one slot: what the host writes and reads, and where the device has it.
//!
//! A GPU with its own memory gets copies, made inside the frame; an integrated one works on the pinned memory itself, where
//! each byte of an image is read once and nothing is gained by a copy.

use super::bind::Area;
use super::bind::views::{Camera, SlotBlock};
use super::clock::DeviceClock;
use super::error::CudaError;
use super::memory::{Account, Parts};
use super::raw::{Context, DeviceMemory, DriverError, Pinned, Stream};
use super::words::{Layout, SlotWords};
use crate::backend::DeviceBytes;
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

/// Where a camera's image is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In pinned memory.
    Host,
    /// Somewhere in the device's memory; it comes to the slot's own when the frame begins.
    Given(DeviceBytes),
    /// In the slot's own memory on the device.
    Device,
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
    /// Where each camera's image is.
    places: Vec<Place>,
    /// Kernels work on the pinned memory.
    mapped: bool,
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
            places: vec![Place::Host; images.len()],
            mapped,
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

    /// Sets it, of an image in pinned memory.
    pub fn set_params(&mut self, camera: usize, params: ImageParams) {
        self.places[camera] = Place::Host;
        self.params.cameras[camera] = Camera {
            frame: params.frame,
            width: params.width,
            height: params.height,
            stride: params.stride,
            format: params.format.map_or(0, |f| f as u32),
            on_device: 0,
        };
    }

    /// The image is one in the device's memory, which is copied to the slot's when the frame begins.
    pub fn give(&mut self, camera: usize, image: DeviceBytes) {
        self.places[camera] = Place::Given(image);
        self.params.cameras[camera].on_device = 1;
    }

    /// The image is that of slot `from`, which it is to be copied from on the device.
    pub fn give_that_of(&mut self, camera: usize, from: Area, params: ImageParams) {
        self.set_params(camera, params);
        let own = self.areas.images[camera];
        if own == from {
            self.places[camera] = Place::Device;
            self.params.cameras[camera].on_device = 1;
            return;
        }
        let bytes = params
            .format
            .and_then(|f| f.image_bytes(params.width, params.height, params.stride));
        let (address, event) = (from.address, 0);
        let bytes = bytes.unwrap_or(0).min(from.bytes);
        self.give(camera, DeviceBytes { address, bytes, event });
    }

    /// True if an image was given that has not been copied yet.
    pub fn has_given(&self) -> bool {
        self.places.iter().any(|place| matches!(place, Place::Given(_)))
    }

    /// True if the slot's own memory on the device has the image, or will have it in the order of work there.
    pub fn has_on_device(&self, camera: usize) -> bool {
        self.places[camera] != Place::Host
    }

    /// True if that memory is not what the host sees.
    pub fn hides(&self, camera: usize) -> bool {
        self.has_on_device(camera) && !self.mapped
    }

    /// Has images that were given copied, in the stream's order. The camera whose event cannot be waited for, with the
    /// driver's reason.
    pub fn take_images(&mut self, root: &Stream) -> Result<(), (usize, DriverError)> {
        for (camera, place) in self.places.iter_mut().enumerate() {
            let Place::Given(image) = *place else { continue };
            let copied = root.wait_foreign(image.event);
            let copied = copied.and_then(|()| match self.areas.images[camera].part(0, image.bytes) {
                Some(target) => root.copy(target, image.address),
                None => Ok(()),
            });
            copied.map_err(|error| (camera, error))?;
            *place = Place::Device;
        }
        Ok(())
    }

    /// Has a tensor input brought to where the device reads it, in the stream's order: from given bytes, or from pinned memory.
    pub fn take_input(&self, offset: u64, bytes: u64, from: Option<DeviceBytes>, root: &Stream) -> Result<(), DriverError> {
        let part = |area: Area| area.part(offset, bytes);
        let (Some(target), Some(pinned)) = (part(self.areas.input), part(self.input.area())) else {
            return Ok(());
        };
        let source = match from {
            Some(given) => {
                root.wait_foreign(given.event)?;
                given.address
            }
            None => pinned.address,
        };
        if source == target.address {
            Ok(())
        } else {
            root.copy(target, source)
        }
    }

    /// Puts the block where the device reads it. The slot must not be in flight.
    pub fn publish(&mut self, frame: u64, skip: u32, sent: u32) {
        (self.params.frame, self.params.skip, self.params.sent) = (frame, skip, sent);
        self.block.bytes_mut().copy_from_slice(bytemuck::bytes_of(&self.params));
    }
}
