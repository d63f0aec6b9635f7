//! Operators on random tensors in a memory of their own, which the CPU backend can run too.

use crate::backend::cpu::fixture;
use crate::backend::cuda::bind::{self, Packer, Packs};
use crate::ids::{BufferId, SectionId};
use crate::plan::format::*;
use crate::plan::tactic::{Target, arithmetic_class};
use crate::primitive::{Binary, Primitive, Unary, Window};
use crate::tensor::{DType, Layout, Shape};
use std::sync::Mutex;

/// A seeded generator (splitmix64, Steele et al. 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// The bytes of `count` elements: floats in -2..2, small integers.
    fn bytes(&mut self, dtype: DType, count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            let float = self.below(1 << 20) as f32 / (1 << 18) as f32 - 2.0;
            match dtype {
                DType::F32 => bytes.extend(float.to_le_bytes()),
                DType::F16 => bytes.extend(half::f16::from_f32(float).to_le_bytes()),
                DType::I32 => bytes.extend((self.below(41) as i32 - 20).to_le_bytes()),
                DType::U8 => bytes.push(self.below(256) as u8),
                DType::Bool => bytes.push(self.below(2) as u8),
            }
        }
        bytes
    }
}

/// How a tensor lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// C order.
    Plain,
    /// Channels last.
    Pixels,
    /// A slice of a concatenation along channels, channels last; 8 channels before it and 8 behind.
    Slice,
    /// The same, 3 before it and 2 behind, so that nothing is aligned.
    OddSlice,
    /// Every axis but the last repeats.
    Row,
    /// Every axis but axis 1 repeats.
    Channels,
    /// One value for every pixel of a sample's channel.
    Gate,
    /// The axes in reverse order.
    Reversed,
}

/// A plan under construction, its arena, and its weight sections.
pub struct Bench {
    pub plan: Plan,
    pub arena: Vec<u8>,
    pub sections: Vec<Vec<u8>>,
    pub random: Random,
}

pub fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap()
}

impl Bench {
    /// The operator bound by its tactic, and what it has packed.
    pub fn compile(&self, operator: &Operator) -> (Box<dyn bind::Kernel>, Packs) {
        let sections: Vec<&[u8]> = self.sections.iter().map(Vec::as_slice).collect();
        let packs = Mutex::new(Packs::default());
        let packer = Packer {
            plan: &self.plan,
            sections: &sections,
            packs: &packs,
        };
        let kernel = bind::compile(&packer, operator).unwrap();
        (kernel, packs.into_inner().unwrap())
    }

    pub fn new(seed: u64) -> Bench {
        let mut plan = fixture::plan(Vec::new());
        plan.weight_files.push(WeightFile {
            digest: Digest([1; 32]),
            bytes: 0,
        });
        Bench {
            plan,
            arena: Vec::new(),
            sections: Vec::new(),
            random: Random(seed),
        }
    }

    /// A tensor of the arena with random elements all over its buffer.
    pub fn tensor(&mut self, dtype: DType, dims: &[u32], form: Form) -> View {
        let (layout, origin, elements) = lay(shape(dims), form);
        let offset = self.arena.len().next_multiple_of(64);
        self.arena.resize(offset, 0);
        let content = self.random.bytes(dtype, elements);
        self.arena.extend(&content);
        self.plan.arena_bytes = self.arena.len() as u64;
        self.plan.buffers.push(Buffer {
            space: Space::Arena { offset: offset as u64 },
            bytes: content.len() as u64,
        });
        self.view(origin, dtype, layout)
    }

    /// A tensor of the weights, its axes in storage in `order`, outermost first.
    pub fn constant(&mut self, dtype: DType, dims: &[u32], order: &[usize]) -> View {
        let layout = Layout::ordered(shape(dims), order);
        let content = self.random.bytes(dtype, shape(dims).elements());
        self.plan.buffers.push(Buffer {
            space: Space::Weights(SectionId(self.sections.len() as u32)),
            bytes: content.len() as u64,
        });
        self.plan.sections.push(Section {
            file: 0,
            offset: 64 * self.sections.len() as u64,
            bytes: content.len() as u64,
        });
        self.sections.push(content);
        self.view(0, dtype, layout)
    }

    fn view(&self, origin: u64, dtype: DType, layout: Layout) -> View {
        View {
            buffer: BufferId((self.plan.buffers.len() - 1) as u32),
            origin,
            dtype,
            layout,
        }
    }

    /// An operator of a head with its tail, in the class that it has on a GPU without wgmma; dense convolutions and products with
    /// constants, which have tensor cores there, in the class of fused multiply-adds.
    pub fn operator(&self, head: Primitive, inputs: &[View], tail: &[Link], outputs: &[View]) -> Operator {
        let (dtype, shape) = (outputs[0].dtype, outputs[0].layout.shape);
        let call = |primitive, inputs| Call {
            primitive,
            inputs,
            dtype,
            shape,
            rounding: Rounding::Rounded,
        };
        let mut calls = vec![call(head, inputs.iter().map(|v| Operand::View(*v)).collect())];
        for (index, link) in tail.iter().enumerate() {
            let running = Operand::Inner(index as u8);
            calls.push(match *link {
                Link::Of(kind) => call(Primitive::Unary(kind), vec![running]),
                Link::With(kind, view) => call(Primitive::Binary(kind), vec![running, Operand::View(view)]),
                Link::Behind(kind, view) => call(Primitive::Binary(kind), vec![Operand::View(view), running]),
                Link::Earlier(kind, value) => call(Primitive::Binary(kind), vec![running, Operand::Inner(value)]),
            });
        }
        let mut operator = fixture::operator(Kernel::Generic, calls, outputs.to_vec());
        let class = arithmetic_class(&self.plan, &operator, Target::Cuda { wgmma: false });
        let constant = |v: &View| matches!(self.plan.buffers[v.buffer.index()].space, Space::Weights(_));
        let computed = matches!(head, Primitive::Attention { .. } | Primitive::MatMul) && !inputs.iter().any(constant);
        if class.family == Family::Fma || computed {
            operator.class = class;
        }
        operator
    }
}

