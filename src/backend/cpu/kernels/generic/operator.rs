//! The generic kernel of an operator: its primitives one after another, tile by tile.
//!
//! A tile's share of every inner value is found backwards from its share of the output, halo rows included, and lies in
//! the worker's scratch: floats as f32, rounded to f16 where the plan says so, other types as they are. Neighbouring tiles
//! compute the rows they share twice; so a tile is made coarser until that costs less than half of the work again.

use super::routine::Routine;
use super::tiles::Tiling;
use super::value::{Cell, Place, Value};
use super::walk::Bounds;
use crate::backend::cpu::arena::{Bytes, Memory, Span};
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::kernels::CompileError;
use crate::limits::{MAX_BYTES, MAX_INPUTS, MAX_OUTPUTS, MAX_PRIMITIVES, MAX_RANK};
use crate::plan::format::{Call, Operand, Operator, Plan, Rounding, Space, View};
use crate::primitive::{Primitive, Region};
use crate::tensor::{DType, Shape};
use crate::units::align_up;
use std::ops::Range;

/// Alignment of the parts of the scratch.
const ALIGN: u64 = 64;

/// A tensor in the frame's memory.
struct Tensor {
    space: Space,
    bytes: u64,
    cell: Cell,
    place: Place,
}

impl Tensor {
    fn bind(plan: &Plan, view: &View) -> Result<Tensor, CompileError> {
        let buffer = plan.buffers.get(view.buffer.index()).ok_or(CompileError::Reference)?;
        Ok(Tensor {
            space: buffer.space,
            bytes: buffer.bytes,
            cell: Cell::of(view.dtype),
            place: Place::new(i64::try_from(view.origin).map_err(|_| CompileError::Reference)?, &view.layout),
        })
    }

    fn value<'a>(&self, memory: &Memory<'a>) -> Value<'a> {
        Value {
            bytes: memory.buffer(self.space, self.bytes),
            cell: self.cell,
            place: self.place,
        }
    }
}

enum Input {
    Tensor(Tensor),
    Inner(usize),
}

/// One primitive of the operator.
struct Stage {
    primitive: Primitive,
    routine: Routine,
    inputs: heapless::Vec<Input, MAX_INPUTS>,
    /// Shape of the first output.
    shape: Shape,
    /// How the first output lies in scratch, and where; of no meaning for the last stage.
    cell: Cell,
    slot: Range<usize>,
}

/// The shares of all primitives' first outputs that a tile computes.
type Shares = [Region; MAX_PRIMITIVES];

/// An operator compiled to run primitive by primitive.
pub struct Generic {
    stages: Vec<Stage>,
    outputs: heapless::Vec<Tensor, MAX_OUTPUTS>,
    tiling: Tiling,
    /// Bytes before the working memory, and floats in it.
    slots: usize,
    work: usize,
}

impl Generic {
    /// Compiles any operator of the primitives that [`Routine`] takes.
    ///
    /// # Errors
    /// What is wrong with an operator that is not from a checked plan; and intermediates beyond the limits' largest buffer.
    pub fn compile(plan: &Plan, operator: &Operator) -> Result<Generic, CompileError> {
        let last = operator.calls.len().checked_sub(1).ok_or(CompileError::Reference)?;
        if operator.calls.len() > MAX_PRIMITIVES {
            return Err(CompileError::Reference);
        }
        let mut stages: Vec<Stage> = Vec::with_capacity(operator.calls.len());
        for (index, call) in operator.calls.iter().enumerate() {
            let outputs: Vec<(DType, Shape)> = if index == last {
                operator.outputs.iter().map(|v| (v.dtype, v.layout.shape)).collect()
            } else {
                vec![(call.dtype, call.shape)]
            };
            let stage = Stage::compile(plan, &operator.calls[..index], call, &outputs);
            stages.push(stage.map_err(|e| e.at(index))?);
        }
        let mut bound = heapless::Vec::new();
        for view in &operator.outputs {
            bound.push(Tensor::bind(plan, view)?).map_err(|_| CompileError::Reference)?;
        }
        let shape = stages[last].shape;
        let mut kernel = Generic {
            tiling: Tiling::new(shape, stages[last].primitive.splits(shape)),
            work: stages.iter().map(|s| s.routine.work()).max().unwrap_or(0),
            stages,
            outputs: bound,
            slots: 0,
        };
        kernel.coarsen(shape);
        kernel.place_slots(&operator.chunks, shape)?;
        Ok(kernel)
    }

