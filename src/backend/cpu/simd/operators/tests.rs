//! Operators of every form on every instruction set: the bits of their primitives on the generic kernels, and on every
//! processor the bits that are stored here.

use super::{Context, Packings, compile};
use crate::backend::cpu::arena::{Block, ImageParams, Memory, ReadSpan};
use crate::backend::cpu::eval::eval;
use crate::backend::cpu::fixture;
use crate::backend::cpu::simd::{Isa, Kernels};
use crate::ids::{BufferId, SectionId};
use crate::plan::format::*;
use crate::plan::tactic::fits;
use crate::primitive::*;
use crate::tensor::{DType, Data, Layout, Shape, Tensor};

/// Where an operand comes from.
enum Source {
    /// The arena.
    Data(Tensor),
    /// The weight file.
    Weights(Tensor),
    /// The primitive before.
    Previous,
}
use Source::{Data as Input, Previous, Weights};

/// An operator: its primitives with their operands and shapes.
struct Trial {
    name: &'static str,
    /// First digits of the SHA-256 of the output's elements in C order, computed on x86-64.
    golden: &'static str,
    kernel: Kernel,
    /// How activations lie in memory.
    layout: fn(Shape) -> Layout,
    calls: Vec<(Primitive, Vec<Source>, Shape)>,
}

/// Seeded floats in `-2..2` with full mantissas, so that every order of summation has bits of its own.
struct Random(u64);

impl Random {
    fn tensor(&mut self, dims: &[u32]) -> Tensor {
        let shape = shape(dims);
        let float = |_| {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f32 / (1 << 22) as f32 - 2.0
        };
        Tensor::new(shape, Data::F32((0..shape.elements()).map(float).collect())).unwrap()
    }

    fn input(&mut self, dims: &[u32]) -> Source {
        Input(self.tensor(dims))
    }

    fn weights(&mut self, dims: &[u32]) -> Source {
        Weights(self.tensor(dims))
    }
}

fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap()
}

/// A square window.
fn window(kernel: u32, stride: u32, dilation: u32, pad: u32) -> Window {
    let mut window = Window::new(&[kernel, kernel]);
    window.stride = [stride, stride, 1];
    window.dilation = [dilation, dilation, 1];
    window.pad_begin = [pad, pad, 0];
    window.pad_end = [pad, pad, 0];
    window
}

fn conv(window: Window, groups: u32) -> Primitive {
    Primitive::Conv { window, groups }
}

fn convolutions(r: &mut Random) -> Vec<Trial> {
    let layout = Layout::channels_last;
    let half = shape(&[2, 24, 9, 8]);
    let wide = shape(&[1, 40, 7, 11]);
    let dilated = shape(&[1, 18, 12, 9]);
    let deep = shape(&[1, 37, 6, 9]);
    let up = shape(&[1, 7, 10, 14]);
    vec![
        Trial {
            name: "a strided convolution with silu and a sum",
            golden: "79e7619329c6f9c1",
            kernel: Kernel::ConvIgemm,
            layout,
            calls: vec![
                (
                    conv(window(3, 2, 1, 1), 1),
                    vec![r.input(&[2, 3, 17, 15]), r.weights(&[24, 3, 3, 3]), r.weights(&[24])],
                    half,
                ),
                (Primitive::Unary(Unary::Silu), vec![Previous], half),
                (Primitive::Binary(Binary::Add), vec![Previous, r.input(half.dims())], half),
            ],
        },
        Trial {
            name: "a convolution of single pixels with leaky relu",
            golden: "e1f716361c1adbf6",
            kernel: Kernel::ConvIgemm,
            layout,
            calls: vec![
                (
                    conv(window(1, 1, 1, 0), 1),
                    vec![r.input(&[1, 53, 7, 11]), r.weights(&[40, 53, 1, 1])],
                    wide,
                ),
                (Primitive::Unary(Unary::LeakyRelu(Scalar(0.1))), vec![Previous], wide),
            ],
        },
        Trial {
            name: "a dilated convolution in groups",
            golden: "2126d3649d5046c6",
            kernel: Kernel::ConvIgemm,
            layout,
            calls: vec![(
                conv(window(3, 1, 2, 2), 2),
                vec![r.input(&[1, 10, 12, 9]), r.weights(&[18, 5, 3, 3]), r.weights(&[18])],
                dilated,
            )],
        },
        Trial {
            name: "a depthwise convolution with hard swish",
            golden: "fac6e629f620bbc4",
            kernel: Kernel::ConvDepthwise,
            layout,
            calls: vec![
                (
                    conv(window(5, 2, 1, 2), 37),
                    vec![r.input(&[1, 37, 11, 17]), r.weights(&[37, 1, 5, 5]), r.weights(&[37])],
                    deep,
                ),
                (Primitive::Unary(Unary::HardSwish), vec![Previous], deep),
            ],
        },
        Trial {
            name: "a transposed convolution with tanh",
            golden: "42fb6ff5e109d069",
            kernel: Kernel::ConvTranspose,
            layout,
            calls: vec![
                (
                    Primitive::ConvTranspose {
                        window: window(4, 2, 1, 1),
                        groups: 1,
                    },
                    vec![r.input(&[1, 19, 5, 7]), r.weights(&[19, 7, 4, 4]), r.weights(&[7])],
                    up,
                ),
                (Primitive::Unary(Unary::Tanh), vec![Previous], up),
            ],
        },
    ]
}