/// A call of a tail.
#[derive(Clone, Copy)]
pub enum Link {
    /// Of the running value.
    Of(Unary),
    /// Of the running value and a tensor.
    With(Binary, View),
    /// Of a tensor and the running value.
    Behind(Binary, View),
    /// Of the running value and an earlier one.
    Earlier(Binary, u8),
}

/// Layout, origin, and elements of the buffer.
fn lay(shape: Shape, form: Form) -> (Layout, u64, u64) {
    let rank = shape.rank();
    let sliced = |before: u32, behind: u32| {
        let wide = shape.with_dim(1, shape.dim(1) + before + behind).unwrap();
        let layout = Layout::new(shape, Layout::channels_last(wide).strides()).unwrap();
        (layout, u64::from(before), wide.elements())
    };
    let only = |axis: Option<usize>| {
        let strides: Vec<i64> = (0..rank).map(|a| i64::from(Some(a) == axis)).collect();
        (
            Layout::new(shape, &strides).unwrap(),
            0,
            axis.map_or(1, |a| u64::from(shape.dim(a))),
        )
    };
    match form {
        Form::Plain => (Layout::contiguous(shape), 0, shape.elements()),
        Form::Pixels => (Layout::channels_last(shape), 0, shape.elements()),
        Form::Slice => sliced(8, 8),
        Form::OddSlice => sliced(3, 2),
        Form::Row => only(rank.checked_sub(1)),
        Form::Channels => only(Some(1)),
        Form::Gate => {
            let (n, c) = (shape.dim(0), shape.dim(1));
            let mut strides = vec![0; rank];
            (strides[0], strides[1]) = (i64::from(c), 1);
            (Layout::new(shape, &strides).unwrap(), 0, u64::from(n * c))
        }
        Form::Reversed => {
            let order: Vec<usize> = (0..rank).rev().collect();
            (Layout::ordered(shape, &order), 0, shape.elements())
        }
    }
}

/// A 3x3 convolution of some pictures into results of a size, in the class that a target computes it in.
pub fn three_by_three(
    bench: &mut Bench,
    samples: u32,
    [inputs, outputs]: [u32; 2],
    size: [u32; 2],
    stride: u32,
    target: Target,
) -> Operator {
    let dtype = DType::F16;
    let x = bench.tensor(dtype, &[samples, inputs, size[0] * stride, size[1] * stride], Form::Slice);
    let weights = bench.constant(dtype, &[outputs, inputs, 3, 3], &[0, 2, 3, 1]);
    let bias = bench.constant(dtype, &[outputs], &[0]);
    let dims = [samples, outputs, size[0], size[1]];
    let y = bench.tensor(dtype, &dims, Form::Pixels);
    let window = Window {
        stride: [stride, stride, 1],
        pad_begin: [1, 1, 0],
        pad_end: [stride % 2, stride % 2, 0],
        ..Window::new(&[3, 3])
    };
    convolution(bench, (window, 1), [x, weights, bias], y, target)
}

/// A convolution in groups of so many channels, as many results as inputs, in the class that a target computes it in.
pub fn in_groups(bench: &mut Bench, extents: [u32; 4], group: u32, window: Window, form: Form, target: Target) -> Operator {
    let dtype = DType::F16;
    let [samples, channels, rows, columns] = extents;
    let x = bench.tensor(dtype, &extents, Form::Slice);
    let weights = bench.constant(dtype, &[channels, group, window.kernel[0], window.kernel[1]], &[0, 2, 3, 1]);
    let bias = bench.constant(dtype, &[channels], &[0]);
    let side = |axis, extent| window.output(axis, extent).unwrap();
    let dims = [samples, channels, side(0, rows), side(1, columns)];
    let y = bench.tensor(dtype, &dims, form);
    convolution(bench, (window, channels / group), [x, weights, bias], y, target)
}

/// A convolution of halves by a window in so many groups, in the class that a target computes it in.
fn convolution(bench: &Bench, (window, groups): (Window, u32), inputs: [View; 3], y: View, target: Target) -> Operator {
    let call = Call {
        primitive: Primitive::Conv { window, groups },
        inputs: inputs.map(Operand::View).to_vec(),
        dtype: DType::F16,
        shape: y.layout.shape,
        rounding: Rounding::Rounded,
    };
    let mut operator = fixture::operator(Kernel::Generic, vec![call], vec![y]);
    operator.class = arithmetic_class(&bench.plan, &operator, target);
    operator
}
