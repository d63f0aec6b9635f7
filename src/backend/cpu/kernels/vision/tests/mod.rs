//! Tests of the picture and result kernels: each runs one operator of a hand-built plan.

mod argmax;
mod crop;
mod decode;
#[cfg(feature = "replay")]
mod frames;
mod prepare;

use super::compile;
use crate::backend::cpu::arena::{Block, ImageParams, Memory};
use crate::ids::{BufferId, CameraId, TenantId};
use crate::plan::format::*;
use crate::primitive::{Primitive, Region};
use crate::task::PixelFormat;
use crate::tensor::{DType, Layout, Shape};
use bytemuck::Pod;

/// An image and its parameter block.
pub struct Image {
    pub bytes: Vec<u8>,
    pub params: ImageParams,
}

impl Image {
    pub fn new(format: PixelFormat, width: u32, height: u32, stride: u32, bytes: Vec<u8>) -> Image {
        assert_eq!(format.image_bytes(width, height, stride), Some(bytes.len() as u64));
        let params = ImageParams {
            frame: 0,
            width,
            height,
            stride,
            format: Some(format),
        };
        Image { bytes, params }
    }
}

/// How an operator's region is handed out.
#[derive(Clone, Copy)]
pub enum Share {
    /// All tiles at once.
    Whole,
    /// Tile by tile, backwards, each with scratch full of the last one's leavings.
    Tiles,
    /// Two chunks by rows (or by batch), the second first.
    Chunks,
}

/// One operator with its tensors, each in a buffer of its own.
pub struct Rig {
    primitive: Primitive,
    inputs: Vec<(DType, Layout, Vec<u8>)>,
    outputs: Vec<(DType, Layout)>,
}

pub fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap()
}