fn matrices(r: &mut Random) -> Vec<Trial> {
    let out = |batch| shape(&[batch, 13, 37]);
    // A constant right matrix serves all rows of one batch and is packed ahead of time.
    let mut product = |name, golden, layout, batch, right: fn(&mut Random, &[u32]) -> Source| Trial {
        name,
        golden,
        kernel: Kernel::MatMul,
        layout,
        calls: vec![
            (
                Primitive::MatMul,
                vec![r.input(&[batch, 13, 41]), right(r, &[batch, 41, 37])],
                out(batch),
            ),
            (
                Primitive::Binary(Binary::Sub),
                vec![r.input(out(batch).dims()), Previous],
                out(batch),
            ),
        ],
    };
    vec![
        product(
            "a product of computed matrices",
            "837688be7f374a23",
            Layout::contiguous,
            2,
            Random::input,
        ),
        product(
            "a product stored by columns",
            "28a184b00aaca968",
            Layout::channels_last,
            2,
            Random::input,
        ),
        product("a product by constants", "a6166ae8ca7b677c", Layout::contiguous, 1, Random::weights),
        Trial {
            name: "a softmax",
            golden: "172d33ba2aba7c3b",
            kernel: Kernel::Softmax,
            layout: Layout::contiguous,
            calls: vec![(Primitive::Softmax { axis: 2 }, vec![r.input(out(2).dims())], out(2))],
        },
    ]
}