    /// Elements that the tiles of the whole output compute, all stages together.
    fn cost(&self, tiling: Tiling, whole: &Region) -> u64 {
        let stages = |shares: &Shares| -> u64 {
            let each = self.stages.iter().zip(shares);
            each.map(|(stage, share)| Bounds::of(stage.shape, share).elements()).sum()
        };
        tiling.tiles(whole).map(|tile| stages(&self.shares(&tile))).sum()
    }

    /// Makes tiles coarser until the rows computed twice cost less than half of the work again.
    fn coarsen(&mut self, shape: Shape) {
        let whole = Region::whole(shape);
        let each = self.stages.iter().zip(self.shares(&whole));
        let once: u64 = each.map(|(stage, share)| Bounds::of(stage.shape, &share).elements()).sum();
        while self.stages.len() > 1 && self.cost(self.tiling, &whole) > once + once / 2 {
            match self.tiling.coarser(shape) {
                Some(coarser) => self.tiling = coarser,
                None => break,
            }
        }
    }

    /// Lays out the scratch: room for the largest share of each inner value over all tiles of all chunks.
    fn place_slots(&mut self, chunks: &[Region], shape: Shape) -> Result<(), CompileError> {
        let mut rooms = [0u64; MAX_PRIMITIVES];
        let whole = Region::whole(shape);
        for region in chunks.iter().chain([&whole]) {
            for tile in self.tiling.tiles(region) {
                let shares = self.shares(&tile);
                for (room, (stage, share)) in rooms.iter_mut().zip(self.stages.iter().zip(&shares)) {
                    *room = (*room).max(Bounds::of(stage.shape, share).elements() * stage.cell.bytes() as u64);
                }
            }
        }
        let last = self.stages.len() - 1;
        let mut end = 0u64;
        for (stage, room) in self.stages[..last].iter_mut().zip(rooms) {
            let start = end;
            end = align_up(start + room, ALIGN).ok_or(CompileError::Scratch)?;
            stage.slot = start as usize..(start + room) as usize;
        }
        let work = (self.work as u64).checked_mul(4).ok_or(CompileError::Scratch)?;
        let total = end.checked_add(work).filter(|&n| n <= MAX_BYTES);
        total.ok_or(CompileError::Scratch)?;
        self.slots = end as usize;
        Ok(())
    }

    /// What each stage must compute for the share `tile` of the operator's output, found from the last stage back.
    fn shares(&self, tile: &Region) -> Shares {
        let mut shares: Shares = std::array::from_fn(|_| Region { batch: 0..0, rows: 0..0 });
        let last = self.stages.len() - 1;
        shares[last] = tile.clone();
        for (index, stage) in self.stages.iter().enumerate().rev() {
            if index < last {
                shares[index] = uncut(&stage.primitive, stage.shape, &shares[index]);
            }
            let share = shares[index].clone();
            for (k, input) in stage.inputs.iter().enumerate() {
                if let Input::Inner(j) = *input {
                    let needed = stage.primitive.needs(k, self.stages[j].shape, stage.shape, &share);
                    shares[j] = shares[j].hull(&needed);
                }
            }
        }
        shares
    }

