//! Every primitive against a naive reference, on any layout, cut and composed in any way.

mod layouts;
mod operators;
mod reference;
mod resize;
mod rules;

use crate::backend::cpu::arena::{Block, ImageParams, Memory};
use crate::backend::cpu::fixture;
use crate::backend::cpu::kernels::Compiler;
use crate::backend::cpu::simd::Isa;
use crate::ids::BufferId;
use crate::plan::format::*;
use crate::primitive::{Primitive, Region, Window};
use crate::tensor::{DType, Layout, Shape, Tensor};

/// Bytes of a bench's arena.
const ARENA: usize = 4 << 20;

/// A seeded generator of small numbers (splitmix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// In `-2..2`, with a short mantissa so that values repeat now and then.
    fn value(&mut self) -> f64 {
        self.below(4096) as f64 / 1024.0 - 2.0
    }

    fn tensor(&mut self, dtype: DType, shape: Shape) -> Tensor {
        let values: Vec<f64> = (0..shape.elements())
            .map(|_| match dtype {
                DType::F32 | DType::F16 => self.value(),
                DType::I32 => self.below(41) as f64 - 20.0,
                DType::U8 => self.below(256) as f64,
                DType::Bool => self.below(2) as f64,
            })
            .collect();
        tensor_of(dtype, shape, &values)
    }
}

fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap()
}

fn tensor_of(dtype: DType, shape: Shape, values: &[f64]) -> Tensor {
    let mut bytes = Vec::new();
    for &v in values {
        match dtype {
            DType::F32 => bytes.extend((v as f32).to_le_bytes()),
            DType::F16 => bytes.extend(half::f16::from_f64(v).to_le_bytes()),
            DType::I32 => bytes.extend((v as i32).to_le_bytes()),
            DType::U8 | DType::Bool => bytes.push(v as u8),
        }
    }
    Tensor::from_bytes(dtype, shape, &bytes).unwrap()
}

fn f32s(dims: &[u32], values: &[f32]) -> Tensor {
    tensor_of(DType::F32, shape(dims), &values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>())
}

/// All coordinates of a shape, in C order.
fn coordinates(shape: Shape) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &d in shape.dims() {
        all = all
            .iter()
            .flat_map(|c| (0..d as usize).map(move |i| [&c[..], &[i]].concat()))
            .collect();
    }
    all
}

/// The element at `at`.
fn get(t: &Tensor, at: &[usize]) -> f64 {
    let flat = at.iter().zip(t.shape().dims()).fold(0, |flat, (&i, &d)| flat * d as usize + i);
    t.get_f64(flat).unwrap()
}

fn window(kernel: &[u32], stride: u32, dilation: u32, begin: u32, end: u32) -> Window {
    let mut w = Window::new(kernel);
    for a in 0..kernel.len() {
        (w.stride[a], w.dilation[a], w.pad_begin[a], w.pad_end[a]) = (stride, dilation, begin, end);
    }
    w
}

/// A primitive with operands to try it on.
struct Case {
    primitive: Primitive,
    inputs: Vec<Tensor>,
    outputs: Vec<(DType, Shape)>,
}

/// An operator under test with the memory it runs on: each tensor in an arena buffer of its own.
struct Bench {
    plan: Plan,
    arena: Block,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            plan: fixture::plan(vec![]),
            arena: Block::new(ARENA).unwrap(),
        }
    }

    /// A view in a buffer of its own, `layout` being anywhere inside it.
    fn view(&mut self, dtype: DType, layout: Layout) -> View {
        let (low, high) = layout.bounds().unwrap_or((0, -1));
        let bytes = (high - low + 1) as u64 * dtype.bytes();
        let offset = self.plan.arena_bytes;
        self.plan.arena_bytes = (offset + bytes).next_multiple_of(64);
        assert!(self.plan.arena_bytes <= ARENA as u64, "a larger arena is needed");
        self.plan.buffers.push(Buffer {
            space: Space::Arena { offset },
            bytes,
        });
        View {
            buffer: BufferId((self.plan.buffers.len() - 1) as u32),
            origin: low.unsigned_abs(),
            dtype,
            layout,
        }
    }

    /// Writes a tensor's elements, wherever the view has them.
    fn write(&mut self, view: &View, tensor: &Tensor) {
        let size = view.dtype.bytes() as usize;
        let start = self.start(view);
        for (i, at) in coordinates(view.layout.shape).iter().enumerate() {
            let to = start + self.element(view, at) * size;
            self.arena.bytes_mut()[to..to + size].copy_from_slice(&tensor.bytes()[i * size..(i + 1) * size]);
        }
    }

    fn read(&self, view: &View) -> Tensor {
        let size = view.dtype.bytes() as usize;
        let start = self.start(view);
        let mut bytes = vec![];
        for at in coordinates(view.layout.shape) {
            let from = start + self.element(view, &at) * size;
            bytes.extend(&self.arena.bytes()[from..from + size]);
        }
        Tensor::from_bytes(view.dtype, view.layout.shape, &bytes).unwrap()
    }

    fn start(&self, view: &View) -> usize {
        match self.plan.buffers[view.buffer.index()].space {
            Space::Arena { offset } => offset as usize,
            _ => unreachable!(),
        }
    }

    fn element(&self, view: &View, at: &[usize]) -> usize {
        let steps = at.iter().zip(view.layout.strides()).map(|(&i, &s)| i as i64 * s);
        (view.origin as i64 + steps.sum::<i64>()) as usize
    }

    /// Runs an operator over `chunks`, tiles last to first so that no order is relied on.
    fn run(&mut self, calls: Vec<Call>, outputs: Vec<View>, chunks: Vec<Region>) {
        let operator = fixture::operator(Kernel::Generic, calls, outputs);
        let kernel = Compiler::new(Isa::detect()).compile(&self.plan, &operator, &[]).unwrap();
        let mut scratch = Block::new(kernel.scratch_bytes()).unwrap();
        let nothing = Block::new(0).unwrap();
        let memory = Memory {
            arena: self.arena.span(),
            persistent: nothing.span(),
            input: nothing.span(),
            output: nothing.span(),
            images: &[],
            params: &[ImageParams::default()],
            weights: &[],
        };
        for chunk in chunks.iter().rev() {
            for tile in (0..kernel.tiles(chunk)).rev() {
                scratch.bytes_mut().fill(0xff);
                kernel.run(&memory, chunk, tile..tile + 1, scratch.bytes_mut());
            }
        }
    }
}

/// The tensors' bits agree, any NaN being like any other.
fn assert_same(a: &[Tensor], b: &[Tensor], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        assert_eq!((a.dtype(), a.shape()), (b.dtype(), b.shape()), "{what}");
        let size = a.dtype().bytes() as usize;
        for i in 0..a.len() {
            let nan = |t: &Tensor| t.get_f64(i).unwrap().is_nan();
            let bits = |t: &Tensor| t.bytes()[i * size..(i + 1) * size].to_vec();
            assert!(
                (nan(a) && nan(b)) || bits(a) == bits(b),
                "{what}: element {i} is {:?} here and {:?} there",
                a.get_f64(i),
                b.get_f64(i)
            );
        }
    }
}