fn pixels(r: &mut Random) -> Vec<Trial> {
    let layout = Layout::channels_last;
    let picture = [1, 21, 9, 14];
    let pooled = shape(&[1, 21, 5, 7]);
    let resized = shape(&[1, 21, 12, 20]);
    let mut scales = [Scalar(1.0); crate::limits::MAX_RANK];
    (scales[2], scales[3]) = (Scalar(12.0 / 9.0), Scalar(20.0 / 14.0));
    let mut alone = |name, golden, kernel, primitive, out| Trial {
        name,
        golden,
        kernel,
        layout,
        calls: vec![(primitive, vec![r.input(&picture)], out)],
    };
    let max = PoolKind::Max { column_major: false };
    let average = PoolKind::Average { count_pad: false };
    let mut trials = vec![
        alone(
            "a largest of windows",
            "7691b780517b4f2b",
            Kernel::Pool,
            Primitive::Pool {
                kind: max,
                window: window(3, 2, 1, 1),
            },
            pooled,
        ),
        alone(
            "a mean of windows",
            "53bb5fa615cbb323",
            Kernel::Pool,
            Primitive::Pool {
                kind: average,
                window: window(3, 2, 1, 1),
            },
            pooled,
        ),
        alone(
            "a mean of all pixels",
            "15407550ed021232",
            Kernel::Reduce,
            Primitive::Reduce {
                kind: ReduceKind::Mean,
                axes: 0b1100,
            },
            shape(&[1, 21, 1, 1]),
        ),
        alone(
            "a bilinear resize",
            "b1c6e96becaa91dd",
            Kernel::Resize,
            Primitive::Resize(Resize {
                mode: ResizeMode::Linear { antialias: false },
                coordinates: Coordinates::HalfPixel,
                scales,
            }),
            resized,
        ),
    ];
    let s = shape(&picture);
    trials.push(Trial {
        name: "a chain of functions",
        golden: "d1513e9627336014",
        kernel: Kernel::Elementwise,
        layout,
        calls: vec![
            (Primitive::Unary(Unary::Sigmoid), vec![r.input(&picture)], s),
            (Primitive::Binary(Binary::Mul), vec![Previous, r.input(&picture)], s),
            (Primitive::Unary(Unary::Exp), vec![Previous], s),
            (Primitive::Unary(Unary::Sqrt), vec![Previous], s),
            (Primitive::Binary(Binary::Div), vec![r.input(&picture), Previous], s),
            (Primitive::Unary(Unary::Clip(Scalar(-1.0), Scalar(1.5))), vec![Previous], s),
        ],
    });
    trials
}

fn recurrences(r: &mut Random) -> Vec<Trial> {
    let lstm = |reverse| Primitive::Lstm { reverse };
    vec![
        layer(r, "a recurrent layer", "6ebf00fbc2068ef3", lstm(true), [5, 15, 19], 2),
        layer(r, "a recurrent layer from zeros", "6630549fce02eb1a", lstm(false), [3, 2, 32], 0),
    ]
}

fn gated_units(r: &mut Random) -> Vec<Trial> {
    let gru = |reverse| Primitive::Gru { reverse };
    vec![
        layer(r, "a layer of gated units", "3e9d0d4a0af24c00", gru(true), [5, 15, 19], 1),
        layer(
            r,
            "a layer of gated units from zeros",
            "3274a73e2640989d",
            gru(false),
            [3, 2, 32],
            0,
        ),
    ]
}

fn resizes(r: &mut Random) -> Vec<Trial> {
    let mut scales = [Scalar(1.0); crate::limits::MAX_RANK];
    (scales[2], scales[3]) = (Scalar(12.0 / 9.0), Scalar(20.0 / 14.0));
    let resize = Resize {
        mode: ResizeMode::Nearest(Nearest::RoundPreferFloor),
        coordinates: Coordinates::HalfPixel,
        scales,
    };
    vec![Trial {
        name: "a resize by the nearest",
        golden: "8ba585c671456a37",
        kernel: Kernel::Resize,
        layout: Layout::channels_last,
        calls: vec![(Primitive::Resize(resize), vec![r.input(&[1, 37, 9, 14])], shape(&[1, 37, 12, 20]))],
    }]
}

/// A recurrent layer with so many initial states.
fn layer(
    r: &mut Random,
    name: &'static str,
    golden: &'static str,
    primitive: Primitive,
    [steps, rows, hidden]: [u32; 3],
    states: usize,
) -> Trial {
    let mut operands = vec![r.input(&[steps, rows, 4 * hidden]), r.weights(&[4 * hidden, hidden])];
    operands.extend((0..states).map(|_| r.input(&[rows, hidden])));
    Trial {
        name,
        golden,
        kernel: Kernel::Recurrent,
        layout: Layout::contiguous,
        calls: vec![(primitive, operands, shape(&[steps, rows, hidden]))],
    }
}