    fn run_tile(&self, memory: &Memory<'_>, tile: &Region, scratch: Span<'_>) {
        let shares = self.shares(tile);
        let work = scratch.part(self.slots, self.work * 4).slice_mut::<f32>(0, self.work);
        let inner = |j: usize| {
            let stage = &self.stages[j];
            Value {
                bytes: Bytes::Shared(scratch.part(stage.slot.start, stage.slot.len())),
                cell: stage.cell,
                place: share_place(stage.shape, &shares[j]),
            }
        };
        for (index, stage) in self.stages.iter().enumerate() {
            if shares[index].is_empty() {
                continue;
            }
            let inputs: heapless::Vec<Value<'_>, MAX_INPUTS> = stage
                .inputs
                .iter()
                .map(|input| match input {
                    Input::Tensor(tensor) => tensor.value(memory),
                    Input::Inner(j) => inner(*j),
                })
                .collect();
            let outputs: heapless::Vec<Value<'_>, MAX_OUTPUTS> = if index + 1 == self.stages.len() {
                self.outputs.iter().map(|tensor| tensor.value(memory)).collect()
            } else {
                std::iter::once(inner(index)).collect()
            };
            stage.routine.run(&inputs, &outputs, &shares[index], work);
        }
    }
}

impl Stage {
    fn compile(plan: &Plan, earlier: &[Call], call: &Call, outputs: &[(DType, Shape)]) -> Result<Stage, CompileError> {
        let mut operands: heapless::Vec<(DType, Shape), MAX_INPUTS> = heapless::Vec::new();
        let mut inputs = heapless::Vec::new();
        for operand in &call.inputs {
            let (types, input) = match operand {
                Operand::View(view) => ((view.dtype, view.layout.shape), Input::Tensor(Tensor::bind(plan, view)?)),
                Operand::Inner(j) => {
                    let source = earlier.get(usize::from(*j)).ok_or(CompileError::Reference)?;
                    ((source.dtype, source.shape), Input::Inner(usize::from(*j)))
                }
            };
            operands.push(types).map_err(|_| CompileError::Reference)?;
            inputs.push(input).map_err(|_| CompileError::Reference)?;
        }
        let routine = Routine::new(&call.primitive, &operands, outputs).map_err(|e| CompileError::Primitive(0, e))?;
        Ok(Stage {
            primitive: call.primitive,
            shape: routine.output(),
            routine,
            inputs,
            cell: match (call.dtype, call.rounding) {
                (DType::F16, Rounding::Rounded) => Cell::Rounded,
                (DType::F16, Rounding::Kept) => Cell::F32,
                (dtype, _) => Cell::of(dtype),
            },
            slot: 0..0,
        })
    }
}

/// `share` with those axes whole that the primitive cannot be cut along.
fn uncut(primitive: &Primitive, shape: Shape, share: &Region) -> Region {
    if share.is_empty() {
        return share.clone();
    }
    let splits = primitive.splits(shape);
    let whole = Region::whole(shape);
    Region {
        batch: if splits.batch { share.batch.clone() } else { whole.batch },
        rows: if splits.rows { share.rows.clone() } else { whole.rows },
    }
}

/// Where the elements of `share` lie when it is stored on its own, densely in C order.
fn share_place(shape: Shape, share: &Region) -> Place {
    let bounds = Bounds::of(shape, share);
    let mut place = Place {
        origin: 0,
        strides: [0; MAX_RANK],
    };
    let mut step = 1i64;
    for axis in (0..shape.rank()).rev() {
        place.strides[axis] = step;
        place.origin -= i64::from(bounds.range(axis).start) * step;
        step *= bounds.len(axis) as i64;
    }
    place
}

impl Kernel for Generic {
    fn tiles(&self, region: &Region) -> u32 {
        self.tiling.count(region)
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        let scratch = Span::of(scratch);
        for tile in tiles {
            self.run_tile(memory, &self.tiling.tile(region, tile), scratch);
        }
    }

    fn scratch_bytes(&self) -> usize {
        self.slots + self.work * 4
    }
}