impl Rig {
    pub fn new(primitive: Primitive) -> Rig {
        Rig {
            primitive,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// An input whose bytes lie as `layout` says, given in C order.
    pub fn input<T: Pod>(mut self, dtype: DType, layout: Layout, values: &[T]) -> Rig {
        let mut bytes = vec![0; extent(&layout) * size_of::<T>()];
        let stored: &mut [T] = bytemuck::cast_slice_mut(&mut bytes);
        for (value, at) in values.iter().zip(elements(&layout)) {
            stored[at] = *value;
        }
        self.inputs.push((dtype, layout, bytes));
        self
    }

    /// An f32 input in C order.
    pub fn floats(self, dims: &[u32], values: &[f32]) -> Rig {
        self.input(DType::F32, Layout::contiguous(shape(dims)), values)
    }

    pub fn output(mut self, dtype: DType, layout: Layout) -> Rig {
        self.outputs.push((dtype, layout));
        self
    }

    /// Runs the operator; gives the bytes of each output in C order.
    pub fn run(&self, image: Option<&Image>, share: Share) -> Vec<Vec<u8>> {
        let mut buffers = Vec::new();
        let mut views = Vec::new();
        let mut offset = 0;
        let sizes = self.inputs.iter().map(|(d, l, _)| (*d, *l)).chain(self.outputs.iter().copied());
        for (dtype, layout) in sizes {
            let bytes = extent(&layout) as u64 * dtype.bytes();
            views.push(View {
                buffer: BufferId(buffers.len() as u32),
                origin: 0,
                dtype,
                layout,
            });
            buffers.push(Buffer {
                space: Space::Arena { offset },
                bytes,
            });
            offset += bytes.next_multiple_of(64);
        }
        if matches!(self.primitive, Primitive::Prepare(_) | Primitive::Crop(_)) {
            buffers[0].space = Space::Camera(CameraId(0));
        }
        let mut arena = Block::new(offset as usize).unwrap();
        // What is not written stays at this value.
        arena.bytes_mut().fill(0xA5);
        for ((_, _, bytes), buffer) in self.inputs.iter().zip(&buffers) {
            if let Space::Arena { offset } = buffer.space {
                arena.bytes_mut()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        let outputs = views.split_off(self.inputs.len());
        let plan = plan(buffers);
        let operator = operator(self.primitive, views, outputs.clone());
        let kernel = compile(&plan, &operator).unwrap();
        let mut pixels = image.map_or(Vec::new(), |i| i.bytes.clone());
        let images = [crate::backend::cpu::arena::Span::of(&mut pixels)];
        let params = [image.map_or(ImageParams::default(), |i| i.params)];
        let none = Block::new(0).unwrap();
        let memory = Memory {
            arena: arena.span(),
            persistent: none.span(),
            input: none.span(),
            output: none.span(),
            images: &images,
            params: &params,
            weights: &[],
        };
        let mut scratch = Block::new(kernel.scratch_bytes()).unwrap();
        scratch.bytes_mut().fill(0xA5);
        let whole = Region::whole(outputs[0].layout.shape);
        match share {
            Share::Whole => kernel.run(&memory, &whole, 0..kernel.tiles(&whole), scratch.bytes_mut()),
            Share::Tiles => {
                for tile in (0..kernel.tiles(&whole)).rev() {
                    kernel.run(&memory, &whole, tile..tile + 1, scratch.bytes_mut());
                }
            }
            Share::Chunks => {
                let rows = self.primitive.splits(outputs[0].layout.shape).rows;
                for chunk in halves(&whole, rows).into_iter().rev() {
                    kernel.run(&memory, &chunk, 0..kernel.tiles(&chunk), scratch.bytes_mut());
                }
            }
        }
        let read = |view: &View| -> Vec<u8> {
            let size = view.dtype.bytes() as usize;
            let bytes = memory.buffer(plan.buffers[view.buffer.index()].space, plan.buffers[view.buffer.index()].bytes);
            let bytes: &[u8] = bytes.slice(0, bytes.len());
            elements(&view.layout)
                .flat_map(|at| bytes[at * size..(at + 1) * size].to_vec())
                .collect()
        };
        outputs.iter().map(read).collect()
    }
}

/// The bytes as elements.
pub fn cast<T: Pod>(bytes: &[u8]) -> Vec<T> {
    bytemuck::pod_collect_to_vec(bytes)
}

/// A seeded sequence of numbers below 2^31.
pub fn random(seed: u64) -> impl Iterator<Item = u32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    })
}

/// Two halves of a region, by rows where those may be cut and there are several.
fn halves(whole: &Region, rows: bool) -> Vec<Region> {
    if rows && whole.rows.len() > 1 {
        let middle = whole.rows.end / 2;
        let part = |rows| Region {
            batch: whole.batch.clone(),
            rows,
        };
        return vec![part(0..middle), part(middle..whole.rows.end)];
    }
    let middle = whole.batch.end / 2;
    let part = |batch| Region {
        batch,
        rows: whole.rows.clone(),
    };
    vec![part(0..middle), part(middle..whole.batch.end)]
}

fn extent(layout: &Layout) -> usize {
    layout.bounds().map_or(0, |(_, high)| high as usize + 1)
}

/// Positions of a layout's elements in C order.
fn elements(layout: &Layout) -> impl Iterator<Item = usize> + '_ {
    let dims = layout.shape.dims();
    (0..layout.shape.elements()).map(move |mut i| {
        let mut at = 0;
        for (axis, &d) in dims.iter().enumerate().rev() {
            at += (i % u64::from(d)) as i64 * layout.stride(axis);
            i /= u64::from(d);
        }
        at as usize
    })
}

fn operator(primitive: Primitive, inputs: Vec<View>, outputs: Vec<View>) -> Operator {
    let call = Call {
        primitive,
        inputs: inputs.into_iter().map(Operand::View).collect(),
        dtype: outputs[0].dtype,
        shape: outputs[0].layout.shape,
        rounding: Rounding::Kept,
    };
    Operator {
        tenant: TenantId(0),
        name: "op".to_owned(),
        calls: vec![call],
        chunks: vec![Region::whole(outputs[0].layout.shape)],
        outputs,
        class: ArithmeticClass {
            family: Family::Fma,
            split_k: 1,
        },
        tactic: Tactic {
            kernel: Kernel::Generic,
            tile: (0, 0),
        },
        width: 0,
    }
}

fn plan(buffers: Vec<Buffer>) -> Plan {
    Plan {
        task_set: String::new(),
        board: Digest([0; 32]),
        source: Digest([0; 32]),
        searcher: String::new(),
        cameras: Vec::new(),
        tenants: Vec::new(),
        weight_files: Vec::new(),
        sections: Vec::new(),
        buffers,
        operators: Vec::new(),
        streams: Vec::new(),
        cycle: Vec::new(),
        arena_bytes: 0,
        persistent_bytes: 0,
        input_bytes: 0,
        output_bytes: 0,
        prediction: Prediction {
            basis: Basis::Estimated,
            best_effort: true,
            frames: Vec::new(),
        },
    }
}