/// Functions that no other trial has, so that their bits are stored too.
fn functions(r: &mut Random) -> Vec<Trial> {
    let out = shape(&[3, 5, 130]);
    let chain = |name, golden, functions: &[Unary], first: Source| {
        let mut operand = Some(first);
        let call = |&function| (Primitive::Unary(function), vec![operand.take().unwrap_or(Previous)], out);
        Trial {
            name,
            golden,
            kernel: Kernel::Elementwise,
            layout: Layout::contiguous,
            calls: functions.iter().map(call).collect(),
        }
    };
    use Unary::*;
    vec![
        chain(
            "gelu of a logarithm",
            "a0a276795b8fd8bd",
            &[Abs, Log, Gelu, Tanh],
            r.input(out.dims()),
        ),
        chain(
            "a bent error function",
            "0ea9753d4b278049",
            &[GeluTanh, Erf, Exp],
            r.input(out.dims()),
        ),
        chain(
            "roundings",
            "ba174bdf499e8ca8",
            &[Exp, Round, Log, Floor, Neg, Ceil],
            r.input(out.dims()),
        ),
    ]
}

fn trials() -> Vec<Trial> {
    let mut r = Random(3);
    [
        convolutions(&mut r),
        matrices(&mut r),
        pixels(&mut r),
        recurrences(&mut r),
        functions(&mut r),
        gated_units(&mut r),
        resizes(&mut r),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Trial {
    fn out(&self) -> Shape {
        self.calls[self.calls.len() - 1].2
    }

    /// Each primitive on its own, on the generic kernels: the elements in C order.
    fn plainly(&self) -> Vec<f32> {
        let mut last: Option<Tensor> = None;
        for (primitive, sources, out) in &self.calls {
            let mut operands: Vec<&Tensor> = Vec::new();
            for source in sources {
                operands.push(match source {
                    Input(tensor) | Weights(tensor) => tensor,
                    Previous => last.as_ref().unwrap(),
                });
            }
            let result = eval(primitive, &operands, &[(DType::F32, *out)]).unwrap().remove(0);
            last = Some(result);
        }
        last.unwrap().as_f32().unwrap().to_vec()
    }

    /// As one operator on the kernels of `isa`, one chunk a row or all rows in one, tiles last to first.
    fn fused(&self, isa: Isa, by_rows: bool) -> Vec<f32> {
        let mut memory = Setting::default();
        let mut calls = Vec::new();
        for (index, (primitive, sources, out)) in self.calls.iter().enumerate() {
            let operand = |source: &Source| match source {
                Input(tensor) => Operand::View(memory.arena((self.layout)(tensor.shape()), tensor.as_f32().unwrap())),
                Weights(tensor) => Operand::View(memory.weights(tensor)),
                Previous => Operand::Inner(index as u8 - 1),
            };
            calls.push(Call {
                primitive: *primitive,
                inputs: sources.iter().map(operand).collect(),
                dtype: DType::F32,
                shape: *out,
                rounding: Rounding::Kept,
            });
        }
        let out = memory.arena((self.layout)(self.out()), &vec![f32::NAN; self.out().elements() as usize]);
        let operator = fixture::operator(self.kernel, calls, vec![out]);
        memory.run(isa, &operator, by_rows);
        memory.read(&out)
    }
}

/// The memory that a trial runs on.
#[derive(Default)]
struct Setting {
    arena: Vec<f32>,
    buffers: Vec<Buffer>,
    sections: Vec<Vec<f32>>,
}

/// Where the elements of a layout lie, in C order of its shape.
fn places(layout: &Layout) -> impl Iterator<Item = usize> {
    let (shape, strides) = (layout.shape, layout.strides().to_vec());
    (0..shape.elements()).map(move |flat| {
        let mut rest = flat;
        let axes = (0..shape.rank()).rev().map(|a| {
            let extent = u64::from(shape.dim(a));
            let at = rest % extent;
            rest /= extent;
            at as usize * strides[a] as usize
        });
        axes.sum()
    })
}

impl Setting {
    fn view(&mut self, space: Space, layout: Layout) -> View {
        let bytes = layout.shape.elements() * 4;
        self.buffers.push(Buffer { space, bytes });
        View {
            buffer: BufferId(self.buffers.len() as u32 - 1),
            origin: 0,
            dtype: DType::F32,
            layout,
        }
    }

    /// A view of its own in the arena, holding `values` given in C order.
    fn arena(&mut self, layout: Layout, values: &[f32]) -> View {
        let start = self.arena.len().next_multiple_of(16);
        self.arena.resize(start + values.len(), 0.0);
        for (place, &value) in places(&layout).zip(values) {
            self.arena[start + place] = value;
        }
        self.view(Space::Arena { offset: start as u64 * 4 }, layout)
    }

    fn weights(&mut self, tensor: &Tensor) -> View {
        self.sections.push(tensor.as_f32().unwrap().to_vec());
        let section = SectionId(self.sections.len() as u32 - 1);
        self.view(Space::Weights(section), Layout::contiguous(tensor.shape()))
    }

    fn read(&self, view: &View) -> Vec<f32> {
        let Space::Arena { offset } = self.buffers[view.buffer.index()].space else {
            unreachable!("results lie in the arena");
        };
        places(&view.layout).map(|place| self.arena[offset as usize / 4 + place]).collect()
    }

    fn run(&mut self, isa: Isa, operator: &Operator, by_rows: bool) {
        let files: Vec<&[u8]> = self.sections.iter().map(|s| bytemuck::cast_slice(s)).collect();
        let mut plan = fixture::plan(self.buffers.clone());
        for (index, bytes) in files.iter().enumerate() {
            let (file, bytes, digest) = (index as u32, bytes.len() as u64, Digest::of(bytes));
            plan.weight_files.push(WeightFile { digest, bytes });
            plan.sections.push(Section { file, offset: 0, bytes });
        }
        fits(&plan, operator).unwrap();
        let sections: Vec<ReadSpan<'_>> = files.iter().map(|bytes| ReadSpan::new(bytes)).collect();
        let context = Context {
            kernels: Kernels::for_isa(isa).unwrap(),
            plan: &plan,
            sections: &sections,
        };
        let kernel = compile(&context, operator, &mut Packings::default()).unwrap();
        let mut arena = Block::new(self.arena.len() * 4).unwrap();
        arena.bytes_mut().copy_from_slice(bytemuck::cast_slice(&self.arena));
        let mut scratch = Block::new(kernel.scratch_bytes()).unwrap();
        let nothing = Block::new(0).unwrap();
        let memory = Memory {
            arena: arena.span(),
            persistent: nothing.span(),
            input: nothing.span(),
            output: nothing.span(),
            images: &[],
            params: &[ImageParams::default()],
            weights: &sections,
        };
        let whole = &operator.chunks[0];
        let row = |rows: u32| Region {
            batch: whole.batch.clone(),
            rows: rows..rows + 1,
        };
        let chunks = if by_rows {
            whole.rows.clone().map(row).collect()
        } else {
            vec![whole.clone()]
        };
        for chunk in chunks.iter().rev() {
            for tile in (0..kernel.tiles(chunk)).rev() {
                scratch.bytes_mut().fill(0xff);
                kernel.run(&memory, chunk, tile..tile + 1, scratch.bytes_mut());
            }
        }
        self.arena.copy_from_slice(bytemuck::cast_slice(arena.bytes()));
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn every_instruction_set_gives_the_bits_of_the_generic_kernels() {
    for trial in trials() {
        let expected = bits(&trial.plainly());
        for isa in Isa::available() {
            for by_rows in [false, true] {
                let found = bits(&trial.fused(isa, by_rows));
                let unequal = found.iter().zip(&expected).filter(|(f, e)| f != e).count();
                assert_eq!(unequal, 0, "{}, {}, by rows: {by_rows}", trial.name, isa.name());
            }
        }
    }
}

#[test]
fn every_processor_gives_the_stored_bits() {
    let told = |trial: &Trial| {
        let bytes: Vec<u8> = trial.plainly().iter().flat_map(|v| v.to_le_bytes()).collect();
        (trial.name, Digest::of(&bytes).to_string()[..16].to_owned())
    };
    let found: Vec<_> = trials().iter().map(told).collect();
    let stored: Vec<_> = trials().iter().map(|t| (t.name, t.golden.to_owned())).collect();
    assert_eq!(found, stored);
}
